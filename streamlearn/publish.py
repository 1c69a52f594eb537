"""Publishing the events of a file to a stream's input topic."""

import time
from collections.abc import Callable, Iterable
from itertools import islice

from confluent_kafka import Producer

from streamlearn.config import StreamConfig
from streamlearn.events.encode import event_encoder
from streamlearn.events.files import Event
from streamlearn.kafka.clients import Properties, client_logger

TICK = 0.02  # seconds between two bursts of a limited rate


class PublishError(Exception):
    """Events could not be delivered; the text says how many and why."""


def publish_events(
    events: Iterable[Event], stream: StreamConfig, properties: Properties, rate: float | None = None, on_sent: Callable[[int], object] = id
) -> int:
    """Publish events in order, at most `rate` per second, and wait until all are delivered; returns how many.

    The record's key is the stream's key field, so events of one key stay in order in one partition. on_sent is told the number so far.
    Raises PublishError.
    """
    producer = Producer({"linger.ms": 5, "compression.type": "lz4", "enable.idempotence": True, **properties}, logger=client_logger())
    encode = event_encoder(stream.encoding)
    failures: list[str] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(str(error))

    sent, started = 0, time.monotonic()
    source = iter(events)
    while burst := list(islice(source, _burst(rate, sent, started))):
        for event in burst:
            key = event.get(stream.key) if stream.key else None
            _send(producer, stream.input_topic, None if key is None else str(key).encode(), encode(event), delivered)
        sent += len(burst)
        on_sent(sent)
        if failures:
            raise PublishError(f"{len(failures)} of {sent} events were not delivered to {stream.input_topic}: {failures[0]}")
    producer.flush()
    if failures:
        raise PublishError(f"{len(failures)} of {sent} events were not delivered to {stream.input_topic}: {failures[0]}")
    return sent


def _burst(rate: float | None, sent: int, started: float) -> int:
    """How many events to send now; waits until at least one is due."""
    if rate is None:
        return 1000
    while True:
        due = int((time.monotonic() - started + TICK) * rate) - sent
        if due > 0:
            return due
        time.sleep(TICK / 2)


def _send(producer: Producer, topic: str, key: bytes | None, value: bytes, delivered: Callable[[object, object], None]) -> None:
    while True:
        try:
            producer.produce(topic, value, key, on_delivery=delivered)
            producer.poll(0)
            return
        except BufferError:
            producer.poll(0.1)
