"""quantize_blocks: a matrix in fp8, bf8, i8, fp4, fp6 or bf6 with a scale for each block: q = x / scale, rounded to the
nearest even.

Blocks are 1 row of 32, 64 or 128 elements, or 128 x 128; the last ones may be smaller. Scales of f32 are the largest
magnitude of the block over the largest number of q's type, at least 2^-126, as in `ops/rows/quantization.py`. Scales of
e8m0 are the power of two below that magnitude over the one below the largest number (OCP Microscaling Formats, 6.3), at
least 2^-127; what is then too large saturates. NaN is left out of the maximum, and becomes 0 as i8; packed elements
(fp4, fp6, bf6), which take powers of two only, have none, and nothing is promised of it. With `row_ids` a row whose
number in an array of that name is negative is not read, and becomes zeros; blocks are of one row then.

Arrays: x (m, n), row_ids (m, i32) if there is one; q (m, n), of packed elements their bytes (`ckmlir.ops.packing`),
which rows fill; scale (rows, groups), or with `major=rows` (groups, rows), where rows is m or, of blocks of 128 x 128,
as many as m has; powers of two of 1 x 32 also in tiles, filled up with 2^-127 (`ckmlir.ops.contraction.scale_tiles`).
`gemm_quant` and `mx_gemm` take q and scale as they are.

Kernel arguments: the arrays; m, n, the strides of x and q (of packed elements in bytes), elements from one row of
scale to the next (i32). Grid: tiles across, tiles down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ckmlir.dialect.packing import PACKED
from ckmlir.ops.arrays import ArraySpec, alignment, array_spec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.scale_tiles import TILINGS, tile_scales
from ckmlir.ops.contraction.scaling import ORDERS, POWERS
from ckmlir.ops.dtypes import PACKED_FLOATS, find_dtype, numpy_dtype
from ckmlir.ops.operator import NOTHING, Launch, Operator
from ckmlir.ops.packing import bytes_of, pack_values
from ckmlir.ops.precision import UNIT, in_f32
from ckmlir.ops.quantization.blocks import BLOCKS, SCALES_TEXT, check_format, scale_shape, with_scales
from ckmlir.ops.request import Choice, Flag, Integer, Pitch, RequestError
from ckmlir.ops.rows.arrays import FLOATS
from ckmlir.ops.rows.quantization import LEAST_SCALE, largest, rounded, rounded_tolerance
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Algorithm, Reason, Spec, not_a_choice, not_powers_of_two, unlike
from ckmlir.targets import Target, get_target
from ckmlir.targets.cdna import WAVE_SIZE

OUT = ("fp8", "bf8", "i8", *PACKED_FLOATS)
SCALES = ("f32", POWERS)
WAVES = 4
ELEMENTS = 4096
"""Of a workgroup's tile of single rows: 16 of each work-item."""
LEAST_POWER = -127


class Problem(Struct, frozen=True):
    """m rows of n elements; strides in elements from row to row."""

    m: int
    n: int
    dtype: str
    out: str
    block: str
    scales: str
    major: str
    row_ids: bool
    stride: int
    qstride: int

    @property
    def scale_shape(self) -> tuple[int, int]:
        """Of the array of scales."""
        return scale_shape(self.m, self.n, self.block, self.major)


class QuantizeBlocksSpec(Spec):
    """What the kernel's code depends on; `align`: what divides rows and strides, in elements of x."""

    dtype: str
    out: str
    block: str
    scales: str
    major: str
    row_ids: bool
    align: Algorithm[int]

    @property
    def name(self) -> str:
        parts = (self.dtype, self.out, self.block, self.scales, self.major, *(["ids"] if self.row_ids else []))
        return "_".join(("quantize_blocks", *parts, f"align{self.align}"))

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a workgroup: of whole blocks."""
        rows, columns = BLOCKS[self.block]
        return (rows, columns) if rows > 1 else (ELEMENTS // columns, columns)


class QuantizeBlocks(Operator[Problem, QuantizeBlocksSpec]):
    """The operator `quantize_blocks`, which the module's docstring describes."""

    name = "quantize_blocks"
    spec_type = QuantizeBlocksSpec
    keys = (
        Integer("m", 256, "rows"),
        Integer("n", 1024, "elements of a row"),
        Choice("dtype", "f16", "of x", FLOATS),
        Choice("out", "fp8", "of q", OUT),
        Choice("block", "1x128", "rows x columns that share a scale", tuple(BLOCKS)),
        Choice("scales", None, SCALES_TEXT, SCALES),
        Choice("major", "k", "along what scales follow each other: the rows of x, from row to row, in tiles", ORDERS),
        Pitch("stride", None, "of the rows of x, in elements; by default n"),
        Pitch("qstride", None, "of the rows of q, in elements; by default n"),
        Flag("row_ids", False, "an array says which rows of x there are; those of a negative number are not read"),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        values = with_scales(values, values["out"])
        n, strides = values["n"], []
        for name in ("stride", "qstride"):
            strides.append(max(n, 1) if values[name] is None else values[name])
            if strides[-1] < n:
                raise RequestError(f"{name}={strides[-1]}: a row has {n} elements; expected at least that")
        choices = [values[name] for name in ("dtype", "out", "block", "scales", "major", "row_ids")]
        if values["scales"] == POWERS and values["out"] == "i8":
            raise RequestError("scales=e8m0: powers of two are scales of floats; expected another out than i8")
        check_format(values, values["out"], n, {"qstride": strides[1]})
        if values["row_ids"] and BLOCKS[values["block"]][0] > 1:
            able = "|".join(block for block, (rows, _) in BLOCKS.items() if rows == 1)
            raise RequestError(f"row_ids=1: rows of block={values['block']} share a scale; expected block={able}")
        return Problem(values["m"], n, *choices, *strides)

    def spec(self, problem: Problem, target: Target) -> QuantizeBlocksSpec:
        align = alignment(find_dtype(problem.dtype).bytes, problem.n, problem.stride, problem.qstride)
        return QuantizeBlocksSpec(
            problem.dtype, problem.out, problem.block, problem.scales, problem.major, problem.row_ids, align
        )  # fmt: skip

    def validate(self, spec: QuantizeBlocksSpec, target: Target) -> list[Reason]:
        reasons = list(not_a_choice(spec, dtype=FLOATS, out=OUT, block=tuple(BLOCKS), scales=SCALES, major=ORDERS))
        reasons += not_powers_of_two(spec, "align")
        if spec.out in OUT[:2] and not target.has("fp8_convert"):
            reasons.append(Reason("out", spec.out, target.lacks("fp8_convert"), "expected i8, or a packed type"))
        if spec.row_ids and BLOCKS[spec.block][0] > 1:
            reasons.append(Reason("row_ids", True, "several rows of a block share a scale", "expected blocks of a row"))
        return reasons

    def mismatches(self, problem: Problem, spec: QuantizeBlocksSpec, target: Target) -> list[Reason]:
        reasons = list(unlike(
            spec, dtype=problem.dtype, out=problem.out, block=problem.block, scales=problem.scales,
            major=problem.major, row_ids=problem.row_ids,
        ))  # fmt: skip
        align = self.spec(problem, target).align
        if align % spec.align:
            why = f"rows of x are aligned to {align} elements"
            reasons.append(Reason("align", spec.align, why, f"expected at most {align}"))
        return reasons

    def kernels(self, target: Target) -> list[QuantizeBlocksSpec]:
        requests = [
            {"dtype": dtype, "out": out, "block": block, "scales": scales}
            for dtype in FLOATS for out in OUT for block in BLOCKS for scales in SCALES
            if (scales == "f32" and out not in PACKED_FLOATS) or (
                scales != "f32" and block == "1x32" and out != "i8" and (out not in PACKED_FLOATS or dtype == "bf16")
            )
        ]  # fmt: skip
        specs = [self.spec(self.problem(**request), target) for request in requests]
        return [spec for spec in specs if not self.validate(spec, target)]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        kind, n = find_dtype(problem.out), problem.n
        length, pitch = (n, problem.qstride) if not n else (kind.size(n), kind.size(problem.qstride))
        return (
            array_spec("x", (problem.m, problem.n), problem.dtype, "in", problem.stride),
            *([array_spec("row_ids", (problem.m,), "i32", "in")] if problem.row_ids else []),
            array_spec("q", (problem.m, length), problem.out, "out", pitch),
            array_spec("scale", problem.scale_shape, problem.scales, "out"),
        )

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name == "row_ids":
            return generator.integers(-1, 2, array.shape)
        rows = np.exp2(generator.integers(-6, 7, (problem.m, 1)))
        return (generator.standard_normal(array.shape) * rows).astype(np.float32)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Both outputs in float64; 8-bit floats are those of the OCP, see `expected`."""
        return self.expected(problem, arrays, get_target("gfx950"))

    def expected(self, problem: Problem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        x = _given(problem, arrays)
        by_block = _scales(problem, x, target)
        values = _divided(problem, x, by_block)
        scale = by_block if problem.major == "k" else by_block.T
        if problem.major in TILINGS:
            scale = tile_scales(by_block.astype(numpy_dtype(POWERS, target)), problem.major)
        if problem.out in PACKED_FLOATS:
            return {"q": pack_values(values, problem.out), "scale": scale}
        return {"q": rounded(problem.out, target, values), "scale": scale}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Powers of two are exact, and so is what is divided by them. A scale in f32 is off by two roundings, its
        inverse and the product with it by two more: q may differ where that crosses a step of its rounding.
        """
        x = _given(problem, arrays)
        values = _divided(problem, x, _scales(problem, x, target))
        if problem.scales == POWERS:
            exact = Tolerance(0.0, 0.0, "powers of two are exact")
            if problem.out not in PACKED_FLOATS:
                return {"q": exact, "scale": exact}
            return {"q": replace(exact, unspecified=bytes_of(np.isnan(values), problem.out)), "scale": exact}
        error = np.nan_to_num(np.abs(values), nan=0.0, posinf=0.0) * 6 * UNIT
        return {
            "q": rounded_tolerance(problem.out, target, values, error),
            "scale": Tolerance(2 * UNIT, 0.0, "two f32 roundings"),
        }

    def launch(self, problem: Problem, spec: QuantizeBlocksSpec, target: Target) -> Launch:
        if 0 in (problem.m, problem.n):
            return NOTHING
        rows, columns = spec.tile
        pitch = max(problem.scale_shape[1], 1)
        qstride = find_dtype(problem.out).size(problem.qstride)
        scalars = map(i32, (problem.m, problem.n, problem.stride, qstride, pitch))
        groups = ceil_div(problem.n, columns)
        if problem.major in TILINGS:
            groups = TILINGS[problem.major].whole_groups(groups)  # what fills the last tile up is written as well
        grid = (groups, ceil_div(problem.m, rows), 1)
        names = tuple(array.name for array in self.arrays(problem))
        return Launch(grid, (WAVES * WAVE_SIZE, 1, 1), (*names, *scalars))


def largest_exponent(out: str, target: Target) -> int:
    """Of the power of two at or below that."""
    most = PACKED[out].largest if out in PACKED else largest(out, target)
    return int(np.floor(np.log2(most)))


def _given(problem: Problem, arrays: Mapping[str, Array]) -> Array:
    """The rows of x, zeros for those that are not there."""
    x = arrays["x"].astype(np.float64)
    return np.where(arrays["row_ids"][:, None] < 0, 0.0, x) if problem.row_ids else x


def _scales(problem: Problem, x: Array, target: Target) -> Array:
    """The scale of every block (rows, groups), of x in float64, in float64."""
    rows, columns = BLOCKS[problem.block]
    down, across = ceil_div(problem.m, rows), ceil_div(problem.n, columns)
    padded = np.zeros((down * rows, across * columns))
    padded[: problem.m, : problem.n] = np.abs(x)
    amax = np.fmax.reduce(padded.reshape(down, rows, across, columns), axis=(1, 3), initial=0.0)
    if problem.scales == "f32":
        return np.maximum(in_f32(amax / largest(problem.out, target)), LEAST_SCALE)
    exponents = np.frexp(np.clip(amax, 2.0**LEAST_POWER, 2.0**128))[1] - 1 - largest_exponent(problem.out, target)
    powers: Array = np.ldexp(1.0, np.maximum(exponents, LEAST_POWER))
    return powers


def scales_of_elements(problem: Problem, x: Array, target: Target) -> Array:
    """The scale of every element of x, in float64."""
    return _over(problem, _scales(problem, x, target))


def _divided(problem: Problem, x: Array, by_block: Array) -> Array:
    """The elements over their scales."""
    with np.errstate(invalid="ignore", over="ignore"):
        values: Array = x / _over(problem, by_block)
    return values


def _over(problem: Problem, by_block: Array) -> Array:
    """The scale of every element."""
    rows, columns = BLOCKS[problem.block]
    found: Array = np.repeat(np.repeat(by_block, rows, axis=0), columns, axis=1)[: problem.m, : problem.n]
    return found


OPERATOR = QuantizeBlocks()
