"""Products whose matrices lie in one array: where each begins, what is outside, what overlaps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ALIGNMENT, ArraySpec, array_spec, find_array
from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.request import RequestError


class Shared(Struct, frozen=True):
    """An array that holds a matrix of every product.

    Attributes:
        name: of the array, and of the matrices in their products.
        starts: of each product the element at which its matrix begins.
        size: of the array, in elements.
    """

    name: str
    starts: tuple[int, ...]
    size: int

    @staticmethod
    def of(name: str, starts: Sequence[int], size: int | None, products: Sequence[Problem]) -> Shared:
        """Where products' matrices lie; without a size the array is as long as they reach.

        Raises RequestError for one that reaches beyond the array, or whose tiles or packed elements begin where kernels
        cannot load full vectors from, and for outputs that overlap.
        """
        found = [find_array(one.arrays(), name) for one in products]
        vector = _least_distance(name, products[0], found[0])
        starts = tuple(starts) if len(starts) == len(products) else (starts[0],) * len(products)
        ends = [start + array.elements for start, array in zip(starts, found, strict=True)]
        whole = max(ends) if size is None else size
        for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if start % vector:
                wrong = f"product {number} begins at element {start} of array {name}"
                raise RequestError(f"{name}_at: {wrong}; expected multiples of {vector}, {ALIGNMENT} bytes")
            if end > whole and end > start:
                wrong = f"product {number} reaches to element {end - 1} of array {name}, which has {whole}"
                raise RequestError(f"{name}_at: {wrong}; expected {name}_size={end} at least, or another beginning")
        if found[0].role == "out":
            _check_apart(name, starts, found)
        return Shared(name, starts, whole)

    def array(self, like: Problem) -> ArraySpec:
        """The array; `like` is one of the products."""
        matrix = find_array(like.arrays(), self.name)
        return array_spec(self.name, (self.size,), matrix.dtype, matrix.role)

    def view(self, product: Problem, number: int, whole: Array) -> Array:
        """The matrix of a product in the array."""
        matrix = find_array(product.arrays(), self.name)
        if 0 in matrix.shape:
            return np.empty(matrix.shape, whole.dtype)
        bits = whole[self.starts[number] :].view(f"u{whole.itemsize}")  # as_strided loses the types of ml_dtypes
        strides = [stride * whole.itemsize for stride in matrix.strides]
        return np.lib.stride_tricks.as_strided(bits, matrix.shape, strides).view(whole.dtype)


def _least_distance(name: str, product: Problem, matrix: ArraySpec) -> int:
    """Elements of which every place is a multiple: full vectors, unless kernels load an operand in elements."""
    kind = find_dtype(matrix.dtype)
    whole = kind.packing is not None or (product.shuffled and name in product.operands[1:])
    return ALIGNMENT // kind.bytes if whole else 1


def _check_apart(name: str, starts: Sequence[int], matrices: Sequence[ArraySpec]) -> None:
    """Raise RequestError where rows of two products share elements."""
    begin, end, of = [], [], []
    for number, (start, matrix) in enumerate(zip(starts, matrices, strict=True)):
        if matrix.elements:
            rows, length = matrix.shape
            distance = matrix.strides[0]
            packed = distance == length or rows == 1
            first = np.array([start]) if packed else start + distance * np.arange(rows, dtype=np.int64)
            begin.append(first)
            end.append(first + (matrix.elements if packed else length))
            of.append(np.full(len(first), number))
    if not begin:
        return
    all_begin, all_end, all_of = (np.concatenate(one) for one in (begin, end, of))
    order = np.argsort(all_begin, kind="stable")
    meets = np.flatnonzero(all_end[order][:-1] > all_begin[order][1:])
    if len(meets):
        one, other = sorted(all_of[order][meets[0] : meets[0] + 2].tolist())
        where = int(all_begin[order][meets[0] + 1])
        raise RequestError(
            f"{name}_at: rows of products {one} and {other} overlap at element {where} of array {name}; expected "
            "outputs apart from each other"
        )
