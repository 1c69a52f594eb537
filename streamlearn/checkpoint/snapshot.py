"""From a processor to the records of a checkpoint."""

import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from streamlearn.checkpoint.codec import DEFAULT_LIMIT, Header, Model, Record, RecordName, encode, tombstones
from streamlearn.checkpoint.errors import MismatchError
from streamlearn.checkpoint.identity import identify
from streamlearn.checkpoint.marker import Marker, encode_marker
from streamlearn.checkpoint.state import pack
from streamlearn.features.compiled import Array
from streamlearn.processor import Processor

DEFAULT_HISTORY = 3
REMEMBERED = 32  # commands


class Totals(NamedTuple):
    """Models that belong to the checkpoint but are not in memory: how many, and the sum of their versions."""

    models: int = 0
    writes: int = 0


NOTHING = Totals()


class Checkpointer:
    """Writes the checkpoints of one partition's processor: numbers them and keeps the last ones addressable.

    `last` is the marker of the newest checkpoint, all that must be known to write the next; None before the first.
    """

    def __init__(
        self, processor: Processor, last: Marker | None = None, *, history: int = DEFAULT_HISTORY, limit: int = DEFAULT_LIMIT
    ) -> None:
        """history: N, how many checkpoints stay addressable, >= 1. limit: bytes of a record, key included."""
        self.last = last
        self.commands = last.commands if last else ()  # that changed the models: a command that is delivered twice is followed once
        self.identity = identify(processor.spec, processor.pool.shared)
        self._processor = processor
        self._epoch = last.epoch if last else 1
        self._ring = history + 1
        self._limit = limit

    def begin_epoch(self) -> None:
        """Let the next checkpoint consist of this processor's models only, all of them written: after a restart or a rollback."""
        self._epoch = self.last.epoch + 1 if self.last else 1
        self._processor.router.versions[:] = 0
        self._processor.router.touch_all()

    def remember(self, command: str) -> None:
        """Let the next checkpoint say that a command has changed the models."""
        self.commands = (*self.commands, command)[-REMEMBERED:]

    def checkpoint(
        self, *, offset: int, time: float, mistakes: Array | None = None, deleted: Sequence[str] = (), away: Totals = NOTHING
    ) -> Iterator[Record]:
        """The records of one checkpoint, to be written in this order and in one transaction. All of them must be taken.

        offset: C, the next input offset to learn. time: seconds since 1970. mistakes: int64 [slots], for the headers.
        deleted: keys released for good since the last checkpoint. away: models that the processor has evicted.
        Raises MismatchError if other hyper-parameters wrote the last checkpoint and no epoch has begun, CheckpointError if a model
        cannot be written.
        """
        self._refuse_to_mix()
        last = self.last
        ring, chunks = max(self._ring, last.ring if last else 1), last.chunks if last else 1
        for key in deleted:
            yield from tombstones(key, ring, chunks)
        slots = self._processor.router.take_changed().tolist()
        place = Header(checkpoint=last.checkpoint + 1 if last else 1, epoch=self._epoch, offset=offset, size=0, checksum=0)
        for records in self._models(slots, place, mistakes):
            chunks = max(chunks, len(records))
            yield from records
        versions = self._processor.router.versions
        self.last = Marker(
            checkpoint=place.checkpoint,
            epoch=place.epoch,
            offset=offset,
            time=time,
            fingerprint=self.identity.fingerprint,
            description=dict(self.identity.description),
            classes=tuple(self._processor.classes),
            written=len(slots),
            models=int((versions > 0).sum()) + away.models,
            writes=int(versions.sum()) + away.writes,
            deleted=(last.deleted if last else 0) + len(deleted),
            ring=ring,
            chunks=chunks,
            commands=self.commands,
        )
        yield from encode_marker(self.last, self._ring, self._limit)

    def _refuse_to_mix(self) -> None:
        if self.last and self.last.epoch == self._epoch and self.last.fingerprint != self.identity.fingerprint:
            raise MismatchError("other hyper-parameters wrote the last checkpoint: begin an epoch first")

    def _models(self, slots: list[int], place: Header, mistakes: Array | None) -> Iterator[list[Record]]:
        """The records of each model, its version one higher than before."""
        pool, router, spec = self._processor.pool, self._processor.router, self._processor.spec
        router.versions[slots] += 1
        versions, learned = router.versions[slots].tolist(), pool["learned"][slots].tolist()
        wrong = [None] * len(slots) if mistakes is None else mistakes[slots].tolist()
        learner, task, dtype, classes = spec.pipeline.learner.name, spec.task.value, spec.dtype.name, len(self._processor.classes)
        for i, (table, payload) in enumerate(pack(pool, slots)):
            key = router.key(slots[i])
            model = Model(key, versions[i], learner, self.identity.fingerprint, task, dtype, spec.dim, learned[i], classes, table, wrong[i])
            header = Header(place.checkpoint, place.epoch, place.offset, len(payload), zlib.crc32(payload), model=model)
            yield encode(header, RecordName.of_model(key, place.epoch, versions[i], self._ring), payload, self._limit)
