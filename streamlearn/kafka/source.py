"""The consumer side: batches of messages from the partitions that the consumer group gives to this worker."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from streamlearn.kafka.clients import Partition, Properties, client_logger

log = structlog.get_logger(__name__)

COMMITTED_TIMEOUT = 15.0  # seconds to learn the committed offsets of an assignment


class SourceError(Exception):
    """The source cannot go on; the worker ends."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """A partition that this worker has just been given."""

    partition: Partition
    committed: int  # offset of the next event to predict
    known: bool  # whether the group has committed it; if not, `committed` is the first offset of the log
    earliest: int  # the first offset that the log still has


class RebalanceListener(Protocol):
    """Called by `Source.poll`, on the polling thread."""

    def assigned(self, partitions: Sequence[Assigned]) -> None:
        """These partitions are ours, and paused until `Source.resume`."""

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """We are about to lose these partitions: commit what is done, then forget them."""

    def lost(self, partitions: Sequence[Partition]) -> None:
        """These partitions already belong to somebody else: forget them, nothing can be committed."""


class Source:
    """A member of the consumer group. Everything but `pause`, `resume`, `restart` and `group_metadata` belongs to the polling thread."""

    def __init__(self, properties: Properties, topics: Sequence[str], listener: RebalanceListener) -> None:
        self._consumer = Consumer(dict(properties), logger=client_logger())
        self._listener = listener
        self._failure: Exception | None = None
        self._consumer.subscribe(
            list(topics),
            on_assign=lambda consumer, partitions: self._guard(self._assign, partitions),
            on_revoke=lambda consumer, partitions: self._guard(self._revoke, partitions),
            on_lost=lambda consumer, partitions: self._guard(self._lose, partitions),
        )

    def poll(self, max_messages: int, timeout: float) -> list[Message]:
        """Up to max_messages messages, waiting at most `timeout` seconds; rebalances happen in here.

        Raises SourceError when the consumer cannot go on, and whatever a rebalance listener raised.
        """
        try:
            messages: list[Message] = self._consumer.consume(max_messages, timeout)
        except KafkaException as error:
            raise SourceError(f"consuming failed: {error}") from error
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if any(message.error() for message in messages):
            return [message for message in messages if not self._check(message)]
        return messages

    def group_metadata(self) -> object:
        """The group's generation, for the transaction: a worker that was put out of the group is fenced by it."""
        return self._consumer.consumer_group_metadata()

    def pause(self, partitions: Iterable[Partition]) -> None:
        self._consumer.pause([TopicPartition(*partition) for partition in partitions])

    def resume(self, partitions: Iterable[Partition]) -> None:
        self._consumer.resume([TopicPartition(*partition) for partition in partitions])

    def restart(self, offsets: Mapping[Partition, int]) -> None:
        """Start these partitions again, paused, at these offsets; what was fetched is dropped. They must be the whole assignment."""
        starts = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        self._consumer.assign(starts)
        self._consumer.pause(starts)

    def end_offset(self, partition: Partition) -> int | None:
        """The end of the partition as of the last fetch, None while unknown. Does not ask the broker."""
        _, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
        return high if high >= 0 else None

    def close(self) -> None:
        """Leave the group; the revoke callback runs."""
        self._consumer.close()
        if self._failure is not None:
            raise self._failure

    def _guard(self, callback: Callable[[list[TopicPartition]], None], partitions: list[TopicPartition]) -> None:
        """consume() drops what it fetched when a callback raises, so failures wait until it has returned."""
        try:
            callback(partitions)
        except Exception as error:  # noqa: BLE001 - raised again by poll and close
            log.error("rebalance failed", error=str(error))
            self._failure = error

    def _assign(self, partitions: list[TopicPartition]) -> None:
        committed = self._consumer.committed(partitions, timeout=COMMITTED_TIMEOUT)
        assigned = [self._position(partition) for partition in committed]
        starts = [TopicPartition(*a.partition, a.committed) for a in assigned]
        self._consumer.assign(starts)
        self._consumer.pause(starts)
        self._listener.assigned(assigned)

    def _position(self, committed: TopicPartition) -> Assigned:
        if committed.error:
            raise SourceError(f"the committed offset of {committed.topic} [{committed.partition}] cannot be read: {committed.error}")
        earliest, _ = self._consumer.get_watermark_offsets(committed, timeout=COMMITTED_TIMEOUT)
        known = committed.offset >= 0
        return Assigned(Partition(committed.topic, committed.partition), committed.offset if known else earliest, known, earliest)

    def _revoke(self, partitions: list[TopicPartition]) -> None:
        self._listener.revoked([Partition(p.topic, p.partition) for p in partitions])
        self._consumer.unassign()

    def _lose(self, partitions: list[TopicPartition]) -> None:
        self._listener.lost([Partition(p.topic, p.partition) for p in partitions])
        self._consumer.unassign()

    def _check(self, message: Message) -> bool:
        """Whether a message is an error; raises SourceError if the worker cannot go on with it."""
        error = message.error()
        if error is None:
            return False
        if error.retriable() and not error.fatal():
            log.warning("fetch failed, will be retried", error=error.str())
            return True
        raise SourceError(f"consuming {message.topic()} [{message.partition()}] failed: {error.str()}")
