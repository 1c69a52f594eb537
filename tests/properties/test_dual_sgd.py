"""DualSGD equals its oracle on random streams."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.dual_sgd import DualSgd as Oracle
from oracles.unbudgeted import play
from streams import KINDS, few, streams

from streamlearn.features.fourier import draw_frequencies
from streamlearn.learners.avm import Avm
from streamlearn.learners.dual_sgd import DualSgd
from streamlearn.learners.protocol import Task

SIGMA = 0.8
TASKS = [Task.BINARY, Task.MULTICLASS, Task.REGRESSION]
# The cosine of a huge angle is decided by the last bits of the angle.
COMPARABLE = [kind for kind in KINDS if kind != "huge"]


@pytest.mark.parametrize("kind", COMPARABLE)
@given(
    data=st.data(), sizes=st.sampled_from([(1, 1), (2, 1), (2, 2), (7, 3), (9, 40), (100, 1)]), choice=st.integers(0, 2),
    reg=st.sampled_from([0.01, 0.5, 2.0]), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@few
def test_equals_the_oracle(kind: str, data: st.DataObject, sizes: tuple[int, int], choice: int, reg: float, seed: int) -> None:
    stream = data.draw(streams(kind, TASKS))
    budget, rank = sizes
    loss = (("l1", "l2", "eps") if stream.task is Task.REGRESSION else ("hinge", "smooth-hinge", "logistic"))[choice]
    learner = DualSgd(budget=budget, rank=rank, frequencies=5, sigma=SIGMA, reg=reg, loss=loss, seed=seed)
    frequencies = draw_frequencies(stream.X.shape[1], 5, seed) / SIGMA

    def model() -> Oracle:
        return Oracle(stream.task, frequencies, budget, rank, reg, loss, outputs=stream.outputs, declared=stream.declared, sigma=SIGMA)

    expected = stream.oracle_scores(lambda X, y: play(model(), X, y))
    np.testing.assert_allclose(stream.scores(learner), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("duplicates", "zero vectors", "tiny")])
@given(data=st.data())
@few
def test_room_for_every_event_equals_a_core_per_event(kind: str, data: st.DataObject) -> None:
    stream = data.draw(streams(kind, TASKS))
    learner, cores = DualSgd(budget=100, sigma=SIGMA, reg=0.1), Avm(delta=1e-9, sigma=SIGMA, reg=0.1)
    np.testing.assert_allclose(stream.scores(learner), stream.scores(cores), rtol=1e-9, atol=1e-9)
