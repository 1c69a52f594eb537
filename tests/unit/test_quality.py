"""The exact AUC against its definition and against scikit-learn."""

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from streamlearn.quality import auc


@pytest.mark.parametrize("distinct", [1, 2, 5, 1000])
@pytest.mark.parametrize("n", [2, 3, 50, 1001])
def test_equals_scikit_learn_with_ties(n: int, distinct: int) -> None:
    generator = np.random.RandomState(n * distinct)
    labels = np.append(generator.choice([-1.0, 1.0], n - 2), [-1.0, 1.0])
    scores = generator.randint(distinct, size=n) / 7
    assert auc(scores, labels) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


def test_is_the_share_of_rightly_ranked_pairs() -> None:
    generator = np.random.RandomState(0)
    scores, labels = generator.randint(6, size=40), generator.choice([-1, 1], 40)
    pairs = [(p > q) + 0.5 * (p == q) for p in scores[labels > 0] for q in scores[labels < 0]]
    assert auc(scores, labels) == sum(pairs) / len(pairs)


def test_extremes() -> None:
    assert auc([1.0, 2.0, 3.0], [-1, -1, 1]) == 1.0
    assert auc([3.0, 2.0, 1.0], [-1, -1, 1]) == 0.0
    assert auc([0.0, 0.0], [-1, 1]) == 0.5
    assert auc([-np.inf, np.inf], [-1, 1]) == 1.0


def test_orders_doubles_that_a_float32_cannot_tell_apart() -> None:
    assert auc([1.0, 1.0 + 1e-15], [-1, 1]) == 1.0


@pytest.mark.parametrize("labels", [[], [1, 1], [-1, -1]])
def test_without_pairs_there_is_no_auc(labels: list[int]) -> None:
    assert math.isnan(auc(np.zeros(len(labels)), labels))


def test_names_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="2 scores for 3 labels"):
        auc([0.0, 1.0], [1, -1, 1])
    with pytest.raises(ValueError, match="score 1 is NaN"):
        auc([0.0, np.nan], [1, -1])
