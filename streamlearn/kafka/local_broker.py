"""A real Apache Kafka on loopback, one KRaft node, for development and tests. Not for production: one replica, bounded heap."""

import base64
import contextlib
import random
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streamlearn.kafka.distribution import BrokerUnavailable, Distribution, locate
from streamlearn.processes import dying_with_parent

__all__ = ["BrokerUnavailable", "LocalBroker"]

# Quick to start rather than fastest in the long run: the first compiler only, the collector with the fewest threads.
_JVM = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-Xlog:disable", "-Xlog:all=error:stderr"]

# Ports below the range from which Linux takes the source ports of outgoing connections: while a broker is down, a client that
# keeps connecting to a port of that range can end up connected to itself, and the broker cannot have its port back.
_PORTS = range(20_000, 32_000)

_POLL = 0.02  # seconds between two looks at a broker that starts
_LOG_TAIL = 30  # lines shown when it does not


class LocalBroker:
    """A single-node Apache Kafka (broker and controller in one process) that listens on 127.0.0.1 only.

    As a context manager it starts on entry; on exit it stops and removes its data folder, unless the folder was given.

        with LocalBroker() as broker:
            Producer({"bootstrap.servers": broker.bootstrap})

    The broker dies with the thread that started it (Linux: PR_SET_PDEATHSIG), so that nothing outlives a test that is killed. With
    `die_with_parent=False` it lives on until somebody ends the process `pid`. On other systems only `close` ends it.

    data: folder for log segments, settings and `kafka.log`; reused if it holds a broker's data; default a temporary one.
    port: the port of the broker; default a free one. It stays the same over `restart`.
    properties: broker properties that override the ones for one node, e.g. {"transaction.max.timeout.ms": "60000"}.
    """

    def __init__(
        self,
        data: Path | None = None,
        *,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
        die_with_parent: bool = True,
    ) -> None:
        self._temporary = data is None
        self.data = Path(tempfile.mkdtemp(prefix="streamlearn-kafka-")) if data is None else data.absolute()
        self.port = port if port is not None else _free_port()
        self._controller_port = _free_port(besides=self.port)
        self._overrides = dict(properties or {})
        self._die_with_parent = die_with_parent
        self._process: subprocess.Popen[bytes] | None = None
        self._new_archive: tuple[Path, Path] | None = None

    @property
    def bootstrap(self) -> str:
        """The address for clients, `127.0.0.1:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """Process id of the running broker, None if none runs."""
        return self._process.pid if self.running and self._process is not None else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> Path:
        """What the broker printed: warnings, errors, and why it did not start."""
        return self.data / "kafka.log"

    def start(self, timeout: float = 60.0) -> Self:
        """Start and wait until the broker answers metadata requests. Raises BrokerUnavailable with the log's tail."""
        if self.running:
            return self
        distribution = locate()
        deadline = time.monotonic() + timeout
        cluster_id = self._format_storage(distribution)
        log_start = self.log.stat().st_size
        self._process = self._launch(distribution)
        try:
            self._await_ready(cluster_id, deadline, log_start)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self, timeout: float = 30.0) -> None:
        """Stop in good order (SIGTERM), by force (SIGKILL) after `timeout` seconds. The data stay."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            return
        self._process = None
        self._keep_class_archive()

    def kill(self) -> None:
        """Kill at once (SIGKILL), as a crash would. The data stay."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self, timeout: float = 60.0) -> Self:
        """Start again on the same ports and data; stops first if it runs. Raises BrokerUnavailable."""
        self.stop()
        return self.start(timeout)

    def close(self) -> None:
        """Stop, and remove the data folder if it was a temporary one: a broker whose data nobody will see needs no good order."""
        if self._temporary and self._new_archive is None:
            self.kill()
        self.stop()
        if self._temporary:
            shutil.rmtree(self.data, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _settings(self) -> dict[str, str]:
        one_replica = {
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
        }
        small_and_quick = {
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.num.partitions": "1",
            "num.network.threads": "2",
            "num.io.threads": "4",
            "log.cleaner.dedupe.buffer.size": "16777216",
            "group.initial.rebalance.delay.ms": "0",
            # After a kill the controller waits for the dead broker's session to end: 9 s by default, and the restart waits with it.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "group.min.session.timeout.ms": "1000",  # tests want a dead member noticed soon
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        }
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{self._controller_port}",
            "log.dirs": str(self.data / "log"),
            "auto.create.topics.enable": "false",
            **one_replica,
            **small_and_quick,
            **self._overrides,
        }

    def _format_storage(self, distribution: Distribution) -> str:
        """Write the settings, and on an empty folder the storage's identity. Returns the cluster id."""
        self.data.mkdir(parents=True, exist_ok=True)
        self.log.touch()
        settings = self.data / "server.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))
        identity = self.data / "log" / "meta.properties"
        if not identity.exists():
            command = distribution.command(*_JVM, *distribution.shared_classes())
            command += ["kafka.tools.StorageTool", "format", "--cluster-id", _new_cluster_id(), "--config", str(settings)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
            if done.returncode != 0:
                raise BrokerUnavailable(f"Kafka {distribution.version} cannot format {self.data}:\n{done.stdout}{done.stderr}")
        lines = identity.read_text().splitlines()
        return next(line.removeprefix("cluster.id=") for line in lines if line.startswith("cluster.id="))

    def _launch(self, distribution: Distribution) -> subprocess.Popen[bytes]:
        command = distribution.command(*_JVM, *self._class_sharing(distribution))
        command += ["kafka.Kafka", str(self.data / "server.properties")]
        if self._die_with_parent:
            command = dying_with_parent(command)
        with self.log.open("ab") as log:
            return subprocess.Popen(  # noqa: S603
                command,
                cwd=self.data,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes to the parent, which stops the broker in its turn
            )

    def _class_sharing(self, distribution: Distribution) -> list[str]:
        """Use the archive of loaded classes, or have Java write it when this first broker stops in good order."""
        sharing = distribution.shared_classes()
        if sharing:
            return sharing
        unfinished = self.data / "classes.jsa"
        self._new_archive = unfinished, distribution.class_archive
        return [f"-XX:ArchiveClassesAtExit={unfinished}"]

    def _keep_class_archive(self) -> None:
        """Move a newly written archive into the cache, under a name of its own first: nobody may see half of it."""
        if self._new_archive is None:
            return
        (written, archive), self._new_archive = self._new_archive, None
        if written.exists():
            staged = archive.with_name(f".{secrets.token_hex(4)}-{archive.name}")
            shutil.move(written, staged)
            staged.replace(archive)

    def _await_ready(self, cluster_id: str, deadline: float, log_start: int) -> None:
        while time.monotonic() < deadline:
            if not self.running:
                raise BrokerUnavailable(f"Kafka ended while it started; the end of {self.log}:\n{self._log_tail(log_start)}")
            if _accepts_connections(self.port) and self._answers(cluster_id):
                return
            time.sleep(_POLL)
        raise BrokerUnavailable(f"Kafka was not ready in time; the end of {self.log}:\n{self._log_tail(log_start)}")

    def _answers(self, cluster_id: str) -> bool:
        """Whether it is this broker that answers, and it is in the cluster (registered, not fenced)."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        with contextlib.suppress(KafkaException):  # still starting: the caller asks again
            cluster = admin.list_topics(timeout=1.0)
            return cluster.cluster_id == cluster_id and bool(cluster.brokers)
        return False

    def _log_tail(self, start: int) -> str:
        with self.log.open("rb") as log:
            log.seek(start)
            lines = log.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_TAIL:]) or "(the log is empty)"


def _new_cluster_id() -> str:
    """16 bytes in URL-safe base64, as Kafka wants it; the fixed first byte keeps it from looking like an option (a leading dash)."""
    return base64.urlsafe_b64encode(b"\x01" + secrets.token_bytes(15)).rstrip(b"=").decode()


def _free_port(besides: int | None = None) -> int:
    candidates = random.sample(_PORTS, 100)  # random: brokers that start side by side must not all try the same port
    for port in candidates:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port != besides:
                return port
    raise BrokerUnavailable(f"100 ports of {_PORTS.start} to {_PORTS.stop - 1} are in use; end some servers or name a port")


def _accepts_connections(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
        return True
    return False
