"""Reading data files: as events, one at a time, and as arrays.

CSV and TSV with a header line, JSON lines, LIBSVM text, and .npz with X and y; all but .npz may be compressed (.gz, .xz).
"""

import csv
import gzip
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

import msgspec
import numpy as np

from streamlearn.features.compiled import Array

Event = Mapping[str, Any]

_DECOMPRESSION: Mapping[str, Callable[[BinaryIO], Iterable[bytes]]] = {".gz": lambda raw: gzip.GzipFile(fileobj=raw), ".xz": lzma.LZMAFile}

_NUMBER = r"[+-]?(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?\d++)?+"
_IS_NUMBER = re.compile(_NUMBER, re.ASCII).fullmatch
_IS_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII).fullmatch
_IS_LIBSVM = re.compile(rf"\s*+{_NUMBER}(?:\s++\d{{1,9}}+:{_NUMBER})*+\s*+", re.ASCII).fullmatch


class FileError(ValueError):
    """A file that cannot be read as what its name says; the text names the file, the line and the problem."""


class EventFile:
    """The events of a file, in its order; a context manager and an iterator.

    `size` and `position` (bytes, of the compressed file) are for progress bars. Raises FileError for an unknown format and for a line
    that cannot be read, OSError where the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = path.stat().st_size
        self._read = _reader(path)
        self._raw = path.open("rb")

    @property
    def position(self) -> int:
        return self.size if self._raw.closed else self._raw.tell()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._raw.close()

    def __iter__(self) -> Iterator[Event]:
        return self._read(self.path, self._raw)


class Arrays(NamedTuple):
    """A data set in memory."""

    X: Array  # float64 [n, dim], dense
    y: Array  # float64 [n]
    permutations: Array | None  # int64 [p, n]: published orders of the rows, where the file has them


def load_arrays(path: Path, *, dim: int | None = None, label: str | None = None) -> Arrays:
    """Read a LIBSVM, .npz, CSV or TSV file of numbers.

    `dim` is the number of features of a LIBSVM file; without it, the largest index that occurs. `label` is the column of a CSV or TSV
    file that holds the label; without it, the last one. Raises FileError and OSError.
    """
    kind = _suffix(path)
    with path.open("rb") as raw:
        if kind == ".npz":
            return _load_npz(path, raw)
        if kind == ".libsvm":
            return _load_libsvm(path, raw, dim)
        if kind in _DELIMITERS:
            return _load_table(path, raw, label)
    raise FileError(f"{path}: a file of arrays ends in .libsvm, .npz, .csv or .tsv (all but .npz may be compressed: .gz, .xz)")


def _suffix(path: Path) -> str:
    """The suffix that names the format, below that of the compression."""
    return (path.with_suffix("") if path.suffix in (".gz", ".xz") else path).suffix


def _reader(path: Path) -> Callable[[Path, BinaryIO], Iterator[Event]]:
    readers: dict[str, Callable[[Path, BinaryIO], Iterator[Event]]] = {
        ".csv": _table_events,
        ".tsv": _table_events,
        ".jsonl": _json_events,
        ".ndjson": _json_events,
        ".libsvm": _libsvm_events,
        ".npz": _npz_events,
    }
    reader = readers.get(_suffix(path))
    if reader is None or (path.suffix in (".gz", ".xz") and reader is _npz_events):
        raise FileError(f"{path}: the name must end in one of {', '.join(readers)} (all but .npz may be compressed: .gz, .xz)")
    return reader


def _lines(path: Path, raw: BinaryIO) -> Iterator[str]:
    """Lines of text, decompressed; damaged files and invalid UTF-8 are a FileError."""
    decompress = _DECOMPRESSION.get(path.suffix)
    number = 0
    try:
        for number, line in enumerate(decompress(raw) if decompress else raw, 1):
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise FileError(f"{path}, line {number}: {error}") from error
    except (lzma.LZMAError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise FileError(f"{path}, after line {number}: {error}") from error


# Tables

_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def _rows(path: Path, raw: BinaryIO) -> Iterator[tuple[int, list[str]]]:
    """The header and the rows of a table, each with its line number."""
    reader = csv.reader(_lines(path, raw), delimiter=_DELIMITERS[_suffix(path)], strict=True)
    try:
        header = next(reader, [])
        if not header or len(set(header)) < len(header):
            raise FileError(f"{path}, line 1: the first line must name the columns, each differently")
        yield 1, header
        for row in reader:
            if len(row) == len(header):
                yield reader.line_num, row
            elif row:
                raise FileError(f"{path}, line {reader.line_num}: {len(row)} cells, but the header names {len(header)}")
    except csv.Error as error:
        raise FileError(f"{path}, line {reader.line_num}: {error}") from error


def _table_events(path: Path, raw: BinaryIO) -> Iterator[Event]:
    rows = _rows(path, raw)
    _, header = next(rows)
    for _, row in rows:
        yield {name: _cell(cell) for name, cell in zip(header, row, strict=True) if cell}


def _cell(cell: str) -> int | float | bool | str:
    if _IS_INTEGER(cell):
        return int(cell)
    if _IS_NUMBER(cell):
        return float(cell)
    return {"true": True, "false": False}.get(cell.lower(), cell)


def _load_table(path: Path, raw: BinaryIO, label: str | None) -> Arrays:
    rows = _rows(path, raw)
    _, header = next(rows)
    name = header[-1] if label is None else label
    if name not in header:
        raise FileError(f"{path}: there is no column {name!r}; the columns are {', '.join(header)}")
    table = np.array([_numbers(path, line, row) for line, row in rows], np.float64).reshape(-1, len(header))
    column = header.index(name)
    return Arrays(np.delete(table, column, axis=1), table[:, column].copy(), None)


def _numbers(path: Path, line: int, row: list[str]) -> list[float]:
    try:
        return list(map(float, row))
    except ValueError as error:
        raise FileError(f"{path}, line {line}: {error}") from error


# JSON lines


def _json_events(path: Path, raw: BinaryIO) -> Iterator[Event]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    for number, line in enumerate(_lines(path, raw), 1):
        if line.strip():
            try:
                yield decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                raise FileError(f"{path}, line {number}: {error}") from error


# LIBSVM: label index:value index:value ..., indices from 1


def _libsvm_lines(path: Path, raw: BinaryIO) -> Iterator[tuple[float, Array, Array]]:
    """Label, indices from 0 (int64) and values (float64) of each line; comments start with #."""
    for number, line in enumerate(_lines(path, raw), 1):
        content = line.partition("#")[0]
        if not _IS_LIBSVM(content):
            if not content.strip():
                continue
            raise FileError(f"{path}, line {number}: {line.strip()[:60]!r} is not `label index:value index:value ...`")
        numbers = np.fromstring(content.replace(":", " "), np.float64, sep=" ")
        indices = numbers[1::2].astype(np.int64) - 1
        if len(indices) and indices.min() < 0:
            raise FileError(f"{path}, line {number}: index 0; LIBSVM indices count from 1")
        yield float(numbers[0]), indices, numbers[2::2]


def _libsvm_events(path: Path, raw: BinaryIO) -> Iterator[Event]:
    for label, indices, values in _libsvm_lines(path, raw):
        yield {"label": int(label) if label.is_integer() else label, "x": dict(zip(indices.tolist(), values.tolist(), strict=True))}


def _load_libsvm(path: Path, raw: BinaryIO, dim: int | None) -> Arrays:
    lines = list(_libsvm_lines(path, raw))
    highest = max((int(indices.max()) + 1 for _, indices, _ in lines if len(indices)), default=0)
    if dim is not None and highest > dim:
        raise FileError(f"{path}: index {highest} is beyond dim = {dim}")
    X = np.zeros((len(lines), highest if dim is None else dim))
    for row, (_, indices, values) in zip(X, lines, strict=True):
        row[indices] = values
    return Arrays(X, np.array([label for label, _, _ in lines], np.float64), None)


# .npz


def _load_npz(path: Path, raw: BinaryIO) -> Arrays:
    try:
        with zipfile.ZipFile(raw), np.load(raw, allow_pickle=False) as archive:
            X, y = np.asarray(archive["X"], np.float64), np.asarray(archive["y"], np.float64)
            permutations = np.asarray(archive["permutations"], np.int64) if "permutations" in archive else None
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise FileError(f"{path}: {error}; expected arrays of numbers X [n, dim] and y [n]") from error
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise FileError(f"{path}: X has shape {X.shape} and y {y.shape}; expected X [n, dim] and y [n]")
    return Arrays(X, y, permutations)


def _npz_events(path: Path, raw: BinaryIO) -> Iterator[Event]:
    X, y, _ = _load_npz(path, raw)
    for row, label in zip(X, y.tolist(), strict=True):
        yield {"label": int(label) if label.is_integer() else label, "x": row.tolist()}
