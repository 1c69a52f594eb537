"""Files of models: written from a models topic, read and staged in one."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from streamlearn.agents.recovery import add_record
from streamlearn.agents.stream import Stream
from streamlearn.checkpoint.archive import ArchiveWriter, export, read_archive, restore
from streamlearn.checkpoint.codec import Record, decode
from streamlearn.checkpoint.marker import Marker
from streamlearn.checkpoint.snapshot import Checkpointer
from streamlearn.checkpoint.staging import stage, unstage
from streamlearn.config import Config, StreamConfig
from streamlearn.kafka.clients import Partition, client_logger, staging_properties
from streamlearn.kafka.reader import PartitionReader
from streamlearn.models.errors import ModelsError
from streamlearn.models.listing import read_contents
from streamlearn.models.moments import Moment
from streamlearn.processor import Processor

_TIMEOUT = 60.0  # seconds until the broker must have taken staged records


class Staged(NamedTuple):
    """Where models wait in a partition of the models topic: offsets from `start` to before `end`, so many records."""

    identifier: str
    partition: int
    start: int
    end: int
    records: int


def export_models(config: Config, stream: StreamConfig, path: Path, keys: Sequence[str], moment: Moment) -> int:
    """Write the models of a stream, all or those of some keys, to a file; returns how many.

    With all keys the file has a section for every partition, in order. Raises ModelsError, CheckpointError, ReadError, OSError.
    """
    running = Stream(stream, config.worker.dtype)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with PartitionReader(config.kafka.client_properties()) as reader, unfinished.open("xb") as file:
            count = _export(reader, running, ArchiveWriter(file), keys, moment)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def count_sections(path: Path) -> int:
    """How many partitions a file holds. Reads it to its end: raises CheckpointError unless all of it is right, OSError."""
    with path.open("rb") as file:
        headers = (decode(value).header for _, value in read_archive(file) if value is not None)
        return sum(header.model is None and header.chunk == 0 for header in headers)


def read_sections(path: Path, running: Stream, keys: Sequence[str]) -> Iterator[tuple[int, Iterator[Record]]]:
    """The records of each section of a file as a checkpoint by itself, of some keys only where keys are named; sections with none are
    left out. Raises CheckpointError, MismatchError for another learner's file, OSError.
    """
    with path.open("rb") as file:
        for number, (processor, marker) in enumerate(restore(file, running.spec, running.shared, running.config.memory.max_models)):
            processor.router.release([key for key in set(processor.router.all_keys()) if keys and key not in keys])
            if len(processor.router) or not keys:
                checkpointer = Checkpointer(processor)
                checkpointer.begin_epoch()
                yield number, checkpointer.checkpoint(offset=marker.offset, time=marker.time)


class Staging:
    """Puts models into a models topic, where they wait to be imported, and removes them afterwards."""

    def __init__(self, config: Config, stream: StreamConfig) -> None:
        self._topic = stream.models_topic
        self._producer = Producer(staging_properties(config.kafka.client_properties()), logger=client_logger())
        self._staged: list[Staged] = []

    def put(self, partition: int, identifier: str, records: Iterable[Record]) -> Staged:
        """Stage the records of a section. Raises ModelsError."""
        offsets = self._produce(partition, stage(identifier, records))
        staged = Staged(identifier, partition, min(offsets), max(offsets) + 1, len(offsets))
        self._staged.append(staged)
        return staged

    def clear(self) -> None:
        """Delete what was staged. Raises ModelsError."""
        for staged in self._staged:
            self._produce(staged.partition, unstage(staged.identifier, staged.records))
        self._staged.clear()

    def _produce(self, partition: int, records: Iterator[Record]) -> list[int]:
        offsets: list[int] = []
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                errors.append(error)
            else:
                offsets.append(message.offset() or 0)

        for key, value in records:
            while True:
                try:
                    self._producer.produce(self._topic, value, key, partition, on_delivery=delivered)
                    break
                except BufferError:  # the local queue is full
                    self._producer.poll(0.1)
        if self._producer.flush(_TIMEOUT):
            raise ModelsError(f"the broker did not take the models for {self._topic} [{partition}] within {_TIMEOUT:g} s")
        if errors:
            raise ModelsError(f"the broker did not take the models for {self._topic} [{partition}]: {errors[0].str()}")
        return offsets


def _export(reader: PartitionReader, running: Stream, archive: ArchiveWriter, keys: Sequence[str], moment: Moment) -> int:
    missing, count = set(keys), 0
    for partition in reader.partitions(running.config.models_topic):
        processor, marker = _restored(reader, running, partition, moment)
        chosen = [key for key in keys if key in processor.router] if keys else None
        if marker is None:
            archive.add(Checkpointer(processor).checkpoint(offset=0, time=time.time()))
        elif chosen is None or chosen:
            export(archive, processor, marker, chosen)
            count += len(processor.router)
            missing -= set(chosen or ())
    if missing:
        raise ModelsError(f"{running.config.models_topic} has no model for: {', '.join(map(repr, sorted(missing)))}")
    archive.close()
    return count


def _restored(reader: PartitionReader, running: Stream, partition: Partition, moment: Moment) -> tuple[Processor, Marker | None]:
    upto = None if moment == Moment() else moment.marker(read_contents(reader, partition)).checkpoint
    restorer = running.restorer(upto)
    for message in reader.records(partition):
        add_record(restorer, message)
    marker = restorer.finish()
    return restorer.processor, marker
