"""KOIL: kernelised online imbalanced learning, ranking by a kernel expansion with a fixed budget of support vectors per class."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from streamlearn.features.compiled import Array, kernel
from streamlearn.features.generator import initial_state, pick, uniform
from streamlearn.learners.parameters import Count, Fraction, KernelName, Positive, Seed, Width, width_of
from streamlearn.learners.protocol import Field, Pool, Shape, Task
from streamlearn.learners.support import KERNELS, expansion, kernel_row, support_fields

_INT64 = np.dtype(np.int64)


class Support(NamedTuple):
    """Support vectors of both classes in one store, in no order; class 0 is negative, 1 positive. Axes [slots, ...]."""

    vectors: Array  # [.., dim, 2 budget]
    coefficients: Array  # [.., 2 budget, 1]
    size: Array  # int64, of both classes together
    label: Array  # int8 [.., 2 budget], class of each
    age: Array  # int64 [.., 2 budget], events learned when it was stored
    gram: Array  # [.., 2 budget, 2 budget], kernel values among them
    outputs: Array  # [.., 2 budget], f at each; kept along with every change of f, whose decay forgets the rounding too
    stored: Array  # int64 [.., 2], of each class
    seen: Array  # int64 [.., 2], events learned of each class


@dataclass(frozen=True, kw_only=True)
class Koil:
    """KOIL: an event is paired with its nearest misranked support vectors of the other class; each class has its own budget.

    Source: Hu, Yang, King, Lyu and So, Kernelized Online Imbalanced Learning with Fixed Budgets (2015); the FPOGD paper
    lists it as Projection++. All coefficients shrink by 1 - eta. Of the other class's support vectors b with
    1 - y (f(x) - f(b)) > 0, the `neighbours` with the largest k(x, b) get -eta C y each, and x joins its own class with
    eta C y times their number, or with eta C y while one of the classes has no support vector. A full class drops its
    oldest (fifo), or takes x in place of a random one with probability budget / n, n its events so far (reservoir).
    With `compensate` (KOIL++) the coefficient of what is dropped, x or the replaced vector, goes to the most similar
    support vector kept in its class. The program's decision threshold is left out: it changes no ranking.

    Cost per event O(d budget + neighbours budget). Memory per model (2 B d + 4 B^2 + 4 B) itemsize + 18 B + 48 bytes with
    B = budget.

    sigma: kernel width, > 0, or auto. budget: support vectors per class, >= 1. neighbours: k,
    >= 1. eta: step size and shrinkage, 0 to 1. C: weight of the loss, > 0. replacement: fifo or reservoir. compensate:
    see above; without it reservoirs rank far worse. kernel: gaussian, laplacian or cauchy. seed: of the reservoirs.
    """

    name: ClassVar[str] = "koil"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.RANKING})

    sigma: Width = "auto"
    budget: Count = 100
    neighbours: Count = 10
    eta: Fraction = 0.003
    C: Positive = 10.0
    replacement: Literal["fifo", "reservoir"] = "reservoir"
    compensate: bool = True
    kernel: KernelName = "gaussian"
    seed: Seed = 1

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        room = 2 * self.budget
        return support_fields(shape, room) | {
            "label": Field((room,), np.dtype(np.int8)),
            "age": Field((room,), _INT64),
            "gram": Field((room, room), shape.dtype),
            "outputs": Field((room,), shape.dtype),
            "stored": Field((2,), _INT64),
            "seen": Field((2,), _INT64),
            "generator": Field((), _INT64, initial_state(self.seed)),
        }

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        support = Support(
            pool["support"], pool["coefficients"], pool["size"], pool["label"], pool["age"], pool["gram"],
            pool["outputs"], pool["stored"], pool["seen"],
        )  # fmt: skip
        _learn(
            KERNELS[self.kernel], width_of(self.sigma), self.neighbours, self.eta, self.C, self.replacement == "fifo", self.compensate,
            support, pool["generator"], slots, X, y, scores,
        )  # fmt: skip


@kernel
def _learn(
    code: int, sigma: float, neighbours: int, eta: float, C: float, oldest_out: bool, compensate: bool,
    support: Support, generator: Array, slots: Array, X: Array, y: Array, scores: Array,
) -> None:  # fmt: skip
    room = support.age.shape[1]
    row = np.empty(room, X.dtype)
    similarity = np.empty(room, X.dtype)
    chosen = np.empty(min(neighbours, room), np.int64)
    for i in range(len(slots)):
        s, x = slots[i], X[i]
        size = support.size[s]
        kernel_row(code, sigma, support.vectors[s], size, x, row)
        expansion(row, support.coefficients[s], size, scores[i])
        if np.isnan(y[i]):
            continue
        own = 1 if y[i] > 0.0 else 0
        step = (2.0 * own - 1.0) * eta * C
        used = _nearest_misranked(support, s, own, scores[i, 0], row, chosen)
        _shrink(support, s, 1.0 - eta)
        for k in range(used):
            _add(support, s, chosen[k], -step, support.gram[s, chosen[k]])
        support.seen[s, own] += 1
        if used > 0 or min(support.stored[s, 0], support.stored[s, 1]) == 0:
            _keep(support, s, own, x, row, step * max(used, 1), oldest_out, compensate, generator, similarity)


@kernel
def _nearest_misranked(support: Support, s: int, own: int, f: float, row: Array, chosen: Array) -> int:
    """The nearest support vectors of the other class that are not ranked a margin 1 apart from x, at most len(chosen); returns how many.

    Nearest first, the lowest index on ties.
    """
    used = 0
    for b in range(support.size[s]):
        margin = (2.0 * own - 1.0) * (f - support.outputs[s, b])
        if support.label[s, b] == own or margin >= 1.0 or (used == len(chosen) and row[b] <= row[chosen[-1]]):
            continue
        used = min(used + 1, len(chosen))
        place = used - 1
        while place > 0 and row[b] > row[chosen[place - 1]]:
            chosen[place] = chosen[place - 1]
            place -= 1
        chosen[place] = b
    return used


@kernel
def _shrink(support: Support, s: int, factor: float) -> None:
    """Multiply f by a factor."""
    factor = support.outputs.dtype.type(factor)
    for b in range(support.size[s]):
        support.coefficients[s, b, 0] *= factor
        support.outputs[s, b] *= factor


@kernel
def _add(support: Support, s: int, position: int, coefficient: float, row: Array) -> None:
    """Add coefficient * k(., v) to f, v the support vector at `position`, whose kernel values are `row`."""
    coefficient = support.outputs.dtype.type(coefficient)
    support.coefficients[s, position, 0] += coefficient
    for b in range(support.size[s]):
        support.outputs[s, b] += coefficient * row[b]


@kernel
def _most_similar(support: Support, s: int, label: int, row: Array) -> int:
    """The support vector of this class with the largest kernel value, the lowest index on ties."""
    best = -1
    for b in range(support.size[s]):
        if support.label[s, b] == label and (best < 0 or row[b] > row[best]):
            best = b
    return best


@kernel
def _keep(
    support: Support, s: int, own: int, x: Array, row: Array, coefficient: float, oldest_out: bool, compensate: bool,
    generator: Array, similarity: Array,
) -> None:  # fmt: skip
    """Give x a place in its class: a free one, one taken from another support vector, or none. similarity is scratch."""
    budget = support.age.shape[1] // 2
    if support.stored[s, own] < budget:
        position = support.size[s]
        support.size[s] += 1
        support.stored[s, own] += 1
        _put(support, s, position, own, x, row, coefficient)
        return
    dropped = coefficient
    similarity[:] = row
    if oldest_out or uniform(generator, s) * support.seen[s, own] < budget:
        position = _oldest(support, s, own) if oldest_out else _member(support, s, own, pick(generator, s, budget))
        dropped = support.coefficients[s, position, 0]
        similarity[:] = support.gram[s, position]
        similarity[position] = row[position]
        _add(support, s, position, -dropped, support.gram[s, position])
        _put(support, s, position, own, x, row, coefficient)
    if compensate:
        nearest = _most_similar(support, s, own, similarity)
        _add(support, s, nearest, dropped, support.gram[s, nearest])


@kernel
def _put(support: Support, s: int, position: int, own: int, x: Array, row: Array, coefficient: float) -> None:
    """Store x, with kernel values `row`, at a position without coefficient. Changes row[position] to k(x, x)."""
    row[position] = 1.0  # of all three kernels
    for j in range(len(x)):
        support.vectors[s, j, position] = x[j]
    support.label[s, position] = own
    support.age[s, position] = support.seen[s, 0] + support.seen[s, 1]
    f = support.outputs.dtype.type(0.0)
    for b in range(support.size[s]):
        support.gram[s, position, b] = row[b]
        support.gram[s, b, position] = row[b]
        f += support.coefficients[s, b, 0] * row[b]
    support.outputs[s, position] = f
    _add(support, s, position, coefficient, row)


@kernel
def _oldest(support: Support, s: int, own: int) -> int:
    best = -1
    for b in range(support.size[s]):
        if support.label[s, b] == own and (best < 0 or support.age[s, b] < support.age[s, best]):
            best = b
    return best


@kernel
def _member(support: Support, s: int, own: int, rank: int) -> int:
    """The rank-th support vector of this class, from 0."""
    for b in range(support.size[s]):
        if support.label[s, b] == own:
            if rank == 0:
                return b
            rank -= 1
    return -1
