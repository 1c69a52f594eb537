"""The HTTP endpoint of a worker: /metrics for Prometheus, /healthz and /readyz for whoever restarts and routes."""

import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

log = structlog.get_logger(__name__)

Check = Callable[[], tuple[bool, str]]
"""Whether all is well, and a line for people. Called on a thread of the endpoint; should answer at once."""

MAX_REQUESTS = 16  # under way at once; more are turned away, so that a flood cannot take the worker's memory
REQUEST_TIMEOUT = 5.0  # seconds a client may take to send its request or to read the answer


class MonitoringError(Exception):
    """The endpoint cannot listen; the text names the address and the remedy."""


class MonitoringServer:
    """Serves a registry and two checks over HTTP, on loopback unless told otherwise. A context manager: listens while it is open."""

    def __init__(self, registry: CollectorRegistry, alive: Check, ready: Check, host: str = "127.0.0.1", port: int = 0) -> None:
        """alive: whether the worker makes progress (/healthz). ready: whether it owns and serves partitions (/readyz). port 0: a free one.

        Listens from here on, and answers after `start`. Raises MonitoringError.
        """
        try:
            self._server = _Server(host, port, registry, {"/healthz": alive, "/readyz": ready})
        except (OSError, OverflowError) as error:
            raise MonitoringError(
                f"metrics.host = {host!r}, metrics.port = {port}: cannot listen there ({error}); choose another, port 0 takes a free one"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="monitoring", daemon=True)

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        host, port = self._server.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and free the port; safe to call twice and without `start`."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Server(ThreadingHTTPServer):
    def __init__(self, host: str, port: int, registry: CollectorRegistry, checks: dict[str, Check]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.registry = registry
        self.checks = checks
        self._free = threading.BoundedSemaphore(MAX_REQUESTS)
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's own asks the name service for our name, which can take seconds
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if not isinstance(error, OSError):  # one who hangs up is no news
            log.error("a monitoring request failed", client=str(client_address[0]), exc_info=error)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_TIMEOUT
    server_version = "streamlearn"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._metrics()
        elif path in self.server.checks:
            self._check(self.server.checks[path])
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"there are /metrics, /healthz and /readyz\n")

    def _metrics(self) -> None:
        encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        self._answer(HTTPStatus.OK, content_type, encode(self.server.registry))

    def _check(self, check: Check) -> None:
        try:
            ok, text = check()
        except Exception as error:
            log.exception("a health check failed", path=self.path)
            ok, text = False, f"the check itself failed: {type(error).__name__}"
        self._answer(HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", f"{text}\n".encode())

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        """Say nothing: probes come every few seconds."""
