"""The data sets of the benchmarks, by name: where they lie in the data folder and how their rows become X and y."""

import lzma
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from streamlearn.events.files import Arrays, load_arrays
from streamlearn.features.compiled import Array

DEFAULT_FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"

Load = Callable[[Path], Arrays]


def load(name: str, folder: Path) -> Arrays:
    """A data set of DATASETS. Raises OSError where its file is missing, FileError where it cannot be read."""
    return DATASETS[name](folder)


def _libsvm(*files: str, dim: int | None = None) -> Load:
    def read(folder: Path) -> Arrays:
        parts = [load_arrays(folder / file, dim=dim) for file in files]
        return Arrays(np.concatenate([part.X for part in parts]), np.concatenate([part.y for part in parts]), None)

    return read


def _table(file: str, label: str | None = None) -> Load:
    return lambda folder: load_arrays(folder / file, label=label)


def _without_header(file: str, positive: str | None = None) -> Load:
    """A comma-separated file without names; the last column is the label, `positive` against the rest if it is text."""

    def read(folder: Path) -> Arrays:
        with lzma.open(folder / file, "rt") as lines:
            rows = [line.strip().split(",") for line in lines if line.strip()]
        y = [float(row[-1] == positive) if positive is not None else float(row[-1]) for row in rows]
        return Arrays(np.array([row[:-1] for row in rows], np.float64), np.array(y), None)

    return read


def _abalone(folder: Path) -> Arrays:
    """Sex as a number, as in the LIBSVM file: M 1, F 2, I 3."""
    with lzma.open(folder / "abalone.csv.xz", "rt") as lines:
        rows = [line.strip().split(",") for line in lines if line.strip()][1:]
    sexes = {"M": 1.0, "F": 2.0, "I": 3.0}
    table = np.array([[sexes[row[0]], *map(float, row[1:])] for row in rows])
    return Arrays(table[:, :-1], table[:, -1].copy(), None)


def _late_flights(folder: Path) -> Arrays:
    """Flights from New York in 2013, in time order: is the arrival more than 15 minutes late?"""
    table = load_arrays(folder / "nycflights13_8f.csv.xz", label="arr_delay")
    month, day, departure = table.X[:, 0], table.X[:, 1], table.X[:, 3]
    order = np.lexsort((departure, day, month))
    return Arrays(np.delete(table.X, 1, axis=1)[order], (table.y[order] > 15).astype(float), None)


def _permuted(name: str) -> Load:
    return lambda folder: load_arrays(folder / "permuted" / f"{name}.npz")


def _first(count: int, read: Load) -> Load:
    def first(folder: Path) -> Arrays:
        arrays = read(folder)
        return Arrays(arrays.X[:count], arrays.y[:count], None)

    return first


DATASETS: Mapping[str, Load] = {
    "german": _permuted("german"),
    "dna": _permuted("dna"),
    "housing": _permuted("housing"),
    "diabetes": _libsvm("diabetes.libsvm.xz"),
    "a9a": _libsvm("a9a.libsvm.xz", "a9a.t.libsvm.xz", dim=123),
    "a9a-train": _libsvm("a9a.libsvm.xz", dim=123),
    "w8a-train": _libsvm("w8a.libsvm.xz", dim=300),
    "ijcnn1-train": _libsvm("ijcnn1.libsvm.xz", dim=22),
    "usps-train": _libsvm("usps.libsvm.xz", dim=256),
    "usps": _libsvm("usps.libsvm.xz", "usps.t.libsvm.xz", dim=256),
    "mnist-10k": _libsvm("mnist.t.libsvm.xz", dim=784),
    "mnist": _libsvm("mnist.libsvm.xz", dim=784),
    "abalone": _abalone,
    "cpusmall": _table("cpu_small.csv.xz"),
    "casp": _table("casp.csv.xz"),
    "mushrooms": _libsvm("mushrooms.libsvm.xz", dim=112),
    "phishing": _libsvm("phishing.libsvm.xz", dim=68),
    "covtype-20k": _without_header("covtype_20k.csv.xz"),
    "magic04": _without_header("magic04.csv.xz", positive="g"),
    "pendigits": _libsvm("pendigits.libsvm.xz", dim=16),
    "elec2": _table("elec2.csv.xz"),
    "flights": _late_flights,
}


def unit_range(arrays: Arrays, *, target: bool) -> Arrays:
    """Every column, and the target if asked, mapped to [0, 1] by its smallest and largest value in the whole file; constants become 0."""
    return arrays._replace(X=_to_unit(arrays.X), y=_to_unit(arrays.y[:, None])[:, 0] if target else arrays.y)


def shuffled(arrays: Arrays, seed: int) -> Arrays:
    """The rows in a random order."""
    order = np.random.RandomState(seed).permutation(len(arrays.y))
    return Arrays(arrays.X[order], arrays.y[order], None)


def first_rows(arrays: Arrays, count: int) -> Arrays:
    return Arrays(arrays.X[:count], arrays.y[:count], None)


def _to_unit(columns: Array) -> Array:
    low, high = columns.min(axis=0), columns.max(axis=0)
    scaled: Array = (columns - low) / np.where(high > low, high - low, 1.0)
    return scaled
