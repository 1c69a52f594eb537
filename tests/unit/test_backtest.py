"""`streamlearn backtest` and the other commands that need no broker, as a person types them."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from reference import syn_binary, syn_rows, syn_three_classes
from typer.testing import CliRunner

from streamlearn.cli import app
from streamlearn.config import ConfigError
from streamlearn.evaluation.study import learners_with

run = CliRunner().invoke


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    X, y = syn_binary()
    path = tmp_path / "syn.npz"
    orders = np.array([np.arange(600), np.arange(600)[::-1]])
    np.savez(path, X=X, y=y, permutations=orders)
    return path


def summaries(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines()]


def test_reference_counts_from_the_command_line(npz: Path) -> None:
    arguments = ["--learner", "perceptron", "--learner", "ogd", "--set", "sigma=1", "--set", "eta=0.2", "--dtype", "float64", "--json"]
    result = run(app, ["backtest", str(npz), *arguments])
    assert result.exit_code == 0, result.output
    perceptron, ogd = summaries(result.stdout)
    assert next(r["mistakes"] for r in perceptron["runs"]) == 137  # type: ignore[attr-defined]
    assert next(r["mistakes"] for r in ogd["runs"]) == 119  # type: ignore[attr-defined]
    assert perceptron["trivial"] == 295
    assert perceptron["mean"] == np.mean([r["mistakes"] for r in perceptron["runs"]])  # type: ignore[attr-defined]
    assert [r["permutation"] for r in ogd["runs"]] == [0, 1]  # type: ignore[attr-defined]


@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_other_tasks(tmp_path: Path, task: str) -> None:
    X, y = syn_three_classes() if task == "multiclass" else syn_rows()
    np.savez(tmp_path / "data.npz", X=X, y=y)
    result = run(app, ["backtest", str(tmp_path / "data.npz"), "--learner", "ogd", "--set", f"eta={0.5 if task == 'multiclass' else 0.1}",
                       "--set", "sigma=1", "--dtype", "float64", "--json"])  # fmt: skip
    assert result.exit_code == 0, result.output
    (summary,) = summaries(result.stdout)
    assert summary["task"] == task
    figure = summary["runs"][0]  # type: ignore[index]
    if task == "multiclass":
        assert figure["mistakes"] == 229
    else:
        assert figure["mean_squared_loss"] == pytest.approx(0.128569305506, abs=1e-12)


def test_a_stream_from_a_file_equals_the_arrays(tmp_path: Path) -> None:
    X, y = syn_binary()
    path = tmp_path / "syn.csv"
    with path.open("w") as file:
        writer = csv.writer(file)
        writer.writerow([*"abcdef", "label"])
        writer.writerows([*map(repr, row.tolist()), int(label)] for row, label in zip(X, y, strict=True))
    config = tmp_path / "c.toml"
    config.write_text(
        '[worker]\ndtype = "float64"\n[[streams]]\nname = "syn"\nnumeric = ["a","b","c","d","e","f"]\nscaling = "none"\n'
        '[streams.learner]\nname = "ogd"\nsigma = 1\neta = 0.2\n'
    )
    result = run(app, ["backtest", str(path), "--config", str(config), "--json"])
    assert result.exit_code == 0, result.output
    assert summaries(result.stdout)[0]["runs"][0]["mistakes"] == 119  # type: ignore[index]


def test_settings_must_be_known() -> None:
    with pytest.raises(ConfigError, match="sgma"):
        learners_with(["ogd", "fogd"], {"sgma": 1})
    with pytest.raises(ConfigError, match="no learner 'odg'"):
        learners_with(["odg"], {})
    ogd, fogd = learners_with(["ogd", "fogd"], {"frequencies": 7})
    assert fogd.frequencies == 7  # type: ignore[attr-defined]
    assert not hasattr(ogd, "frequencies")


@pytest.mark.parametrize(
    "arguments", [["nothing.csv"], ["nothing.xyz"], ["flights", "--learner", "nonsense"], ["flights", "--set", "x"]], ids=str
)
def test_wrong_input_is_explained_without_a_traceback(arguments: list[str]) -> None:
    result = run(app, ["backtest", *arguments])
    assert result.exit_code == 1
    assert "error:" in result.output
    assert "Traceback" not in result.output


def test_init_check_and_learners(tmp_path: Path) -> None:
    path = tmp_path / "streamlearn.toml"
    assert run(app, ["init", str(path)]).exit_code == 0
    assert run(app, ["init", str(path)]).exit_code == 1
    assert "payments.events -> payments.predictions" in run(app, ["config", "check", "--config", str(path)]).output
    assert "fogd" in run(app, ["learners"]).output
    assert "Algorithm 1" in run(app, ["learners", "fogd"]).output
    assert run(app, ["learners", "fgod"]).exit_code == 1


def test_check_refuses_a_loss_of_another_task(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('[[streams]]\nname = "s"\nnumeric = ["a"]\n[streams.learner]\nname = "fogd"\nloss = "squared"\n')
    with pytest.raises(ConfigError, match=r"streams\.s\.learner: loss = 'squared' is not for binary streams"):
        run(app, ["config", "check", "--config", str(path)], catch_exceptions=False)
