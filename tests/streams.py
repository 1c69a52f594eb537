"""Random streams for property tests: many models at once, and everything that a kernel could stumble over."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from streamlearn.features.compiled import Array
from streamlearn.learners.protocol import Learner, Pool, Shape, Task

KINDS = ("plain", "duplicates", "zero vectors", "one class", "late classes", "huge", "tiny")
CLASSES = 4
PROBES = 5  # unlabelled events at the end: they show what the last labelled ones changed

few = settings(max_examples=25, derandomize=True, deadline=None)


@dataclass(frozen=True)
class Stream:
    """X [n, dim] float64, y [n] with NaN where there is no label, and the model of each event, slots [n]."""

    kind: str
    task: Task
    X: Array
    y: Array
    slots: Array
    outputs: int
    declared: int

    def scores(self, learner: Learner, shared: dict[str, Array] | None = None) -> Array:
        """What the learner publishes [n, outputs]."""
        shape = Shape(self.X.shape[1], self.task, np.dtype(np.float64), outputs=self.outputs, declared=self.declared)
        pool = Pool(learner, shape, slots=1 + int(self.slots.max()))
        pool.shared.update(shared or {})
        scores: Array = np.empty((len(self.X), self.outputs))
        learner.step(pool, self.slots, self.X, self.y, scores)
        return scores

    def oracle_scores(self, play: Callable[[Array, Array], Array]) -> Array:
        """The same from an oracle that handles one model's events (X, y) at a time."""
        scores = np.empty((len(self.X), self.outputs))
        for slot in np.unique(self.slots):
            rows = self.slots == slot
            scores[rows] = play(self.X[rows], self.y[rows])
        return scores


@st.composite
def streams(draw: st.DrawFn, kind: str, tasks: Sequence[Task]) -> Stream:
    task = draw(st.sampled_from(list(tasks)))
    n, dim, models = draw(st.integers(1, 60)), draw(st.integers(1, 9)), draw(st.integers(1, 3))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = generator.uniform(-1, 1, (n, dim))
    if kind == "duplicates":
        X = X[generator.integers(0, 1 + n // 4, n)]
    if kind == "zero vectors":
        X[generator.random(n) < 0.3] = 0.0
    y = _labels(task, X, generator)
    if kind == "one class" and task is not Task.REGRESSION:
        y[:] = draw(st.sampled_from([-1.0, 1.0] if task is Task.BINARY else [0.0, 2.0]))
    if kind == "late classes" and task is Task.MULTICLASS:
        y = np.minimum(y, np.arange(n) // 10)
    y[generator.random(n) < 0.1] = np.nan
    X *= {"huge": 1e150, "tiny": 1e-150}.get(kind, 1.0)
    probes = generator.integers(0, n, PROBES)
    declared = CLASSES if task is Task.MULTICLASS and draw(st.booleans()) else 0
    return Stream(
        kind, task, np.concatenate([X, X[probes]]), np.concatenate([y, np.full(PROBES, np.nan)]),
        generator.integers(0, models, n + PROBES), CLASSES if task is Task.MULTICLASS else 1, declared,
    )  # fmt: skip


def _labels(task: Task, X: Array, generator: np.random.Generator) -> Array:
    """A function of the row, wavy enough to keep learners making mistakes: equal rows have equal labels."""
    wave = np.sin(7.0 * X @ generator.normal(size=X.shape[1]) + 1.0)
    if task is Task.REGRESSION:
        return wave
    if task is Task.MULTICLASS:
        return np.floor((wave + 1.0) / 2.0 * (CLASSES - 1e-9))
    return np.where(wave >= 0.0, 1.0, -1.0)
