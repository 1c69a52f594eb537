"""A fingerprint changes with everything that a state depends on, and with nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from checkpoints import DIM, spec_of

from streamlearn.checkpoint.identity import describe, differences, fingerprint, identify
from streamlearn.features.compiled import Array
from streamlearn.learners.fourier import Fogd
from streamlearn.learners.pipeline import Pipeline
from streamlearn.learners.protocol import Task
from streamlearn.learners.unbudgeted import Ogd
from streamlearn.processor import ModelSpec, Processor

BASE = spec_of(Fogd(frequencies=4))


def shared_of(spec: ModelSpec) -> dict[str, Array]:
    return Processor(spec).pool.shared


CHANGES = {
    "pipeline.learner.eta": replace(BASE, pipeline=Pipeline(learner=Fogd(frequencies=4, eta=0.003))),
    "pipeline.learner.seed": replace(BASE, pipeline=Pipeline(learner=Fogd(frequencies=4, seed=2))),
    "pipeline.learner.name": replace(BASE, pipeline=Pipeline(learner=Ogd())),
    "pipeline.scaling": replace(BASE, pipeline=Pipeline(learner=Fogd(frequencies=4), scaling="min-max")),
    "task": replace(BASE, task=Task.REGRESSION),
    "dim": replace(BASE, dim=DIM + 1),
    "dtype": replace(BASE, dtype=np.dtype(np.float64)),
    "labels": replace(BASE, labels=("no", "yes")),
}


@pytest.mark.parametrize(("name", "spec"), CHANGES.items())
def test_every_difference_is_named(name: str, spec: ModelSpec) -> None:
    base, other = identify(BASE, shared_of(BASE)), identify(spec, shared_of(spec))
    assert base.fingerprint != other.fingerprint
    assert any(part.startswith(f"{name} is ") for part in differences(base.description, other.description))


def test_a_difference_names_both_sides() -> None:
    written, configured = (describe(spec, shared_of(spec)) for spec in (BASE, CHANGES["pipeline.learner.eta"]))
    assert differences(written, configured) == ["pipeline.learner.eta is null in the checkpoint and 0.003 in the configuration"]


def test_random_maps_are_part_of_it() -> None:
    shared = shared_of(BASE)
    nudged = {name: array.copy() for name, array in shared.items()}
    nudged["frequencies"][0, 0] = np.nextafter(nudged["frequencies"][0, 0], np.float32(1))
    assert [part.split()[0] for part in differences(describe(BASE, shared), describe(BASE, nudged))] == ["shared.frequencies"]


def test_what_has_no_effect_on_the_state_is_not_part_of_it() -> None:
    assert identify(BASE, shared_of(BASE)) == identify(replace(BASE, max_classes=7), shared_of(BASE))


def test_a_whole_number_is_the_same_float() -> None:
    whole, real = (replace(BASE, pipeline=Pipeline(learner=Ogd(sigma=sigma))) for sigma in (1, 1.0))
    assert identify(whole, {}) == identify(real, {})


def test_it_is_stable() -> None:
    """Other programs can make the same: printf '{"a":0.002,"b":[1,"x",true]}' | sha256sum."""
    assert fingerprint({"b": [1, "x", True], "a": 0.002}) == "993c31587f8aa1fee631e098703118df"
