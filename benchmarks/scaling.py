"""What happens to throughput with many keys, with more partitions and with a second worker."""

import statistics
from collections.abc import Sequence

from benchmarks.data import Events
from benchmarks.report import Detail, Report, Row, figure, spread
from benchmarks.rig import Rig
from benchmarks.throughput import Case, WorkerRun, measure_worker

KEYS = (1, 1_000, 100_000)


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
    with Rig() as rig:
        by_keys = alternate(rig, keys, repeats)
        by_workers = alternate(rig, shares, repeats)
    slowdown = statistics.median(one.rate.per_second / many.rate.per_second for one, many in zip(by_keys[0], by_keys[-1], strict=True))
    speedup = statistics.median(two.rate.per_second / one.rate.per_second for one, two in zip(by_workers[1], by_workers[2], strict=True))
    return Report(
        "scaling",
        f"MessagePack, d=20, FOGD D=400, {count:,} events in each run, exactly once, checkpoints off.",
        [
            Row("throughput with 1 key / with 100,000 keys, equal events", slowdown, 2, "x", "lower"),
            Row("two workers / one worker, 2 partitions", speedup, 1.7, note="worker and broker share two cores, see CPU below"),
        ],
        [_detail([case for case, _ in (*keys, *shares)], [*by_keys, *by_workers])],
        [
            "CPU is that of all workers together, and of the broker. Where both cores of the machine are busy, events/s "
            "cannot rise with a second worker; that CPU per event stays equal says that the work itself scales."
        ],
    )


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
