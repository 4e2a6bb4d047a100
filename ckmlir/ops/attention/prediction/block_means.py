"""block_means: the mean of each block of rows, and how alike the rows of a block are.

    means = sum over the block's rows x of (x - shift) / rows
    alike = |sum of x'|² / rows²,   x' = (x - shift) / |x - shift|, of a row of zeros zeros

`alike` is 1 where all rows point the same way and about 1 / rows where each has a direction of its own: the mean of all
products of two normalised rows (Zhang et al., "SpargeAttn", arXiv 2502.18137). The last block may have fewer rows.
Without shift=1 nothing is taken away. A row with NaN or an infinity makes both NaN, or the mean infinite. Nothing is
promised of `alike` where f32 does not hold a row's squares, or their sum.

Arrays: x, (b, h, s, d) with layout bhsd or (b, s, h, d) with bshd; with shift=1 shift (b, h, d) in f32; means (b, h,
blocks, d) and alike (b, h, blocks), f32. Kernel arguments: these; s, blocks, h (i32); the strides of x along rows
(i32), heads and batches (i64). Grid: (blocks, heads, batches).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.fmha_fwd_spec import WHOLE_TILES, row_multiple
from ckmlir.ops.attention.head_strides import HeadStrides, by_head, checked_head_strides
from ckmlir.ops.attention.parts.block_lists import BlockSize
from ckmlir.ops.attention.request_checks import check_counts
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.operator import NOTHING, Launch, Operator
from ckmlir.ops.precision import DENORMAL, OVERFLOW, UNIT, in_f32
from ckmlir.ops.request import Choice, Flag, Integer, RequestError
from ckmlir.ops.scalars import ceil_div, i32, i64
from ckmlir.ops.spec import Reason, Spec, not_a_choice, not_powers_of_two
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

DTYPES = ("f16", "bf16", "f32")
WAVES = 4
ELEMENTS = 64
"""Of each work-item, at a time."""
MOST_ROWS = 4096
"""Of a block."""
LEAST_SQUARE = 2.0**-100
"""Squares of rows from here on are sums of normal numbers, but for what does not matter."""


class Problem(Struct, frozen=True):
    """b · h arrays of s rows of d channels, in blocks; strides along batches, heads and rows."""

    b: int
    h: int
    s: int
    d: int
    block: int
    dtype: str
    layout: str
    shift: bool
    x_strides: tuple[int, int, int]

    @property
    def blocks(self) -> int:
        """Of s rows."""
        return ceil_div(self.s, self.block)


class BlockMeansSpec(Spec):
    """What the kernel's code depends on."""

    dtype: str
    d: int
    block: int
    shift: bool

    @property
    def name(self) -> str:
        return "_".join([f"block_means_{self.dtype}_d{self.d}_{self.block}", *["shift"] * self.shift])

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and channels that all work-items load a vector of."""
        channels = min(tile for tile in WHOLE_TILES if tile >= self.d)
        return min(self.block, WAVES * WAVE_SIZE * row_multiple(self.dtype) // channels), channels

    @property
    def turns(self) -> int:
        """Tiles that are loaded together."""
        rows, channels = self.tile
        return min(self.block // rows, ELEMENTS * WAVES * WAVE_SIZE // (rows * channels))


SIZE_KEYS = (
    Integer("b", 1, "batches"),
    Integer("h", 2, "heads", minimum=1),
    Integer("s", 1024, "rows of a head"),
)
PLACE_KEYS = (
    Choice("layout", "bhsd", "order of the dimensions in memory", ("bhsd", "bshd")),
    Flag("shift", False, "rows come less a row of each head, such as their mean"),
    HeadStrides("x_strides", None, "elements from one batch, head and row of x to the next", 3, array="x"),
)
"""Keys of rows of heads: how they lie in memory, and whether a row is taken off them."""


def placed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a request with the strides of x. Raises RequestError for sizes and strides that do not fit."""
    check_counts(values["b"], values["h"], values["s"])
    sizes = values["h"], values["s"], values["d"]
    strides = checked_head_strides("x", values["layout"], values["b"], sizes, values["dtype"], values["x_strides"])
    return {**values, "x_strides": strides}


class BlockMeans(Operator[Problem, BlockMeansSpec]):
    """The operator `block_means`, which the module's docstring describes."""

    name = "block_means"
    spec_type = BlockMeansSpec
    keys = (
        *SIZE_KEYS,
        Integer("d", 128, "channels: a multiple of 8 (f32: 4) up to 256", minimum=1, multiple=8),
        BlockSize("block", 128, "rows of a block", minimum=32, maximum=MOST_ROWS),
        Choice("dtype", "f16", "of x", DTYPES),
        *PLACE_KEYS,
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        check_channels(values["d"], values["dtype"])
        problem = Problem(**placed(values))
        self.arrays(problem)  # refuses what is too large
        return problem

    def spec(self, problem: Problem, target: Target) -> BlockMeansSpec:
        return BlockMeansSpec(problem.dtype, problem.d, problem.block, problem.shift)

    def validate(self, spec: BlockMeansSpec, target: Target) -> list[Reason]:
        reasons = [*not_a_choice(spec, dtype=DTYPES), *not_powers_of_two(spec, "block")]
        multiple = row_multiple(spec.dtype) if spec.dtype in DTYPES else 1
        if spec.d % multiple or not multiple <= spec.d <= WHOLE_TILES[-1]:
            right = f"expected a multiple of {multiple} from {multiple} to {WHOLE_TILES[-1]}"
            reasons.append(Reason("d", spec.d, "no tile holds so many channels in whole vectors", right))
        if not 32 <= spec.block <= MOST_ROWS:
            reasons.append(Reason("block", spec.block, "no kernel takes such blocks", f"expected 32 to {MOST_ROWS}"))
        return reasons

    def kernels(self, target: Target) -> list[BlockMeansSpec]:
        plain = [BlockMeansSpec(dtype, d, 128, False) for dtype in DTYPES for d in (32, 64, 96, 128, 256)]
        more = [BlockMeansSpec("f16", d, block, True) for d in (64, 128) for block in (64, 128, 512)]
        return [*plain, *more]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        batch, head, row = problem.x_strides
        (first, far), (second, near) = ((problem.h, head), (problem.s, row))[:: 1 if problem.layout == "bhsd" else -1]
        x = ArraySpec("x", (problem.b, first, second, problem.d), problem.dtype, "in", (batch, far, near, 1))
        shift = array_spec("shift", (problem.b, problem.h, problem.d), "f32", "in")
        shape = problem.b, problem.h, problem.blocks
        return (
            x, *([shift] if problem.shift else ()), array_spec("means", (*shape, problem.d), "f32", "out"),
            array_spec("alike", shape, "f32", "out"),
        )  # fmt: skip

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name == "shift":
            return generator.standard_normal(array.shape)
        return by_head(
            problem.layout, blocks_of_directions(problem.b, problem.h, problem.s, problem.d, problem.block, generator)
        )

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        rows = problem.block
        means = np.zeros((problem.b, problem.h, problem.blocks, problem.d))
        alike = np.zeros(means.shape[:3])
        x = _rows(problem, arrays)
        with np.errstate(invalid="ignore", over="ignore"):
            for number in range(problem.blocks):
                one = x[:, :, number * rows : (number + 1) * rows]
                means[:, :, number] = in_f32(one.sum(2)) / one.shape[2]
                alike[:, :, number] = (_directions(one).sum(2) ** 2).sum(-1) / one.shape[2] ** 2
        return {"means": means, "alike": alike}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        return mean_tolerances(problem, arrays, self.spec(problem, target))

    def launch(self, problem: Problem, spec: BlockMeansSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        batch, head, row = problem.x_strides
        names = [array.name for array in self.arrays(problem)]
        counts = map(i32, (problem.s, problem.blocks, problem.h, row))
        grid = (problem.blocks, problem.h, problem.b)
        return Launch(grid, (WAVES * WAVE_SIZE, 1, 1), (*names, *counts, i64(head), i64(batch)))


def check_channels(d: int, dtype: str) -> None:
    """Refuse rows that are no whole vectors, or longer than tiles. Raises RequestError."""
    multiple = row_multiple(dtype)
    if d % multiple or d > WHOLE_TILES[-1]:
        raise RequestError(f"d={d}: expected a multiple of {multiple} from {multiple} to {WHOLE_TILES[-1]}")


def mean_tolerances(
    problem: Problem, arrays: Mapping[str, Array], spec: BlockMeansSpec, moved: Array | float = 0.0
) -> dict[str, Tolerance]:
    """How far means and `alike` may be off; `moved` is how far the shift (b, h, d) may be.

    With u f32's unit roundoff: elements less the shift are rounded once. Sums along a block take `steps` roundings: as
    many rows as a lane has one after the other, and pairs of lanes and waves; the mean one more.

    A row's length is off by `along` roundings, which its squares count twice, those of its sum, of the root and of the
    inverse, so that a normalised element x' is off by `along` u x'; and by what its shift makes of it, m = (|moved| +
    |x'| · the length of moved) / |x|. With S the sum of x' and A that of |x'|, S is off by e = (steps + along) u A +
    sum of m, and |S|² / rows² by (2 |S|·e + e² + along u |S|²) / rows².
    """
    steps, along = _roundings(spec)
    means, alike = (
        np.zeros((problem.b, problem.h, problem.blocks, problem.d)),
        np.zeros((problem.b, problem.h, problem.blocks)),
    )
    free_means, free = np.zeros(means.shape, np.bool_), np.zeros(alike.shape, np.bool_)
    x, rows = _rows(problem, arrays), problem.block
    shifted = np.broadcast_to(moved, (problem.b, problem.h, problem.d))[:, :, None]
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        for number in range(problem.blocks):
            one = x[:, :, number * rows : (number + 1) * rows]
            count = one.shape[2]
            sizes = np.nan_to_num(np.abs(one), posinf=0.0).sum(2)
            means[:, :, number] = (steps + 2) * UNIT * sizes / count + DENORMAL + shifted[:, :, 0]
            free_means[:, :, number] = (sizes >= OVERFLOW) & ~np.isnan(one).any(2)
            units, squares = np.nan_to_num(_directions(one)), np.square(one).sum(-1)
            error = (steps + along) * UNIT * np.abs(units).sum(2)
            if np.any(shifted):
                turned = shifted + np.abs(units) * np.linalg.norm(shifted, axis=-1, keepdims=True)
                error = error + (turned / np.sqrt(squares)[..., None]).sum(2)
            total = np.abs(units.sum(2))
            found = (2 * total * error + error**2 + along * UNIT * total**2).sum(-1) / count**2
            unsafe = ((squares > 0) & (squares < LEAST_SQUARE)) | (squares >= OVERFLOW / 2)
            lost = (unsafe.any(2) | ~np.isfinite(found)) & ~np.isnan(one).any((2, 3))
            free[:, :, number], alike[:, :, number] = lost, np.where(np.isfinite(found), found, 0.0)
    return {
        "means": Tolerance(UNIT, means, "f32 sums of a block's rows", free_means),
        "alike": Tolerance(0.0, alike, "f32 sums of normalised rows", free),
    }


def blocks_of_directions(b: int, h: int, s: int, d: int, block: int, generator: np.random.Generator) -> Array:
    """Rows (b, h, s, d) whose blocks have a direction each, from which rows stray by as much as it is long, or less or
    more: some blocks are alike, and some are not. All rows are about as long.
    """
    blocks = ceil_div(s, block)
    centre = generator.standard_normal((b, h, blocks, 1, d)) * 2.0
    stray = generator.choice([0.0, 0.3, 0.6, 1.0, 2.0, 4.0, 9.0], (b, h, blocks, 1, 1))
    found = centre + stray * generator.standard_normal((b, h, blocks, block, d))
    found /= np.sqrt(1 + stray**2 / 4)
    rows: Array = found.reshape(b, h, blocks * block, d)[:, :, :s]
    return rows


def _rows(problem: Problem, arrays: Mapping[str, Array]) -> Array:
    """x less the shift, (b, h, s, d), in float64."""
    x = by_head(problem.layout, arrays["x"]).astype(np.float64)
    return x - arrays["shift"].astype(np.float64)[:, :, None] if problem.shift else x


def _directions(rows: Array) -> Array:
    """Rows over their lengths, zeros of zeros."""
    length = np.sqrt(np.square(rows).sum(-1, keepdims=True))
    found: Array = rows / np.where(length == 0, 1.0, length)
    return found


def _roundings(spec: BlockMeansSpec) -> tuple[int, int]:
    """Of a sum along a block, and of a normalised element."""
    vector = row_multiple(spec.dtype)
    lanes = spec.tile[1] // vector
    steps = spec.block * lanes // (WAVES * WAVE_SIZE) + (WAVES * WAVE_SIZE // lanes).bit_length() + 1
    return steps, (vector + lanes.bit_length() + 1) // 2 + 4 + spec.shift


OPERATOR = BlockMeans()
