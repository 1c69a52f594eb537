"""Pictures of a study: how mistakes fall as events are learned, as PNG files and one HTML page."""

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from streamlearn.config import ConfigError
from streamlearn.evaluation.study import METRICS, Study
from streamlearn.features.compiled import Array
from streamlearn.learners.protocol import Task

POINTS = 400  # of a curve: more cannot be told apart on a screen

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>streamlearn backtest</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }}
table {{ border-collapse: collapse; margin: 1rem 0 }} td, th {{ padding: .3rem .8rem; border-bottom: 1px solid #ddd; text-align: right }}
td:first-child, th:first-child {{ text-align: left }} img {{ max-width: 100% }} code {{ font-size: .85em }}
</style>
<h1>Backtest</h1>
<p>{events:,} events, {runs} run(s), task {task}. Trivial predictor: {trivial}. Each event is predicted first and learned second.</p>
<table><tr><th>learner</th><th>{metric}</th><th>µs/event</th><th>model bytes</th><th>hyper-parameters</th></tr>
{rows}</table>
{pictures}
</html>
"""


def write_report(studies: Sequence[Study], folder: Path) -> Path:
    """Write the page and its pictures into a folder, made if it is missing; returns the page. Raises ConfigError without matplotlib."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = [] if studies[0].task is Task.RANKING else [_curves(studies, folder)]
    page = folder / "index.html"
    page.write_text(_html(studies, pictures), encoding="utf-8")
    return page


def _curves(studies: Sequence[Study], folder: Path) -> Path:
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for study in studies:
        events, mean, sd = _average_curve(study)
        (line,) = axes.plot(events, mean, label=study.learner.name, linewidth=1.6)
        if len(study.runs) > 1:
            axes.fill_between(events, mean - sd, mean + sd, color=line.get_color(), alpha=0.15, linewidth=0)
    first = studies[0].runs[0]
    scale = 1.0 if studies[0].task is Task.REGRESSION else 100.0 / max(first.labelled, 1)
    axes.axhline(scale * (first.trivial or 0.0), color="0.5", linestyle="--", linewidth=1, label="trivial predictor")
    axes.set_xlabel("events learned")
    axes.set_ylabel("mean squared loss so far" if studies[0].task is Task.REGRESSION else "mistakes so far, %")
    axes.set_xlim(0, first.labelled)
    axes.set_ylim(0, None)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    path = folder / "curves.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def _average_curve(study: Study) -> tuple[Array, Array, Array]:
    """(events [p], mean [p], sample standard deviation [p]) over the runs of the running mean of mistakes (in %) or squared losses."""
    scale = 1.0 if study.task is Task.REGRESSION else 100.0
    curves = [scale * np.cumsum(run.wrong) / np.arange(1, run.labelled + 1) for run in study.runs if run.wrong is not None]
    points = np.unique(np.linspace(min(20, len(curves[0])) - 1, len(curves[0]) - 1, POINTS).astype(int))
    stacked = np.array([curve[points] for curve in curves])
    sd = stacked.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros(len(points))
    return points + 1, stacked.mean(axis=0), sd


def _html(studies: Sequence[Study], pictures: Sequence[Path]) -> str:
    first, show = studies[0].runs[0], _figure(studies[0])
    return _PAGE.format(
        events=first.events,
        runs=len(studies[0].runs),
        task=studies[0].task.value,
        trivial=show(first.trivial or 0.0),
        metric=METRICS[studies[0].task].replace("_", " "),
        rows="".join(_row(study, show) for study in studies),
        pictures="".join(f'<img src="{picture.name}" alt="running mean per learner">' for picture in pictures),
    )


def _row(study: Study, show: Callable[[float], str]) -> str:
    summary = study.summary()
    per_event = float(np.median([run["microseconds_per_event"] for run in summary["runs"]]))
    spread = f" ± {show(summary['sd'])}" if len(study.runs) > 1 else ""
    cells = [
        study.learner.name, show(summary["mean"]) + spread, f"{per_event:.2f}", f"{study.runs[0].model_bytes:,}",
    ]  # fmt: skip
    parameters = ", ".join(f"{name}={value!r}" for name, value in summary["parameters"].items())
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + f"<td><code>{escape(parameters)}</code></td></tr>\n"


def _figure(study: Study) -> Callable[[float], str]:
    """How the task's figure is written: a share of the labelled events, a loss or an AUC."""
    labelled = max(study.runs[0].labelled, 1)
    if METRICS[study.task] == "mistakes":
        return lambda mistakes: f"{100 * mistakes / labelled:.3f} %"
    return lambda figure: f"{figure:.5g}"


def _pyplot() -> Any:
    try:
        import matplotlib  # noqa: PLC0415 - only reports need it
    except ImportError as error:
        raise ConfigError("--report needs matplotlib: pip install 'streamlearn[report]'") from error
    matplotlib.use("agg")
    from matplotlib import pyplot  # noqa: PLC0415

    return pyplot
