"""The proof that the verifier notices if events are lost, doubled, learned wrongly, or changes of models not made."""

from collections import Counter
from pathlib import Path

import pytest
from chaos.changes import Marker, Request, tell
from chaos.schedule import Plan, run, sabotaged

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

BACK, GONE = Request("s", 0, 2, frozenset()), Request("s", 0, None, frozenset("ab"))


def test_a_rollback_keeps_what_was_deleted_since_deleted() -> None:
    markers = [Marker(1, 1, 0, []), Marker(2, 1, 10, []), Marker(3, 1, 20, ["gone"]), Marker(4, 2, 30, ["gone", "back"])]
    story = tell(markers, {"back": BACK, "gone": GONE})
    deleted = (range(20), frozenset("ab"))
    assert story.chapters == [(0, ()), (20, deleted), (30, (range(10), frozenset("ab")))]
    assert (story.followed, story.unexplained) == (Counter(gone=1, back=1), 0)


def test_a_rollback_can_be_rolled_back() -> None:
    markers = [
        Marker(1, 1, 5, []),
        Marker(2, 1, 10, []),
        Marker(3, 2, 30, ["back"]),
        Marker(4, 2, 35, ["back"]),
        Marker(5, 3, 40, ["again"]),
    ]
    story = tell(markers, {"back": BACK, "again": Request("s", 0, 4, frozenset())})
    assert story.chapters == [(0, ()), (30, (range(10),)), (40, (range(10), range(30, 35)))]


def test_changes_that_nobody_asked_for_and_changes_made_twice_are_noticed() -> None:
    assert tell([Marker(1, 1, 5, []), Marker(2, 2, 6, [])], {}).unexplained == 1
    twice = [Marker(1, 1, 5, []), Marker(2, 1, 6, []), Marker(3, 2, 7, ["back"]), Marker(4, 2, 8, []), Marker(5, 3, 9, ["back"])]
    assert tell(twice, {"back": BACK}).followed["back"] == 2


def test_the_verifier_notices_models_that_were_not_replayed(tmp_path: Path) -> None:
    rare = {"checkpoint": {"interval": 60}}
    plan = Plan(seed=3, actions=6, weights={"kill": 1}, pause=2.0, tables=rare, command=sabotaged("skip-replay"))
    verdict = run(plan, tmp_path).verdict
    assert verdict.differing > 0
    assert verdict.problems.keys() <= {"differing", "differing_models"}  # the latter if a checkpoint was written after the loss


def test_the_verifier_notices_workers_that_are_not_fenced(tmp_path: Path) -> None:
    slow = {"worker": {"commit_interval": 0.5}, "checkpoint": {"interval": 60}}
    plan = Plan(
        seed=5, actions=3, weights={"freeze": 1}, pause=2.0, transaction=30, tables=slow, command=sabotaged("without-fencing")
    )  # fmt: skip
    assert run(plan, tmp_path).verdict.doubled > 0


def test_the_verifier_notices_changes_that_were_not_made(tmp_path: Path) -> None:
    plan = Plan(seed=2, actions=2, weights={"change models": 1}, pause=1.0, command=sabotaged("pretend"))
    verdict = run(plan, tmp_path).verdict
    assert verdict.done > 0
    assert verdict.differing > 0
