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

    Every model counts the labelled events it has learned (`learned`). Scaling statistics are float64 whatever the dtype of the learner:
    16 d bytes per model. A labelled event joins the statistics before it is scaled, an unlabelled one is scaled by what was learned before.
    """

    name: ClassVar[str] = "pipeline"
    tasks: ClassVar[frozenset[Task]] = frozenset(Task)

    learner: Learner
    scaling: Scaling = "standard"

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return {"learned": Field((), _INT64)} | self._scaling_fields(shape.dim) | dict(self.learner.fields(shape))

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return self.learner.shared(shape)

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        self.learner.step(pool, slots, self._scale(pool, slots, X, ~np.isnan(y)), y, scores)

    def count(self, pool: Pool, slots: Array, y: Array) -> Array:
        """Count the labelled events; returns for each event how many its model had learned before it, int64 [n]."""
        before = np.empty(len(slots), np.int64)
        _count(pool["learned"], slots, y, before)
        return before

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


@kernel
def _count(learned: Array, slots: Array, y: Array, before: Array) -> None:
    for i in range(len(slots)):
        before[i] = learned[slots[i]]
        if not np.isnan(y[i]):
            learned[slots[i]] += 1
