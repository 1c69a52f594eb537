"""How every numeric kernel of the project is compiled, and the array types its signatures use."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numpy.typing import NDArray

Array = NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Any])


def _kernels_version() -> str:
    """A hash of the sources of all kernels."""
    sources = sorted(path for folder in ("features", "learners") for path in (Path(__file__).parents[1] / folder).glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


if "NUMBA_CACHE_DIR" in os.environ:
    # numba does not notice that an inlined function of another file has changed, so a cache that outlives an upgrade could run old code.
    vars(numba.config)["CACHE_DIR"] = str(Path(os.environ["NUMBA_CACHE_DIR"]) / _kernels_version())


def kernel(function: Function) -> Function:
    """Compile to machine code, cached on disk, without holding the interpreter's lock.

    Reassociation and contraction let the compiler vectorise sums. What they choose depends on the length of a loop
    only, never on how a stream was cut into batches, so the same (state, event) gives the same bits. Not-a-number keeps
    its meaning: a missing label. Zeros keep their sign: state is compared bit by bit.
    """
    return _compile(function, {"reassoc", "contract", "arcp"})


def inlined(function: Function) -> Function:
    """The same, always copied into its callers: for a short function of a row. A call with slices of arrays costs about 20 ns each."""
    return _compile(function, {"reassoc", "contract", "arcp"}, inline=True)


def elementary(function: Function) -> Function:
    """Inlined and without reassociation, for arithmetic that relies on the rounding of every step."""
    return _compile(function, {"contract"}, inline=True)


def exact(function: Function) -> Function:
    """Without contraction either: every operation is rounded by itself, so that zeros at the end of a sum change no bits."""
    return _compile(function, set())


def _compile(function: Function, fastmath: set[str], *, inline: bool = False) -> Function:
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=fastmath, forceinline=inline)(function)
    return cast(Function, compiled)
