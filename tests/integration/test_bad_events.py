"""Broken events between good ones: every good one is predicted, every broken one is a dead letter, and nothing stops."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from broken_events import ARRAY, BROKEN_ARRAY, BROKEN_NAMED, MAX_BYTES, NAMED, BrokenEvent, good_array, good_named
from recompute import decoded, offset_of, recompute
from workers import Application, Record, Workers, publish, read_topic

from streamlearn.kafka.local_broker import LocalBroker

pytestmark = pytest.mark.integration

NAMED_STREAM: dict[str, Any] = {
    "id": NAMED.id,
    "key": NAMED.key,
    "time": NAMED.time,
    "label": NAMED.label,
    "numeric": NAMED.numeric,
    "boolean": NAMED.boolean,
    "categorical": NAMED.categorical,
}
ARRAY_STREAM: dict[str, Any] = {"array": ARRAY.array, "dim": ARRAY.dim}


@pytest.mark.parametrize(
    ("stream", "good", "broken"),
    [
        pytest.param(NAMED_STREAM, good_named, BROKEN_NAMED, id="named fields"),
        pytest.param(ARRAY_STREAM, good_array, BROKEN_ARRAY, id="array"),
    ],
)
def test_good_events_are_predicted_and_broken_ones_are_dead_letters(
    broker: LocalBroker,
    unique: Callable[[str], str],
    tmp_path: Path,
    workers: Workers,
    stream: dict[str, Any],
    good: Callable[[int], dict[str, Any]],
    broken: Sequence[BrokenEvent],
) -> None:
    assert len(broken) >= 30
    learner = {"name": "fogd", "frequencies": 20}
    table = {"name": unique("flights"), "max_bytes": MAX_BYTES, "learner": learner, **stream}
    application = Application(broker.bootstrap, tmp_path, unique("app"), [table])
    topic = application.stream.input_topic
    reasons: dict[int, str] = {}
    records: list[Record] = []
    for number, event in enumerate(broken):
        records += [Record(b"key", json.dumps(good(10 * number + i)).encode()) for i in range(10)]
        reasons[len(records)] = str(event.reason)
        records.append(Record(f"key of {event.name}".encode(), event.value))
    publish(application.bootstrap, topic, records)

    worker = workers.start(application.file)
    application.await_end()
    assert worker.stop() == 0

    [messages] = application.input().values()
    [predictions] = application.output().values()
    [letters] = read_topic(application.bootstrap, application.stream.dead_letter_topic).values()
    expected = recompute(application.stream, "float32", messages)
    assert expected.rejected == reasons
    assert decoded(predictions) == list(expected.predictions.values())
    assert len(predictions) == 10 * len(broken)

    assert len(letters) == len(broken)
    for letter, (offset, reason) in zip(letters, reasons.items(), strict=True):
        headers = dict(letter.headers() or [])
        assert (headers["topic"], headers["partition"], headers["offset"]) == (topic.encode(), b"0", str(offset).encode())
        assert (headers["reason"], letter.key(), letter.value()) == (reason.encode(), *records[offset])
        assert headers["detail"]
        assert offset_of(messages[offset]) == offset
