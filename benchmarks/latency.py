"""From publishing an event until a `read_committed` consumer has its prediction, at a steady rate, exactly once."""

import time
from collections.abc import Sequence

import msgspec
import numpy as np
from confluent_kafka import Consumer, TopicPartition

from benchmarks.data import Events
from benchmarks.publisher import Pace, publishing
from benchmarks.report import Detail, Report, Row
from benchmarks.rig import Rig, running, stream_tables
from benchmarks.throughput import FOGD, RARELY
from streamlearn.features.compiled import Array

RATE = 5000.0  # events per second
SETTLING = 3.0  # seconds that are not measured
COMMIT_INTERVAL = 0.01  # seconds: what the targets are for


class _Prediction(msgspec.Struct):
    id: int


def measure(rig: Rig, commit_interval: float, seconds: float) -> Array:
    """Latencies in seconds, one per event that was published after the settling time."""
    app, events = rig.unique("latency"), Events("msgpack")
    topic = rig.unique("paced")
    rig.make_topics([topic], 1)
    tables = stream_tables(
        rig, app, events, topic, FOGD, kafka={"producer": {"linger.ms": 0}}, worker={"commit_interval": commit_interval}, checkpoint=RARELY
    )
    tables["streams"][0]["id"] = "id"
    with running(rig, tables) as workers:
        workers[0].await_ready()
        consumer = _reader(rig.bootstrap, f"{app}.predictions")
        with publishing(rig, Pace(rig.bootstrap, topic, 1, RATE, SETTLING + seconds)):
            latencies = _read(consumer, SETTLING + seconds)
        consumer.close()
    rig.delete_topics([topic])
    return latencies


def _reader(bootstrap: str, topic: str) -> Consumer:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "latency-reader", "isolation.level": "read_committed", "fetch.queue.backoff.ms": 5}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def _read(consumer: Consumer, seconds: float) -> Array:
    """Read until nothing comes any more; the age of each prediction when it is received."""
    decode = msgspec.msgpack.Decoder(_Prediction).decode
    received: list[tuple[int, int]] = []
    patience = time.monotonic() + seconds + 30
    while time.monotonic() < patience:
        message = consumer.poll(2.0)
        if message is None and received:
            break
        if message is not None and message.error() is None:
            received.append((time.monotonic_ns(), decode(message.value() or b"").id))
    now, sent = np.array(received, np.int64).T
    settled = sent >= sent[0] + SETTLING * 1e9
    return np.asarray((now - sent)[settled] / 1e9)


def report(quick: bool) -> Report:
    intervals = [COMMIT_INTERVAL] if quick else [0.005, COMMIT_INTERVAL, 0.02, 0.1]
    with Rig() as rig:
        measured = {interval: 1000 * measure(rig, interval, 8 if quick else 30) for interval in intervals}
    median, tail = np.percentile(measured[COMMIT_INTERVAL], [50, 99])
    what = f"publish to readable, {RATE:,.0f} events/s, commit interval {1000 * COMMIT_INTERVAL:g} ms"
    return Report(
        "latency",
        f"MessagePack, d=20, FOGD D=400, one partition, {RATE:,.0f} events/s; publisher, broker, worker and reader share the machine.",
        [
            Row(f"p50 {what}", float(median), 15, "ms", "lower"),
            Row(f"p99 {what}", float(tail), 50, "ms", "lower"),
        ],
        [Detail("Latency, milliseconds", ("commit interval", "events", "p50", "p90", "p99", "p99.9", "max"), _rows(measured))],
    )


def _rows(measured: dict[float, Array]) -> Sequence[Sequence[str]]:
    return [
        (f"{1000 * interval:g} ms", f"{len(values):,}", *(f"{value:.1f}" for value in np.percentile(values, [50, 90, 99, 99.9, 100])))
        for interval, values in measured.items()
    ]
