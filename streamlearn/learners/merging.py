"""Merging of support vectors of a Gaussian kernel: two become one, with as little loss as possible (Wang, Crammer and Vucetic, 2012)."""

import math

import numpy as np

from streamlearn.features.compiled import Array, kernel
from streamlearn.learners.support import coefficient_product

_TOLERANCE = 1e-9  # of h
_MOST_STEPS = 100  # far more than halving alone takes
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
        if a == age:
            continue
        k, shared, other = float(row[b]), coefficient_product(coefficients, r, b), coefficient_product(coefficients, b, b)
        distance = -math.log(k) if k > 0.0 else _LARGEST_EXPONENT
        if _least_loss(own, shared, other, k, distance) >= least:
            continue
        h, kept = _best_merge(own, shared, other, k, distance)
        loss = own + 2.0 * shared * k + other - kept
        if partner < 0 or loss < least:
            partner, best_h, best_distance, least = b, h, distance, loss
    of_x, of_partner = _similarities(best_distance, best_h)
    for c in range(coefficients.shape[1]):
        coefficients[partner, c] = of_x * coefficients[r, c] + of_partner * coefficients[partner, c]
    if best_h != 0.0:  # vectors too far apart for their difference stay where they are
        for j in range(len(x)):
            support[j, partner] += best_h * (x[j] - support[j, partner])


@kernel
def _least_loss(own: float, shared: float, other: float, k: float, distance: float) -> float:
    """A bound below the loss of the best merge, without a search; arguments and G as in `_best_merge`.

    Where G(0) <= 0 the peak is at h <= 0, farther from x than x' is. Where the coefficients agree, G - h is convex and at most 0 at
    h = 1/2, so that the logarithm of the norm kept rises by at most distance G(0) from h = 0 to the peak; exp(r) <= 1 / (1 - r).
    """
    lost = own * (1.0 - k * k)  # at h = 0
    gain = k * (own * k + shared)
    if gain <= 0.0:
        return lost + 2.0 * k * shared
    rise = distance * gain / (gain + k * shared + other)
    return lost - distance * gain / (1.0 - rise) if shared >= 0.0 and rise < 1.0 else 0.0


@kernel
def _best_merge(own: float, shared: float, other: float, k: float, distance: float) -> tuple[float, float]:
    """(h, squared norm kept) of the best merge of x into x'. own <= other and shared: products of their coefficients.

    k = k(x, x'), distance = -ln k. The norm kept has one peak in [-_FARTHEST, 1/2] (nearer to x', because own <= other; below 0 only
    if the coefficients disagree). Its logarithm has the derivative 4 distance (G - h) with G = N / M, rho = exp(-distance (1 - 2 h)),
    N = own rho^2 + shared rho, M = N + shared rho + other. Newton's method for G = h, held between points on either side of the peak,
    starts at 0; where the coefficients agree G is convex, so that it comes nearer from one side, in 2 to 5 steps.
    """
    low, high, h, rho = -_FARTHEST, 0.5, 0.0, k
    for _ in range(_MOST_STEPS):
        N = (own * rho + shared) * rho
        M = N + shared * rho + other
        if M <= 0.0:  # opposite coefficients at the same place: nothing is kept
            break
        G = N / M
        low, high = (h, high) if h < G else (low, h)
        slope = 2.0 * distance * (own * rho * rho + N * (1.0 - 2.0 * G)) / M - 1.0
        previous, h = h, h - (G - h) / slope
        if not low <= h <= high:
            h = 0.5 * (low + high)
        if abs(h - previous) <= _TOLERANCE:
            break
        rho = math.exp(-distance * (1.0 - 2.0 * h))
    return h, _kept(own, shared, other, distance, h)


@kernel
def _kept(own: float, shared: float, other: float, distance: float, h: float) -> float:
    """Squared norm of what x and x' are merged into."""
    of_x, of_other = _similarities(distance, h)
    return own * of_x * of_x + 2.0 * shared * of_x * of_other + other * of_other * of_other


@kernel
def _similarities(distance: float, h: float) -> tuple[float, float]:
    """Gaussian kernel values of h x + (1 - h) x' with x and with x'."""
    return math.exp(-distance * (1.0 - h) ** 2), math.exp(-distance * h * h)
