"""Changes of models that people ask for: rollback, import, delete. The worker that owns a partition makes them, between two transactions.

What a change needs is read beside the learning; the change itself, its checkpoint and the offsets are one transaction. The checkpoint
remembers the command, so one that is delivered twice is followed once.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

import structlog
from msgspec import Meta, Struct

from streamlearn.agents.loop import LearningLoop
from streamlearn.agents.partition import Change, ChangeError, PartitionModels
from streamlearn.agents.recovery import add_record
from streamlearn.agents.stream import Stream
from streamlearn.checkpoint.archive import adopt
from streamlearn.checkpoint.errors import CheckpointError
from streamlearn.checkpoint.staging import is_staged
from streamlearn.kafka.clients import Partition
from streamlearn.kafka.reader import PartitionReader, ReadError
from streamlearn.processor import Processor

log = structlog.get_logger(__name__)

Identifier = Annotated[str, Meta(pattern=r"^[0-9a-f]{8,32}$")]
Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Command(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="command", tag=str.lower):
    """A change of the models of one partition of a stream. `id` names it in the answer and in the checkpoint."""

    id: Identifier
    stream: str
    partition: Natural


class Rollback(Command, frozen=True):
    """The models go back to what they were at an earlier checkpoint; events since are not learned again."""

    checkpoint: Annotated[int, Meta(ge=1)]


class Import(Command, frozen=True):
    """Models staged in the models topic under this command's id, at offsets from `start` to before `end`, join the stream's models.

    replace: they take the place of all models of the partition.
    """

    start: Natural
    end: Natural
    replace: bool = False


class Delete(Command, frozen=True):
    """The models of these keys are gone for good, from earlier checkpoints too; a key that returns begins anew."""

    keys: Annotated[tuple[str, ...], Meta(min_length=1)]


ModelCommand = Rollback | Import | Delete
MODEL_COMMANDS = frozenset({"rollback", "import", "delete"})
Outcome = Literal["done", "refused"]


class Answer(Struct, frozen=True, kw_only=True):
    """What became of a command."""

    answer: str  # the command's id
    worker: str
    stream: str
    partition: int
    outcome: Outcome
    detail: str


class ModelCommands:
    """Follows commands on the partitions that this worker owns."""

    def __init__(self, worker: str, streams: Mapping[str, Stream], loop: LearningLoop, open_reader: Callable[[], PartitionReader]) -> None:
        """streams: by input topic. open_reader: a reader of its own for each command."""
        self._worker = worker
        self._streams = {stream.config.name: stream for stream in streams.values()}
        self._loop = loop
        self._open_reader = open_reader

    def follow(self, command: ModelCommand) -> Answer | None:
        """Make the change; None when another worker owns the partition. Raises SinkError when the worker cannot go on."""
        stream = self._streams.get(command.stream)
        if stream is None or not self._loop.owns(Partition(stream.config.input_topic, command.partition)):
            return None
        outcome, detail = self._attempt(stream, command)
        log.warning("model command", kind=type(command).__name__.lower(), stream=command.stream, partition=command.partition,
                    outcome=outcome, detail=detail)  # fmt: skip
        return Answer(
            answer=command.id, worker=self._worker, stream=command.stream, partition=command.partition,
            outcome=outcome, detail=detail,
        )  # fmt: skip

    def _attempt(self, stream: Stream, command: ModelCommand) -> tuple[Outcome, str]:
        try:
            change = self._prepare(stream, command)
            return "done", self._loop.change(Partition(stream.config.input_topic, command.partition), command.id, change)
        except (ChangeError, CheckpointError, ReadError) as error:
            return "refused", str(error)

    def _prepare(self, stream: Stream, command: ModelCommand) -> Change:
        match command:
            case Rollback():
                return self._rollback(stream, command)
            case Import():
                return self._import(stream, command)
            case Delete():
                return lambda models: f"{models.delete(command.keys)} of {len(command.keys)} models deleted"

    def _rollback(self, stream: Stream, command: Rollback) -> Change:
        restorer = stream.restorer(upto=command.checkpoint)
        with self._open_reader() as reader:
            for message in reader.records(Partition(stream.config.models_topic, command.partition)):
                add_record(restorer, message)
        marker = restorer.finish()
        if marker is None:
            raise CheckpointError("there is no checkpoint yet")
        return _replacement(restorer.processor, f"as they were at checkpoint {marker.checkpoint}, offset {marker.offset}")

    def _import(self, stream: Stream, command: Import) -> Change:
        source = self._staged(stream, command)
        if command.replace:
            return _replacement(source, "as in the file")
        return lambda models: f"{adopt(models.processor, source)} models imported"

    def _staged(self, stream: Stream, command: Import) -> Processor:
        restorer = stream.restorer()
        with self._open_reader() as reader:
            for messages in reader.read(Partition(stream.config.models_topic, command.partition), command.start, command.end):
                for message in messages:
                    if is_staged(message.key(), command.id) and message.value() is not None:
                        restorer.add(None, message.value())
        if restorer.finish() is None:
            raise CheckpointError(f"no models were staged under {command.id} between offsets {command.start} and {command.end}")
        return restorer.processor


def _replacement(processor: Processor, origin: str) -> Change:
    def change(models: PartitionModels) -> str:
        models.replace(processor)
        return f"{len(processor.router)} models, {origin}"

    return change
