"""Models that are away from memory: a private database on disk, which nobody else can open and which ends with the process."""

import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from streamlearn.checkpoint.codec import ArrayEntry
from streamlearn.checkpoint.state import pack, unpack, write
from streamlearn.features.compiled import Array
from streamlearn.learners.protocol import Pool

CACHE_KIB = 8192  # of pages in memory
TALLIED = ("learned", "mistakes", "label_counts")  # counters whose sums over all models are asked for, where a pool has them
_BLOCK = 256  # models taken from the database at a time

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -{cache};
CREATE TABLE models (
    key TEXT PRIMARY KEY, version INTEGER NOT NULL, changed INTEGER NOT NULL, learned INTEGER NOT NULL, mistakes INTEGER,
    arrays BLOB NOT NULL, payload BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX changed ON models (key) WHERE changed;
"""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[ArrayEntry, ...]).decode


class SpillError(Exception):
    """Models cannot be moved between memory and disk; the text names the remedy."""


class Packed(NamedTuple):
    """A model as it is stored."""

    key: str
    version: int
    learned: int
    mistakes: int | None
    arrays: tuple[ArrayEntry, ...]
    payload: bytes


class Spill:
    """Models of one pool on disk, bit for bit.

    The database has no name: it is an unlinked file in SQLite's folder for temporary files (SQLITE_TMPDIR, else TMPDIR, /var/tmp, /tmp), so
    it vanishes with the process, however that ends. Nothing is lost with it: every model is in the models topic, or will be
    learned again from the input.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._count = 0
        self._tallies: dict[str, Array] = {}
        self.written = self.writes = 0  # models that are in the checkpoint, and the sum of their versions
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)  # one thread at a time uses it
        weakref.finalize(self, self._database.close)
        self._database.executescript(_SCHEMA.format(cache=CACHE_KIB))
        self._execute("BEGIN")  # and never ends: what is not committed costs no synchronisation

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: str) -> bool:
        return self._execute("SELECT 1 FROM models WHERE key = ?", key).fetchone() is not None

    def keys(self) -> Iterator[str]:
        """The keys, ascending. Models may come and go in the meantime."""
        last = ""
        rows = self._execute("SELECT key FROM models ORDER BY key LIMIT ?", _BLOCK).fetchall()
        while rows:
            for (last,) in rows:
                yield last
            rows = self._execute("SELECT key FROM models WHERE key > ? ORDER BY key LIMIT ?", last, _BLOCK).fetchall()

    def put(self, keys: Sequence[str], slots: Array, versions: Array, changed: Array) -> None:
        """Copy the models in these slots to disk, with how often each was written and whether it has changed since. Raises SpillError."""
        if not len(slots):
            return
        self._tally(slots, 1)
        learned, mistakes = self._pool["learned"][slots].tolist(), self._mistakes(slots)
        models = zip(keys, versions.tolist(), changed.tolist(), learned, mistakes, pack(self._pool, slots), strict=True)
        for key, version, is_changed, count, wrong, (arrays, payload) in models:
            self._execute(
                "INSERT INTO models VALUES (?, ?, ?, ?, ?, ?, ?)", key, version, is_changed, count, wrong, _encode(arrays), payload
            )
            self._add(version, 1)

    def take(self, key: str, slot: int) -> tuple[int, bool] | None:
        """Move a model back into the pool; returns how often it was written and whether it has changed since, None if it is not here.

        Raises SpillError.
        """
        row = self._execute("SELECT version, changed, arrays, payload FROM models WHERE key = ?", key).fetchone()
        if row is None:
            return None
        version, changed, arrays, payload = row
        write(self._pool, slot, unpack(_decode(arrays), payload))
        self._execute("DELETE FROM models WHERE key = ?", key)
        self._add(version, -1)
        self._tally(np.array([slot]), -1)
        return version, bool(changed)

    def version(self, key: str) -> int:
        """How often a model was written, 0 if it is not here or never was."""
        row = self._execute("SELECT version FROM models WHERE key = ?", key).fetchone()
        return int(row[0]) if row else 0

    def take_changed(self) -> Iterator[Packed]:
        """The models that changed since they were last taken so, their versions one higher than before. Raises SpillError."""
        while rows := self._execute(
            "SELECT key, version + 1, learned, mistakes, arrays, payload FROM models WHERE changed ORDER BY key LIMIT ?", _BLOCK
        ).fetchall():
            for key, version, learned, mistakes, arrays, payload in rows:
                self._execute("UPDATE models SET version = ?, changed = 0 WHERE key = ?", version, key)
                self.written, self.writes = self.written + (version == 1), self.writes + 1
                yield Packed(key, version, learned, mistakes, _decode(arrays), payload)

    def forget_versions(self) -> None:
        """Let all models be changed and never written. Raises SpillError."""
        self._execute("UPDATE models SET version = 0, changed = 1")
        self.written = self.writes = 0

    def tally(self, name: str) -> Array | None:
        """The sum over all models of one of the TALLIED arrays, None if the pool lacks it or no model was ever here."""
        return self._tallies.get(name)

    def _mistakes(self, slots: Array) -> list[int | None]:
        return self._pool["mistakes"][slots].tolist() if "mistakes" in self._pool.names else [None] * len(slots)

    def _add(self, version: int, sign: int) -> None:
        self._count += sign
        self.written, self.writes = self.written + sign * (version > 0), self.writes + sign * version

    def _tally(self, slots: Array, sign: int) -> None:
        for name in self._pool.names:
            if name in TALLIED:
                total = np.array(sign * self._pool[name][slots].sum(axis=0))
                known = self._tallies.get(name)
                if known is not None:
                    total[tuple(slice(length) for length in known.shape)] += known
                self._tallies[name] = total

    def _execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        try:
            return self._database.execute(statement, values)
        except sqlite3.Error as error:
            raise SpillError(
                f"models cannot be moved between memory and disk: {error}. Give the folder of temporary files more room, name another "
                "with SQLITE_TMPDIR, or raise memory.max_models"
            ) from error
