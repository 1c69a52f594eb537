"""A worker that is broken on purpose, to show that the verifier notices: `sabotage.py skip-replay APP worker --config FILE`."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from confluent_kafka import Consumer, Message

from streamlearn import cli
from streamlearn.agents.loop import LearningLoop
from streamlearn.agents.partition import PartitionModels
from streamlearn.kafka.clients import Partition
from streamlearn.kafka.reader import PartitionReader
from streamlearn.kafka.sink import TransactionalSink
from streamlearn.processor import Processor


def skip_replay(_: str) -> None:
    """Recovery ends with the checkpoint: events between it and the committed offset are not learned again."""
    read = PartitionReader.read

    def read_checkpoints_only(
        self: PartitionReader, partition: Partition, start: int, end: int | None = None, batch: int = 2000
    ) -> Iterator[list[Message]]:
        return read(self, partition, start, end, batch) if end is None else iter(())

    PartitionReader.read = read_checkpoints_only  # type: ignore[method-assign]


def without_fencing(app: str) -> None:
    """A worker that has lost its partitions commits what it has, and its offsets say nothing of the group's generation."""
    begin_commit = TransactionalSink.begin_commit
    nobody = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": app, "log_level": 0})

    def commit_as_nobody(self: TransactionalSink, offsets: Mapping[Partition, int], _: object) -> None:
        begin_commit(self, offsets, nobody.consumer_group_metadata())

    def commit_what_is_lost(self: LearningLoop, partitions: Sequence[Partition]) -> None:
        with self._lock:
            self._commit()
            self._forget(partitions)

    TransactionalSink.begin_commit = commit_as_nobody  # type: ignore[method-assign, assignment]
    LearningLoop.lost = commit_what_is_lost  # type: ignore[method-assign]


def pretend(_: str) -> None:
    """Rollbacks and deletions are answered and remembered, and the models stay as they are."""

    def keep(self: PartitionModels, _: Processor) -> None:
        self.begin(self.processor, self._checkpointer.last, new_epoch=True)

    PartitionModels.replace = keep  # type: ignore[method-assign, assignment]
    PartitionModels.delete = lambda _, keys: len(keys)  # type: ignore[method-assign, assignment]


SABOTAGES: dict[str, Callable[[str], None]] = {"skip-replay": skip_replay, "without-fencing": without_fencing, "pretend": pretend}

if __name__ == "__main__":
    name, app = sys.argv.pop(1), sys.argv.pop(1)
    SABOTAGES[name](app)
    cli.main()
