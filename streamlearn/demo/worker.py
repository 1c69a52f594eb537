"""The worker of the demo: a process of its own, as in production."""

import http
import http.client
import socket
import subprocess
import sys
import time
from pathlib import Path

from streamlearn.bundled import FLIGHTS_CONFIG
from streamlearn.config import Config, load
from streamlearn.processes import Process, dying_with_parent, identify

START_TIMEOUT = 180.0  # seconds: the first start compiles kernels
_LOG_TAIL = 15  # lines shown when it fails


class DemoError(Exception):
    """The demo cannot go on; the text says why."""


class DemoWorker:
    """`streamlearn worker` with the demo's configuration, its log in a file."""

    def __init__(self, config: Config, path: Path, keep: bool) -> None:
        """path: the configuration file."""
        command = [sys.executable, "-m", "streamlearn", "worker", "--config", str(path)]
        self.log = path.with_name("worker.log")
        self._config = config
        with self.log.open("wb") as log:
            self._child = subprocess.Popen(  # noqa: S603
                command if keep else dying_with_parent(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes to the demo, which stops the worker in its turn
            )
        self.process: Process = identify(self._child.pid)

    @property
    def metrics(self) -> str:
        return f"http://{self._config.metrics.host}:{self._config.metrics.port}/metrics"

    def await_ready(self) -> None:
        """Wait until it has compiled, joined the group and recovered. Raises DemoError."""
        deadline = time.monotonic() + START_TIMEOUT
        while not self._ready():
            self.check()
            if time.monotonic() > deadline:
                raise DemoError(f"the worker was not ready within {START_TIMEOUT:.0f} s; its log ends:\n{self._tail()}")
            time.sleep(0.1)

    def check(self) -> None:
        """Raises DemoError if the worker has ended."""
        code = self._child.poll()
        if code is not None:
            raise DemoError(f"the worker ended with exit code {code}; its log ends:\n{self._tail()}")

    def _ready(self) -> bool:
        connection = http.client.HTTPConnection(self._config.metrics.host, self._config.metrics.port, timeout=2.0)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):  # it does not listen yet
            return False
        finally:
            connection.close()

    def _tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LOG_TAIL:]) or "(the log is empty)"


def write_config(folder: Path, bootstrap: str, run: str | None) -> tuple[Config, Path]:
    """The bundled configuration for this broker, as a file that every command takes. Raises DemoError.

    run: makes the names of the application and the stream, and so of all topics, this run's own; None on a broker of its own.
    """
    text = FLIGHTS_CONFIG.read_text()
    if run is not None:
        text = text.replace('"streamlearn-demo"', f'"streamlearn-demo-{run}"').replace('name = "flights"', f'name = "flights-{run}"')
    path = folder / "streamlearn.toml"
    path.write_text(f'{text}\n[kafka]\nbootstrap = "{bootstrap}"\n\n[metrics]\nport = {_metrics_port()}\n')
    config = load(path)
    if config.kafka.bootstrap != bootstrap:
        raise DemoError("STREAMLEARN_KAFKA__BOOTSTRAP is set and would send the demo to another broker: unset it, or use --broker")
    return config, path


def _metrics_port() -> int:
    """The usual port if it is free, so that a Prometheus that is set up for it finds the demo; else any."""
    for port in (9400, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return int(probe.getsockname()[1])
            except OSError:
                continue
    raise DemoError("no port is free for the metrics")
