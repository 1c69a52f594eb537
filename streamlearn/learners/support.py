"""The support-vector store that all kernel-expansion learners share.

Support vectors are kept as columns, [dim, budget], so that one event's kernel row runs over contiguous memory and
vectorises.
"""

import numpy as np

from streamlearn.features.compiled import Array, elementary, exact, inlined, kernel, lean
from streamlearn.features.elementary import exponentials
from streamlearn.features.tiles import absolute_distances, squared_distances
from streamlearn.learners.protocol import Field, Shape

GAUSSIAN, LAPLACIAN, CAUCHY = range(3)
KERNELS = {"gaussian": GAUSSIAN, "laplacian": LAPLACIAN, "cauchy": CAUCHY}
_LARGEST_RATE = 1e30  # of a very narrow kernel; more would be infinite in float32, and infinity times a distance of 0 not a number


def support_fields(shape: Shape, budget: int) -> dict[str, Field]:
    """support [dim, budget], coefficients [budget, outputs], size: (dim + outputs) * budget * itemsize + 8 bytes."""
    return {
        "support": Field((shape.dim, budget), shape.dtype),
        "coefficients": Field((budget, shape.outputs), shape.dtype),
        "size": Field((), np.dtype(np.int64)),
    }


@inlined
def kernel_row(code: int, sigma: float, support: Array, size: int, x: Array, row: Array) -> None:
    """row[b] = k(support vector b, x) for b < size.

    gaussian exp(-||.||^2 / (2 sigma^2)); laplacian exp(-||.||_1 / sigma); cauchy prod_j 1 / (1 + (./sigma)_j^2).
    """
    if code == CAUCHY:
        _cauchy_row(sigma, support, size, x, row)
        return
    if code == GAUSSIAN:
        squared_distances(x, support, size, row)
    else:
        absolute_distances(x, support, size, row)
    exponentials(row[:size], -_rate(code, sigma))


@inlined
def distances_and_row(code: int, sigma: float, support: Array, size: int, x: Array, distances: Array, row: Array) -> None:
    """distances[b] = ||support vector b - x||^2 for b < size, and `kernel_row`, which for the gaussian kernel is made of them."""
    squared_distances(x, support, size, distances)
    if code == CAUCHY:
        _cauchy_row(sigma, support, size, x, row)
        return
    if code == GAUSSIAN:
        for b in range(size):
            row[b] = distances[b]
    else:
        absolute_distances(x, support, size, row)
    exponentials(row[:size], -_rate(code, sigma))


@inlined
def _rate(code: int, sigma: float) -> float:
    return min(0.5 / (sigma * sigma) if code == GAUSSIAN else 1.0 / sigma, _LARGEST_RATE)


@lean
def _cauchy_row(sigma: float, support: Array, size: int, x: Array, row: Array) -> None:
    one, width = x.dtype.type(1.0), x.dtype.type(sigma)
    row[:size] = 1.0
    for j in range(len(x)):
        for b in range(size):
            difference = (support[j, b] - x[j]) / width
            row[b] /= one + difference * difference


@kernel
def exact_row(code: int, sigma: float, support: Array, size: int, x: Array, exact: Array, row: Array) -> None:
    """`kernel_row` in float64, for kernel matrices: rounded to float32 they would not be positive definite.

    exact float64 [dim, budget]: scratch.
    """
    for j in range(len(x)):
        for b in range(size):
            exact[j, b] = support[j, b]
    kernel_row(code, sigma, exact, size, x.astype(np.float64), row)


@inlined
def expansion(row: Array, coefficients: Array, size: int, f: Array) -> None:
    """f_c = sum_b coefficients[b, c] row[b]."""
    if len(f) > 1:
        _expansions(row, coefficients, size, f)
        return
    total = row.dtype.type(0.0)
    for b in range(size):
        total += coefficients[b, 0] * row[b]
    f[0] = total


@elementary
def _expansions(row: Array, coefficients: Array, size: int, f: Array) -> None:
    """In the order of b, read four at a time, whatever the number of outputs: a model's bits must not change when classes are added."""
    f[:] = 0.0
    for b in range(0, size - 3, 4):
        row_0, row_1, row_2, row_3 = row[b], row[b + 1], row[b + 2], row[b + 3]
        for c in range(len(f)):
            total = f[c] + coefficients[b, c] * row_0
            total += coefficients[b + 1, c] * row_1
            total += coefficients[b + 2, c] * row_2
            f[c] = total + coefficients[b + 3, c] * row_3
    for b in range(size - size % 4, size):
        for c in range(len(f)):
            f[c] += coefficients[b, c] * row[b]


@lean
def store(support: Array, coefficients: Array, position: int, x: Array, slopes: Array, step: float) -> None:
    """Put x at `position` with coefficients -step * slopes; never -0, so that a class without a slope looks like one that is not there."""
    for j in range(x.shape[0]):
        support[j, position] = x[j]
    for c in range(slopes.shape[0]):
        coefficients[position, c] = -step * slopes[c] if slopes[c] != 0.0 else 0.0


@lean
def load(support: Array, position: int, x: Array) -> None:
    """Copy the support vector at `position` into x [dim]."""
    for j in range(len(x)):
        x[j] = support[j, position]


@lean
def next_in_ring(size: Array, oldest: Array, slot: int, budget: int) -> int:
    """The position of a new support vector: a free one while there is room, afterwards that of the oldest. size, oldest int64 [slots]."""
    if size[slot] < budget:
        size[slot] += 1
        return int(size[slot] - 1)
    position = oldest[slot]
    oldest[slot] = (position + 1) % budget
    return int(position)


@lean
def renew(order: Array, age: int) -> int:
    """Make the position order[age] (ages count from the oldest, 0) the newest and return it; the others keep their order."""
    position = order[age]
    for i in range(age, len(order) - 1):
        order[i] = order[i + 1]
    order[-1] = position
    return int(position)


@lean
def remove(support: Array, coefficients: Array, order: Array, size: int, age: int) -> None:
    """Remove the vector order[age] of `size` (ages count from the oldest, 0). The newest, in column size - 1, takes its column."""
    last = size - 1
    position = renew(order[:size], age)
    if position == last:
        return
    move(support, coefficients, last, position)
    order[last - 1], order[last] = position, last


@lean
def move(support: Array, coefficients: Array, source: int, target: int) -> None:
    """Put the vector at position `source` and its coefficients at `target` too."""
    for j in range(support.shape[0]):
        support[j, target] = support[j, source]
    for c in range(coefficients.shape[1]):
        coefficients[target, c] = coefficients[source, c]


@exact
def coefficient_product(coefficients: Array, a: int, b: int) -> float:
    """The scalar product of the coefficients of support vectors a and b, to the same bits however many unused outputs there are."""
    total = 0.0
    for c in range(coefficients.shape[1]):
        total += float(coefficients[a, c]) * coefficients[b, c]
    return total
