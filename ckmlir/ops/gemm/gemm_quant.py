"""gemm_quant: C = op(scaled A · scaled B) of quantised matrices, CK Tile's example 38.

A has a scale for all of it (`a_scale=tensor`), for each row (`row`: of tokens), or for each row and 32, 64 or 128
elements along K (`1x128`); B alike, for each column (`column`: of channels), or for each column, or 128 columns, and a
group along K (`1x128`, `128x128`). Groups begin at multiples of their length; the last may be shorter. The sums of a
group are scaled and added in f32, scales of all of K are applied at the end: `acc` in `op` is the product of the scaled
matrices, in f32.

With `b_dtype` one of A and B may be of fp8 and the other of bf8. With `b_dtype=i4` B is of integers from -8 to 7, with
u4 from 0 to 15, two in a byte, the first of two along K in the low half (CK Tile's pk_int4). They become `dtype` on
their way to LDS, exactly: bf8, which lacks 9, does not take u4. With `zeros` an integer stands for what it is more than
the zero point of its scale, a number of `b_dtype` too; that becomes fp8 or i8.

Arrays: a, b as in `gemm`, of i4 and u4 bytes (n, k / 2), or (k, n / 2), ldb counting elements; scale_a, scale_b (f32):
(1), (rows), or (rows, groups), rows being those of A, or columns of B, or 128 of them; with `a_major=rows` (groups,
rows). Then zero_b (i8), which lies as scale_b; D tensors, c.

Kernel arguments: a, b, scales; m, n, k; lda, ldb; distances of scale_a, scale_b; ldc, those of D tensors (i32); then as
in `gemm`. Nothing is promised where a scale is infinite, or in f32 the product of both scales, or of one and the sum
that it scales; nor of infinities in A or B where the product of both is less than f32's normal numbers, which may be 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import replace

from ckmlir.dialect.packing import PACKED, light_exponent
from ckmlir.ops.arrays import ArraySpec, alignment
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.block_sizes import MEDIUM, SMALL
from ckmlir.ops.contraction.contraction_spec import COMPUTED, LAYOUTS, ContractionSpec
from ckmlir.ops.contraction.keys import (
    PITCHES,
    PLAN_KEYS,
    SHUFFLED,
    SIZES,
    check_packed,
    check_sizes,
    expression_keys,
    read_problem,
)
from ckmlir.ops.contraction.operator import ContractionOperator
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.reference import matrices
from ckmlir.ops.contraction.scaling import MAJORS, Scale
from ckmlir.ops.contraction.scaling import ZEROS as SHIFTS
from ckmlir.ops.contraction.tolerance import magnitudes
from ckmlir.ops.dtypes import PACKED_INTEGERS, find_dtype
from ckmlir.ops.precision import DENORMAL, OVERFLOW, UNIT
from ckmlir.ops.request import LEAST_NORMAL_F32, Choice, Flag, Pitch, RequestError
from ckmlir.targets import Target

DTYPES = ("fp8", "bf8", "i8")
B_TYPES = ("fp8", "bf8", *PACKED_INTEGERS)
GROUPS = {f"1x{length}": (1, length) for length in (32, 64, 128)}
A_SCALES = {"tensor": (0, 0), "row": (1, 0), **GROUPS}
B_SCALES = {"tensor": (0, 0), "column": (1, 0), **GROUPS, "128x128": (128, 128)}
"""Words -> rows of A (columns of B), and elements along K, that share a scale; 0: all."""
ROUNDINGS = 6
"""Of a term beside those of its sum: of a group's sum, both scales' product, that with the sum; two at the end."""
COMBINATIONS = (("1x128", "128x128"), ("1x128", "1x128"), ("row", "column"), ("tensor", "tensor"), ("row", "128x128"))
"""Whose kernels are listed."""


RESULT_KEYS = (
    Choice("out", "bf16", "of C; types of 8 bits saturate", COMPUTED["f32"]),
    Choice("layout", "RCR", "of A, B, C: R rows, C columns are contiguous", LAYOUTS),
)
SCALE_PITCHES = (
    *PITCHES,
    Pitch("ld_scale_a", None, "elements from one row of array scale_a to the next", minimum=1, of=("m", "k")),
    Pitch("ld_scale_b", None, "elements from one row of array scale_b to the next", minimum=1, of=("n", "k")),
)
ZEROS = Flag("zeros", False, "each scale of integers of 4 bits has a zero point beside it")
SCALE_KEYS = (
    Choice("a_major", "k", "along what scales of groups of A follow each other", MAJORS),
    Choice("b_major", "k", "along what those of B do; rows: along its columns", MAJORS),
    *SCALE_PITCHES,
)


class GemmQuant(ContractionOperator):
    """The operator `gemm_quant`, which the module's docstring describes.

    Attributes:
        products: matrices B, each with scales of its own.
    """

    name = "gemm_quant"
    products: ClassVar[int] = 1
    keys = (
        *SIZES,
        Choice("dtype", "fp8", "of A and, unless b_dtype says otherwise, B", DTYPES),
        Choice("b_dtype", None, "of B: the other 8-bit float; i4 or u4, which become dtype", B_TYPES),
        *RESULT_KEYS,
        Choice("a_scale", "1x128", "of all of A, each row, or each row and so much of K", tuple(A_SCALES)),
        Choice("b_scale", "128x128", "of all of B, each column, or so many columns and so much of K", tuple(B_SCALES)),
        ZEROS,
        *SCALE_KEYS,
        *PLAN_KEYS,
        SHUFFLED,
        *expression_keys("acc"),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        check_packed(values, (values["dtype"], values["b_dtype"] or values["dtype"]), zeros=values["zeros"])
        problem = read_problem(values, self.products)
        of_a = scale_of("a", A_SCALES[values["a_scale"]], values, problem.m, problem.k)
        of_b = scale_of("b", B_SCALES[values["b_scale"]], values, problem.n, problem.k)
        of_b = replace(of_b, zeros=SHIFTS if values["zeros"] else "")
        scaling = (of_a, *(replace(of_b, operand=name) for name in problem.operands[1:]))
        return check_sizes(replace(problem, split_k=1, scaling=scaling))

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name in {name for one in problem.scaling for name in one.zero_names}:
            packing = PACKED[problem.b_dtype]
            return generator.integers(int(packing.least), int(packing.largest) + 1, array.shape)
        if array.name not in {one.name for one in problem.scaling}:
            return super()._values(problem, array, generator)
        return np.exp2(generator.uniform(-3, 3, array.shape)).astype(np.float32)

    def _outcome(self, problem: Problem, arrays: Mapping[str, Array]) -> Array:
        """That of the product of the scaled matrices, which are not rounded."""
        return super()._outcome(_plain(problem), scaled(problem, arrays))

    def _tolerance(
        self,
        problem: Problem,
        arrays: Mapping[str, Array],
        reference: Array,
        target: Target,
        moved: Array | float = 0.0,
        added: int | None = None,
    ) -> Tolerance:
        """As of any product, and `ROUNDINGS` more of every term; a product of scales may become zero where f32 has no
        normal number so small, and a sum times one scale, before the other, is a multiple of its least number.
        """
        given, worst = scaled(problem, arrays), np.zeros((problem.m, problem.n))
        times = _times(problem)
        of_a, *of_b = problem.scaling
        for (a, b), one in zip(matrices(problem, arrays), of_b, strict=True):
            terms = magnitudes(given["a"], given[one.operand].T)
            error = ROUNDINGS * UNIT * terms + LEAST_NORMAL_F32 * magnitudes(a, b)
            rows = of_a.largest(arrays[of_a.name], problem.m, problem.k)
            columns = one.largest(arrays[one.name], problem.n, problem.k)
            with np.errstate(over="ignore", invalid="ignore"):
                error = error + DENORMAL / 2 * problem.k * np.maximum.outer(rows, columns)
                beyond = np.logical_or.outer(np.isinf(rows), np.isinf(columns)) | (np.outer(rows, columns) >= OVERFLOW)
                beyond |= magnitudes(a, b) * np.maximum.outer(rows, columns) >= OVERFLOW / times
                beyond |= (terms >= OVERFLOW / times) & (times > 1)
                least = np.outer(of_a.least(arrays[of_a.name], problem.m), one.least(arrays[one.name], problem.n))
                beyond |= (least < LEAST_NORMAL_F32) & ~np.isfinite(a.astype(np.float64) @ b.astype(np.float64))
            worst = np.maximum(worst, np.where(beyond, np.inf, error))
        return super()._tolerance(_plain(problem), given, reference, target, worst + moved, added)

    def kernels(self, target: Target) -> list[ContractionSpec]:
        specs = []
        for dtype in DTYPES:
            for a_scale, b_scale in COMBINATIONS:
                for size in (SMALL, 8 * MEDIUM):
                    problem = self.problem(m=size, n=size, k=1024, dtype=dtype, a_scale=a_scale, b_scale=b_scale)
                    specs.append(self.spec(problem, target))
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]


def scale_of(
    operand: str, shared: tuple[int, int], values: Mapping[str, Any], rows: int, k: int, dtype: str = "f32"
) -> Scale:
    """The scales of an operand. Raises RequestError for a pitch that is shorter than a row of the array."""
    count, group = shared
    major = values[f"{operand}_major"]
    bare = Scale(operand=operand, rows=count, group=group, major=major, dtype=dtype, align=1, pitch=1)
    least = max(bare.shape(rows, k)[-1], 1) if bare.group else 1
    key = f"ld_{bare.name}"
    pitch = least if values[key] is None else values[key]
    if pitch < least:
        raise RequestError(f"{key}={pitch}: rows of array {bare.name} have {least} elements; expected at least that")
    # A lane takes several scales only of a row's groups, where they follow each other.
    wide = bare.rows == 1 and bare.group > 0 and bare.major != "rows"
    return replace(bare, pitch=pitch, align=alignment(find_dtype(dtype).bytes, pitch, least) if wide else 1)


def _times(problem: Problem) -> float:
    """What products are multiplied by until their sums are scaled, where that is more than 1."""
    whole = not any(one.zeros for one in problem.scaling)
    made = problem.dtype == "i8" and problem.b_dtype in PACKED_INTEGERS and whole
    return 2.0 ** light_exponent(PACKED[problem.b_dtype], "i8") if made else 1.0


def _plain(problem: Problem) -> Problem:
    """The product of two matrices (m, k) and (n, k), which are scaled."""
    return replace(problem, dtype="f32", b_dtype="", layout="RCR", lda=problem.k, ldb=problem.k, scaling=(), shuffled=0)


def scaled(problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays with A (m, k) and each B (n, k) in float64, scaled; rows of tiles are put in order."""
    pairs = matrices(problem, arrays)
    found = dict(arrays)
    for values, one in zip((pairs[0][0], *(b.T for _, b in pairs)), problem.scaling, strict=True):
        with np.errstate(invalid="ignore", over="ignore"):
            found[one.operand] = values.astype(np.float64) * one.over(arrays[one.name], *values.shape)
    return found


OPERATOR = GemmQuant()
