"""From the start of a worker process until /readyz says so, with kernels in the cache and without."""

import statistics
import tempfile

from benchmarks.data import Events
from benchmarks.report import Detail, Report, Row, spread
from benchmarks.rig import Rig, running, stream_tables
from benchmarks.throughput import FOGD


def measure(rig: Rig, cache: str) -> float:
    """Seconds to ready, nothing to recover. cache: NUMBA_CACHE_DIR."""
    topic = rig.unique("empty")
    rig.make_topics([topic], 4)
    tables = stream_tables(rig, rig.unique("start"), Events(), topic, FOGD)
    with running(rig, tables, partitions=4, environment={"NUMBA_CACHE_DIR": cache}) as workers:
        seconds = workers[0].await_ready()
    rig.delete_topics([topic])
    return seconds


def report(quick: bool) -> Report:
    repeats = 2 if quick else 5
    with Rig() as rig, tempfile.TemporaryDirectory() as warm:
        measure(rig, warm)
        cached = [measure(rig, warm) for _ in range(repeats)]
        cold = [_measure_cold(rig) for _ in range(repeats)]
    return Report(
        "startup",
        "One stream, FOGD, 4 empty partitions, a broker that runs; from the start of the process to /readyz.",
        [
            Row("start to ready, kernels cached", statistics.median(cached), 4, "s", "lower"),
            Row("start to ready, cold", statistics.median(cold), 15, "s", "lower"),
        ],
        [Detail("Seconds to ready: median (range)", ("kernels", "seconds"), [("cached", spread(cached)), ("compiled anew", spread(cold))])],
    )


def _measure_cold(rig: Rig) -> float:
    with tempfile.TemporaryDirectory() as empty:
        return measure(rig, empty)
