"""Changes of models: what a control message may say, followed once, remembered by the checkpoint, refused without a trace."""

from datetime import UTC, datetime

import msgspec
import pytest
from checkpoints import checkpoint, events, models, restored, spec_of
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlearn.agents.commands import Delete, Import, Rollback
from streamlearn.agents.control import ControlError, ControlMessage, decode
from streamlearn.agents.partition import ChangeError, PartitionModels
from streamlearn.agents.stream import Stream
from streamlearn.checkpoint.codec import Record
from streamlearn.checkpoint.errors import CheckpointError
from streamlearn.checkpoint.restore import Restorer
from streamlearn.checkpoint.snapshot import REMEMBERED, Checkpointer
from streamlearn.checkpoint.staging import is_staged, stage, unstage
from streamlearn.config import CheckpointConfig, StreamConfig
from streamlearn.kafka.clients import Partition
from streamlearn.kafka.source import Assigned
from streamlearn.metrics import Metrics
from streamlearn.models.errors import ModelsError
from streamlearn.models.listing import Contents
from streamlearn.models.moments import Moment, parse_time, show_time
from streamlearn.processor import Processor

STREAM = Stream(StreamConfig(name="s", numeric=("a", "b", "c"), learner={"name": "fogd", "frequencies": 4}), "float32")
NAME = "0123456789abcdef"


def partition_models() -> PartitionModels:
    return PartitionModels(STREAM, Assigned(Partition("s.events", 0), 7, True, 0), CheckpointConfig(), Metrics())


def learn(models_of: PartitionModels, seed: int) -> None:
    models_of.processor.process(events(30, seed=seed))


class TestMessages:
    def test_each_command_is_read_back(self) -> None:
        for command in (
            Rollback(id=NAME, stream="s", partition=3, checkpoint=17),
            Import(id=NAME, stream="s", partition=0, start=5, end=9, replace=True),
            Delete(id=NAME, stream="s", partition=1, keys=("a", "")),
        ):
            assert decode(msgspec.json.encode(command)) == command
        assert decode(b'{"command": "pause"}') == ControlMessage(command="pause")

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ({"checkpoint": 0}, "checkpoint"),
            ({"partition": -1}, "partition"),
            ({"id": "../x"}, "id"),
            ({"path": "/etc/passwd"}, "path"),
            ({"command": "explode"}, "explode"),
        ],
    )
    def test_what_is_wrong_is_named(self, change: dict[str, object], problem: str) -> None:
        table = {"command": "rollback", "id": NAME, "stream": "s", "partition": 0, "checkpoint": 1}
        with pytest.raises(ControlError, match=problem):
            decode(msgspec.json.encode(table | change))

    @given(value=st.one_of(st.binary(max_size=200), st.text(max_size=50).map(lambda text: b'{"command": "' + text.encode() + b'"}')))
    @settings(max_examples=200, derandomize=True, deadline=None)
    def test_bytes_from_anywhere_are_messages_or_errors(self, value: bytes) -> None:
        try:
            message = decode(value)
        except ControlError:
            return
        assert isinstance(message, ControlMessage)


class TestFollowing:
    def test_a_change_makes_a_checkpoint_due_and_is_followed_once(self) -> None:
        owned, times = partition_models(), []

        def change(changed: PartitionModels) -> str:
            times.append(changed.next_offset)
            return "changed"

        list(owned.checkpoint())
        assert not owned.checkpoint_due()
        assert owned.change(NAME, change) == "changed"
        assert owned.checkpoint_due()
        assert owned.change(NAME, change) == "done already"
        assert times == [7]

    def test_the_next_owner_knows_what_was_followed(self) -> None:
        owned, successor = partition_models(), partition_models()
        owned.change(NAME, lambda changed: "changed")
        successor.begin(*restored(list(owned.checkpoint()), STREAM.spec))
        assert successor.change(NAME, lambda changed: "followed again") == "done already"

    def test_few_commands_are_remembered(self) -> None:
        owned = partition_models()
        for number in range(REMEMBERED + 1):
            owned.change(f"{number:08x}", lambda changed: "changed")
        marker = restored(list(owned.checkpoint()), STREAM.spec)[1]
        assert len(marker.commands) == REMEMBERED
        assert marker.commands[-1] == f"{REMEMBERED:08x}"

    def test_a_refused_change_is_not_remembered(self) -> None:
        owned = partition_models()

        def refuse(changed: PartitionModels) -> str:
            raise CheckpointError(f"no: {changed.partition.topic}")

        list(owned.checkpoint())
        with pytest.raises(ChangeError, match="no"):
            owned.change(NAME, refuse)
        assert not owned.checkpoint_due()
        assert owned.change(NAME, lambda changed: "changed") == "changed"

    def test_other_models_take_the_place_of_all(self) -> None:
        owned, other = partition_models(), Processor(STREAM.spec)
        learn(owned, 1)
        records = list(owned.checkpoint())
        other.process(events(30, keys=2, seed=2))
        owned.replace(other)
        records += owned.checkpoint()
        processor, marker = restored(records, STREAM.spec)
        assert (marker.checkpoint, marker.epoch) == (2, 2)
        assert models(processor) == models(other)
        earlier, _ = restored(records, STREAM.spec, upto=1)
        assert len(earlier.router) == 5

    def test_a_deleted_key_is_gone_from_earlier_checkpoints_too(self) -> None:
        owned = partition_models()
        learn(owned, 1)
        records = list(owned.checkpoint())
        assert owned.change(NAME, lambda changed: str(changed.delete(["key/1", "nobody", "key/1"]))) == "1"
        records += owned.checkpoint()
        for upto in (1, 2):
            assert "key/1" not in restored(records, STREAM.spec, upto)[0].router


def test_staged_models_are_no_part_of_any_checkpoint() -> None:
    processor = Processor(spec_of())
    processor.process(events(30))
    records = checkpoint(Checkpointer(processor))
    waiting = list(stage(NAME, records))
    assert all(is_staged(key) and is_staged(key, NAME) and not is_staged(key, "abcdef01") for key, _ in waiting)
    assert not any(is_staged(key) for key, _ in records)
    restorer = Restorer(spec_of())
    for key, value in [*waiting, *unstage(NAME, len(waiting))]:
        restorer.add(key, value)
    assert restorer.finish() is None
    assert [key for key, _ in unstage(NAME, len(waiting))] == [key for key, _ in waiting]
    mixed = [*waiting[:3], *records, *waiting[3:]]
    assert models(restored(mixed, spec_of())[0]) == models(processor)


class TestMoments:
    def contents(self, count: int = 6) -> Contents:
        """Checkpoint c of a partition was written c seconds after 1970."""
        checkpointer, contents = Checkpointer(Processor(spec_of()), history=2), Contents(0)
        for number in range(1, count + 1):
            for _ in checkpointer.checkpoint(offset=10 * number, time=float(number)):
                pass
            assert checkpointer.last is not None
            contents.markers[number] = checkpointer.last
        return contents

    @pytest.mark.parametrize(
        ("moment", "checkpoint"),
        [(Moment(), 6), (Moment(checkpoint=4), 4), (Moment(back=2), 4), (Moment(time=4.9), 4), (Moment(time=99.0), 6)],
    )
    def test_a_checkpoint_is_found(self, moment: Moment, checkpoint: int) -> None:
        assert moment.marker(self.contents()).checkpoint == checkpoint

    @pytest.mark.parametrize("moment", [Moment(checkpoint=7), Moment(back=6), Moment(time=0.5)])
    def test_what_is_not_there_is_refused_with_what_is(self, moment: Moment) -> None:
        with pytest.raises(ModelsError, match=r"partition 0 has no such checkpoint; it has 4 \(1970-01-01T00:00:04\+00:00\), 5"):
            moment.marker(self.contents())

    def test_a_partition_without_a_checkpoint_says_so(self) -> None:
        with pytest.raises(ModelsError, match="partition 0 has no checkpoint yet"):
            Moment().marker(Contents(0))

    def test_times_are_read_and_shown(self) -> None:
        assert parse_time("2026-01-31T12:00:00+01:00") == datetime(2026, 1, 31, 11, tzinfo=UTC).timestamp()
        assert show_time(parse_time("2026-01-31T12:00+00:00")) == "2026-01-31T12:00:00+00:00"
        with pytest.raises(ModelsError, match="'noon' is not a time like"):
            parse_time("noon")


def test_records_for_staging_need_no_keys() -> None:
    """What a worker does with staged records: the values say what they are."""
    processor = Processor(spec_of())
    processor.process(events(30))
    restorer = Restorer(spec_of())
    for _, value in stage(NAME, [Record(b"ignored", value) for _, value in checkpoint(Checkpointer(processor))]):
        restorer.add(None, value)
    assert restorer.finish() is not None
    assert models(restorer.processor) == models(processor)
