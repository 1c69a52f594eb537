"""The machine a benchmark runs on, and what processes use of it (Linux: /proc)."""

import os
import platform
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PACKAGES = ("streamlearn", "numpy", "numba", "confluent-kafka", "msgspec", "faust-streaming")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process holds at a moment."""

    resident: int  # bytes
    descriptors: int
    threads: int


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, user and system, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def busy_seconds() -> float:
    """CPU time that all processes of the machine have used since it started, idle and stolen time left out."""
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8])
    return (user + nice + system + irq + softirq) / _TICKS


def usage(pid: int) -> Usage:
    """Memory, open files and threads of a process."""
    process = Path(f"/proc/{pid}")
    pages = int((process / "statm").read_text().split()[1])
    threads = len(list((process / "task").iterdir()))
    return Usage(pages * _PAGE, len(list((process / "fd").iterdir())), threads)


def describe() -> str:
    """Lines for a report: when, on what, with which versions, and how busy the machine was."""
    versions = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    return (
        f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}; {os.cpu_count()} cores of {_processor()}; "
        f"Linux {platform.release()}; load {os.getloadavg()[0]:.1f} (1 minute, this benchmark included).\n"
        f"Python {platform.python_version()}, {versions}."
    )


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
