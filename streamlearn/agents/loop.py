"""The exactly-once loop: what a worker does with a batch of messages, and with partitions that come and go.

Two threads use it: the polling thread calls `decode` and the rebalance methods, the learning thread calls `handle`. A lock makes each
call whole; only `decode` touches nothing that needs it.
When a transaction is aborted the models of all partitions are ahead of the committed offset: they are recovered from there.
"""

import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence

import structlog
from confluent_kafka import Message

from streamlearn.agents.partition import Change, ChangeError, PartitionModels
from streamlearn.agents.recovery import recover
from streamlearn.agents.stream import Decoded, Stream
from streamlearn.agents.transactions import Learned, Transactions
from streamlearn.config import CheckpointConfig
from streamlearn.kafka.clients import Partition
from streamlearn.kafka.reader import PartitionReader
from streamlearn.kafka.records import by_partition
from streamlearn.kafka.sink import TransactionAbortedError, TransactionalSink
from streamlearn.kafka.source import Assigned, Source
from streamlearn.metrics import Metrics, Stage

log = structlog.get_logger(__name__)

DONE = object()
REPORT_INTERVAL = 0.5  # seconds between two settings of the gauges
RECOVERY_SLICE = 0.25  # seconds of recovery between two looks at the other partitions
BUSY = 1000  # records in a poll; with fewer nothing is gained by learning on, and what waits for a commit only gets older


class LearningLoop:
    """All partitions of a worker: who owns them, what they learn, and their recovery."""

    def __init__(
        self,
        streams: Mapping[str, Stream],
        sink: TransactionalSink,
        open_reader: Callable[[], PartitionReader],
        commit_interval: float,
        checkpoints: CheckpointConfig,
        metrics: Metrics,
    ) -> None:
        """streams: by input topic. open_reader: a reader of its own for a recovery. commit_interval: seconds."""
        self._streams = streams
        self._transactions = Transactions(sink, commit_interval, metrics)
        self._open_reader = open_reader
        self._checkpoints = checkpoints
        self._metrics = metrics
        self._source: Source | None = None
        self._lock = threading.RLock()
        self._models: dict[Partition, PartitionModels] = {}
        self._recoveries: dict[Partition, Generator[None, None, None]] = {}
        self._reported = 0.0
        self._paused: set[str] = set()  # input topics
        self._handled = 0  # number of the last poll
        self._broken = False  # a batch was left half done: nothing may be committed any more
        self.generation = 0
        self.last_progress = time.monotonic()

    def attach(self, source: Source) -> None:
        """The source whose rebalances this loop listens to."""
        self._source = source

    @property
    def ready(self) -> bool:
        """Whether the group has given this worker its partitions and all their models are recovered."""
        return self.generation > 0 and bool(self._models) and not self._recoveries

    def positions(self) -> list[dict[str, object]]:
        """For people: each partition, the next offset and how many models it has."""
        with self._lock:
            return [
                {"topic": p.topic, "partition": p.partition, "offset": m.next_offset, "models": len(m.processor.router)}
                for p, m in sorted(self._models.items())
            ]

    def decode(self, messages: Sequence[Message]) -> list[Decoded]:
        """What `handle` learns. On the polling thread it overlaps with the kernels, which leave Python to others while they run."""
        batches = [self._streams[records.partition.topic].decode(records) for records in by_partition(messages)]
        self._metrics.spent(Stage.DECODE, sum(batch.seconds for batch in batches))
        return batches

    # The rebalance listener, called on the polling thread.

    def assigned(self, partitions: Sequence[Assigned]) -> None:
        with self._lock:
            self._metrics.rebalanced("assigned")
            self.generation += 1
            for assigned in partitions:
                models = PartitionModels(self._streams[assigned.partition.topic], assigned, self._checkpoints, self._metrics)
                self._models[assigned.partition] = models
                self._recoveries[assigned.partition] = self._recovery(models)
            log.info("assigned", partitions=[f"{a.partition.topic}-{a.partition.partition}" for a in partitions])

    def revoked(self, partitions: Sequence[Partition]) -> None:
        with self._lock:
            self._metrics.rebalanced("revoked")
            try:
                self._leave()
            except TransactionAbortedError as error:
                log.warning("the last transaction before a rebalance was aborted", error=str(error))
                self._transactions.abort()
            finally:
                self._forget(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        with self._lock:
            self._metrics.rebalanced("lost")
            try:
                self._transactions.finish_commit()
            except TransactionAbortedError as error:
                log.warning("the last transaction before partitions were lost was aborted", error=str(error))
            self._transactions.abort()
            self._forget(partitions)

    # The learning thread.

    def handle(self, batches: Sequence[Decoded], generation: int, number: int) -> None:
        """Learn what was polled in a generation; what is older is dropped, it will be fetched again. number: of the poll, 1, 2, ...

        Also called with nothing, so that recoveries go on and transactions are committed in time.
        """
        with self._lock:
            missing, self._handled = number - self._handled - 1, number
            if generation != self.generation or self._broken:
                return
            try:
                if missing:  # on the way from the polling thread; going on would leave their events out
                    raise RuntimeError(f"{missing} polls before number {number} were never learned")
                self._handle(batches)
            except TransactionAbortedError as error:
                log.warning("aborted, starting again from the committed offsets", error=str(error))
                self._start_again()
            except Exception:
                self._broken = True
                raise
            self.last_progress = time.monotonic()

    # Control.

    def pause(self, stream: str | None) -> None:
        """Stop fetching for a stream (None: all) until `resume`; what was fetched is still learned. Raises KeyError."""
        with self._lock:
            self._paused |= self._named(stream)
            self._attached.pause(p for p in self._models if p.topic in self._paused)

    def resume(self, stream: str | None) -> None:
        """Undo `pause`. Raises KeyError."""
        with self._lock:
            self._paused -= self._named(stream)
            self._attached.resume(p for p in self._models if p.topic not in self._paused and p not in self._recoveries)

    def owns(self, partition: Partition) -> bool:
        """Whether the group has given this worker the partition."""
        with self._lock:
            return partition in self._models

    def change(self, partition: Partition, command: str, change: Change) -> str:
        """Change the models of a partition between two transactions, the second of which holds their checkpoint; returns what was done.

        command: what the checkpoint remembers, so that the same command is not followed again. Raises ChangeError when nothing was
        changed, SinkError when the worker cannot go on.
        """
        with self._lock:
            models = self._changeable(partition)
            try:
                self._commit()
                detail = models.change(command, change)
                self._commit()
            except TransactionAbortedError as error:
                self._start_again()
                raise ChangeError(f"the transaction was aborted, ask again: {error}") from error
            except ChangeError:
                raise
            except Exception:
                self._broken = True
                raise
            return detail

    def _changeable(self, partition: Partition) -> PartitionModels:
        if self._broken or partition not in self._models:
            raise ChangeError("the partition moves to another worker, ask again")
        if partition in self._recoveries:
            raise ChangeError("the models are being recovered, ask again when the worker is ready")
        return self._models[partition]

    def _handle(self, batches: Sequence[Decoded]) -> None:
        for batch in batches:
            self._transactions.add(self._learn(batch))
        self._transactions.proceed()
        self._recover()
        recovered = self._recovered()
        if self._transactions.due(recovered):
            self._transactions.begin_commit(recovered, self._attached.group_metadata)
            if sum(len(batch.records) for batch in batches) < BUSY:
                self._transactions.finish_commit()
        self._report()

    def _learn(self, batch: Decoded) -> Learned:
        partition = batch.records.partition
        models = self._models.get(partition)
        if models is None or partition in self._recoveries:
            raise RuntimeError(f"{partition} delivered messages while it was not ready for them")
        started = time.perf_counter()
        predictions = models.learn(batch)
        with self._metrics.timed(Stage.ENCODE):
            values = models.stream.encoder.encode(batch.events, predictions, *partition, batch.accepted.offsets)
        return Learned(models, batch, predictions, values, batch.seconds + time.perf_counter() - started)

    def _commit(self, *, final: bool = False) -> None:
        """Commit all that was learned, and wait for it. final: the partitions go."""
        self._transactions.commit(self._recovered(), self._attached.group_metadata, final=final)

    def _leave(self) -> None:
        """Before partitions go: commit what is done, or abort what is half done."""
        if self._broken:
            self._transactions.finish_commit()
            self._transactions.abort()
        else:
            self._commit(final=True)

    def _recovered(self) -> list[PartitionModels]:
        return [models for partition, models in self._models.items() if partition not in self._recoveries]

    def _recover(self) -> None:
        deadline = time.monotonic() + RECOVERY_SLICE
        while self._recoveries and time.monotonic() < deadline:
            partition, recovery = next(iter(self._recoveries.items()))
            if next(recovery, DONE) is DONE:
                del self._recoveries[partition]
                if partition.topic not in self._paused:
                    self._attached.resume([partition])

    def _recovery(self, models: PartitionModels) -> Generator[None, None, None]:
        with self._open_reader() as reader:
            yield from recover(models, reader, self._checkpoints, self._metrics)

    def _start_again(self) -> None:
        """After an abort the models are ahead of the committed offsets: recover them all, and fetch from there."""
        self._transactions.abort()
        self._attached.restart({partition: max(models.committed, models.earliest) for partition, models in self._models.items()})
        self.generation += 1
        for recovery in self._recoveries.values():
            recovery.close()
        self._recoveries = {partition: self._recovery(models) for partition, models in self._models.items()}

    def _forget(self, partitions: Sequence[Partition]) -> None:
        self.generation += 1
        for partition in partitions:
            recovery = self._recoveries.pop(partition, None)
            if recovery is not None:
                recovery.close()
            models = self._models.pop(partition, None)
            if models is not None:
                self._metrics.remove_partition(models.stream.config.name, partition.partition)

    def _report(self) -> None:
        self._metrics.ready(self.ready)
        if time.monotonic() - self._reported >= REPORT_INTERVAL:
            self._reported = time.monotonic()
            for models in self._recovered():
                models.report(self._attached.end_offset(models.partition))

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
