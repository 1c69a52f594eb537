"""Merging of support vectors of a Gaussian kernel: two become one, with as little loss as possible (Wang, Crammer and Vucetic, 2012)."""

import math

import numpy as np

from streamlearn.features.compiled import Array, kernel
from streamlearn.learners.support import coefficient_product

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_TOLERANCE = 1e-4  # of h
_FARTHEST = 5.0  # vectors whose coefficients disagree: how far beyond the one with the larger, in distances between the two
_LARGEST_EXPONENT = 700.0  # exp(-x) of more than this is 0


@kernel
def merge(support: Array, coefficients: Array, order: Array, age: int, x: Array, row: Array) -> None:
    """Merge the vector x, with kernel values `row` and the smallest coefficients, into the partner that loses least.

    order [columns]: positions by age, x at order[age]. The oldest partner on ties. The merged vector h x + (1 - h) x' replaces the
    partner x'; x stays for the caller to remove.
    """
    r = order[age]
    own = coefficient_product(coefficients, r, r)
    partner, best_h, best_distance, least = -1, 0.0, 0.0, np.inf
    for a in range(len(order)):
        b = order[a]
        if a != age:
            shared, other = coefficient_product(coefficients, r, b), coefficient_product(coefficients, b, b)
            distance = -math.log(row[b]) if row[b] > 0.0 else _LARGEST_EXPONENT
            h, kept = _best_merge(own, shared, other, distance)
            loss = own + 2.0 * shared * row[b] + other - kept
            if partner < 0 or loss < least:
                partner, best_h, best_distance, least = b, h, distance, loss
    of_x, of_partner = _similarities(best_distance, best_h)
    for c in range(coefficients.shape[1]):
        coefficients[partner, c] = of_x * coefficients[r, c] + of_partner * coefficients[partner, c]
    if best_h != 0.0:  # vectors too far apart for their difference stay where they are
        for j in range(len(x)):
            support[j, partner] += best_h * (x[j] - support[j, partner])


@kernel
def _best_merge(own: float, shared: float, other: float, distance: float) -> tuple[float, float]:
    """(h, squared norm kept) of the best merge of x into x'. own <= other and shared: products of their coefficients.

    distance = -ln k(x, x'). The best h is below 1/2, nearer to x', and above 0 unless the coefficients disagree.
    """
    h, kept = _golden_section(own, shared, other, distance, 0.0, 0.5)
    if shared < 0.0:
        beyond_h, beyond = _golden_section(own, shared, other, distance, -_FARTHEST, 0.0)
        if beyond > kept:
            return beyond_h, beyond
    return h, kept


@kernel
def _golden_section(own: float, shared: float, other: float, distance: float, low: float, high: float) -> tuple[float, float]:
    """The best h in [low, high] and the squared norm it keeps, which has one peak there."""
    best_h, best = low, _kept(own, shared, other, distance, low)
    at_high = _kept(own, shared, other, distance, high)
    if at_high > best:
        best_h, best = high, at_high
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = _kept(own, shared, other, distance, left), _kept(own, shared, other, distance, right)
    while high - low > _TOLERANCE:
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = _kept(own, shared, other, distance, left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = _kept(own, shared, other, distance, right)
    h = (low + high) / 2.0
    kept = _kept(own, shared, other, distance, h)
    return (h, kept) if kept > best else (best_h, best)


@kernel
def _kept(own: float, shared: float, other: float, distance: float, h: float) -> float:
    """Squared norm of what x and x' are merged into."""
    of_x, of_other = _similarities(distance, h)
    return own * of_x * of_x + 2.0 * shared * of_x * of_other + other * of_other * of_other


@kernel
def _similarities(distance: float, h: float) -> tuple[float, float]:
    """Gaussian kernel values of h x + (1 - h) x' with x and with x'."""
    return math.exp(-distance * (1.0 - h) ** 2), math.exp(-distance * h * h)
