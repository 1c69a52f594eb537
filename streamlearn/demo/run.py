"""The demo from beginning to end."""

import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path

from confluent_kafka import Consumer, Message, TopicPartition
from rich.console import Console

from streamlearn.bundled import FLIGHTS
from streamlearn.config import Config
from streamlearn.demo.brokers import Broker, find_broker
from streamlearn.demo.keep import END_TIMEOUT, Kept, forget, remember, remembered, remove_topics
from streamlearn.demo.measures import Measures, Place
from streamlearn.demo.view import Progress, View, print_summary
from streamlearn.demo.worker import DemoError, DemoWorker, write_config
from streamlearn.events.files import EventFile
from streamlearn.kafka import topics as kafka_topics
from streamlearn.kafka.clients import Properties, client_logger
from streamlearn.processes import end, is_running
from streamlearn.publish import publish_events

FLIGHTS_COUNT = 60_000
STALLED = 60.0  # seconds without a new prediction after which the run has failed
OVERTIME = 1.0  # seconds of reading on after the last prediction: a double would come late
INTERRUPTED = 130


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the person asked for."""

    broker: str | None  # host:port
    keep: bool  # leave everything running at the end
    rate: float  # events per second
    events: int
    partitions: int


def run(options: Options, console: Console) -> int:
    """Start everything, publish, measure, take everything down; returns the exit code. Raises DemoError, TopicsError."""
    if options.keep and (kept := remembered()) is not None and any(map(is_running, kept.processes)):
        raise DemoError("a demo was left running already; `streamlearn demo --stop` ends it")
    _end_on_signals()
    with ExitStack() as stack:
        stack.callback(console.show_cursor)
        try:
            code = _demo(options, console, stack)
        except KeyboardInterrupt:
            code = INTERRUPTED
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing interrupts the clearing up
        if code == 0 and options.keep:
            stack.pop_all()
        elif code == INTERRUPTED:
            console.print("\nstopping everything")
    return code


def _demo(options: Options, console: Console, stack: ExitStack) -> int:
    folder = Path(tempfile.mkdtemp(prefix="streamlearn-demo-"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    with console.status("starting a broker"):
        broker = find_broker(options.broker, folder, options.keep, console, stack)
        config, path = write_config(folder, broker.bootstrap, secrets.token_hex(3) if broker.shared else None)
        partitions = _make_topics(config, broker, options.partitions, stack)
    with console.status("starting a worker; the first time it compiles its kernels"):
        worker = DemoWorker(config, path, options.keep)
        stack.callback(end, worker.process, END_TIMEOUT)
        if options.keep:
            _remember(folder, worker, broker, stack)
        worker.await_ready()
    title = f"{broker.description}, {partitions} partitions, worker process {worker.process.pid}"
    measures = Measures()
    with View(console, title, measures) as view:
        seconds = _measure(options, config, worker, measures, view)
    print_summary(console, measures, seconds, broker.mock)
    if options.keep:
        _print_kept(console, config, path, worker)
    else:
        console.print(f"Next: `make demo KEEP=1` leaves it running to look around; {_readme()} has the ten lines for a topic of your own.")
    return 1 if measures.missing or measures.doubled or measures.events != options.events else 0


def _end_on_signals() -> None:
    """Whatever ends the demo, everything that it started is taken down."""

    def leave(number: int, _: object) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)


def _make_topics(config: Config, broker: Broker, partitions: int, stack: ExitStack) -> int:
    """Returns how many partitions the stream has."""
    connection = config.kafka.client_properties()
    if broker.mock:  # it has no request for making topics; it makes those that are asked for
        with closing(_consumer(connection)) as consumer:
            return max(len(consumer.list_topics(topic, timeout=10).topics[topic].partitions) for topic in config.topic_kinds())
    if broker.shared:
        stack.callback(remove_topics, config)
    definitions = kafka_topics.with_overrides(kafka_topics.load_definitions(), partitions, replication=1)
    kafka_topics.apply(connection, kafka_topics.plan(connection, definitions, config.topic_kinds()))
    return partitions


def _remember(folder: Path, worker: DemoWorker, broker: Broker, stack: ExitStack) -> None:
    processes = [worker.process] if broker.process is None else [worker.process, broker.process]
    remember(Kept(str(folder), processes, broker.shared, broker.compose))
    stack.callback(forget)


def _measure(options: Options, config: Config, worker: DemoWorker, measures: Measures, view: View) -> float:
    """Publish and read until every event has its prediction; returns the seconds that took. Raises DemoError."""
    connection = config.kafka.client_properties()
    with closing(_reader(config, connection)) as reader, _Publisher(options, config, connection) as publisher:
        started = finished = time.time()
        while True:
            now = time.time()
            for message in _poll(reader):
                _take(measures, message, config, time.time())
            if measures.predicted == measures.events == options.events:
                if now > finished + OVERTIME:
                    break
            else:
                finished = now
            worker.check()
            publisher.check()
            view.update(Progress(options.events, publisher.published, now))
        view.update(Progress(options.events, publisher.published, now), last=True)
        return finished - started


class _Publisher:
    """Publishes the flights on a thread. A context manager: leaving it stops the publishing."""

    def __init__(self, options: Options, config: Config, connection: Properties) -> None:
        self.published = 0
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="publisher")
        self._done: Future[None] = self._pool.submit(self._publish, options, config, connection)
