"""One input partition that this worker owns: its models, how far they have got, and their checkpoints."""

import time
from collections.abc import Callable, Iterator, Sequence

from streamlearn.agents.eviction import Eviction
from streamlearn.agents.stream import Decoded, Stream
from streamlearn.checkpoint.codec import Record
from streamlearn.checkpoint.errors import CheckpointError
from streamlearn.checkpoint.marker import Marker
from streamlearn.checkpoint.snapshot import Checkpointer
from streamlearn.config import CheckpointConfig
from streamlearn.events.columns import Predictions
from streamlearn.kafka.clients import Partition
from streamlearn.kafka.source import Assigned
from streamlearn.metrics import Metrics, Stage
from streamlearn.processor import Processor
from streamlearn.quality import Window, rates


class ChangeError(Exception):
    """The models of a partition were not changed; the text says why."""


class PartitionModels:
    """The models of one partition. `next_offset` is the input offset that they have learned up to, `committed` what the group knows."""

    def __init__(self, stream: Stream, assigned: Assigned, settings: CheckpointConfig, metrics: Metrics) -> None:
        self.stream = stream
        self.partition = assigned.partition
        self.committed = assigned.committed
        self.known = assigned.known  # whether the group has a committed offset
        self.earliest = assigned.earliest
        self.next_offset = assigned.committed
        self._settings = settings
        self._metrics = metrics
        self.begin(stream.processor(), None)

    def begin(self, processor: Processor, last: Marker | None, *, new_epoch: bool = False) -> None:
        """Go on with a processor whose last checkpoint is `last`. new_epoch: its models have nothing to do with that checkpoint."""
        self.processor = processor
        self._checkpointer = Checkpointer(processor, last, history=self._settings.history)
        if new_epoch:
            self._checkpointer.begin_epoch()
        self._saved_at = time.monotonic()
        self._unsaved = 0
        self._marked = last is not None and not new_epoch
        self._deleted: list[str] = []  # keys, since the last checkpoint
        self._window = Window()
        self._eviction = Eviction(self.stream.config.memory)
        self._moved = 0, 0  # evictions and returns that were reported

    @property
    def models_partition(self) -> Partition:
        return Partition(self.stream.config.models_topic, self.partition.partition)

    def learn(self, batch: Decoded) -> Predictions:
        """Predict and learn a batch, in order."""
        started = time.perf_counter()
        slots = self.processor.route(batch.events)
        routed = time.perf_counter()
        predictions = self.processor.learn(batch.events, slots)
        self._metrics.spent(Stage.ROUTE, routed - started)
        self._metrics.spent(Stage.KERNEL, time.perf_counter() - routed)
        self._window.add(predictions.wrong)
        self._eviction.run(self.processor.router)
        self._unsaved += len(batch.records)
        self.next_offset = batch.records.offsets[-1] + 1
        return predictions

    # Changes that people ask for.

    def change(self, command: str, change: "Change") -> str:
        """Make a change and let a checkpoint be due that remembers the command; returns what was done. Raises ChangeError."""
        if command in self._checkpointer.commands:
            return "done already"
        try:
            detail = change(self)
        except CheckpointError as error:
            raise ChangeError(str(error)) from error
        self._checkpointer.remember(command)
        self._marked = False
        return detail

    def replace(self, processor: Processor) -> None:
        """Go on with other models; those of now stay in earlier checkpoints only."""
        self.begin(processor, self._checkpointer.last, new_epoch=True)

    def delete(self, keys: Sequence[str]) -> int:
        """Delete the models of these keys, from earlier checkpoints too; returns how many there were."""
        known = [key for key in dict.fromkeys(keys) if key in self.processor.router]
        self.processor.router.release(known)
        self._deleted += dict.fromkeys(keys)
        return len(known)

    # Checkpoints.

    @property
    def unsaved(self) -> bool:
        """Whether the models have learned anything since the last checkpoint, or never had one."""
        return self._unsaved > 0 or not self._marked

    def checkpoint_due(self) -> bool:
        """A partition's first checkpoint is due at once: from then on recovery knows where its models began."""
        if not self._marked:
            return True
        elapsed = time.monotonic() - self._saved_at >= self._settings.interval
        return self._unsaved > 0 and (elapsed or self._unsaved >= self._settings.events)

    def checkpoint(self) -> Iterator[Record]:
        """The records of a checkpoint of the models as they are now; take all of them. Raises CheckpointError."""
        yield from self._checkpointer.checkpoint(offset=self.next_offset, time=time.time(), deleted=self._deleted)
        self._deleted = []
        self._saved_at = time.monotonic()
        self._unsaved = 0
        self._marked = True

    # For people.

    def report(self, end_offset: int | None) -> None:
        """Set the gauges of this partition."""
        name, learner, number = self.stream.config.name, self.stream.learner, self.partition.partition
        pool, router = self.processor.pool, self.processor.router
        if "mistakes" in pool.names:
            known = rates(*(router.total(counter)[None] for counter in ("learned", "mistakes", "label_counts")))
            self._metrics.quality(
                name, learner, number, measured=known.measured, mistake_rate=known.mistake_rate,
                windowed=self._window.rate, majority=known.majority_rate,
            )  # fmt: skip
        self._metrics.models(name, learner, number, router.in_memory, pool.nbytes)
        moved = router.evictions, router.returns
        self._metrics.spilled(name, learner, number, router.away, moved[0] - self._moved[0], moved[1] - self._moved[1])
        self._moved = moved
        if end_offset is not None:
            self._metrics.lag(name, number, max(0, end_offset - self.committed))


Change = Callable[[PartitionModels], str]
"""Changes the models of a partition and says what it did. Raises CheckpointError before it has changed anything."""
