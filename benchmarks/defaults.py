"""How good are the defaults? Every learner, untuned, against a small grid over its kernel width and step size, on real streams.

    python -m benchmarks.defaults [--learner NAME ...] [--stream NAME ...] [--events N] [--data FOLDER] [--write]

Each stream is predicted first and learned second, with features (and regression targets) standardised online. The figure is the share
of mistakes, the squared error over the variance of the target, or 1 - AUC, in per cent: lower is better. A default is good when it
is nearer to the best than to the median of the grid.
"""

import argparse
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.datasets import DEFAULT_FOLDER, first_rows, load, shuffled
from streamlearn.config import make_learner
from streamlearn.evaluation.backtest import Measures, backtest_arrays
from streamlearn.evaluation.study import spec_for
from streamlearn.events.files import Arrays
from streamlearn.learners.protocol import Task
from streamlearn.learners.registry import LEARNERS

RESULTS = Path(__file__).parent / "results" / "defaults.md"
EVENTS = 4000

STREAMS: Mapping[Task, Sequence[str]] = {
    Task.BINARY: ("elec2", "ijcnn1-train", "magic04", "a9a-train"),
    Task.MULTICLASS: ("pendigits", "covtype-20k"),
    Task.REGRESSION: ("abalone", "casp", "cpusmall", "housing"),
    Task.RANKING: ("ijcnn1-train", "magic04", "a9a-train"),
}
IN_TIME_ORDER = frozenset({"elec2"})  # the others are shuffled with seed 1

WIDTHS = (0.25, 0.5, 1.0, 2.0)  # times sqrt(d): gamma = 8 / d to 0.125 / d
GRADIENT = (0.05, 0.2, 1.0, 4.0)  # steps on features of norm 1
REGRESSION = (0.03, 0.1, 0.3, 1.0)
REG = (1e-4, 1e-3, 1e-2, 1e-1)
C = (0.01, 0.1, 1.0, 10.0)
CELLS = (0.5, 1.0, 2.0)  # times the kernel width
PAIRS = (0.003, 0.03, 0.3)

Grid = Mapping[str, Sequence[float]]


class Cell(NamedTuple):
    """A learner on a stream: the default's figure, and those of the grid in ascending order."""

    learner: str
    task: Task
    stream: str
    default: float
    tuned: Sequence[float]
    microseconds: float  # per event, of the default

    @property
    def median(self) -> float:
        return float(np.median(self.tuned))

    @property
    def is_good(self) -> bool:
        return self.default <= (self.tuned[0] + self.median) / 2


@dataclass(frozen=True)
class Stream:
    """A stream in memory, its task, and its number of features."""

    name: str
    task: Task
    arrays: Arrays

    def figure(self, table: Mapping[str, Any]) -> tuple[float, float]:
        """Figure in per cent and microseconds per event of the learner that `table` describes."""
        spec, labels = spec_for(make_learner(table), self.task, self.arrays, "float32", "standard")
        measures = backtest_arrays(spec, self.arrays.X, labels)
        return 100.0 * _share(measures), 1e6 * measures.seconds / measures.events


def grid(name: str, task: Task) -> Grid:
    """The hyper-parameters of a learner that matter, `sigma` in units of sqrt(d), `delta` of sigma, `eta` of 1 / ||z||^2."""
    regression = task is Task.REGRESSION
    steps: dict[str, Grid] = {
        "perceptron": {"eta": REGRESSION} if regression else {},
        "pa": {"C": C},
        "linear-pa": {"C": (0.001, 0.01, 0.1, 1.0)},
        "linear-perceptron": {"eta": (0.001, 0.01, 0.1, 1.0)} if regression else {},
        "pegasos": {"reg": REG},
        "avm": {"reg": REG, "delta": CELLS},
        "oam": {"C": (1e-5, 1e-4, 1e-3, 1e-2)},
        "solam": {"eta": (0.001, 0.01, 0.1)},
        "spam-net": {"eta": (0.003, 0.03, 0.3)},
        "koil": {"eta": (0.0003, 0.003, 0.03), "C": (1.0, 10.0, 100.0)},
        "opauc": {"eta": (1e-5, 1e-4, 1e-3, 1e-2)},
    }
    for like, names in {
        "perceptron": ("rbp", "forgetron", "budget-perceptron", "projectron", "projectron++"),
        "pa": ("bpa-s", "bpa-nn", "bpa-p"),
        "pegasos": ("bsgd", "dualsgd"),
    }.items():
        steps |= dict.fromkeys(names, steps[like])
    step = steps.get(name, {"eta": PAIRS if task is Task.RANKING else REGRESSION if regression else GRADIENT})
    widths = {"sigma": WIDTHS} if hasattr(LEARNERS[name], "sigma") else {}
    return {**widths, **step}


def tables(name: str, stream: Stream) -> Iterator[dict[str, Any]]:
    """Every point of a learner's grid as its table."""
    values = grid(name, stream.task)
    for point in product(*values.values()):
        table: dict[str, Any] = {"name": name, **dict(zip(values, point, strict=True))}
        if "sigma" in table:
            table["sigma"] *= float(np.sqrt(stream.arrays.X.shape[1]))
        if "delta" in table:
            table["delta"] *= table["sigma"]
        if name in ("fogd", "rrf"):
            table["eta"] /= LEARNERS[name]().frequencies  # type: ignore[attr-defined]
        yield table


def measure(names: Iterable[str], streams: Iterable[Stream]) -> Iterator[Cell]:
    """The cells of all learners on those of the streams that they are for."""
    for name, stream in product(names, streams):
        if stream.task in LEARNERS[name].tasks:
            default, microseconds = stream.figure({"name": name})
            tuned = sorted(stream.figure(table)[0] for table in tables(name, stream))
            yield Cell(name, stream.task, stream.name, default, tuned, microseconds)


def load_streams(names: Sequence[str], folder: Path, events: int) -> list[Stream]:
    """The named streams (none: all), at most so many events of each, for every task that uses them."""
    streams = []
    for task, all_names in STREAMS.items():
        for name in all_names:
            if not names or name in names:
                arrays = load(name, folder)
                arrays = arrays if name in IN_TIME_ORDER else shuffled(arrays, 1)
                streams.append(Stream(name, task, first_rows(arrays, events)))
    return streams


def page(cells: Sequence[Cell], command: str, events: int) -> str:
    """The results as Markdown."""
    good = sum(cell.is_good for cell in cells)
    lines = [
        "# Defaults against a small grid", "",
        f"`{command}`: the first {events} events of each stream (shuffled with seed 1, elec2 in its own order), features",
        "and regression targets standardised online, float32. Figures in per cent, lower is better: mistakes, squared error over the",
        "variance of the target, or 1 - AUC. The grids, over kernel width and step size, are in `benchmarks/defaults.py`. A default is",
        f"good when it is nearer to the best than to the median of the grid: {good} of {len(cells)} are. Times: of a busy machine.", "",
        "| learner | good |", "|---|---:|", *_goods(cells), "",
    ]  # fmt: skip
    for task in Task:
        rows = [cell for cell in cells if cell.task is task]
        if rows:
            lines += [f"## {task.value}", "", "| learner | stream | default | best | median | worst | good | us/event |"]
            lines += ["|---|---|---:|---:|---:|---:|---|---:|"]
            lines += [f"| {cell.learner} | {cell.stream} | {_figures(cell)} |" for cell in rows] + [""]
    return "\n".join(lines)


def _goods(cells: Sequence[Cell]) -> Iterator[str]:
    for learner in dict.fromkeys(cell.learner for cell in cells):
        mine = [cell.is_good for cell in cells if cell.learner == learner]
        yield f"| {learner} | {sum(mine)} of {len(mine)} |"


def _figures(cell: Cell) -> str:
    values = (cell.default, cell.tuned[0], cell.median, cell.tuned[-1])
    return " | ".join([*map(_short, values), "yes" if cell.is_good else "no", f"{cell.microseconds:.1f}"])


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 1000 else f"{value:.1e}"


def _share(measures: Measures) -> float:
    if measures.auc is not None:
        return 1.0 - measures.auc
    if measures.mistakes is not None:
        return measures.mistakes / max(measures.labelled, 1)
    share = (measures.mean_squared_loss or 0.0) / (measures.trivial or 1.0)
    return share if np.isfinite(share) else np.inf


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.defaults", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--learner", action="append", choices=sorted(LEARNERS), default=[])
    parser.add_argument("--stream", action="append", default=[])
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--data", type=Path, default=DEFAULT_FOLDER)
    parser.add_argument("--write", action="store_true", help=f"keep the page as {RESULTS.name}")
    options = parser.parse_args()
    cells = []
    for cell in measure(options.learner or LEARNERS, load_streams(options.stream, options.data, options.events)):
        cells.append(cell)
        print(f"{cell.learner:18} {cell.stream:13} {cell.task:11} {_figures(cell).replace('|', '')}", flush=True)
    print(f"good: {sum(cell.is_good for cell in cells)} of {len(cells)}")
    if options.write:
        RESULTS.write_text(page(cells, "python -m benchmarks.defaults --write", options.events), encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
