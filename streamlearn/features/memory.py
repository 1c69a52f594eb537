"""Arrays whose vectors do not straddle cache lines."""

import math
from typing import Any

import numpy as np

from streamlearn.features.compiled import Array

_CACHE_LINE = 64


def zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Zeros that begin a cache line. Large arrays of numpy begin 16 bytes after one, so that half of the vectors read cross two lines."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.zeros(size + _CACHE_LINE, np.uint8)  # pages come when they are first touched
    start = -memory.ctypes.data % _CACHE_LINE
    return memory[start : start + size].view(dtype).reshape(shape)


def aligned(array: Array) -> Array:
    """A copy that begins a cache line."""
    copy = zeros(array.shape, array.dtype)
    copy[...] = array
    return copy


def rows(dtype: np.dtype[Any], *lengths: int) -> tuple[Array, ...]:
    """A row for each of these lengths, uninitialised: scratch of a lean kernel."""
    return tuple(np.empty(length, dtype) for length in lengths)
