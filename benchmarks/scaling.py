"""What happens to throughput with many keys, with more partitions and with a second worker."""

import statistics
from collections.abc import Sequence

from benchmarks.data import Events
from benchmarks.report import Detail, Report, Row, figure, spread
from benchmarks.rig import Rig
from benchmarks.throughput import FOGD, Case, WorkerRun, measure_worker

KEYS = (1, 1_000, 100_000)
HEAVY = {**FOGD, "frequencies": 4000}  # with d = 300 learning takes nearly all of the time: there the broker hardly shares the two cores


def alternate(rig: Rig, cases: Sequence[tuple[Case, int]], repeats: int) -> list[list[WorkerRun]]:
    """Runs of each (case, workers), in turn; one topic per case."""
    topics = [rig.fill(case.events, case.partitions) for case, _ in cases]
    rounds = [
        [measure_worker(rig, case, topic, workers) for (case, workers), topic in zip(cases, topics, strict=True)] for _ in range(repeats)
    ]
    rig.delete_topics(topics)
    return [list(runs) for runs in zip(*rounds, strict=True)]


def report(quick: bool) -> Report:
    count, repeats = (1_000_000, 1) if quick else (2_000_000, 3)
    keys = [(Case(f"{number:,} keys", Events(keys=number, count=count)), 1) for number in KEYS]
    shares = [
        (Case(f"{workers} workers, {n} partitions", Events(count=count), partitions=n), workers)
        for n, workers in ((1, 1), (2, 1), (2, 2), (4, 2))
    ]
    large = Events(dim=300, count=count // 20)
    heavy = [(Case(f"d=300, D=4000: {workers} workers, 2 partitions", large, HEAVY, partitions=2), workers) for workers in (1, 2)]
    with Rig() as rig:
        by_keys = alternate(rig, keys, repeats)
        by_workers = alternate(rig, shares, repeats)
        by_heavy_workers = alternate(rig, heavy, repeats)
    return Report(
        "scaling",
        f"MessagePack, d=20, FOGD D=400, {count:,} events in each run, exactly once, checkpoints off.",
        [
            Row("throughput with 1 key / with 100,000 keys, equal events", _ratio(by_keys[0], by_keys[-1]), 2, "x", "lower"),
            Row("two workers / one worker, 2 partitions", _ratio(by_workers[2], by_workers[1]), 1.7, note=_cores(by_workers[2])),
            Row("the same with d=300, D=4000", _ratio(*reversed(by_heavy_workers)), 1.7, note=_cores(by_heavy_workers[1])),
        ],
        [_detail([case for case, _ in (*keys, *shares, *heavy)], [*by_keys, *by_workers, *by_heavy_workers])],
        [
            "CPU is that of all workers together, and of the broker. Where both cores of the machine are busy, events/s "
            "cannot rise with a second worker; that CPU per event stays equal says that the work itself scales."
        ],
    )


def _ratio(runs: Sequence[WorkerRun], others: Sequence[WorkerRun]) -> float:
    """Median over neighbouring runs of events/s over events/s."""
    return statistics.median(run.rate.per_second / other.rate.per_second for run, other in zip(runs, others, strict=True))


def _cores(runs: Sequence[WorkerRun]) -> str:
    workers, broker = (statistics.median(getattr(run.rate, cpu) / run.rate.seconds for run in runs) for cpu in ("cpu", "broker_cpu"))
    return f"cores busy: workers {workers:.2f}, broker {broker:.2f} of 2"


def _detail(cases: Sequence[Case], runs: Sequence[Sequence[WorkerRun]]) -> Detail:
    header = ("case", "events/s", "workers' CPU us/event", "broker CPU us/event", "cores busy: workers", "cores busy: broker")
    rows = []
    for case, measured in zip(cases, runs, strict=True):
        rates = [run.rate for run in measured]
        rows.append((
            case.what, spread([r.per_second for r in rates]), spread([r.cpu_per_event for r in rates]),
            spread([r.broker_cpu_per_event for r in rates]),
            figure(statistics.median(r.cpu / r.seconds for r in rates)), figure(statistics.median(r.broker_cpu / r.seconds for r in rates)),
        ))  # fmt: skip
    return Detail("Rates: median (range)", header, rows)
