"""Cells around core points: which core, if any, stands for an event (Le et al., Approximation Vector Machines, Algorithms 3 and 4)."""

from typing import Literal

from streamlearn.features.compiled import Array, kernel

HYPERSPHERE, HYPERRECTANGLE = range(2)
CELLS = {"hypersphere": HYPERSPHERE, "hyperrectangle": HYPERRECTANGLE}
CellName = Literal["hypersphere", "hyperrectangle"]


@kernel
def covering_core(cell: int, reach: float, cores: Array, size: int, x: Array, distances: Array, extents: Array) -> int:
    """The Euclidean-nearest core whose cell holds x, the oldest on ties; -1 if there is none.

    cores [dim, budget]. A cell is a ball of radius `reach`, or a cube of half-side `reach`, border included.
    distances and extents [budget] are scratch: squared Euclidean and maximum-norm distances.
    """
    distances[:size] = 0.0
    extents[:size] = 0.0
    for j in range(len(x)):
        for b in range(size):
            difference = abs(cores[j, b] - x[j])
            distances[b] += difference * difference
            extents[b] = max(extents[b], difference)
    nearest = -1
    for b in range(size):
        inside = extents[b] <= reach if cell == HYPERRECTANGLE else distances[b] <= reach * reach
        if inside and (nearest < 0 or distances[b] < distances[nearest]):
            nearest = b
    return nearest
