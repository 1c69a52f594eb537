"""The Cholesky factor of a support set's kernel matrix, kept while vectors join and leave: what projecting one onto the others needs.

factor float64 [columns, columns], lower triangular, whatever the dtype of the model: factor factor' = K for the first `size`
support vectors in the order of their age, `order` int32 [columns] naming their columns, oldest first. Joining and leaving
cost O(size^2) and are backward stable: the factor stays that of a matrix within rounding of K, however often vectors change.
Kernels have k(x, x) = 1; rows come from `exact_row`.
"""

import math

import numpy as np

from streamlearn.features.compiled import Array, lean
from streamlearn.learners.protocol import Field
from streamlearn.learners.support import remove


def factor_field(columns: int) -> dict[str, Field]:
    """factor [columns, columns]: 8 columns^2 bytes."""
    return {"factor": Field((columns, columns), np.dtype(np.float64))}


def in_span(dtype: np.dtype[np.floating]) -> float:
    """The squared distance from the span up to which a vector counts as inside: below it, rounding would decide its coefficients."""
    return max(1e-8, 100.0 * float(np.finfo(dtype).eps))


@lean
def forward_substitution(factor: Array, size: int, k: Array, solution: Array) -> float:
    """Solve factor[:size, :size] solution = k for a lower triangular factor; returns solution . solution, which is k' K^-1 k."""
    norm = 0.0
    for i in range(size):
        rest = k[i]
        for j in range(i):
            rest -= factor[i, j] * solution[j]
        solution[i] = rest / factor[i, i]
        norm += float(solution[i]) ** 2
    return norm


@lean
def backward_substitution(factor: Array, size: int, solution: Array) -> None:
    """Solve factor[:size, :size]' solution = solution in place."""
    for i in range(size - 1, -1, -1):
        last = solution[i] / factor[i, i]
        solution[i] = last
        for j in range(i):
            solution[j] -= factor[i, j] * last


@lean
def join(factor: Array, order: Array, size: int, row: Array) -> float:
    """Write the factor's row for a new vector with kernel values `row` and return its squared distance from the span of the others.

    It counts once the caller raises the size; with a distance near 0 it must not.
    """
    solution = factor[size]
    for a in range(size):
        solution[a] = row[order[a]]
    distance = max(0.0, 1.0 - forward_substitution(factor, size, solution, solution))
    factor[size, size] = math.sqrt(distance)
    return distance


@lean
def add_projection(factor: Array, order: Array, size: int, coefficients: Array, step: float, slopes: Array) -> None:
    """Move by -step * slopes along the projection of the vector that `join` has just written. Overwrites its row."""
    weights = factor[size]
    backward_substitution(factor, size, weights)
    for a in range(size):
        for c in range(len(slopes)):
            coefficients[order[a], c] -= coefficients.dtype.type(step * slopes[c] * weights[a])


@lean
def distances(factor: Array, size: int, inverse: Array, squared: Array) -> None:
    """squared[a] = squared distance of vector a (by age) from the span of all the others: 1 / (K^-1)_aa. O(size^3 / 6).

    inverse float64 [size or more, size or more], scratch with zeros above its diagonal: the rows of the factor's inverse, one after
    the other, each from four of the earlier ones at a time.
    """
    squared[:size] = 0.0
    for i in range(size):
        row = inverse[i]
        row[:i], row[i] = 0.0, 1.0
        for j in range(0, i - 3, 4):
            l_0, l_1, l_2, l_3 = factor[i, j], factor[i, j + 1], factor[i, j + 2], factor[i, j + 3]
            for a in range(j + 4):
                row[a] -= l_0 * inverse[j, a] + l_1 * inverse[j + 1, a] + l_2 * inverse[j + 2, a] + l_3 * inverse[j + 3, a]
        for j in range(i - i % 4, i):
            l_j = factor[i, j]
            for a in range(j + 1):
                row[a] -= l_j * inverse[j, a]
        scale = 1.0 / factor[i, i]
        for a in range(i + 1):
            row[a] *= scale
            squared[a] += row[a] * row[a]
    for a in range(size):
        squared[a] = 1.0 / squared[a]


@lean
def project_out(support: Array, coefficients: Array, order: Array, size: int, age: int, factor: Array, scratch: Array) -> None:
    """Remove a vector (by age), whose coefficients go to its projection onto the other size - 1. scratch float64 [2, columns]."""
    weights, column = scratch[0], scratch[1]
    rest = size - 1
    for i in range(rest):
        other = i if i < age else i + 1
        total = 0.0
        for j in range(min(age, other) + 1):
            total += factor[age, j] * factor[other, j]
        weights[i] = total
    _leave(factor, size, age, column)
    forward_substitution(factor, rest, weights, weights)
    backward_substitution(factor, rest, weights)
    leaving = order[age]
    for i in range(rest):
        other = order[i] if i < age else order[i + 1]
        for c in range(coefficients.shape[1]):
            coefficients[other, c] += coefficients.dtype.type(weights[i] * coefficients[leaving, c])
    remove(support, coefficients, order, size, age)


@lean
def _leave(factor: Array, size: int, age: int, column: Array) -> None:
    """The factor without row `age` of K: the rows below move up, and what their column `age` held is added as a rank-one update."""
    rest = size - 1
    for i in range(age, rest):
        column[i] = factor[i + 1, age]
        for j in range(age):
            factor[i, j] = factor[i + 1, j]
        for j in range(age, i + 1):
            factor[i, j] = factor[i + 1, j + 1]
    for k in range(age, rest):
        diagonal = math.hypot(factor[k, k], column[k])
        cosine, sine = diagonal / factor[k, k], column[k] / factor[k, k]
        factor[k, k] = diagonal
        for i in range(k + 1, rest):
            factor[i, k] = (factor[i, k] + sine * column[i]) / cosine
            column[i] = cosine * column[i] - sine * factor[i, k]
