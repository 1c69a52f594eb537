"""The Perceptrons with a budget, and Norma, equal their oracles on random streams."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import perceptron_family as oracles
from oracles.unbudgeted import KernelModel, play
from streams import KINDS, Stream, few, streams

from streamlearn.features.generator import initial_state
from streamlearn.learners.budget_perceptrons import BudgetPerceptron, Forgetron, Rbp
from streamlearn.learners.norma import Norma
from streamlearn.learners.projectron import Projectron, ProjectronPlusPlus
from streamlearn.learners.protocol import Learner, Task
from streamlearn.learners.unbudgeted import Perceptron

SIGMA = 0.8
CLASSIFICATION = [Task.BINARY, Task.MULTICLASS]
ALL_TASKS = [*CLASSIFICATION, Task.REGRESSION]
budgets = st.sampled_from([1, 2, 3, 7, 100])
each_kind = pytest.mark.parametrize("kind", KINDS)


def agree(stream: Stream, learner: Learner, oracle: Callable[..., KernelModel], **parameters: Any) -> None:
    def model() -> KernelModel:
        return oracle(stream.task, outputs=stream.outputs, declared=stream.declared, sigma=SIGMA, **parameters)

    expected = stream.oracle_scores(lambda X, y: play(model(), X, y))
    np.testing.assert_allclose(stream.scores(learner), expected, rtol=1e-7, atol=1e-9)


def step_size(task: Task) -> float:
    """Classification adds 1, whatever eta is."""
    return 0.3 if task is Task.REGRESSION else 1.0


@each_kind
@given(data=st.data(), budget=budgets, seed=st.integers(0, 2**32 - 1))
@few
def test_rbp(kind: str, data: st.DataObject, budget: int, seed: int) -> None:
    stream = data.draw(streams(kind, ALL_TASKS))
    learner = Rbp(budget=budget, sigma=SIGMA, eta=0.3, seed=seed)
    agree(stream, learner, oracles.Rbp, budget=budget, eta=step_size(stream.task), state=initial_state(seed))


@each_kind
@given(data=st.data(), budget=budgets, capped=st.booleans())
@few
def test_forgetron(kind: str, data: st.DataObject, budget: int, capped: bool) -> None:
    stream = data.draw(streams(kind, ALL_TASKS))
    learner = Forgetron(budget=budget, sigma=SIGMA, eta=0.3, capped=capped)
    agree(stream, learner, oracles.Forgetron, budget=budget, eta=step_size(stream.task), capped=capped)


@each_kind
@given(data=st.data(), budget=budgets, tolerance=st.sampled_from([0.0, 0.2]))
@few
def test_budget_perceptron(kind: str, data: st.DataObject, budget: int, tolerance: float) -> None:
    stream = data.draw(streams(kind, [Task.BINARY]))
    learner = BudgetPerceptron(budget=budget, sigma=SIGMA, tolerance=tolerance)
    agree(stream, learner, oracles.BudgetPerceptron, budget=budget, tolerance=tolerance)


@each_kind
@given(data=st.data(), budget=budgets, residual=st.sampled_from([0.0, 0.3]))
@few
def test_projectron(kind: str, data: st.DataObject, budget: int, residual: float) -> None:
    stream = data.draw(streams(kind, ALL_TASKS))
    learner = Projectron(budget=budget, sigma=SIGMA, eta=0.3, residual=residual)
    agree(stream, learner, oracles.Projectron, budget=budget, eta=step_size(stream.task), residual=residual)


@each_kind
@given(data=st.data(), budget=budgets, residual=st.sampled_from([0.0, 0.3]))
@few
def test_projectron_plus_plus(kind: str, data: st.DataObject, budget: int, residual: float) -> None:
    stream = data.draw(streams(kind, CLASSIFICATION))
    learner = ProjectronPlusPlus(budget=budget, sigma=SIGMA, residual=residual)
    agree(stream, learner, oracles.ProjectronPlusPlus, budget=budget, residual=residual)


@each_kind
@given(data=st.data(), budget=budgets, reg=st.sampled_from([0.0, 0.5, 10.0]))
@few
def test_norma(kind: str, data: st.DataObject, budget: int, reg: float) -> None:
    stream = data.draw(streams(kind, [Task.REGRESSION]))
    learner = Norma(budget=budget, sigma=SIGMA, eta=0.2, nu=0.3, reg=reg)
    agree(stream, learner, oracles.Norma, budget=budget, eta=0.2, nu=0.3, reg=min(reg, 5.0))  # eta reg <= 1


@each_kind
@given(data=st.data())
@few
def test_rbp_with_room_for_every_event_is_the_perceptron(kind: str, data: st.DataObject) -> None:
    stream = data.draw(streams(kind, CLASSIFICATION))
    np.testing.assert_allclose(stream.scores(Rbp(budget=100, sigma=SIGMA)), stream.scores(Perceptron(sigma=SIGMA)), rtol=1e-7, atol=1e-9)
