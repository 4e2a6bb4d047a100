"""moe_gemm: rows of tokens times the matrices of the experts that a routing chose for them.

`moe_sorting` lists the entries of the routing, (token, slot), by expert: sorted_ids, expert_ids and totals are inputs,
as it made them with the same t, e, k = topk and unit. Row i of A stands for a token (`a_rows=token`: t rows), an entry
(`entry`: t * topk rows, token by token) or a place of the sorted list (`place`); so does row i of C, where `token` is
the sum over the token's entries. Entries that the list leaves out count as zero in that sum; rows of C by entry or
place that it leaves out keep what they held. Words that name no token or slot are padding, and units of an expert that
is none are left out.

Each expert has one matrix B (n, k), or a `gate` and an `up`, when `op` names those: `op=silu(gate)*up`. D tensors are
a row (`row`: e x n, a bias or scales of columns), a number for each row of A (`column`: scales of tokens), a number for
each place (`place`: sorted_weights) or a number for each expert (`scalar`). So the second product of a layer of experts
is `a_rows=entry c_rows=token op=acc*d0 d=f32 d_kind=place`.

One of A and B may be of fp8 and the other of bf8. With `a_scale` and `b_scale` A and the matrices have scales of groups
along K, as in `gemm_quant`: f32 for 8 bits, where B may be of i4 or u4 (`b_dtype`); or, with `mx`, the powers of two of
`mx_gemm`, for floats of 8 bits and, by default, of 6 and 4. scale_a (rows of A, groups) follows the rows of A; scale_b,
or scale_gate and scale_up, are (e, columns, groups), or of 128 columns each. `acc` is the product of the scaled
matrices, in f32.

Beside A of f16 or bf16 B may be of fp4, i4 or u4 with `b_scale` alone: elements times their scales, in f32, are rounded
to A's type on their way to LDS, as in `gemm_fp4`. With b_scale=mx, the default of fp4, these are the powers of two of
MXFP4, exact in bf16; others are f32, or what `scale` says. Where such a scale is infinite, or 16 times one of integers
beyond f32, or in bf16 an element beyond 2^100, nothing is promised of the column; other elements below 2^-126 may count
as zero.

With `zeros` integers of 4 bits stand for what they are more than the zero point of their scale: zero_b, or zero_gate
and zero_up, which lie as the scales do, of i8 beside A of 8 bits, else of the scales' type, as in `gemm_int4`.

Sums over entries go through a workspace in a fixed order (`reduction=workspace`, with entries rounded to the type of C
`rounded`), or memory adds them (`atomic`). Only entries that the list names are written and read: with `entry_ids` an
array (t, topk) of that name, as `moe_sorting` makes it, says which these are; without, `listed_entries` finds them.
The grid is a bound from t, e and unit; workgroups behind the places taken end at once, so the host reads nothing back.

Kernel arguments: sorted_ids, expert_ids, totals; blocks across C and of a unit, each with its reciprocal; a, b or gate
and up, scales, D tensors, c; n, k; lda, ldb, ldc and those of D tensors and scales; b_stride, with scales scale_stride;
places; t, topk, e (i32); with an expression alpha and beta (f32).

Semantics: CK Tile, examples 15_fused_moe and 18_flatmm (MoE, a16w4).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ckmlir.ops.arrays import ArraySpec, find_array
from ckmlir.ops.choice import chosen_keys, first_valid
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.contraction_spec import LAYOUTS, SCALARS, ContractionSpec
from ckmlir.ops.contraction.defaults import other_blocks
from ckmlir.ops.contraction.keys import (
    PITCHES,
    PLAN_FIELDS,
    PLAN_KEYS,
    RENAMED,
    SHUFFLED,
    TYPE_KEYS,
    expression_keys,
)
from ckmlir.ops.contraction.operator import real_type
from ckmlir.ops.contraction.product_operator import ProductOperator
from ckmlir.ops.contraction.side import MOST_OF_EXPERTS, NAMES
from ckmlir.ops.contraction.slices import slices_of
from ckmlir.ops.contraction.sum_parts import cleared
from ckmlir.ops.contraction.wishes import Plan
from ckmlir.ops.dtypes import PACKED_FLOATS, PACKED_INTEGERS, find_dtype
from ckmlir.ops.indexed.embedding_bag import OPERATOR as EMBEDDING_BAG
from ckmlir.ops.indexed.embedding_bag import Problem as Bag
from ckmlir.ops.list_keys import Words
from ckmlir.ops.moe import experts_reference
from ckmlir.ops.moe.experts_grid import grid_of, mismatches_of_blocks, strides_of
from ckmlir.ops.moe.experts_plans import epilogue_of, plans
from ckmlir.ops.moe.experts_problem import (
    A_ROWS,
    ACCUMULATORS,
    C_ROWS,
    ENTRIES,
    KINDS,
    NAMED,
    REDUCTIONS,
    ExpertsProblem,
    read_experts,
)
from ckmlir.ops.moe.experts_scales import A_SCALES, B_SCALES, POWERED, SCALE, ZEROS, operator_of, smaller
from ckmlir.ops.moe.listed_entries import OPERATOR as LISTED_ENTRIES
from ckmlir.ops.moe.listed_entries import Problem as Named
from ckmlir.ops.moe.moe_sorting import OPERATOR as MOE_SORTING
from ckmlir.ops.moe.routing import LISTS, in_order
from ckmlir.ops.operator import NOTHING, Launch, Run, Step
from ckmlir.ops.request import Choice, Flag, Integer, Pitch
from ckmlir.ops.scalars import i32
from ckmlir.ops.spec import Reason, unlike
from ckmlir.ops.steps import OWN_KERNEL, Workspace
from ckmlir.ops.tensors.expression_key import ExpressionKey
from ckmlir.records import replace
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

LISTED_SCALES = (
    {"dtype": "fp4", "a_scale": "mx", "b_scale": "mx"},
    {"dtype": "fp8", "a_scale": "mx", "b_scale": "mx"},
    {"dtype": "fp8", "a_scale": "1x128", "b_scale": "128x128"},
    {"dtype": "bf16", "b_dtype": "fp4"},
)
"""Of kernels that are listed."""
PLAIN = ("f16", "bf16", "f32", "fp8", "bf8", "i8")
DTYPES = (*PLAIN, *PACKED_FLOATS)


class MoeGemm(ProductOperator[ExpertsProblem]):
    """The operator `moe_gemm`, which the module's docstring describes."""

    name = "moe_gemm"
    renamed, plan_fields = RENAMED, PLAN_FIELDS
    spec_type = ContractionSpec
    keys = (
        Integer("t", 64, "tokens"),
        Integer("e", 8, "experts", minimum=1),
        Integer("topk", 2, "experts of each token", minimum=1),
        Integer("unit", 32, "places of a unit, whose rows have one expert; a multiple of 16", 16, 16),
        Integer("n", 256, "columns of C"),
        Integer("k", 256, "length of the sums; 0 gives zeros"),
        Choice("a_rows", "token", "what a row of a stands for", A_ROWS),
        Choice("c_rows", "entry", "what a row of c stands for; of a token it is the sum of its entries", C_ROWS),
        Choice("dtype", "f16", "of A and, unless b_dtype says otherwise, B", DTYPES),
        Choice(
            "b_dtype", None, "of B: the other 8-bit float, or with scales what they allow, beside f16 and bf16 fp4, i4 "
            "and u4; default: dtype",
            (*POWERED, *PACKED_INTEGERS),
        ),
        Choice(
            "a_scale", None, "of each row of A for so much of K; mx: powers of two for 32, as packed types have",
            tuple(A_SCALES),
        ),
        Choice("b_scale", None, "of each column of B, or 128, a scale for so much of K; mx: as of A", tuple(B_SCALES)),
        SCALE,
        ZEROS,
        *(key for key in TYPE_KEYS if key.name == "out"),
        Choice("layout", "RCR", "of A, B, C: R rows, C columns are contiguous", LAYOUTS[:2]),
        Pitch("lda", None, "elements from one row of array a to the next", minimum=1, of=("k",)),
        *(key for key in PITCHES if key.name != "lda"),
        Integer("b_stride", None, "elements from one expert's matrix to the next's; by default packed", minimum=1),
        *PLAN_KEYS,
        Integer("wave_k", None, "so many times as many waves, which share each step's K; goes with block", minimum=1),
        SHUFFLED,
        Choice(
            "reduction",
            None,
            "how entries of a token are summed: through a workspace of f32 by a second kernel, in a fixed order (the "
            "default); the same with entries rounded to the type of C; or by atomics in C, in no fixed order",
            REDUCTIONS,
        ),
        Flag("entry_ids", False, "an array says which entries the list names, so that nothing has to find them"),
        ExpressionKey("op", None, "what is stored, from acc, or from gate and up", (*ACCUMULATORS, *NAMES, *SCALARS)),
        Words("d_kind", None, "of each D tensor: a row or number of each expert, a number for each row of a or place",
              KINDS, MOST_OF_EXPERTS),
        *(key for key in expression_keys(None, most=MOST_OF_EXPERTS) if key.name not in ("op", "d_kind")),
    )  # fmt: skip

    def _problem(self, values: Mapping[str, Any]) -> ExpertsProblem:
        return read_experts(values)

    # -- the kernel --------------------------------------------------------------------------------------------------

    def spec(self, problem: ExpertsProblem, target: Target) -> ContractionSpec:
        """The first plan of `ckmlir.ops.moe.experts_plans` that the chip can run."""
        others = self.others(problem, target)
        return first_valid(self.proposals(problem, target), lambda one: self.validate(one, target), others)

    def proposals(self, problem: ExpertsProblem, target: Target) -> Iterator[ContractionSpec]:
        return self._planned(problem, plans(_made(problem), target), target)

    def others(self, problem: ExpertsProblem, target: Target) -> Iterator[ContractionSpec]:
        """Kernels of blocks of any size whose rows divide a unit, for a request that the chip runs none of `proposals`
        for.
        """
        *_, last = plans(_made(problem), target)
        others = other_blocks(last, _made(problem).product, target, highest=problem.unit & -problem.unit)
        yield from self._planned(problem, others, target)

    def _planned(self, problem: ExpertsProblem, some: Iterable[Plan], target: Target) -> Iterator[ContractionSpec]:
        own = _made(problem)
        for plan in some:
            product = replace(own.product, epilogue=own.product.epilogue or epilogue_of(own, plan))
            found = operator_of(product).planned(product, plan, _sink(problem), target)
            found = replace(found, operator=self.name, walk="experts", rows=own.listed)
            yield replace(found, slices=slices_of(found))

    def lengths(self, problem: ExpertsProblem) -> Sequence[tuple[int, int, int]]:
        """Those of a unit, whose rows are whole blocks."""
        return ((0, problem.product.n, problem.product.k),)

    def chosen(self, problem: ExpertsProblem, spec: ContractionSpec) -> dict[str, object]:
        found = chosen_keys(problem.product, spec, PLAN_FIELDS)
        return {**found, "wave_k": spec.along_k} if problem.along_k is None and spec.along_k > 1 else found

    def mismatches(self, problem: ExpertsProblem, spec: ContractionSpec, target: Target) -> list[Reason]:
        own = _made(problem)
        reasons = list(unlike(
            spec, operator=self.name, walk="experts", rows=own.listed, sink=_sink(problem), along_k=problem.along_k,
        ))  # fmt: skip
        return reasons + mismatches_of_blocks(own, spec, target)

    def kernels(self, target: Target) -> list[ContractionSpec]:
        first = {"op": "silu(gate) * up"}
        second = {"a_rows": "entry", "c_rows": "token", "op": "acc * d0", "d": "f32", "d_kind": "place"}
        requests: list[dict[str, Any]] = [
            {**keys, "dtype": dtype, "unit": unit}
            for keys in ({}, first, {**second, "reduction": "workspace"}, {**second, "reduction": "atomic"})
            for dtype in PLAIN
            for unit in (16, 32, 64, 128)
        ]
        requests += [{"schedule": "preshuffle", "unit": unit} for unit in (16, 32, 64, 128)]
        requests += [
            {**keys, **scaled, "unit": unit}
            for keys in (first, {**second, "out": "f32", "reduction": "atomic"})
            for scaled in LISTED_SCALES
            for unit in (16, 64)
        ]
        specs = dict.fromkeys(self.spec(self.problem(**one), target) for one in requests)
        return [spec for spec in specs if not self.validate(spec, target)]

    def build(self, spec: ContractionSpec, target: Target) -> Any:
        return importlib.import_module("ckmlir.ops.contraction.contraction_kernel").build(spec, target)

    # -- what is queued ----------------------------------------------------------------------------------------------

    def arrays(self, problem: ExpertsProblem) -> tuple[ArraySpec, ...]:
        return problem.arrays()

    def launch(self, problem: ExpertsProblem, spec: ContractionSpec, target: Target) -> Launch:
        own = _made(problem)
        product = own.product
        grid = grid_of(own, spec)
        if not grid.workgroups or self.writes_nothing(problem):
            return NOTHING
        sizes = (product.n, product.k, *product.distances(), *strides_of(product), problem.count("place"))
        numbers = (product.alpha, product.beta) if spec.op else ()
        stored = {"c": ENTRIES} if problem.by_workspace else {}
        names = [stored.get(array.name, array.name) for array in product.arrays()]
        others = (*map(i32, (*sizes, problem.t, problem.topk, problem.e)), *map(real_type(product), numbers))
        arguments = in_order(LISTS, map(i32, grid.divisors), names, others)
        shape = (grid.across, grid.down)
        return Launch((grid.workgroups, 1, 1), (spec.wave_count * WAVE_SIZE, 1, 1), arguments, shape)

    def steps(self, problem: ExpertsProblem, spec: ContractionSpec, target: Target) -> tuple[Step, ...]:
        """Zeros in C before where memory adds entries; where a sum follows, that, and before what finds the entries
        that the list names, if no array says so.
        """
        if problem.reduction is None or self.writes_nothing(problem):
            return (OWN_KERNEL,)
        if problem.reduction == "atomic":
            return (cleared(find_array(problem.arrays(), "c")), OWN_KERNEL)
        made, product = _made(problem).product, problem.product
        bag = Bag(problem.entries, problem.t, problem.topk, product.n, made.out, product.out, made.ldc, product.ldc)
        ids = "entry_ids" if problem.entry_ids else NAMED
        listed = Named(problem.t, problem.e, problem.topk, problem.unit)
        found = () if problem.entry_ids else (Run(LISTED_ENTRIES, listed, {"entry_ids": ids}),)
        return (*found, OWN_KERNEL, Run(EMBEDDING_BAG, bag, {"table": ENTRIES, "ids": ids, "y": "c"}))

    def workspaces(self, problem: ExpertsProblem, spec: ContractionSpec, target: Target) -> tuple[Workspace, ...]:
        if not problem.by_workspace or self.writes_nothing(problem):
            return ()
        entries = find_array(_made(problem).arrays(), "c")
        size = entries.shape[0] * entries.strides[0] * find_dtype(entries.dtype).bytes
        return (Workspace(ENTRIES, size), *(() if problem.entry_ids else (Workspace(NAMED, 4 * problem.entries),)))

    # -- values ------------------------------------------------------------------------------------------------------

    def _together(self, problem: ExpertsProblem, generator: np.random.Generator) -> Mapping[str, Array]:
        """What `moe_sorting` makes of a routing."""
        found = MOE_SORTING.some_lists(experts_reference.sorting(problem), generator)
        names = (*LISTS, *(["entry_ids"] if problem.entry_ids else []))
        return {name: found[name] for name in names}

    def _values(self, problem: ExpertsProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        product = problem.product
        values = operator_of(product)._values(product, array, generator)
        return smaller(values, product) if array.name == "scale_a" else values

    def reference(self, problem: ExpertsProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """That of `gemm` for each expert's rows, where they belong."""
        return {"c": experts_reference.result(problem, arrays)}

    def expected(self, problem: ExpertsProblem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        return {"c": experts_reference.expected(problem, arrays, target)}

    def tolerances(
        self, problem: ExpertsProblem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Those of `gemm` for each expert's rows; of a token's sum, those of its entries and of adding them."""
        return {"c": experts_reference.tolerance(problem, arrays, reference["c"], target)}

    def flops(self, problem: ExpertsProblem) -> int:
        """A multiplication and an addition for each product of an entry."""
        product = problem.product
        return 2 * problem.entries * product.n * product.k * product.products


def _made(problem: ExpertsProblem) -> ExpertsProblem:
    """What the kernel makes: C, or results by entry for a workspace."""
    return problem.by_entry if problem.by_workspace else problem


def _sink(problem: ExpertsProblem) -> str:
    return "atomic" if problem.reduction == "atomic" else "store"


OPERATOR = MoeGemm()
"""Products of experts' matrices."""
