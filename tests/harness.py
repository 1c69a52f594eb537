"""Run a learner over a stream in one call, as most tests of learners do."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamlearn.features.compiled import Array
from streamlearn.learners.protocol import Learner, Pool, Shape, Task


@dataclass(frozen=True)
class Run:
    """What one model did with a stream: its pool, scores [n, outputs], and labels [n]."""

    pool: Pool
    scores: Array
    y: Array

    @property
    def mistakes(self) -> NDArray[np.bool_]:
        """Mistakes before each update: f = 0 counts as +1, argmax ties go to the lowest class."""
        if self.pool.shape.task is Task.MULTICLASS:
            return np.asarray(self.scores.argmax(axis=1) != self.y)
        return np.asarray(np.where(self.scores[:, 0] >= 0, 1.0, -1.0) != self.y)

    def counts(self, every: int) -> list[int]:
        """Mistakes so far after each `every` events."""
        return [int(count) for count in np.cumsum(self.mistakes)[every - 1 :: every]]

    @property
    def mean_squared_loss(self) -> float:
        return float(np.mean((self.scores[:, 0] - self.y) ** 2))


def run(
    learner: Learner,
    X: Array,
    y: Array,
    task: Task,
    *,
    classes: int = 1,
    dtype: type = np.float64,
    shared: Mapping[str, Array] | None = None,
    state: Mapping[str, Array | float] | None = None,
) -> Run:
    """One fresh model over (X, y) in one batch. `shared` and `state` pass draws in: they replace arrays before the first event."""
    shape = Shape(X.shape[1], task, np.dtype(dtype), outputs=classes, declared=classes)
    pool = Pool(learner, shape, slots=1)
    pool.shared.update({name: np.ascontiguousarray(array, dtype) for name, array in (shared or {}).items()})
    for name, value in (state or {}).items():
        pool[name][0] = value
    scores: Array = np.empty((len(X), classes), dtype)
    learner.step(pool, np.zeros(len(X), np.int64), np.ascontiguousarray(X, dtype), np.asarray(y, np.float64), scores)
    return Run(pool, scores, np.asarray(y))
