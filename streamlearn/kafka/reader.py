"""Reading a range of a partition outside of any consumer group, for recovery and inspection."""

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streamlearn.kafka.clients import Partition, Properties, client_logger, kafka_error, reader_properties

STALL = 60.0  # seconds without a message or the partition's end before a read gives up
POLL = 0.02  # seconds a batch is collected
CONNECT = 10.0  # seconds to learn a topic's partitions


class ReadError(Exception):
    """A partition could not be read as asked; the text names it, the offset and the cause."""


class PartitionReader:
    """Committed records of partitions, in order. One partition at a time."""

    def __init__(self, connection: Properties) -> None:
        self._consumer = Consumer(reader_properties(connection), logger=client_logger())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    def partitions(self, topic: str) -> list[Partition]:
        """The partitions of a topic. Raises ReadError when there is no such topic or no broker answers."""
        try:
            found = self._consumer.list_topics(topic, timeout=CONNECT).topics[topic].partitions
        except KafkaException as error:
            raise ReadError(f"no broker answers about {topic}: {kafka_error(error).str()}") from error
        if not found:
            raise ReadError(f"there is no topic {topic}")
        return [Partition(topic, number) for number in sorted(found)]

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """(first offset of the log, offset after its last record). Raises ReadError."""
        try:
            low, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), timeout=STALL)
        except KafkaException as error:
            raise ReadError(f"{partition.topic} [{partition.partition}] cannot be read: {kafka_error(error).str()}") from error
        return low, high

    def records(self, partition: Partition) -> Iterator[Message]:
        """All committed records that a partition has now. Raises ReadError."""
        low, _ = self.bounds(partition)
        for messages in self.read(partition, low):
            yield from messages

    def read(self, partition: Partition, start: int, end: int | None = None, batch: int = 2000) -> Iterator[list[Message]]:
        """Batches (empty ones while it waits) of the committed records from offset `start` to before `end` (None: the end as it is now).

        At the end it waits for open transactions: one that a killed worker left may already be decided, but not yet be marked here.
        Raises ReadError, for instance when the log begins after `start`.
        """
        if end is not None and start >= end:
            return
        self._consumer.assign([TopicPartition(*partition, start)])
        waited_since = time.monotonic()
        while True:
            messages = self._consumer.consume(batch, POLL)
            records, reached = _records(messages, partition, end)
            if records:
                waited_since = time.monotonic()
            yield records
            if reached is not None and reached >= (self._high(partition) if end is None else end):
                return
            if time.monotonic() - waited_since >= STALL:
                raise ReadError(f"{partition.topic} [{partition.partition}] gave nothing for {STALL:g} s while reading from offset {start}")

    def _high(self, partition: Partition) -> int:
        """The end of the partition as of the last fetch, uncommitted records included."""
        high: int = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)[1]
        return high


def _records(messages: list[Message], partition: Partition, end: int | None) -> tuple[list[Message], int | None]:
    """The records among polled messages that lie before `end`; the offset that was reached if nothing more is there, else None."""
    records: list[Message] = []
    reached = None
    for message in messages:
        error, offset = message.error(), message.offset() or 0
        if error is None:
            if end is not None and offset >= end:
                return records, end
            records.append(message)
            reached = end if offset + 1 == end else None
        elif error.code() == KafkaError._PARTITION_EOF:
            reached = offset
        elif not error.retriable():
            raise ReadError(f"{partition.topic} [{partition.partition}] cannot be read: {error.str()}")
    return records, reached
