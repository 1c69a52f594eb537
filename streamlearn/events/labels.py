"""Labels as they are published, and the numbers that learners take for them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat

import numpy as np

from streamlearn.events.columns import EventFormat, Label
from streamlearn.features.compiled import Array

_DEFAULT: Mapping[Label | None, float] = {-1: -1.0, 0: -1.0, 1: 1.0, None: math.nan}  # a hash table takes false for 0, true and 1.0 for 1
_MAX_EXACT = 2.0**63  # integral floats below are classes by their integer


class Labels:
    """Turns a column of published labels into targets. Raises ValueError for a format with a wrong number of labels."""

    def __init__(self, form: EventFormat) -> None:
        self._task = form.task
        self._signs = _signs(form.labels) if form.task in ("binary", "ranking") else {}
        self._pair = " or ".join(map(repr, form.labels)) or "-1, 0 or false, or else 1 or true"

    def targets(self, labels: Sequence[Label | None]) -> tuple[Array, Sequence[Label | None]]:
        """Targets y, float64 [n], as `Events.y` defines them, and the labels in the form in which they are kept."""
        if self._task == "regression":
            return np.array(labels, np.float64), labels
        if self._task == "multiclass":
            return np.full(len(labels), np.nan), [_as_class(label) if type(label) is float else label for label in labels]
        sign = self._signs.get
        return np.fromiter(map(sign, labels, repeat(0.0)), np.float64, len(labels)), labels

    def wrong(self, y: Array, labels: Sequence[Label | None]) -> Iterator[tuple[int, str]]:
        """Rows whose label cannot be learned, each with what was expected, of what `targets` returned."""
        if self._task == "regression":
            for row in np.flatnonzero(~np.isfinite(y)).tolist():
                if labels[row] is not None:
                    yield row, "a finite number"
        elif self._task == "multiclass":
            for row, label in enumerate(labels):
                if type(label) is float:
                    yield row, "a string, a boolean or a whole number"
        else:
            for row in np.flatnonzero(y == 0.0).tolist():
                yield row, self._pair


def _signs(labels: tuple[Label, ...]) -> Mapping[Label | None, float]:
    if not labels:
        return _DEFAULT
    if len(labels) != 2 or labels[0] == labels[1]:
        raise ValueError(f"labels = {list(labels)} must be two different ones: [negative, positive]")
    return {labels[0]: -1.0, labels[1]: 1.0, None: math.nan}


def _as_class(label: float) -> Label:
    """The integer for an integral float; any other float comes back as it is."""
    return int(label) if label.is_integer() and -_MAX_EXACT <= label < _MAX_EXACT else label
