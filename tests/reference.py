"""The synthetic reference stream SYN and its Park-Miller draws: reproducible in any language, no library generator involved."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class ParkMiller:
    """s <- 16807 s mod (2^31 - 1); a uniform draw is s / (2^31 - 1)."""

    def __init__(self, state: int) -> None:
        self.state = state

    def uniform(self) -> float:
        self.state = 16807 * self.state % 2147483647
        return self.state / 2147483647

    def normal(self, *shape: int) -> Floats:
        """Sums of twelve uniform draws minus 6, filled row by row ("PM-normal")."""
        return np.array([sum(self.uniform() for _ in range(12)) - 6 for _ in range(int(np.prod(shape)))]).reshape(shape)

    def pick(self, count: int) -> int:
        """An index below count ("PM-pick")."""
        return int(count * self.uniform())


@cache
def syn_rows() -> tuple[Floats, Floats]:
    """Features [600, 6] and score [600] of SYN."""
    generator = ParkMiller(1)
    draws = np.array([[2 * generator.uniform() - 1 for _ in range(7)] for _ in range(600)])
    X, noise = draws[:, :6], draws[:, 6]
    return X, X[:, 0] * X[:, 1] + 0.5 * np.sin(3 * X[:, 2]) + 0.3 * noise


def syn_binary() -> tuple[Floats, Floats]:
    X, score = syn_rows()
    return X, np.where(score < 0, -1.0, 1.0)


def syn_three_classes() -> tuple[Floats, Floats]:
    """Class indices 0, 1, 2."""
    X, score = syn_rows()
    return X, np.where(score < -0.25, 0.0, np.where(score < 0.25, 1.0, 2.0))


def syn_regression() -> tuple[Floats, Floats]:
    return syn_rows()
