"""What a models topic holds, read from the headers of its records: no arrays are unpacked and no learner is needed."""

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from confluent_kafka import Message

from streamlearn.checkpoint.codec import Header, Joiner, Model, decode, model_key
from streamlearn.checkpoint.errors import CheckpointError
from streamlearn.checkpoint.marker import Marker, decode_marker
from streamlearn.checkpoint.staging import is_staged
from streamlearn.kafka.clients import Partition
from streamlearn.kafka.reader import PartitionReader

Sort = Literal["key", "learned", "mistakes", "size", "age"]


class ModelRow(NamedTuple):
    """One version of one model, as its record's header tells. Times are seconds since 1970."""

    partition: int
    key: str
    learner: str
    learned: int
    mistakes: int | None  # None where mistakes are not counted
    size: int  # bytes
    offset: int  # C of its checkpoint
    checkpoint: int
    epoch: int
    version: int
    time: float

    @property
    def mistake_rate(self) -> float | None:
        return None if self.mistakes is None or not self.learned else self.mistakes / self.learned


class Contents:
    """What one partition of a models topic holds."""

    def __init__(self, partition: int, key: str | None = None) -> None:
        """key: look at this model only, but at all of its versions."""
        self.partition = partition
        self.markers: dict[int, Marker] = {}  # by checkpoint number: those that are still in the topic
        self.rows: dict[str, ModelRow] = {}  # by key: the newest version
        self.versions: dict[tuple[int, int], tuple[ModelRow, Model]] = {}  # of the one key, by epoch and version
        self._key = key
        self._joiner = Joiner()

    def add(self, message: Message) -> None:
        """Take the next record of the log. Raises CheckpointError with its place."""
        try:
            self._add(message)
        except CheckpointError as error:
            raise error.at(str(message.topic()), message.partition() or 0, message.offset() or 0) from None

    def finish(self) -> None:
        """Leave out models of earlier epochs: they do not belong to the newest checkpoint."""
        newest = self.newest
        self.rows = {key: row for key, row in self.rows.items() if newest and row.epoch == newest.epoch}

    @property
    def newest(self) -> Marker | None:
        return self.markers[max(self.markers)] if self.markers else None

    @property
    def kept(self) -> list[Marker]:
        """The checkpoints that can be gone back to, oldest first. Compaction thins out those before them."""
        newest = self.newest
        return [self.markers[c] for c in sorted(self.markers) if newest and c > newest.checkpoint - newest.ring]

    def _add(self, message: Message) -> None:
        key, value = message.key(), message.value()
        if is_staged(key):
            return
        if value is None:
            self._forget(model_key(key))
            return
        chunk = decode(value)
        if chunk.header.model is not None:
            self._add_model(chunk.header, chunk.header.model, message)
        elif (whole := self._joiner.add(chunk)) is not None:
            marker = decode_marker(whole[1])
            self.markers[marker.checkpoint] = marker

    def _add_model(self, header: Header, model: Model, message: Message) -> None:
        if self._key not in (None, model.key):
            return
        row = _row(self.partition, header, model, message)
        self.rows[model.key] = row
        if self._key is not None:
            self.versions[row.epoch, row.version] = row, model

    def _forget(self, key: str | None) -> None:
        if key is not None and self._key in (None, key):
            self.rows.pop(key, None)
            self.versions.clear()


@dataclass(frozen=True)
class Description:
    """Everything the topic says about one model."""

    row: ModelRow
    model: Model
    marker: Marker  # of the newest checkpoint: hyper-parameters and classes
    versions: list[ModelRow]  # that are still in the topic, newest first


def read_contents(reader: PartitionReader, partition: Partition, key: str | None = None) -> Contents:
    """The markers and newest models of a partition, or of one key. Raises CheckpointError with the record's place, ReadError."""
    contents = Contents(partition.partition, key)
    for message in reader.records(partition):
        contents.add(message)
    contents.finish()
    return contents


def describe(contents: Contents, key: str) -> Description | None:
    """Everything about the one model that was looked at, None if the partition has none for this key."""
    if key not in contents.rows or contents.newest is None:
        return None
    row, model = contents.versions[max(contents.versions)]
    return Description(row, model, contents.newest, [contents.versions[version][0] for version in sorted(contents.versions, reverse=True)])


def top(partitions: Iterable[Contents], sort: Sort, limit: int) -> list[ModelRow]:
    """The first `limit` models of all partitions: by key, or those with the largest figure first."""
    rows = (row for contents in partitions for row in contents.rows.values())
    if sort == "key":
        return heapq.nsmallest(limit, rows, key=lambda row: (row.key, row.partition))
    figures: Mapping[str, Callable[[ModelRow], float]] = {
        "learned": lambda row: row.learned,
        "mistakes": lambda row: row.mistake_rate or 0.0,
        "size": lambda row: row.size,
        "age": lambda row: -row.time,
    }
    return heapq.nlargest(limit, rows, key=figures[sort])


def _row(partition: int, header: Header, model: Model, message: Message) -> ModelRow:
    return ModelRow(
        partition=partition,
        key=model.key,
        learner=model.learner,
        learned=model.learned,
        mistakes=model.mistakes,
        size=header.size,
        offset=header.offset,
        checkpoint=header.checkpoint,
        epoch=header.epoch,
        version=model.version,
        time=message.timestamp()[1] / 1000,
    )
