"""Processes are told apart by id and start, and ended in good order or by force."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streamlearn.processes import Process, end, identify, is_running

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
POLITE = "import time; print(flush=True); time.sleep(60)"


@contextmanager
def child(program: str) -> Iterator[subprocess.Popen[bytes]]:
    """A running Python program that has printed its first line."""
    with subprocess.Popen([sys.executable, "-I", "-c", program], stdout=subprocess.PIPE) as process:  # noqa: S603
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_process_is_found_and_ended_in_good_order() -> None:
    with child(POLITE) as started:
        process = identify(started.pid)
        assert is_running(process)
        assert end(process, timeout=10)
        assert not is_running(process)
        assert started.wait() == -signal.SIGTERM


def test_a_stubborn_process_is_ended_by_force() -> None:
    with child(STUBBORN) as started:
        assert not end(identify(started.pid), timeout=0.2)
        assert started.wait(10) == -signal.SIGKILL


def test_a_later_process_with_the_same_id_is_left_alone() -> None:
    with child(POLITE) as started:
        earlier = Process(started.pid, "an earlier start")
        assert not is_running(earlier)
        assert end(earlier, timeout=0.2)
        assert started.poll() is None


def test_a_process_that_has_ended_cannot_be_identified() -> None:
    with child(POLITE) as started:
        started.kill()
        started.wait()
        with pytest.raises(ProcessLookupError, match=str(started.pid)):
            identify(started.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_a_process_can_die_with_its_parent() -> None:
    program = (
        "import subprocess, sys, time; from streamlearn.processes import dying_with_parent;"
        f"command = dying_with_parent([sys.executable, '-I', '-c', {POLITE!r}]);"
        "print(subprocess.Popen(command, stdout=subprocess.DEVNULL).pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:  # noqa: S603
        assert parent.stdout is not None
        process = identify(int(parent.stdout.readline()))
        parent.kill()
    deadline = time.monotonic() + 10
    while is_running(process) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(process)
