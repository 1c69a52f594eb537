import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from broken_events import good_array, good_named
from jsonschema import Draft202012Validator

from streamlearn.events.columns import Events, Label, Predictions
from streamlearn.events.encode import Encoder, event_encoder

SCHEMAS = Path(__file__).parents[3] / "topics"


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def columns(
    scores: Sequence[Sequence[float]], said: Sequence[Label | None], labels: Sequence[Label | None], mistakes: Sequence[bool | None],
    classes: Sequence[Label] = (),
) -> tuple[Events, Predictions]:  # fmt: skip
    n = len(scores)
    events = Events(
        rows=np.arange(n),
        ids=[None, "b", 3][:n],
        keys=["", "zoë", "k"][:n],
        times=np.zeros(n),
        X=np.zeros((n, 1)),
        y=np.zeros(n),
        labels=labels,
    )
    wrong, learned = np.array([mistake for mistake in mistakes if mistake is not None], np.bool_), np.arange(n) + 5
    return events, Predictions(scores=np.array(scores), predictions=said, mistakes=mistakes, wrong=wrong, learned=learned, classes=classes)


BINARY = columns([[0.5], [-1.25], [float(np.float32(0.1))]], [1, -1, 1], [1, True, None], [False, True, None])
REGRESSION = columns([[0.5], [1e300]], [0.5, 1e300], [0.25, None], [None, None])
MULTICLASS = columns(
    [[0.5, -1.0, -np.inf], [-np.inf] * 3, [1, 2, 3]], ["a", None, 7], ["a", True, None], [False, True, None], classes=("a", True, 7)
)
NO_CLASS_YET = columns([[-np.inf, -np.inf]], [None], ["a"], [True])


def encode(encoding: Any, pair: tuple[Events, Predictions]) -> list[dict[str, Any]]:
    events, predictions = pair
    offsets = range(100, 100 + len(events.rows))
    records = Encoder(encoding, "fogd", "1f2e").encode(events, predictions, "flights.events", 3, offsets)
    decode = json.loads if encoding == "json" else msgspec.msgpack.decode
    return [decode(record) for record in records]


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
def test_record_is_one_flat_object(encoding: str) -> None:
    assert encode(encoding, BINARY)[1] == {
        "id": "b",
        "key": "zoë",
        "prediction": -1,
        "score": -1.25,
        "label": True,
        "mistake": True,
        "learner": "fogd",
        "version": "1f2e",
        "learned": 6,
        "topic": "flights.events",
        "partition": 3,
        "offset": 101,
    }


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
def test_scores_come_back_bit_for_bit(encoding: str) -> None:
    assert [record["score"] for record in encode(encoding, BINARY)] == [0.5, -1.25, float(np.float32(0.1))]


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
def test_scores_of_classes_that_the_model_knows(encoding: str) -> None:
    assert [record["score"] for record in encode(encoding, MULTICLASS)] == [{"a": 0.5, "true": -1.0}, {}, {"a": 1.0, "true": 2.0, "7": 3.0}]
    assert encode(encoding, NO_CLASS_YET)[0]["score"] == {}


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
@pytest.mark.parametrize("pair", [BINARY, REGRESSION, MULTICLASS, NO_CLASS_YET], ids=["binary", "regression", "multiclass", "no class"])
def test_records_follow_the_schema(encoding: str, pair: tuple[Events, Predictions]) -> None:
    for record in encode(encoding, pair):
        validator("prediction").validate(record)


@pytest.mark.parametrize(
    "change", [{"offset": -1}, {"learned": 1.5}, {"mistake": "no"}, {"score": {"a": None}}, {"extra": 1}, {"prediction": [1]}]
)
def test_schema_of_predictions_refuses_what_is_not_written(change: dict[str, Any]) -> None:
    assert not validator("prediction").is_valid(encode("json", BINARY)[0] | change)


@pytest.mark.parametrize("number", range(4))
def test_events_follow_the_schema(number: int) -> None:
    for event in (good_named(number), good_array(number)):
        validator("event").validate(json.loads(event_encoder("json")(event)))
        assert msgspec.msgpack.decode(event_encoder("msgpack")(event)) == event


@pytest.mark.parametrize("event", [[], {}, {"label": [1]}, {"x": [1, "2"]}, {"x": {"-1": 2}}, {"x": {"1": {}}}, {"key": "k" * 513}])
def test_schema_of_events_refuses_what_is_no_event(event: object) -> None:
    assert not validator("event").is_valid(event)
