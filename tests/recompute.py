"""What workers must have written, computed from their input by the plain decoder and processor: no Kafka, one batch per partition."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from confluent_kafka import Message

from streamlearn.config import StreamConfig
from streamlearn.events.columns import Predictions, text
from streamlearn.events.decode import Decoder
from streamlearn.processor import Processor

Published = dict[str, Any]


@dataclass(frozen=True)
class Expected:
    """Of one input partition: its predictions by input offset, the reason of each rejected offset, and the models after it all."""

    predictions: Mapping[int, Published]
    rejected: Mapping[int, str]
    processor: Processor


def recompute(stream: StreamConfig, dtype: str, messages: Sequence[Message], processor: Processor | None = None) -> Expected:
    """The uninterrupted computation over all messages of a partition, or going on with the models that a processor has."""
    decoder = Decoder(stream.event_format(), np.dtype(dtype))
    processor = processor or Processor(stream.model_spec(decoder.dim, dtype))
    events, rejected = decoder.decode(
        [message.value() for message in messages],
        [message.key() for message in messages],
        [message.timestamp()[1] / 1000 for message in messages],
    )
    predictions = processor.process(events)
    scores, learned = _scores(predictions), predictions.learned.tolist()
    offsets = [offset_of(message) for message in messages]
    published = {
        offsets[row]: {
            "id": events.ids[i],
            "key": events.keys[i],
            "prediction": predictions.predictions[i],
            "score": scores[i],
            "label": events.labels[i],
            "mistake": predictions.mistakes[i],
            "learned": learned[i],
            "offset": offsets[row],
        }
        for i, row in enumerate(events.rows.tolist())
    }
    return Expected(published, {offsets[problem.row]: str(problem.reason) for problem in rejected}, processor)


def decoded(messages: Sequence[Message]) -> list[Published]:
    """Published predictions, without the fields that say which worker and learner made them."""
    return [
        {name: value for name, value in json.loads(value_of(message)).items() if name not in ("learner", "version", "topic", "partition")}
        for message in messages
    ]


def offset_of(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def value_of(message: Message) -> bytes:
    value = message.value()
    assert isinstance(value, bytes)
    return value


def _scores(predictions: Predictions) -> list[Any]:
    rows = predictions.scores.tolist()
    if predictions.scores.shape[1] == 1:
        return [score for (score,) in rows]
    names = [text(name) for name in predictions.classes]
    return [{name: score for name, score in zip(names, row, strict=False) if np.isfinite(score)} for row in rows]
