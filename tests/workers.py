"""Worker processes for tests on a real broker, and what a foreign reader of their topics needs: plain confluent-kafka, nothing of ours."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from streamlearn.config import Config
from streamlearn.kafka.topics import apply, load_definitions, plan, with_overrides
from streamlearn.processes import dying_with_parent
from streamlearn.warm import compile_config

WORKER = (sys.executable, "-m", "streamlearn", "worker")
PATIENCE = 60.0  # seconds until something that should happen is given up
_POLL = 0.05
_STARTING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._TIMED_OUT,
)

Table = Mapping[str, Any]


class Record(NamedTuple):
    """An event to publish."""

    key: bytes | None
    value: bytes | None


def eventually(condition: Callable[[], bool], what: str, timeout: float = PATIENCE) -> None:
    """Wait until the condition holds. Raises TimeoutError naming what did not happen."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout:g} s: {what}")
        time.sleep(_POLL)


# Configurations and topics.


def toml(value: Any) -> str:
    """A JSON-like value in TOML's inline notation."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)} = {toml(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def write_config(path: Path, tables: Table) -> Path:
    """A configuration file for workers."""
    path.write_text("".join(f"{name} = {toml(value)}\n" for name, value in tables.items()))
    return path


def make_topics(config: Config, partitions: int) -> None:
    """The topics that a configuration needs."""
    properties = config.kafka.client_properties()
    apply(properties, plan(properties, with_overrides(load_definitions(), partitions, 1), config.topic_kinds()))


class Application:
    """A configuration with dead members noticed soon, its file and its topics on a broker."""

    def __init__(self, bootstrap: str, folder: Path, app: str, streams: Sequence[Table], partitions: int = 1, **tables: Any) -> None:
        """Streams need names that no other test uses. tables: further tables of the configuration."""
        self._folder = folder
        self.bootstrap = bootstrap
        self.tables: Table = {
            "app": app,
            "kafka": {
                "bootstrap": bootstrap,
                "consumer": {"session.timeout.ms": 2000, "heartbeat.interval.ms": 200},
                "producer": {"transaction.timeout.ms": 4000},
            },
            "metrics": {"port": 0},
            "checkpoint": {"interval": 0.5},
            **tables,
            "streams": streams,
        }
        self.config = Config(**self.tables)
        self.stream = self.config.streams[0]
        self.file = self.write("streamlearn")
        make_topics(self.config, partitions)
        compile_config(self.config)  # once and into the cache, not in every worker at the same time

    def write(self, name: str, **changes: Any) -> Path:
        """A configuration file with some tables replaced."""
        return write_config(self._folder / f"{name}.toml", {**self.tables, **changes})

    def publish(self, events: Iterable[Table], partition: int = -1) -> None:
        """Publish JSON events to the first stream, their key field as the record's key. partition -1: by key."""
        field = self.stream.key
        records = (Record(str(event[field]).encode() if field else None, json.dumps(event).encode()) for event in events)
        publish(self.bootstrap, self.stream.input_topic, records, partition)

    def await_end(self, timeout: float = PATIENCE) -> None:
        """Wait until everything published is committed. Raises TimeoutError."""
        with GroupWatcher(self.bootstrap, self.config.app) as group:
            group.await_end([stream.input_topic for stream in self.config.streams], timeout)

    def input(self) -> dict[int, list[Message]]:
        """The first stream's events, by partition."""
        return read_topic(self.bootstrap, self.stream.input_topic)

    def output(self) -> dict[int, list[Message]]:
        """The first stream's committed predictions, by partition."""
        return read_topic(self.bootstrap, self.stream.output_topic)


# Worker processes.


class WorkerProcess:
    """A running worker, its log in a file. It dies with the test."""

    def __init__(self, config: Path, log: Path, environment: Mapping[str, str], command: Sequence[str] = WORKER) -> None:
        self.log = log
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(  # noqa: S603
                dying_with_parent([*command, "--config", str(config)]),
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment},
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
            )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def hears_sigterm(self) -> bool:
        """Whether the program has begun to handle SIGTERM; before that, Python itself is starting."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        [caught] = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:")]
        return bool(caught >> (signal.SIGTERM - 1) & 1)

    def signal(self, number: signal.Signals) -> None:
        if self.running:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def stop(self, timeout: float = 40.0) -> int:
        """End it in good order; returns its exit code. Raises TimeoutError when it does not end."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def wait(self, timeout: float = PATIENCE) -> int:
        """Its exit code. Raises TimeoutError, with its log's tail, when it does not end."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the worker did not end within {timeout:g} s:\n{self.text()[-3000:]}") from None

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log's entries of this name."""
        return [entry for entry in _entries(self.text()) if entry.get("event") == name]

    def await_event(self, name: str, timeout: float = PATIENCE) -> dict[str, Any]:
        """The first log entry of this name. Raises TimeoutError, or RuntimeError when the worker has ended."""

        def there() -> bool:
            if not self.events(name) and not self.running:
                raise RuntimeError(f"the worker ended with code {self._process.returncode} before it logged {name!r}:\n{self.text()}")
            return bool(self.events(name))

        eventually(there, f"the log entry {name!r}", timeout)
        return self.events(name)[0]

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of the worker's monitoring endpoint."""
        url = self.await_event("monitoring")["url"]
        try:
            with urllib.request.urlopen(url + path, timeout=10) as answer:  # noqa: S310 - the worker's own address
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def await_ready(self, timeout: float = PATIENCE) -> Self:
        """Wait until it owns partitions and has recovered them."""

        def ready() -> bool:
            if not self.running:
                raise RuntimeError(f"the worker ended with code {self._process.returncode} before it was ready:\n{self.text()}")
            return self.get("/readyz")[0] == 200

        eventually(ready, "the worker being ready", timeout)
        return self


class Workers:
    """Starts workers, and ends those that are left on exit."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.started: list[WorkerProcess] = []

    def start(self, config: Path, environment: Mapping[str, str] | None = None, command: Sequence[str] = WORKER) -> WorkerProcess:
        worker = WorkerProcess(config, self._folder / f"worker-{len(self.started)}.log", environment or {}, command)
        self.started.append(worker)
        return worker

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for worker in self.started:
            worker.signal(signal.SIGCONT)
            worker.kill()


def _entries(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        with contextlib.suppress(json.JSONDecodeError):  # a line that is being written
            entry = json.loads(line)
            if isinstance(entry, dict):
                yield entry


# Foreign clients.


def publish(bootstrap: str, topic: str, records: Iterable[Record], partition: int = -1) -> None:
    """Publish records and wait for their delivery. partition -1: by key."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for record in records:
        producer.produce(topic, record.value, record.key, partition)
        producer.poll(0)
    if producer.flush(PATIENCE):
        raise TimeoutError(f"{topic} did not take all records")


def read_topic(bootstrap: str, topic: str, isolation: str = "read_committed", timeout: float = PATIENCE) -> dict[int, list[Message]]:
    """Every record that the topic has now, by partition; waits for the end of transactions that are open. Raises TimeoutError."""
    ends = end_offsets(bootstrap, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "foreign-reader", "isolation.level": isolation, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 10,
        }
    )  # fmt: skip
    records: dict[int, list[Message]] = {number: [] for number in ends}
    unread = {number for number, end in ends.items() if end > 0}
    deadline = time.monotonic() + timeout
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in sorted(ends)])
        while unread:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} {sorted(unread)} cannot be read to the end: a transaction is open")
            for message in consumer.consume(10_000, 0.2):
                error, number, offset = message.error(), message.partition() or 0, message.offset() or 0
                if error is None:
                    records[number].append(message)
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                elif offset >= ends[number]:
                    unread.discard(number)
    finally:
        consumer.close()
    return records


def end_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    """Offset after the last record of each partition, records of open transactions included."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "foreign-reader", "isolation.level": "read_uncommitted"})
    try:
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1] for number in partitions(consumer, topic)
        }
    finally:
        consumer.close()


def partitions(consumer: Consumer, topic: str) -> list[int]:
    """The topic's partitions; waits for those of a topic that was made just now. Raises TimeoutError."""
    found: list[int] = []

    def known() -> bool:
        found[:] = sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        return bool(found)

    eventually(known, f"the partitions of {topic} being known")
    return found


class GroupWatcher:
    """Reads the committed offsets of a consumer group without joining it."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_uncommitted"})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._consumer.close()

    def committed(self, topic: str) -> dict[int, int]:
        """By partition; 0 where nothing is committed. Waits for a coordinator that is only just starting."""
        wanted = [TopicPartition(topic, number) for number in partitions(self._consumer, topic)]
        answer: list[TopicPartition] = []

        def answered() -> bool:
            try:
                answer[:] = self._consumer.committed(wanted, timeout=30)
            except KafkaException as error:
                if error.args[0].code() not in _STARTING:
                    raise
            return bool(answer)

        eventually(answered, f"the committed offsets of {topic}")
        return {position.partition: max(0, position.offset) for position in answer}

    def await_end(self, topics: Sequence[str], timeout: float = PATIENCE) -> None:
        """Wait until the group has committed all that the topics have now. Raises TimeoutError."""
        ends = {topic: end_offsets(self._bootstrap, topic) for topic in topics}
        deadline = time.monotonic() + timeout
        while behind := {topic: lag for topic in topics if (lag := self._lag(topic, ends[topic]))}:
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {timeout:g} s: the group is behind by {behind} events")
            time.sleep(_POLL)

    def _lag(self, topic: str, ends: Mapping[int, int]) -> dict[int, int]:
        """Events before these ends that are not committed, by partition where there are any."""
        return {number: ends[number] - offset for number, offset in self.committed(topic).items() if offset < ends[number]}
