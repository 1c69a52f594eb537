"""Asking the running workers to change models: each partition's owner does it between two transactions and answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from streamlearn.agents.commands import Answer, Delete, Import, ModelCommand, Rollback
from streamlearn.agents.stream import Stream
from streamlearn.checkpoint.marker import Marker
from streamlearn.config import Config, StreamConfig
from streamlearn.kafka.clients import Partition
from streamlearn.kafka.reader import PartitionReader
from streamlearn.models.errors import ModelsError
from streamlearn.models.files import Staged, Staging, count_sections, read_sections
from streamlearn.models.listing import read_contents
from streamlearn.models.moments import Moment
from streamlearn.remote import ask_owners, identifier


@dataclass(frozen=True)
class Step:
    """What a rollback would do to a partition."""

    partition: int
    now: Marker
    then: Marker


@dataclass(frozen=True)
class Report:
    """What became of a change: the workers' answers, and partitions for which none came."""

    answers: Sequence[Answer]
    unanswered: Sequence[int]

    @property
    def done(self) -> bool:
        return not self.unanswered and all(answer.outcome == "done" for answer in self.answers)


def plan_rollback(config: Config, stream: StreamConfig, moment: Moment, partition: int | None = None) -> list[Step]:
    """From which checkpoint to which each partition would go, or one of them. Raises ModelsError, CheckpointError, ReadError."""
    steps = []
    with PartitionReader(config.kafka.client_properties()) as reader:
        for candidate in _partitions(reader, stream, partition):
            contents = read_contents(reader, candidate)
            then = moment.marker(contents)
            if contents.newest is not None:
                steps.append(Step(contents.partition, contents.newest, then))
    return steps


def rollback(config: Config, stream: StreamConfig, steps: Sequence[Step], patience: float) -> Report:
    """Let the workers go back. patience: seconds to wait for their answers. Raises ControlError."""
    name = identifier()
    commands = [Rollback(id=name, stream=stream.name, partition=step.partition, checkpoint=step.then.checkpoint) for step in steps]
    return _ask(config, commands, patience)


def delete(config: Config, stream: StreamConfig, keys: Sequence[str], patience: float) -> Report:
    """Let the workers delete the models of these keys in every partition. Raises ControlError, ReadError."""
    name = identifier()
    with PartitionReader(config.kafka.client_properties()) as reader:
        partitions = reader.partitions(stream.models_topic)
    commands = [Delete(id=name, stream=stream.name, partition=number, keys=tuple(keys)) for _, number in partitions]
    return _ask(config, commands, patience)


def import_models(
    config: Config,
    stream: StreamConfig,
    path: Path,
    patience: float,
    *,
    keys: Sequence[str] = (),
    partition: int | None = None,
    replace: bool = False,
) -> Report:
    """Let the workers take models from a file, all or those of some keys, into the partitions they were exported from, or into one.

    replace: the models of the file take the place of all others. Raises ModelsError, CheckpointError, ControlError, ReadError, OSError.
    """
    targets = _targets(config, stream, count_sections(path), partition, replace)
    staging = Staging(config, stream)
    commands: list[ModelCommand] = []
    try:
        for section, records in read_sections(path, Stream(stream, config.worker.dtype), keys):
            staged = staging.put(targets[section], identifier(), records)
            commands.append(_import(stream, staged, replace))
        if not commands:
            raise ModelsError(f"{path} has no models" + (f" of the keys {', '.join(map(repr, keys))}" if keys else ""))
        return _ask(config, commands, patience)
    finally:
        staging.clear()


def _import(stream: StreamConfig, staged: Staged, replace: bool) -> Import:
    return Import(
        id=staged.identifier, stream=stream.name, partition=staged.partition, start=staged.start, end=staged.end, replace=replace
    )  # fmt: skip


def _targets(config: Config, stream: StreamConfig, sections: int, partition: int | None, replace: bool) -> list[int]:
    """The partition that each section of a file goes into. Raises ModelsError, ReadError."""
    with PartitionReader(config.kafka.client_properties()) as reader:
        chosen = [number for _, number in _partitions(reader, stream, partition)]
    if partition is None and len(chosen) == sections:
        return chosen
    if partition is None:
        raise ModelsError(
            f"the file holds models of {sections} partitions, stream {stream.name} has {len(chosen)}: name with --partition the one where "
            "the events of these models' keys arrive"
        )
    if replace and sections > 1:
        raise ModelsError(f"the file holds models of {sections} partitions: they cannot all replace those of partition {partition}")
    return [partition] * sections


def _partitions(reader: PartitionReader, stream: StreamConfig, partition: int | None) -> list[Partition]:
    """All partitions of the models topic, or the one asked for. Raises ModelsError, ReadError."""
    there = reader.partitions(stream.models_topic)
    if partition is None:
        return there
    if partition not in [number for _, number in there]:
        raise ModelsError(f"{stream.models_topic} has no partition {partition}; it has {len(there)}")
    return [Partition(stream.models_topic, partition)]


def _ask(config: Config, commands: Sequence[ModelCommand], patience: float) -> Report:
    answers = ask_owners(config, commands, patience)
    answered = {(answer.answer, answer.partition) for answer in answers}
    return Report(answers, [command.partition for command in commands if (command.id, command.partition) not in answered])
