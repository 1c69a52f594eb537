"""Passive-Aggressive learners equal their oracles on random streams."""

from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import passive_aggressive as oracles
from oracles.unbudgeted import play
from streams import KINDS, few, streams

from streamlearn.learners.parameters import KernelName
from streamlearn.learners.passive_aggressive import BpaNn, BpaP, BpaS, PassiveAggressive
from streamlearn.learners.protocol import Task

SIGMA = 0.8
CLASSIFICATION = [Task.BINARY, Task.MULTICLASS]
kernels = st.sampled_from(["gaussian", "laplacian", "cauchy"])
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
@given(data=st.data(), variant=st.sampled_from(["PA-I", "PA-II"]), C=st.sampled_from([0.1, 1.0, 100.0]), kernel=kernels)
@few
def test_pa(kind: str, data: st.DataObject, variant: Literal["PA-I", "PA-II"], C: float, kernel: KernelName) -> None:
    stream = data.draw(streams(kind, [*CLASSIFICATION, Task.REGRESSION]))
    published = stream.scores(PassiveAggressive(sigma=SIGMA, C=C, variant=variant, kernel=kernel))
    expected = stream.oracle_scores(
        lambda X, y: play(
            oracles.PassiveAggressive(
                stream.task, outputs=stream.outputs, declared=stream.declared, sigma=SIGMA, C=C, variant=variant, kernel=kernel
            ), X, y,
        )
    )  # fmt: skip
    np.testing.assert_allclose(published, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("learner", "oracle"), [(BpaS, oracles.BpaS), (BpaNn, oracles.BpaNn), (BpaP, oracles.BpaP)])
@each_kind
@given(
    data=st.data(), budget=st.sampled_from([1, 2, 3, 7, 100]), C=st.sampled_from([0.1, 1.0, 100.0]), skip=st.booleans(), kernel=kernels
)  # fmt: skip
@few
def test_budgeted(
    learner: type[BpaS | BpaNn | BpaP], oracle: type[oracles.Bpa], kind: str, data: st.DataObject, budget: int, C: float, skip: bool,
    kernel: KernelName,
) -> None:  # fmt: skip
    stream = data.draw(streams(kind, CLASSIFICATION))
    published = stream.scores(learner(budget=budget, sigma=SIGMA, C=C, skip=skip, kernel=kernel))
    expected = stream.oracle_scores(
        lambda X, y: play(
            oracle(
                stream.task, outputs=stream.outputs, declared=stream.declared, sigma=SIGMA, budget=budget, C=C, skip=skip, kernel=kernel
            ), X, y,
        )
    )  # fmt: skip
    np.testing.assert_allclose(published, expected, rtol=1e-5, atol=1e-6)
