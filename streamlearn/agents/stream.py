"""One configured stream as the worker runs it: bytes in, bytes out, models in between."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamlearn import __version__
from streamlearn.checkpoint.restore import Restorer
from streamlearn.config import StreamConfig
from streamlearn.events.columns import Events, Rejected
from streamlearn.events.decode import Decoder
from streamlearn.events.encode import Encoder
from streamlearn.kafka.records import Records
from streamlearn.processor import Processor


@dataclass(frozen=True, slots=True)
class Decoded:
    """A batch of one partition, ready to be learned."""

    records: Records
    accepted: Records  # those that became events
    events: Events
    rejected: Sequence[Rejected]
    seconds: float  # that decoding took


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

    def decode(self, records: Records) -> Decoded:
        started = time.perf_counter()
        events, rejected = self.decoder.decode(records.values, records.keys, np.array(records.timestamps, np.float64) / 1000)
        accepted = records.take(events.rows.tolist()) if rejected else records
        return Decoded(records, accepted, events, rejected, time.perf_counter() - started)
