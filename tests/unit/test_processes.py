"""Processes are told apart by id and start, and ended in good order or by force."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streamlearn.processes import Process, dying_with_parent, end, identify, is_running

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
    command = dying_with_parent([sys.executable, "-I", "-c", POLITE])
    program = f"import subprocess, time; p = subprocess.Popen({command!r}); print(p.pid, flush=True); time.sleep(60)"
    program = program.replace(repr(command[5]), "str(__import__('os').getpid())")  # the id of the parent, which is not this process
    with subprocess.Popen([sys.executable, "-I", "-c", program], stdout=subprocess.PIPE, text=True) as parent:  # noqa: S603
        assert parent.stdout is not None
        process = identify(int(parent.stdout.readline()))
        parent.stdout.readline()  # the grandchild's own line: it runs
        parent.kill()
    deadline = time.monotonic() + 10
    while is_running(process) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(process)
