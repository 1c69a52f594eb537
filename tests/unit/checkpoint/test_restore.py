"""What a partition's records say together: numbering, epochs, deletion, and everything that can be missing."""

import msgspec
import numpy as np
import pytest
from checkpoints import checkpoint, compacted, events, models, part, restored, spec_of

from streamlearn.checkpoint.codec import Record, RecordName, decode, encode
from streamlearn.checkpoint.errors import CheckpointError, MismatchError
from streamlearn.checkpoint.restore import Restorer
from streamlearn.checkpoint.snapshot import Checkpointer
from streamlearn.learners.fourier import Fogd
from streamlearn.learners.protocol import Task
from streamlearn.processor import ModelSpec, Processor


class Partition:
    """One processor, its checkpointer, and all records so far."""

    def __init__(self, spec: ModelSpec | None = None, history: int = 3) -> None:
        self.spec = spec or spec_of()
        self.processor = Processor(self.spec)
        self.history = history
        self.checkpointer = Checkpointer(self.processor, history=history)
        self.records: list[Record] = []

    def learn(self, seed: int, count: int = 20, keys: int = 5) -> None:
        self.processor.process(events(count, self.spec.task, keys=keys, seed=seed))

    def checkpoint(self, deleted: tuple[str, ...] = (), offset: int = 0) -> dict[str, dict[str, bytes]]:
        self.records += self.checkpointer.checkpoint(offset=offset, time=1.5, deleted=deleted)
        return models(self.processor)

    def replace(self, processor: Processor) -> None:
        """What a restart or a rollback does."""
        restorer = Restorer(self.spec)
        for key, value in self.records:
            restorer.add(key, value)
        self.spec, self.processor = processor.spec, processor
        self.checkpointer = Checkpointer(processor, restorer.newest, history=self.history)
        self.checkpointer.begin_epoch()


@pytest.fixture
def partition() -> Partition:
    return Partition()


def test_an_empty_partition_has_no_checkpoint() -> None:
    assert Restorer(spec_of()).finish() is None


def test_only_changed_models_are_written(partition: Partition) -> None:
    partition.learn(1)
    partition.checkpoint()
    partition.processor.process(part(events(40, keys=1, seed=2), 0, 3))
    before = len(partition.records)
    partition.checkpoint(offset=43)
    changed = [decode(value).header.model for _, value in partition.records[before:] if value]
    assert [model.key for model in changed if model] == ["key/0"]
    _, marker = restored(partition.records, partition.spec)
    assert (marker.checkpoint, marker.offset, marker.written, marker.models, marker.writes) == (2, 43, 1, 5, 6)


def test_an_event_without_a_label_changes_nothing(partition: Partition) -> None:
    unlabelled = events(20)
    unlabelled.y[:] = float("nan")
    partition.processor.process(unlabelled)
    partition.checkpoint()
    assert len(partition.records) == 1


def test_the_header_says_what_people_ask_for(partition: Partition) -> None:
    partition.learn(1, keys=1)
    records = list(partition.checkpointer.checkpoint(offset=20, time=1.5))
    model = decode(records[0].value or b"").header.model
    assert model is not None
    learned, mistakes = (int(partition.processor.pool[name][0]) for name in ("learned", "mistakes"))
    assert mistakes > 0
    assert (model.key, model.learner, model.learned, model.mistakes) == ("key/0", "fogd", learned, mistakes)


def test_versions_go_on_after_a_restore(partition: Partition) -> None:
    partition.learn(1)
    partition.checkpoint()
    processor, marker = restored(partition.records, partition.spec)
    processor.process(events(20, seed=2))
    more = checkpoint(Checkpointer(processor, marker))
    versions = {decode(value).header.model.version for _, value in more[:-1] if value}  # type: ignore[union-attr]  # models all
    assert versions == {2}
    assert models(restored(partition.records + more, partition.spec)[0]) == models(processor)


def test_classes_come_back_in_their_order() -> None:
    partition = Partition(spec_of(task=Task.MULTICLASS))
    partition.learn(1, count=60)
    state = partition.checkpoint()
    processor, marker = restored(partition.records, partition.spec)
    assert processor.classes == list(marker.classes) == partition.processor.classes
    assert len(processor.classes) > 2
    assert models(processor) == state


def test_labels_keep_their_types() -> None:
    partition = Partition(spec_of(task=Task.MULTICLASS))
    stream = events(40, Task.MULTICLASS)
    labels = [True, 1, 1.0, "1", -0.5, 10**15]
    partition.processor.process(
        type(stream)(**{name: getattr(stream, name) for name in stream.__slots__} | {"labels": [labels[i % 6] for i in range(40)]})
    )
    partition.checkpoint()
    classes = restored(partition.records, partition.spec)[0].classes
    assert [(type(label), label) for label in classes] == [(type(label), label) for label in labels]


def test_a_model_that_knows_too_many_classes_is_refused() -> None:
    partition = Partition(spec_of(task=Task.MULTICLASS))
    partition.learn(1, count=60)
    partition.checkpoint()
    with pytest.raises(CheckpointError, match="knows 5 classes, max_classes is 3"):
        restored(partition.records, spec_of(task=Task.MULTICLASS, max_classes=3))


def test_another_learner_is_refused_with_both_sides_named(partition: Partition) -> None:
    partition.learn(1)
    partition.checkpoint()
    with pytest.raises(MismatchError, match=r"learner\.eta is null in the checkpoint and 0\.5 in the configuration"):
        restored(partition.records, spec_of(Fogd(frequencies=4, eta=0.5)))


def test_a_changed_learner_cannot_go_on_in_the_same_epoch(partition: Partition) -> None:
    partition.learn(1)
    partition.checkpoint()
    with pytest.raises(MismatchError, match="begin an epoch first"):
        checkpoint(Checkpointer(Processor(spec_of(Fogd(frequencies=4, eta=0.5))), partition.checkpointer.last))


def test_a_restart_leaves_earlier_models_behind_and_a_return_does_not_wake_them(partition: Partition) -> None:
    first = partition.spec
    partition.learn(1)
    partition.checkpoint()
    partition.replace(Processor(spec_of(Fogd(frequencies=4, eta=0.5))))
    partition.learn(2, keys=2)
    partition.checkpoint()
    assert len(models(restored(partition.records, partition.spec)[0])) == 2
    partition.replace(Processor(first))
    partition.learn(3, keys=1)
    state = partition.checkpoint()
    processor, marker = restored(compacted(partition.records), first)
    assert models(processor) == state
    assert (marker.checkpoint, marker.epoch, marker.models) == (3, 3, 1)


def test_a_restart_without_models_leaves_none(partition: Partition) -> None:
    partition.learn(1)
    partition.checkpoint()
    partition.replace(Processor(partition.spec))
    partition.checkpoint()
    assert models(restored(partition.records, partition.spec)[0]) == {}


def test_a_rollback_is_a_checkpoint_itself_and_can_be_rolled_back(partition: Partition) -> None:
    states = {}
    for number in range(1, 4):
        partition.learn(number, count=12, keys=2 * number)
        states[number] = partition.checkpoint()
    earlier, _ = restored(partition.records, partition.spec, upto=2)
    partition.replace(earlier)
    states[4] = partition.checkpoint()
    assert states[4] == states[2]
    partition.learn(9)
    states[5] = partition.checkpoint()
    records = compacted(partition.records)
    assert models(restored(records, partition.spec)[0]) == states[5]
    for number in (3, 4, 5):
        assert models(restored(records, partition.spec, upto=number)[0]) == states[number]


def test_a_deleted_model_is_gone_from_every_checkpoint(partition: Partition) -> None:
    for seed in range(6):
        partition.learn(seed)
        partition.checkpoint()
    partition.processor.router.release(["key/3"])
    state = partition.checkpoint(deleted=("key/3",))
    for records in (partition.records, compacted(partition.records), compacted(partition.records, keep_tombstones=False)):
        assert models(restored(records, partition.spec)[0]) == state
        assert not [key for key, value in records[-1:] if b"key/3" in key and value]
        for number in (5, 6):
            assert "key/3" not in models(restored(records, partition.spec, upto=number)[0])
    assert not [record for record in compacted(partition.records) if b"key/3" in record.key and record.value]


def test_a_deleted_key_that_returns_is_a_new_model(partition: Partition) -> None:
    for seed in range(3):
        partition.learn(seed)
        partition.checkpoint()
    partition.processor.router.release(["key/3"])
    partition.learn(7)
    state = partition.checkpoint(deleted=("key/3",))
    for records in (partition.records, compacted(partition.records), compacted(partition.records, keep_tombstones=False)):
        assert models(restored(records, partition.spec)[0]) == state


def test_models_that_were_evicted_are_counted(partition: Partition) -> None:
    partition.learn(1)
    state = partition.checkpoint()
    router = partition.processor.router
    router.evict(np.array([router.slot("key/2")]))
    partition.learn(2, count=3, keys=1)
    written = len(partition.records)
    partition.checkpoint()
    assert len(partition.records) == written + 2  # key/0 and the marker
    back = models(restored(partition.records, partition.spec)[0])
    assert back["key/2"] == state["key/2"]
    assert back.keys() == state.keys()


def test_models_that_were_evicted_before_their_checkpoint_are_written(partition: Partition) -> None:
    partition.learn(1)
    state, router = models(partition.processor), partition.processor.router
    router.evict(np.array([router.slot("key/2"), router.slot("key/4")]))
    assert (router.in_memory, router.away, len(router)) == (3, 2, 5)
    partition.checkpoint()
    assert models(restored(partition.records, partition.spec)[0]) == state
    written = len(partition.records)
    partition.checkpoint()
    assert len(partition.records) == written + 1  # the marker


def test_a_new_epoch_writes_models_that_are_away(partition: Partition) -> None:
    partition.learn(1)
    state, router = models(partition.processor), partition.processor.router
    partition.checkpoint()
    router.evict(np.array([slot for _, slot in router][:3]))
    partition.replace(partition.processor)
    partition.checkpoint()
    assert models(restored(partition.records, partition.spec)[0]) == state
    assert restored(partition.records, partition.spec)[1].epoch == 2


def test_a_restore_keeps_few_models_in_memory(partition: Partition) -> None:
    partition.learn(1, count=200, keys=50)
    state = partition.checkpoint()
    restorer = Restorer(partition.spec, max_models=4)
    for key, value in partition.records:
        restorer.add(key, value)
        assert restorer.processor.router.in_memory <= 4
    restorer.finish()
    assert restorer.processor.pool.slots <= 5
    assert len(restorer.processor.router) == len(state) > 40
    for name, model in state.items():
        restorer.processor.router.slot(name)
        assert models(restorer.processor)[name] == model


def test_models_without_a_marker_are_noticed(partition: Partition) -> None:
    partition.learn(1)
    partition.checkpoint()
    with pytest.raises(CheckpointError, match="models of checkpoint 1 but no marker"):
        restored(partition.records[:-1], partition.spec)


def test_models_newer_than_the_last_marker_are_noticed(partition: Partition) -> None:
    for seed in range(2):
        partition.learn(seed)
        partition.checkpoint()
    with pytest.raises(CheckpointError, match=r"models of checkpoint 2, but the last marker is that of checkpoint 1.*read_committed"):
        restored(partition.records[:-1], partition.spec)


def test_a_checkpoint_that_is_not_there_is_named(partition: Partition) -> None:
    for seed in range(3):
        partition.learn(seed)
        partition.checkpoint()
    with pytest.raises(CheckpointError, match="there is no checkpoint 9; the newest are: 1, 2, 3"):
        restored(partition.records, partition.spec, upto=9)


def test_a_stale_model_is_noticed(partition: Partition) -> None:
    """Compaction may not take the newest version; if anything does, an older one must not pass for it."""
    for seed in range(2):
        partition.learn(seed, keys=1)
        partition.checkpoint()
    with pytest.raises(CheckpointError, match="consists of 1 models with 2 writes, the topic has 1 models with 1 writes"):
        restored([partition.records[0], partition.records[1], partition.records[3]], partition.spec)


def test_missing_chunks_are_noticed() -> None:
    partition = Partition(spec_of(Fogd(frequencies=64)))
    partition.checkpointer = Checkpointer(partition.processor, limit=1000)
    partition.learn(1, keys=1)
    partition.checkpoint()
    assert decode(partition.records[0].value or b"").header.chunks == 2
    with pytest.raises(CheckpointError, match="1 of 2 chunks of model 'key/0' of checkpoint 1 are missing"):
        restored(partition.records[1:], partition.spec)


def test_a_state_of_another_shape_is_refused(partition: Partition) -> None:
    """Same fingerprint, other arrays: only a foreign program does that."""
    partition.learn(1, keys=1)
    partition.checkpoint()
    chunk = decode(partition.records[0].value or b"")
    assert chunk.header.model is not None
    table = tuple(("unheard-of" if name == "weights" else name, code, shape) for name, code, shape in chunk.header.model.arrays)
    header = msgspec.structs.replace(chunk.header, model=msgspec.structs.replace(chunk.header.model, arrays=table))

    foreign = encode(header, RecordName.of_model("key/0", 1, 1, 4), bytes(chunk.payload))
    with pytest.raises(CheckpointError, match="unheard-of"):
        restored([*foreign, partition.records[1]], partition.spec)


def test_a_foreign_tombstone_is_refused(partition: Partition) -> None:
    with pytest.raises(CheckpointError, match="not the key of a checkpoint record"):
        Restorer(partition.spec).add(b"user-1", None)
