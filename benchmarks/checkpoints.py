"""What checkpoints cost, and how long recovery takes, with many models of D=400."""

import statistics

from benchmarks.data import Events
from benchmarks.report import Detail, Report, Row, figure, spread
from benchmarks.rig import Observer, Rig, Worker, follow, running, stream_tables
from benchmarks.throughput import FOGD, RARELY, Case, WorkerRun, measure_worker

DEFAULTS: dict[str, float] = {}
OFTEN = "10 s or 1,000,000 events"  # what the defaults are
MODELS = 10_000
MANY = 100_000


def measure_cost(rig: Rig, count: int, repeats: int) -> tuple[list[WorkerRun], list[WorkerRun]]:
    """Alternating runs with checkpoints at the defaults and without."""
    case = Case("", Events(keys=MODELS, count=count))
    topic = rig.fill(case.events)
    with_them, without = [], []
    for _ in range(repeats):
        without.append(measure_worker(rig, case, topic, checkpoint=RARELY))
        with_them.append(measure_worker(rig, case, topic, checkpoint=DEFAULTS))
    rig.delete_topics([topic])
    return with_them, without


def measure_recovery(rig: Rig, models: int) -> tuple[float, float, float]:
    """Seconds from start to ready: of a worker without models; after a clean stop with `models`; after a kill, with events to replay."""
    events = Events(keys=models, count=3 * models)
    topic = rig.fill(events)
    app = rig.unique("recovery")
    tables = stream_tables(rig, app, events, topic, FOGD, checkpoint=RARELY)
    with running(rig, tables) as workers:
        fresh = workers[0].await_ready()
        _await_end(rig, workers[0], app, topic, events.count)
        workers[0].stop()  # writes the checkpoint of all models
        workers[0] = Worker(tables, rig.folder)
        recovered = workers[0].await_ready()
        workers[0].kill()
        workers[0] = Worker(tables, rig.folder)
        killed = workers[0].await_ready()
    rig.delete_topics([topic])
    return fresh, recovered, killed


def _await_end(rig: Rig, worker: Worker, app: str, topic: str, total: int) -> None:
    with Observer(rig.bootstrap, app, topic, 1) as observer:
        for _ in follow(rig, observer, [worker], total):
            pass


def report(quick: bool) -> Report:
    count, repeats, models = (500_000, 1, 20_000) if quick else (5_000_000, 2, MANY)
    with Rig() as rig:
        with_them, without = measure_cost(rig, count, repeats)
        fresh, recovered, killed = measure_recovery(rig, models)
    cost = 100 * (1 - statistics.median(w.rate.per_second / o.rate.per_second for w, o in zip(with_them, without, strict=True)))
    seconds = [run.rate.seconds for run in with_them]
    return Report(
        "checkpoints",
        f"MessagePack, d=20, FOGD D=400 (3.6 kB per model), one worker, one partition, {count:,} events per run ({spread(seconds)} s).",
        [
            Row(f"throughput lost to checkpoints every {OFTEN}, {MODELS:,} models", cost, 10, "%", "lower", note=_note(with_them, without)),
            Row(f"recovery of {models:,} models, beyond the start of a fresh worker", recovered - fresh, 60 * models / MANY, "s", "lower"),
        ],
        [
            Detail(
                "Checkpoints", ("every", "events/s", "worker CPU us/event", "broker CPU us/event"),
                [_row(OFTEN, with_them), _row("never", without)],
            ),
            Detail(
                "Seconds from start to ready", ("worker", "seconds"),
                [
                    ("without models", figure(fresh)),
                    (f"{models:,} models, after a clean stop", figure(recovered)),
                    (f"{models:,} models, killed before", figure(killed)),
                ],
            ),
        ],
    )  # fmt: skip


def _row(name: str, runs: list[WorkerRun]) -> tuple[str, ...]:
    rates = [run.rate for run in runs]
    columns = ([r.per_second for r in rates], [r.cpu_per_event for r in rates], [r.broker_cpu_per_event for r in rates])
    return (name, *map(spread, columns))


def _note(with_them: list[WorkerRun], without: list[WorkerRun]) -> str:
    return " / ".join(figure(statistics.median(run.rate.per_second for run in runs)) for runs in (with_them, without)) + " events/s"
