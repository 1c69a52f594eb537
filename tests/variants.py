"""Every learner with every one of its options, found through the types of its hyper-parameters."""

from dataclasses import fields, replace
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge

from streamlearn.learners.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from streamlearn.learners.protocol import Learner, Task

SMALL = {"budget": 6, "frequencies": 5, "rank": 3, "memory": 4, "period": 5, "strata": 2}


def small(kind: type[Learner], **others: Any) -> Learner:
    """The learner with sizes that a short stream fills."""
    sizes = {name: size for name, size in SMALL.items() if name in hyper_parameters(kind)}
    return kind(**(sizes | others))


def variants(kind: type[Learner], task: Task) -> list[Learner]:
    """`small`, and the same with every other option, loss and boolean, and with numbers at their lower limit and one above it."""
    learners = [small(kind)]
    for name, annotation in hyper_parameters(kind).items():
        losses = [loss for loss in (REGRESSION_LOSSES if task is Task.REGRESSION else MARGIN_LOSSES) if loss != "perceptron"]
        for value in losses if annotation is str and name == "loss" else _ends(annotation):
            try:
                learners.append(replace(learners[0], **{name: value}))  # type: ignore[type-var]  # every learner is a dataclass
            except ValueError as error:  # options that exclude each other
                assert name in str(error)
    return learners


def hyper_parameters(kind: type[Learner]) -> dict[str, Any]:
    """Names and annotated types of a learner's hyper-parameters."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)}  # type: ignore[arg-type]  # every learner is a dataclass


def _ends(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, UnionType):
        return [value for part in get_args(annotation) for value in ([None] if part is type(None) else _ends(part))]
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    if annotation is bool:
        return [False, True]
    if get_origin(annotation) is Annotated:
        number, *limits = get_args(annotation)
        lowest: Any = next((limit.ge for limit in limits if isinstance(limit, Ge)), None)
        return [] if lowest is None else [number(lowest), number(lowest + 1)]
    return []
