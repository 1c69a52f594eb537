"""From predictions to the bytes of their records, and from events to theirs."""

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from math import isfinite
from typing import Any, Literal, cast

import msgspec

from streamlearn.events.columns import Events, Label, Predictions, text

Encoding = Literal["json", "msgpack"]


class PredictionRecord(msgspec.Struct, gc=False):
    """One prediction as it is published: a flat object, described for readers in topics/prediction.schema.json."""

    id: str | int | None  # the event's
    key: str  # which model
    prediction: Label | None  # in the label's own vocabulary; null where no class is known yet
    score: float | dict[str, float] | None  # multiclass: of each class that the model knows, by the class as text
    label: Label | None  # as published; null where it is not known
    mistake: bool | None  # null without a label, and where the task has no mistakes
    learner: str
    version: str  # of the learner's configuration
    learned: int  # events that this key's model had learned before this one
    topic: str  # where the event stands
    partition: int
    offset: int


class Encoder:
    """Encodes the predictions of one model version."""

    def __init__(self, encoding: Encoding, learner: str, version: str) -> None:
        self._encode = event_encoder(encoding)
        self._learner = learner
        self._version = version

    def encode(self, events: Events, predictions: Predictions, topic: str, partition: int, offsets: Sequence[int]) -> list[bytes]:
        """One record per event, in order. `offsets`: those of the events, without the rejected ones of their batch."""
        records = map(
            PredictionRecord,
            events.ids,
            events.keys,
            predictions.predictions,
            _scores(predictions),
            events.labels,
            predictions.mistakes,
            repeat(self._learner),
            repeat(self._version),
            predictions.learned.tolist(),
            repeat(topic),
            repeat(partition),
            offsets,
        )
        return list(map(self._encode, records))


def event_encoder(encoding: Encoding) -> Callable[[Any], bytes]:
    """The function that writes one event, a mapping from field to value, or one record."""
    return msgspec.json.Encoder().encode if encoding == "json" else msgspec.msgpack.Encoder().encode


def _scores(predictions: Predictions) -> Sequence[float | Mapping[str, float]]:
    if predictions.scores.shape[1] == 1:
        return cast(list[float], predictions.scores[:, 0].tolist())
    names = [text(name) for name in predictions.classes]
    return [{name: score for name, score in zip(names, row, strict=False) if isfinite(score)} for row in predictions.scores.tolist()]
