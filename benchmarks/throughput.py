"""Events per second of one worker on a real broker, against a loop that only passes the events through, in alternating runs."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from benchmarks import passthrough
from benchmarks.data import Events
from benchmarks.passthrough import COMMIT_INTERVAL, WARM_UP
from benchmarks.report import Detail, Report, Row, figure, spread
from benchmarks.rig import Observer, Rate, Rig, between, follow, running, stream_tables

FOGD = {"name": "fogd", "frequencies": 400, "sigma": 4.0, "eta": 0.5, "normalise": True}
RARELY = {"interval": 86_400.0, "events": 10**12}  # checkpoints have a benchmark of their own


@dataclass(frozen=True, slots=True)
class Case:
    """What one row measures."""

    what: str
    events: Events
    learner: Mapping[str, Any] = field(default_factory=lambda: FOGD)
    partitions: int = 1
    target: float | None = None  # share of pass-through


@dataclass(frozen=True, slots=True)
class WorkerRun:
    """One run of a worker over a full topic."""

    rate: Rate
    stages: Mapping[str, float]  # seconds per stage over the whole run
    values: Sequence[bytes]  # some of its predictions


def measure_worker(rig: Rig, case: Case, topic: str, workers: int = 1, **settings: Any) -> WorkerRun:
    """Learn all events of a topic; events per second once the workers run, CPU, and the time per stage."""
    app = rig.unique("worker")
    tables = stream_tables(rig, app, case.events, topic, case.learner, **{"checkpoint": RARELY, **settings})
    with running(rig, tables, workers, case.partitions) as started, Observer(rig.bootstrap, app, topic, case.partitions) as observer:
        marks = list(follow(rig, observer, started, case.events.count))
        stages = started[0].stages()
        values = sample(rig.bootstrap, started[0].config.streams[0].output_topic)
    return WorkerRun(between(next(mark for mark in marks if mark.events >= WARM_UP * case.events.count), marks[-1]), stages, values)


def sample(bootstrap: str, topic: str, count: int = 2000) -> Sequence[bytes]:
    """The first values of a topic's first partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "sample", "isolation.level": "read_committed"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        values = [message.value() or b"" for message in consumer.consume(count, 10) if message.error() is None]
    finally:
        consumer.close()
    if not values:
        raise RuntimeError(f"{topic} holds no predictions")
    return values


@dataclass(frozen=True, slots=True)
class Comparison:
    """Alternating runs of a worker and the bound."""

    case: Case
    worker: Sequence[WorkerRun]
    bound: Sequence[Rate]

    @property
    def share(self) -> float:
        """Median over the pairs of neighbouring runs: what else the machine does weighs on both of a pair."""
        return statistics.median(w.rate.per_second / b.per_second for w, b in zip(self.worker, self.bound, strict=True))

    @property
    def cpu_share(self) -> float:
        """The same for CPU time per event."""
        return statistics.median(b.cpu_per_event / w.rate.cpu_per_event for w, b in zip(self.worker, self.bound, strict=True))


def compare(rig: Rig, case: Case, repeats: int) -> Comparison:
    topic = rig.fill(case.events, case.partitions)
    worker: list[WorkerRun] = []
    bound: list[Rate] = []
    for _ in range(repeats):
        worker.append(measure_worker(rig, case, topic))
        transaction = round(worker[-1].rate.per_second * COMMIT_INTERVAL)
        bound.append(passthrough.measure(rig, topic, case.partitions, case.events.count, worker[-1].values, transaction))
    rig.delete_topics([topic])
    return Comparison(case, worker, bound)


def cases(quick: bool) -> list[Case]:
    count, small = (1_000_000, 200_000) if quick else (2_000_000, 600_000)
    main = [
        Case("MessagePack, d=20, FOGD D=400", Events("msgpack", count=count), target=0.60),
        Case("JSON, d=20, FOGD D=400", Events("json", count=count), target=0.40),
    ]
    if quick:
        return main
    return [
        *main,
        Case("MessagePack, 4 partitions", Events("msgpack", count=count), partitions=4),
        Case("MessagePack, 1,000 keys", Events("msgpack", keys=1000, count=count)),
        Case("MessagePack, d=54, FOGD D=1600", Events("msgpack", dim=54, count=small), {**FOGD, "frequencies": 1600}),
        Case("MessagePack, d=300, FOGD D=4000", Events("msgpack", dim=300, count=small // 6), {**FOGD, "frequencies": 4000}),
        Case("MessagePack, d=20, ogd on raw features", Events("msgpack", count=count), {"name": "linear-ogd"}),
        Case("MessagePack, d=20, BOGD B=100", Events("msgpack", count=count // 2), {"name": "bogd", "budget": 100, "sigma": 4.0}),
    ]


def report(quick: bool) -> Report:
    with Rig() as rig:
        compared = [compare(rig, case, 2 if quick else 3) for case in cases(quick)]
    rows = [Row(f"worker / pass-through: {c.case.what}", c.share, c.case.target, note=_note(c)) for c in compared if c.case.target]
    return Report(
        "throughput",
        "One worker process, exactly once, commit interval 0.1 s, on a broker on the same machine.",
        rows,
        [_rates(compared), _stages(compared)],
    )


def _note(compared: Comparison) -> str:
    return f"{figure(statistics.median(run.rate.per_second for run in compared.worker))} events/s; CPU share {compared.cpu_share:.2f}"


def _rates(compared: Sequence[Comparison]) -> Detail:
    header = (
        "case",
        "worker events/s",
        "pass-through events/s",
        "share",
        "worker CPU us/event",
        "pass-through CPU us/event",
        "broker CPU us/event",
    )
    return Detail("Rates: median (range)", header, [
        (
            c.case.what, spread([run.rate.per_second for run in c.worker]), spread([rate.per_second for rate in c.bound]), f"{c.share:.2f}",
            spread([run.rate.cpu_per_event for run in c.worker]), spread([rate.cpu_per_event for rate in c.bound]),
            spread([run.rate.broker_cpu_per_event for run in c.worker]),
        )
        for c in compared
    ])  # fmt: skip


def _stages(compared: Sequence[Comparison]) -> Detail:
    stages = list(compared[0].worker[-1].stages)
    rows = []
    for c in compared:
        run = c.worker[-1]
        rows.append((c.case.what, *(f"{1e6 * run.stages[stage] / c.case.events.count:.2f}" for stage in stages)))
    return Detail("Time per stage, microseconds per event (last run; waiting included)", ("case", *stages), rows)
