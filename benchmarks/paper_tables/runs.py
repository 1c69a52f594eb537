"""One pass of a learner over a data set, prepared as in the paper; every finished one is kept in `results/paper_runs.jsonl`."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.datasets import load, unit_range
from benchmarks.paper_tables.published import PERMUTATIONS, Row, Table
from streamlearn.config import make_learner
from streamlearn.evaluation.backtest import backtest_arrays
from streamlearn.evaluation.study import spec_for
from streamlearn.events.files import Arrays
from streamlearn.features.compiled import Array
from streamlearn.learners.protocol import Pool, Task
from streamlearn.learners.registry import LEARNERS
from streamlearn.quality import auc

RUNS = Path(__file__).parents[1] / "results" / "paper_runs.jsonl"


class Data:
    """Prepared data sets, the last one kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key: tuple[str, str] | None = None
        self._arrays: Arrays | None = None

    def of(self, row: Row) -> Arrays:
        if self._arrays is None or self._key != (row.data, row.unit):
            self._key, self._arrays = (row.data, row.unit), prepare(row, load(row.data, self._folder))
        return self._arrays

    def smallest_first(self, rows: Sequence[Row]) -> list[Row]:
        """By data set, in ascending order of its size; its rows keep their order."""
        sizes = {data: load(data, self._folder).X.size for data in dict.fromkeys(row.data for row in rows)}
        return sorted(rows, key=lambda row: (sizes[row.data], row.data, row.unit))


def prepare(row: Row, arrays: Arrays) -> Arrays:
    """As the papers have them: regression, the stand-ins and pixels in [0, 1], else as they are.

    AVM and RRF (the tables of root mean squares) do not say how they scale the features of casp: standardised, because AVM
    then has as many cores as in its paper. For pairs as the authors' program has them: german and diabetes in [-1, 1], then
    every row divided to norm 4.
    """
    if row.data.startswith("mnist"):
        arrays = arrays._replace(X=arrays.X / 255.0)
    if row.task is Task.REGRESSION:
        scaled = unit_range(arrays, target=True)
        return scaled if row.unit == "mse" else scaled._replace(X=(arrays.X - arrays.X.mean(axis=0)) / arrays.X.std(axis=0))
    if row.data in ("covtype-20k", "flights"):
        return unit_range(arrays, target=False)
    if row.task is Task.RANKING:
        if row.data in ("german", "diabetes"):
            arrays = arrays._replace(X=2.0 * unit_range(arrays, target=False).X - 1.0)
        norms = np.linalg.norm(arrays.X, axis=1, keepdims=True)
        classes = np.unique(arrays.y)
        labels = np.where(arrays.y >= classes[len(classes) // 2], 1.0, -1.0)  # many classes: the upper half against the lower
        return arrays._replace(X=4.0 * arrays.X / np.maximum(norms, 1e-12), y=labels)
    return arrays


@dataclass(frozen=True)
class Run:
    """One finished run of `key`, a data set with a learner's whole table. The figure has the row's unit."""

    key: str
    run: int
    figure: float
    trivial: float
    microseconds: float
    bytes: int
    support: int | None
    rows: int  # of the data set
    dim: int
    late: float | None = None  # the figure of the last fifth of the events (mistakes only)


def play(row: Row, table: Table, arrays: Arrays, order: Array, run: int) -> Run:
    """One pass in an order; random learners draw with a seed of their own in each run."""
    seeded = {"seed": run + 1} if hasattr(LEARNERS[row.learner], "seed") else {}
    learner = make_learner({**table, **seeded})
    spec, labels = spec_for(learner, row.task, arrays, "float32", "none")
    key = key_of(row, table)
    if row.task is Task.RANKING:
        return _rank(key, run, Pool(spec.pipeline, spec.shape(), slots=1), arrays.X, labels, order)
    measures, late = backtest_arrays(spec, arrays.X, labels, order), None
    if measures.mistakes is not None and measures.wrong is not None:
        late = 100.0 * float(np.mean(measures.wrong[-len(measures.wrong) // 5 :]))
        figures = [100.0 * count / measures.labelled for count in (measures.mistakes, measures.trivial or 0.0)]
    else:
        figures = [measures.mean_squared_loss or 0.0, measures.trivial or 0.0]
        figures = [float(np.sqrt(figure)) for figure in figures] if row.unit == "rmse" else figures
    return Run(
        key, run, figures[0], figures[1], 1e6 * measures.seconds / measures.events, measures.model_bytes,
        measures.support_vectors, len(arrays.X), arrays.X.shape[1], late,
    )  # fmt: skip


def _rank(key: str, run: int, pool: Pool, X: Array, labels: Array, order: Array) -> Run:
    """Learn all but a fold in one pass, and measure the AUC on the fold: every fifth row of the order, from `run` on."""
    left_out = np.arange(len(order)) % PERMUTATIONS["FPOGD"] == run
    rows = np.concatenate([order[~left_out], order[left_out]])
    learned = len(order) - int(left_out.sum())
    y = labels[rows].astype(np.float64)
    y[learned:] = np.nan
    scores: Array = np.empty((len(rows), 1), pool.shape.dtype)
    inputs = np.ascontiguousarray(X[rows], pool.shape.dtype)
    slots = np.zeros(len(rows), np.int64)
    pool.learner.step(pool, slots[:2], inputs[:2], np.full(2, np.nan), scores[:2])  # compile; changes nothing
    started = time.perf_counter()
    pool.learner.step(pool, slots, inputs, y, scores)
    seconds = time.perf_counter() - started
    figure = 100.0 * auc(scores[learned:, 0].astype(np.float64), labels[rows[learned:]])
    return Run(key, run, figure, 50.0, 1e6 * seconds / len(rows), pool.nbytes, None, *X.shape)


def orders(row: Row, arrays: Arrays) -> Iterator[tuple[int, Array]]:
    """The published permutations where there are some, else random ones; the same for every learner."""
    for run in range(PERMUTATIONS[row.paper]):
        if arrays.permutations is not None and row.paper == "LSOKL":
            yield run, arrays.permutations[run]
        else:
            yield run, np.random.RandomState(1 if row.task is Task.RANKING else 1 + run).permutation(len(arrays.y))


def read_runs() -> dict[str, dict[int, Run]]:
    found: dict[str, dict[int, Run]] = {}
    for line in RUNS.read_text(encoding="utf-8").splitlines() if RUNS.exists() else []:
        run = Run(**json.loads(line))
        found.setdefault(run.key, {})[run.run] = run
    return found


def run_row(row: Row, arrays: Arrays, table: Table, done: dict[int, Run], stop: float) -> None:
    """The missing runs of a row, at least one, until the clock says `stop`."""
    for number, order in orders(row, arrays):
        if number not in done:
            done[number] = keep(play(row, table, arrays, order, number))
        if time.monotonic() > stop:
            return


def keep(run: Run) -> Run:
    """Add a run to the file of finished ones."""
    with RUNS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(run)) + "\n")
    return run


def key_of(row: Row, table: Table) -> str:
    return json.dumps([row.data, row.unit, dict(sorted(table.items()))])


def is_of(row: Row, key: str) -> bool:
    """Is it the key of a run on the row's data, prepared as for the row?"""
    return key.startswith(json.dumps([row.data, row.unit])[:-1])
