"""One configured stream as the worker runs it: bytes in, bytes out, models in between."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from confluent_kafka import Message

from streamlearn import __version__
from streamlearn.checkpoint.restore import Restorer
from streamlearn.config import StreamConfig
from streamlearn.events.columns import Events, Predictions, Rejected
from streamlearn.events.decode import Decoder
from streamlearn.events.encode import Encoder
from streamlearn.processor import Processor


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a batch of messages of one partition."""

    messages: Sequence[Message]
    accepted: Sequence[Message]  # those that became events
    events: Events
    predictions: Predictions
    rejected: Sequence[Rejected]


class Stream:
    """A stream's decoder and encoder, and the random maps that the processors of all its partitions share."""

    def __init__(self, config: StreamConfig, dtype: str) -> None:
        self.config = config
        self.decoder = Decoder(config.event_format(), np.dtype(dtype))
        self.spec = config.model_spec(self.decoder.dim, dtype)
        self.learner = self.spec.pipeline.learner.name
        self.encoder = Encoder(config.encoding, self.learner, __version__)
        self.shared = Processor(self.spec).pool.shared

    def processor(self) -> Processor:
        """A fresh processor for one partition."""
        return Processor(self.spec, self.shared, self.config.memory.max_models)

    def restorer(self, upto: int | None = None) -> Restorer:
        """What reads a checkpoint of one partition: the newest, or number `upto`."""
        return Restorer(self.spec, self.shared, upto=upto, max_models=self.config.memory.max_models)

    def decode(self, messages: Sequence[Message]) -> tuple[Events, list[Rejected]]:
        values = [message.value() for message in messages]
        keys = [message.key() for message in messages]
        times = [message.timestamp()[1] / 1000 for message in messages]
        return self.decoder.decode(values, keys, times)
