"""compress_sparse: of every four neighbours along a row the two of largest magnitude, and which they are.

What `gemm_sparse` takes as A and its index (`ckmlir.ops.contraction.sparsity`, where `compress` is the same in NumPy).
Of equal magnitudes the first count, NaN counts as infinite. A matrix with at most two numbers other than zero among
four is kept as it is; of any other one the rest is dropped, which is its pruning: data cannot be refused on a device.
`compress(a, strict=True)` refuses on the host.

Arrays: x (m, k); a (m, 2 ceil(k / 4)) of the same type, index (m, ceil(k / 8), i8), or with
`index_order=pieces` (pieces, m, 16): of every row 16 bytes, then the next 16 of every row, filled up
with zeros.

Kernel arguments: the arrays; m, k, the distances of their rows (i32). Grid: tiles across, tiles down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import MAXIMUM_ARRAY_BYTES, ArraySpec, alignment, array_spec, require_reachable
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.sparsity import (
    BY_ROWS,
    OF,
    ORDERS,
    PIECE,
    PIECES,
    compress,
    in_order,
    index_bytes,
    index_shape,
    kept,
)  # fmt: skip
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import NOTHING, Launch, Operator
from ckmlir.ops.request import MAXIMUM_SIZE, Choice, Integer, Pitch, RequestError
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Algorithm, Reason, Spec, no_such_float, not_a_choice, not_powers_of_two, unlike
from ckmlir.ops.tensors.mapping import ALIGN
from ckmlir.ops.tensors.values import moved_values
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

INDEX_ORDER = Choice(
    "index_order", BY_ROWS, "of the index: rows; or pieces of 16 bytes of all rows, one behind the other", ORDERS
)
DTYPES = ("f16", "bf16", "i8", "fp8", "bf8")
WAVES, HEIGHT = 4, 8
BYTES = 64
"""Of the index of a row of a workgroup's tile."""
ROOM = 1024
"""What coordinates may reach beyond the end."""
STRIDES = ("stride", "lda", "ld_index")


class Problem(Struct, frozen=True):
    """m rows of k elements; distances of rows in elements; `align`: bytes that divide all addresses."""

    m: int
    k: int
    dtype: str
    stride: int
    lda: int
    ld_index: int
    align: int
    index_order: str = BY_ROWS


class CompressSpec(Spec):
    """What the kernel's code depends on.

    Attributes:
        aligns: of x, a and the index what divides rows and their distances, in elements.
        base: bytes that divide all addresses.
    """

    dtype: str
    aligns: Algorithm[tuple[int, int, int]]
    base: Algorithm[int]
    index_order: str = BY_ROWS

    @property
    def name(self) -> str:
        aligned = "x".join(map(str, self.aligns))
        return f"compress_sparse_{self.dtype}_align{aligned}_base{self.base}{'_pieces' * (self.index_order == PIECES)}"


class CompressSparse(Operator[Problem, CompressSpec]):
    """The operator `compress_sparse`, which the module's docstring describes."""

    name = "compress_sparse"
    spec_type = CompressSpec
    keys = (
        Integer("m", 512, "rows"),
        Integer("k", 512, "elements of a row"),
        Choice("dtype", "f16", "of x and a", DTYPES),
        Pitch("stride", None, "elements from one row of x to the next", minimum=1, of=("k",)),
        Pitch("lda", None, "elements from one row of a to the next", minimum=1, of=("k",)),
        INDEX_ORDER,
        Pitch("ld_index", None, "elements from one row of index to the next", minimum=1, of=("k",)),
        ALIGN,
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        for name in ("m", "k"):
            if values[name] > MAXIMUM_SIZE - ROOM:
                raise RequestError(f"{name}={values[name]}: expected at most {MAXIMUM_SIZE - ROOM}")
        k, found = values["k"], []
        for name, length in zip(STRIDES, (k, kept(k), index_bytes(k)), strict=True):
            found.append(max(length, 1) if values[name] is None else values[name])
            if found[-1] < length:
                raise RequestError(f"{name}={found[-1]}: a row has {length} elements; expected at least that")
        align, size = values["align"], find_dtype(values["dtype"]).bytes
        if align & (align - 1) or align % size:
            raise RequestError(f"align={align}: elements of x have {size} bytes; expected a power of two from that on")
        order = values["index_order"]
        check_order(order, values["m"], k, values["ld_index"])
        problem = Problem(values["m"], k, values["dtype"], found[0], found[1], found[2], align, order)
        for key, array in zip(STRIDES, self.arrays(problem), strict=True):
            require_reachable(key, array.strides[0], HEIGHT, array)
        return problem

    def spec(self, problem: Problem, target: Target) -> CompressSpec:
        base = min(problem.align, 16)
        size = find_dtype(problem.dtype).bytes
        aligns = (
            alignment(size, problem.k, problem.stride, base // size),
            alignment(size, kept(problem.k), problem.lda, base // size),
            PIECE if problem.index_order == PIECES
            else alignment(1, index_bytes(problem.k), problem.ld_index, base),
        )  # fmt: skip
        return CompressSpec(problem.dtype, aligns, base, problem.index_order)

    def validate(self, spec: CompressSpec, target: Target) -> list[Reason]:
        reasons = list(not_a_choice(spec, dtype=DTYPES, index_order=ORDERS))
        reasons += not_powers_of_two(spec, "aligns", "base")
        return [*reasons, *no_such_float("dtype", spec.dtype, target)]

    def mismatches(self, problem: Problem, spec: CompressSpec, target: Target) -> list[Reason]:
        names = {"dtype": problem.dtype, "index_order": problem.index_order}
        reasons, own = list(unlike(spec, **names)), self.spec(problem, target)
        if any(has % needed for has, needed in zip((*own.aligns, own.base), (*spec.aligns, spec.base), strict=True)):
            why = f"rows and addresses allow {own.aligns} and {own.base}"
            reasons.append(Reason("aligns", spec.aligns, why, "expected numbers that divide these"))
        return reasons

    def kernels(self, target: Target) -> list[CompressSpec]:
        specs = [
            self.spec(self.problem(dtype=dtype, index_order=order), target) for order in ORDERS for dtype in DTYPES
        ]
        return [spec for spec in specs if not self.validate(spec, target)]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        m, k, dtype, align = problem.m, problem.k, problem.dtype, problem.align
        return (
            array_spec("x", (m, k), dtype, "in", problem.stride, align=align),
            array_spec("a", (m, kept(k)), dtype, "out", problem.lda, align=align),
            self._index(problem),
        )

    @staticmethod
    def _index(problem: Problem) -> ArraySpec:
        shape, strides = index_shape(problem.index_order, problem.m, problem.k, problem.ld_index)
        return ArraySpec("index", shape, "i8", "out", strides, problem.align)

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        values = moved_values(array, generator)
        there: Array = np.where(generator.random(array.shape) < 0.7, values, 0)  # with ties, of zeros
        return there

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Both outputs, exactly."""
        a, index = compress(arrays["x"])
        return {"a": a, "index": in_order(index, problem.index_order)}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        return dict.fromkeys(("a", "index"), Tolerance(0.0, 0.0, "elements move unchanged"))

    def launch(self, problem: Problem, spec: CompressSpec, target: Target) -> Launch:
        if 0 in (problem.m, problem.k):
            return NOTHING
        scalars = (problem.m, problem.k, problem.stride, problem.lda, problem.ld_index)
        grid = (ceil_div(problem.k, 2 * OF * BYTES), ceil_div(problem.m, HEIGHT), 1)
        return Launch(grid, (WAVES * WAVE_SIZE, 1, 1), ("x", "a", "index", *map(i32, scalars)))


def check_order(order: str, m: int, k: int, pitch: int | None) -> None:
    """RequestError where an index in pieces has rows that do not follow each other, or is more than kernels address."""
    if order == BY_ROWS:
        return
    if pitch is not None:
        why = f"pieces of the index follow each other; expected index_order={BY_ROWS}, or none"
        raise RequestError(f"ld_index={pitch}: {why}")
    size = ceil_div(index_bytes(k), PIECE) * PIECE * m
    if size > MAXIMUM_ARRAY_BYTES:
        right = f"kernels address at most {MAXIMUM_ARRAY_BYTES} in pieces; expected index_order=rows"
        raise RequestError(f"array index: {size} bytes; {right}")


OPERATOR = CompressSparse()
