"""quantize_heads: Q or K in i8 or fp8 with a scale for each block of rows of a head, as `sage_attention` takes them.

    q = (x - shift) / scale, rounded to the nearest even,   scale = max |x - shift| of the block / largest number of q

A scale is at least 2^-50, the least that attention takes. With shift=1 a row of each head, such as K's mean, is taken
away first; without it nothing is. The last block may have fewer rows. NaN is left out of maxima, and becomes 0 as i8.

Arrays: x, (b, h, s, d) with layout bhsd or (b, s, h, d) with bshd; with shift=1 shift (b, h, d) in f32; q, as x without
gaps; scales (b, h, blocks), f32. Kernel arguments: these; s, blocks, h (i32); the strides of x and of q along rows
(i32), heads and batches (i64). Grid: (some blocks, heads, batches).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.fmha_fwd_spec import WHOLE_TILES
from ckmlir.ops.attention.head_strides import by_head
from ckmlir.ops.attention.parts.block_lists import BlockSize
from ckmlir.ops.attention.prediction import block_means
from ckmlir.ops.attention.prediction.block_means import DTYPES, PLACE_KEYS, SIZE_KEYS, placed
from ckmlir.ops.attention.prediction.block_means import OPERATOR as BLOCK_MEANS
from ckmlir.ops.attention.problem import LEAST_SCALE
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.operator import NOTHING, Argument, Launch, Operator
from ckmlir.ops.precision import UNIT, in_f32, through_jumps
from ckmlir.ops.request import Choice, Integer, RequestError
from ckmlir.ops.rows.quantization import largest, rounded
from ckmlir.ops.scalars import ceil_div, i32, i64
from ckmlir.ops.spec import Reason, Spec, no_such_float, not_a_choice, not_powers_of_two
from ckmlir.targets import Target, get_target
from ckmlir.targets.cdna import WAVE_SIZE

OUT = ("i8", "fp8")
WAVES = 4
ELEMENTS = 4096
"""Of a workgroup's blocks, at least: 16 of each work-item."""
MOST_ROWS = 128
"""Of a block."""
CHANNELS = f"a multiple of 16 from 16 to {WHOLE_TILES[-1]}"
ROUNDINGS = 6
"""Of a quotient: two of its scale, two of the scale's inverse, one of the product, and one to spare."""


class Problem(block_means.Problem, frozen=True):
    """b · h arrays of s rows of d channels, in blocks, and the type that they become."""

    out: str

    @property
    def rows(self) -> tuple[int, int, int]:
        """Elements of q from one batch, head and row to the next."""
        found = (self.s * self.d, self.d) if self.layout == "bhsd" else (self.d, self.h * self.d)
        return self.h * self.s * self.d, *found


class QuantizeHeadsSpec(Spec):
    """What the kernel's code depends on."""

    dtype: str
    out: str
    d: int
    block: int
    shift: bool

    @property
    def name(self) -> str:
        words = f"quantize_heads_{self.dtype}_{self.out}_d{self.d}_{self.block}"
        return words + "_shift" * self.shift

    @property
    def tile(self) -> tuple[int, int, int]:
        """Blocks of a workgroup, rows of a block and channels."""
        channels = min(tile for tile in WHOLE_TILES if tile >= self.d)
        return max(ELEMENTS // (self.block * channels), 1), self.block, channels


class QuantizeHeads(Operator[Problem, QuantizeHeadsSpec]):
    """The operator `quantize_heads`, which the module's docstring describes."""

    name = "quantize_heads"
    spec_type = QuantizeHeadsSpec
    keys = (
        *SIZE_KEYS,
        Integer("d", 128, "channels: a multiple of 16 up to 256", minimum=1, multiple=16),
        BlockSize("block", 128, "rows that share a scale", minimum=4, maximum=MOST_ROWS),
        Choice("dtype", "f16", "of x", DTYPES),
        Choice("out", "i8", "of q", OUT),
        *PLACE_KEYS,
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        if values["d"] % 16 or values["d"] > WHOLE_TILES[-1]:
            raise RequestError(f"d={values['d']}: expected {CHANNELS}")
        problem = Problem(**placed(values))
        self.arrays(problem)  # refuses what is too large
        return problem

    def spec(self, problem: Problem, target: Target) -> QuantizeHeadsSpec:
        return QuantizeHeadsSpec(problem.dtype, problem.out, problem.d, problem.block, problem.shift)

    def validate(self, spec: QuantizeHeadsSpec, target: Target) -> list[Reason]:
        reasons = [*not_a_choice(spec, dtype=DTYPES, out=OUT), *not_powers_of_two(spec, "block")]
        reasons += no_such_float("out", spec.out, target, "expected i8, or a chip from gfx942 on")
        if spec.d % 16 or not 16 <= spec.d <= WHOLE_TILES[-1]:
            reasons.append(
                Reason("d", spec.d, "no tile holds so many channels in whole vectors", f"expected {CHANNELS}")
            )
        if not 4 <= spec.block <= MOST_ROWS:
            reasons.append(Reason("block", spec.block, "no kernel takes such blocks", f"expected 4 to {MOST_ROWS}"))
        return reasons

    def kernels(self, target: Target) -> list[QuantizeHeadsSpec]:
        found = [
            QuantizeHeadsSpec(dtype, out, d, block, shift)
            for dtype in ("f16", "bf16") for out in OUT for d in (64, 128)
            for block, shift in ((32, False), (64, True), (128, False), (128, True))
        ]  # fmt: skip
        return [spec for spec in found if not self.validate(spec, target)]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        x, *shift, _, _ = BLOCK_MEANS.arrays(problem)
        scales = problem.b, problem.h, problem.blocks
        return (x, *shift, array_spec("q", x.shape, problem.out, "out"), array_spec("scales", scales, "f32", "out"))

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        """Rows of different sizes, so that neighbouring blocks have different scales."""
        if array.name == "shift":
            return generator.standard_normal(array.shape)
        sizes = np.exp2(generator.integers(-3, 4, (problem.b, problem.h, problem.s, 1)))
        found = generator.standard_normal((problem.b, problem.h, problem.s, problem.d)) * sizes
        return by_head(problem.layout, found)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Both outputs in float64; 8-bit floats are those of the OCP, see `expected`."""
        return self.expected(problem, arrays, get_target("gfx950"))

    def expected(self, problem: Problem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        values, scales = _quotients(problem, arrays, target)
        return {"q": by_head(problem.layout, rounded(problem.out, target, values)), "scales": scales}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        return quantised_tolerances(problem, arrays, target)

    def launch(self, problem: Problem, spec: QuantizeHeadsSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        names = [array.name for array in self.arrays(problem)]
        arguments: list[Argument] = [*names, *map(i32, (problem.s, problem.blocks, problem.h))]
        for batch, head, row in (problem.x_strides, problem.rows):
            arguments += (i32(row), i64(head), i64(batch))
        grid = ceil_div(problem.blocks, spec.tile[0]), problem.h, problem.b
        return Launch(grid, (WAVES * WAVE_SIZE, 1, 1), tuple(arguments))


def quantised_tolerances(
    problem: Problem, arrays: Mapping[str, Array], target: Target, moved: Array | float = 0.0
) -> dict[str, Tolerance]:
    """How far q and scales may be off; `moved` is how far the shift (b, h, d) may be.

    A scale is off by two roundings, and by what the block's largest element is: `moved`, and a rounding of the
    difference. A quotient y is off by ROUNDINGS roundings, by what its element is, and by |y| times what its scale is,
    relative: q may differ only where that crosses a step of its rounding.
    """
    values, scales = _quotients(problem, arrays, target)
    off = np.broadcast_to(moved, (problem.b, problem.h, problem.d))
    largest_off = off.max(axis=-1, initial=0.0)[..., None] / largest(problem.out, target)
    subtracted = UNIT * problem.shift
    each = _of_rows(problem, scales)[..., None]
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.nan_to_num(np.abs(values), posinf=0.0)
        error = size * (ROUNDINGS + 2 * problem.shift) * UNIT
        error += np.nan_to_num((off[:, :, None] + size * largest_off[..., None]) / each)
        steps = through_jumps(values, error, partial(rounded, problem.out, target))
    return {
        "q": Tolerance(0.0, by_head(problem.layout, steps), "steps of the rounding that errors of x / scale may cross"),
        "scales": Tolerance(2 * UNIT + subtracted, largest_off, "the largest element, and two f32 roundings"),
    }


def _quotients(problem: Problem, arrays: Mapping[str, Array], target: Target) -> tuple[Array, Array]:
    """Rows over their scales (b, h, s, d), and the scales (b, h, blocks), in float64."""
    x = by_head(problem.layout, arrays["x"]).astype(np.float64)
    if problem.shift:
        with np.errstate(invalid="ignore"):
            x = in_f32(x - arrays["shift"].astype(np.float64)[:, :, None])
    room = problem.blocks * problem.block - problem.s
    padded = np.pad(np.abs(x), ((0, 0), (0, 0), (0, room), (0, 0)))
    by_block = padded.reshape(problem.b, problem.h, problem.blocks, problem.block * problem.d)
    with np.errstate(invalid="ignore", over="ignore"):
        amax = np.fmax.reduce(by_block, axis=3, initial=0.0)
        scales = np.maximum(in_f32(amax / largest(problem.out, target)), LEAST_SCALE)
        return x / _of_rows(problem, scales)[..., None], scales


def _of_rows(problem: Problem, scales: Array) -> Array:
    """The scale of every row (b, h, s)."""
    found: Array = np.repeat(scales, problem.block, axis=2)[:, :, : problem.s]
    return found


OPERATOR = QuantizeHeads()
