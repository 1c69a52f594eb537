"""Logs: what other people's clients say a thousand times while a broker is away is logged once, what we say always."""

import json
import logging
import subprocess
import sys

import pytest

from streamlearn.logs import REPEAT_INTERVAL, Repeats

PROGRAM = """
import logging, structlog
from streamlearn import logs
logs.configure()
for port in range(20_000, 20_100):
    logging.getLogger("aiokafka.conn").error("Unable connect to node with id 1: Connect call failed ('127.0.0.1', %s)", port)
    logging.getLogger("faust.transport").error("Group Coordinator Request failed: NodeNotReadyError: attempt %s", port)
    structlog.get_logger("streamlearn").warning("retrying", what="committing")
"""


def test_only_repeats_of_foreign_clients_are_left_out() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    loggers = [json.loads(line)["logger"] for line in done.stderr.splitlines()]
    assert {name: loggers.count(name) for name in loggers} == {"aiokafka.conn": 1, "faust.transport": 1, "streamlearn": 100}


def test_a_line_comes_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("streamlearn.logs.time.monotonic", lambda: now)
    repeats = Repeats()

    def passes(line: str) -> bool:
        return repeats.filter(logging.LogRecord("librdkafka", logging.ERROR, "", 0, line, None, None))

    assert passes("FAIL: Connect to 127.0.0.1:9092 failed (after 3 ms)")
    assert not passes("FAIL: Connect to 127.0.0.1:9092 failed (after 5 ms)")
    assert passes("FAIL: Disconnected")
    now += REPEAT_INTERVAL
    assert passes("FAIL: Connect to 127.0.0.1:9092 failed (after 7 ms)")
