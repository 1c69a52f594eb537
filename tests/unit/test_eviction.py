"""Models that leave memory and come back: the same bits, the same checkpoints, the same sums, and a bounded number in memory."""

import contextlib
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from checkpoints import checkpoint, events, models, part, restored, small, spec_of
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlearn.agents.eviction import Eviction
from streamlearn.checkpoint.archive import adopt
from streamlearn.checkpoint.codec import Record
from streamlearn.checkpoint.snapshot import Checkpointer
from streamlearn.config import MemoryConfig
from streamlearn.learners.protocol import Learner, Task
from streamlearn.learners.registry import LEARNERS
from streamlearn.processor import Processor
from streamlearn.spill import Spill, SpillError

COUNT = 120
KINDS = [(LEARNERS[name], task) for name, task in (("fogd", Task.MULTICLASS), ("perceptron", Task.BINARY), ("koil", Task.RANKING))]


def everything(processor: Processor) -> dict[str, dict[str, bytes]]:
    """The bytes of every model, brought back from wherever it is."""
    for key in list(processor.router.all_keys()):
        processor.router.slot(key)
    return models(processor)


@pytest.mark.parametrize(("kind", "task"), KINDS, ids=[kind.name for kind, _ in KINDS])
@given(data=st.data(), limit=st.integers(1, 6), seed=st.integers(0, 1000))
@settings(max_examples=15, derandomize=True, deadline=None)
def test_eviction_changes_no_bit_of_predictions_models_and_checkpoints(
    kind: type[Learner], task: Task, data: st.DataObject, limit: int, seed: int
) -> None:
    spec, stream = spec_of(small(kind), task), events(COUNT, task, keys=9, seed=seed)
    whole, evicting = Processor(spec), Processor(spec, max_models=limit)
    cuts = sorted(data.draw(st.sets(st.integers(1, COUNT - 1), min_size=3, max_size=12)))
    saves = data.draw(st.sets(st.sampled_from(cuts)))
    keep, spill = Checkpointer(whole), Checkpointer(evicting)
    expected: list[Record] = []
    written: list[Record] = []
    for start, stop in itertools.pairwise([0, *cuts, COUNT]):
        rows = part(stream, start, stop)
        one, other = whole.process(rows), evicting.process(rows)
        evicting.router.trim()
        width = len(whole.classes) or 1
        assert other.scores[:, :width].tobytes() == one.scores[:, :width].tobytes()
        assert other.learned.tolist() == one.learned.tolist()
        assert evicting.router.in_memory <= limit
        if stop in saves:
            expected, written = expected + checkpoint(keep, stop), written + checkpoint(spill, stop)
            assert spill.last == keep.last
            assert sorted(written) == sorted(expected)
    assert {name: evicting.router.total(name).tolist() for name in ("learned", "mistakes")} == {
        name: whole.pool[name].sum().tolist() for name in ("learned", "mistakes")
    }
    counts = whole.pool["label_counts"].sum(axis=0)
    assert evicting.router.total("label_counts")[: len(counts)].tolist() == counts.tolist()
    assert everything(evicting) == models(whole)


def test_models_used_longest_ago_leave_first() -> None:
    processor = Processor(spec_of(), max_models=3)
    for key in "abcabd":
        processor.router.touch(processor.router.slots([key]))
    processor.router.trim()
    assert {key for key, _ in processor.router} == {"a", "b", "d"}
    assert (processor.router.evictions, processor.router.returns) == (1, 0)
    processor.router.slots(["c"])
    assert (processor.router.evictions, processor.router.returns, processor.router.away) == (1, 1, 0)


def test_models_that_never_learned_need_no_room() -> None:
    processor = Processor(spec_of(), max_models=1)
    processor.router.slots(["a", "b", "c"])
    processor.router.trim()
    assert (processor.router.in_memory, processor.router.away, len(processor.router)) == (1, 0, 1)


def test_silent_keys_leave() -> None:
    times = iter(range(12))
    processor, eviction = Processor(spec_of()), Eviction(MemoryConfig(idle=10), clock=lambda: next(times))
    for key in ["early", *["steady"] * 9]:
        processor.router.touch(processor.router.slots([key]))
        eviction.run(processor.router)
        assert processor.router.away == 0
    processor.router.slots(["steady"])
    eviction.run(processor.router)
    assert {key for key, _ in processor.router} == {"steady"}
    assert "early" in processor.router


def test_a_key_that_is_away_can_be_released() -> None:
    processor = Processor(spec_of(), max_models=1)
    processor.process(events(COUNT))
    processor.router.trim()
    gone = next(key for key in list(processor.router.all_keys()) if key not in dict(processor.router))
    learned = int(processor.router.total("learned"))
    processor.router.release([gone])
    assert gone not in processor.router
    assert len(processor.router) == 4
    assert int(processor.router.total("learned")) < learned
    assert processor.pool["learned"][processor.router.slot(gone)] == 0
    with pytest.raises(KeyError):
        processor.router.release(["nobody"])


def test_models_are_adopted_from_and_into_a_small_memory() -> None:
    source, target = Processor(spec_of(), max_models=2), Processor(spec_of(), max_models=3)
    source.process(events(400, keys=40, seed=1))
    target.process(events(100, keys=10, seed=2))
    assert adopt(target, source) == 40
    assert (source.router.in_memory, target.router.in_memory) == (2, 3)
    records = checkpoint(Checkpointer(target))
    assert everything(restored(records, target.spec)[0]) == everything(source)


def test_the_database_is_on_disk_and_has_no_name() -> None:
    before = unlinked()
    processor = Processor(replace(spec_of(), dim=2000), max_models=1)
    spill = Spill(processor.pool)
    slots = processor.router.slots([str(number) for number in range(1000)])
    processor.pool["mean"][slots] = np.random.default_rng(1).normal(size=(1000, 2000))
    spill.put([processor.router.key(slot) for slot in slots.tolist()], slots, np.zeros(1000, np.int64), np.ones(1000, np.bool_))
    assert len(unlinked() - before) == 1
    del spill
    assert unlinked() == before


def test_a_full_disk_is_explained() -> None:
    processor = Processor(spec_of(), max_models=1)
    processor.process(events(COUNT))
    spill = Spill(processor.pool)
    spill._database.execute("PRAGMA max_page_count = 8")  # what a full disk answers, without filling one
    slots = processor.router.slots([f"key {number}" for number in range(500)])
    processor.pool["mean"][slots] = 1.5
    with pytest.raises(SpillError, match=r"full.*SQLITE_TMPDIR"):
        spill.put([processor.router.key(slot) for slot in slots.tolist()], slots, np.zeros(500, np.int64), np.ones(500, np.bool_))


def unlinked() -> set[str]:
    """The files that this process has open and that have no name any more."""
    links = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the folder that is being listed
            links.append(str(link.readlink()))
    return {link for link in links if link.endswith("(deleted)")}
