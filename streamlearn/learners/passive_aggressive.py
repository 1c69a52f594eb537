"""Passive-aggressive learners: every loss moves the model just far enough, without a budget (PA) and with one (BPA-S, BPA-NN, BPA-P)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from streamlearn.features.compiled import Array, exact, kernel
from streamlearn.learners.gram import add_projection, distances, factor_field, in_span, join, project_out
from streamlearn.learners.linear import dot
from streamlearn.learners.losses import LARGEST_RESIDUAL, REGRESSION, Objective, class_fields, objective, output_slopes, publish_scores
from streamlearn.learners.parameters import Count, KernelName, NonNegative, Positive, Width, width_of
from streamlearn.learners.protocol import Field, Pool, Shape, Task
from streamlearn.learners.support import KERNELS, coefficient_product, exact_row, expansion, kernel_row, load, store, support_fields

Variant = Literal["PA-I", "PA-II"]
PA_I, PA_II = range(2)
VARIANTS: Mapping[str, int] = {"PA-I": PA_I, "PA-II": PA_II}

_ROUNDING = 1e-6  # a change that saves less than this share of the loss saves nothing (a tie is common: B = 1 and coefficients of C)


@dataclass(frozen=True, kw_only=True)
class PassiveAggressive:
    """Kernel Passive-Aggressive: the smallest change of the model that removes the loss of the event, damped by C. No budget.

    Source: Crammer et al., Online Passive-Aggressive Algorithms (2006), figure 1 and sections 5 and 7, with k(x, x) = 1. Step
    tau = min(C, loss / n) (PA-I) or loss / (n + 1 / (2 C)) (PA-II), n = 1, for the pair of the right class and the best wrong
    class n = 2. Losses: hinge; for regression |y - f| - epsilon above 0.
    Cost per event O(n d) and memory (d + outputs) * n * itemsize + outputs + 8 bytes for n updates so far: it grows without end.

    variant: PA-I or PA-II. C: aggressiveness, > 0; default 1, for regression 0.3 (in units of the target). sigma:
    kernel width, > 0, or auto. epsilon: half-width of the zone without loss (regression), >= 0. kernel: gaussian,
    laplacian or cauchy.
    """

    name: ClassVar[str] = "pa"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS, Task.REGRESSION})

    variant: Variant = "PA-I"
    C: Positive | None = None
    sigma: Width = "auto"
    epsilon: NonNegative = 0.1
    kernel: KernelName = "gaussian"

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return _fields(shape, shape.support)

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        room = int(pool["size"][slots].max(initial=0)) + len(slots)
        pool.reserve(support=room)
        aim = passive_aggressive_objective(pool.shape.task, self.epsilon)
        C = self.C or (0.3 if pool.shape.task is Task.REGRESSION else 1.0)
        _learn(aim, VARIANTS[self.variant], C, room, False, False, self.kernel, width_of(self.sigma), pool, slots, X, y, scores)


@dataclass(frozen=True, kw_only=True)
class BpaS:
    """BPA-S: Passive-Aggressive on a budget, where a vector that leaves is projected onto the new vector alone.

    Source: Wang and Vucetic, Online Passive-Aggressive Algorithms on a Budget (2010), "simple"; Lu et al., section 7, for the
    multi-class form. tau = min(C, loss / n) as in PA-I. On a full budget the r that minimises ||change||^2 / 2 + C loss after
    is replaced. For k(x, x) = 1 all r leave the same loss, and the change is (1 - k_rt^2) ||a_r||^2 plus a constant, a_r being
    the coefficients: that is what is compared; the lowest position on ties.
    Cost per event O(B (d + outputs)); memory (d + outputs) B itemsize + outputs + 8 bytes per model.

    budget: B, >= 1. C: aggressiveness, > 0. sigma: kernel width, > 0, or auto. skip: leave the model alone where the
    best change costs more than the loss (the authors of this learner allow it; the program behind the published tables
    does not). kernel: gaussian, laplacian or cauchy.
    """

    name: ClassVar[str] = "bpa-s"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS})

    budget: Count = 100
    C: Positive = 1.0
    sigma: Width = "auto"
    skip: bool = False
    kernel: KernelName = "gaussian"

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return _fields(shape, self.budget)

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        aim = objective(pool.shape.task, "hinge")
        _learn(aim, PA_I, self.C, self.budget, self.skip, False, self.kernel, width_of(self.sigma), pool, slots, X, y, scores)


@dataclass(frozen=True, kw_only=True)
class BpaNn:
    """BPA-NN: Passive-Aggressive on a budget, where a vector that leaves is projected onto the new vector and its nearest neighbour.

    Source: Wang and Vucetic (2010), "nearest neighbour": BPA-S with one more vector to project onto, the remaining support
    vector with the largest kernel value (the lowest position on ties). A neighbour that equals the new vector (1 - k^2 below
    1e-8, float32 1e-5) adds nothing and is left out. Each support vector's neighbour is stored and kept up to date.
    Cost per event O(B (d + outputs)), plus O(B d) for each support vector whose neighbour leaves; memory
    (d + outputs + 1) B itemsize + 4 B + outputs + 8 bytes per model.

    budget: B, >= 1. C: aggressiveness, > 0. sigma: kernel width, > 0, or auto. skip: leave the model alone where the
    best change costs more than the loss. kernel: gaussian, laplacian or cauchy.
    """

    name: ClassVar[str] = "bpa-nn"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS})

    budget: Count = 100
    C: Positive = 1.0
    sigma: Width = "auto"
    skip: bool = False
    kernel: KernelName = "gaussian"

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return _fields(shape, self.budget, neighbours=self.budget)

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        aim = objective(pool.shape.task, "hinge")
        _learn(aim, PA_I, self.C, self.budget, self.skip, True, self.kernel, width_of(self.sigma), pool, slots, X, y, scores)


@dataclass(frozen=True, kw_only=True)
class BpaP:
    """BPA-P: Passive-Aggressive on a budget, where a vector that leaves is projected onto all the others and the new vector.

    Source: Wang and Vucetic (2010), "projecting": BPA-S with all remaining vectors to project onto; the oldest on ties. The Cholesky
    factor of the kernel matrix, in float64, gives every candidate's distance from the others at once. An event whose vector lies in
    the span of the support vectors (squared distance at most 1e-8, float32 1e-5) moves their coefficients and is not stored: the
    same model in exact arithmetic.
    Cost per event O(B (d + outputs)), plus O(B^2) for a loss and B^3 / 6 where it replaces a vector; memory
    (d + outputs) (B + 1) itemsize + 8 (B + 1)^2 + 4 (B + 1) + outputs + 8 bytes per model.

    budget: B, >= 1. C: aggressiveness, > 0. sigma: kernel width, > 0, or auto. skip: leave the model alone where the
    best change costs more than the loss. kernel: gaussian, laplacian or cauchy.
    """

    name: ClassVar[str] = "bpa-p"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS})

    budget: Count = 100
    C: Positive = 1.0
    sigma: Width = "auto"
    skip: bool = False
    kernel: KernelName = "gaussian"

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        columns = self.budget + 1
        order = {"order": Field((columns,), np.dtype(np.int32), np.arange(columns))}
        return class_fields(shape) | support_fields(shape, columns) | order | factor_field(columns)

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        aim = objective(pool.shape.task, "hinge")
        _project_out_cheapest(
            aim, self.C, self.skip, KERNELS[self.kernel], width_of(self.sigma), in_span(X.dtype), pool["known"], pool["support"],
            pool["coefficients"], pool["size"], pool["order"], pool["factor"], slots, X, y, scores,
        )  # fmt: skip


def passive_aggressive_objective(task: Task, epsilon: float) -> Objective:
    """Hinge, or eps-insensitive for regression."""
    return objective(task, "eps" if task is Task.REGRESSION else "hinge", epsilon=epsilon)


@kernel
def suffered_loss(aim: Objective, label: float, f: Array, slopes: Array) -> float:
    """The hinge or eps-insensitive loss at outputs f, given its slopes, where it is above 0."""
    if aim.task == REGRESSION:
        return float(min(abs(f[0] - label) - aim.width, LARGEST_RESIDUAL))
    return 1.0 + dot(slopes, f)


@kernel
def passive_aggressive_step(variant: int, C: float, loss: float, norm: float) -> float:
    """tau for the squared norm of the loss' gradient; 0 where the gradient is 0 and no step helps."""
    if norm <= 0.0:
        return 0.0
    return min(C, loss / norm) if variant == PA_I else loss / (norm + 0.5 / C)


def _fields(shape: Shape, columns: int, *, neighbours: int = 0) -> dict[str, Field]:
    """neighbour, affinity [neighbours]: each support vector's nearest other one, -1 if there is none, and their kernel value."""
    nearest = {"neighbour": Field((neighbours,), np.dtype(np.int32), -1), "affinity": Field((neighbours,), shape.dtype)}
    return class_fields(shape) | support_fields(shape, columns) | nearest


def _learn(
    aim: Objective, variant: int, C: float, budget: int, skip: bool, nearest: bool, kernel_name: str, sigma: float,
    pool: Pool, slots: Array, X: Array, y: Array, scores: Array,
) -> None:  # fmt: skip
    _replace_cheapest(
        aim, variant, C, budget, skip, nearest, KERNELS[kernel_name], sigma, in_span(X.dtype), pool["known"], pool["support"],
        pool["coefficients"], pool["size"], pool["neighbour"], pool["affinity"], slots, X, y, scores,
    )  # fmt: skip


@kernel
def _replace_cheapest(
    aim: Objective, variant: int, C: float, budget: int, skip: bool, nearest: bool, code: int, sigma: float, smallest: float,
    known: Array, support: Array, coefficients: Array, size: Array, neighbour: Array, affinity: Array,
    slots: Array, X: Array, y: Array, scores: Array,
) -> None:  # fmt: skip
    row = np.empty(support.shape[2], X.dtype)
    other_row = np.empty(support.shape[2], X.dtype)
    other = np.empty(X.shape[1], X.dtype)
    f = np.empty(scores.shape[1], X.dtype)
    slopes = np.empty(scores.shape[1], X.dtype)
    moved = np.empty(scores.shape[1], X.dtype)
    for i in range(len(slots)):
        s = slots[i]
        n = size[s]
        kernel_row(code, sigma, support[s], n, X[i], row)
        expansion(row, coefficients[s], n, f)
        publish_scores(f, known[s], scores[i])
        if np.isnan(y[i]) or not output_slopes(aim, y[i], f, known[s], slopes):
            continue
        loss = suffered_loss(aim, y[i], f, slopes)
        tau = passive_aggressive_step(variant, C, loss, dot(slopes, slopes))
        if n < budget:
            r = n
            size[s] += 1
            store(support[s], coefficients[s], r, X[i], slopes, tau)
        else:
            r, cost = _cheapest_onto_few(coefficients[s], row, nearest, neighbour[s], affinity[s], smallest)
            if skip and not _pays(aim, y[i], C, tau, loss, cost, f, slopes, known[s], moved):
                continue
            _replace(support[s], coefficients[s], r, row, nearest, neighbour[s], affinity[s], smallest, X[i], slopes, tau)
        if nearest:
            row[r] = 1.0
            _update_neighbours(code, sigma, support[s], size[s], r, row, neighbour[s], affinity[s], other, other_row)


@kernel
def _project_out_cheapest(
    aim: Objective, C: float, skip: bool, code: int, sigma: float, smallest: float, known: Array, support: Array,
    coefficients: Array, size: Array, order: Array, factor: Array, slots: Array, X: Array, y: Array, scores: Array,
) -> None:  # fmt: skip
    columns = support.shape[2]
    row = np.empty(columns, X.dtype)
    exact, k, scratch = np.empty(support.shape[1:]), np.empty(columns), np.empty((2, columns))
    inverse = np.zeros((columns, columns))
    f = np.empty(scores.shape[1], X.dtype)
    slopes = np.empty(scores.shape[1], X.dtype)
    moved = np.empty(scores.shape[1], X.dtype)
    for i in range(len(slots)):
        s = slots[i]
        n = size[s]
        full = n + 1 == columns
        kernel_row(code, sigma, support[s], n, X[i], row)
        expansion(row, coefficients[s], n, f)
        publish_scores(f, known[s], scores[i])
        if np.isnan(y[i]) or not output_slopes(aim, y[i], f, known[s], slopes):
            continue
        loss = suffered_loss(aim, y[i], f, slopes)
        tau = passive_aggressive_step(PA_I, C, loss, dot(slopes, slopes))
        exact_row(code, sigma, support[s], n, X[i], exact, k)
        inside = join(factor[s], order[s], n, k) <= smallest
        age, cost = n, 0.0
        if full and not inside:
            age, cost = _cheapest_onto_all(coefficients[s], order[s], factor[s], inverse, k)
        if skip and full and not _pays(aim, y[i], C, tau, loss, cost, f, slopes, known[s], moved):
            continue
        if inside:
            add_projection(factor[s], order[s], n, coefficients[s], tau, slopes)
            continue
        store(support[s], coefficients[s], n, X[i], slopes, tau)
        if full:
            project_out(support[s], coefficients[s], order[s], columns, age, factor[s], scratch)
        else:
            size[s] += 1


@kernel
def _pays(
    aim: Objective, label: float, C: float, tau: float, loss: float, cost: float, f: Array, slopes: Array, known: Array, moved: Array
) -> bool:
    """Whether ||change||^2 / 2 + C loss after it is below C loss. `cost` is the part of ||change||^2 due to the vector that leaves."""
    for c in range(len(f)):
        moved[c] = f[c] - f.dtype.type(tau) * slopes[c]
    change = cost + tau * tau * dot(slopes, slopes)
    after = 0.0
    if output_slopes(aim, label, moved, known, slopes):
        after = suffered_loss(aim, label, moved, slopes)
    output_slopes(aim, label, f, known, slopes)
    return change / 2.0 + C * after < (1.0 - _ROUNDING) * C * loss


@kernel
def _cheapest_onto_few(
    coefficients: Array, row: Array, nearest: bool, neighbour: Array, affinity: Array, smallest: float
) -> tuple[int, float]:
    """The support vector that loses least when projected onto the new vector (and its neighbour), and that loss, squared."""
    best, least = 0, np.inf
    for r in range(len(coefficients)):
        of_nearest, of_new = _few_weights(r, row, nearest, neighbour, affinity, smallest)
        kept = of_new * row[r]
        if of_nearest != 0.0:
            kept += of_nearest * affinity[r]
        cost = max(0.0, 1.0 - kept) * coefficient_product(coefficients, r, r)
        if cost < least:
            best, least = r, cost
    return best, least


@kernel
def _few_weights(r: int, row: Array, nearest: bool, neighbour: Array, affinity: Array, smallest: float) -> tuple[float, float]:
    """Coefficients of the projection of support vector r onto its neighbour (0 without one) and onto the new vector."""
    k_new = float(row[r])
    if not nearest or neighbour[r] < 0:
        return 0.0, k_new
    k_nearest, between = float(affinity[r]), float(row[neighbour[r]])
    determinant = 1.0 - between * between
    if determinant <= smallest:
        return 0.0, k_new
    return (k_nearest - between * k_new) / determinant, (k_new - between * k_nearest) / determinant


@exact
def _replace(
    support: Array, coefficients: Array, r: int, row: Array, nearest: bool, neighbour: Array, affinity: Array, smallest: float,
    x: Array, slopes: Array, tau: float,
) -> None:  # fmt: skip
    """Put x at position r, and the projection of the vector there on what it is projected onto."""
    of_nearest, of_new = _few_weights(r, row, nearest, neighbour, affinity, smallest)
    for c in range(len(slopes)):
        if of_nearest != 0.0:
            coefficients[neighbour[r], c] += coefficients.dtype.type(of_nearest * coefficients[r, c])
        coefficients[r, c] = (0.0 - tau * slopes[c]) + of_new * coefficients[r, c]  # never -0, so that an unused output stays +0
    for j in range(len(x)):
        support[j, r] = x[j]


@kernel
def _update_neighbours(
    code: int,
    sigma: float,
    support: Array,
    size: int,
    r: int,
    row: Array,
    neighbour: Array,
    affinity: Array,
    other: Array,
    other_row: Array,
) -> None:
    """Position r holds a new vector with kernel values `row`: find its neighbour, and who has it as neighbour from now on.

    other [dim] and other_row [columns] are scratch.
    """
    _find_neighbour(r, row, size, neighbour, affinity)
    for b in range(size):
        if b == r:
            continue
        if neighbour[b] == r:  # was the neighbour of the vector that left
            load(support, b, other)
            kernel_row(code, sigma, support, size, other, other_row)
            _find_neighbour(b, other_row, size, neighbour, affinity)
        elif row[b] > affinity[b] or neighbour[b] < 0 or (row[b] == affinity[b] and r < neighbour[b]):
            neighbour[b], affinity[b] = r, row[b]


@kernel
def _find_neighbour(b: int, row: Array, size: int, neighbour: Array, affinity: Array) -> None:
    """The largest of row [size] other than at b, the lowest position on ties."""
    best = -1
    for a in range(size):
        if a != b and (best < 0 or row[a] > row[best]):
            best = a
    neighbour[b] = best
    affinity[b] = row[best] if best >= 0 else 0.0


@kernel
def _cheapest_onto_all(coefficients: Array, order: Array, factor: Array, inverse: Array, squared: Array) -> tuple[int, float]:
    """The age of the support vector that loses least when projected onto all the others and the new vector, and that loss, squared.

    The new vector is the last row of the factor. The oldest on ties. inverse and squared are scratch, as in `distances`.
    """
    distances(factor, len(order), inverse, squared)
    best, least = 0, np.inf
    for age in range(len(order) - 1):
        cost = squared[age] * coefficient_product(coefficients, order[age], order[age])
        if cost < least:
            best, least = age, cost
    return best, least
