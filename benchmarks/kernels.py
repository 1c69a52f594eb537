"""Learning steps against the machine: time per event, what it computes and reads, and the share of the bound that it reaches.

The bound of an event is the longer of two times: its floating-point operations at the matrix-product peak of one core, and its bytes at
the bandwidth of reading as many bytes again and again (from whichever cache holds them). Both are measured in the same run, next to the
step, as CPU time; figures are medians. Operations are those of one prediction and one gradient step: 3 for an element of the support
vectors, 2 for one of the frequencies, 4 for a weight or coefficient, 14 for an exponential, 26 for a cosine and sine, 2 for any other
number of the state. A learner that does not touch all of its state at every event may exceed the bound; searches, projections and sorts
on a full budget make others fall below it.
"""

import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.limits import bandwidth_near, cpu_seconds_of, matrix_product_peak, memory_bandwidth
from benchmarks.report import Detail, Report, Row, figure
from streamlearn.features.compiled import Array
from streamlearn.learners.budget_perceptrons import Rbp
from streamlearn.learners.budgeted_gradient import Bogd
from streamlearn.learners.fourier import Fogd
from streamlearn.learners.protocol import Learner, Pool, Shape, Task
from streamlearn.learners.registry import LEARNERS

SEED = 1
FOGD_TARGETS = {20: 0.45, 54: 0.60, 300: 0.65}
FREQUENCIES = (400, 1600, 4000)
BUDGETS = (100, 400, 1000)
WARM_UP = 3000  # events, so that budgets are full; also the size of a learner that has none


class Measurement(NamedTuple):
    seconds: float  # per event
    flops: float
    bytes: int
    share: float  # of the bound


def fogd(dim: int, frequencies: int, repeats: int) -> float:
    """Share of the matrix-product peak, counting 2 d D + 34 D flops per event."""
    events = max(96, min(4000, round(2e8 / (dim * frequencies))))
    step = _step(Fogd(frequencies=frequencies, sigma=3.0, eta=0.5 / frequencies), Task.BINARY, dim, events, warm_up=events)
    shares = []
    for _ in range(repeats):
        seconds = cpu_seconds_of(step, 1) / events
        shares.append((2 * dim + 34) * frequencies / seconds / matrix_product_peak(1))
    return statistics.median(shares)


def budget_learner(learner: Learner, dim: int, repeats: int) -> tuple[float, float]:
    """Time of a step over the bound of its kernel row alone, 3 flops for each element of the support vectors or reading them.

    The first is for support vectors that come from memory, as in a pool of many models; the second for the cache that holds one model's.
    """
    budget: int = learner.budget  # type: ignore[attr-defined]
    elements = dim * budget
    events = max(100, min(4000, round(4e7 / elements)))
    step = _step(learner, Task.BINARY, dim, events)
    ratios = []
    for _ in range(repeats):
        seconds = cpu_seconds_of(step, 1) / events
        computing = 3 * elements / matrix_product_peak(1)
        reading = [4 * elements / speed for speed in (memory_bandwidth(1), bandwidth_near(4 * elements))]
        ratios.append([seconds / max(computing, time) for time in reading])
    from_memory, from_cache = np.median(ratios, axis=0).tolist()
    return from_memory, from_cache


def measure(learner: Learner, task: Task, dim: int, repeats: int) -> Measurement:
    """A learner of any kind, float32, after WARM_UP events."""
    events = 500
    pool, step = _pool_and_step(learner, task, dim, events, WARM_UP)
    seconds = cpu_seconds_of(step, repeats) / events
    flops, size = _work(pool)
    bound = max(flops / matrix_product_peak(1), size / bandwidth_near(size))
    return Measurement(seconds, flops, size, bound / seconds)


def report(quick: bool) -> Report:
    repeats = 3 if quick else 9
    rows = [
        Row(f"FOGD kernel, d = {dim}, D = {count:,}: share of the peak", 100 * fogd(dim, count, repeats), 100 * target, "%")
        for dim, target in FOGD_TARGETS.items()
        for count in (FREQUENCIES[:1] if quick else FREQUENCIES)
    ]
    for dim in FOGD_TARGETS:
        for budget in BUDGETS[:1] if quick else BUDGETS:
            for learner in (Rbp(budget=budget, sigma=3.0), Bogd(budget=budget, sigma=3.0)):
                what = f"{learner.name} step, d = {dim}, B = {budget:,}: times the bound of its kernel row"
                from_memory, from_cache = budget_learner(learner, dim, repeats)
                rows.append(Row(what, from_memory, 2.0, "x", "lower", f"{figure(from_cache)} x with one model's vectors in the cache"))
    dims = (20,) if quick else (20, 300)
    details = [Detail(f"Every learner, d = {dim}, defaults", _HEADER, list(_table(dim, repeats))) for dim in dims]
    return Report("kernels", __doc__ or "", rows, details, [f"Seed {SEED}. float32, one model, first task of each learner."])


_HEADER = ("learner", "task", "us/event", "flops/event", "bytes/event", "Gflop/s", "share of the bound, %")


def _table(dim: int, repeats: int) -> Iterator[tuple[str, ...]]:
    for name, kind in LEARNERS.items():
        task = min(kind.tasks)
        found = measure(kind(), task, dim, repeats)
        yield (
            name, task.value, figure(found.seconds * 1e6), figure(found.flops), figure(found.bytes),
            figure(found.flops / found.seconds / 1e9), figure(100 * found.share),
        )  # fmt: skip


def _step(learner: Learner, task: Task, dim: int, events: int, warm_up: int = WARM_UP) -> Callable[[], None]:
    return _pool_and_step(learner, task, dim, events, warm_up)[1]


def _pool_and_step(learner: Learner, task: Task, dim: int, events: int, warm_up: int) -> tuple[Pool, Callable[[], None]]:
    """A pool with one model that has learned `warm_up` events, and a call that learns `events` more (always the same ones)."""
    pool = Pool(learner, Shape(dim, task, np.dtype(np.float32), outputs=3 if task is Task.MULTICLASS else 1), slots=1)
    X, y = _events(task, dim, warm_up + events)
    slots, scores = np.zeros(warm_up + events, np.int64), np.empty((warm_up + events, pool.shape.outputs), np.float32)
    learner.step(pool, slots[:warm_up], X[:warm_up], y[:warm_up], scores[:warm_up])
    rest = slice(warm_up, None)
    if "without end" in (type(learner).__doc__ or ""):
        y[rest] = np.nan  # it would go on growing while it is measured
    return pool, lambda: learner.step(pool, slots[rest], X[rest], y[rest], scores[rest])


def _events(task: Task, dim: int, count: int) -> tuple[Array, Array]:
    """Standard normal features; labels that can be learned in part: every learner goes on making mistakes."""
    generator = np.random.default_rng(SEED)
    X = generator.normal(size=(count, dim)).astype(np.float32)
    value = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + generator.normal(size=count)
    if task is Task.REGRESSION:
        return X, value
    if task is Task.MULTICLASS:
        return X, np.digitize(value, [-0.5, 0.5]).astype(np.float64)
    return X, np.where(value > 0, 1.0, -1.0)


def _work(pool: Pool) -> tuple[float, int]:
    """Operations and bytes of an event, as the head of this file counts them."""
    used = int(pool["size"].max()) if "size" in pool.names and pool["size"].ndim == 1 else None
    flops = size = 0.0
    for name in pool.names:
        array = pool[name][0]
        if array.dtype.kind != "f":
            continue
        count = array.size
        if used is not None and pool.shape.support in array.shape:  # room of a learner without a budget
            count = count * used // pool.shape.support
        per_element = {"support": 3, "coefficients": 4, "weights": 4}.get(name, 2)
        flops += per_element * count + (14 * array.shape[-1] if name == "support" else 0)
        size += count * array.itemsize
    for array in pool.shared.values():
        flops += 2 * array.size + 26 * array.shape[1]  # its bytes are shared by the rows of a block
    return flops, int(size)
