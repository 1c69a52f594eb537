"""Mechanics of models that are linear in their features, whatever the features are."""

import numpy as np

from streamlearn.features.compiled import Array, inlined, lean

RELATIVE_STEP = 0.03  # of the step that minimises the loss of one event
_LARGEST = float(np.finfo(np.float64).max)


@inlined
def linear_outputs(weights: Array, z: Array, f: Array) -> None:
    """f_c = weights[c] . z for weights [outputs, features]."""
    for c in range(len(f)):
        total = z.dtype.type(0.0)
        for j in range(len(z)):
            total += weights[c, j] * z[j]
        f[c] = total


@inlined
def gradient_step(weights: Array, eta: float, slopes: Array, z: Array) -> None:
    """weights[c] -= eta * slopes[c] * z."""
    for c in range(len(slopes)):
        if slopes[c] != 0.0:
            step = z.dtype.type(eta * slopes[c])
            for j in range(len(z)):
                weights[c, j] -= step * z[j]


@lean
def scale(weights: Array, factor: float) -> None:
    """weights *= factor, for weights [n, m]."""
    amount = weights.dtype.type(factor)
    for c in range(weights.shape[0]):
        for j in range(weights.shape[1]):
            weights[c, j] *= amount


@inlined
def dot(a: Array, b: Array) -> float:
    total = a.dtype.type(0.0)
    for j in range(len(a)):
        total += a[j] * b[j]
    return float(total)


@inlined
def bounded_dot(a: Array, b: Array) -> float:
    """a . b as a score: held to what its type can hold, and 0 where its terms overflow in both directions."""
    largest = 3e38 if a.itemsize == 4 else 1e308
    total = dot(a, b)
    return 0.0 if np.isnan(total) else min(max(total, -largest), largest)


@lean
def is_finite(value: float) -> bool:
    """np.isfinite for compiled kernels: numba tests value - value, which reassociation may cancel to 0 when value is infinite."""
    return bool(abs(value) <= _LARGEST)


@lean
def move_average(average: Array, x: Array, rate: float) -> None:
    """average += rate * (x - average), except where that overflows."""
    share = x.dtype.type(rate)
    for j in range(len(x)):
        moved = average[j] + share * (x[j] - average[j])
        if is_finite(moved):
            average[j] = moved


def kernel_step(eta: float | None) -> float:
    """eta as `stable_step` takes it: None, the scale-free default, becomes the negative of RELATIVE_STEP."""
    return -RELATIVE_STEP if eta is None else eta


@lean
def stable_step(eta: float, curvature: float) -> float:
    """The step on a quadratic of this curvature: eta, but at most 2 / curvature, beyond which it moves away from the minimum.

    A negative eta means -eta / curvature.
    """
    if curvature > 0.0:
        return min(eta, 2.0 / curvature) if eta > 0.0 else -eta / curvature
    return max(eta, 0.0)


@lean
def descend(w: Array, eta: float, gradient: Array, decay: float) -> None:
    """w <- decay * w - eta * gradient, unless that overflows: then w stays as it was. Uses `gradient` as scratch."""
    step, keep = w.dtype.type(eta), w.dtype.type(decay)
    finite = 0
    for j in range(len(w)):
        gradient[j] = keep * w[j] - step * gradient[j]
        finite += is_finite(gradient[j])
    if finite == len(w):
        for j in range(len(w)):
            w[j] = gradient[j]


@lean
def soft_threshold(w: Array, amount: float) -> None:
    """The proximal step of amount * ||w||_1: every weight moves towards 0 by `amount` and stops there."""
    if amount > 0.0:
        limit = w.dtype.type(amount)
        for j in range(len(w)):
            w[j] = np.sign(w[j]) * max(abs(w[j]) - limit, w.dtype.type(0.0))
