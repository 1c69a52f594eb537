"""NOGD: online gradient descent on Nystrom features of the first support vectors (Lu et al., Large Scale Online Kernel Learning)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamlearn.features.compiled import Array, lean
from streamlearn.features.memory import rows
from streamlearn.learners.linear import gradient_step, linear_outputs
from streamlearn.learners.losses import Objective, class_fields, objective, output_slopes, publish_scores, step_size
from streamlearn.learners.parameters import Count, KernelName, NonNegative, Positive, Width, width_of
from streamlearn.learners.protocol import Field, Pool, Shape, Task
from streamlearn.learners.support import KERNELS, expansion, kernel_row, load, store, support_fields

_SMALLEST_EIGENVALUE = 1e-12  # of the largest; below it an eigenvector carries rounding errors only


@dataclass(frozen=True, kw_only=True)
class Nogd:
    """NOGD: kernel gradient descent until B support vectors are stored, then linear gradient descent on k Nystrom features of them.

    Source: Lu et al., Algorithms 2 (binary), 4 (multi-class) and 6 (NOGD-R, where the threshold epsilon is on |y - f|).
    The switch comes at the first event with a loss after the B-th support vector; until then the kernel expansion
    predicts. From then on z(x) = D_k^(-1/2) V_k' [k(x_b, x)]_b with the k largest eigenpairs of the kernel matrix and
    w = D_k^(1/2) V_k' coefficients; the event that made the switch is the first linear step. The paper's box switches
    right after the B-th vector and steps without looking at the loss; the authors' program, which made the published
    tables, does what is done here. Support vectors are never renewed. Eigenvalues are neither floored nor clipped; those
    below 1e-12 of the largest (float32: 1e-6) are left out, because such a feature would be rounding noise.

    Cost per event O(B (d + k) + k outputs), once O(B^3).
    Memory per model (B (d + outputs + k) + k outputs) * itemsize + outputs + 9 bytes.

    budget: B, >= 1. rank: k, >= 1, at most B is used; default 0.2 B, at least 1. sigma: kernel width, > 0, or auto.
    eta: constant step size, > 0; default 1, or 0.2 for regression. loss: hinge, smooth-hinge or logistic; squared, l1,
    l2 or eps for regression. epsilon: half-width of the zone without updates (squared, eps), >= 0. kernel: gaussian,
    laplacian or cauchy.
    """

    name: ClassVar[str] = "nogd"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS, Task.REGRESSION})

    budget: Count = 100
    rank: Count | None = None
    sigma: Width = "auto"
    eta: Positive | None = None
    loss: str = ""  # "": hinge, or squared for regression
    epsilon: NonNegative = 0.1
    kernel: KernelName = "gaussian"

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return (
            class_fields(shape)
            | support_fields(shape, self.budget)
            | {
                "switched": Field((), np.dtype(np.uint8)),
                "map": Field((self._rank, self.budget), shape.dtype),
                "weights": Field((shape.outputs, self._rank), shape.dtype),
            }
        )

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        loss = self.loss or ("squared" if pool.shape.task is Task.REGRESSION else "hinge")
        aim = objective(pool.shape.task, loss, epsilon=self.epsilon)
        eta = step_size(self.eta, pool.shape.task)
        scratch = rows(X.dtype, self.budget, self._rank, X.shape[1], pool.shape.outputs, pool.shape.outputs)
        K = np.empty((self.budget, self.budget), X.dtype)
        row, switching = 0, False
        while True:
            row = _descend(
                aim, KERNELS[self.kernel], width_of(self.sigma), eta, pool["known"], pool["support"], pool["coefficients"], pool["size"],
                pool["switched"], pool["map"], pool["weights"], scratch, K, row, switching, slots, X, y, scores,
            )  # fmt: skip
            if row == len(slots):
                return
            self._switch(pool, int(slots[row]), K)
            switching = True

    @property
    def _rank(self) -> int:
        return min(self.rank or max(round(0.2 * self.budget), 1), self.budget)

    def _switch(self, pool: Pool, slot: int, K: Array) -> None:
        """Turn the slot's kernel expansion, whose kernel matrix is K, into a linear model."""
        values, vectors = leading_eigenpairs(K, self._rank)
        pool["map"][slot, : len(values)] = (vectors / np.sqrt(values)).T
        for c in range(pool.shape.outputs):  # one product per output: its bits must not depend on how many classes there is room for
            coefficients = pool["coefficients"][slot, :, c].astype(np.float64)
            pool["weights"][slot, c, : len(values)] = (vectors * np.sqrt(values)).T @ coefficients
        pool["switched"][slot] = 1


def leading_eigenpairs(K: Array, rank: int) -> tuple[Array, Array]:
    """The `rank` largest eigenvalues of K, largest first, and their eigenvectors as columns; none that K's dtype cannot resolve."""
    values, vectors = np.linalg.eigh(K.astype(np.float64))
    values, vectors = values[::-1][:rank], vectors[:, ::-1][:, :rank]
    kept = values > max(_SMALLEST_EIGENVALUE, 10.0 * float(np.finfo(K.dtype).eps)) * values[0]
    return values[kept], vectors[:, kept]


@lean
def kernel_matrix(code: int, sigma: float, support: Array, x: Array, K: Array) -> None:
    """K[a, b] = k(support vector a, support vector b) for support [dim, B] and K [B, B]; x [dim]: scratch."""
    for a in range(len(K)):
        load(support, a, x)
        kernel_row(code, sigma, support, len(K), x, K[a])


@lean
def _descend(
    aim: Objective, code: int, sigma: float, eta: float, known: Array, support: Array, coefficients: Array, size: Array,
    switched: Array, features: Array, weights: Array,
    scratch: tuple[Array, ...], K: Array, start: int, switching: bool, slots: Array, X: Array,
    y: Array, scores: Array,
) -> int:  # fmt: skip
    """Learn the events from `start` on; returns the first one whose model must switch before it can be learned, else len(slots).

    Returning early leaves that event's slopes in the last row of `scratch` and its model's kernel matrix in K. After the switch it goes on
    with the same event and switching = True: the event has been predicted, its slopes make the first linear step.
    """
    row, z, x, f, slopes = scratch
    for i in range(start, len(slots)):
        s = slots[i]
        kernel_row(code, sigma, support[s], size[s], X[i], row)
        if switched[s]:
            linear_outputs(features[s], row, z)
            linear_outputs(weights[s], z, f)
        else:
            expansion(row, coefficients[s], size[s], f)
        if not (switching and i == start):
            publish_scores(f, known[s], scores[i])
            if np.isnan(y[i]) or not output_slopes(aim, y[i], f, known[s], slopes):
                continue
        if switched[s]:
            gradient_step(weights[s], eta, slopes, z)
        elif size[s] < len(row):
            store(support[s], coefficients[s], size[s], X[i], slopes, eta)
            size[s] += 1
        else:
            kernel_matrix(code, sigma, support[s], x, K)
            return i
    return len(slots)
