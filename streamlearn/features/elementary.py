"""Sine, cosine and exponential of whole rows.

In float32 they are polynomials that the compiler vectorises: about 0.5 ns a value, where the scalar functions of the C
library take 6 to 20 ns. In float64, which is there for reference and not for speed, they are the C library's.

The polynomials were fitted here: weighted least squares on Chebyshev nodes, reweighted until the largest error is as
small as it gets (Lawson, 1961). Fewer coefficients would show in the last bits, more would not.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from streamlearn.features.compiled import Array, elementary, lean

# Adding this to a float32 of at most 2^22 rounds it to an integer, which then stands in the lowest bits.
_ROUND = np.float32(1.5 * 2**23)
_ONE, _HALF = np.float32(1.0), np.float32(0.5)

# pi as the sum of two float32. A multiple of the first, subtracted with one rounding, leaves an exact difference.
_PI, _REST_OF_PI, _PER_PI = np.float32(math.pi), np.float32(math.pi - float(np.float32(math.pi))), np.float32(1.0 / math.pi)
_LARGEST_ANGLE = 2.0**14  # above, the multiple may be the second nearest, and r beyond what the polynomials are for
_NO_ANGLE = 1e30  # above, an angle says nothing any more

# sin r = r (1 + r^2 S(r^2)), cos r = 1 + r^2 (r^2 C(r^2) - 1/2), |r| <= 1.003 pi/2
_S0, _S1, _S2, _S3 = (np.float32(c) for c in (-0.16666656732559204, 0.008333011530339718, -0.0001980620581889525, 2.599144636405981e-06))
_C0, _C1, _C2, _C3 = (
    np.float32(c) for c in (0.041666656732559204, -0.0013888563262298703, 2.4768922230578028e-05, -2.6185819024249213e-07)
)

# log 2 as the sum of two float32, the first with so few bits that its multiples are exact
_LOG2, _REST_OF_LOG2, _PER_LOG2 = np.float32(0.693359375), np.float32(math.log(2.0) - 0.693359375), np.float32(1.0 / math.log(2.0))
_SMALLEST_EXPONENT = np.float32(-87.0)  # below, exp is no normal float32, and counts as 0

# exp r = 1 + r + r^2 E(r), |r| <= log(2) / 2
_E0, _E1, _E2, _E3, _E4 = (
    np.float32(c) for c in (0.4999999403953552, 0.1666652113199234, 0.04166838899254799, 0.00836874544620514, 0.0013814540579915047)
)


def _type_of_widest_vectors(_context: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')  # llvmlite's own `add` knows no attributes of processors
        return context.get_dummy_value()

    return types.void(), generate


# Called in a function, makes the compiler vectorise its loops by 64 bytes where there are such registers, not 32. Worth it where much is
# computed for each number; short sums lose more in what remains of a row than they gain.
_widest_vectors: Any = intrinsic(_type_of_widest_vectors)


@elementary
def scaled_cos_sin(angles: Array, scale: float, cosines: Array, sines: Array) -> None:
    """cosines = scale * cos(angles), sines = scale * sin(angles), all [n]; a non-finite angle or one beyond 1e30 counts as 0.

    Absolute error over scale: at most 2e-7 in float32.
    """
    if angles.itemsize == 4:
        _polynomial_cos_sin(angles, scale, cosines, sines)
        if not _sum_of_squares(angles) <= _LARGEST_ANGLE * _LARGEST_ANGLE:  # the cheapest sign that one of them may be beyond
            _library_cos_sin(angles, _LARGEST_ANGLE, scale, cosines, sines)
    else:
        _library_cos_sin(angles, -1.0, scale, cosines, sines)


@elementary
def exponentials(values: Array, factor: float) -> None:
    """values = exp(factor * values), in place, for factor * values <= 87; relative error in float32 at most 2e-7.

    0 where that is below exp(-87) in float32.
    """
    if values.itemsize == 4:
        _polynomial_exponentials(values, factor)
    else:
        for i in range(len(values)):
            values[i] = math.exp(factor * values[i])


@elementary
def _polynomial_cos_sin(angles: Array, scale: float, cosines: Array, sines: Array) -> None:
    """x = n pi + r with |r| <= pi/2, so that only the parity of n decides the sign: it becomes the sign of the scale."""
    _widest_vectors()
    scale_bits = np.int32(np.float32(scale).view(np.int32))
    for i in range(len(angles)):
        x = angles[i]
        rounded = np.float32(x * _PER_PI + _ROUND)
        n = rounded - _ROUND
        r = (x - n * _PI) - n * _REST_OF_PI
        signed = np.int32(scale_bits ^ (np.int32(rounded.view(np.int32)) << np.int32(31))).view(np.float32)
        u = r * r
        sines[i] = signed * (r * (_ONE + u * (_S0 + u * (_S1 + u * (_S2 + u * _S3)))))
        cosines[i] = signed * (_ONE + u * (u * (_C0 + u * (_C1 + u * (_C2 + u * _C3))) - _HALF))


@lean
def _sum_of_squares(values: Array) -> float:
    total = values.dtype.type(0.0)
    for i in range(len(values)):
        total += values[i] * values[i]
    return float(total)


@lean
def _library_cos_sin(angles: Array, above: float, scale: float, cosines: Array, sines: Array) -> None:
    for i in range(len(angles)):
        if not abs(angles[i]) <= above:
            angle = float(angles[i]) if abs(angles[i]) <= _NO_ANGLE else 0.0
            cosines[i] = scale * math.cos(angle)
            sines[i] = scale * math.sin(angle)


@elementary
def _polynomial_exponentials(values: Array, factor: float) -> None:
    """x = n log 2 + r, and 2^n is made of its bits."""
    _widest_vectors()
    rate = np.float32(factor)
    for i in range(len(values)):
        x = rate * values[i]
        bounded = x if x >= _SMALLEST_EXPONENT else _SMALLEST_EXPONENT
        rounded = np.float32(bounded * _PER_LOG2 + _ROUND)
        n = rounded - _ROUND
        r = (bounded - n * _LOG2) - n * _REST_OF_LOG2
        power = np.int32((np.int32(rounded.view(np.int32)) + np.int32(127)) << np.int32(23)).view(np.float32)
        series = _ONE + r + r * r * (_E0 + r * (_E1 + r * (_E2 + r * (_E3 + r * _E4))))
        values[i] = power * series if x >= _SMALLEST_EXPONENT else values.dtype.type(0.0)
