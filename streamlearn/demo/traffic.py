"""What the demo sends into Kafka and what it reads back, as any other client would."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice, takewhile
from types import TracebackType
from typing import Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from streamlearn.bundled import FLIGHTS
from streamlearn.config import Config
from streamlearn.demo.measures import Measures, Place
from streamlearn.demo.view import Progress, View
from streamlearn.demo.worker import DemoError, DemoWorker
from streamlearn.events.files import EventFile
from streamlearn.kafka.clients import client_logger
from streamlearn.publish import publish_events

STALLED = 60.0  # seconds without a record after which the run has failed
OVERTIME = 1.0  # seconds of reading on after the last prediction: a second one for the same event would come late
_POLL = 0.1


class Publisher:
    """Publishes the first flights on a thread, from entry as a context manager on; leaving it stops the publishing."""

    def __init__(self, config: Config, events: int, rate: float) -> None:
        """rate: events per second."""
        self.published = 0
        self._config = config
        self._events = events
        self._rate = rate
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="publisher")

    def __enter__(self) -> Self:
        self._done = self._pool.submit(self._publish)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._pool.shutdown()

    def check(self) -> None:
        """Raises what has ended the publishing too early, if something has."""
        if self._done.done():
            self._done.result()

    def _publish(self) -> None:
        [stream] = self._config.streams
        with EventFile(FLIGHTS) as file:
            events = takewhile(lambda _: not self._stop.is_set(), islice(file, self._events))
            publish_events(events, stream, self._config.kafka.client_properties(), self._rate, self._count)

    def _count(self, published: int) -> None:
        self.published = published


def measure(config: Config, events: int, rate: float, worker: DemoWorker, measures: Measures, view: View) -> float:
    """Publish, and read events and predictions until every event has its prediction; returns the seconds that took.

    Raises DemoError when the worker ends or nothing comes any more.
    """
    with closing(_reader(config)) as reader, Publisher(config, events, rate) as publisher:
        started = last = time.time()
        while True:
            for message in _read(reader):
                last = time.time()
                _take(measures, message, config, last)
            now = time.time()
            complete = measures.events >= events and measures.predicted >= events
            if complete and now - last > OVERTIME:
                break
            if now - last > STALLED:
                raise DemoError(f"nothing came for {STALLED:.0f} s; {measures.missing} of {measures.events} events have no prediction")
            worker.check()
            publisher.check()
            if not complete:
                view.update(Progress(events, publisher.published, now))
        view.update(Progress(events, publisher.published, last), last=True)
    return last - started


def _reader(config: Config) -> Consumer:
    """Reads the committed records of the input and output topic, all partitions from the beginning, outside of any group."""
    [stream] = config.streams
    properties = {
        "fetch.queue.backoff.ms": 5,
        **config.kafka.client_properties(),
        "group.id": f"{config.app}-demo",  # required by the client, never joined
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    reader = Consumer(properties, logger=client_logger())
    topics = reader.list_topics(timeout=10).topics
    places = [(topic, partition) for topic in (stream.input_topic, stream.output_topic) for partition in topics[topic].partitions]
    reader.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in places])
    return reader


def _read(reader: Consumer) -> Iterator[Message]:
    """Wait for a message, then all that have come."""
    first = reader.poll(_POLL)
    if first is not None:
        yield first
        yield from reader.consume(10_000, 0)


def _take(measures: Measures, message: Message, config: Config, now: float) -> None:
    error, value, place = message.error(), message.value(), Place(message.partition() or 0, message.offset() or 0)
    if error is not None:
        if not error.retriable():
            raise DemoError(f"reading {message.topic()} failed: {error.str()}")
    elif value is None:
        raise DemoError(f"{message.topic()} has an empty record at {place}")
    elif message.topic() == config.streams[0].input_topic:
        measures.event(place, value, message.timestamp()[1] / 1000)
    else:
        measures.prediction(value, now)
