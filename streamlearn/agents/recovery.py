"""Recovery of a partition's models: the last checkpoint, then every event since, learned again and not emitted."""

from collections.abc import Iterator

import structlog
from confluent_kafka import Message

from streamlearn.agents.partition import PartitionModels
from streamlearn.checkpoint.errors import CheckpointError, MismatchError
from streamlearn.checkpoint.marker import Marker
from streamlearn.checkpoint.restore import Restorer
from streamlearn.config import CheckpointConfig
from streamlearn.kafka.reader import PartitionReader
from streamlearn.kafka.records import by_partition
from streamlearn.metrics import Metrics

log = structlog.get_logger(__name__)


class RecoveryError(Exception):
    """The models of a partition cannot be recovered as configured; the text names the remedy."""


def recover(models: PartitionModels, reader: PartitionReader, settings: CheckpointConfig, metrics: Metrics) -> Iterator[None]:
    """Bring a partition's models to its committed offset, bit-identical to those that were lost. A step per batch that was read.

    Raises RecoveryError, CheckpointError, ReadError.
    """
    restorer = models.stream.restorer()
    yield from _read_checkpoint(models, reader, restorer)
    start = _begin(models, restorer, settings, metrics)
    stream, number, total = models.stream.config.name, models.partition.partition, models.committed - start
    metrics.recovering(stream, number, total, 0)
    models.next_offset = start
    for messages in reader.read(models.partition, start, models.committed):
        for records in by_partition(messages):
            models.learn(models.stream.decode(records))
        metrics.recovering(stream, number, total, models.next_offset - start)
        yield
    models.next_offset = models.committed
    metrics.recovering(stream, number, total, total)
    log.info("recovered", stream=stream, partition=number, replayed=total, offset=models.committed, models=len(models.processor.router))


def _read_checkpoint(models: PartitionModels, reader: PartitionReader, restorer: Restorer) -> Iterator[None]:
    partition = models.models_partition
    low, _ = reader.bounds(partition)
    for messages in reader.read(partition, low):
        for message in messages:
            add_record(restorer, message)
        yield


def add_record(restorer: Restorer, message: Message) -> None:
    """Hand a record to a restorer; an error says where the record is. Raises CheckpointError."""
    try:
        restorer.add(message.key(), message.value())
    except CheckpointError as error:
        raise error.at(str(message.topic()), message.partition() or 0, message.offset() or 0) from None


def _begin(models: PartitionModels, restorer: Restorer, settings: CheckpointConfig, metrics: Metrics) -> int:
    """Install the restored models; returns the offset from which events are learned again."""
    try:
        marker = restorer.finish()
    except MismatchError as error:
        return _begin_anew(models, restorer.newest, error, settings)
    except CheckpointError as error:
        partition = models.models_partition
        raise RecoveryError(f"{partition.topic} [{partition.partition}]: {error}") from error
    models.begin(restorer.processor, marker)
    if marker is None:
        return _after_gap(models, models.earliest if models.known else models.committed, settings, metrics)
    return _after_gap(models, _checked_start(models, marker), settings, metrics)


def _begin_anew(models: PartitionModels, last: Marker | None, cause: MismatchError, settings: CheckpointConfig) -> int:
    place = f"{models.models_partition.topic} [{models.models_partition.partition}]"
    if settings.on_change == "refuse":
        raise RecoveryError(
            f"{place}: {cause}. Restore the old settings, or set checkpoint.on_change to restart (fresh models from here on) "
            "or replay-from-earliest (fresh models that learn all events still in the topic)"
        ) from cause
    log.warning("models begin anew", partition=place, policy=settings.on_change, cause=str(cause))
    models.begin(models.stream.processor(), last, new_epoch=True)
    return models.committed if settings.on_change == "restart" else models.earliest


def _checked_start(models: PartitionModels, marker: Marker) -> int:
    place = f"{models.partition.topic} [{models.partition.partition}]"
    if not models.known:
        raise RecoveryError(
            f"{place}: the models have learned up to offset {marker.offset}, but the group has no committed offset any more. Set it with "
            "Kafka's consumer-group tool to the offset after the last prediction, or use another `app` name to begin anew"
        )
    if marker.offset > models.committed:
        raise RecoveryError(
            f"{place}: the models have learned up to offset {marker.offset}, but the group's committed offset was set back to "
            f"{models.committed}. Set it forward again, or use another `app` and models topic to predict these events anew"
        )
    return marker.offset


def _after_gap(models: PartitionModels, start: int, settings: CheckpointConfig, metrics: Metrics) -> int:
    lost = models.earliest - start
    if lost <= 0:
        return start
    place = f"{models.partition.topic} [{models.partition.partition}]"
    if settings.on_gap == "stop":
        raise RecoveryError(
            f"{place}: recovery needs the events from offset {start}, retention has deleted those before {models.earliest}. "
            "Set checkpoint.on_gap to continue to go on from the checkpoint without them"
        )
    log.error("events that recovery needs are gone", partition=place, lost=lost)
    metrics.lost(models.stream.config.name, models.partition.partition, lost)
    return min(models.earliest, models.committed)
