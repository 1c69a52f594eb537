"""The exactly-once loop: what a worker does with a batch of messages, and with partitions that come and go.

Two threads use it: the polling thread calls the rebalance methods, the learning thread calls `handle`. A lock makes each call whole.
Predictions, dead letters and offsets of many batches share one transaction. Models run ahead of the committed offset while it is open,
so a transaction that is aborted takes the models of all partitions with it: they are recovered from the committed offset.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np
import structlog
from confluent_kafka import Message

from streamlearn.agents.partition import PartitionModels
from streamlearn.agents.stream import Outcome, Stream
from streamlearn.kafka.clients import Partition
from streamlearn.kafka.reader import PartitionReader
from streamlearn.kafka.sink import TransactionAbortedError, TransactionalSink
from streamlearn.kafka.source import Assigned, Source

log = structlog.get_logger(__name__)

ANY_PARTITION = -1  # the partitioner chooses
RECOVERY_SLICE = 0.25  # seconds of recovery between two looks at the other partitions


class LearningLoop:
    """All partitions of a worker, and the transaction that their output goes into."""

    def __init__(
        self,
        streams: Mapping[str, Stream],
        sink: TransactionalSink,
        open_reader: Callable[[], PartitionReader],
        commit_interval: float,
    ) -> None:
        """streams: by input topic. open_reader: a reader of its own for a recovery. commit_interval: seconds."""
        self._streams = streams
        self._sink = sink
        self._open_reader = open_reader
        self._commit_interval = commit_interval
        self._source: Source | None = None
        self._lock = threading.RLock()
        self._models: dict[Partition, PartitionModels] = {}
        self._recoveries: dict[Partition, Iterator[int]] = {}
        self._opened = 0.0
        self._paused: set[str] = set()  # input topics
        self.generation = 0
        self.last_progress = time.monotonic()

    def attach(self, source: Source) -> None:
        """The source whose rebalances this loop listens to."""
        self._source = source

    @property
    def ready(self) -> bool:
        """Whether this worker has been given partitions and all their models are recovered."""
        with self._lock:
            return self.generation > 0 and not self._recoveries

    def positions(self) -> list[dict[str, object]]:
        """For people: each partition, the next offset and how many models it has."""
        with self._lock:
            return [
                {"topic": p.topic, "partition": p.partition, "offset": m.next_offset, "models": len(m.processor.router)}
                for p, m in sorted(self._models.items())
            ]

    # The rebalance listener, called on the polling thread.

    def assigned(self, partitions: Sequence[Assigned]) -> None:
        with self._lock:
            self.generation += 1
            for partition, committed, earliest in ((a.partition, a.committed, a.earliest) for a in partitions):
                models = PartitionModels(self._streams[partition.topic], partition, committed, earliest)
                self._models[partition] = models
                self._recoveries[partition] = self._recovery(models)
            log.info("assigned", partitions=[f"{a.partition.topic}-{a.partition.partition}" for a in partitions])

    def revoked(self, partitions: Sequence[Partition]) -> None:
        with self._lock:
            try:
                self._commit()
            except TransactionAbortedError as error:
                log.warning("the last transaction before a rebalance was aborted", error=str(error))
            self._forget(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        with self._lock:
            self._sink.abort()
            self._forget(partitions)

    # The learning thread.

    def handle(self, messages: Sequence[Message], generation: int) -> None:
        """Learn a batch that was polled in a generation; an older one is dropped, its messages will be fetched again.

        Also called with no messages, so that recoveries go on and transactions are committed in time.
        """
        with self._lock:
            if generation != self.generation:
                return
            try:
                self._handle(messages)
            except TransactionAbortedError as error:
                log.warning("aborted, starting again from the committed offsets", error=str(error))
                self._start_again()
            self.last_progress = time.monotonic()

    def pause(self, stream: str | None) -> None:
        """Stop fetching for a stream (None: all) until `resume`; what was fetched is still learned."""
        with self._lock:
            self._paused |= self._named(stream)
            self._attached.pause(p for p in self._models if p.topic in self._paused)

    def resume(self, stream: str | None) -> None:
        """Undo `pause`."""
        with self._lock:
            self._paused -= self._named(stream)
            self._attached.resume(p for p in self._models if p.topic not in self._paused and p not in self._recoveries)

    def _handle(self, messages: Sequence[Message]) -> None:
        for (topic, number), group in groupby(messages, key=lambda message: (message.topic(), message.partition())):
            self._learn(Partition(topic, number), list(group))
        self._recover()
        if self._sink.open and time.monotonic() - self._opened >= self._commit_interval:
            self._commit()

    def _learn(self, partition: Partition, messages: Sequence[Message]) -> None:
        models = self._models.get(partition)
        if models is None or partition in self._recoveries:
            raise RuntimeError(f"{partition} delivered messages while it was not ready for them")
        if not self._sink.open:
            self._sink.begin()
            self._opened = time.monotonic()
        self._emit(models, models.learn(messages))

    def _emit(self, models: PartitionModels, outcome: Outcome) -> None:
        stream, (topic, number) = models.stream, models.partition
        messages = [outcome.messages[row] for row in outcome.events.rows.tolist()]
        offsets = np.array([message.offset() for message in messages], np.int64)
        values = stream.encoder.encode(outcome.events, outcome.predictions, topic, number, offsets)
        for message, value in zip(messages, values, strict=True):
            self._sink.produce(stream.config.output_topic, number, message.key(), value, message.timestamp()[1])
        for row, reason, detail in outcome.rejected:
            message = outcome.messages[row]
            headers: dict[str, str | bytes | None] = {
                "reason": reason, "detail": detail, "topic": topic, "partition": str(number), "offset": str(message.offset()),
            }  # fmt: skip
            self._sink.produce(
                stream.config.dead_letter_topic, ANY_PARTITION, message.key(), message.value(), message.timestamp()[1], headers
            )

    def _commit(self) -> None:
        if not self._sink.open:
            return
        moved = {p: m.next_offset for p, m in self._models.items() if p not in self._recoveries and m.next_offset != m.committed}
        self._sink.commit(moved, self._attached.group_metadata())
        for partition, offset in moved.items():
            self._models[partition].committed = offset

    def _recover(self) -> None:
        deadline = time.monotonic() + RECOVERY_SLICE
        while self._recoveries and time.monotonic() < deadline:
            partition, recovery = next(iter(self._recoveries.items()))
            if next(recovery, None) is None:
                del self._recoveries[partition]
                if partition.topic not in self._paused:
                    self._attached.resume([partition])
                log.info("recovered", topic=partition.topic, partition=partition.partition, offset=self._models[partition].next_offset)

    def _recovery(self, models: PartitionModels) -> Iterator[int]:
        with self._open_reader() as reader:
            yield from models.recover(reader)

    def _start_again(self) -> None:
        """After an abort the models are ahead of the committed offsets: recover them all, and fetch from there."""
        self.generation += 1
        self._attached.restart({partition: models.committed for partition, models in self._models.items()})
        self._recoveries = {partition: self._recovery(models) for partition, models in self._models.items()}

    def _forget(self, partitions: Sequence[Partition]) -> None:
        self.generation += 1
        for partition in partitions:
            self._models.pop(partition, None)
            self._recoveries.pop(partition, None)

    def _named(self, stream: str | None) -> set[str]:
        """The input topics of a stream (None: of all). Raises KeyError for an unknown stream."""
        topics = {topic for topic, running in self._streams.items() if stream in (None, running.config.name)}
        if not topics:
            raise KeyError(f"there is no stream {stream!r}")
        return topics

    @property
    def _attached(self) -> Source:
        if self._source is None:
            raise RuntimeError("no source is attached")
        return self._source
