"""Stochastic gradient descent on the SVM's objective with steps 1 / (lambda t): kernel Pegasos, and BSGD on a budget."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from streamlearn.features.compiled import Array, kernel
from streamlearn.learners.gram import add_projection, factor_field, in_span, join, project_out
from streamlearn.learners.losses import Objective, class_fields, objective, output_slopes, publish_scores
from streamlearn.learners.merging import merge
from streamlearn.learners.parameters import Count, KernelName, Positive, Width, width_of
from streamlearn.learners.protocol import Field, Pool, Shape, Task
from streamlearn.learners.support import KERNELS, coefficient_product, exact_row, expansion, kernel_row, load, remove, store, support_fields

_REMOVAL, _MERGING, _PROJECTION = range(3)
_STRATEGIES = {"removal": _REMOVAL, "merging": _MERGING, "projection": _PROJECTION}


@dataclass(frozen=True, kw_only=True)
class Pegasos:
    """Kernel Pegasos: stochastic gradient descent on reg ||w||^2 / 2 + hinge loss with steps 1 / (reg t). No budget.

    Source: Shalev-Shwartz, Singer, Srebro and Cotter, Pegasos (2011), figure 3, on the stream instead of random draws, without
    the optional projection and without bias. Every event shrinks all coefficients by 1 - 1/t; every margin below 1 adds a
    support vector with coefficient 1 / (reg t). So after t events all are +-1 / (reg t): +-1 is stored, and f is divided by reg t.
    Cost per event O(n d) and memory (d + outputs) * n * itemsize + outputs + 16 bytes for n updates so far: it grows without end.

    reg: lambda, > 0; the papers search 2^-4 to 2^16 over the number of events. sigma: kernel width, > 0, or auto.
    kernel: gaussian, laplacian or cauchy.
    """

    name: ClassVar[str] = "pegasos"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS})

    reg: Positive = 1e-3
    sigma: Width = "auto"
    kernel: KernelName = "gaussian"

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return class_fields(shape) | support_fields(shape, shape.support) | {"events": Field((), np.dtype(np.int64))}

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        pool.reserve(support=int(pool["size"][slots].max(initial=0)) + len(slots))
        _add_all(
            objective(pool.shape.task, "hinge"), KERNELS[self.kernel], width_of(self.sigma), self.reg, pool["known"], pool["support"],
            pool["coefficients"], pool["size"], pool["events"], slots, X, y, scores,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Bsgd:
    """BSGD: kernel Pegasos on a budget. Above it the support vector with the smallest coefficients goes.

    Source: Wang, Crammer and Vucetic, Breaking the Curse of Kernelization (2012), with its three ways of budget maintenance: removal,
    projection and merging. The vector with the smallest ||coefficients|| among the B + 1, the oldest on ties, is
    - removal: dropped (with the hinge loss all are equal in size, so that the oldest goes);
    - projection: projected onto the others. A new vector in the span of the others (squared distance at most 1e-8, float32
      1e-5) moves their coefficients and is not stored: the same model in exact arithmetic;
    - merging (gaussian kernel): replaced, together with the partner that loses least, by the one vector h x + (1 - h) x' that
      keeps the largest norm, h found by Newton's method (golden-section search in the paper). It has the partner's age. The best
      is nearer to the larger one, h <= 1/2; for coefficients that disagree it may be beyond, but not below h = -5.
    As in Pegasos, t reg times the coefficients are stored.
    Cost per event O(B (d + outputs)); for a loss also: projection O(B^2), merging O(B d) and up to B searches of some steps. Memory
    (d + outputs) (B + 1) itemsize + 4 (B + 1) + outputs + 16 bytes per model; projection 8 (B + 1)^2 more.

    budget: B, >= 1. strategy: removal, projection or merging. reg: lambda, > 0. sigma: kernel width, > 0, or auto.
    kernel: gaussian, laplacian or cauchy.
    """

    name: ClassVar[str] = "bsgd"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS})

    budget: Count = 100
    strategy: Literal["removal", "projection", "merging"] = "merging"
    reg: Positive = 1e-3
    sigma: Width = "auto"
    kernel: KernelName = "gaussian"

    def __post_init__(self) -> None:
        if self.strategy == "merging" and self.kernel != "gaussian":
            raise ValueError(f"strategy = 'merging' needs kernel = 'gaussian', not {self.kernel!r}; use strategy removal or projection")

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        columns = self.budget + 1
        return (
            class_fields(shape)
            | support_fields(shape, columns)
            | {"events": Field((), np.dtype(np.int64)), "order": Field((columns,), np.dtype(np.int32), np.arange(columns))}
            | factor_field(columns if self.strategy == "projection" else 0)
        )

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        _add_within_budget(
            objective(pool.shape.task, "hinge"), KERNELS[self.kernel], width_of(self.sigma), self.reg, _STRATEGIES[self.strategy],
            in_span(X.dtype), pool["known"], pool["support"], pool["coefficients"], pool["size"], pool["events"], pool["order"],
            pool["factor"], slots, X, y, scores,
        )  # fmt: skip


@kernel
def _add_all(
    aim: Objective, code: int, sigma: float, reg: float, known: Array, support: Array, coefficients: Array, size: Array,
    events: Array, slots: Array, X: Array, y: Array, scores: Array,
) -> None:  # fmt: skip
    row = np.empty(support.shape[2], X.dtype)
    f = np.empty(scores.shape[1], X.dtype)
    slopes = np.empty(scores.shape[1], X.dtype)
    for i in range(len(slots)):
        s = slots[i]
        kernel_row(code, sigma, support[s], size[s], X[i], row)
        _outputs(row, coefficients[s], size[s], reg, events[s], f)
        publish_scores(f, known[s], scores[i])
        if np.isnan(y[i]):
            continue
        events[s] += 1
        if output_slopes(aim, y[i], f, known[s], slopes):
            store(support[s], coefficients[s], size[s], X[i], slopes, 1.0)
            size[s] += 1


@kernel
def _add_within_budget(
    aim: Objective, code: int, sigma: float, reg: float, strategy: int, smallest: float, known: Array, support: Array,
    coefficients: Array, size: Array, events: Array, order: Array, factor: Array, slots: Array, X: Array, y: Array, scores: Array,
) -> None:  # fmt: skip
    columns = support.shape[2]
    row = np.empty(columns, X.dtype)
    leaving = np.empty(X.shape[1], X.dtype)
    exact, k, scratch = np.empty(support.shape[1:]), np.empty(columns), np.empty((2, columns))
    f = np.empty(scores.shape[1], X.dtype)
    slopes = np.empty(scores.shape[1], X.dtype)
    for i in range(len(slots)):
        s = slots[i]
        n = size[s]
        kernel_row(code, sigma, support[s], n, X[i], row)
        _outputs(row, coefficients[s], n, reg, events[s], f)
        publish_scores(f, known[s], scores[i])
        if np.isnan(y[i]):
            continue
        events[s] += 1
        if not output_slopes(aim, y[i], f, known[s], slopes):
            continue
        if strategy == _PROJECTION:
            exact_row(code, sigma, support[s], n, X[i], exact, k)
            if join(factor[s], order[s], n, k) <= smallest:
                add_projection(factor[s], order[s], n, coefficients[s], 1.0, slopes)
                continue
        store(support[s], coefficients[s], n, X[i], slopes, 1.0)
        if n + 1 < columns:
            size[s] += 1
            continue
        age = _smallest(coefficients[s], order[s])
        if strategy == _PROJECTION:
            project_out(support[s], coefficients[s], order[s], columns, age, factor[s], scratch)
            continue
        if strategy == _MERGING:
            load(support[s], order[s, age], leaving)
            kernel_row(code, sigma, support[s], columns, leaving, row)
            merge(support[s], coefficients[s], order[s], age, leaving, row)
        remove(support[s], coefficients[s], order[s], columns, age)


@kernel
def _outputs(row: Array, coefficients: Array, size: int, reg: float, events: int, f: Array) -> None:
    """f = expansion / (reg t) after t events."""
    expansion(row, coefficients, size, f)
    for c in range(len(f)):
        f[c] /= reg * max(events, 1)


@kernel
def _smallest(coefficients: Array, order: Array) -> int:
    """The age of the vector with the smallest coefficients, the oldest on ties."""
    best, least = 0, np.inf
    for age in range(len(order)):
        norm = coefficient_product(coefficients, order[age], order[age])
        if norm < least:
            best, least = age, norm
    return best
