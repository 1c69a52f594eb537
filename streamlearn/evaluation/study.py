"""Several runs of several learners over one data set: permutations, means and standard deviations, as the papers report them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from typing import Any

import numpy as np

from streamlearn.config import ConfigError, make_learner
from streamlearn.evaluation.backtest import Measures, backtest_arrays
from streamlearn.events.files import Arrays
from streamlearn.features.compiled import Array
from streamlearn.learners.pipeline import Pipeline, Scaling
from streamlearn.learners.protocol import Learner, Task
from streamlearn.learners.registry import LEARNERS
from streamlearn.processor import ModelSpec

METRICS = {Task.BINARY: "mistakes", Task.MULTICLASS: "mistakes", Task.REGRESSION: "mean_squared_loss", Task.RANKING: "auc"}


@dataclass(frozen=True)
class Study:
    """The runs of one learner; `permutations[i]` names the order of `runs[i]`: an index into the file's, or None for its own order."""

    learner: Learner
    task: Task
    permutations: Sequence[int | None]
    runs: Sequence[Measures]

    def summary(self) -> dict[str, Any]:
        """The figures as plain data. `mean`, `sd` (sample) and `trivial` have the metric's unit; *_rate are per labelled event."""
        figures = np.array([run.headline for run in self.runs])
        sd = float(figures.std(ddof=1)) if len(figures) > 1 else 0.0
        metric = METRICS[self.task]
        summary: dict[str, Any] = {
            "learner": self.learner.name,
            "task": self.task.value,
            "parameters": asdict(self.learner),  # type: ignore[call-overload]
            "runs": [_run(permutation, run, metric) for permutation, run in zip(self.permutations, self.runs, strict=True)],
            "metric": metric,
            "mean": float(figures.mean()),
            "sd": sd,
            "trivial": self.runs[0].trivial,
        }
        labelled = self.runs[0].labelled
        if metric == "mistakes" and labelled:
            rates = {
                "mean_rate": summary["mean"] / labelled,
                "sd_rate": sd / labelled,
                "trivial_rate": (self.runs[0].trivial or 0) / labelled,
            }
            summary.update(rates)
        return summary


def _run(permutation: int | None, run: Measures, metric: str) -> dict[str, Any]:
    figures: dict[str, Any] = {"permutation": permutation, metric: getattr(run, metric)}
    if metric == "mean_squared_loss":
        figures["mean_absolute_loss"] = run.mean_absolute_loss
    per_event = 1e6 * run.seconds / max(run.events, 1)
    return figures | {"events": run.events, "microseconds_per_event": round(per_event, 3), "model_bytes": run.model_bytes}


def learners_with(names: Sequence[str], settings: Mapping[str, Any]) -> list[Learner]:
    """The named learners, each with those settings that it has. Raises ConfigError if none of them has a setting."""
    used: set[str] = set()
    learners = []
    for name in names:
        allowed = _parameters(name)
        mine = {key: value for key, value in settings.items() if key in allowed}
        used |= set(mine)
        try:
            learners.append(make_learner({"name": name, **mine}))
        except ValueError as error:
            raise ConfigError(str(error)) from error
    for key in settings:
        if key not in used:
            raise ConfigError(f"--set {key}: none of {', '.join(names)} has such a hyper-parameter; `streamlearn learners NAME` lists them")
    return learners


def _parameters(name: str) -> set[str]:
    if name not in LEARNERS:
        raise ConfigError(f"there is no learner {name!r}; `streamlearn learners` lists them all")
    allowed = {field.name for field in dataclass_fields(LEARNERS[name])}  # type: ignore[arg-type]
    return allowed | ({"gamma"} if "sigma" in allowed else set())


def guess_task(y: Array) -> Task:
    """Binary for two labels, multi-class for up to 100 whole numbers, else regression."""
    values = np.unique(y)
    if len(values) <= 2:
        return Task.BINARY
    return Task.MULTICLASS if len(values) <= 100 and np.all(values == np.round(values)) else Task.REGRESSION


def spec_for(learner: Learner, task: Task, arrays: Arrays, dtype: str, scaling: Scaling) -> tuple[ModelSpec, Array]:
    """The model and the labels it is given: binary labels as -1 and +1 (the larger is +1), classes all declared, in ascending order.

    With scaling none regression targets are not scaled either, otherwise they are standardised.
    """
    if task not in learner.tasks:
        raise ConfigError(f"learner {learner.name} is not for {task} data, but for {', '.join(sorted(learner.tasks))}; choose --task")
    labels: Array = arrays.y
    declared: tuple[int | float, ...] = ()
    if task in (Task.BINARY, Task.RANKING):
        values = np.unique(arrays.y)
        if len(values) > 2:
            raise ConfigError(f"a {task} data set has two labels, this one has {len(values)}; choose --task multiclass or regression")
        labels = np.where(arrays.y == values[-1], 1.0, -1.0)
    elif task is Task.MULTICLASS:
        values, labels = np.unique(arrays.y, return_inverse=True)
        declared = tuple(range(len(values)))
    spec = ModelSpec(
        pipeline=Pipeline(learner=learner, scaling=scaling, target_scaling="none" if scaling == "none" else "standard"),
        task=task,
        dim=arrays.X.shape[1],
        dtype=np.dtype(dtype),
        labels=declared,
    )
    return spec, labels


def orders(arrays: Arrays, runs: int | None, seed: int) -> Iterator[tuple[int | None, Array | None]]:
    """(name, order) of each run: the file's permutations, or its own order once, or seeded random orders where it has no permutations."""
    if arrays.permutations is not None:
        count = len(arrays.permutations) if runs is None else runs
        if count > len(arrays.permutations):
            raise ConfigError(f"--runs {count}, but the file has {len(arrays.permutations)} permutations")
        yield from ((index, arrays.permutations[index]) for index in range(count))
    elif runs is None or runs == 1:
        yield None, None
    else:
        generator = np.random.RandomState(seed)
        yield from ((index, generator.permutation(len(arrays.y))) for index in range(runs))


def study(
    learner: Learner,
    task: Task,
    arrays: Arrays,
    *,
    runs: int | None = None,
    dtype: str = "float32",
    scaling: Scaling = "none",
    seed: int = 1,
    on_run: Callable[[], object] = lambda: None,
) -> Study:
    """Run a learner over every order of a data set. Raises ConfigError."""
    spec, labels = spec_for(learner, task, arrays, dtype, scaling)
    names, measures = [], []
    for name, order in orders(arrays, runs, seed):
        names.append(name)
        measures.append(backtest_arrays(spec, arrays.X, labels, order))
        on_run()
    return Study(learner, task, names, measures)
