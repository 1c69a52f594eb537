"""Kernel learners that keep every update as a support vector: Perceptron and OGD (Lu et al., Large Scale Online Kernel Learning)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamlearn.features.compiled import Array, kernel
from streamlearn.learners.losses import Objective, class_fields, mistakes_only, objective, output_slopes, publish_scores, step_size
from streamlearn.learners.parameters import KernelName, NonNegative, Positive, Width, width_of
from streamlearn.learners.protocol import Field, Pool, Shape, Task
from streamlearn.learners.support import KERNELS, expansion, kernel_row, store, support_fields


@dataclass(frozen=True, kw_only=True)
class Perceptron:
    """Kernel Perceptron: every mistake becomes a support vector. No budget.

    Source: Freund and Schapire (1999); Lu et al., section 7. Regression steps by eta * sign(y - f) while |y - f| >
    epsilon.
    Cost per event O(n d) and memory (d + outputs) * n * itemsize + outputs + 8 bytes for n updates so far: it grows without end.

    sigma: kernel width, > 0, or auto. eta: size of an update, > 0 (binary and multi-class predictions do not depend on
    it); default 1, or 0.1 for regression. epsilon: half-width of the zone without updates (regression), >= 0. kernel:
    gaussian, laplacian or cauchy.
    """

    name: ClassVar[str] = "perceptron"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS, Task.REGRESSION})

    sigma: Width = "auto"
    eta: Positive | None = None
    epsilon: NonNegative = 0.1
    kernel: KernelName = "gaussian"

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return class_fields(shape) | support_fields(shape, shape.support)

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        eta = self.eta or (0.1 if pool.shape.task is Task.REGRESSION else 1.0)
        _gradient_descent(self, mistakes_only(pool.shape.task, self.epsilon), eta, pool, slots, X, y, scores)


@dataclass(frozen=True, kw_only=True)
class Ogd:
    """Kernel online gradient descent: every event with a loss becomes a support vector with coefficient -eta * slope. No budget.

    Source: Kivinen et al. (2004) without decay; Lu et al., section 7. Cost per event O(n d) and memory
    (d + outputs) * n * itemsize + outputs + 8 bytes for n updates so far: it grows without end.

    sigma: kernel width, > 0, or auto. eta: constant step size, > 0; default 1, or 0.2 for regression. loss: hinge,
    smooth-hinge or logistic; squared, l1, l2 or eps for regression. epsilon: half-width of the zone without updates
    (regression, squared and eps), >= 0. kernel: gaussian, laplacian or cauchy.
    """

    name: ClassVar[str] = "ogd"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS, Task.REGRESSION})

    sigma: Width = "auto"
    eta: Positive | None = None
    loss: str = ""  # "": hinge, or squared for regression
    epsilon: NonNegative = 0.1
    kernel: KernelName = "gaussian"

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return class_fields(shape) | support_fields(shape, shape.support)

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        loss = self.loss or ("squared" if pool.shape.task is Task.REGRESSION else "hinge")
        aim, eta = objective(pool.shape.task, loss, epsilon=self.epsilon), step_size(self.eta, pool.shape.task)
        _gradient_descent(self, aim, eta, pool, slots, X, y, scores)


def _gradient_descent(
    learner: Perceptron | Ogd, aim: Objective, eta: float, pool: Pool, slots: Array, X: Array, y: Array, scores: Array
) -> None:
    pool.reserve(support=int(pool["size"][slots].max(initial=0)) + len(slots))
    _descend(
        aim, KERNELS[learner.kernel], width_of(learner.sigma), eta, pool["known"], pool["support"], pool["coefficients"],
        pool["size"], slots, X, y, scores,
    )  # fmt: skip


@kernel
def _descend(
    aim: Objective, code: int, sigma: float, eta: float, known: Array, support: Array, coefficients: Array, size: Array,
    slots: Array, X: Array, y: Array, scores: Array,
) -> None:  # fmt: skip
    row = np.empty(support.shape[2], X.dtype)
    f = np.empty(scores.shape[1], X.dtype)
    slopes = np.empty(scores.shape[1], X.dtype)
    for i in range(len(slots)):
        s = slots[i]
        kernel_row(code, sigma, support[s], size[s], X[i], row)
        expansion(row, coefficients[s], size[s], f)
        publish_scores(f, known[s], scores[i])
        if not np.isnan(y[i]) and output_slopes(aim, y[i], f, known[s], slopes):
            store(support[s], coefficients[s], size[s], X[i], slopes, eta)
            size[s] += 1
