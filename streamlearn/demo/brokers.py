"""Where the demo finds a broker: the one it is given, else Apache Kafka on this machine, else Docker's, else librdkafka's mock cluster."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from streamlearn.kafka.distribution import BrokerUnavailable, locate, to_fetch
from streamlearn.kafka.local_broker import LocalBroker
from streamlearn.processes import Process, dying_with_parent, end, identify

COMPOSE_FILE = Path(__file__).parents[2] / "docker-compose.yml"
COMPOSE_SERVICE, COMPOSE_PORT = "kafka", "9092"
_ENGINE_TIMEOUT = 10.0  # seconds: an engine that runs answers at once
_PULL_TIMEOUT = 600.0
_STOP_TIMEOUT = 30.0

_REMEDY = (
    "install Java 17+ and Maven (Debian: apt-get install openjdk-17-jre-headless maven), start Docker, or name a broker (BROKER=host:port)"
)


@dataclass(frozen=True)
class Broker:
    """A broker that answers. `process` is ours to end."""

    bootstrap: str
    description: str
    process: Process | None = None
    compose: bool = False  # the demo started the compose file's service
    shared: bool = False  # may hold topics of others
    mock: bool = False


def find_broker(given: str | None, folder: Path, keep: bool, console: Console, stack: ExitStack) -> Broker:
    """The first broker that can be had. `stack` takes it down again; with `keep` it lives on when that is not called.

    folder: for its data and log. Says on the console what is fetched, and why a better one was left out.
    """
    if given is not None:
        return Broker(given, f"broker {given}", shared=True)
    attempts: list[Callable[[], Broker]] = [lambda: _apache_kafka(folder, keep, console, stack), lambda: _compose(console, stack)]
    for attempt in attempts:
        try:
            return attempt()
        except BrokerUnavailable as error:
            console.print(f"[yellow]not here:[/] {error}", highlight=False)
    broker = _mock_cluster(folder, keep, stack)
    console.print(
        "[bold yellow]Mock cluster, not Apache Kafka:[/] it is part of the client library librdkafka and speaks Kafka's real "
        "protocol over TCP, but keeps nothing on disk and [bold]gives no transaction guarantees[/]. It shows how the models learn, "
        f"not that every prediction is delivered exactly once. For the real one: {_REMEDY}.",
        highlight=False,
    )
    return broker


def _apache_kafka(folder: Path, keep: bool, console: Console, stack: ExitStack) -> Broker:
    fetching = to_fetch()
    if fetching is not None and shutil.which("java") and shutil.which("mvn"):
        console.print(f"fetching {fetching}; once, the next start finds it there", highlight=False)
    version = locate().version
    broker = LocalBroker(folder / "kafka", die_with_parent=not keep)
    stack.callback(broker.close)
    broker.start()
    if broker.pid is None:
        raise BrokerUnavailable(f"Kafka ended as soon as it had started; see {broker.log}")
    return Broker(broker.bootstrap, f"Apache Kafka {version} at {broker.bootstrap}", identify(broker.pid))


def _compose(console: Console, stack: ExitStack) -> Broker:
    docker = shutil.which("docker")
    if docker is None or not COMPOSE_FILE.is_file():
        raise BrokerUnavailable(
            "no `docker` on PATH" if docker is None else f"Docker needs {COMPOSE_FILE.name}, which is only in a checkout"
        )
    _ask(docker, "info", timeout=_ENGINE_TIMEOUT)
    running = _ask(*_compose_command(docker), "ps", "--status", "running", "--quiet", COMPOSE_SERVICE, timeout=_ENGINE_TIMEOUT)
    if not running:
        console.print(f"starting {COMPOSE_SERVICE} of {COMPOSE_FILE.name} with Docker; the first time it fetches the image")
        stack.callback(stop_compose)
        _ask(*_compose_command(docker), "up", "--detach", "--wait", COMPOSE_SERVICE, timeout=_PULL_TIMEOUT)
    address = _ask(*_compose_command(docker), "port", COMPOSE_SERVICE, COMPOSE_PORT, timeout=_ENGINE_TIMEOUT)
    bootstrap = address.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - Docker's word for any address
    return Broker(bootstrap, f"Apache Kafka in Docker at {bootstrap}", compose=not running, shared=True)


def stop_compose() -> None:
    """Stop the compose file's broker; its data stay in its volume. Raises BrokerUnavailable."""
    docker = shutil.which("docker") or "docker"
    _ask(*_compose_command(docker), "stop", COMPOSE_SERVICE, timeout=_STOP_TIMEOUT)


def _compose_command(docker: str) -> list[str]:
    return [docker, "compose", "--file", str(COMPOSE_FILE)]


def _ask(*command: str, timeout: float) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)  # noqa: S603
    except (subprocess.TimeoutExpired, OSError) as error:
        raise BrokerUnavailable(f"Docker: {error}") from error
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()
        raise BrokerUnavailable(f"Docker: {reason[-1] if reason else f'`{command[1]}` failed'}")
    return done.stdout.strip()


def _mock_cluster(folder: Path, keep: bool, stack: ExitStack) -> Broker:
    command = [sys.executable, "-m", "streamlearn.demo.mock_cluster"]
    with (folder / "mock-cluster.log").open("wb") as log:
        child = subprocess.Popen(  # noqa: S603
            command if keep else dying_with_parent(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    process = identify(child.pid)
    stack.callback(end, process, _STOP_TIMEOUT)
    bootstrap = child.stdout.readline().strip() if child.stdout else ""
    if not bootstrap:
        raise BrokerUnavailable(f"the mock cluster did not start; see {log.name}")
    return Broker(bootstrap, f"MOCK cluster (no guarantees) at {bootstrap}", process, mock=True)
