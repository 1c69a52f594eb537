"""Linear learners equal their oracles on random streams."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import linear_models as oracles
from streams import KINDS, Stream, few, streams

from streamlearn.learners.linear_models import LinearOgd, LinearPassiveAggressive, LinearPerceptron
from streamlearn.learners.protocol import Learner, Task

TASKS = [Task.BINARY, Task.MULTICLASS, Task.REGRESSION]
each_kind = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "huge"])

# Steps are powers of 2 so that weights which cancel do so exactly, in whatever order the products are summed.


def agree(stream: Stream, learner: Learner, oracle: Callable[..., oracles.LinearModel], **parameters: Any) -> None:
    def model() -> oracles.LinearModel:
        return oracle(stream.task, stream.X.shape[1], outputs=stream.outputs, declared=stream.declared, **parameters)

    np.testing.assert_allclose(stream.scores(learner), stream.oracle_scores(lambda X, y: model().play(X, y)), rtol=1e-7, atol=1e-9)


@each_kind
@given(data=st.data(), intercept=st.booleans())
@few
def test_perceptron(kind: str, data: st.DataObject, intercept: bool) -> None:
    stream = data.draw(streams(kind, TASKS))
    agree(stream, LinearPerceptron(eta=0.25, intercept=intercept), oracles.LinearPerceptron, eta=0.25, intercept=intercept)


@each_kind
@given(data=st.data(), intercept=st.booleans(), variant=st.sampled_from(["PA-I", "PA-II"]), C=st.sampled_from([0.1, 1.0, 100.0]))
@few
def test_passive_aggressive(kind: str, data: st.DataObject, intercept: bool, variant: Literal["PA-I", "PA-II"], C: float) -> None:
    stream = data.draw(streams(kind, TASKS))
    learner = LinearPassiveAggressive(variant=variant, C=C, intercept=intercept)
    agree(stream, learner, oracles.LinearPassiveAggressive, variant=variant, C=C, intercept=intercept)


@each_kind
@given(data=st.data(), intercept=st.booleans(), normalise=st.booleans())
@few
def test_gradient_descent(kind: str, data: st.DataObject, intercept: bool, normalise: bool) -> None:
    stream = data.draw(streams(kind, TASKS))
    names = ["squared", "l1", "l2", "eps"] if stream.task is Task.REGRESSION else ["hinge", "smooth-hinge", "logistic"]
    loss = data.draw(st.sampled_from(names))
    learner = LinearOgd(eta=0.25, loss=loss, normalise=normalise, intercept=intercept)
    agree(stream, learner, oracles.LinearOgd, eta=0.25, loss=loss, normalise=normalise, intercept=intercept)


@pytest.mark.parametrize("learner", [LinearPerceptron(), LinearPassiveAggressive(), LinearPassiveAggressive(variant="PA-II"), LinearOgd()])
@given(data=st.data())
@few
def test_huge_features_count_as_the_largest(learner: Learner, data: st.DataObject) -> None:
    stream = data.draw(streams("huge", TASKS))
    scores = stream.scores(learner)
    np.testing.assert_array_equal(scores, replace(stream, X=np.clip(stream.X, -1e9, 1e9)).scores(learner))
    assert not np.isnan(scores).any()
    assert not np.isposinf(scores).any()
