"""Types of hyper-parameters: the range is part of the type, checked when a configuration is read."""

from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le

from streamlearn.features.width import CLASSES_FACTOR, FACTOR, ROWS

Positive = Annotated[float, Gt(0)]
NonNegative = Annotated[float, Ge(0)]
Fraction = Annotated[float, Ge(0), Le(1)]
Count = Annotated[int, Ge(1), Le(1_000_000)]
Seed = Annotated[int, Ge(0), Le(2**32 - 1)]
KernelName = Literal["gaussian", "laplacian", "cauchy"]
Width = Positive | Literal["auto"]  # of a kernel; auto: a pipeline divides the features by the width it finds, see features/width.py

AUTO_WIDTH = (
    f"every model divides its scaled features by {FACTOR} (multi-class: {CLASSES_FACTOR}) times the median distance between its "
    f"first {ROWS} labelled events, and the kernel's own width is 1. "
    "Lengths among the hyper-parameters, delta and theta, are then in units of it."
)


def has_auto_width(learner: object) -> bool:
    """Whether a learner asks for features divided by their width. One with a linear map has no kernel, whatever its sigma."""
    return getattr(learner, "sigma", None) == "auto" and getattr(learner, "map", None) != "linear"


def width_of(sigma: float | Literal["auto"]) -> float:
    """The width that a learner's own kernel has: 1 for auto, because its features have been divided by theirs already."""
    return 1.0 if sigma == "auto" else sigma
