"""Which model an event belongs to: keys to slots of a pool."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from streamlearn.features.compiled import Array
from streamlearn.learners.protocol import Pool


class Router:
    """Keys and the slots of their models in one pool. A key that is met for the first time gets a fresh model.

    For checkpoints it remembers which models changed since the last one, and how often each has been written.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._slots: dict[str, int] = {}
        self._keys: list[str | None] = []
        self._free: list[int] = []
        self._changed = np.zeros(0, np.bool_)
        self.versions = np.zeros(0, np.int64)  # [slots or more]: checkpoints that hold the model; 0 for a free slot

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, key: str) -> bool:
        return key in self._slots

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self._slots.items())

    def slot(self, key: str) -> int:
        """The slot of a key, new or not."""
        slot = self._slots.get(key)
        return self._open(key) if slot is None else slot

    def slots(self, keys: Sequence[str]) -> Array:
        """int64 [n]: the slot of each key."""
        known = self._slots
        try:
            return np.fromiter(map(known.__getitem__, keys), np.int64, len(keys))
        except KeyError:
            return np.fromiter(map(self.slot, keys), np.int64, len(keys))

    def key(self, slot: int) -> str:
        """The key whose model is in `slot`. Raises KeyError if the slot is free."""
        key = self._keys[slot]
        if key is None:
            raise KeyError(slot)
        return key

    def touch(self, slots: Array) -> None:
        """Mark the models in these slots as changed."""
        self._changed[slots] = True

    def touch_all(self) -> None:
        """Mark every model as changed."""
        self.touch(np.fromiter(self._slots.values(), np.int64, len(self._slots)))

    def take_changed(self) -> Array:
        """int64 [n]: the slots marked since the last call, ascending."""
        slots = np.flatnonzero(self._changed)
        self._changed[slots] = False
        return slots

    def release(self, keys: Iterable[str]) -> None:
        """Forget these keys; their slots become fresh models for others."""
        for key in keys:
            slot = self._slots.pop(key)
            self._keys[slot] = None
            self._pool.reset(slot)
            self._changed[slot], self.versions[slot] = False, 0
            self._free.append(slot)

    def _open(self, key: str) -> int:
        if self._free:
            slot = self._free.pop()
            self._keys[slot] = key
        else:
            slot = self._pool.add()
            self._keys.append(key)
            self._track(slot)
        self._slots[key] = slot
        return slot

    def _track(self, slot: int) -> None:
        if slot >= len(self._changed):
            more = max(64, slot)
            self._changed, self.versions = np.pad(self._changed, (0, more)), np.pad(self.versions, (0, more))
