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
    only, never on how a stream was cut into batches, so the same (state, event) gives the same bits. Not-a-number keeps
    its meaning: a missing label. Zeros keep their sign: state is compared bit by bit.
    """
    return _compile(function, {"reassoc", "contract", "arcp"})


def elementary(function: Function) -> Function:
    """The same without reassociation, for arithmetic that relies on the rounding of every step."""
    return _compile(function, {"contract"})


def exact(function: Function) -> Function:
    """Without contraction either: every operation is rounded by itself, so that zeros at the end of a sum change no bits."""
    return _compile(function, set())


def _compile(function: Function, fastmath: set[str]) -> Function:
    return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=fastmath)(function))
