"""Whatever bytes arrive: nothing is raised, nothing is lost, and no event changes what becomes of another."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from broken_events import ARRAY, BROKEN_ARRAY, BROKEN_NAMED, NAMED, good_array, good_named
from hypothesis import given
from hypothesis import strategies as st

from streamlearn.events.columns import EventFormat, Events, Predictions, Rejected
from streamlearn.events.decode import Decoder
from streamlearn.events.encode import Encoder, event_encoder
from streamlearn.events.fields import Reason

FORMS = [replace(form, encoding=encoding) for form in (NAMED, ARRAY) for encoding in ("json", "msgpack")]
TASKS = [replace(ARRAY, task=task, encoding=encoding) for task in ("regression", "multiclass") for encoding in ("json", "msgpack")]
DECODERS = [Decoder(form, dtype) for form in (*FORMS, *TASKS) for dtype in ("float32", "float64")]
GOOD = [event_encoder(encoding)(event) for encoding in ("json", "msgpack") for n in range(4) for event in (good_named(n), good_array(n))]
BROKEN = [broken.value for broken in (*BROKEN_NAMED, *BROKEN_ARRAY)]

scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=5)
nearly_events = st.dictionaries(
    st.sampled_from(["id", "carrier", "time", "late", "delay", "distance", "holiday", "origin", "destination", "label", "x", "more"]),
    scalars | st.lists(scalars, max_size=5) | st.dictionaries(st.sampled_from("0123456"), scalars),
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good event with a few bytes replaced, removed or put in."""
    data = bytearray(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        data[start : start + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(data)


values = st.one_of(
    st.none(),
    st.binary(max_size=60),
    damaged(),
    nearly_events.map(msgspec.json.encode),
    nearly_events.map(msgspec.msgpack.encode),
    st.sampled_from(GOOD),
    st.sampled_from(BROKEN),
)
records = st.tuples(values, st.none() | st.binary(max_size=6), st.floats(0, 2e9))


def decode(decoder: Decoder, batch: Sequence[tuple[bytes | None, bytes | None, float]]) -> tuple[Events, list[Rejected]]:
    return decoder.decode([value for value, _, _ in batch], [key for _, key, _ in batch], [time for _, _, time in batch])


def as_rows(decoded: tuple[Events, list[Rejected]], first: int = 0) -> list[tuple[Any, ...]]:
    """All that came of a batch, an entry per event, to the bit, with types."""
    events, rejected = decoded
    columns = zip(events.rows.tolist(), events.ids, events.keys, events.times, events.X, events.y, events.labels, strict=True)
    good = [(first + row, repr(i), key, t.tobytes(), x.tobytes(), y.tobytes(), repr(label)) for row, i, key, t, x, y, label in columns]
    return sorted([*good, *((first + row, *why) for row, *why in rejected)], key=lambda entry: entry[0])


@given(st.sampled_from(DECODERS), st.lists(records, max_size=8))
def test_every_event_is_decoded_or_rejected_once(decoder: Decoder, batch: list[tuple[bytes | None, bytes | None, float]]) -> None:
    events, rejected = decode(decoder, batch)
    assert sorted([*events.rows.tolist(), *(row for row, _, _ in rejected)]) == list(range(len(batch)))
    assert np.all(np.diff(events.rows) > 0)
    assert events.X.shape == (len(events.rows), decoder.dim)
    assert np.isfinite(events.X).all()
    assert np.isfinite(events.times).all()
    assert not np.isinf(events.y).any()
    assert all(reason in set(Reason) and len(detail) < 300 and detail.isprintable() for _, reason, detail in rejected)
    for text in (*events.keys, *(detail for _, _, detail in rejected)):
        text.encode()


@given(st.sampled_from(DECODERS), st.lists(records, min_size=1, max_size=8), st.data())
def test_no_event_disturbs_another(decoder: Decoder, batch: list[tuple[bytes | None, bytes | None, float]], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(batch)))
    parts = as_rows(decode(decoder, batch[:cut])) + as_rows(decode(decoder, batch[cut:]), first=cut)
    assert as_rows(decode(decoder, batch)) == parts


finite = st.floats(-(2.0**99), 2.0**99, width=32)


@given(st.sampled_from(["json", "msgpack"]), st.lists(st.lists(finite, min_size=3, max_size=3), min_size=1, max_size=5))
def test_features_come_back_bit_for_bit(encoding: Any, rows: list[list[float]]) -> None:
    named = EventFormat(encoding=encoding, numeric=("a", "b", "c"))
    array = EventFormat(encoding=encoding, array="x", dim=3)
    encode = event_encoder(encoding)
    batches = [
        (named, [encode(dict(zip("abc", row, strict=True))) for row in rows]),
        (array, [encode({"x": row}) for row in rows]),
        (array, [encode({"x": dict(enumerate(row))}) for row in rows]),
    ]
    if encoding == "msgpack":
        batches.append((array, [encode({"x": np.array(row, "<f4").tobytes()}) for row in rows]))
    for form, events in batches:
        for dtype in (np.float32, np.float64):
            decoded, rejected = Decoder(form, dtype).decode(events, [None] * len(events), [0.0] * len(events))
            assert rejected == []
            assert decoded.X.tobytes() == np.array(rows, dtype).tobytes()


@given(
    st.sampled_from(["json", "msgpack"]), st.text(max_size=20), st.none() | st.text(max_size=5) | st.integers(-(2**63), 2**63 - 1), finite
)
def test_prediction_comes_back_as_it_was(encoding: Any, key: str, label: str | int | None, score: float) -> None:
    events = Events(
        rows=np.zeros(1, np.int64), ids=[label], keys=[key], times=np.zeros(1), X=np.zeros((1, 1)), y=np.zeros(1), labels=[label]
    )  # fmt: skip
    predictions = Predictions(
        scores=np.array([[score]], np.float32),
        predictions=[label],
        mistakes=[None],
        wrong=np.zeros(0, np.bool_),
        learned=np.array([7]),
        classes=(),
    )
    (record,) = Encoder(encoding, "ogd", "1").encode(events, predictions, "t", 0, [2**40])
    back = json.loads(record) if encoding == "json" else msgspec.msgpack.decode(record)
    assert (back["key"], back["id"], back["label"], back["prediction"]) == (key, label, label, label)
    assert (back["score"], back["learned"], back["offset"]) == (score, 7, 2**40)
