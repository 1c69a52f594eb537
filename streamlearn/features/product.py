"""Products of rows with a matrix that all of them share, in which the bits of a row's product depend on that row alone.

BLAS promises no such thing, and a stream's predictions must not depend on how it was cut into batches: with OpenBLAS the
last bits changed with the number of rows, and at odd widths with the place of a row among them. Here every element is
a sum in the order of the inner dimension, one fused multiply-add after the other, whatever tile it is computed in.

A tile of the product is held in vector registers while the inner dimension is walked once. numba's loops cannot say
that, so the tile is written as LLVM instructions.
"""

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from streamlearn.features.compiled import Array, kernel

# A tile is ROWS x (1 or 2) vectors: with AVX-512 that takes 24 of 32 registers for sums, else 12 of 16.
_WIDE_REGISTERS = bool(llvm.get_host_cpu_features().get("avx512f", False))
ROWS = 12 if _WIDE_REGISTERS else 6
_VECTOR_BYTES = 64 if _WIDE_REGISTERS else 32


@kernel
def product(X: Array, matrix: Array, out: Array) -> None:
    """out = X @ matrix for X [n, dim], matrix [dim, count] and out [n, count], of one dtype and contiguous, n >= 1."""
    count = matrix.shape[1]
    lanes = _VECTOR_BYTES // X.itemsize
    if count < lanes:
        _narrow_product(X, matrix, out)
        return
    column = 0
    while column < count:
        # The last tiles overlap those before them instead of being narrower.
        if count - column > lanes and count >= 2 * lanes:
            column = min(column, count - 2 * lanes)
            for row in range(0, len(X), ROWS):
                _tile_of_two(X, row, matrix, column, out)
            column += 2 * lanes
        else:
            column = min(column, count - lanes)
            for row in range(0, len(X), ROWS):
                _tile_of_one(X, row, matrix, column, out)
            column += lanes


@kernel
def _narrow_product(X: Array, matrix: Array, out: Array) -> None:
    for i in range(len(X)):
        out[i] = 0.0
        for j in range(X.shape[1]):
            for k in range(matrix.shape[1]):
                out[i, k] += X[i, j] * matrix[j, k]


def _tile(vectors: int) -> Any:
    """tile(X, row, matrix, column, out): the elements [row : row + ROWS, column : column + vectors * lanes] of the product.

    Rows beyond the last stand for the last one again: they compute and store what it does.
    """

    def typed(context: Any, X: Any, row: Any, matrix: Any, column: Any, out: Any) -> tuple[Any, Callable[..., Any]]:
        return types.void(X, types.intp, matrix, types.intp, out), generate

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        X, matrix, out = (_Matrix(context, builder, signature.args[k], arguments[k]) for k in (0, 2, 4))
        row, column = arguments[1], arguments[3]
        lanes = _VECTOR_BYTES // X.itemsize
        vector = ir.VectorType(X.element, lanes)
        name = f"llvm.fmuladd.v{lanes}{X.element.intrinsic_name}"
        multiply_add = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), name)
        last = builder.sub(X.rows, ir.Constant(X.rows.type, 1))
        rows = [_smaller(builder, builder.add(row, ir.Constant(row.type, r)), last) for r in range(ROWS)]
        columns = [builder.add(column, ir.Constant(column.type, v * lanes)) for v in range(vectors)]
        sums = [[cgutils.alloca_once_value(builder, vector(None)) for _ in columns] for _ in rows]
        with cgutils.for_range(builder, X.columns) as loop:
            parts = [matrix.load_vector(loop.index, c, vector) for c in columns]
            for r, totals in zip(rows, sums, strict=True):
                x = _broadcast(builder, builder.load(X.pointer(r, loop.index)), vector)
                for part, total in zip(parts, totals, strict=True):
                    builder.store(builder.call(multiply_add, [x, part, builder.load(total)]), total)
        for r, totals in zip(rows, sums, strict=True):
            for c, total in zip(columns, totals, strict=True):
                out.store_vector(r, c, builder.load(total))
        return context.get_dummy_value()

    return intrinsic(typed)


class _Matrix:
    """Elements of a contiguous numba array [rows, columns] in generated code."""

    def __init__(self, context: Any, builder: Any, typ: Any, value: Any) -> None:
        array = context.make_array(typ)(context, builder, value)
        self._builder, self._data = builder, array.data
        self.rows, self.columns = cgutils.unpack_tuple(builder, array.shape, 2)
        self.element = context.get_data_type(typ.dtype)
        self.itemsize = context.get_abi_sizeof(self.element)

    def pointer(self, row: Any, column: Any) -> Any:
        return self._builder.gep(self._data, [self._builder.add(self._builder.mul(row, self.columns), column)])

    def load_vector(self, row: Any, column: Any, vector: Any) -> Any:
        pointer = self._builder.bitcast(self.pointer(row, column), vector.as_pointer())
        return self._builder.load(pointer, align=self.itemsize)

    def store_vector(self, row: Any, column: Any, value: Any) -> None:
        pointer = self._builder.bitcast(self.pointer(row, column), value.type.as_pointer())
        self._builder.store(value, pointer, align=self.itemsize)


def _smaller(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.icmp_signed("<", a, b), a, b)


def _broadcast(builder: Any, scalar: Any, vector: Any) -> Any:
    single = builder.insert_element(vector(ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(single, vector(ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None))


_tile_of_one, _tile_of_two = _tile(1), _tile(2)
