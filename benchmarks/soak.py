"""A long run at half of the maximum rate while keys come and go: do memory, files, threads and lag stay flat?

python -m benchmarks soak
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.data import Events
from benchmarks.machine import usage
from benchmarks.publisher import Pace, publishing
from benchmarks.report import Detail, Report, Row, figure
from benchmarks.rig import Rig, Worker, running, stream_tables
from benchmarks.throughput import FOGD, Case, measure_worker

POPULATION = 5_000  # keys in all; each comes back once per turn
ALIVE = 1_000
TURNS = 4  # of the population during the run; all models exist after the first
INTERVAL = 1.0  # seconds between samples
FASTEST = 150_000.0  # events per second that one Python publisher manages beside worker and broker
BOUNDED = {"retention.bytes": "1000000000", "segment.bytes": "200000000"}  # of a partition: half an hour would fill a disk


@dataclass(frozen=True, slots=True)
class Sample:
    """The worker at a moment."""

    seconds: float
    resident: float  # MB
    descriptors: float
    threads: float
    lag: float  # events


def measure(rig: Rig, rate: float, minutes: float) -> list[Sample]:
    app, topic, seconds = rig.unique("soak"), rig.unique("churning"), 60 * minutes
    rig.make_topics([topic], 2, BOUNDED)
    tables = stream_tables(rig, app, Events(), topic, FOGD)
    pace = Pace(rig.bootstrap, topic, 2, rate, seconds + 60, keys=POPULATION, alive=ALIVE, churn=TURNS * POPULATION / seconds)
    with running(rig, tables, partitions=2, settings=BOUNDED) as workers:
        workers[0].await_ready()
        with publishing(rig, pace) as publisher:
            return _sample(workers[0], publisher.check, seconds)


def _sample(worker: Worker, check: Callable[[], None], seconds: float) -> list[Sample]:
    samples, began = [], time.monotonic()
    while (elapsed := time.monotonic() - began) < seconds:
        worker.check()
        check()
        held = usage(worker.pid)
        samples.append(
            Sample(elapsed, held.resident / 1e6, held.descriptors, held.threads, worker.total("streamlearn_consumer_lag_events"))
        )
        time.sleep(INTERVAL)
    return samples


def growth(samples: Sequence[Sample], attribute: str) -> tuple[float, float]:
    """(mean, growth) over the second half of the run, by which all models exist; growth is the slope times the length of that half."""
    half = samples[len(samples) // 2 :]
    seconds = np.array([sample.seconds for sample in half])
    values = np.array([getattr(sample, attribute) for sample in half], np.float64)
    slope = np.polyfit(seconds, values, 1)[0]
    return float(values.mean()), round(float(slope * (seconds[-1] - seconds[0])), 3)


def report(quick: bool, minutes: float | None = None) -> Report:
    minutes = minutes or (2 if quick else 30)
    with Rig() as rig:
        case = Case("", Events(keys=POPULATION, count=300_000))
        topic = rig.fill(case.events)
        most = measure_worker(rig, case, topic).rate.per_second
        rate = min(most / 2, FASTEST)
        samples = measure(rig, rate, minutes)
    found = {name: growth(samples, name) for name in ("resident", "descriptors", "threads", "lag")}
    allowed = {
        "resident": 0.03 * found["resident"][0],
        "descriptors": 1.0,
        "threads": 1.0,
        "lag": 0.5 * rate,
    }  # checkpoints make the lag a saw
    units = {"resident": "MB", "descriptors": "files", "threads": "threads", "lag": "events"}
    return Report(
        "soak",
        f"{minutes:g} minutes at {rate:,.0f} events/s (measured maximum {most:,.0f}), {POPULATION:,} keys that come and go, "
        f"{ALIVE:,} at a time, checkpoints every 10 s, 2 partitions. Growth is that of a straight line through the second half of the run.",
        [Row(f"growth of {name} over {minutes / 2:g} minutes", found[name][1], allowed[name], units[name], "lower") for name in found],
        [
            Detail(
                "Second half", ("what", "mean", "growth", "allowed", "verdict"),
                [
                    (name, f"{figure(mean)} {units[name]}", figure(grown), figure(allowed[name]), verdict(grown <= allowed[name]))
                    for name, (mean, grown) in found.items()
                ],
            )
        ],
    )  # fmt: skip


def verdict(flat: bool) -> str:
    return "flat" if flat else "NOT FLAT"
