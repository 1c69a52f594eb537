"""A real broker on loopback, topics full of events, worker processes, and an observer that disturbs them little."""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.data import Events, Record, records
from benchmarks.machine import cpu_seconds
from streamlearn.config import Config
from streamlearn.kafka.clients import kafka_error
from streamlearn.kafka.local_broker import LocalBroker
from streamlearn.processes import dying_with_parent

PATIENCE = 60.0  # seconds until something that should happen is given up
ROOT = Path(__file__).parents[1]
Tables = Mapping[str, Any]
_MOVING = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)


class Rig:
    """One broker for all runs of a benchmark, and a folder for their files. Topics of events are made once and read by many runs."""

    def __init__(self) -> None:
        self._closing = contextlib.ExitStack()
        self.folder = Path(self._closing.enter_context(tempfile.TemporaryDirectory(prefix="streamlearn-bench-")))
        self.broker = self._closing.enter_context(LocalBroker())
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        self._runs = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closing.close()

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    @property
    def broker_cpu(self) -> float:
        """CPU seconds of the broker so far."""
        return cpu_seconds(self.broker.pid or 0)

    def unique(self, name: str) -> str:
        """A name that no other run has."""
        self._runs += 1
        return f"{name}-{self._runs}"

    def make_topics(self, names: Iterable[str], partitions: int, settings: Mapping[str, str] | None = None) -> None:
        for made in self._admin.create_topics([NewTopic(name, partitions, 1, config=dict(settings or {})) for name in names]).values():
            made.result(30)

    def delete_topics(self, names: Iterable[str]) -> None:
        for deleted in self._admin.delete_topics(list(names)).values():
            deleted.result(30)

    def fill(self, events: Events, partitions: int = 1, compression: str = "lz4") -> str:
        """A new topic with these events, dealt out in turn or by key; returns its name."""
        topic = self.unique(f"{events.encoding}-{events.dim}-{events.keys}")
        self.make_topics([topic], partitions)
        publish(self.bootstrap, topic, records(events), partitions, compression)
        return topic


def publish(bootstrap: str, topic: str, events: Iterable[Record], partitions: int, compression: str) -> None:
    """Publish as fast as possible and wait for delivery. Events of a key share a partition; without keys they are dealt out in turn."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": compression, "queue.buffering.max.messages": 2_000_000}
    )
    for number, (key, value) in enumerate(events):
        partition = (number if key is None else int(key[1:])) % partitions
        while True:
            try:
                producer.produce(topic, value, key, partition)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(PATIENCE):
        raise TimeoutError(f"events for {topic} were not delivered")


def stream_tables(rig: Rig, app: str, events: Events, topic: str, learner: Tables, **settings: Any) -> dict[str, Any]:
    """The configuration of an application with one stream that reads `topic`. settings: further sections, e.g. checkpoint={...}."""
    stream = {
        "name": app, "input": topic, "encoding": events.encoding, "label": "label", "labels": [-1, 1], "array": "x", "dim": events.dim,
        "learner": dict(learner),
    }  # fmt: skip
    kafka = {"bootstrap": rig.bootstrap, **settings.pop("kafka", {})}
    return {"app": app, "kafka": kafka, "metrics": {"port": 0}, **settings, "streams": [stream]}


class Program:
    """A process that ends with this one, its output in a file. Runs in `folder`, imports this checkout."""

    def __init__(self, command: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        self.started = time.monotonic()
        paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603
                dying_with_parent(command),
                cwd=folder,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": paths, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raises RuntimeError if it has ended."""
        if self._process.poll() is not None:
            raise RuntimeError(f"{self.log.stem} ended with code {self._process.returncode}:\n{self.log.read_text()[-3000:]}")

    def stop(self) -> None:
        """End it in good order."""
        self._process.terminate()
        self._process.wait(60)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Worker(Program):
    """`streamlearn worker` as a process of its own. Its topics must exist."""

    def __init__(self, tables: Tables, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.port = free_port()
        self.config = Config(**{**tables, "metrics": {"port": self.port}})
        path = folder / f"{self.config.app}-{self.port}.toml"
        path.write_text("".join(f"{name} = {_toml(value)}\n" for name, value in {**tables, "metrics": {"port": self.port}}.items()))
        super().__init__(
            [sys.executable, "-m", "streamlearn", "worker", "--config", str(path)], folder, path.with_suffix(".log"), environment
        )

    def await_ready(self, timeout: float = PATIENCE) -> float:
        """Wait until /readyz says so; returns the seconds since the start of the process."""
        deadline = time.monotonic() + timeout
        while not self._is_ready():
            self.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"the worker was not ready within {timeout:g} s; its log ends:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.02)
        return time.monotonic() - self.started

    def metrics(self) -> Mapping[tuple[str, frozenset[tuple[str, str]]], float]:
        """All samples of /metrics by name and labels."""
        status, text = self._get("/metrics")
        if status != 200:
            raise RuntimeError(f"/metrics answered {status}")
        families = text_string_to_metric_families(text)
        return {(s.name, frozenset(s.labels.items())): float(s.value) for family in families for s in family.samples}

    def total(self, name: str) -> float:
        """A metric summed over its labels."""
        return sum(value for (sample, _), value in self.metrics().items() if sample == name)

    def stages(self) -> dict[str, float]:
        """Seconds per stage of the loop so far."""
        return {
            dict(labels)["stage"]: value for (name, labels), value in self.metrics().items() if name == "streamlearn_stage_seconds_total"
        }

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):  # it does not listen yet
            return self._get("/readyz")[0] == 200
        return False

    def _get(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@contextlib.contextmanager
def running(
    rig: Rig,
    tables: Tables,
    count: int = 1,
    partitions: int = 1,
    environment: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[list[Worker]]:
    """Workers of one application: topics made, ended in good order, topics deleted. settings: of the topics, the models' left out."""
    config = Config(**tables)
    kinds = config.topic_kinds()
    own = [topic for topic, kind in kinds.items() if kind != "events"]
    rig.make_topics([topic for topic in own if kinds[topic] != "models"], partitions, settings)
    rig.make_topics([topic for topic in own if kinds[topic] == "models"], partitions, {"cleanup.policy": "compact"})
    workers: list[Worker] = []
    try:
        workers += [Worker(tables, rig.folder, environment) for _ in range(count)]
        yield workers
    finally:
        for worker in workers:
            worker.stop()
        rig.delete_topics(own)


class Observer:
    """The committed offsets of a group: what a reader of committed records could see. Asks the broker, reads no record."""

    def __init__(self, bootstrap: str, group: str, topic: str, partitions: int) -> None:
        # read_uncommitted: otherwise the broker makes the question wait for the transaction that is open.
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_uncommitted"})
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._consumer.close()

    def committed(self) -> int:
        """Events committed so far, of a topic that begins at offset 0; 0 while the group has no coordinator."""
        try:
            return sum(max(0, position.offset) for position in self._consumer.committed(self._partitions, timeout=30))
        except KafkaException as error:
            if kafka_error(error).code() not in _MOVING:
                raise
            return 0


@dataclass(frozen=True, slots=True)
class Mark:
    """Progress at a moment."""

    seconds: float
    events: int
    cpu: float  # seconds, of the measured processes
    broker_cpu: float


@dataclass(frozen=True, slots=True)
class Rate:
    """What was measured between two marks."""

    events: int
    seconds: float
    cpu: float
    broker_cpu: float

    @property
    def per_second(self) -> float:
        return self.events / self.seconds

    @property
    def cpu_per_event(self) -> float:
        """Microseconds."""
        return 1e6 * self.cpu / self.events

    @property
    def broker_cpu_per_event(self) -> float:
        """Microseconds."""
        return 1e6 * self.broker_cpu / self.events


def between(first: Mark, last: Mark) -> Rate:
    return Rate(last.events - first.events, last.seconds - first.seconds, last.cpu - first.cpu, last.broker_cpu - first.broker_cpu)


def follow(rig: Rig, observer: Observer, programs: Sequence[Program], total: int, interval: float = 0.02) -> Iterator[Mark]:
    """A mark whenever more is committed, up to `total` events. Raises TimeoutError when nothing moves."""
    events, moved = -1, time.monotonic()
    while events < total:
        for program in programs:
            program.check()
        committed, now = observer.committed(), time.monotonic()
        if committed > events:
            events, moved = committed, now
            yield Mark(now, events, sum(cpu_seconds(program.pid) for program in programs), rig.broker_cpu)
        elif now - moved > PATIENCE:
            logs = "\n".join(program.log.read_text()[-2000:] for program in programs)
            raise TimeoutError(f"{events} of {total} events committed, then nothing for {PATIENCE:g} s:\n{logs}")
        time.sleep(interval)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _toml(value: Any) -> str:
    """A JSON-like value in TOML's inline notation."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
