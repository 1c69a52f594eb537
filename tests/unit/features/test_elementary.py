"""Error bounds of sine, cosine and exponential over everything that a float can be, against the C library in more digits."""

import numpy as np
import pytest

from streamlearn.features.compiled import Array
from streamlearn.features.elementary import exponentials, scaled_cos_sin

EPSILON = 2.0**-23


def angles() -> Array:
    """float32 from the smallest to 1e30, dense up to the last that the polynomials see and beyond, and multiples of pi/2."""
    generator = np.random.default_rng(0)
    magnitudes = np.concatenate([10.0 ** generator.uniform(-38, 30, 200_000), generator.uniform(0, 2.0**15, 800_000)])
    turns = np.arange(40_000) * (np.pi / 2)
    values = np.concatenate([magnitudes, turns, [0.0, 2.0**14, np.nextafter(np.float32(2.0**14), np.float32(np.inf))]]).astype(np.float32)
    return np.concatenate([values, -values])


def cos_sin(x: Array, scale: float = 1.0) -> tuple[Array, Array]:
    cosines, sines = np.empty_like(x), np.empty_like(x)
    scaled_cos_sin(x, scale, cosines, sines)
    return cosines, sines


def test_cosine_and_sine_in_single_precision() -> None:
    x = angles()
    usual = np.abs(x) <= 2.0**14  # one row of usual angles, one that has others among them
    for row in (x[usual], x):
        cosines, sines = cos_sin(row)
        exact = row.astype(np.float64)
        assert np.abs(cosines - np.cos(exact)).max() < 1.5 * EPSILON
        assert np.abs(sines - np.sin(exact)).max() < 1.5 * EPSILON


def test_small_angles_keep_their_digits() -> None:
    x = np.float32(10.0) ** np.arange(-37, -1, dtype=np.float32)
    np.testing.assert_allclose(cos_sin(x)[1], np.sin(x.astype(np.float64)), rtol=EPSILON)


def test_cosine_and_sine_in_double_precision() -> None:
    x = angles().astype(np.longdouble)
    cosines, sines = cos_sin(x.astype(np.float64))
    assert np.abs(cosines - np.cos(x)).max() < 2.0**-53
    assert np.abs(sines - np.sin(x)).max() < 2.0**-53


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_no_angle_counts_as_zero(dtype: type) -> None:
    cosines, sines = cos_sin(np.array([np.nan, np.inf, -np.inf, 2e30, 1.0], dtype), 0.25)
    np.testing.assert_array_equal(cosines[:4], 0.25)
    np.testing.assert_array_equal(sines[:4], 0.0)
    assert cosines[4] == pytest.approx(0.25 * np.cos(1.0), abs=EPSILON)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 15, 33, 400])
def test_the_place_in_a_row_does_not_matter(dtype: type, count: int) -> None:
    x: Array = (np.random.default_rng(1).normal(size=count) * 30).astype(dtype)
    cosines, sines = cos_sin(x, 0.7)
    for i in range(count):
        alone = cos_sin(x[i : i + 1].copy(), 0.7)
        assert (alone[0][0], alone[1][0]) == (cosines[i], sines[i])


def test_exponential_in_single_precision() -> None:
    generator = np.random.default_rng(0)
    x = np.concatenate([generator.uniform(0, 87, 500_000), 10.0 ** generator.uniform(-38, 1.9, 200_000), [0.0, 87.0]]).astype(np.float32)
    values = x.copy()
    exponentials(values, -1.0)
    exact = np.exp(-x.astype(np.float64))
    assert np.abs(values / exact - 1.0).max() < 1.5 * EPSILON
    assert values[x == 0.0].min() == 1.0


def test_exponential_in_double_precision() -> None:
    x = np.random.default_rng(0).uniform(0, 700, 200_000)
    values = x.copy()
    exponentials(values, -1.0)
    exact = np.exp(-x.astype(np.longdouble))
    assert np.abs(values / exact - 1.0).max() < 1.5 * 2.0**-52


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exponential_of_the_far_is_zero(dtype: type) -> None:
    values: Array = np.array([800.0, 1e30, np.finfo(dtype).max, np.inf, 0.0], dtype)
    exponentials(values, -1.0)
    np.testing.assert_array_equal(values, [0.0, 0.0, 0.0, 0.0, 1.0])
