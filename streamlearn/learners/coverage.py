"""Cells around core points: which core, if any, stands for an event (Le et al., Approximation Vector Machines, Algorithms 3 and 4)."""

from typing import Literal

from streamlearn.features.compiled import Array, kernel

HYPERSPHERE, HYPERRECTANGLE = range(2)
CELLS = {"hypersphere": HYPERSPHERE, "hyperrectangle": HYPERRECTANGLE}
_ROUNDING = 1.001  # of the square of a cube's half diagonal: a bound that no rounding crosses
CellName = Literal["hypersphere", "hyperrectangle"]


@kernel
def covering_core(cell: int, reach: float, cores: Array, size: int, x: Array, distances: Array) -> int:
    """The Euclidean-nearest core whose cell holds x, the oldest on ties; -1 if there is none.

    cores [dim, budget], distances [size or more]: the squared ones of the cores from x. A cell is a ball of radius `reach`, or a cube of
    half-side `reach`, border included.
    """
    if cell == HYPERRECTANGLE:
        return _nearest_with_cube(reach, cores, size, x, distances)
    nearest = nearest_core(distances, size)
    return nearest if size > 0 and distances[nearest] <= reach * reach else -1


@kernel
def nearest_core(distances: Array, size: int) -> int:
    """The core with the smallest distance, the oldest on ties."""
    nearest = 0
    for b in range(1, size):
        if distances[b] < distances[nearest]:
            nearest = b
    return nearest


@kernel
def _nearest_with_cube(reach: float, cores: Array, size: int, x: Array, distances: Array) -> int:
    nearest, farthest = -1, _ROUNDING * len(x) * reach * reach
    for b in range(size):
        if distances[b] <= farthest and (nearest < 0 or distances[b] < distances[nearest]) and _in_cube(reach, cores, b, x):
            nearest = b
    return nearest


@kernel
def _in_cube(reach: float, cores: Array, b: int, x: Array) -> bool:
    extent = 0.0
    for j in range(len(x)):
        extent = max(extent, abs(cores[j, b] - x[j]))
    return extent <= reach
