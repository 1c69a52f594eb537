"""Products and distances: right, and every element the same bits wherever it is computed."""

import numpy as np
import pytest

from streamlearn.features.compiled import Array
from streamlearn.features.fourier import BLOCK, project_row, projections
from streamlearn.features.tiles import absolute_distances, product, row_product, squared_distances

WIDTHS = (1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 100, 400, 1601)
DIMS = (1, 2, 3, 20, 54, 300)

every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def normal(seed: int, *shape: int, dtype: type) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def empty(*shape: int, dtype: type) -> Array:
    """An array in which nothing may stay as it is."""
    return np.full(shape, np.nan, dtype)


def epsilon(dtype: type) -> float:
    return float(np.finfo(dtype).eps)


def bits(a: Array) -> Array:
    return a.view(f"u{a.itemsize}")


@every_dtype
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("count", WIDTHS)
def test_a_row_of_a_product_depends_on_that_row_alone(dtype: type, dim: int, count: int) -> None:
    X, matrix, whole = normal(0, 30, dim, dtype=dtype), normal(1, dim, count, dtype=dtype), empty(30, count, dtype=dtype)
    product(X, matrix, whole)
    exact = (X.astype(np.longdouble) @ matrix.astype(np.longdouble)).astype(np.float64)
    np.testing.assert_allclose(whole, exact, rtol=0, atol=4 * epsilon(dtype) * dim)
    for rows in (slice(0, 1), slice(29, 30), slice(3, 8), slice(5, 17), slice(6, 30)):
        part = empty(rows.stop - rows.start, count, dtype=dtype)
        product(X[rows], matrix, part)
        np.testing.assert_array_equal(bits(part), bits(whole[rows]))
    single = empty(count, dtype=dtype)
    row_product(X[17], matrix, single)
    np.testing.assert_array_equal(bits(single), bits(whole[17]))


@every_dtype
@pytest.mark.parametrize("count", WIDTHS)
def test_an_element_of_a_product_does_not_depend_on_the_width(dtype: type, count: int) -> None:
    X, matrix = normal(0, 5, 20, dtype=dtype), normal(1, 20, 1700, dtype=dtype)
    wide, narrow = empty(5, 1700, dtype=dtype), empty(5, count, dtype=dtype)
    product(X, matrix, wide)
    product(X, np.ascontiguousarray(matrix[:, :count]), narrow)
    np.testing.assert_array_equal(bits(narrow), bits(np.ascontiguousarray(wide[:, :count])))


@every_dtype
@pytest.mark.parametrize("size", (0, *WIDTHS))
def test_distances(dtype: type, size: int) -> None:
    """Columns beyond `size` are neither read for the result nor written to."""
    for dim in DIMS:
        columns, x = normal(0, dim, size + 3, dtype=dtype), normal(1, dim, dtype=dtype)
        columns[:, size:] = np.nan
        differences = columns[:, :size].astype(np.longdouble) - x.astype(np.longdouble)[:, None]
        for distances, exact in ((squared_distances, (differences**2).sum(axis=0)), (absolute_distances, abs(differences).sum(axis=0))):
            out: Array = np.full(size + 3, 7.0, dtype)
            distances(x, columns, size, out)
            np.testing.assert_allclose(out[:size], np.asarray(exact, np.float64), rtol=4 * epsilon(dtype) * dim)
            np.testing.assert_array_equal(out[size:], 7.0)
            for b in {0, size // 2, max(size - 1, 0)} if size else ():
                alone = empty(1, dtype=dtype)
                distances(x, np.ascontiguousarray(columns[:, b : b + 1]), 1, alone)
                assert alone[0] == out[b]


@every_dtype
@pytest.mark.parametrize("rows", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_projections_equal_the_projection_of_each_row(dtype: type, rows: int) -> None:
    X, frequencies = normal(0, rows, 7, dtype=dtype), normal(1, 7, 50, dtype=dtype)
    angles = [block.copy() for _, block in projections(X, frequencies)]
    single = empty(50, dtype=dtype)
    for x, row in zip(X, np.concatenate([empty(0, 50, dtype=dtype), *angles]), strict=True):
        project_row(x, frequencies, single)
        np.testing.assert_array_equal(bits(single), bits(row))
