"""Which model an event belongs to: keys to slots of a pool, and models that are away from memory."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from streamlearn.features.compiled import Array
from streamlearn.learners.protocol import Pool
from streamlearn.spill import Packed, Spill

_BEYOND = 16  # evict this share of the limit more than needed, so that not every batch evicts
_MOST_BEYOND = 4096  # models


class Written(NamedTuple):
    """What a checkpoint consists of."""

    models: int
    writes: int  # the sum of the models' versions


class Router:
    """Keys and the slots of their models in one pool. A key that is met for the first time gets a fresh model.

    Models that were not used for longest can be evicted to disk; they come back, bit for bit, when their key does. For checkpoints the
    router remembers which models changed since the last one, and how often each has been written.
    """

    def __init__(self, pool: Pool, limit: int | None = None) -> None:
        """limit: models that `trim` leaves in memory, None for all."""
        self.limit = limit
        self.evictions = self.returns = 0  # so far
        self._pool = pool
        self._slots: dict[str, int] = {}
        self._keys: list[str | None] = []
        self._free: list[int] = []
        self._spill: Spill | None = None
        self._changed = np.zeros(0, np.bool_)
        self._used = np.zeros(0, np.int64)
        self.now = 0  # counts the calls that use models
        self.versions = np.zeros(0, np.int64)  # [slots or more]: checkpoints that hold the model; 0 for a free slot

    def __len__(self) -> int:
        """Models in memory or away."""
        return len(self._slots) + self.away

    def __contains__(self, key: str) -> bool:
        return key in self._slots or (self._spill is not None and key in self._spill)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Keys and slots of the models in memory."""
        return iter(self._slots.items())

    @property
    def in_memory(self) -> int:
        return len(self._slots)

    @property
    def away(self) -> int:
        """Models on disk."""
        return 0 if self._spill is None else len(self._spill)

    def all_keys(self) -> Iterator[str]:
        """The keys of all models. Models may be evicted and come back in the meantime; a key may then come twice."""
        return chain(list(self._slots), () if self._spill is None else self._spill.keys())

    def slot(self, key: str) -> int:
        """The slot of a key, new or not. A model that was away comes back. Raises SpillError."""
        if key not in self._slots:
            self._open([key])
        return self._slots[key]

    def slots(self, keys: Sequence[str]) -> Array:
        """int64 [n]: the slot of each key. Models that were away come back. Raises SpillError."""
        known = self._slots
        try:
            slots = np.fromiter(map(known.__getitem__, keys), np.int64, len(keys))
        except KeyError:
            self._open([key for key in dict.fromkeys(keys) if key not in known])
            slots = np.fromiter(map(known.__getitem__, keys), np.int64, len(keys))
        self.now += 1
        self._used[slots] = self.now
        return slots

    def key(self, slot: int) -> str:
        """The key whose model is in `slot`. Raises KeyError if the slot is free."""
        key = self._keys[slot]
        if key is None:
            raise KeyError(slot)
        return key

    def release(self, keys: Iterable[str]) -> None:
        """Forget these keys; their slots become fresh models for others. Raises KeyError, SpillError."""
        for key in keys:
            if key not in self:
                raise KeyError(key)
            self._close(key, self.slot(key))

    # Away and back.

    def trim(self) -> None:
        """Evict the models that were not used for longest until the limit is kept. Raises SpillError."""
        surplus = self.in_memory - self.limit if self.limit is not None else 0
        if surplus > 0 and self.limit is not None:
            count = min(self.in_memory, surplus + min(self.limit // _BEYOND, _MOST_BEYOND))
            slots = self._occupied()
            self.evict(slots[np.argpartition(self._used[slots], count - 1)[:count]])

    def evict_unused(self, since: int) -> None:
        """Evict the models that were not used after `now` was `since`. Raises SpillError."""
        slots = self._occupied()
        self.evict(slots[self._used[slots] <= since])

    def evict(self, slots: Array) -> None:
        """Move the models in these slots to disk, but for those that have never learned: a fresh one is the same. Raises SpillError."""
        if not len(slots):
            return
        if self._spill is None:
            self._spill = Spill(self._pool)
        keys = [self.key(slot) for slot in slots.tolist()]
        kept = np.flatnonzero((self.versions[slots] > 0) | self._changed[slots])
        self._spill.put([keys[i] for i in kept.tolist()], slots[kept], self.versions[slots[kept]], self._changed[slots[kept]])
        for key, slot in zip(keys, slots.tolist(), strict=True):
            self._close(key, slot)
        self.evictions += len(kept)

    # Checkpoints.

    def touch(self, slots: Array) -> None:
        """Mark the models in these slots as changed."""
        self._changed[slots] = True

    def take_changed(self) -> Array:
        """int64 [n]: the slots marked since the last call, ascending."""
        slots = np.flatnonzero(self._changed)
        self._changed[slots] = False
        return slots

    def take_changed_away(self) -> Iterator[Packed]:
        """The models on disk that were marked since the last call, their versions one higher than before. Raises SpillError."""
        return iter(()) if self._spill is None else self._spill.take_changed()

    def forget_versions(self) -> None:
        """Let all models be changed and in no checkpoint. Raises SpillError."""
        self.versions[:] = 0
        self.touch(self._occupied())
        if self._spill is not None:
            self._spill.forget_versions()

    def version(self, key: str) -> int:
        """How many checkpoints have held a key's model; 0 without a model."""
        slot = self._slots.get(key)
        if slot is not None:
            return int(self.versions[slot])
        return 0 if self._spill is None else self._spill.version(key)

    def written(self) -> Written:
        """The models that checkpoints have held, in memory or away."""
        models, writes = int((self.versions > 0).sum()), int(self.versions.sum())
        return Written(models, writes) if self._spill is None else Written(models + self._spill.written, writes + self._spill.writes)

    def total(self, name: str) -> Array:
        """The sum over all models of one of the counters in `spill.TALLIED`."""
        total: Array = np.array(self._pool[name].sum(axis=0))
        away = None if self._spill is None else self._spill.tally(name)
        if away is not None:
            total[tuple(slice(length) for length in away.shape)] += away
        return total

    def _open(self, keys: Sequence[str]) -> None:
        """Give keys that have no model in memory a fresh one each, or theirs back."""
        slots = [self._free.pop() for _ in keys[: len(self._free)]]
        for key, slot in zip(keys, slots, strict=False):
            self._keys[slot] = key
        more = keys[len(slots) :]
        first = self._pool.add(len(more))
        slots += range(first, first + len(more))
        self._keys += more
        self._track(len(self._keys))
        self._slots.update(zip(keys, slots, strict=True))
        self._used[slots] = self.now
        if self._spill is not None:
            for key, slot in zip(keys, slots, strict=True):
                self._bring_back(self._spill, key, slot)

    def _bring_back(self, spill: Spill, key: str, slot: int) -> None:
        back = spill.take(key, slot)
        if back is not None:
            self.versions[slot], self._changed[slot] = back
            self.returns += 1

    def _close(self, key: str, slot: int) -> None:
        del self._slots[key]
        self._keys[slot] = None
        self._pool.reset(slot)
        self._changed[slot], self.versions[slot] = False, 0
        self._free.append(slot)

    def _occupied(self) -> Array:
        """int64 [n]: the slots in use."""
        return np.fromiter(self._slots.values(), np.int64, len(self._slots))

    def _track(self, count: int) -> None:
        if count > len(self._changed):
            more = max(64, count)
            self._changed, self.versions = np.pad(self._changed, (0, more)), np.pad(self.versions, (0, more))
            self._used = np.pad(self._used, (0, more))
