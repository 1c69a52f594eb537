"""What tests of checkpoints share: small processors of any learner, events for them, and a models topic as a list of records."""

from collections.abc import Iterable, Sequence
from dataclasses import fields

import numpy as np

from streamlearn.checkpoint.codec import Record
from streamlearn.checkpoint.marker import Marker
from streamlearn.checkpoint.restore import Restorer
from streamlearn.checkpoint.snapshot import Checkpointer
from streamlearn.events.columns import Events
from streamlearn.learners.fourier import Fogd
from streamlearn.learners.pipeline import Pipeline, Scaling
from streamlearn.learners.protocol import Learner, Task
from streamlearn.processor import ModelSpec, Processor

DIM = 3
ROOM = 256  # more than twice what any test fills
SMALL = {"frequencies": 4, "budget": 6, "rank": 3, "memory": 4, "period": 5, "strata": 2}


def small(kind: type[Learner]) -> Learner:
    """The learner with sizes that tests can fill."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # every learner is a dataclass
    return kind(**{name: size for name, size in SMALL.items() if name in names})


def spec_of(
    learner: Learner | None = None, task: Task = Task.BINARY, dtype: str = "float32", scaling: Scaling = "standard", max_classes: int = 1000
) -> ModelSpec:
    pipeline = Pipeline(learner=learner or Fogd(frequencies=4), scaling=scaling)
    return ModelSpec(pipeline=pipeline, task=task, dim=DIM, dtype=np.dtype(dtype), max_classes=max_classes)


def events(count: int, task: Task = Task.BINARY, *, keys: int = 5, seed: int = 0, dtype: str = "float32") -> Events:
    """Random events, one in eight without a label; classes of a multi-class stream arrive one after the other."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(count, DIM)).astype(dtype)
    y = np.where(X.sum(axis=1) + generator.normal(size=count) > 0, 1.0, -1.0)
    y[generator.random(count) < 1 / 8] = np.nan
    classes = np.minimum(generator.integers(0, 6, count), 1 + np.arange(count) // 10)
    labels = [None if np.isnan(y[i]) else f"class {classes[i]}" for i in range(count)]
    return Events(
        rows=np.arange(count),
        ids=[None] * count,
        keys=[f"key/{k}" for k in generator.integers(0, keys, count).tolist()],
        times=np.zeros(count),
        X=X,
        y=y,
        labels=labels if task is Task.MULTICLASS else [None] * count,
    )


def part(whole: Events, start: int, stop: int | None = None) -> Events:
    rows = slice(start, stop)
    return Events(
        rows=whole.rows[rows],
        ids=whole.ids[rows],
        keys=whole.keys[rows],
        times=whole.times[rows],
        X=whole.X[rows],
        y=whole.y[rows],
        labels=whole.labels[rows],
    )


def models(processor: Processor) -> dict[str, dict[str, bytes]]:
    """The bytes of every model that has learned anything, support vectors grown to the same length."""
    processor.pool.reserve(support=ROOM)
    assert processor.pool.shape.support == ROOM
    return {
        key: {name: array.tobytes() for name, array in processor.pool.read(slot).items()}
        for key, slot in processor.router
        if processor.pool["learned"][slot] > 0
    }


def restored(records: Iterable[Record], spec: ModelSpec, upto: int | None = None) -> tuple[Processor, Marker]:
    restorer = Restorer(spec, upto=upto)
    for key, value in records:
        restorer.add(key, value)
    marker = restorer.finish()
    assert marker is not None
    return restorer.processor, marker


def compacted(records: Sequence[Record], *, keep_tombstones: bool = True) -> list[Record]:
    """What compaction leaves at last: the newest record of every key, in log order."""
    newest = {record.key: position for position, record in enumerate(records)}
    survivors = [records[position] for position in sorted(newest.values())]
    return survivors if keep_tombstones else [record for record in survivors if record.value is not None]


def checkpoint(checkpointer: Checkpointer, offset: int = 0) -> list[Record]:
    return list(checkpointer.checkpoint(offset=offset, time=1.5))
