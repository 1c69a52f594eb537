"""Publishing at a steady rate, as a process of its own: `python -m benchmarks.publisher SETTINGS`, a file with a `Pace` in JSON.

The event's id is the moment of its publishing, nanoseconds of the system's monotonic clock, so that a reader can tell its age.
"""

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
from confluent_kafka import Producer

from benchmarks.data import learnable
from benchmarks.rig import Program, Rig

TICK = 0.002  # seconds between two bursts; each goes to the broker at once
_ROWS = 10_000  # different feature vectors


class Pace(msgspec.Struct, frozen=True):
    """What to publish, and how fast."""

    bootstrap: str
    topic: str
    partitions: int
    rate: float  # events per second
    seconds: float
    dim: int = 20
    keys: int = 1  # population
    alive: int = 1  # keys that events are drawn from at a time
    churn: float = 0.0  # keys that leave, and others that join, per second


@contextlib.contextmanager
def publishing(rig: Rig, pace: Pace) -> Iterator[Program]:
    """The publisher, running."""
    path = rig.folder / f"{rig.unique('publisher')}.json"
    path.write_bytes(msgspec.json.encode(pace))
    program = Program([sys.executable, "-m", "benchmarks.publisher", str(path)], rig.folder, path.with_suffix(".log"))
    try:
        yield program
    finally:
        program.kill()


def publish(pace: Pace) -> None:
    """Publish MessagePack events until the time is over, then wait for delivery."""
    producer = Producer({"bootstrap.servers": pace.bootstrap, "linger.ms": 0, "queue.buffering.max.messages": 1_000_000})
    pack = msgspec.msgpack.Encoder().encode
    data = learnable(_ROWS, pace.dim, 7)
    rows, labels = [row.tobytes() for row in data.X.astype("<f4")], data.y.tolist()
    draws = np.random.default_rng(8).integers(pace.alive, size=_ROWS).tolist()
    began, sent = time.monotonic(), 0
    while (elapsed := time.monotonic() - began) < pace.seconds:
        for number in range(sent, int(elapsed * pace.rate)):
            row = number % _ROWS
            key = (int(pace.churn * elapsed) + draws[row]) % pace.keys
            value = pack({"id": time.monotonic_ns(), "label": labels[row], "x": rows[row]})
            producer.produce(pace.topic, value, b"k%d" % key, (number if pace.keys == 1 else key) % pace.partitions)
            sent = number + 1
        producer.poll(0)
        time.sleep(TICK)
    producer.flush(30)


if __name__ == "__main__":
    publish(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Pace))
