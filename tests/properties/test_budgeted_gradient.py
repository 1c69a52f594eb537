"""BOGD, kernel Pegasos and BSGD equal their oracles on random streams."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import budgeted_gradient as oracles
from oracles.unbudgeted import KernelModel, play
from streams import KINDS, Stream, few, streams

from streamlearn.features.generator import initial_state
from streamlearn.learners.budgeted_gradient import Bogd
from streamlearn.learners.pegasos import Bsgd, Pegasos
from streamlearn.learners.protocol import Learner, Task

SIGMA = 0.8
CLASSIFICATION = [Task.BINARY, Task.MULTICLASS]
budgets = st.sampled_from([1, 2, 3, 7, 100])
regs = st.sampled_from([0.0123457, 0.7310585])  # no margin is exactly 1: no two small integers have such a ratio
each_kind = pytest.mark.parametrize("kind", KINDS)


def agree(stream: Stream, learner: Learner, oracle: Callable[..., KernelModel], **parameters: Any) -> None:
    def model() -> KernelModel:
        return oracle(stream.task, outputs=stream.outputs, declared=stream.declared, sigma=SIGMA, **parameters)

    expected = stream.oracle_scores(lambda X, y: play(model(), X, y))
    np.testing.assert_allclose(stream.scores(learner), expected, rtol=1e-5, atol=1e-6)


@each_kind
@given(
    data=st.data(), budget=budgets, strategy=st.sampled_from(["", "uniform", "oldest", "++"]), reg=st.sampled_from([0.0, 0.1, 10.0]),
    eta=st.sampled_from([0.3, 1.0]), bound=st.sampled_from([1.5, 1e9]), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@few
def test_bogd(
    kind: str, data: st.DataObject, budget: int, strategy: Literal["", "uniform", "oldest", "++"], reg: float, eta: float, bound: float,
    seed: int,
) -> None:  # fmt: skip
    stream = data.draw(streams(kind, [*CLASSIFICATION, Task.REGRESSION]))
    learner = Bogd(budget=budget, strategy=strategy, eta=eta, reg=reg, bound=bound, sigma=SIGMA, seed=seed)
    agree(stream, learner, oracles.Bogd, budget=budget, strategy=strategy, eta=eta, reg=reg, bound=bound, state=initial_state(seed))


@each_kind
@given(data=st.data(), reg=regs)
@few
def test_pegasos(kind: str, data: st.DataObject, reg: float) -> None:
    stream = data.draw(streams(kind, CLASSIFICATION))
    agree(stream, Pegasos(sigma=SIGMA, reg=reg), oracles.Pegasos, reg=reg)


@pytest.mark.parametrize("strategy", ["removal", "projection", "merging"])
@each_kind
@given(data=st.data(), budget=budgets, reg=regs)
@few
def test_bsgd(strategy: Literal["removal", "projection", "merging"], kind: str, data: st.DataObject, budget: int, reg: float) -> None:
    stream = data.draw(streams(kind, CLASSIFICATION))
    learner = Bsgd(budget=budget, strategy=strategy, reg=reg, sigma=SIGMA)
    agree(stream, learner, oracles.Bsgd, budget=budget, strategy=strategy, reg=reg)
