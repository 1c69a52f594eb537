"""A stream's whole model: online scaling of its features, then the learner. One pool holds the state of both."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from streamlearn.features.compiled import Array, kernel
from streamlearn.features.scaling import normalise_range, standardise
from streamlearn.learners.protocol import Field, Learner, Pool, Shape, Task

Scaling = Literal["none", "standard", "min-max"]
_INT64 = np.dtype(np.int64)
_FLOAT64 = np.dtype(np.float64)


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Scaling before a learner; itself a learner.

    Every model counts the labelled events it has learned (`learned`) and measures itself: for classification `mistakes` and how often each
    label occurred (`label_counts`), for regression the sum of squared errors (`squared_error`). Scaling statistics are float64 whatever
    the dtype of the learner: 16 d bytes per model. A labelled event joins the statistics before it is scaled, an unlabelled one is
    scaled by what was learned before.
    """

    name: ClassVar[str] = "pipeline"
    tasks: ClassVar[frozenset[Task]] = frozenset(Task)

    learner: Learner
    scaling: Scaling = "standard"

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        own = _measure_fields(shape) | self._scaling_fields(shape.dim)
        learner = self.learner.fields(shape)
        if shared_names := own.keys() & learner.keys():
            raise ValueError(f"learner {self.learner.name} must not use the field names {sorted(shared_names)}")
        return own | dict(learner)

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return self.learner.shared(shape)

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        self.learner.step(pool, slots, self._scale(pool, slots, X, ~np.isnan(y)), y, scores)

    def _scaling_fields(self, dim: int) -> dict[str, Field]:
        if self.scaling == "standard":
            return {"mean": Field((dim,), _FLOAT64), "deviations": Field((dim,), _FLOAT64), "scaled": Field((), _INT64)}
        if self.scaling == "min-max":
            return {"low": Field((dim,), _FLOAT64, np.inf), "high": Field((dim,), _FLOAT64, -np.inf)}
        return {}

    def _scale(self, pool: Pool, slots: Array, X: Array, labelled: Array) -> Array:
        if self.scaling == "none":
            return X
        scaled = np.empty_like(X)
        if self.scaling == "standard":
            standardise(X, labelled, slots, pool["scaled"], pool["mean"], pool["deviations"], scaled)
        else:
            normalise_range(X, labelled, slots, pool["low"], pool["high"], scaled)
        return scaled


def _measure_fields(shape: Shape) -> dict[str, Field]:
    learned = {"learned": Field((), _INT64)}
    if shape.task is Task.REGRESSION:
        return learned | {"squared_error": Field((), _FLOAT64)}
    return learned | {"mistakes": Field((), _INT64), "label_counts": Field((max(2, shape.outputs),), _INT64)}


@kernel
def count_labels(slots: Array, classes: Array, wrong: Array, learned: Array, mistakes: Array, label_counts: Array, before: Array) -> None:
    """Count each event's label (class index, -1: no label) and mistake in its model; `before` [n]: what the model had learned before."""
    for i in range(len(slots)):
        s = slots[i]
        before[i] = learned[s]
        if classes[i] >= 0:
            learned[s] += 1
            mistakes[s] += wrong[i]
            label_counts[s, classes[i]] += 1


@kernel
def add_errors(slots: Array, y: Array, scores: Array, learned: Array, squared_error: Array, before: Array) -> None:
    """The same for regression: squared errors of labelled events."""
    for i in range(len(slots)):
        s = slots[i]
        before[i] = learned[s]
        if not np.isnan(y[i]):
            learned[s] += 1
            squared_error[s] += (scores[i, 0] - y[i]) ** 2
