"""What `streamlearn backtest` does between its options and its output."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from streamlearn.config import Config, ConfigError
from streamlearn.evaluation.backtest import backtest_file
from streamlearn.evaluation.study import Study, guess_task, learners_with, orders, study
from streamlearn.events.decode import Decoder
from streamlearn.events.files import Arrays, load_arrays
from streamlearn.learners.pipeline import Scaling
from streamlearn.learners.protocol import Task

Summary = dict[str, Any]


def read_arrays(path: Path, label: str | None, permutations: Path | None) -> Arrays:
    """A data set, with the permutations of another file if one is given. Raises FileError, ConfigError, OSError."""
    arrays = load_arrays(path, label=label)
    if permutations is None:
        return arrays
    with np.load(permutations, allow_pickle=False) as stored:
        if "permutations" not in stored or stored["permutations"].ndim != 2 or stored["permutations"].shape[1] != len(arrays.y):
            raise ConfigError(f"{permutations} needs an array `permutations` of shape [runs, {len(arrays.y)}]")
        return arrays._replace(permutations=stored["permutations"].astype(np.int64))


def backtest_learners(
    arrays: Arrays,
    task: Task | None,
    names: Sequence[str],
    settings: Sequence[str],
    runs: int | None,
    dtype: str,
    scaling: str,
    seed: int,
    screen: Console,
) -> list[Study]:
    """A study of each learner. Raises ConfigError."""
    if dtype not in ("float32", "float64"):
        raise ConfigError(f"--dtype {dtype}: use float32 or float64")
    if scaling not in get_args(Scaling):
        raise ConfigError(f"--scaling {scaling}: use one of {', '.join(get_args(Scaling))}")
    learners = learners_with(names, dict(_setting(text) for text in settings))
    chosen = task or guess_task(arrays.y)
    total = len(learners) * len(list(orders(arrays, runs, seed)))
    studies = []
    with Progress(console=screen, transient=True) as progress:
        bar = progress.add_task("learning", total=total)
        for learner in learners:
            result = study(
                learner, chosen, arrays, runs=runs, dtype=dtype, scaling=scaling,  # type: ignore[arg-type]
                seed=seed, on_run=lambda: progress.advance(bar),
            )  # fmt: skip
            studies.append(result)
    return studies


def backtest_stream(config: Config, name: str | None, path: Path, screen: Console) -> list[Study]:
    """A study of one configured stream over the events of a file. Raises ConfigError, FileError."""
    stream = config.stream(name or config.streams[0].name)
    decoder = Decoder(stream.event_format(), np.dtype(config.worker.dtype))
    spec = stream.model_spec(decoder.dim, config.worker.dtype)
    with Progress(console=screen, transient=True) as progress:
        bar = progress.add_task("learning", total=path.stat().st_size)
        measures = backtest_file(spec, decoder, stream.encoding, path, lambda position: progress.update(bar, completed=position))
    return [Study(spec.pipeline.learner, spec.task, [None], [measures])]


def table(summaries: Sequence[Summary]) -> Table:
    """Summaries for people."""
    metric = summaries[0]["metric"]
    result = Table(caption=f"{summaries[0]['runs'][0]['events']:,} events; trivial: {_trivial(summaries[0])}")
    for heading in ("learner", metric.replace("_", " "), "rate %", "runs", "us/event", "model bytes"):
        result.add_column(heading, justify="left" if heading == "learner" else "right")
    for summary in summaries:
        runs = summary["runs"]
        figures = f"{summary['mean']:.6g}" + (f" ± {summary['sd']:.3g}" if len(runs) > 1 else "")
        rate = f"{100 * summary['mean_rate']:.3f} ± {100 * summary['sd_rate']:.3f}" if "mean_rate" in summary else ""
        speed = float(np.median([run["microseconds_per_event"] for run in runs]))
        result.add_row(summary["learner"], figures, rate, str(len(runs)), f"{speed:.2f}", f"{max(run['model_bytes'] for run in runs):,}")
    return result


def _trivial(summary: Summary) -> str:
    if summary["metric"] == "mistakes":
        return f"the majority class is wrong {summary['trivial']:,.0f} times, {100 * summary.get('trivial_rate', 0):.2f} %"
    return "AUC 0.5" if summary["metric"] == "auc" else f"the mean has squared loss {summary['trivial']:.6g}"


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"--set {text}: write name=value")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
