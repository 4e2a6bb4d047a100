"""What is open of a product's plan, and what a plan says."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from ckmlir.dialect.packing import turns_packed
from ckmlir.ops.contraction.block_sizes import CACHE_LINE
from ckmlir.ops.contraction.contraction_spec import PRESHUFFLE, ContractionSpec, stored_type
from ckmlir.ops.contraction.low_blocks import weight_bits
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.side import SideSpec, SideTensor
from ckmlir.ops.dtypes import PACKED_INTEGERS, find_dtype
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target
from ckmlir.targets.matrix_names import EIGHT_BIT_FLOATS

NARROWEST_FOR_TWO_STEPS = 4
"""Bytes of a load below which a loop is not given two steps: a block takes many narrow loads, each with a comparison,
and scalar registers do not hold them twice."""
_COMPARED_DEPTH = 32
"""Elements along K of steps each of whose rows is compared with the end of K: scalar registers have room for so many
outcomes. With whole steps fp8 of 1001 x 1003 x 999 spills 64 on gfx942, with 64 elements i8 spills 3 on gfx90a, and
2 of 17 x 4099 x 999 with 128 in a block of 16 x 16. Half of it where workgroups stay: with all of it stream-K spills
8 to 14 of 1001 x 1003 x 999."""


MOST_ROWS_OF_WEIGHTS = 32
"""Of products whose weights of 4 bits follow the estimate of few rows. By the model, 64 x 4096 x 4096 in the blocks of
64 x 64 x 128 that it would choose takes .96 of the cycles of 64 x 64 x 64 on gfx942, 1.06 on gfx950, 1.12 on gfx90a."""


class Plan(NamedTuple):
    """How a product is cut into blocks, and how its loop runs.

    Attributes:
        columns: of the matrix instruction; 0: of the largest that tiles the block.
        along_k: waves that share a step's K, of each of `waves`.
    """

    schedule: str
    block: tuple[int, int, int]
    waves: tuple[int, int]
    columns: int = 0
    along_k: int = 1


def plan_of(spec: ContractionSpec) -> Plan:
    """The plan of a kernel."""
    return Plan(spec.schedule, spec.block, spec.waves, along_k=spec.along_k)


class Wish(NamedTuple):
    """A product, and what of its plan is named (None: open).

    Attributes:
        dtype: of A and B.
        layout: of A, B and C.
        load_bytes: of the widest load that the rows of both A and B allow.
        batch: products like it in the same launch, one for each class of rows.
        idle: more of them that have nothing to sum.
        weight_bits: of an element of B of 4 bits with scales in memory, else 0.
        rounds_wide: whether integers of 4 bits are rounded to bf16 by arithmetic on f32, with factors of more digits,
            which takes registers (28 were spilled at 224 x 256 by eight waves on gfx90a and gfx942).
        group: elements along K whose sums have accumulators of their own, scaled before they are added; 0: none.
        column_scales: whether a block of columns takes several scales of such a group.
        scale_load: scales of the shortest load of those of groups of A's rows and B's columns; 0 where A's rows have
            none, or not all of them follow each other along K.
        sparse: whether A has two of every four elements along K.
        arrays: that the loop loads: A, and matrices B with accumulators of their own; or what A and B are made of.
        single: whether C is stored one element at a time.
        matrices: that are read beside the sums.
        crowded: see `is_crowded`.
        in_lines: whether all rows of A and B begin where cache lines do.
        converts: whether B becomes another type on its way to registers, if it lies in fragment order.
        stays: whether workgroups stay, and keep what finds their blocks in scalar registers beside the loop.
        powers: whether powers of two, which lanes load four at once, scale A and B in the matrix instruction, both of 4
            bits or both of 8.
        turned: whether packed elements share bytes across K, and are turned in registers on their way to LDS, as they
            are or when they have become another type.
        reads_turn: of A and of B, whether reads of LDS turn them instead.
        merged: whether A or B is a matrix of merged dimensions, whose digits go round the loop: not of patches that a
            step has one place of the window of, which cost lanes nothing.
        computed: whether A or B is an expression of arrays, computed on the way to LDS.
        numbered: of A and B those whose expression has a number for each k, beside single elements across K.
        mixed: of A and B those whose expression has matrices along K and across it, one kind of which is loaded singly.
        products: (m, n) of each product of the launch, where they differ.
        parts: of K, that workgroups share (None: open).
        factors: matrices B, each of which has accumulators of its own.
    """

    m: int
    n: int
    k: int
    dtype: str
    layout: str
    load_bytes: int
    schedule: str | None
    block: tuple[int, int, int] | None
    waves: tuple[int, int] | None
    arrays: int = 2
    batch: int = 1
    group: int = 0
    column_scales: bool = False
    scale_load: int = 0
    sparse: bool = False
    single: bool = False
    matrices: int = 0
    crowded: bool = False
    in_lines: bool = True
    powers: bool = False
    converts: bool = False
    stays: bool = False
    turned: bool = False
    reads_turn: tuple[bool, ...] = (False, False)
    merged: bool = False
    computed: bool = False
    numbered: int = 0
    mixed: int = 0
    products: tuple[tuple[int, int], ...] = ()
    parts: int | None = None
    factors: int = 1
    idle: int = 0
    weight_bits: int = 0
    rounds_wide: bool = False

    def blocks(self, size: int) -> int:
        """Of so many rows and columns, those that the launch has."""
        products = self.products or ((self.m, self.n),)
        return self.batch * sum(ceil_div(m, size) * ceil_div(n, size) for m, n in products)

    @property
    def elements_decide(self) -> bool:
        """Whether what is done with elements says how long a step takes, rather than loads and products: A or B is made
        of several arrays, but for weights of few rows, or scales of groups shorter than a cache line are beside
        operands across K.
        """
        short = 0 < self.group * bits_of(self.dtype) < 8 * CACHE_LINE
        low = self.weights and self.m <= MOST_ROWS_OF_WEIGHTS and self.layout[:2] == "RC"
        return (self.computed and self.arrays > 2 and not low) or (short and self.layout[:2] != "RC")

    @property
    def weights(self) -> bool:
        """Whether B is of 4 bits with scales, and becomes what A is on its way to LDS, once for all rows of a block."""
        return self.weight_bits > 0

    @property
    def partial(self) -> bool:
        """Whether a step has accumulators of its own."""
        return self.group > 0

    @property
    def read_layout(self) -> str:
        """That of A and B behind LDS: what reads turn is as if it lay along K."""
        operands = zip(self.layout, "RC", self.reads_turn, strict=False)
        return "".join(along_k if turned else own for own, along_k, turned in operands)

    @property
    def compared_depth(self) -> int:
        """How deep a step is at most whose rows are compared, in elements."""
        return _COMPARED_DEPTH // 2 if self.stays else _COMPARED_DEPTH

    @property
    def compares_rows(self) -> bool:
        """Whether each row of a step is compared with the end of K for both operands, and scalar registers have no room
        for that: they are transposed, and loads so narrow that a wave's are of one row; or, where workgroups stay, of
        single elements of any size.
        """
        narrow = self.load_bytes < NARROWEST_FOR_TWO_STEPS
        single = self.stays and 8 * self.load_bytes <= bits_of(self.dtype)
        return self.layout[:2] == "CR" and (narrow or single)


def wish_of(problem: Problem, target: Target) -> Wish:
    """What a problem says of its plan."""
    turned = _turned(problem, target)
    aligned = problem.aligned()[2]
    plain = not (problem.sources or problem.merged or problem.windows)
    pitches = zip(problem.held, (problem.lda, problem.ldb) if plain else (problem.k,) * 2, strict=True)
    return Wish(
        problem.m, problem.n, problem.longest_sum, problem.taken(target) or problem.dtype, problem.layout,
        problem.load_bytes, problem.schedule or (PRESHUFFLE if problem.shuffled else None), problem.block,
        problem.waves, len(problem.operands) + sum(one.group > 0 for one in problem.scaling),
        math.prod(problem.batch) * problem.classes,
        problem.scaled_group(target), any(one.operand != "a" and one.rows == 1 for one in problem.scaled_sums),
        _scale_load(problem), problem.ld_index is not None,
        aligned == 1, matrices_of(problem.side), is_crowded(problem.side, problem.out, aligned),
        all(pitch * one.step % (8 * CACHE_LINE) == 0 for one, pitch in pitches),
        _has_powers(problem, target),
        bool(problem.taken(target)) or weight_bits(problem.sources) > 0,
        turned=any(one and not read for one, read in turned), reads_turn=tuple(read for _, read in turned),
        merged=bool(problem.merged or problem.windows) and not problem.has_place_each_step,
        computed=not all(expression.isidentifier() for expression in problem.combine),
        numbered=sum(map(_is_numbered, ("a", "b"), (problem,) * 2)),
        mixed=sum(map(_is_mixed, ("a", "b"), (problem,) * 2)),
        parts=problem.split_k,
        factors=problem.products,
        idle=math.prod(problem.batch) * problem.idle_classes,
        weight_bits=weight_bits(problem.sources),
        rounds_wide=_rounds_wide(problem, target),
    )  # fmt: skip


def _scale_load(problem: Problem) -> int:
    """See `Wish.scale_load`."""
    single = [one for one in problem.scaled_sums if one.group and one.rows == 1]
    along = bool(single) and single[0].operand == "a" and all(one.is_along_k for one in single)
    return min(one.align for one in single) if along else 0


def _has_powers(problem: Problem, target: Target) -> bool:
    """See `Wish.powers`."""
    types = {problem.dtype, problem.b_dtype or problem.dtype}
    alike = types == {"fp4"} or types <= set(EIGHT_BIT_FLOATS)
    loaded = all(one.is_power and one.in_dwords for one in problem.scaling)
    return alike and bool(problem.scaling) and loaded and not problem.taken(target)


def _rounds_wide(problem: Problem, target: Target) -> bool:
    """See `Wish.rounds_wide`: integers with scales of f32. fp4 have few products with a scale, each rounded once."""
    types = [one.dtype for one in problem.sources if one.operand == "b"]
    by_arithmetic = problem.dtype == "bf16" and not target.has("packed_bf16_convert")
    return by_arithmetic and not set(types).isdisjoint(PACKED_INTEGERS) and "f32" in types


def _turned(problem: Problem, target: Target) -> list[tuple[bool, bool]]:
    """Of A and B, whether packed elements share bytes across K, and whether reads of LDS turn them."""
    able, operands = not problem.taken(target), zip(problem.held, problem.layout, "RC", strict=False)
    across = [(one.packing, one.packing is not None and own != along_k) for one, own, along_k in operands]
    return [(own, own and able and turns_packed(target, packing)) for packing, own in across]


def _is_numbered(operand: str, problem: Problem) -> bool:
    """Whether A or B is loaded row of K by row, element by element, and a number with each row."""
    forms = {one.form for one in problem.sources if one.operand == operand}
    return {"each_k", "across_k"} <= forms and problem.aligned()["ab".index(operand)] == 1


def _is_mixed(operand: str, problem: Problem) -> bool:
    """Whether matrices of A or B lie both along K and across it."""
    return {"along_k", "across_k"} <= {one.form for one in problem.sources if one.operand == operand}


def is_crowded(sides: Iterable[SideTensor | SideSpec], out: str, align: int) -> bool:
    """Whether what a slice of a block is computed from takes more registers than there are beside 128 accumulators of a
    lane, at 16 elements of a lane at once: three matrices; of single elements two, or one where what is stored is
    converted to 8 bits. By 256 x 256, a GELU with bias and three residuals spilled 4, of single elements 43.

    Args:
        out: type of C.
        align: of its rows, in elements.
    """
    matrices = matrices_of(sides)
    single = align == 1
    return matrices > 2 - single - (single and out in EIGHT_BIT_FLOATS)


def matrices_of(sides: Iterable[SideTensor | SideSpec]) -> int:
    """How many D tensors have an element for each of C."""
    return sum(one.kind == "full" for one in sides)


def bits_of(dtype: str) -> int:
    """Of an element of A or B in memory and LDS, as a power of two."""
    return find_dtype(stored_type(dtype)).step


def elements_in(bytes_: int, dtype: str) -> int:
    """Elements of A or B in so many bytes, a power of two."""
    return 8 * bytes_ // bits_of(dtype)
