"""A stream's whole model: online scaling of its features and targets, then the learner. One pool holds the state of all."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from streamlearn.features.compiled import Array, kernel
from streamlearn.features.scaling import normalise_range, restore_targets, standardise, standardise_targets
from streamlearn.features.width import CLASSES_FACTOR, FACTOR, ROWS, divide_by_width
from streamlearn.learners.parameters import has_auto_width
from streamlearn.learners.protocol import Field, Learner, Pool, Shape, Task

Scaling = Literal["none", "standard", "min-max"]
TargetScaling = Literal["none", "standard"]
_INT64 = np.dtype(np.int64)
_FLOAT64 = np.dtype(np.float64)


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Scaling before a learner; itself a learner.

    Every model counts the labelled events it has learned (`learned`) and measures itself: for classification `mistakes` and how often each
    label occurred (`label_counts`), for regression the sum of squared errors (`squared_error`). A labelled event joins the statistics
    before it is scaled, an unlabelled one is scaled by what was learned before. Statistics are float64 whatever the dtype of the learner.

    scaling of the features: none, standard (16 d + 8 bytes per model) or min-max (16 d bytes). A learner whose sigma is auto then gets
    them divided by the width (32 d itemsize + 16 bytes). target_scaling, of regression streams: standard (24 bytes) lets the learner
    see (y - mean) / sd of the targets so far, and maps its scores back.
    """

    name: ClassVar[str] = "pipeline"
    tasks: ClassVar[frozenset[Task]] = frozenset(Task)

    learner: Learner
    scaling: Scaling = "standard"
    target_scaling: TargetScaling = "standard"

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        own = _measure_fields(shape) | self._scaling_fields(shape.dim) | self._width_fields(shape) | self._target_fields(shape.task)
        learner = self.learner.fields(shape)
        if shared_names := own.keys() & learner.keys():
            raise ValueError(f"learner {self.learner.name} must not use the field names {sorted(shared_names)}")
        return own | dict(learner)

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return self.learner.shared(shape)

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        learned = ~np.isnan(y)
        features = self._divide_by_width(pool, slots, self._scale(pool, slots, X, learned), learned)
        if not self._scales_targets(pool.shape.task):
            self.learner.step(pool, slots, features, y, scores)
            return
        targets, centres, spreads = np.empty_like(y), np.empty_like(y), np.empty_like(y)
        standardise_targets(y, slots, pool["targets"], pool["target_mean"], pool["target_deviations"], targets, centres, spreads)
        self.learner.step(pool, slots, features, targets, scores)
        restore_targets(scores, centres, spreads)

    def _scaling_fields(self, dim: int) -> dict[str, Field]:
        if self.scaling == "standard":
            return {"mean": Field((dim,), _FLOAT64), "deviations": Field((dim,), _FLOAT64), "scaled": Field((), _INT64)}
        if self.scaling == "min-max":
            return {"low": Field((dim,), _FLOAT64, np.inf), "high": Field((dim,), _FLOAT64, -np.inf)}
        return {}

    def _scale(self, pool: Pool, slots: Array, X: Array, learned: Array) -> Array:
        if self.scaling == "none":
            return X
        scaled = np.empty_like(X)
        if self.scaling == "standard":
            standardise(X, learned, slots, pool["scaled"], pool["mean"], pool["deviations"], scaled)
        else:
            normalise_range(X, learned, slots, pool["low"], pool["high"], scaled)
        return scaled

    def _width_fields(self, shape: Shape) -> dict[str, Field]:
        if not self._finds_width:
            return {}
        return {
            "width_rows": Field((ROWS, shape.dim), shape.dtype),
            "width_events": Field((), _INT64),
            "width": Field((), _FLOAT64, np.sqrt(shape.dim / 2)),  # until two events differ
        }

    def _divide_by_width(self, pool: Pool, slots: Array, X: Array, learned: Array) -> Array:
        if not self._finds_width:
            return X
        divided = np.empty_like(X)
        manhattan = getattr(self.learner, "kernel", "gaussian") == "laplacian"
        factor = CLASSES_FACTOR if pool.shape.task is Task.MULTICLASS else FACTOR
        divide_by_width(X, learned, slots, factor, manhattan, pool["width_rows"], pool["width_events"], pool["width"], divided)
        return divided

    @property
    def _finds_width(self) -> bool:
        return has_auto_width(self.learner)

    def _target_fields(self, task: Task) -> dict[str, Field]:
        if not self._scales_targets(task):
            return {}
        return {"targets": Field((), _INT64), "target_mean": Field((), _FLOAT64), "target_deviations": Field((), _FLOAT64)}

    def _scales_targets(self, task: Task) -> bool:
        return task is Task.REGRESSION and self.target_scaling == "standard"


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
