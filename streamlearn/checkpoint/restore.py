"""From the records of a partition to the processor of a checkpoint."""

from collections.abc import Mapping

from streamlearn.checkpoint.codec import Chunk, Header, Joiner, decode, model_key, title
from streamlearn.checkpoint.errors import CheckpointError, MismatchError
from streamlearn.checkpoint.identity import differences, identify
from streamlearn.checkpoint.marker import Marker, decode_marker
from streamlearn.checkpoint.staging import is_staged
from streamlearn.checkpoint.state import unpack, write
from streamlearn.features.compiled import Array
from streamlearn.learners.protocol import Task
from streamlearn.processor import ModelSpec, Processor

_LISTED = 10


class Restorer:
    """Reads one partition's records in log order and rebuilds a checkpoint: the newest, or number `upto`.

    Models go straight into the pool; only payloads with missing chunks are buffered. Of a model the highest version that is not newer than
    the checkpoint counts, so it does not matter which older records compaction has removed. `processor` is complete after `finish`.
    """

    def __init__(
        self, spec: ModelSpec, shared: Mapping[str, Array] | None = None, *, upto: int | None = None, max_models: int | None = None
    ) -> None:
        """max_models: models in memory at most, the others are evicted to disk; None for all."""
        self.processor = Processor(spec, shared, max_models)
        self.newest: Marker | None = None  # of all that were read, whatever `upto` is
        self._identity = identify(spec, self.processor.pool.shared)
        self._upto = upto
        self._marker: Marker | None = None
        self._numbers: list[int] = []
        self._epoch = 0
        self._last_model = 0  # the highest checkpoint number among the models' records
        self._models = Joiner()
        self._markers = Joiner()

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Take the next record. Raises CheckpointError when it cannot be read or is not of this learner."""
        if is_staged(key):
            return
        if value is None:
            self._forget(key)
            return
        chunk = decode(value)
        if chunk.header.model is None:
            self._add_marker(chunk)
        elif self._upto is None or chunk.header.checkpoint <= self._upto:
            self._add_model(chunk)

    def finish(self) -> Marker | None:
        """Verify that all models of the checkpoint are there; returns its marker, None if the partition has no records.

        Raises MismatchError when another learner or other hyper-parameters wrote it, CheckpointError when it is incomplete.
        """
        marker = self._chosen_marker()
        if marker is None:
            return None
        if marker.fingerprint != self._identity.fingerprint:
            changes = "; ".join(differences(marker.description, self._identity.description))
            raise MismatchError(f"checkpoint {marker.checkpoint} was written by another model: {changes}")
        self._check_chunks()
        self._check_totals(marker)
        self._check_classes(marker)
        self.processor.adopt_classes(marker.classes)
        return marker

    def _add_marker(self, chunk: Chunk) -> None:
        whole = self._markers.add(chunk)
        if whole is None:
            return
        marker = decode_marker(whole[1])
        self._numbers.append(marker.checkpoint)
        if self.newest is None or marker.checkpoint > self.newest.checkpoint:
            self.newest = marker
        if self._upto is None:
            self._marker = self.newest
        elif marker.checkpoint == self._upto:
            self._marker = marker
        if self._marker is not None:
            self._begin(self._marker.epoch)

    def _add_model(self, chunk: Chunk) -> None:
        header = chunk.header
        self._begin(header.epoch)
        if header.model is None or header.epoch < self._epoch:
            return
        self._last_model = max(self._last_model, header.checkpoint)
        if header.model.fingerprint == self._identity.fingerprint:
            whole = self._models.add(chunk)
            if whole is not None:
                self._load(*whole)

    def _begin(self, epoch: int) -> None:
        """Models of an earlier epoch do not belong to the checkpoint."""
        if epoch > self._epoch > 0:
            self.processor = Processor(self.processor.spec, self.processor.pool.shared, self.processor.router.limit)
            self._models = Joiner()
        self._epoch = max(epoch, self._epoch)

    def _load(self, header: Header, payload: bytes | memoryview) -> None:
        model, spec, router = header.model, self.processor.spec, self.processor.router
        if model is None or model.version <= router.version(model.key):
            return
        if spec.task is Task.MULTICLASS:
            if model.classes > max(spec.max_classes, len(spec.labels)):
                raise CheckpointError(f"{title(header)} knows {model.classes} classes, max_classes is {spec.max_classes}")
            self.processor.pool.reserve(outputs=model.classes)
        arrays = unpack(model.arrays, payload)
        slot = router.slot(model.key)
        write(self.processor.pool, slot, arrays)
        router.versions[slot] = model.version
        router.trim()

    def _forget(self, record_key: bytes | None) -> None:
        key = model_key(record_key)
        if key is not None:
            self._models.forget(key)
            if key in self.processor.router:
                self.processor.router.release([key])

    def _chosen_marker(self) -> Marker | None:
        if self._marker is None:
            if self._upto is not None:
                there = ", ".join(map(str, sorted(self._numbers)[-_LISTED:])) or "none"
                raise CheckpointError(f"there is no checkpoint {self._upto}; the newest are: {there}")
            if self._last_model:
                raise CheckpointError(f"there are models of checkpoint {self._last_model} but no marker")
            return None
        if self._last_model > self._marker.checkpoint:
            raise CheckpointError(
                f"there are models of checkpoint {self._last_model}, but the last marker is that of checkpoint {self._marker.checkpoint}: "
                "the topic was not read with isolation.level=read_committed, or was read while a checkpoint was written"
            )
        return self._marker

    def _check_chunks(self) -> None:
        for header, missing in self._models.unfinished().items():
            if header.model and header.model.version > self.processor.router.version(header.model.key):
                raise CheckpointError(f"{missing} of {header.chunks} chunks of {title(header)} are missing")

    def _check_totals(self, marker: Marker) -> None:
        """Deleted models may lack in checkpoints from before their deletion; anything else must be there in the right version."""
        models, writes = self.processor.router.written()
        deleted = self.newest.deleted - marker.deleted if self.newest else 0
        if (models, writes) != (marker.models, marker.writes) and not 0 < marker.models - models <= deleted:
            raise CheckpointError(
                f"checkpoint {marker.checkpoint} consists of {marker.models} models with {marker.writes} writes, "
                f"the topic has {models} models with {writes} writes: records are missing"
            )

    def _check_classes(self, marker: Marker) -> None:
        spec = self.processor.spec
        allowed = max(spec.max_classes, len(spec.labels)) if spec.task is Task.MULTICLASS else 0
        if len(marker.classes) > allowed:
            raise CheckpointError(f"checkpoint {marker.checkpoint} has {len(marker.classes)} classes, {allowed} are allowed")
