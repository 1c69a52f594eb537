"""Compiling kernels ahead of time."""

import numpy as np

from streamlearn.config import Config, ConfigError, make_learner
from streamlearn.events.columns import Events
from streamlearn.learners.pipeline import Pipeline
from streamlearn.learners.registry import LEARNERS
from streamlearn.processor import ModelSpec, Processor

EXAMPLE_DIM = 4  # kernels do not depend on the number of features


def compile_config(config: Config) -> None:
    """The kernels of a configuration's streams. Raises ConfigError where a learner refuses its hyper-parameters for the task."""
    for stream in config.streams:
        try:
            learn_example(Processor(stream.model_spec(EXAMPLE_DIM, config.worker.dtype)))
        except ValueError as error:
            raise ConfigError(f"streams.{stream.name}.learner: {error}") from error


def compile_all(name: str) -> None:
    """The kernels of a learner with default hyper-parameters, for all its tasks and both dtypes."""
    for task in sorted(LEARNERS[name].tasks):
        for dtype in (np.float32, np.float64):
            spec = ModelSpec(pipeline=Pipeline(learner=make_learner({"name": name})), task=task, dim=EXAMPLE_DIM, dtype=np.dtype(dtype))
            learn_example(Processor(spec))


def learn_example(processor: Processor) -> None:
    """Two labelled events and two without labels through a processor that is thrown away."""
    spec, rows = processor.spec, 2
    labels = list(spec.labels[:rows]) if len(spec.labels) >= rows else [-1, 1]
    for labelled in (True, False):
        processor.process(
            Events(
                rows=np.arange(rows),
                ids=[None] * rows,
                keys=[""] * rows,
                times=np.zeros(rows),
                X=np.eye(rows, spec.dim, dtype=spec.dtype),
                y=np.array([-1.0, 1.0]) if labelled else np.full(rows, np.nan),
                labels=labels if labelled else [None] * rows,
            )
        )
