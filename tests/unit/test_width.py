"""The kernel width found from a model's first events, and the pipeline that uses it."""

from itertools import combinations

import numpy as np
import pytest

from streamlearn.config import make_learner
from streamlearn.features.compiled import Array
from streamlearn.features.width import FACTOR, LARGEST, ROWS, divide_by_width
from streamlearn.learners.fourier import Fogd
from streamlearn.learners.pairwise import Fpogd
from streamlearn.learners.pipeline import Pipeline
from streamlearn.learners.protocol import Pool, Shape, Task
from streamlearn.learners.registry import LEARNERS

DIM = 5
START = float(np.sqrt(DIM / 2))


def median_distance(rows: Array, order: int = 2) -> float:
    """Of all pairs of rows that differ."""
    distances = [np.linalg.norm(a - b, ord=order) for a, b in combinations(rows, 2)]
    return float(np.median([distance for distance in distances if distance > 0]))


def divided(X: Array, learned: Array | None = None, *, manhattan: bool = False) -> tuple[Array, float]:
    """The rows of one model, divided, and the width it ends with."""
    width = np.full(1, START)
    out = np.empty_like(X)
    rows = np.zeros((1, ROWS, X.shape[1]), X.dtype)
    labelled = np.ones(len(X), bool) if learned is None else learned
    divide_by_width(X, labelled, np.zeros(len(X), np.int64), FACTOR, manhattan, rows, np.zeros(1, np.int64), width, out)
    assert len(X) < ROWS or not rows.any()
    return out, float(width[0])


def sample(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(count, DIM)) * 3.0


@pytest.mark.parametrize("order", [1, 2])
def test_the_width_is_a_share_of_the_median_distance_and_then_stays(order: int) -> None:
    X = sample(4 * ROWS)
    out, width = divided(X, manhattan=order == 1)
    assert width == pytest.approx(FACTOR * median_distance(X[:ROWS], order))
    np.testing.assert_allclose(out[ROWS - 1 :], X[ROWS - 1 :] / width)


@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_until_then_it_follows_the_powers_of_two(count: int) -> None:
    X = sample(2 * count - 1)
    assert divided(X)[1] == pytest.approx(FACTOR * median_distance(X[:count]))


def test_one_event_and_equal_events_leave_it() -> None:
    assert divided(sample(1))[1] == START
    assert divided(np.ones((2 * ROWS, DIM)))[1] == START


def test_equal_events_do_not_count() -> None:
    X = np.repeat(sample(2), ROWS // 2, axis=0)
    assert divided(X)[1] == pytest.approx(FACTOR * np.linalg.norm(X[0] - X[-1]))


def test_events_without_a_label_are_divided_and_not_counted() -> None:
    X, learned = sample(3 * ROWS), np.arange(3 * ROWS) % 3 == 0
    out, width = divided(X, learned)
    assert width == divided(X[learned])[1]
    np.testing.assert_allclose(out[-1], X[-1] / width)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_values_stay_finite(dtype: type) -> None:
    limits = np.finfo(dtype)
    X: Array = np.array([[0.0], [limits.tiny], [limits.max], [-limits.max]], dtype)
    for rows in (X, X[::-1].copy(), X[:2].copy()):
        out, width = divided(rows)
        assert np.isfinite(width)
        assert width > 0
        assert np.abs(out).max() <= LARGEST


def pipeline_scores(pipeline: Pipeline, X: Array, y: Array, cuts: tuple[int, ...] = ()) -> Array:
    pool = Pool(pipeline, Shape(DIM, Task.BINARY, np.dtype(np.float64)), slots=1)
    scores = np.empty((len(X), 1))
    for start, stop in zip((0, *cuts), (*cuts, len(X)), strict=True):
        rows = slice(start, stop)
        pipeline.step(pool, np.zeros(stop - start, np.int64), X[rows], y[rows], scores[rows])
    return scores


def test_a_pipeline_finds_the_width_of_its_learner() -> None:
    """A model that has not learned anything but its width scores as one with that width."""
    X = sample(3 * ROWS)
    width = divided(X[:ROWS])[1]
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    found = pipeline_scores(Pipeline(learner=Fogd(frequencies=20), scaling="none"), X, y)
    given = pipeline_scores(Pipeline(learner=Fogd(frequencies=20, sigma=width), scaling="none"), X, y)
    assert np.corrcoef(found[ROWS:, 0], given[ROWS:, 0])[0, 1] > 0.9
    assert not np.array_equal(found[ROWS:], given[ROWS:])  # the first events were learned at other widths


@pytest.mark.parametrize("cuts", [(1, 2, 3, 31, 32, 33), tuple(range(1, 96))])
def test_any_split_gives_the_same_bits(cuts: tuple[int, ...]) -> None:
    X, pipeline = sample(3 * ROWS), Pipeline(learner=Fogd(frequencies=20))
    y = np.where(np.arange(len(X)) % 5 == 0, np.nan, np.sign(X[:, 0]))
    assert pipeline_scores(pipeline, X, y, cuts).tobytes() == pipeline_scores(pipeline, X, y).tobytes()


@pytest.mark.parametrize("name", [name for name, kind in LEARNERS.items() if hasattr(kind, "sigma")])
def test_every_kernel_learner_is_auto_by_default_and_explicit_widths_store_nothing(name: str) -> None:
    task = min(LEARNERS[name].tasks)
    shape = Shape(DIM, task, np.dtype(np.float32), outputs=2 if task is Task.MULTICLASS else 1)
    assert "width" in Pipeline(learner=make_learner({"name": name})).fields(shape)
    assert "width" not in Pipeline(learner=make_learner({"name": name, "sigma": 2.0})).fields(shape)
    assert "width" not in Pipeline(learner=make_learner({"name": name, "gamma": 2.0})).fields(shape)


def test_a_linear_map_has_no_width() -> None:
    shape = Shape(DIM, Task.RANKING, np.dtype(np.float32))
    assert "width" not in Pipeline(learner=Fpogd(map="linear")).fields(shape)


@pytest.mark.parametrize("value", [0, -1.0, "automatic"])
def test_other_widths_are_refused(value: float | str) -> None:
    with pytest.raises(ValueError, match="sigma"):
        make_learner({"name": "fogd", "sigma": value})
