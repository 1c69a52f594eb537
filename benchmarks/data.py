"""The events that all programs use: a stream that can be learned, made from a seed, and the real flights of the package."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from streamlearn.bundled import event_file
from streamlearn.events.files import EventFile
from streamlearn.features.compiled import Array

FLIPPED = 0.05  # share of labels turned round: what the best model gets wrong
_MODELLED = 10  # features the label depends on


class Data(NamedTuple):
    """A binary task in memory."""

    X: Array  # float32 [n, dim]
    y: Array  # int64 [n], -1 or +1


class Record(NamedTuple):
    """An event as it stands in a topic."""

    key: bytes | None
    value: bytes


@dataclass(frozen=True, slots=True)
class Events:
    """Which events: their format, number of features, of keys and of events, and the seed they are made from."""

    encoding: Literal["json", "msgpack"] = "msgpack"
    dim: int = 20
    keys: int = 1
    count: int = 1_000_000
    seed: int = 7


def learnable(count: int, dim: int, seed: int) -> Data:
    """Standard normal features; the sign of a curved function of ten of them, 5 % turned round. A linear model errs in about 30 %."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((count, dim), dtype=np.float32)
    used = X[:, : min(_MODELLED, dim)]
    direction = generator.standard_normal(used.shape[1])
    curve = used @ direction / np.linalg.norm(direction) + 2.0 * np.sin(1.5 * used[:, 0]) * used[:, 1 % used.shape[1]]
    flipped = generator.random(count) < FLIPPED
    return Data(X, np.where((curve > 0) ^ flipped, 1, -1))


def flights() -> Data:
    """The package's flights: delay at departure, hour, distance; +1 for those that arrive late."""
    with EventFile(event_file("flights")) as events:
        rows = [(event["dep_delay"], event["hour"], event["distance"], event["late"]) for event in events]
    table = np.array(rows, np.float64)
    return Data(table[:, :3].astype(np.float32), np.where(table[:, 3] > 0, 1, -1))


def records(events: Events, block: int = 10_000) -> Iterator[Record]:
    """The events, encoded. The features of a block repeat with other keys: what is measured does not depend on their values."""
    data = learnable(min(block, events.count), events.dim, events.seed)
    values = encoded(data, events.encoding)
    keys = key_sequence(events)
    for start in range(0, events.count, len(values)):
        for value, key in zip(values, keys[start : start + len(values)], strict=False):
            yield Record(key, value)


def encoded(data: Data, encoding: Literal["json", "msgpack"]) -> Sequence[bytes]:
    """Each event as a producer would write it: MessagePack with the features as raw float32, JSON with a list of 6 digits."""
    if encoding == "msgpack":
        pack = msgspec.msgpack.Encoder().encode
        return [pack({"label": label, "x": row.tobytes()}) for row, label in zip(data.X.astype("<f4"), data.y.tolist(), strict=True)]
    write = msgspec.json.Encoder().encode
    rows = np.round(data.X.astype(np.float64), 6).tolist()
    return [write({"label": label, "x": row}) for row, label in zip(rows, data.y.tolist(), strict=True)]


def key_sequence(events: Events) -> Sequence[bytes | None]:
    """The key of each event, drawn evenly; one key stands for a stream without keys."""
    if events.keys == 1:
        return [None] * events.count
    names = [f"k{number}".encode() for number in range(events.keys)]
    drawn = np.random.default_rng(events.seed + 1).integers(events.keys, size=events.count)
    return [names[number] for number in drawn.tolist()]
