"""`streamlearn demo` as a person runs it: to the end, left running, interrupted, and where there is no Java."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from streamlearn.kafka.local_broker import LocalBroker

pytestmark = pytest.mark.integration

TIMEOUT = 120.0  # seconds, for one demo on a busy machine


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """All that a demo leaves in files is under tmp_path, but for the fetched Kafka."""
    (tmp_path / "scratch").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMLEARN_")}
    return {**kept, "TMPDIR": str(tmp_path / "scratch"), "STREAMLEARN_CACHE": str(tmp_path / "cache"), "COLUMNS": "200"}


def demo_command(*options: str) -> list[str]:
    return [sys.executable, "-m", "streamlearn", "demo", *options]


def run_demo(environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(demo_command(*options), env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)  # noqa: S603


def left_behind(environment: dict[str, str]) -> list[str]:
    """Files and processes that a demo has left for good; one that was killed as the demo ended may take a moment to disappear."""
    deadline = time.monotonic() + 5
    while (left := seen(environment)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def seen(environment: dict[str, str]) -> list[str]:
    """Files and processes of a demo."""
    scratch = environment["TMPDIR"]
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            if scratch.encode() in command or (b"streamlearn.demo" in command and scratch.encode() in (folder / "environ").read_bytes()):
                processes.append(command.replace(b"\0", b" ").decode())
        except OSError:  # it has just ended, or is not ours
            continue
    return [*processes, *(str(path) for path in Path(scratch).glob("streamlearn-*"))]


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    """A broker of these tests alone: they look at all its topics."""
    with LocalBroker() as own:
        yield own


def demo_topics(broker: LocalBroker) -> list[str]:
    topics = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30).topics
    return [topic for topic in topics if topic.startswith(("flights-", "streamlearn-demo-"))]


def test_alone_it_starts_a_kafka_of_its_own(environment: dict[str, str]) -> None:
    del environment["STREAMLEARN_CACHE"]  # where this machine's Kafka has been fetched to
    if "STREAMLEARN_CACHE" in os.environ:
        environment["STREAMLEARN_CACHE"] = os.environ["STREAMLEARN_CACHE"]
    done = run_demo(environment, "--events", "2000", "--rate", "5000", "--partitions", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2,000 events, 2,000 predictions: every input offset exactly once" in done.stdout
    assert "not here" not in done.stdout
    assert left_behind(environment) == []


def test_on_a_given_broker_every_event_is_predicted_once_and_nothing_is_left(broker: LocalBroker, environment: dict[str, str]) -> None:
    done = run_demo(environment, "--broker", broker.bootstrap, "--events", "5000", "--rate", "5000")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5,000 events, 5,000 predictions: every input offset exactly once" in done.stdout
    assert "ock cluster" not in done.stdout
    assert left_behind(environment) == []
    assert demo_topics(broker) == []


def test_a_demo_that_is_kept_goes_on_until_it_is_stopped(broker: LocalBroker, environment: dict[str, str]) -> None:
    done = run_demo(environment, "--broker", broker.bootstrap, "--events", "2000", "--rate", "5000", "--keep")
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        lines = dict(line.strip().split(": ", 1) for line in done.stdout.partition("Left running:")[2].strip().splitlines())
        assert urllib.request.urlopen(lines["metrics"], timeout=10).status == 200  # noqa: S310
        asked = subprocess.run(lines["ask the worker"].split(), env=environment, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
        assert sum(partition["offset"] for partition in json.loads(asked.stdout)["partitions"]) == 2000
        config = lines["ask the worker"].split()[-1]
        more = [*lines["publish more"].split()[:3], "--config", config]
        assert "published 60000" in subprocess.run(more, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout  # noqa: S603
        second = run_demo(environment, "--broker", broker.bootstrap, "--keep")
        assert (second.returncode, "left running already" in second.stderr) == (1, True)
        assert committed_predictions(broker, 62_000) == 62_000
    finally:
        stopped = run_demo(environment, "--stop")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert "ended the worker" in stopped.stdout
    assert left_behind(environment) == []
    assert demo_topics(broker) == []
    assert "no demo was left running" in run_demo(environment, "--stop").stdout


def committed_predictions(broker: LocalBroker, expected: int) -> int:
    """How many predictions can be read, waiting for the expected ones."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "test", "isolation.level": "read_committed"})
    [topic] = [topic for topic in demo_topics(broker) if topic.endswith(".predictions")]
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(2)])
    count, deadline = 0, time.monotonic() + 60
    while count < expected and time.monotonic() < deadline:
        count += sum(message.error() is None for message in consumer.consume(10_000, 0.5))
    consumer.close()
    return count


def hear_interrupts() -> None:
    """Where the tests run in the background of a shell, their children ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("running", [False, True], ids=["while it starts", "while it runs"])
def test_ctrl_c_ends_everything(broker: LocalBroker, environment: dict[str, str], running: bool) -> None:
    command = demo_command("--broker", broker.bootstrap, "--rate", "500")
    with subprocess.Popen(  # noqa: S603
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=hear_interrupts,  # noqa: PLW1509
    ) as demo:
        assert demo.stdout is not None
        if running:
            said = next(line for line in demo.stdout if "predicted" in line)
        else:
            said = wait_for(Path(environment["TMPDIR"]), "streamlearn-*/worker.log").name
        os.killpg(demo.pid, signal.SIGINT)
        output = said + demo.communicate(timeout=60)[0]
    assert demo.returncode == 130, output
    assert "stopping everything" in output
    assert "Traceback" not in output
    assert left_behind(environment) == []
    assert demo_topics(broker) == []


def wait_for(folder: Path, pattern: str) -> Path:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for path in folder.glob(pattern):
            return path
        time.sleep(0.02)
    raise AssertionError(f"no {pattern} in {folder}")


def test_without_java_the_mock_cluster_says_what_it_is(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    environment |= {"PATH": str(tmp_path / "empty"), "JAVA_HOME": ""}
    done = run_demo(environment, "--events", "3000", "--rate", "5000")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no `java` on PATH; install Java 17" in done.stdout
    assert "Mock cluster, not Apache Kafka" in done.stdout
    assert "gives no transaction guarantees" in done.stdout
    assert "openjdk-17" in done.stdout
    assert "this proves nothing about delivery" in done.stdout
    assert left_behind(environment) == []


def test_a_broker_that_does_not_answer_is_named(environment: dict[str, str]) -> None:
    done = run_demo(environment, "--broker", "127.0.0.1:1")
    assert done.returncode == 1
    assert "no broker answers at 127.0.0.1:1" in done.stderr
    assert left_behind(environment) == []


def test_a_worker_that_cannot_start_is_quoted(broker: LocalBroker, environment: dict[str, str]) -> None:
    environment["STREAMLEARN_KAFKA__CONSUMER"] = '{"session.timeout.ms": "soon"}'
    done = run_demo(environment, "--broker", broker.bootstrap)
    assert done.returncode == 1
    assert "the worker ended with exit code 1; its log ends" in done.stderr
    assert "session.timeout.ms" in done.stderr
    assert left_behind(environment) == []
