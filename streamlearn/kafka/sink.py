"""The producer side: records and consumed offsets that become readable together, or not at all."""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NoReturn

import structlog
from confluent_kafka import KafkaException, Producer, TopicPartition

from streamlearn.kafka.clients import Partition, Properties, client_logger, kafka_error

log = structlog.get_logger(__name__)


class TransactionAbortedError(Exception):
    """The open transaction was aborted: nothing of it can be read. The events since the last commit must be processed again."""


class SinkError(Exception):
    """The producer cannot go on, for instance because another worker took over its partitions. The worker ends."""


class TransactionalSink:
    """One transaction at a time. Belongs to one thread at a time, which may do other things while a commit is under way."""

    def __init__(self, properties: Properties, timeout: float) -> None:
        """timeout: seconds that a transactional call is retried before it fails."""
        self._producer = Producer(dict(properties), logger=client_logger())
        self._timeout = timeout
        self._background = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._commit: Future[float] | None = None
        self.open = False
        self._retry("joining transactions", self._producer.init_transactions)

    def produce(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: dict[str, str | bytes | None] | None = None,
    ) -> None:
        """Add a record to the transaction, beginning one if none is open. timestamp: milliseconds since 1970.

        Failures of delivery are reported by `commit`. Raises TransactionAbortedError, SinkError.
        """
        if not self.open:
            self.begin()
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                # No delivery callback: commit_transaction reports failures, and callbacks double the cost of a record.
                return self._producer.produce(topic, value, key, partition, timestamp=timestamp, headers=headers)
            except BufferError as error:  # the local queue is full: back-pressure
                if time.monotonic() > deadline:
                    raise SinkError(f"producing to {topic} failed: the broker took nothing for {self._timeout:g} s") from error
                self._producer.poll(0.05)
            except KafkaException as error:
                self._fail("producing", error)

    def produce_all(
        self, topic: str, partition: int, keys: Iterable[bytes | None], values: Iterable[bytes], timestamps: Iterable[int]
    ) -> None:
        """`produce` for many records of one partition, in little more than half of the time per record."""
        if not self.open:
            self.begin()
        produce = self._producer.produce
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            try:
                produce(topic, value, key, partition, None, None, timestamp)  # by position: a keyword costs a third more
            except (BufferError, KafkaException):  # nothing was taken: wait for room, or find out what is wrong
                self.produce(topic, partition, key, value, timestamp)

    def begin(self) -> None:
        self._retry("beginning a transaction", lambda _: self._producer.begin_transaction())
        self.open = True

    def begin_commit(self, offsets: Mapping[Partition, int], group_metadata: object) -> None:
        """Begin to make the records of the transaction and these next offsets visible. `finish_commit` must come before anything else."""
        if not self.open:
            self.begin()
        positions = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        self._commit = self._background.submit(self._commit_now, positions, group_metadata)

    @property
    def committed(self) -> bool:
        """Whether `finish_commit` would not have to wait."""
        return self._commit is None or self._commit.done()

    def finish_commit(self) -> float:
        """Wait until the commit is done; returns the seconds it took. Raises TransactionAbortedError, SinkError."""
        if self._commit is None:
            raise RuntimeError("no commit has begun")
        commit, self._commit = self._commit, None
        return commit.result()

    def abort(self) -> None:
        """Give up the open transaction, if any. Raises SinkError."""
        if self.open:
            self.open = False
            self._retry("aborting", self._producer.abort_transaction)

    def _commit_now(self, positions: list[TopicPartition], group_metadata: object) -> float:
        started = time.perf_counter()
        self._retry("sending offsets", lambda timeout: self._producer.send_offsets_to_transaction(positions, group_metadata, timeout))
        self._retry("committing", self._producer.commit_transaction)
        self.open = False
        return time.perf_counter() - started

    def _retry(self, what: str, call: Callable[[float], object]) -> None:
        """Call until it succeeds, fails for good, or time is up; librdkafka resumes a transactional call that timed out."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                call(max(1.0, deadline - time.monotonic()))
                return
            except KafkaException as error:
                if not kafka_error(error).retriable() or time.monotonic() > deadline:
                    self._fail(what, error)
                log.warning("retrying", what=what, error=str(error))
                time.sleep(0.1)

    def _fail(self, what: str, error: KafkaException) -> NoReturn:
        inner = kafka_error(error)
        if inner.txn_requires_abort() and not inner.fatal() and what != "aborting":
            self.abort()
            raise TransactionAbortedError(f"{what} failed, the transaction was aborted: {inner.str()}") from error
        raise SinkError(f"{what} failed: {inner.str()}") from error
