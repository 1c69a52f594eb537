"""Random Fourier maps: frequencies of shift-invariant kernels and projections of whole batches (Rahimi and Recht, 2007)."""

from collections.abc import Iterator

import numpy as np

from streamlearn.features.compiled import Array, inlined, lean
from streamlearn.features.elementary import scaled_cos_sin
from streamlearn.features.tiles import product, row_product

BLOCK = 96  # rows projected at a time: enough for a wide matrix to be read seldom, few enough for the angles to stay in the cache


def draw_frequencies(dim: int, count: int, seed: int, kernel: str = "gaussian") -> Array:
    """Frequencies [dim, count] float64 of the kernel of width 1 (divide features by the kernel width before projecting).

    gaussian: exp(-||x-x'||^2 / 2), standard normal; laplacian: exp(-||x-x'||_1), Cauchy; cauchy: prod_j 1 / (1 +
    (x_j-x'_j)^2), Laplace.
    The legacy generator is used because numpy guarantees its stream for ever: the map is never stored, only its seed.
    """
    generator = np.random.RandomState(seed)
    size = (dim, count)
    if kernel == "gaussian":
        return generator.standard_normal(size)
    if kernel == "laplacian":
        return generator.standard_cauchy(size)
    if kernel == "cauchy":
        return generator.laplace(size=size)
    raise ValueError(f"kernel = {kernel!r} has no random Fourier map; use gaussian, laplacian or cauchy")


def projections(X: Array, frequencies: Array) -> Iterator[tuple[slice, Array]]:
    """Blocks (rows, X[rows] @ frequencies) of at most BLOCK rows; a row's bits depend on that row alone. The block is reused."""
    block = np.empty((min(BLOCK, len(X)), frequencies.shape[1]), X.dtype)
    for start in range(0, len(X), BLOCK):
        rows = slice(start, min(start + BLOCK, len(X)))
        angles = block[: rows.stop - start]
        product(X[rows], frequencies, angles)
        yield rows, angles


@lean
def project_row(x: Array, frequencies: Array, angles: Array) -> None:
    """angles = x @ frequencies for one stored row x [dim], inside a kernel where no batch can be projected at once."""
    row_product(x, frequencies, angles)


@inlined
def fourier_row(angles: Array, scale: float, z: Array) -> None:
    """z [2 D] = scale * ([cos angles_i]_i followed by [sin angles_i]_i); an angle beyond 1e30 counts as 0, so z is finite."""
    count = len(angles)
    scaled_cos_sin(angles, scale, z[:count], z[count:])
