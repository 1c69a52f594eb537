"""What goes into the output topics: one transaction after the other, of predictions, dead letters, checkpoints and consumed offsets.

Many batches share a transaction. While it is committed the next batches are learned, and their predictions wait for the next one.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streamlearn.agents.partition import PartitionModels
from streamlearn.agents.stream import Decoded
from streamlearn.events.columns import Predictions
from streamlearn.kafka.sink import TransactionalSink
from streamlearn.metrics import Metrics, Stage

ANY_PARTITION = -1  # the partitioner chooses
MOST_WAITING = 8  # batches that are learned while a commit is under way


@dataclass(frozen=True, slots=True)
class Learned:
    """A batch of one partition that waits to be produced."""

    models: PartitionModels
    batch: Decoded
    predictions: Predictions
    values: Sequence[bytes]  # of the prediction records
    seconds: float  # that decoding, learning and encoding took


class Transactions:
    """The transactions of all partitions of a worker. What `sink` raises comes through.

    Models run ahead of the committed offset, so an aborted transaction takes those of all partitions with it: the caller recovers them.
    """

    def __init__(self, sink: TransactionalSink, commit_interval: float, metrics: Metrics) -> None:
        """commit_interval: seconds that a transaction stays open."""
        self._sink = sink
        self._commit_interval = commit_interval
        self._metrics = metrics
        self._waiting: list[Learned] = []  # for the commit under way
        self._committing: Sequence[tuple[PartitionModels, int]] | None = None  # the offsets of the commit under way
        self._began = 0.0  # when the first batch came that no commit holds

    def add(self, learned: Learned) -> None:
        """Take a batch, for the next transaction."""
        if not self._waiting and (self._committing or not self._sink.open):
            self._began = time.monotonic()
        self._waiting.append(learned)

    def proceed(self) -> None:
        """Produce what waits, unless it is better to go on learning until the commit under way is done."""
        if self._sink.committed or len(self._waiting) >= MOST_WAITING:
            self._deliver()

    def due(self, partitions: Iterable[PartitionModels]) -> bool:
        """Whether it is time to begin a commit, of what was produced or of the first checkpoint of a partition."""
        if self._committing is not None:
            return False
        if self._sink.open:
            return time.monotonic() - self._began >= self._commit_interval
        return any(models.checkpoint_due() for models in partitions)

    def begin_commit(self, partitions: Sequence[PartitionModels], group_metadata: object, *, final: bool = False) -> None:
        """Begin to commit the open transaction with the checkpoints that are due.

        partitions: all that are recovered. group_metadata: the membership in which they were given. final: they go, so all that changed
        since its last checkpoint gets one.
        """
        due = [models for models in partitions if (models.unsaved if final else models.checkpoint_due())]
        if not (self._sink.open or due):
            return
        for models in due:
            self._save(models)
        # The offsets of all partitions go along, moved or not: they are what fences a worker that has lost them.
        self._committing = [(models, models.next_offset) for models in partitions]
        self._sink.begin_commit({models.partition: offset for models, offset in self._committing}, group_metadata)

    def finish_commit(self) -> None:
        """Wait for the commit under way, if any."""
        offsets, self._committing = self._committing, None
        if offsets is None:
            return
        with self._metrics.timed(Stage.COMMIT):
            seconds = self._sink.finish_commit()
        for models, offset in offsets:
            models.committed, models.known = offset, True
        self._metrics.committed(seconds, time.time())

    def commit(self, partitions: Sequence[PartitionModels], group_metadata: object, *, final: bool = False) -> None:
        """Commit all that was taken, and wait for it."""
        self._deliver()
        self.begin_commit(partitions, group_metadata, final=final)
        self.finish_commit()

    def abort(self) -> None:
        """Give up what is not committed."""
        self._waiting.clear()
        self._sink.abort()
        self._metrics.aborted()

    def _deliver(self) -> None:
        """Put what waits into the next transaction, once the one before is committed."""
        self.finish_commit()
        with self._metrics.timed(Stage.PRODUCE):
            for learned in self._waiting:
                self._produce(learned)
                self._count(learned)
        self._waiting.clear()

    def _produce(self, learned: Learned) -> None:
        stream, (topic, number) = learned.models.stream.config, learned.models.partition
        accepted, records = learned.batch.accepted, learned.batch.records
        self._sink.produce_all(stream.output_topic, number, accepted.keys, learned.values, accepted.timestamps)
        for row, reason, detail in learned.batch.rejected:
            headers: dict[str, str | bytes | None] = {
                "reason": reason, "detail": detail, "topic": topic, "partition": str(number), "offset": str(records.offsets[row]),
            }  # fmt: skip
            self._sink.produce(
                stream.dead_letter_topic, ANY_PARTITION, records.keys[row], records.values[row], records.timestamps[row], headers
            )

    def _count(self, learned: Learned) -> None:
        models, events, wrong = learned.models, learned.batch.events, learned.predictions.wrong
        name, labelled = models.stream.config.name, len(events.labels) - events.labels.count(None)
        self._metrics.batch(name, events.times, [rejected.reason for rejected in learned.batch.rejected], learned.seconds)
        self._metrics.learned(name, models.stream.learner, models.partition.partition, len(events.labels), labelled, int(wrong.sum()))

    def _save(self, models: PartitionModels) -> None:
        started, records, size = time.perf_counter(), 0, 0
        topic, number = models.models_partition
        now = int(time.time() * 1000)
        for key, value in models.checkpoint():
            self._sink.produce(topic, number, key, value, now)
            records += 1
            size += len(value or b"")
        self._metrics.checkpointed(models.stream.config.name, number, records, size, time.perf_counter() - started, time.time())
