"""The ball that holds the optimum of the regularised l2 loss, of radius max |y| / sqrt(reg).

Source: Le et al., Approximation Vector Machines, Algorithm 2 and Theorem 23. Learners with steps 1 / (reg t) keep w
without that factor: w = v / (reg t). Outside the ball the l2 loss makes them diverge.
"""

import math

from streamlearn.features.compiled import Array, kernel


@kernel
def norm_gained(coefficient: float, output: float) -> float:
    """||v + coefficient Phi(x)||^2 - ||v||^2 for a kernel with k(x, x) = 1 and output = v . Phi(x)."""
    return coefficient * (2.0 * output + coefficient)


@kernel
def factor_into_ball(squared_norm: float, largest: float, reg: float, rounds: int) -> float:
    """What v must be multiplied by so that v / (reg rounds) lies in the ball; 1 if it does. squared_norm = ||v||^2, largest = max |y|."""
    limit = largest * math.sqrt(reg) * rounds
    length = math.sqrt(max(squared_norm, 0.0))
    return limit / length if length > limit else 1.0


@kernel
def scale_rows(coefficients: Array, rows: int, factor: float) -> None:
    """coefficients[:rows] *= factor."""
    for b in range(rows):
        for c in range(coefficients.shape[1]):
            coefficients[b, c] *= factor
