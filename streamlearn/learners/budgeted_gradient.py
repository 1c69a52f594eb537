"""BOGD: kernel online gradient descent that removes a support vector to stay within a budget."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from streamlearn.features.compiled import Array, kernel
from streamlearn.features.generator import initial_state, pick, uniform
from streamlearn.learners.losses import CLOSED_HINGE, HINGE, Objective, class_fields, objective, output_slopes, publish_scores
from streamlearn.learners.parameters import Count, KernelName, NonNegative, Positive, Seed, Width, width_of
from streamlearn.learners.protocol import Field, Pool, Shape, Task
from streamlearn.learners.support import KERNELS, coefficient_product, expansion, kernel_row, renew, store, support_fields

_OLDEST, _UNIFORM, _WEIGHTED = range(3)
_STRATEGIES = {"oldest": _OLDEST, "uniform": _UNIFORM, "++": _WEIGHTED}


@dataclass(frozen=True, kw_only=True)
class Bogd:
    """BOGD and BOGD++: every event shrinks the coefficients by 1 - eta reg, every loss adds a support vector, a full budget removes one.

    Source: Zhao et al., Fast Bounded Online Gradient Descent Algorithms for Scalable Kernel-Based Online Learning (2012); Lu et
    al., section 7. Strategies: "uniform" removes an old vector at random and multiplies the others by B / (B - 1), so that the
    model keeps its expectation; "++" removes vector r with probability p_r = (1 - |a_r| / sum_j |a_j|) / (B - 1) and divides each
    other by 1 - p_j; "oldest" removes the oldest and leaves the others as they are. "" is what made the published tables: uniform
    for binary streams, oldest for multi-class and regression. After a removal with growth all coefficients are scaled by one
    common factor to at most bound * eta, as the published program does; the paper clips each.
    The binary hinge loss counts as active at a margin of exactly 1 too, as in that program.
    Cost per event O(B (d + outputs)); memory (d + outputs) B itemsize + 4 B + outputs + 16 bytes per model.

    budget: B, >= 1. strategy: see above. eta: constant step size, > 0; default 0.5, or 0.2 for regression. reg: lambda,
    >= 0; eta * reg above 1 counts as 1. bound: gamma of the paper, > 0 (inf: none). sigma: kernel width, > 0, or auto.
    loss: hinge, smooth-hinge or logistic; squared, l1, l2 or eps for regression. epsilon: half-width of the zone
    without updates (squared, eps), >= 0. kernel: gaussian, laplacian or cauchy. seed: of the picks.
    """

    name: ClassVar[str] = "bogd"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS, Task.REGRESSION})

    budget: Count = 100
    strategy: Literal["", "uniform", "oldest", "++"] = ""
    eta: Positive | None = None
    reg: NonNegative = 1e-5
    bound: Positive = 10.0
    sigma: Width = "auto"
    loss: str = ""  # "": hinge, or squared for regression
    epsilon: NonNegative = 0.1
    kernel: KernelName = "gaussian"
    seed: Seed = 1

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return (
            class_fields(shape)
            | support_fields(shape, self.budget)
            | {
                "order": Field((self.budget,), np.dtype(np.int32), np.arange(self.budget)),
                "generator": Field((), np.dtype(np.int64), initial_state(self.seed)),
            }
        )

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        task = pool.shape.task
        strategy = _STRATEGIES[self.strategy or ("uniform" if task is Task.BINARY else "oldest")]
        eta = self.eta or (0.2 if task is Task.REGRESSION else 0.5)
        _descend(
            self._objective(task), KERNELS[self.kernel], width_of(self.sigma), strategy, eta, max(0.0, 1.0 - eta * self.reg),
            self.bound * eta, pool["known"], pool["support"], pool["coefficients"], pool["size"], pool["order"],
            pool["generator"], slots, X, y, scores,
        )  # fmt: skip

    def _objective(self, task: Task) -> Objective:
        aim = objective(task, self.loss or ("squared" if task is Task.REGRESSION else "hinge"), epsilon=self.epsilon)
        return aim._replace(loss=CLOSED_HINGE) if task is Task.BINARY and aim.loss == HINGE else aim


@kernel
def _descend(
    aim: Objective, code: int, sigma: float, strategy: int, eta: float, shrinkage: float, largest: float, known: Array, support: Array,
    coefficients: Array, size: Array, order: Array, generator: Array, slots: Array, X: Array, y: Array, scores: Array,
) -> None:  # fmt: skip
    budget = support.shape[2]
    row = np.empty(budget, X.dtype)
    removal = np.empty(budget, np.float64)
    f = np.empty(scores.shape[1], X.dtype)
    slopes = np.empty(scores.shape[1], X.dtype)
    for i in range(len(slots)):
        s = slots[i]
        kernel_row(code, sigma, support[s], size[s], X[i], row)
        expansion(row, coefficients[s], size[s], f)
        publish_scores(f, known[s], scores[i])
        if np.isnan(y[i]):
            continue
        active = output_slopes(aim, y[i], f, known[s], slopes)
        _scale(coefficients[s], size[s], shrinkage)
        if not active:
            continue
        if size[s] < budget:
            store(support[s], coefficients[s], size[s], X[i], slopes, eta)
            size[s] += 1
        elif strategy == _OLDEST:
            store(support[s], coefficients[s], renew(order[s], 0), X[i], slopes, eta)
        else:
            if strategy == _UNIFORM:
                age = pick(generator, s, budget)
                _scale(coefficients[s], budget, budget / max(budget - 1.0, 1.0))
            else:
                _removal_probabilities(coefficients[s], removal)
                age = _pick_weighted(generator, s, order[s], removal)
                _grow(coefficients[s], removal)
            store(support[s], coefficients[s], renew(order[s], age), X[i], slopes, eta)
            _limit(coefficients[s], largest)


@kernel
def _scale(coefficients: Array, size: int, factor: float) -> None:
    values, factor = coefficients[:size].reshape(-1), coefficients.dtype.type(factor)
    for j in range(len(values)):
        values[j] *= factor


@kernel
def _removal_probabilities(coefficients: Array, removal: Array) -> None:
    """p_r of each support vector of a full budget; they sum to 1."""
    budget = len(removal)
    if budget == 1:
        removal[0] = 1.0
        return
    norms = 0.0
    for b in range(budget):
        removal[b] = math.sqrt(coefficient_product(coefficients, b, b))
        norms += removal[b]
    for b in range(budget):
        share = removal[b] / norms if norms > 0.0 else 1.0 / budget
        removal[b] = (1.0 - share) / (budget - 1.0)


@kernel
def _pick_weighted(generator: Array, slot: int, order: Array, removal: Array) -> int:
    """An age, drawn with probabilities `removal` of the positions order[age]."""
    draw = uniform(generator, slot)
    for age in range(len(order) - 1):
        draw -= removal[order[age]]
        if draw < 0.0:
            return age
    return len(order) - 1


@kernel
def _grow(coefficients: Array, removal: Array) -> None:
    """Divide by the probability of staying. A vector that never stays has coefficients of 0, or is the only one."""
    for b in range(len(removal)):
        if removal[b] < 1.0:
            factor = coefficients.dtype.type(1.0 / (1.0 - removal[b]))
            for c in range(coefficients.shape[1]):
                coefficients[b, c] *= factor


@kernel
def _limit(coefficients: Array, largest: float) -> None:
    """Scale all coefficients by one factor, so that none is above `largest` in size."""
    values, limit = coefficients.reshape(-1), coefficients.dtype.type(largest)
    above = 0
    for j in range(len(values)):
        above += abs(values[j]) > limit
    if above > 0:  # seldom; counting goes on in vector registers, looking for the highest does not
        _scale(coefficients, len(coefficients), largest / np.abs(values).max())
