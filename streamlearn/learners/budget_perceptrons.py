"""Perceptrons that remove a support vector to stay within a budget: RBP, Forgetron and Budget Perceptron."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamlearn.features.compiled import Array, lean
from streamlearn.features.generator import initial_state, pick
from streamlearn.features.memory import rows
from streamlearn.learners.linear import scale
from streamlearn.learners.losses import (
    BINARY,
    MULTICLASS,
    REGRESSION,
    Objective,
    class_fields,
    mistakes_only,
    output_slopes,
    publish_scores,
)  # fmt: skip
from streamlearn.learners.parameters import Count, KernelName, NonNegative, Positive, Seed, Width, width_of
from streamlearn.learners.protocol import Field, Pool, Shape, Task
from streamlearn.learners.support import KERNELS, expansion, kernel_row, load, next_in_ring, renew, store, support_fields

_INT32, _INT64, _FLOAT64 = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.float64)

# The Forgetron's published factor may exceed 1; it is not taken where it would raise a coefficient above this many updates.
_LARGEST_COEFFICIENT = 1e6

# The Budget Perceptron's margins that differ by less are equal: of two vectors alone they always are, up to rounding.
_TIE = 1e-6


@dataclass(frozen=True, kw_only=True)
class BudgetedPerceptron:
    """What the Perceptrons that differ in how they keep their budget have in common."""

    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS, Task.REGRESSION})

    budget: Count = 100
    sigma: Width = "auto"
    eta: Positive = 0.1
    epsilon: NonNegative = 0.1
    kernel: KernelName = "gaussian"

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def updates(self, task: Task) -> tuple[Objective, float]:
        """When to update, and the size of an update: 1 on a mistake, eta where |y - f| > epsilon."""
        return mistakes_only(task, self.epsilon), self.eta if task is Task.REGRESSION else 1.0


@dataclass(frozen=True, kw_only=True)
class Rbp(BudgetedPerceptron):
    """Randomized Budget Perceptron: a mistake on a full budget replaces one of the old support vectors, picked uniformly.

    Source: Cavallanti, Cesa-Bianchi and Gentile (2007); Lu et al., section 7. Regression steps by eta * sign(y - f)
    while |y - f| > epsilon, classification by 1. Cost per event O(B d); memory (d + outputs) B itemsize + 4 B + outputs
    + 16 bytes per model.

    budget: B, >= 1. sigma: kernel width, > 0, or auto. eta: size of an update (regression), > 0. epsilon: half-width of
    the zone without updates (regression), >= 0. kernel: gaussian, laplacian or cauchy. seed: of the picks.
    """

    name: ClassVar[str] = "rbp"

    seed: Seed = 1

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        by_age = {"order": Field((self.budget,), _INT32, np.arange(self.budget)), "generator": Field((), _INT64, initial_state(self.seed))}
        return class_fields(shape) | support_fields(shape, self.budget) | by_age

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        mistakes, eta = self.updates(pool.shape.task)
        _replace_random(
            mistakes, KERNELS[self.kernel], width_of(self.sigma), eta, pool["known"], pool["support"],
            pool["coefficients"], pool["size"], pool["order"], pool["generator"], slots, X, y, scores,
            rows(X.dtype, self.budget, pool.shape.outputs, pool.shape.outputs),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Forgetron(BudgetedPerceptron):
    """Self-tuned Forgetron: on a full budget, shrink all coefficients by a factor phi, then drop the oldest support vector.

    Source: Dekel, Shalev-Shwartz and Singer (2008), self-tuned version; Lu et al., section 7. phi is the largest factor
    for which the deviation that all removals have caused stays within 15/32 of the mistakes so far. A binary event with
    f = 0 is always learned, but counted as a mistake only if its label is -1. Multi-class: deviation of the right class'
    row of the removed vector. Regression: steps of eta * sign(y - f) while |y - f| > epsilon.
    The program behind the published figures takes, where two roots bound phi (removed vectors that are classified well),
    the larger one, which is above 1: coefficients then grow. That is the default here, except where a coefficient would
    pass 1e6 updates; `capped` keeps phi in (0, 1], as the mistake bound of the paper requires.
    Cost per event O(B d), twice that for a removal; memory (d + outputs) B itemsize + outputs + 32 bytes per model.

    budget: B, >= 1. sigma: kernel width, > 0, or auto. eta: size of an update (regression), > 0. epsilon: half-width of
    the zone without updates (regression), >= 0. kernel: gaussian, laplacian or cauchy. capped: see above.
    """

    name: ClassVar[str] = "forgetron"

    capped: bool = False

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        progress = {"oldest": Field((), _INT64), "counted_mistakes": Field((), _INT64), "deviation": Field((), _FLOAT64)}
        return class_fields(shape) | support_fields(shape, self.budget) | progress

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        mistakes, eta = self.updates(pool.shape.task)
        _forget_oldest(
            mistakes, self.capped, KERNELS[self.kernel], width_of(self.sigma), eta, pool["known"], pool["support"],
            pool["coefficients"], pool["size"], pool["oldest"], pool["counted_mistakes"], pool["deviation"], slots, X, y, scores,
            rows(X.dtype, self.budget, X.shape[1], pool.shape.outputs, pool.shape.outputs),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class BudgetPerceptron:
    """Budget Perceptron: a margin of at most `tolerance` on a full budget replaces the most redundant support vector.

    Source: Crammer, Kandola and Singer (2003), fixed cache size. Most redundant is the vector with the largest margin
    under the model without it, y_i (f(x_i) - y_i k(x_i, x_i)); the lowest position on ties (1e-6). Mislabelled vectors are
    never redundant, so noise fills the budget. The outputs at the support vectors are kept up to date, not computed anew.
    Cost per event O(B d), twice that for a removal; memory (d + 2) B itemsize + 8 bytes per model.

    budget: B, >= 1. tolerance: beta of the paper, >= 0; 0 learns mistakes and f = 0. sigma: kernel width, > 0, or auto.
    kernel: gaussian, laplacian or cauchy.
    """

    name: ClassVar[str] = "budget-perceptron"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY})

    budget: Count = 100
    tolerance: NonNegative = 0.0
    sigma: Width = "auto"
    kernel: KernelName = "gaussian"

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return support_fields(shape, self.budget) | {"outputs": Field((self.budget,), shape.dtype)}

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        _replace_redundant(
            self.tolerance, KERNELS[self.kernel], width_of(self.sigma), pool["support"], pool["coefficients"], pool["size"],
            pool["outputs"], slots, X, y, scores, rows(X.dtype, self.budget, self.budget, X.shape[1], 1, 1),
        )  # fmt: skip


@lean
def _replace_random(
    aim: Objective, code: int, sigma: float, eta: float, known: Array, support: Array, coefficients: Array, size: Array,
    order: Array, generator: Array, slots: Array, X: Array, y: Array, scores: Array, scratch: tuple[Array, ...],
) -> None:  # fmt: skip
    row, f, slopes = scratch
    budget = len(row)
    for i in range(len(slots)):
        s = slots[i]
        kernel_row(code, sigma, support[s], size[s], X[i], row)
        expansion(row, coefficients[s], size[s], f)
        publish_scores(f, known[s], scores[i])
        if np.isnan(y[i]) or not output_slopes(aim, y[i], f, known[s], slopes):
            continue
        if size[s] < budget:
            position = size[s]
            size[s] += 1
        else:
            position = renew(order[s], pick(generator, s, budget))
        store(support[s], coefficients[s], position, X[i], slopes, eta)


@lean
def _forget_oldest(
    aim: Objective, capped: bool, code: int, sigma: float, eta: float, known: Array, support: Array, coefficients: Array, size: Array,
    oldest: Array, mistakes: Array, deviation: Array, slots: Array, X: Array, y: Array, scores: Array,
    scratch: tuple[Array, ...],
) -> None:  # fmt: skip
    row, removed, f, slopes = scratch
    budget = len(row)
    for i in range(len(slots)):
        s = slots[i]
        kernel_row(code, sigma, support[s], size[s], X[i], row)
        expansion(row, coefficients[s], size[s], f)
        publish_scores(f, known[s], scores[i])
        if np.isnan(y[i]):
            continue
        mistake = output_slopes(aim, y[i], f, known[s], slopes)
        mistakes[s] += mistake
        if aim.task == BINARY and f[0] == 0.0:
            slopes[0] = -y[i]
        elif not mistake:
            continue
        phi = 1.0
        if size[s] == budget:
            r = oldest[s]
            similarity = row[r]
            load(support[s], r, removed)
            kernel_row(code, sigma, support[s], budget, removed, row)
            weight, margin = _removed_margin(aim.task, coefficients[s], r, row, eta, slopes, similarity)
            highest = 1.0 if capped else _LARGEST_COEFFICIENT * eta / max(eta, _largest(coefficients[s]))
            phi = _shrinking_factor(weight, margin, deviation[s] - 15.0 / 32.0 * mistakes[s], highest)
            deviation[s] += (weight * phi) ** 2 + 2.0 * weight * phi * (1.0 - phi * margin)
            scale(coefficients[s], phi)
        store(support[s], coefficients[s], next_in_ring(size, oldest, s, budget), X[i], slopes, eta * phi)


@lean
def _removed_margin(
    task: int, coefficients: Array, r: int, row: Array, eta: float, slopes: Array, similarity: float
) -> tuple[float, float]:
    """(delta, mu) of the Forgetron: size of vector r's coefficient, and its margin once the new vector is in.

    row holds k(x_r, .) of the support vectors, similarity that of the new vector, whose coefficients are -eta * slopes.
    """
    own = coefficients[r].argmax() if task == MULTICLASS else 0
    output = -eta * slopes[own] * similarity
    for b in range(len(row)):
        output += coefficients[b, own] * row[b]
    weight = float(coefficients[r, own])
    if task == REGRESSION or weight * output > 0.0:
        return abs(weight), abs(output)
    return abs(weight), -abs(output)


@lean
def _shrinking_factor(delta: float, mu: float, surplus: float, highest: float) -> float:
    """phi with (delta phi)^2 + 2 delta phi (1 - phi mu) + surplus <= 0, where surplus = Q - 15/32 M <= 0 up to rounding.

    That is 1 if 1 satisfies it, else the larger root if there is one of at most `highest`, else the smaller.
    """
    a, b = delta * delta - 2.0 * delta * mu, 2.0 * delta
    if b == 0.0 or a + b + surplus <= 0.0:
        return 1.0
    root = math.sqrt(max(0.0, b * b - 4.0 * a * surplus))
    if a < 0.0 and b + root <= -2.0 * a * highest:
        return (b + root) / (-2.0 * a)
    return min(1.0, max(0.0, -2.0 * surplus / (b + root)))


@lean
def _largest(coefficients: Array) -> float:
    largest = 0.0
    for b in range(coefficients.shape[0]):
        for c in range(coefficients.shape[1]):
            largest = max(largest, abs(coefficients[b, c]))
    return largest


@lean
def _replace_redundant(
    tolerance: float, code: int, sigma: float, support: Array, coefficients: Array, size: Array, outputs: Array,
    slots: Array, X: Array, y: Array, scores: Array, scratch: tuple[Array, ...],
) -> None:  # fmt: skip
    row, removed_row, removed, f, slope = scratch
    budget = len(row)
    for i in range(len(slots)):
        s = slots[i]
        kernel_row(code, sigma, support[s], size[s], X[i], row)
        expansion(row, coefficients[s], size[s], f)
        scores[i, 0] = f[0]
        if np.isnan(y[i]) or y[i] * f[0] > tolerance:
            continue
        position = size[s]
        if size[s] < budget:
            size[s] += 1
        else:
            position = _most_redundant(coefficients[s], outputs[s])
            load(support[s], position, removed)
            kernel_row(code, sigma, support[s], budget, removed, removed_row)
            _add(outputs[s], -coefficients[s, position, 0], removed_row, budget)
            f[0] -= coefficients[s, position, 0] * row[position]
        slope[0] = -y[i]
        store(support[s], coefficients[s], position, X[i], slope, 1.0)
        row[position] = 1.0  # k(x, x)
        outputs[s, position] = f[0]
        _add(outputs[s], y[i], row, size[s])


@lean
def _most_redundant(coefficients: Array, outputs: Array) -> int:
    """The position with the largest y_b f(x_b), from which every margin without the vector itself is k(x, x) = 1 away."""
    best = 0
    for b in range(1, len(outputs)):
        if coefficients[b, 0] * outputs[b] > coefficients[best, 0] * outputs[best] + _TIE:
            best = b
    return best


@lean
def _add(outputs: Array, coefficient: float, row: Array, size: int) -> None:
    """outputs[b] += coefficient * row[b] for b < size: a vector with kernel row `row` joins the expansion."""
    coefficient = outputs.dtype.type(coefficient)
    for b in range(size):
        outputs[b] += coefficient * row[b]
