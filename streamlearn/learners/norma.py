"""NORMA for regression: kernel gradient descent with decay and an adaptive zone without updates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamlearn.features.compiled import Array, kernel
from streamlearn.learners.parameters import Count, Fraction, KernelName, NonNegative, Positive, Width, width_of
from streamlearn.learners.protocol import Field, Pool, Shape, Task
from streamlearn.learners.support import KERNELS, expansion, kernel_row, next_in_ring, store, support_fields


@dataclass(frozen=True, kw_only=True)
class Norma:
    """NORMA: epsilon-insensitive kernel regression whose epsilon adapts until a share nu of the events are updates.

    Source: Kivinen, Smola and Williamson (2004); Lu et al., section 7. Every labelled event scales all coefficients by
    1 - eta reg (at least 0). An error above epsilon adds eta * sign(y - f) and raises epsilon by (1 - nu) eta, any other
    event lowers it by nu eta; it may fall below 0, and then every event is an update.
    Memory is bounded by the truncation of the paper: the oldest support vector, whose coefficient is the smallest, gives
    way when there are B. Lu et al. have no bound: choose B above the number of updates for their figures.
    Cost per event O(B d); memory (d + 1) B itemsize + 24 bytes per model.

    budget: B, >= 1. sigma: kernel width, > 0, or auto. eta: size of an update, > 0. reg: lambda, the decay, >= 0. nu:
    aim for the share of updates, in [0, 1]. epsilon: half-width of the zone without updates at the start, >= 0. kernel:
    gaussian, laplacian or cauchy.
    """

    name: ClassVar[str] = "norma"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.REGRESSION})

    budget: Count = 1000
    sigma: Width = "auto"
    eta: Positive = 0.1
    reg: NonNegative = 0.03
    nu: Fraction = 0.4
    epsilon: NonNegative = 0.1
    kernel: KernelName = "gaussian"

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        ring = {"oldest": Field((), np.dtype(np.int64))}
        return support_fields(shape, self.budget) | ring | {"epsilon": Field((), np.dtype(np.float64), self.epsilon)}

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        _descend(
            KERNELS[self.kernel], width_of(self.sigma), self.eta, max(0.0, 1.0 - self.eta * self.reg), self.nu, pool["support"],
            pool["coefficients"], pool["size"], pool["oldest"], pool["epsilon"], slots, X, y, scores,
        )  # fmt: skip


@kernel
def _descend(
    code: int, sigma: float, eta: float, decay: float, nu: float, support: Array, coefficients: Array, size: Array, oldest: Array,
    epsilon: Array, slots: Array, X: Array, y: Array, scores: Array,
) -> None:  # fmt: skip
    budget = support.shape[2]
    row = np.empty(budget, X.dtype)
    f = np.empty(1, X.dtype)
    slope = np.empty(1, X.dtype)
    for i in range(len(slots)):
        s = slots[i]
        kernel_row(code, sigma, support[s], size[s], X[i], row)
        expansion(row, coefficients[s], size[s], f)
        scores[i, 0] = f[0]
        if np.isnan(y[i]):
            continue
        error = y[i] - f[0]
        for b in range(size[s]):
            coefficients[s, b, 0] *= X.dtype.type(decay)
        if abs(error) <= epsilon[s]:
            epsilon[s] -= nu * eta
            continue
        epsilon[s] += (1.0 - nu) * eta
        slope[0] = -np.sign(error)
        store(support[s], coefficients[s], next_in_ring(size, oldest, s, budget), X[i], slope, eta)
