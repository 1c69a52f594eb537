"""librdkafka properties of our consumers and producers, and how its errors are told apart."""

import logging
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException

from streamlearn.logs import Repeats

Property = str | int | float | bool
Properties = Mapping[str, Property]


MIN_TRANSACTION_TIMEOUT = 15.0  # seconds
MODELS_MESSAGE_BYTES = 8_388_608  # what the models topic takes


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


def consumer_properties(connection: Properties, group: str, instance: str | None, overrides: Properties) -> dict[str, Property]:
    """The input consumer: offsets go into transactions only, eager assignment, memory bounded."""
    properties: dict[str, Property] = {
        "fetch.queue.backoff.ms": 5,  # the default of a second adds that much latency once the local queue was full
        "queued.max.messages.kbytes": 65536,
        "partition.assignment.strategy": "roundrobin",
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 1_000,
        **connection,
        **overrides,
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",  # events that retention deleted before they were predicted must not be left out silently
        "isolation.level": "read_committed",
    }
    if instance is not None:
        properties["group.instance.id"] = instance
    return properties


def reader_properties(connection: Properties) -> dict[str, Property]:
    """A consumer that reads named partitions outside of any group, up to their end."""
    return {
        "fetch.queue.backoff.ms": 5,
        "fetch.wait.max.ms": 10,  # an empty partition answers at once that it ends here
        "queued.max.messages.kbytes": 8192,  # the allocator keeps about as much for every thread that ever fetched
        **connection,
        "group.id": "streamlearn-reader",  # required by the client, never joined
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }


def producer_properties(
    connection: Properties, transactional_id: str, commit_interval: float, overrides: Properties
) -> dict[str, Property]:
    """The transactional producer of predictions, offsets and checkpoints. commit_interval: seconds a transaction stays open."""
    return {
        "linger.ms": 5,
        "retry.backoff.ms": 5,  # of 100, doubling: a transaction that begins before the broker has ended the last one is asked for again
        "message.max.bytes": MODELS_MESSAGE_BYTES,
        "compression.type": "lz4",
        "batch.num.messages": 100_000,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 262_144,
        # A killed worker's open transaction holds readers and its successor's recovery back no longer than this.
        "transaction.timeout.ms": int(1000 * max(MIN_TRANSACTION_TIMEOUT, 3 * commit_interval)),
        **connection,
        **overrides,
        "transactional.id": transactional_id,
    }


def staging_properties(connection: Properties) -> dict[str, Property]:
    """The producer of models that wait to be imported: outside of transactions, each record once."""
    return {"compression.type": "lz4", "message.max.bytes": MODELS_MESSAGE_BYTES, **connection, "enable.idempotence": True}


def kafka_error(error: KafkaException) -> KafkaError:
    """The KafkaError inside an exception."""
    inner: KafkaError = error.args[0]
    return inner


@cache
def client_logger() -> logging.Logger:
    """Where librdkafka's own log lines go: through Python's logging, without the repeats."""
    logger = logging.getLogger("librdkafka")
    logger.addFilter(Repeats())
    return logger
