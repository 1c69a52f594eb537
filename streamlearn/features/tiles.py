"""Products and distances between rows and the columns of a matrix, in which every element's bits depend on its row and column alone.

BLAS promises no such thing, and a stream's predictions must not depend on how it was cut into batches: with OpenBLAS the
last bits of a row changed with the number of rows, and at odd widths with the place of the row among them. Here every
element is a sum in the order of the inner dimension, term by term, whatever tile it is computed in.

A tile of the result is held in vector registers while the inner dimension is walked once. numba's loops cannot say
that, so the tiles are written as LLVM instructions.
"""

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils as untyped_cgutils
from numba.extending import intrinsic

from streamlearn.features.compiled import Array, lean

cgutils: Any = untyped_cgutils

_WIDE = bool(llvm.get_host_cpu_features().get("avx512f", False))  # 32 registers of 64 bytes instead of 16 of 32
_VECTOR_BYTES = 64 if _WIDE else 32
_ROWS = 12 if _WIDE else 6  # of a tile of a product, two vectors wide: most registers hold sums
_WIDTH = 4  # vectors of a tile one row high: as many sums as one addition takes cycles


@lean
def product(X: Array, matrix: Array, out: Array) -> None:
    """out = X @ matrix for X [n, dim], matrix [dim, count] and out [n, count], of one dtype and contiguous."""
    count = matrix.shape[1]
    lanes = _VECTOR_BYTES // X.itemsize
    column = 0
    while column < count:  # the last tiles overlap those before them instead of being narrower
        if count >= 2 * lanes and count - column > lanes:
            column = min(column, count - 2 * lanes)
            for row in range(0, len(X), _ROWS):
                _product_tile(X, row, matrix, column, out)
            column += 2 * lanes
        elif count >= lanes:
            column = min(column, count - lanes)
            for row in range(0, len(X), _ROWS):
                _narrow_product_tile(X, row, matrix, column, out)
            column += lanes
        else:
            for row in range(len(X)):
                _single_product(X, row, matrix, column, out)
            column += 1


@lean
def row_product(x: Array, matrix: Array, out: Array) -> None:
    """out = x @ matrix for one row x [dim] and out [count], to the bits that `product` gives it among others."""
    count, lanes = len(out), _VECTOR_BYTES // x.itemsize
    column = 0
    while column < count:
        if count >= _WIDTH * lanes:
            column = min(column, count - _WIDTH * lanes)
            _row_tile(x, 0, matrix, column, out)
            column += _WIDTH * lanes
        elif count >= lanes:
            column = min(column, count - lanes)
            _narrow_row_tile(x, 0, matrix, column, out)
            column += lanes
        else:
            _single_product(x, 0, matrix, column, out)
            column += 1


@lean
def squared_distances(x: Array, columns: Array, size: int, out: Array) -> None:
    """out[b] = ||columns[:, b] - x||^2 for b < size; columns [dim, size or more], x [dim], of one dtype and contiguous."""
    lanes = _VECTOR_BYTES // x.itemsize
    column = 0
    while column < size:
        if size >= _WIDTH * lanes:
            column = min(column, size - _WIDTH * lanes)
            _squared_tile(x, 0, columns, column, out)
            column += _WIDTH * lanes
        elif size >= lanes:
            column = min(column, size - lanes)
            _narrow_squared_tile(x, 0, columns, column, out)
            column += lanes
        else:
            _single_squared(x, 0, columns, column, out)
            column += 1


@lean
def absolute_distances(x: Array, columns: Array, size: int, out: Array) -> None:
    """out[b] = ||columns[:, b] - x||_1, as `squared_distances`."""
    lanes = _VECTOR_BYTES // x.itemsize
    column = 0
    while column < size:
        if size >= lanes:
            column = min(column, size - lanes)
            _absolute_tile(x, 0, columns, column, out)
            column += lanes
        else:
            _single_absolute(x, 0, columns, column, out)
            column += 1


# How a tile adds a term: add(builder, total, x, element) of vectors of one type.


def _multiply_add(builder: Any, total: Any, x: Any, element: Any) -> Any:
    return _call(builder, "fmuladd", x, element, total)


def _add_squared(builder: Any, total: Any, x: Any, element: Any) -> Any:
    difference = builder.fsub(element, x)
    return _call(builder, "fmuladd", difference, difference, total)


def _add_absolute(builder: Any, total: Any, x: Any, element: Any) -> Any:
    return builder.fadd(total, _call(builder, "fabs", builder.fsub(element, x)))


def _call(builder: Any, name: str, *arguments: Any) -> Any:
    vector = arguments[0].type
    function = ir.FunctionType(vector, [vector] * len(arguments))
    full_name = f"llvm.{name}.v{vector.count}{vector.element.intrinsic_name}"
    return builder.call(cgutils.get_or_insert_function(builder.module, function, full_name), arguments)


def _tile(rows: int, vectors: int, add: Callable[..., Any], lanes: int | None = None) -> Any:
    """tile(X, row, matrix, column, out): out[row : row + rows, column : column + vectors * lanes].

    Rows of X beyond the last stand for the last one again: they compute and store what it does.
    """

    def typed(_context: Any, X: Any, row: Any, matrix: Any, column: Any, out: Any) -> tuple[Any, Callable[..., Any]]:  # noqa: ARG001
        return types.void(X, types.intp, matrix, types.intp, out), generate

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        X, matrix, out = (_Matrix(context, builder, signature.args[k], arguments[k]) for k in (0, 2, 4))
        vector = ir.VectorType(X.element, lanes or _VECTOR_BYTES // X.itemsize)
        first, column = arguments[1], arguments[3]
        last = builder.sub(X.rows, ir.Constant(X.rows.type, 1))
        places = [_smaller(builder, builder.add(first, ir.Constant(first.type, r)), last) for r in range(rows)]
        columns = [builder.add(column, ir.Constant(column.type, v * vector.count)) for v in range(vectors)]
        sums = [[cgutils.alloca_once_value(builder, vector(None)) for _ in columns] for _ in places]
        with cgutils.for_range(builder, X.columns) as loop:
            elements = [matrix.load(loop.index, c, vector) for c in columns]
            for place, totals in zip(places, sums, strict=True):
                x = _broadcast(builder, builder.load(X.pointer(place, loop.index)), vector)
                for element, total in zip(elements, totals, strict=True):
                    builder.store(add(builder, builder.load(total), x, element), total)
        for place, totals in zip(places, sums, strict=True):
            for c, total in zip(columns, totals, strict=True):
                out.store(place, c, builder.load(total))
        return context.get_dummy_value()

    return intrinsic(typed)


class _Matrix:
    """Elements of a contiguous numba array [rows, columns], or [columns] for a single row, in generated code."""

    def __init__(self, context: Any, builder: Any, typ: Any, value: Any) -> None:
        array = context.make_array(typ)(context, builder, value)
        self._builder, self._data = builder, array.data
        lengths = cgutils.unpack_tuple(builder, array.shape, typ.ndim)
        self.columns = lengths[-1]
        self.rows = lengths[0] if typ.ndim == 2 else ir.Constant(self.columns.type, 1)
        self.element = context.get_data_type(typ.dtype)
        self.itemsize = context.get_abi_sizeof(self.element)

    def pointer(self, row: Any, column: Any) -> Any:
        return self._builder.gep(self._data, [self._builder.add(self._builder.mul(row, self.columns), column)])

    def load(self, row: Any, column: Any, vector: Any) -> Any:
        pointer = self._builder.bitcast(self.pointer(row, column), vector.as_pointer())
        return self._builder.load(pointer, align=self.itemsize)

    def store(self, row: Any, column: Any, value: Any) -> None:
        pointer = self._builder.bitcast(self.pointer(row, column), value.type.as_pointer())
        self._builder.store(value, pointer, align=self.itemsize)


def _smaller(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.icmp_signed("<", a, b), a, b)


def _broadcast(builder: Any, scalar: Any, vector: Any) -> Any:
    single = builder.insert_element(vector(ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(single, vector(ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None))


_product_tile, _narrow_product_tile = _tile(_ROWS, 2, _multiply_add), _tile(_ROWS, 1, _multiply_add)
_row_tile, _narrow_row_tile = _tile(1, _WIDTH, _multiply_add), _tile(1, 1, _multiply_add)
_squared_tile, _narrow_squared_tile = _tile(1, _WIDTH, _add_squared), _tile(1, 1, _add_squared)
_absolute_tile = _tile(1, 1, _add_absolute)
_single_product, _single_squared, _single_absolute = (_tile(1, 1, add, lanes=1) for add in (_multiply_add, _add_squared, _add_absolute))
