"""The consumer side: batches of messages from the partitions that the consumer group gives to this worker."""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streamlearn.kafka.clients import Partition, Properties, client_logger, kafka_error

log = structlog.get_logger(__name__)

COMMITTED_TIMEOUT = 60.0  # seconds to learn the committed offsets of an assignment; a transaction left open holds them back
TOPICS_INTERVAL = 10.0  # seconds between two looks whether the topics are still there
_GONE = KafkaError.UNKNOWN_TOPIC_OR_PART
_COORDINATOR_MOVES = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
ENDS_INTERVAL = 0.5  # seconds between two looks at the ends of the partitions


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
    """A member of the consumer group.

    `poll` and `close` belong to one thread, and only they use the consumer: its methods wait for each other, so a call from another thread
    would wait for a rebalance that waits for that thread. `pause`, `resume` and `restart`, from any thread, take effect at the next poll.
    """

    def __init__(self, properties: Properties, topics: Sequence[str], listener: RebalanceListener) -> None:
        self._consumer = Consumer(dict(properties), logger=client_logger())
        self._topics = list(topics)
        self._looked_at_topics = time.monotonic()
        self._listener = listener
        self._failure: Exception | None = None
        self._requests: deque[Callable[[], object]] = deque()
        self._assigned: list[TopicPartition] = []
        self._membership: object = None
        self._ends: dict[Partition, int] = {}
        self._looked_at_ends = 0.0
        self._consumer.subscribe(
            self._topics,
            on_assign=lambda consumer, partitions: self._guard(self._assign, partitions),
            on_revoke=lambda consumer, partitions: self._guard(self._revoke, partitions),
            on_lost=lambda consumer, partitions: self._guard(self._lose, partitions),
        )

    def poll(self, max_messages: int, timeout: float) -> list[Message]:
        """Up to max_messages messages, waiting at most `timeout` seconds; rebalances happen in here.

        Raises SourceError when the consumer cannot go on, and whatever a rebalance listener raised.
        """
        try:
            while self._requests:
                self._requests.popleft()()
            messages: list[Message] = self._consumer.consume(max_messages, timeout)
            self._look_at_ends()
            self._look_at_topics()
        except KafkaException as error:
            raise SourceError(f"consuming failed: {error}") from error
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if any(map(Message.error, messages)):
            return [message for message in messages if not self._check(message)]
        return messages

    @property
    def group_metadata(self) -> object:
        """Membership and generation in which the partitions were given to us: a worker that was put out of the group is fenced by it.

        Eager assignment gives partitions anew in every generation, so it is that of all our partitions. What the consumer says later must
        not be used: after a worker was put out it may be empty, and offsets sent with that are not fenced.
        """
        return self._membership

    def pause(self, partitions: Iterable[Partition]) -> None:
        paused = [TopicPartition(*partition) for partition in partitions]
        self._requests.append(lambda: self._consumer.pause(paused))

    def resume(self, partitions: Iterable[Partition]) -> None:
        resumed = [TopicPartition(*partition) for partition in partitions]
        self._requests.append(lambda: self._consumer.resume(resumed))

    def restart(self, offsets: Mapping[Partition, int]) -> None:
        """Start these partitions again, paused, at these offsets; what was fetched is dropped. They must be the whole assignment."""
        starts = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        self._requests.append(lambda: self._start(starts))

    def end_offset(self, partition: Partition) -> int | None:
        """The end of the partition as of a recent fetch, None while unknown."""
        return self._ends.get(partition)

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
        assigned = [self._position(partition) for partition in self._committed(partitions)]
        self._membership = self._consumer.consumer_group_metadata()
        self._start([TopicPartition(*a.partition, max(a.committed, a.earliest)) for a in assigned])
        self._listener.assigned(assigned)

    def _start(self, starts: list[TopicPartition]) -> None:
        self._assigned = starts
        self._consumer.assign(starts)
        self._consumer.pause(starts)

    def _committed(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """The committed offsets. A coordinator that moves or starts is waited for. Raises KafkaException."""
        deadline = time.monotonic() + COMMITTED_TIMEOUT
        while True:
            try:
                committed: list[TopicPartition] = self._consumer.committed(partitions, timeout=COMMITTED_TIMEOUT)
                return committed
            except KafkaException as error:
                if kafka_error(error).code() not in _COORDINATOR_MOVES or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _position(self, committed: TopicPartition) -> Assigned:
        if committed.error:
            raise SourceError(f"the committed offset of {committed.topic} [{committed.partition}] cannot be read: {committed.error}")
        earliest, _ = self._consumer.get_watermark_offsets(committed, timeout=COMMITTED_TIMEOUT)
        known = committed.offset >= 0
        return Assigned(Partition(committed.topic, committed.partition), committed.offset if known else earliest, known, earliest)

    def _revoke(self, partitions: list[TopicPartition]) -> None:
        self._listener.revoked([Partition(p.topic, p.partition) for p in partitions])
        self._unassign()

    def _lose(self, partitions: list[TopicPartition]) -> None:
        self._listener.lost([Partition(p.topic, p.partition) for p in partitions])
        self._unassign()

    def _unassign(self) -> None:
        self._requests.clear()  # they are about partitions that are no longer ours
        self._assigned, self._ends = [], {}
        self._consumer.unassign()

    def _look_at_ends(self) -> None:
        """What the last fetches said; does not ask the broker."""
        if time.monotonic() - self._looked_at_ends < ENDS_INTERVAL:
            return
        self._looked_at_ends = time.monotonic()
        watermarks = {Partition(p.topic, p.partition): self._consumer.get_watermark_offsets(p, cached=True) for p in self._assigned}
        self._ends = {partition: high for partition, (_, high) in watermarks.items() if high >= 0}

    def _look_at_topics(self) -> None:
        """The consumer itself keeps silent when a topic is deleted. Raises SourceError."""
        if time.monotonic() - self._looked_at_topics < TOPICS_INTERVAL:
            return
        self._looked_at_topics = time.monotonic()
        for topic in self._topics:
            with contextlib.suppress(KafkaException):  # the broker is away: the next look will tell
                if self._consumer.list_topics(topic, timeout=1.0).topics[topic].error == _GONE:
                    raise SourceError(f"topic {topic} is gone; `streamlearn topics apply` makes it anew")

    def _check(self, message: Message) -> bool:
        """Whether a message is an error; raises SourceError if the worker cannot go on with it."""
        error = message.error()
        if error is None:
            return False
        if error.retriable() and not error.fatal():
            log.warning("fetch failed, will be retried", error=error.str())
            return True
        raise SourceError(f"consuming {message.topic()} [{message.partition()}] failed: {error.str()}")
