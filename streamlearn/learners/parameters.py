"""Types of hyper-parameters: the range is part of the type, checked when a configuration is read."""

from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le

Positive = Annotated[float, Gt(0)]
NonNegative = Annotated[float, Ge(0)]
Fraction = Annotated[float, Ge(0), Le(1)]
Count = Annotated[int, Ge(1), Le(1_000_000)]
Seed = Annotated[int, Ge(0), Le(2**32 - 1)]
KernelName = Literal["gaussian", "laplacian", "cauchy"]
