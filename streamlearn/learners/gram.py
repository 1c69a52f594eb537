"""The inverse kernel matrix of a support set, kept while vectors join and leave: what projecting one of them onto the others needs.

inverse float64 [columns, columns], whatever the dtype of the model: the first `size` rows and columns hold K^-1. With
M = K^-1, the vector r lies at squared distance 1 / M_rr from the span of the others, and -M_ir / M_rr are the coefficients
of its projection onto them. Joining and leaving cost O(size^2). Their rounding errors add up, so `drop` counts and starts
afresh from the support vectors after as many removals as there are columns: O(size^2) per removal again, on average.
"""

import numpy as np

from streamlearn.features.compiled import Array, kernel
from streamlearn.learners.protocol import Field
from streamlearn.learners.support import kernel_row, load


def gram_fields(columns: int) -> dict[str, Field]:
    """inverse [columns, columns] and removals: 8 columns^2 + 8 bytes."""
    return {"inverse": Field((columns, columns), np.dtype(np.float64)), "removals": Field((), np.dtype(np.int64))}


def in_span(dtype: np.dtype[np.floating]) -> float:
    """The squared distance from the span up to which a vector counts as inside: below it, rounding would decide its coefficients."""
    return max(1e-8, 100.0 * float(np.finfo(dtype).eps))


@kernel
def project(inverse: Array, size: int, row: Array, weights: Array) -> float:
    """weights = K^-1 row, the coefficients of the projection of a new vector; returns its squared distance from the span.

    row [size]: kernel values of the new vector, for a kernel with k(x, x) = 1.
    """
    inside = 0.0
    for a in range(size):
        total = 0.0
        for b in range(size):
            total += inverse[a, b] * row[b]
        weights[a] = total
        inside += total * row[a]
    return float(max(0.0, 1.0 - inside))


@kernel
def add_projection(coefficients: Array, size: int, step: float, slopes: Array, weights: Array) -> None:
    """coefficients[b] -= step * slopes * weights[b] for b < size: a step along the projection of the new vector."""
    for b in range(size):
        for c in range(len(slopes)):
            coefficients[b, c] -= coefficients.dtype.type(step * slopes[c] * weights[b])


@kernel
def join(inverse: Array, size: int, weights: Array, distance: float) -> None:
    """Border the inverse by the new vector with the `weights` and `distance` > 0 that `project` found: it becomes index `size`."""
    for a in range(size):
        scaled = weights[a] / distance
        for b in range(size):
            inverse[a, b] += scaled * weights[b]
        inverse[a, size] = -scaled
        inverse[size, a] = -scaled
    inverse[size, size] = 1.0 / distance


@kernel
def drop(
    code: int, sigma: float, support: Array, coefficients: Array, size: int, inverse: Array, removals: Array, slot: int, r: int
) -> None:
    """Project support vector r onto the other size - 1, which take over its coefficients, and move the last vector to its place."""
    last = size - 1
    for b in range(size):
        if b != r:
            weight = coefficients.dtype.type(-inverse[b, r] / inverse[r, r])
            for c in range(coefficients.shape[1]):
                coefficients[b, c] += weight * coefficients[r, c]
    move(support, coefficients, last, r)
    removals[slot] += 1
    if removals[slot] % len(inverse) == 0:
        _start_afresh(code, sigma, support, last, inverse)
    else:
        _leave(inverse, size, r)


@kernel
def move(support: Array, coefficients: Array, origin: int, target: int) -> None:
    """Overwrite the support vector at `target` by the one at `origin`, if these differ."""
    if origin != target:
        for j in range(support.shape[0]):
            support[j, target] = support[j, origin]
        for c in range(coefficients.shape[1]):
            coefficients[target, c] = coefficients[origin, c]


@kernel
def _leave(inverse: Array, size: int, r: int) -> None:
    """Take index r out of the inverse; the last index takes its place."""
    for a in range(size):
        if a != r:
            scaled = inverse[a, r] / inverse[r, r]
            for b in range(size):
                if b != r:
                    inverse[a, b] -= scaled * inverse[r, b]
    last = size - 1
    inverse[r, :size] = inverse[last, :size]
    inverse[:size, r] = inverse[:size, last]
    inverse[r, r] = inverse[last, last]


@kernel
def _start_afresh(code: int, sigma: float, support: Array, size: int, inverse: Array) -> None:
    """Build the inverse again, one vector after the other."""
    x = np.empty(support.shape[0], support.dtype)
    row = np.empty(size, support.dtype)
    weights = np.empty(size, np.float64)
    smallest = 1e-10  # of a vector that rounding has moved into the span since it joined
    for n in range(size):
        load(support, n, x)
        kernel_row(code, sigma, support, n, x, row)
        join(inverse, n, weights, max(project(inverse, n, row, weights), smallest))
