"""The demo from beginning to end."""

import secrets
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient
from rich.console import Console

from streamlearn.config import Config
from streamlearn.demo.brokers import Broker, find_broker
from streamlearn.demo.keep import END_TIMEOUT, Kept, forget, remember, remembered, remove_traces
from streamlearn.demo.measures import Measures
from streamlearn.demo.traffic import measure
from streamlearn.demo.view import View, print_kept, print_next, print_summary
from streamlearn.demo.worker import DemoError, DemoWorker, write_config
from streamlearn.kafka import topics as kafka_topics
from streamlearn.kafka.clients import client_logger
from streamlearn.processes import end, is_running

INTERRUPTED = 130  # exit code after Ctrl-C, as shells report it


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the person asked for."""

    broker: str | None  # host:port
    keep: bool  # leave everything running at the end
    rate: float  # events per second
    events: int
    partitions: int


def run(options: Options, console: Console) -> int:
    """Start everything, publish, measure, take everything down; returns the exit code.

    Raises DemoError, and what the modules it uses raise when the broker, the topics or the file fail them.
    """
    if options.keep and (kept := remembered()) is not None and any(map(is_running, kept.processes)):
        raise DemoError("a demo was left running already; `streamlearn demo --stop` ends it")
    _leave_on_signals()
    with ExitStack() as stack:
        try:
            code = _demo(options, console, stack)
        except KeyboardInterrupt:
            console.print("\nstopping everything")
            code = INTERRUPTED
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing interrupts the clearing up
        if code == 0 and options.keep:
            stack.pop_all()
    return code


def _leave_on_signals() -> None:
    """However the demo is ended, what it has started is taken down."""

    def leave(number: int, _: object) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)


def _demo(options: Options, console: Console, stack: ExitStack) -> int:
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="streamlearn-demo-"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    with console.status("starting a broker"):
        broker = find_broker(options.broker, folder, options.keep, console, stack)
        config, path = write_config(folder, broker.bootstrap, secrets.token_hex(3) if broker.shared else None)
        partitions = _make_topics(config, broker, options.partitions, stack)
    with console.status("starting a worker; the first time it compiles its kernels"):
        worker = _start_worker(config, path, broker, options.keep, stack)
    console.print(f"broker and worker were ready after {time.monotonic() - begun:.1f} s", highlight=False)
    measures = Measures()
    with View(console, f"{broker.description}, {partitions} partitions, worker process {worker.process.pid}", measures) as view:
        seconds = measure(config, options.events, options.rate, worker, measures, view)
    print_summary(console, measures, seconds, broker.mock)
    if options.keep:
        print_kept(console, broker.bootstrap, worker.metrics, worker.log, path)
    else:
        print_next(console)
    exactly_once = measures.events == options.events and not (measures.missing or measures.doubled)
    return 0 if exactly_once else 1


def _make_topics(config: Config, broker: Broker, partitions: int, stack: ExitStack) -> int:
    """Returns how many partitions the stream has."""
    connection = config.kafka.client_properties()
    if broker.mock:  # knows no request for making topics, but makes those that are asked for, with a partition count of its own
        admin = AdminClient(dict(connection), logger=client_logger())
        return max(len(admin.list_topics(topic, timeout=10).topics[topic].partitions) for topic in config.topic_kinds())
    definitions = kafka_topics.with_overrides(kafka_topics.load_definitions(), partitions, replication=1)
    differences = kafka_topics.plan(connection, definitions, config.topic_kinds())
    if broker.shared:
        stack.callback(remove_traces, config)
    kafka_topics.apply(connection, differences)
    return partitions


def _start_worker(config: Config, path: Path, broker: Broker, keep: bool, stack: ExitStack) -> DemoWorker:
    worker = DemoWorker(config, path, keep)
    stack.callback(end, worker.process, END_TIMEOUT)
    if keep:
        processes = [worker.process] if broker.process is None else [worker.process, broker.process]
        remember(Kept(str(path.parent), processes, broker.shared, broker.compose))
        stack.callback(forget)
    worker.await_ready()
    return worker
