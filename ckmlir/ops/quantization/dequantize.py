"""dequantize: y = q * scale of a matrix in fp8, bf8, i8, fp4, fp6 or bf6 with scales of the tensor, rows or blocks.

The counterpart of `quantize_tensor`, `quantize_rows` and `quantize_blocks`: it takes their q and scales as they are.
Scales are f32 or powers of two (e8m0, code 255 is NaN), which those of packed elements (fp4, fp6, bf6) are. The product
is one of f32, which y rounds to the nearest even.

Arrays: q (m, n), of packed elements their bytes (`ckmlir.ops.packing`), which rows fill; scale (1) of the tensor, (m)
of rows, or of blocks (rows, groups), with `major=rows` (groups, rows), where rows is m or, of blocks of 128 x 128, as
many as m has; powers of two of 1 x 32 also in tiles (`ckmlir.ops.contraction.scale_tiles`); y (m, n).

Kernel arguments: the arrays; m, n, the strides of q (of packed elements in bytes) and y, the distances of scales from
row to row of blocks, or of tiles, and from block to block in a row (i32). Grid: tiles across, tiles down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, alignment, array_spec, require_reachable
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.scale_tiles import TILINGS, untile_scales
from ckmlir.ops.contraction.scaling import ORDERS, POWERS
from ckmlir.ops.dtypes import PACKED_FLOATS, find_dtype
from ckmlir.ops.operator import NOTHING, Launch, Operator
from ckmlir.ops.packing import elements, pack_values
from ckmlir.ops.precision import DENORMAL, UNIT, in_f32
from ckmlir.ops.quantization.blocks import BLOCKS, SCALES_TEXT, check_format, scale_shape, with_scales
from ckmlir.ops.request import MAXIMUM_SIZE, Choice, Integer, Pitch, RequestError
from ckmlir.ops.rows.arrays import FLOATS
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Algorithm, Reason, Spec, no_such_float, not_a_choice, not_powers_of_two, unlike
from ckmlir.ops.tensors.mapping import ALIGN
from ckmlir.ops.tensors.rounding import output_tolerance
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

DTYPES = ("fp8", "bf8", "i8", *PACKED_FLOATS)
SCALES = ("f32", POWERS)
SHARED = {"tensor": (1, 128), "row": (1, 128), **BLOCKS}
"""What shares a scale -> rows and columns of a block; those of the tensor and of a row have distances of 0."""
WIDTH, ROWS = 512, 8
"""A workgroup's tile of single rows: 16 elements of each work-item."""
BLOCK_ROWS = 32
"""Rows of a workgroup's tile of a block that has several."""
WAVES = 4
ROOM = 1024
"""What coordinates may reach beyond the end."""


class Problem(Struct, frozen=True):
    """m rows of n elements; strides in elements from row to row; `align`: bytes that divide all addresses."""

    m: int
    n: int
    dtype: str
    out: str
    block: str
    scales: str
    major: str
    stride: int
    ystride: int
    align: int

    @property
    def tiled(self) -> str:
        """The tiles that scales lie in, "" for none."""
        return self.major if self.major in TILINGS else ""

    @property
    def scale_shape(self) -> tuple[int, ...]:
        """Of the array of scales."""
        if self.block in ("tensor", "row"):
            return (1,) if self.block == "tensor" else (self.m,)
        return scale_shape(self.m, self.n, self.block, self.major)

    @property
    def scale_strides(self) -> tuple[int, int]:
        """Distances of scales from one row of blocks to the next, and of neighbours in a row."""
        if self.block in ("tensor", "row"):
            return (int(self.block == "row"), 0)
        pitch = max(self.scale_shape[1], 1)
        if self.major in TILINGS:
            return (pitch, 0)
        return (pitch, 1) if self.major == "k" else (1, pitch)


class DequantizeSpec(Spec):
    """What the kernel's code depends on.

    Attributes:
        rows, columns: of a block.
        vector: what divides rows and strides, in elements.
        base: bytes that divide all addresses.
        tiled: the tiles that scales lie in, "" for none.
    """

    dtype: str
    out: str
    scales: str
    rows: int
    columns: int
    vector: Algorithm[int]
    base: Algorithm[int]
    tiled: str = ""

    @property
    def name(self) -> str:
        block = f"{self.rows}x{self.columns}"
        parts = (self.dtype, self.out, self.scales, block, f"vector{self.vector}", f"base{self.base}")
        return "_".join(("dequantize", *parts, *[self.tiled] * bool(self.tiled)))

    @property
    def tile(self) -> tuple[int, int, int, int]:
        """Of a workgroup: blocks down, rows of a block, blocks across, columns of a block."""
        if self.rows > 1:
            return (1, BLOCK_ROWS, 1, self.columns)
        return (ROWS, 1, WIDTH // self.columns, self.columns)


class Dequantize(Operator[Problem, DequantizeSpec]):
    """The operator `dequantize`, which the module's docstring describes."""

    name = "dequantize"
    spec_type = DequantizeSpec
    keys = (
        Integer("m", 256, "rows"),
        Integer("n", 1024, "elements of a row"),
        Choice("dtype", "fp8", "of q", DTYPES),
        Choice("out", "f16", "of y", FLOATS),
        Choice("block", "tensor", "what shares a scale; of blocks rows x columns", tuple(SHARED)),
        Choice("scales", None, SCALES_TEXT, SCALES),
        Choice("major", "k", "along what scales of blocks follow each other: rows, from row to row, in tiles", ORDERS),
        Pitch("stride", None, "of the rows of q, in elements; by default n"),
        Pitch("ystride", None, "of the rows of y, in elements; by default n"),
        ALIGN,
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        values = with_scales(values, values["dtype"])
        n, strides = values["n"], []
        for name in ("stride", "ystride"):
            strides.append(max(n, 1) if values[name] is None else values[name])
            if strides[-1] < n:
                raise RequestError(f"{name}={strides[-1]}: a row has {n} elements; expected at least that")
        for name in ("m", "n"):
            if values[name] > MAXIMUM_SIZE - ROOM:
                raise RequestError(f"{name}={values[name]}: expected at most {MAXIMUM_SIZE - ROOM}")
        if values["major"] != "k" and values["block"] in ("tensor", "row"):
            raise RequestError(f"major={values['major']}: block={values['block']} has no rows of scales; expected k")
        check_format(values, values["dtype"], n, {"stride": strides[0]})
        align, size = values["align"], find_dtype(values["out"]).bytes
        if align & (align - 1) or align % size:
            raise RequestError(f"align={align}: elements of y have {size} bytes; expected a power of two from that on")
        names = ("m", "n", "dtype", "out", "block", "scales", "major", "align")
        problem = Problem(**{name: values[name] for name in names}, stride=strides[0], ystride=strides[1])
        q, _, y = self.arrays(problem)
        for key, array in (("stride", q), ("ystride", y)):
            require_reachable(key, array.strides[0], max(BLOCK_ROWS, ROWS), array)
        return problem

    def spec(self, problem: Problem, target: Target) -> DequantizeSpec:
        base = min(problem.align, 16)
        size = find_dtype(problem.out).bytes
        vector = alignment(size, problem.n, problem.stride, problem.ystride, base // size)
        return DequantizeSpec(
            problem.dtype, problem.out, problem.scales, *SHARED[problem.block], vector, base, problem.tiled
        )

    def validate(self, spec: DequantizeSpec, target: Target) -> list[Reason]:
        reasons = list(not_a_choice(spec, dtype=DTYPES, out=FLOATS, scales=SCALES, tiled=("", *TILINGS)))
        reasons += not_powers_of_two(spec, "vector", "base")
        reasons += no_such_float("dtype", spec.dtype, target, "expected i8, or a chip from gfx942 on")
        if (spec.rows, spec.columns) not in SHARED.values():
            reasons.append(Reason("rows", spec.rows, f"there are no blocks with {spec.columns} columns", "expected 1"))
        return reasons

    def mismatches(self, problem: Problem, spec: DequantizeSpec, target: Target) -> list[Reason]:
        rows, columns = SHARED[problem.block]
        code = {"dtype": problem.dtype, "out": problem.out, "scales": problem.scales, "rows": rows, "columns": columns,
                "tiled": problem.tiled}
        reasons, own = list(unlike(spec, **code)), self.spec(problem, target)
        for name, divides in (("vector", own.vector), ("base", own.base)):
            if divides % getattr(spec, name):
                why = f"rows and addresses allow {divides}"
                reasons.append(Reason(name, getattr(spec, name), why, f"expected at most {divides}"))
        return reasons

    def kernels(self, target: Target) -> list[DequantizeSpec]:
        requests = [
            {"dtype": dtype, "out": out, "block": block, "scales": scales}
            for dtype in DTYPES for out in FLOATS for block in SHARED for scales in SCALES
            if dtype not in PACKED_FLOATS or (block, scales) == ("1x32", POWERS)
        ]  # fmt: skip
        specs = dict.fromkeys(self.spec(self.problem(**request), target) for request in requests)
        return [spec for spec in specs if not self.validate(spec, target)]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        shape, align, kind = (problem.m, problem.n), problem.align, find_dtype(problem.dtype)
        length, pitch = (kind.size(one) if problem.n and kind.packing else one for one in (problem.n, problem.stride))
        return (
            array_spec("q", (problem.m, length), problem.dtype, "in", pitch, align=align),
            array_spec("scale", problem.scale_shape, problem.scales, "in", align=max(align, 4)),
            array_spec("y", shape, problem.out, "out", problem.ystride, align=align),
        )

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name == "scale":
            return np.asarray(np.exp2(generator.integers(-6, 3, array.shape)), np.float32) * (
                1.0 if problem.scales == POWERS else generator.uniform(1, 2, array.shape)
            )
        if problem.dtype in PACKED_FLOATS:
            return pack_values(2 * generator.standard_normal((problem.m, problem.n), dtype=np.float32), problem.dtype)
        if find_dtype(array.dtype).is_integer:
            return generator.integers(-128, 128, array.shape)
        return np.asarray(generator.standard_normal(array.shape) * 16, np.float32)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The products in float64, infinite where f32 has them so."""
        rows, columns = SHARED[problem.block]
        scale = arrays["scale"].astype(np.float64)
        if problem.block in ("tensor", "row"):
            every = scale[:, None]
        else:
            by_row = scale if problem.major == "k" else scale.T
            if problem.tiled:
                by_row = untile_scales(scale, problem.tiled)[: problem.m]
            every = np.repeat(np.repeat(by_row, rows, axis=0), columns, axis=1)[: problem.m, : problem.n]
        with np.errstate(invalid="ignore"):
            product = elements(arrays["q"], problem.dtype).astype(np.float64) * every
        return {"y": in_f32(product)}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """One product in f32, then what y rounds."""
        size = np.nan_to_num(np.abs(reference["y"]), nan=0.0, posinf=0.0)
        return {"y": output_tolerance(size * UNIT + DENORMAL, problem.out, "a product in f32", target)}

    def launch(self, problem: Problem, spec: DequantizeSpec, target: Target) -> Launch:
        if 0 in (problem.m, problem.n):
            return NOTHING
        down, rows, across, columns = spec.tile
        stride = self.arrays(problem)[0].strides[0]
        scalars = (problem.m, problem.n, stride, problem.ystride, *problem.scale_strides)
        grid = (ceil_div(problem.n, across * columns), ceil_div(problem.m, down * rows), 1)
        return Launch(grid, (WAVES * WAVE_SIZE, 1, 1), ("q", "scale", "y", *map(i32, scalars)))


OPERATOR = Dequantize()
