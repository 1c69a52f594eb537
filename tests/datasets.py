"""Data sets with the published orders of their rows: german, dna, housing (tests/data/README.md)."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DIRECTORY = Path(__file__).parent / "data"


class Permuted(NamedTuple):
    """X float64 [n, dim]; y float64 [n], classes counted from 0; permutations int32 [20, n]."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    permutations: NDArray[np.int32]

    def order(self, number: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The stream (X, y) of permutation `number`, counted from 1 as in the publications."""
        rows = self.permutations[number - 1]
        return self.X[rows], self.y[rows]


def german() -> Permuted:
    """1000 rows, 24 raw features, labels -1 and +1."""
    return _load("german")


def dna() -> Permuted:
    """2000 rows, 180 features of 0 and 1, classes 0, 1, 2."""
    X, y, permutations = _load("dna")
    return Permuted(X, y - 1, permutations)


def housing() -> Permuted:
    """506 rows, 13 features and the target scaled to [0, 1]."""
    return _load("housing")


@cache
def _load(name: str) -> Permuted:
    with np.load(DIRECTORY / f"{name}.npz", allow_pickle=False) as arrays:
        return Permuted(arrays["X"], arrays["y"], arrays["permutations"])
