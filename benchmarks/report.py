"""What a benchmark found: rows with target and verdict, tables of detail, and the page that keeps both."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.machine import describe

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Row:
    """A measured figure held against a target."""

    what: str
    measured: float
    target: float
    unit: str = "x"
    better: Literal["higher", "lower"] = "higher"
    note: str = ""

    @property
    def met(self) -> bool:
        return self.measured >= self.target if self.better == "higher" else self.measured <= self.target

    def cells(self) -> tuple[str, str, str, str, str]:
        sign = ">=" if self.better == "higher" else "<="
        return (
            self.what, f"{sign} {figure(self.target)} {self.unit}", f"{figure(self.measured)} {self.unit}",
            "met" if self.met else "MISSED", self.note,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Detail:
    """A table of what was measured on the way."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Report:
    """What one benchmark found. name: of its module and its page."""

    name: str
    summary: str
    rows: Sequence[Row]
    details: Sequence[Detail] = ()
    notes: Sequence[str] = ()


HEADER = ("what", "target", "measured", "verdict", "note")


def write(report: Report, quick: bool) -> Path:
    """Keep a report as `results/<name>.md`, the short form as `results/quick/<name>.md`."""
    folder = RESULTS / "quick" if quick else RESULTS
    parts = [
        f"# {report.name}\n\n{report.summary}\n\n{describe()}\nCommand: `python -m benchmarks {'--quick ' if quick else ''}{report.name}`"
    ]
    if report.rows:
        parts.append(markdown(HEADER, [row.cells() for row in report.rows]))
    parts += [f"## {detail.title}\n\n{markdown(detail.header, detail.rows)}" for detail in report.details]
    parts += report.notes
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / f"{report.name}.md"
    path.write_text("\n\n".join(parts) + "\n")
    return path


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def figure(value: float) -> str:
    """Three significant digits, thousands separated."""
    if abs(value) >= 999.5:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def spread(values: Sequence[float]) -> str:
    """Median and range of repeated runs."""
    if len(values) == 1:
        return figure(values[0])
    return f"{figure(statistics.median(values))} ({figure(min(values))} - {figure(max(values))})"
