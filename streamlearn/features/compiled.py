"""How every numeric kernel of the project is compiled, and the array types its signatures use."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numpy.typing import NDArray

Array = NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile to machine code, cached on disk, without holding the interpreter's lock.

    Reassociation and contraction let the compiler vectorise sums. What they choose depends on the length of a loop
    only, never on how a
    stream was cut into batches, so the same (state, event) gives the same bits. Not-a-number keeps its meaning: a
    missing label.
    """
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp"})(function)
    return cast(Function, compiled)


def ordered(function: Function) -> Function:
    """`kernel` without reassociation: for sums over outputs, whose number may grow, so that zeros at the end change no bits."""
    return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
