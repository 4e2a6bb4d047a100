"""streamk_gemm: C = A·B by workgroups that stay and share the steps along K of all blocks evenly (stream-K).

As many workgroups as the chip holds at a time (`workgroups`) compute whole blocks in turns, as long as every one has
one, and at the end share the steps of the blocks that are left: each that shares has the same number of steps, of
whatever blocks they belong to. All do where `workgroups` is given or memory adds, else as many as pay. Arrays, types
and expressions are those of `gemm`.

A block that several workgroups have steps of is put together as `reduction` says: `tree` (the default), by pairs, pairs
of pairs and so on; `linear`, by the one that has the first step, which adds the others' sums in their order; `atomic`,
by memory, in no fixed order, into C that is set to zero before. The first two give the same bits in every run. Their
sums go through a workspace, and workgroups wait for each other there, so that all have to run at a time.

Source of the semantics: CK Tile's example 40 and its StreamKTilePartitioner; Osama, Merrill, Cecka, Garland, Owens,
"Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU" (2023).

Kernel arguments: a, b; m, n, k and the distances of rows; workgroups, blocks that are taken whole, workgroups that
share the rest, steps of each of these, those that have one more (i32); D tensors, c; but for atomics the workspaces;
with an expression alpha and beta (f32, of f64 f64). Grid: workgroups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from ckmlir.ops.contraction.block_resources import workgroups_a_unit
from ckmlir.ops.contraction.block_sizes import MEDIUM
from ckmlir.ops.contraction.contraction_spec import OUTPUTS, ContractionSpec, accumulator_type
from ckmlir.ops.contraction.defaults import plans
from ckmlir.ops.contraction.keys import PAIR_KEYS, PITCHES, PLAN_KEYS, SIZES, check_sizes, expression_keys, read_problem
from ckmlir.ops.contraction.low_blocks import TILE, tile_cycles
from ckmlir.ops.contraction.operator import ContractionOperator, real_type, require_rows
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.sum_parts import cleared
from ckmlir.ops.contraction.wishes import Wish
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import NOTHING, Launch, Step
from ckmlir.ops.request import Choice, Integer, RequestError
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Reason, unlike
from ckmlir.ops.steps import OWN_KERNEL, Fill, Workspace
from ckmlir.records import replace
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

REDUCTIONS = {"linear": "linear", "tree": "tree", "atomic": "atomic_shares"}
"""How a block's sums are put together -> the sink of the kernel."""
DEFAULT = "tree"
"""By pairs nobody adds the sums of many one after the other: by the model of time, for 1.1 blocks for each that a chip
holds at a time, .94 of the cycles of `linear` on gfx90a and gfx942, .95 on gfx950."""

MOST_SHARERS = {"linear": 4, "tree": 16}
"""Of a block: who adds the sums of others, 64 KB of each, one after the other, spends about three steps on each. By the
model, f16 with K of 4096, shares of `gemm`'s cycles in order and by pairs with 4, 8 and 16: 24 x 22 blocks on gfx950
.79 .89, .92 .76, .88 .75, with 32, which all would be, 2.09 .78; 18 x 19 on gfx942 .78 .79, .82 .68; with 3, who have
no equal parts, 1.20 1.14. Memory adds what all have (`atomic`)."""
LEAST_STEPS = 4
"""Of each of them. 24 x 24 blocks with K of 1024 in bf16 on gfx950, 2 steps and 4: in order 2.04 and 1.07."""
FROM_MEMORY, ADDED = 0.4, 3
"""Where parts are not equal: the share of what workgroups read that comes from memory, since caches have some of it;
and steps as long as sums of others take. By the model, f16 by pairs, shares of `gemm`'s cycles with blocks taken whole
and shared by all: on gfx950 26 x 25 blocks with K of 4096 1.03, 1.11, 18 x 19 1.02, 1.08; on gfx942 24 x 20 1.03, .96,
23 x 25 with K of 2048 1.00, 1.45; on gfx90a 12 x 14 with K of 4096 1.01, .86, 11 x 19 with 2048 1.02, 1.13."""


class StreamProblem(Problem, frozen=True):
    """A product that so many workgroups share; None: as many as the chip holds."""

    workgroups: int | None = None


class Shares(Struct, frozen=True):
    """How blocks and steps are dealt out.

    Attributes:
        workgroups: of the launch.
        whole: blocks that workgroups take in turns.
        sharers: the first workgroups, which share the steps of the others.
        steps: of these those that each sharer has; the first `longer` have one more.
    """

    workgroups: int
    whole: int
    sharers: int
    steps: int
    longer: int

    @staticmethod
    def of(blocks: int, depth: int, workgroups: int, sharers: Callable[[int, int], int] | None = None) -> Shares:
        """For so many blocks of `depth` steps each: whole rounds of blocks are taken whole, what is left is shared,
        unless that is nothing, or fewer steps than workgroups, by all or by as many `sharers` as that many blocks of
        that many steps have (0: they are taken whole too). Where no block is taken whole there are no other workgroups.

        CK Tile shares one round more, so that fewer workgroups meet in a block. By the model of time it is slower:
        workgroups that share begin at different places along K and read nothing in common at a time.
        """
        shared = blocks % workgroups
        count = 0 if shared * depth < workgroups else sharers(shared, depth) if sharers else workgroups
        if not count:
            return Shares(min(workgroups, blocks), blocks, 0, 0, 0)
        whole = blocks - shared
        return Shares(workgroups if whole else count, whole, count, *divmod(shared * depth, count))


def sharers_that_pay(blocks: int, depth: int, workgroups: int, most: int, units: int, moved: float) -> int:
    """How many of so many workgroups share blocks of `depth` steps: of each block as many as have equal parts of it,
    `LEAST_STEPS` at least, up to `most`, who then read A and B at the same places; one for each compute unit (`units`),
    or all. If no number does, all, but no more than `most` of a block; 0, so that blocks are taken whole, where memory
    would then take longer than a workgroup for each block.

    Args:
        moved: the time in which memory gives one of them a step of A and B, as a share of that of the step's products.
    """
    for each in range(min(most, depth // LEAST_STEPS), 1, -1):
        if depth % each == 0 and (blocks * each <= units or blocks * each == workgroups):
            return blocks * each
    count = min(workgroups, blocks * most)
    shared = ceil_div(blocks * depth, count) * max(ceil_div(count, units), count * moved * FROM_MEMORY) + ADDED
    return count if shared < depth * ceil_div(blocks, units) else 0


def moved_share(spec: ContractionSpec, target: Target) -> float:
    """The time in which memory gives a workgroup a step of A and B, as a share of that of the step's products; 1 where
    no matrix instruction has the type.
    """
    m, n, k = spec.block
    products = tile_cycles(spec.taken or spec.dtype, k, target) * m * n / (TILE**2 * target.simds)
    moved = sum(rows * one.bits for rows, one in zip((m, n), spec.in_lds, strict=False)) * k / 8 / target.memory_bytes
    return moved / products if products else 1.0


class StreamKGemm(ContractionOperator):
    """The operator `streamk_gemm`, which the module's docstring describes."""

    name = "streamk_gemm"
    keys = (
        *SIZES,
        *PAIR_KEYS,
        *PITCHES,
        *PLAN_KEYS,
        Choice(
            "reduction",
            DEFAULT,
            "how a block's sums are put together: one after the other or by pairs, in a fixed order, or by atomics",
            tuple(REDUCTIONS),
        ),
        Integer("workgroups", None, "that share the work; by default as many as the chip holds at a time", minimum=1),
        *expression_keys(None),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        return StreamProblem(**asdict(check_sizes(read_problem(values))), workgroups=values["workgroups"])

    def proposals(self, problem: Problem, target: Target) -> Iterator[ContractionSpec]:
        a, b, _ = problem.aligned()
        size = find_dtype(problem.stored).bytes
        wish = Wish(
            problem.m, problem.n, problem.k, problem.dtype, problem.layout, min(a, b) * size, problem.schedule,
            problem.block, problem.waves, stays=True,
        )  # fmt: skip
        # Sums that come from memory take registers beside the accumulators.
        found = [plan for plan in plans(wish, target) if problem.block or max(plan.block[:2]) <= MEDIUM]
        sink = REDUCTIONS[problem.reduction or DEFAULT]
        return (replace(self.planned(problem, plan, sink, target), walk="stream_k") for plan in found)

    def mismatches(self, problem: Problem, spec: ContractionSpec, target: Target) -> list[Reason]:
        reasons = list(unlike(spec, walk="stream_k", sink=REDUCTIONS[problem.reduction or DEFAULT]))
        plain = replace(spec, walk="grid", sink="store")
        return reasons + super().mismatches(replace(problem, reduction=None), plain, target)

    def kernels(self, target: Target) -> list[ContractionSpec]:
        problems = [
            self.problem(m=1024, n=1024, k=1024, dtype=dtype, reduction=reduction, out="f32")
            for dtype in OUTPUTS
            if dtype != "i8"
            for reduction in REDUCTIONS
        ]
        specs = dict.fromkeys(self.spec(problem, target) for problem in problems)
        return [spec for spec in specs if not self.validate(spec, target)]

    def shares(self, problem: Problem, spec: ContractionSpec, target: Target) -> Shares:
        """How the problem's blocks are dealt out. Raises RequestError for workgroups that could not wait for each
        other.
        """
        held = target.compute_units * workgroups_a_unit(spec, target)
        asked = problem.workgroups if isinstance(problem, StreamProblem) else None
        if asked is not None and asked > held and spec.gathers:
            why = f"they wait for each other, and {target.name} holds {held}"
            raise RequestError(f"{self.name}: workgroups={asked}: {why}; expected at most {held}, or reduction=atomic")
        blocks = ceil_div(problem.m, spec.block[0]) * ceil_div(problem.n, spec.block[1])
        depth, most = max(ceil_div(problem.k, spec.block[2]), 1), MOST_SHARERS.get(problem.reduction or DEFAULT)
        if asked or not most:
            return Shares.of(blocks, depth, asked or held)
        able = partial(
            sharers_that_pay, workgroups=held, most=most, units=target.compute_units, moved=moved_share(spec, target)
        )
        return Shares.of(blocks, depth, held, able)

    def launch(self, problem: Problem, spec: ContractionSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        require_rows(problem, spec)
        shares = self.shares(problem, spec, target)
        names = [array.name for array in problem.arrays()]
        integers = (
            problem.m, problem.n, problem.k, *problem.distances(), shares.workgroups, shares.whole, shares.sharers,
            shares.steps, shares.longer,
        )  # fmt: skip
        numbers = (problem.alpha, problem.beta) if spec.op else ()
        spaces = [one.name for one in self.workspaces(problem, spec, target)]
        arguments = (*spec.in_order(names, map(i32, integers)), *spaces, *map(real_type(problem), numbers))
        resident = spec.gathers and shares.steps > 0
        across = ceil_div(problem.n, spec.block[1])
        # Whole blocks of one round are numbered row by row.
        shape = (across, ceil_div(shares.workgroups, across)) if shares.whole else None
        threads = (spec.wave_count * WAVE_SIZE, 1, 1)
        return Launch((shares.workgroups, 1, 1), threads, arguments, shape, resident=resident)

    def steps(self, problem: Problem, spec: ContractionSpec, target: Target) -> tuple[Step, ...]:
        """Before the kernel zeros: in C for what memory adds, in the flags that workgroups wait for."""
        if self.writes_nothing(problem):
            return (OWN_KERNEL,)
        return (Fill("flags", 0) if spec.gathers else cleared(problem.arrays()[-1]), OWN_KERNEL)

    def workspaces(self, problem: Problem, spec: ContractionSpec, target: Target) -> tuple[Workspace, ...]:
        """A flag for each workgroup, and the sums of a block."""
        if not spec.gathers or self.writes_nothing(problem):
            return ()
        count = self.shares(problem, spec, target).workgroups
        size = find_dtype(accumulator_type(spec.dtype)).bytes
        return Workspace("flags", 4 * count), Workspace("sums", size * count * spec.block[0] * spec.block[1])

    def _most_parts(self, problem: Problem, target: Target) -> int:
        spec = self.spec(problem, target)
        shares = self.shares(problem, spec, target)
        if not shares.sharers:
            return 1
        return ceil_div(ceil_div(problem.k, spec.block[2]), max(shares.steps, 1)) + 1


OPERATOR = StreamKGemm()
"""Matrix multiplication by stream-K."""
