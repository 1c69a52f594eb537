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
    """Compile to machine code, cached on disk, without holding the interpreter's lock: a loop over the events of a batch.

    Reassociation and contraction let the compiler vectorise sums. What they choose depends on the length of a loop
    only, never on how a stream was cut into batches, so the same (state, event) gives the same bits. Not-a-number keeps
    its meaning: a missing label. Zeros keep their sign: state is compared bit by bit.
    """
    return _compile(function, _FAST, allocates=True)


def lean(function: Function) -> Function:
    """A kernel, or a function that kernels call, which allocates no arrays, so that numba need not count references to those that it is
    given: each of them would cost about 10 ns a call, and each row that a loop takes of one as much again.
    """
    return _compile(function, _FAST)


def inlined(function: Function) -> Function:
    """The same, always copied into its callers: for a short function of a row."""
    return _compile(function, _FAST, inline=True)


def elementary(function: Function) -> Function:
    """Inlined and without reassociation, for arithmetic that relies on the rounding of every step."""
    return _compile(function, {"contract"}, inline=True)


def exact(function: Function) -> Function:
    """Inlined, without contraction either: every operation is rounded by itself, so that zeros at the end of a sum change no bits."""
    return _compile(function, set(), inline=True)


_FAST = {"reassoc", "contract", "arcp"}


def _compile(function: Function, fastmath: set[str], *, inline: bool = False, allocates: bool = False) -> Function:
    options: dict[str, Any] = {
        "cache": True,
        "nogil": True,
        "error_model": "numpy",
        "fastmath": fastmath,
        "forceinline": inline,
        "_nrt": allocates,
    }
    return cast(Function, numba.njit(**options)(function))
