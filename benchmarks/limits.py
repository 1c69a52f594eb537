"""What one core of this machine can do: the float32 matrix-product peak and the bandwidth of reading, by size of what is read.

CPU time is measured, not time on the wall: other processes disturb it less, and a BLAS with several threads is charged for all of them.
"""

import statistics
import time
from collections.abc import Callable
from functools import cache

import numpy as np

from benchmarks.report import Detail, Report, figure
from streamlearn.features.compiled import Array, kernel

PEAK_SIDE = 1024  # of the square matrices
SMALLEST_SAMPLE = 0.02  # CPU seconds; shorter calls are repeated until they take this long
SIZES = (16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 64 << 20)  # bytes: from the first cache to memory


def cpu_seconds_of(call: Callable[[], object], repeats: int = 5) -> float:
    """Median CPU seconds of a call, in samples that the clock can resolve."""
    call()
    times = 1
    while (sample := _cpu_seconds(call, times)) < SMALLEST_SAMPLE:
        times = max(times + 1, round(1.2 * times * SMALLEST_SAMPLE / max(sample, 1e-6)))
    return statistics.median(_cpu_seconds(call, times) for _ in range(repeats)) / times


def matrix_product_peak(repeats: int = 5) -> float:
    """float32 flops per second of one core in a product of square matrices."""
    a, b = np.random.default_rng(0).normal(size=(2, PEAK_SIDE, PEAK_SIDE)).astype(np.float32)
    out = np.empty_like(a)
    return 2.0 * PEAK_SIDE**3 / cpu_seconds_of(lambda: np.matmul(a, b, out=out), repeats)


def bandwidth(size: int, repeats: int = 5) -> float:
    """Bytes per second that one core reads of an array of `size` bytes, again and again."""
    values = np.ones(size // 4, np.float32)
    times = max(1, (4 << 20) // size)  # in one call, whose own cost would count otherwise
    return times * size / cpu_seconds_of(lambda: _sum(values, times), repeats)


def memory_bandwidth(repeats: int = 5) -> float:
    """Bytes per second that one core reads from memory."""
    return bandwidth(SIZES[-1], repeats)


@cache
def bandwidth_near(size: int) -> float:
    """`bandwidth` of the power of two that holds `size` bytes, 4 kB at least, measured once per process."""
    return bandwidth(max(4096, 1 << (size - 1).bit_length()))


def report(quick: bool) -> Report:
    repeats = 3 if quick else 15
    rows = [("matrix product, float32", f"{figure(matrix_product_peak(repeats) / 1e9)} Gflop/s")]
    rows += [(f"reading {size >> 10:,} kB", f"{figure(bandwidth(size, repeats) / 1e9)} GB/s") for size in SIZES]
    return Report("limits", __doc__ or "", [], [Detail("One core", ("what", f"median of {repeats}"), rows)])


def _cpu_seconds(call: Callable[[], object], times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        call()
    return time.process_time() - began


@kernel
def _sum(values: Array, times: int) -> float:
    total = np.float32(0.0)
    for _ in range(times):
        total = np.float32(0.0)
        for i in range(len(values)):
            total += values[i]
        values[0] = total / len(values)  # so that no pass can be left out
    return float(total)
