"""Messages of one partition as columns: each of their attributes is asked for once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

from confluent_kafka import Message

from streamlearn.kafka.clients import Partition


@dataclass(frozen=True, slots=True)
class Records:
    """Records of one partition in the order of their offsets, as columns of equal length."""

    partition: Partition
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]  # milliseconds since 1970
    offsets: Sequence[int]

    def __len__(self) -> int:
        return len(self.offsets)

    def take(self, rows: Iterable[int]) -> "Records":
        """Some of the records."""
        chosen = list(rows)
        return Records(
            self.partition,
            [self.keys[row] for row in chosen],
            [self.values[row] for row in chosen],
            [self.timestamps[row] for row in chosen],
            [self.offsets[row] for row in chosen],
        )


def by_partition(messages: Sequence[Message]) -> list[Records]:
    """Neighbouring messages of the same partition together, in order."""
    if len(set(map(Message.topic, messages))) <= 1 and len(set(map(Message.partition, messages))) <= 1:
        return [_records(messages)] if messages else []
    batches, start = [], 0
    for _, places in groupby(zip(map(Message.topic, messages), map(Message.partition, messages), strict=True)):
        end = start + len(list(places))
        batches.append(_records(messages[start:end]))
        start = end
    return batches


def _records(messages: Sequence[Message]) -> Records:
    offsets = cast(list[int], list(map(Message.offset, messages)))  # what was consumed has one
    return Records(
        _partition(messages[0]),
        list(map(Message.key, messages)),
        list(map(Message.value, messages)),
        [milliseconds for _, milliseconds in map(Message.timestamp, messages)],
        offsets,
    )


def _partition(message: Message) -> Partition:
    return Partition(cast(str, message.topic()), cast(int, message.partition()))
