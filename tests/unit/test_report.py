"""The HTML report of a backtest."""

from pathlib import Path

import numpy as np
from reference import syn_binary, syn_rows

from streamlearn.config import make_learner
from streamlearn.evaluation.report import write_report
from streamlearn.evaluation.study import study
from streamlearn.events.files import Arrays
from streamlearn.learners.protocol import Task


def test_the_page_shows_every_learner_and_the_curves(tmp_path: Path) -> None:
    X, y = syn_binary()
    orders = np.array([np.arange(600), np.arange(600)[::-1]])
    learners = [make_learner({"name": "perceptron"}), make_learner({"name": "ogd"})]
    studies = [study(learner, Task.BINARY, Arrays(X, y, orders), dtype="float64") for learner in learners]
    page = write_report(studies, tmp_path / "report").read_text()
    for made in studies:
        assert f"<td>{made.learner.name}</td>" in page
        assert f"{100 * made.summary()['mean'] / 600:.3f} %" in page
    assert "49.167 %" in page  # 295 of 600 are negative
    assert (tmp_path / "report" / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_regression_has_losses(tmp_path: Path) -> None:
    X, y = syn_rows()
    made = study(make_learner({"name": "ogd", "sigma": 1, "eta": 0.1}), Task.REGRESSION, Arrays(X, y, None), dtype="float64")
    assert "0.12857" in write_report([made], tmp_path).read_text()
