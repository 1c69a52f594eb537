"""Exactly once, whatever is killed."""

from pathlib import Path

import pytest
from chaos.schedule import Plan, run

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]


def test_short_schedule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = run(Plan(seed=7, actions=12, pause=1.0, rate=1000), tmp_path)
    with capsys.disabled():
        print(f"\n{report}")  # noqa: T201
    assert report.verdict.problems == {}
    assert report.verdict.events > 10_000
    assert report.verdict.models > 2000
    assert report.verdict.dead_letters > 50
    assert report.verdict.done + report.verdict.refused + report.verdict.unanswered > 0
    assert report.returns > 100
    assert sum(report.aborted.values()) > 0  # the kills did hit transactions


@pytest.mark.timeout(3600)
def test_long_schedule(tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    if not request.config.getoption("--long", default=False):
        pytest.skip("only with --long (make chaos)")
    report = run(Plan(seed=1, actions=240, pause=0.7), tmp_path)
    with capsys.disabled():
        print(f"\n{report}")  # noqa: T201
    assert report.verdict.problems == {}
    assert report.kills >= 200
    assert report.verdict.done > 10
    assert report.aborted["checkpoints"] > 0
