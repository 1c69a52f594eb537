"""The ranking learners equal their oracles on random streams, and survive any finite input."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import pytest
from harness import run
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import auc_linear, koil, pairwise
from reference import Floats, ParkMiller

from streamlearn.learners.auc_linear import Opauc, Solam, SpamNet
from streamlearn.learners.koil import Koil
from streamlearn.learners.pairwise import Fpogd, Kar, Oam, OgdPair
from streamlearn.learners.protocol import Learner, Pool, Shape, Task

SEED = 12345
FEW = settings(max_examples=25, derandomize=True, deadline=None)


class Oracle(Protocol):
    def event(self, x: Floats, y: float) -> float: ...


@dataclass(frozen=True)
class Stream:
    X: Floats
    y: Floats


@st.composite
def streams(draw: st.DrawFn, *, exponents: tuple[int, int] = (-30, 30)) -> Stream:
    """1..45 rows of 1..6 features: duplicates, zero rows, unlabelled rows, one class only, a class that comes late, any scale."""
    generator = np.random.RandomState(draw(st.integers(0, 2**31)))
    n, dim = draw(st.integers(1, 45)), draw(st.integers(1, 6))
    X = generator.standard_normal((n, dim)) * 10.0 ** draw(st.sampled_from([0, 0, 0, *exponents]))
    X[generator.rand(n) < draw(st.sampled_from([0.0, 0.2]))] = 0.0
    duplicates = generator.rand(n) < draw(st.sampled_from([0.0, 0.3]))
    X[duplicates] = X[generator.randint(n, size=n)][duplicates]
    y = np.where(generator.rand(n) < draw(st.sampled_from([0.5, 0.1])), 1.0, -1.0)
    if draw(st.booleans()):
        y[: draw(st.integers(0, n))] = draw(st.sampled_from([-1.0, 1.0]))
    y[generator.rand(n) < draw(st.sampled_from([0.0, 0.2]))] = np.nan
    return Stream(X, y)


def agree(learner: Learner, oracle: Oracle, stream: Stream) -> None:
    state = {"generator": SEED} if "generator" in learner.fields(_shape(stream.X)) else {}
    expected = np.array([oracle.event(x, y) for x, y in zip(stream.X, stream.y, strict=True)])
    scores = run(learner, stream.X, stream.y, Task.RANKING, state=state).scores[:, 0]
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-9 * max(1.0, np.abs(expected).max()))


def _shape(X: Floats, dtype: type = np.float64) -> Shape:
    return Shape(X.shape[1], Task.RANKING, np.dtype(dtype))


@FEW
@given(
    stream=streams(exponents=(-30, 3)),  # the cosine of a huge angle is noise
    linear=st.booleans(),
    strata=st.sampled_from([1, 2, 4, 50]),
    epsilon=st.sampled_from([None, 0.0, 0.5]),
    reservoir=st.booleans(),
    l1=st.sampled_from([0.0, 0.01]),
)
def test_fpogd(stream: Stream, linear: bool, strata: int, epsilon: float | None, reservoir: bool, l1: float) -> None:
    learner = Fpogd(
        map="linear" if linear else "fourier", frequencies=7, eta=0.2, reg=0.1, l1=l1, strata=strata, epsilon=epsilon,
        replacement="reservoir" if reservoir else "fifo",
    )  # fmt: skip
    frequencies = None if linear else learner.shared(_shape(stream.X))["frequencies"]
    oracle = pairwise.Fpogd(stream.X.shape[1], frequencies, 0.2, 0.1, l1, strata, epsilon, reservoir, ParkMiller(SEED))
    agree(learner, oracle, stream)


@FEW
@given(stream=streams(), l1=st.sampled_from([0.0, 0.01]))
def test_ogd_pair(stream: Stream, l1: float) -> None:
    """OGD-pair is stated here on its own terms: a buffer of the last event of each class."""
    oracle = pairwise.Fpogd(stream.X.shape[1], None, 0.3, 0.1, l1, 1, 0.0, False, ParkMiller(SEED))
    agree(OgdPair(eta=0.3, reg=0.1, l1=l1), oracle, stream)


@FEW
@given(stream=streams(), budget=st.sampled_from([1, 2, 5, 100]))
def test_kar(stream: Stream, budget: int) -> None:
    oracle = pairwise.Kar(stream.X.shape[1], budget, ParkMiller(SEED), 0.2, 0.1, 0.01)
    agree(Kar(budget=budget, eta=0.2, reg=0.1, l1=0.01), oracle, stream)


@FEW
@given(stream=streams(), budget=st.sampled_from([1, 2, 5, 100]), sequential=st.booleans())
def test_oam(stream: Stream, budget: int, sequential: bool) -> None:
    oracle = pairwise.Oam(stream.X.shape[1], budget, ParkMiller(SEED), 0.137, sequential)
    agree(Oam(update="sequential" if sequential else "gradient", budget=budget, C=0.137), oracle, stream)


@FEW
@given(stream=streams(exponents=(-5, 5)), eta=st.sampled_from([0.01, 5.0]))
def test_opauc(stream: Stream, eta: float) -> None:
    agree(Opauc(eta=eta, reg=0.03), auc_linear.Opauc(stream.X.shape[1], eta, 0.03), stream)


@FEW
@given(stream=streams(), radius=st.sampled_from([0.1, 10.0]))
def test_solam(stream: Stream, radius: float) -> None:
    agree(Solam(eta=0.3, radius=radius), auc_linear.Solam(stream.X.shape[1], 0.3, radius), stream)


@FEW
@given(stream=streams(exponents=(-5, 5)), eta=st.sampled_from([0.1, 5.0]), reg=st.sampled_from([0.0, 0.03, 2.0]))
def test_spam_net(stream: Stream, eta: float, reg: float) -> None:
    agree(SpamNet(eta=eta, reg=reg, l1=0.02), auc_linear.SpamNet(stream.X.shape[1], eta, reg, 0.02), stream)


@FEW
@given(
    stream=streams(),
    budget=st.sampled_from([1, 2, 5, 100]),
    neighbours=st.sampled_from([1, 3, 200]),
    fifo=st.booleans(),
    compensate=st.booleans(),
)
def test_koil(stream: Stream, budget: int, neighbours: int, fifo: bool, compensate: bool) -> None:
    replacement: Literal["fifo", "reservoir"] = "fifo" if fifo else "reservoir"
    learner = Koil(
        sigma=1.3, budget=budget, neighbours=neighbours, eta=0.0713, C=3.1, replacement=replacement, compensate=compensate
    )  # fmt: skip
    agree(learner, koil.Koil(1.3, budget, neighbours, 0.0713, 3.1, fifo, compensate, ParkMiller(SEED)), stream)


LEARNERS: list[Callable[[], Learner]] = [
    lambda: Fpogd(frequencies=9),
    lambda: Fpogd(map="linear", replacement="reservoir"),
    OgdPair,
    lambda: Kar(budget=3),
    lambda: Oam(budget=3),
    lambda: Oam(budget=3, update="gradient"),
    Opauc,
    Solam,
    SpamNet,
    lambda: Koil(budget=4),
    lambda: Koil(budget=4, replacement="fifo", compensate=False),
]


@pytest.mark.parametrize("make", LEARNERS)
@FEW
@given(stream=streams(exponents=(-30, 30)), slots=st.integers(2, 4))
def test_slots_are_independent(make: Callable[[], Learner], stream: Stream, slots: int) -> None:
    """Several models interleaved in one call are the models run one by one, bit for bit, in scores and state."""
    learner = make()
    slot = np.random.RandomState(len(stream.y)).randint(slots, size=len(stream.y))
    together = Pool(learner, _shape(stream.X), slots)
    scores = np.empty((len(stream.y), 1))
    learner.step(together, slot, stream.X, stream.y, scores)
    for s in range(slots):
        mine = slot == s
        alone = run(learner, stream.X[mine], stream.y[mine], Task.RANKING)
        np.testing.assert_array_equal(scores[mine], alone.scores)
        for name in together.names:
            np.testing.assert_array_equal(together[name][s], alone.pool[name][0], err_msg=name)


@pytest.mark.parametrize("make", LEARNERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@FEW
@given(stream=streams(), largest=st.booleans())
def test_state_stays_finite(make: Callable[[], Learner], dtype: type, stream: Stream, largest: bool) -> None:
    """Values up to the largest and down to the smallest of the type, mixed in one stream, never put NaN or infinity into the state."""
    limit = np.finfo(dtype).max if largest else np.finfo(dtype).tiny
    X = stream.X / max(1e-300, np.abs(stream.X).max())
    X[::2] *= limit
    with np.errstate(over="ignore", invalid="ignore"):  # projecting the largest values overflows, as it should
        state = run(make(), X.astype(dtype), stream.y, Task.RANKING, dtype=dtype).pool.read(0)
    for name, array in state.items():
        assert np.isfinite(array).all(), name
