"""The hyper-parameters that the papers do not print: their grids, and what was chosen on them, kept in `parameters.toml`."""

import time
import tomllib
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper_tables.published import Row, Table
from benchmarks.paper_tables.runs import Run, keep, key_of, orders, play
from streamlearn.events.files import Arrays
from streamlearn.learners.protocol import Task

PARAMETERS = Path(__file__).with_name("parameters.toml")

STEPS = (16.0, 8.0, 4.0, 2.0, 0.2, 0.02, 0.002, 0.0002)  # AVM and DualSVRG; LSOKL has 2, 0.2, ..., 0.0002 and values in between
LSOKL_STEPS = (2.0, 1.0, 0.5, 0.3, 0.2, 0.1, 0.02, 0.002, 0.0002)
LSOKL_FOURIER_STEPS = (0.02, 0.01, 0.005, 0.002, 0.001, 0.0006, 0.0002)
PERCEPTRON_STEPS = (0.3, 0.2, 0.1, 0.05, 0.03)  # regression
GAMMAS = tuple(2.0**power for power in (-8, -4, -2, 0, 2, 4, 8))
RRF_STEPS = (0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002)  # ours: the text has lost the ranges of RRF's paper
RRF_GAMMAS = tuple(2.0**power for power in range(-8, 5))
REGS = tuple(2.0**power for power in range(-4, 17, 2))  # lambda times the number of events
PERCEPTRONS = frozenset({"perceptron", "rbp", "forgetron", "projectron", "projectron++"})


def grid(row: Row) -> dict[str, Sequence[float]]:
    """What the paper searched and does not print. `reg_n`: lambda times the number of events."""
    learner, regression = row.learner, row.task is Task.REGRESSION
    has_step = learner in ("ogd", "nogd", "bogd", "fogd")
    searched: dict[str, Sequence[float]] = {}
    if row.paper == "FPOGD":
        if learner == "koil":
            return {"eta": (1e-4, 1e-3, 1e-2, 1e-1), "C": (0.1, 1.0, 10.0, 100.0)}
        return {"eta": tuple(2.0**power for power in range(-8, 0)), "reg": tuple(10.0**power for power in range(-8, 0))}
    if row.paper == "LSOKL":
        if has_step:
            searched["eta"] = LSOKL_FOURIER_STEPS if learner == "fogd" else LSOKL_STEPS
    elif learner == "rrf":
        searched = {"gamma": RRF_GAMMAS, "eta": RRF_STEPS}
    else:
        searched["gamma"] = GAMMAS
        if has_step:
            searched["eta"] = STEPS
        if learner in ("avm", "bsgd", "dualsgd", "dualsvrg") and "reg" not in row.parameters:
            searched["reg_n"] = REGS
    if regression and learner in PERCEPTRONS:
        searched["eta"] = PERCEPTRON_STEPS
    return {name: values for name, values in searched.items() if name not in row.parameters}


def points_of(row: Row) -> list[dict[str, float]]:
    """Every point of the grid."""
    values = grid(row)
    return [dict(zip(values, point, strict=True)) for point in product(*values.values())]


def table_of(row: Row, searched: Table, events: int, dim: int) -> dict[str, Any]:
    """The learner's table: published hyper-parameters, then searched ones for a stream of so many events."""
    table: dict[str, Any] = {"name": row.learner, **row.parameters, **searched}
    if "reg_n" in table:
        table["reg"] = table.pop("reg_n") / events
    if row.paper == "FPOGD" and row.learner in ("fpogd", "koil"):
        table["gamma"] = 1.0 / dim
    return table


def searched_for(row: Row, chosen: Mapping[str, Table]) -> Table | None:
    """What was chosen for a row; nothing where nothing is open, None where nothing was searched yet."""
    return chosen.get(row.name) if grid(row) else {}


def tune(row: Row, arrays: Arrays) -> dict[str, float]:
    """The best point of the grid, on rows in an order that no run has."""
    count = 10_000 if row.paper == "LSOKL" else min(4000, max(1000, len(arrays.y) // 10))
    rows = np.random.RandomState(0).permutation(len(arrays.y))[:count]
    part = Arrays(arrays.X[rows], arrays.y[rows], None)

    def loss(point: Table) -> float:
        figure = play(row, table_of(row, point, *arrays.X.shape), part, np.arange(len(rows)), 0).figure
        return np.inf if not np.isfinite(figure) else -figure if row.unit == "auc" else figure

    return min(points_of(row), key=loss)


def scan(row: Row, arrays: Arrays, runs: dict[str, dict[int, Run]], stop: float) -> None:
    """The first run of every point of the grid that has none, until the clock says `stop`."""
    number, order = next(orders(row, arrays))
    for point in points_of(row):
        table = table_of(row, point, *arrays.X.shape)
        done = runs.setdefault(key_of(row, table), {})
        if number not in done:
            done[number] = keep(play(row, table, arrays, order, number))
        if time.monotonic() > stop:
            return


def read_parameters() -> dict[str, dict[str, float]]:
    return tomllib.loads(PARAMETERS.read_text(encoding="utf-8")) if PARAMETERS.exists() else {}


def write_parameters(chosen: Mapping[str, Table]) -> None:
    lines = [f'"{name}" = {{ {", ".join(f"{key} = {value!r}" for key, value in chosen[name].items())} }}' for name in chosen]
    heading = "# Chosen by `python -m benchmarks.paper_tables tune`; reg_n is lambda times the number of events."
    PARAMETERS.write_text("\n".join([heading, *lines, ""]), encoding="utf-8")
