"""Processes that a command starts beside itself: they end with it, or can be found and ended later."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

_POLL = 0.05  # seconds between two looks at a process that ends

# Runs in the child first: the kernel kills this process when its parent dies; then it becomes the command, with the same id.
_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
    sys.exit("prctl(PR_SET_PDEATHSIG) failed: " + os.strerror(ctypes.get_errno()))
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent is already gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


class Process(msgspec.Struct, frozen=True):
    """A process, told apart from a later one that was given the same id."""

    pid: int
    started: str  # when, in the system's own notation


def dying_with_parent(command: Sequence[str]) -> list[str]:
    """A command line that runs the command (its first word a path) and is killed when the starting thread dies. Linux only."""
    if sys.platform != "linux":
        return list(command)
    # Not a preexec_fn: Python code between fork and exec may deadlock in a process that has threads, and librdkafka has.
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]


def identify(pid: int) -> Process:
    """The running process of this id. Raises ProcessLookupError when there is none."""
    started = _started(pid)
    if started is None:
        raise ProcessLookupError(f"there is no process {pid}")
    return Process(pid, started)


def is_running(process: Process) -> bool:
    """Whether it still runs; one that has ended and waits for its parent's notice does not."""
    return _started(process.pid) == process.started


def end(process: Process, timeout: float) -> bool:
    """End it in good order (SIGTERM), by force (SIGKILL) after `timeout` seconds; returns whether good order was enough."""
    _signal(process, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while is_running(process):
        if time.monotonic() > deadline:
            _signal(process, signal.SIGKILL)
            return False
        time.sleep(_POLL)
    return True


def _signal(process: Process, number: signal.Signals) -> None:
    if is_running(process):
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.kill(process.pid, number)


def _started(pid: int) -> str | None:
    """When the process started: clock ticks since boot on Linux, a date elsewhere. None if it does not run."""
    if sys.platform == "linux":
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] == "Z" else fields[19]
    ps = shutil.which("ps") or "/bin/ps"
    answer = subprocess.run([ps, "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603
    state, _, started = answer.stdout.strip().partition(" ")
    return started.strip() if state and not state.startswith("Z") else None
