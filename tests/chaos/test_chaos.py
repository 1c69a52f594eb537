"""Exactly once, whatever is killed; and the proof that the verifier would notice if it were not."""

from pathlib import Path

import pytest
from chaos.schedule import Plan, run, sabotaged

pytestmark = pytest.mark.chaos


def test_short_schedule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = run(Plan(seed=7, actions=12, pause=1.0), tmp_path)
    with capsys.disabled():
        print(f"\n{report}")  # noqa: T201
    assert report.verdict.problems == {}
    assert report.verdict.events > 10_000
    assert report.verdict.models > 2000
    assert report.verdict.dead_letters > 50
    assert sum(report.aborted.values()) > 0  # the kills did hit transactions


@pytest.mark.timeout(3600)
def test_long_schedule(tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    if not request.config.getoption("--long", default=False):
        pytest.skip("only with --long (make chaos)")
    report = run(Plan(seed=1, actions=240, pause=1.0), tmp_path)
    with capsys.disabled():
        print(f"\n{report}")  # noqa: T201
    assert report.verdict.problems == {}
    assert report.kills >= 200


def test_the_verifier_notices_models_that_were_not_replayed(tmp_path: Path) -> None:
    rare = {"checkpoint": {"interval": 60}}
    plan = Plan(seed=3, actions=2, weights={"kill": 1}, pause=2.0, tables=rare, command=sabotaged("skip-replay"))
    assert run(plan, tmp_path).verdict.problems.keys() == {"differing"}


def test_the_verifier_notices_workers_that_are_not_fenced(tmp_path: Path) -> None:
    slow = {"worker": {"commit_interval": 0.5}, "checkpoint": {"interval": 60}}
    plan = Plan(
        seed=5, actions=3, weights={"freeze": 1}, pause=2.0, transaction=30, tables=slow, command=sabotaged("without-fencing")
    )  # fmt: skip
    assert run(plan, tmp_path).verdict.doubled > 0
