"""The papers and their figures, as `published.csv` beside this module has them."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streamlearn.learners.protocol import Task

PUBLISHED = Path(__file__).with_name("published.csv")

TITLES = {
    "LSOKL": "Lu et al., Large Scale Online Kernel Learning (FOGD, NOGD)",
    "AVM": "Le et al., Approximation Vector Machines",
    "RRF": "Nguyen et al., Large-scale Online Kernel Learning with Random Feature Reparameterization",
    "DualSVRG": "Le et al., Improving kernel online learning with a snapshot memory",
    "FPOGD": "AlQuabeh et al., Variance Reduced Online Gradient Descent for Kernelized Pairwise Learning",
}
PERMUTATIONS = {"LSOKL": 20, "AVM": 10, "RRF": 10, "DualSVRG": 10, "FPOGD": 5}
STANDARD_ERRORS = {"FPOGD": np.sqrt(PERMUTATIONS["FPOGD"])}  # prints standard errors: the factor to standard deviations

Table = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """A published figure."""

    paper: str
    table: str
    dataset: str
    events: str
    data: str
    task: Task
    algorithm: str
    learner: str
    parameters: Table
    unit: str
    mean: float
    sd: float | None

    @property
    def name(self) -> str:
        return f"{self.paper}/{self.data}/{self.algorithm}"


def read_published() -> list[Row]:
    with PUBLISHED.open(newline="", encoding="utf-8") as file:
        return [_row(line) for line in csv.DictReader(file)]


def _row(line: Mapping[str, str]) -> Row:
    others = {name: line[name] for name in ("paper", "table", "dataset", "events", "data", "algorithm", "learner", "unit")}
    settings = (setting.split("=") for setting in line["parameters"].split())
    parameters = {name: _number(value) for name, value in settings}
    sd = float(line["sd"]) * STANDARD_ERRORS.get(line["paper"], 1.0) if line["sd"] else None
    return Row(**others, task=Task(line["task"]), parameters=parameters, mean=float(line["mean"]), sd=sd)


def _number(text: str) -> str | float | int:
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        return text
