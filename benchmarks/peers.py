"""The whole worker against what others offer: their learning step alone without any Kafka, and the same learner in a Faust agent.

The same events, the same task; the mistakes stand beside the speed, so that nobody wins by learning nothing.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from benchmarks import faust_peer
from benchmarks.data import Data, Events, flights, learnable
from benchmarks.peer_programs import PROGRAMS
from benchmarks.report import Detail, Report, Row, spread
from benchmarks.rig import ROOT, Program, Rig, stream_tables
from benchmarks.throughput import FOGD, Case, measure_worker
from streamlearn.config import make_learner
from streamlearn.evaluation.backtest import backtest_arrays
from streamlearn.evaluation.study import spec_for
from streamlearn.events.files import Arrays
from streamlearn.kafka.clients import kafka_error
from streamlearn.learners.protocol import Task

PYTHON = ROOT / ".venv-bench" / "bin" / "python"
FLIGHTS_FOGD = {**FOGD, "sigma": 1.5, "eta": 1.0, "loss": "logistic"}
PATIENCE = 120.0  # seconds for one run
BATCH = ("svc", "nystrom")  # references of accuracy, not of speed


@dataclass(frozen=True, slots=True)
class Peer:
    """A program of peer_programs.py: how many events it gets, and by which factor the worker should be faster."""

    name: str
    events: int
    target: float | None = None

    @property
    def what(self) -> str:
        return (PROGRAMS[self.name].__doc__ or "").split("\n", maxsplit=1)[0].rstrip(".")


@dataclass(frozen=True, slots=True)
class Result:
    """A peer on a stream."""

    peer: Peer
    rates: Sequence[float]  # events per second, of repeated runs
    events: int
    mistakes: float  # share, 0 to 1
    ours: float  # share of mistakes of FOGD on the same events

    def cells(self) -> tuple[str, ...]:
        return (self.peer.what, f"{self.events:,}", spread(self.rates), f"{100 * self.mistakes:.1f} %", f"{100 * self.ours:.1f} %")


def run_peer(peer: Peer, data: Path, events: int) -> dict[str, float]:
    """One run of a peer's program. Raises RuntimeError with its output when it fails."""
    if not PYTHON.exists():
        raise RuntimeError(f"{PYTHON} is missing: `make bench` makes it")
    done = subprocess.run(  # noqa: S603
        [PYTHON, "-m", "benchmarks.peer_programs", peer.name, str(data), str(events)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{peer.name} failed:\n{done.stderr[-2000:]}")
    result: dict[str, float] = json.loads(done.stdout)
    return result


def mistakes_of(learner: Mapping[str, Any], data: Data, after: int = 0) -> float:
    """Share of mistakes of a learner behind the first `after` events, predicted first and learned second, by the worker's own processor."""
    arrays = Arrays(data.X, data.y.astype(np.float64), None)
    spec, labels = spec_for(make_learner(learner), Task.BINARY, arrays, "float32", "standard")
    wrong = backtest_arrays(spec, data.X, labels).wrong
    if wrong is None:
        raise RuntimeError("a binary stream has mistakes")
    return float(wrong[after:].mean())


def compare_peers(folder: Path, data: Data, learner: Mapping[str, Any], peers: Sequence[Peer], repeats: int) -> list[Result]:
    """Each peer `repeats` times, in turn, and the learner's mistakes on the events that the peer was judged on."""
    path = folder / "events.npz"
    np.savez(path, X=data.X, y=data.y)
    sizes = {peer: min(peer.events, len(data.X)) for peer in peers}
    rounds = [{peer: run_peer(peer, path, size) for peer, size in sizes.items()} for _ in range(repeats)]
    results = []
    for peer, size in sizes.items():
        runs = [each[peer] for each in rounds]
        judged = int(runs[0]["events"])
        ours = mistakes_of(learner, Data(data.X[:size], data.y[:size]), after=size - judged)
        results.append(Result(peer, [run["events"] / run["seconds"] for run in runs], judged, runs[0]["mistakes"] / judged, ours))
    return results


def measure_faust(rig: Rig, mode: str, topic: str, events: Events, count: int) -> float:
    """Events per second of a Faust agent with the same learner: growth of its output topic while it runs."""
    app = rig.unique(f"faust-{mode}")
    rig.make_topics([app], 1)
    stream = stream_tables(rig, app, events, topic, FOGD)["streams"][0]
    path = rig.folder / f"{app}.json"
    path.write_bytes(
        msgspec.json.encode(faust_peer.Settings(rig.bootstrap, app, topic, app, "take" if mode == "take" else "event", stream))
    )
    program = Program([sys.executable, "-m", "benchmarks.faust_peer", str(path)], rig.folder, path.with_suffix(".log"))
    try:
        rate = _growth(rig, program, app, count)
    finally:
        program.kill()
        rig.delete_topics([app])
    return rate


def _growth(rig: Rig, program: Program, topic: str, count: int) -> float:
    """Records per second from a tenth of `count` to `count`, seen from the end of the topic."""
    consumer = Consumer({"bootstrap.servers": rig.bootstrap, "group.id": "watch", "isolation.level": "read_uncommitted"})
    partition, first, deadline = TopicPartition(topic, 0), None, time.monotonic() + PATIENCE
    try:
        while time.monotonic() < deadline:
            program.check()
            end = _end(consumer, partition)
            now = time.monotonic()
            if first is None and end >= count / 10:
                first = now, end
            if first is not None and end >= count:
                return (end - first[1]) / (now - first[0])
            time.sleep(0.05)
    finally:
        consumer.close()
    raise TimeoutError(f"{topic} did not reach {count} records within {PATIENCE:g} s:\n{program.log.read_text()[-2000:]}")


def _end(consumer: Consumer, partition: TopicPartition) -> int:
    """The end of a partition, 0 as long as the client has not heard of the new topic."""
    try:
        _, end = consumer.get_watermark_offsets(partition, timeout=30)
    except KafkaException as error:
        if kafka_error(error).code() not in (KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART):
            raise
        return 0
    return int(end)


def measure_rates(quick: bool) -> tuple[list[float], list[float], list[float]]:
    """Events per second of the worker, of a Faust agent per event and of Faust's take, in turn, on the same topic."""
    repeats, events, most = (2, Events(count=400_000), 20_000) if quick else (3, Events(count=2_000_000), 60_000)
    worker, each, take = [], [], []
    with Rig() as rig:
        topic = rig.fill(events)
        plain = rig.fill(Events(count=most), compression="none")  # aiokafka reads lz4 only with a further package
        for _ in range(repeats):
            worker.append(measure_worker(rig, Case("", events), topic).rate.per_second)
            each.append(measure_faust(rig, "event", plain, events, most // 2))
            take.append(measure_faust(rig, "take", plain, events, most))
    return worker, each, take


def peers(quick: bool) -> list[Peer]:
    scale = 1 if quick else 3
    return [
        Peer("river_rbf", 1000 * scale, 300),
        Peer("river_linear", 20_000 * scale, 3),
        Peer("vw_linear", 300_000 * scale, 1.2),
        Peer("vw_ksvm", 4000, 5),
        Peer("sgd", 3000 * scale),
        Peer("rbf_sgd", 2000 * scale),
        Peer("svc", 10_000),
        Peer("nystrom", 10_000 * scale),
    ]


def report(quick: bool) -> Report:
    worker, each, take = measure_rates(quick)
    with tempfile.TemporaryDirectory() as folder:
        largest = max(peer.events for peer in peers(quick))
        made = compare_peers(Path(folder), learnable(largest, 20, 7), FOGD, peers(quick), 2 if quick else 5)
        real = compare_peers(Path(folder), flights(), FLIGHTS_FOGD, peers(quick), 1)
    ours = statistics.median(worker)
    rows = [Row(f"worker / {r.peer.what}", ours / statistics.median(r.rates), r.peer.target) for r in made if r.peer.target is not None]
    rows += [
        Row("worker / Faust agent per event, same learner", ours / statistics.median(each), 20),
        Row("worker / Faust take(1000), same learner", ours / statistics.median(take), 10),
    ]
    header = ("program", "events judged", "events/s", "mistakes", "FOGD's mistakes on the same events")
    kafka = [
        ("streamlearn worker, exactly once", spread(worker)),
        ("Faust agent per event", spread(each)),
        ("Faust take(1000)", spread(take)),
    ]
    return Report(
        "peers",
        "The whole worker (MessagePack, d=20, FOGD D=400, exactly once, on a real broker) against libraries' learning step alone, without "
        "any Kafka, and against Faust agents with the same learner on the same broker, at least once.",
        rows,
        [
            Detail("On the broker, events/s: median (range)", ("program", "events/s"), kafka),
            Detail("Without Kafka: a stream that can be learned, d=20, 5 % of labels turned round", header, _online(made)),
            Detail("Without Kafka: 60,000 flights, will it arrive late, d=3", header, _online(real)),
            Detail(
                "References of accuracy: trained in one batch on the first half, judged on the second (not comparable in speed)",
                ("program", "stream", "events judged", "mistakes", "FOGD's mistakes on the same events"),
                [
                    (r.peer.what, stream, f"{r.events:,}", f"{100 * r.mistakes:.1f} %", f"{100 * r.ours:.1f} %")
                    for stream, results in (("made", made), ("flights", real))
                    for r in results
                    if r.peer.name in BATCH
                ],
            ),
        ],
    )  # fmt: skip


def _online(results: Sequence[Result]) -> list[tuple[str, ...]]:
    return [result.cells() for result in results if result.peer.name not in BATCH]
