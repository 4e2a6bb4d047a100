"""fused_moe: a layer of experts, from rows of tokens and a routing to the weighted sum of what their experts make.

    h[t, s] = op(x[t] · gate[e]ᵀ, x[t] · up[e]ᵀ)          e = topk_ids[t, s]
    y[t]    = Σ_s weights[t, s] · (h[t, s] · down[e]ᵀ)

`op` is an expression of `gate` and `up`, by default silu(gate) * up; or of `acc`, for experts with one matrix, `gate`,
before the activation. h is rounded to dtype. Slots whose id is not an expert count as zero; a token may name an expert
twice.

With dtype fp8, bf8 or i8, x and the matrices have scales: x_scale for each token, gate_scale, up_scale and down_scale
for each row of a matrix; every product is multiplied by both. h is in f32, multiplied by the columns' scales `smooth`
of its expert and quantised with a scale for each entry, as `moe_smoothquant` does (i8 is truncated, floats rounded).

With `a_scale` and `b_scale` x and the matrices have scales of groups along their rows, as in `moe_gemm`: the powers of
two of mx formats, which fp4, fp6 and bf6 have by default, or f32. h is in f32, and is quantised to dtype with scales of
such groups, as `quantize_blocks` does. Nothing is promised of a token where h is infinite or NaN. The matrices may be
of another type (`b_dtype`), as there.

Beside x of f16 or bf16 the matrices may be of fp4, i4 or u4 (`b_dtype`), with scales of groups along their rows
(`b_scale`): elements times their scales are rounded to dtype, as in `moe_gemm`. With `bias` each expert's products of
gate, up and down have a bias, which is added to the scaled sums before the activation, and before the weight.

Several kernels: `moe_sorting`, two of `moe_gemm`, and what the sum takes (`reduction`, as there). With `between=lds`
one kernel computes both products: h stays in LDS, and memory adds up y in f32 (`ckmlir.ops.moe.chained`). All grids are
bounds that follow from t, topk, e and `unit`; nothing is read back to the host.

With `local` the matrices are those of so many experts: of those whose `mask` is not 0, in the order of their numbers.
The others count as zero: the result is the share of one device of several, to be added up. Experts whose mask is set
beyond the first `local` count as zero too.

Arrays: x (t, hidden); gate, up (e, inter, hidden), down (e, hidden, inter), with `local` instead of e where it is
given, with `shuffled` in fragment order, and of packed elements their bytes, as x is; topk_ids (t, topk) i32, weights
(t, topk) f32; mask (e) i32 with `local`; y (t, hidden). Behind the matrices, of as many experts: in 8 bits x_scale (t),
gate_scale, up_scale (e, inter), down_scale (e, hidden), smooth (e, inter), f32; with scales of groups gate_scale,
up_scale (e, inter, groups), down_scale (e, hidden, groups), or of 128 rows each, and x_scale (t, groups) unless x is of
floats of 16 bits, e8m0, f32 or what `scale` says; with `zeros` gate_zero, up_zero and down_zero, which lie as the
scales do, as in `moe_gemm`; gate_bias, up_bias (e, inter), down_bias (e, hidden). The operator's
own kernel is the first `moe_gemm`.

Semantics: CK Tile, example 15_fused_moe.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.choice import first_valid
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.keys import SHUFFLED
from ckmlir.ops.contraction.product_operator import ProductOperator
from ckmlir.ops.dtypes import PACKED_FLOATS, PACKED_INTEGERS
from ckmlir.ops.gemm.gated_gemm_quant import LARGE_INTEGER
from ckmlir.ops.inner import in_outer_words
from ckmlir.ops.moe import experts_reference
from ckmlir.ops.moe.apart import Apart
from ckmlir.ops.moe.chained import Chained
from ckmlir.ops.moe.experts_problem import ACCUMULATORS, REDUCTIONS
from ckmlir.ops.moe.experts_scales import A_SCALES, B_SCALES, POWERED, SCALE, SCALED, ZEROS
from ckmlir.ops.moe.layer_problem import LISTS, OF_SORTING, UNITS, LayerProblem, read_layer
from ckmlir.ops.moe.layer_sums import WEIGHTS
from ckmlir.ops.moe.moe_gemm import OPERATOR as MOE_GEMM
from ckmlir.ops.moe.moe_sorting import OPERATOR as MOE_SORTING
from ckmlir.ops.operator import NOTHING, Launch, Run, Step
from ckmlir.ops.request import Choice, Integer, Key, RequestError
from ckmlir.ops.rows.arrays import FLOATS
from ckmlir.ops.spec import Reason
from ckmlir.ops.steps import OWN_KERNEL, Workspace
from ckmlir.ops.tensors.expression_key import ExpressionKey
from ckmlir.ops.tensors.rounding import output_tolerance
from ckmlir.targets import Target, get_target

DTYPES = (*FLOATS, *SCALED, *PACKED_FLOATS)
MANY_TOKENS = {"t": 4096, "e": 32, "topk": 4, "hidden": 1024, "inter": 512}
"""A layer whose unit a chip chooses."""
LISTED_SCALES = ({"dtype": "fp8", "a_scale": "mx", "b_scale": "mx"}, {"dtype": "bf16", "b_dtype": "fp4"})
"""Of kernels that are listed beside those of each type."""
TYPICAL = 4
"""What made-up scales of groups come to."""
LAYER_KEYS: tuple[Key, ...] = (
    Integer("t", 32, "tokens"),
    Integer("e", 8, "experts", minimum=1),
    Integer("topk", 2, "experts of each token", minimum=1),
    Integer("hidden", 256, "elements of a row of x and y"),
    Integer("inter", 256, "elements between the two products"),
    Choice(
        "dtype", "f16", "of x, what is between the products and, unless b_dtype says otherwise, the matrices; 8 bits "
        "and fewer with scales", DTYPES,
    ),
    Choice(
        "b_dtype", None, "of the matrices: beside f16 and bf16 4 bits with scales, else what their scales allow; "
        "default: dtype", (*POWERED, *PACKED_INTEGERS),
    ),
    Choice(
        "a_scale", None, "of each row of x, and of what is between the products, for so much along it; mx, as packed "
        "floats have: powers of two for 32; by default 8 bits have one for each row", tuple(A_SCALES),
    ),
    Choice(
        "b_scale", None, "of each row of the matrices, or 128, for so much along it; mx, the default of fp4: as of x",
        tuple(B_SCALES),
    ),
    SCALE,
    ZEROS,
    Choice("bias", None, "type of a bias of each row of the matrices; by default there is none", FLOATS),
    Choice("out", None, "of y; by default dtype, f16 of 8 bits", FLOATS),
    Integer(
        "unit",
        None,
        "places of a unit, whose rows have one expert, a multiple of 16; by default 16 to 128, as many as an expert "
        "has rows on average, and `shuffled` at least; 96 or 160 for many rows on gfx950",
        16,
        16,
    ),
    SHUFFLED,
    Choice(
        "reduction",
        None,
        "how entries of a token are summed: through a workspace of f32 in a fixed order (the default), the same with "
        "entries rounded to the type of y, or by atomics",
        REDUCTIONS,
    ),
    Choice(
        "between",
        "memory",
        "where h is: in memory, or in the LDS of one kernel for both products, beside x of floats",
        ("memory", "lds"),
    ),
    Integer("local", None, "experts whose matrices are there, told by a mask; by default all", minimum=1),
    ExpressionKey("op", "silu(gate) * up", "what is between the products, of gate and up or of acc", ACCUMULATORS),
)  # fmt: skip


class FusedMoe(ProductOperator[LayerProblem]):
    """The operator `fused_moe`, which the module's docstring describes."""

    name = "fused_moe"
    spec_type = ContractionSpec
    keys = LAYER_KEYS

    @property
    def owners(self) -> tuple[str, ...]:
        return (MOE_GEMM.name, FusedMoe.name)

    def _problem(self, values: Mapping[str, Any]) -> LayerProblem:
        return read_layer(values)

    # -- the kernel of its own -----------------------------------------------------------------------------------------

    def spec(self, problem: LayerProblem, target: Target) -> ContractionSpec:
        others = _way(problem).others(problem.on(target), target)
        return first_valid(self.proposals(problem, target), lambda one: self.validate(one, target), others)

    def proposals(self, problem: LayerProblem, target: Target) -> Iterator[ContractionSpec]:
        return _way(problem).proposals(problem.on(target), target)

    def lengths(self, problem: LayerProblem) -> Sequence[tuple[int, int, int]]:
        return MOE_GEMM.lengths(problem.first)

    def mismatches(self, problem: LayerProblem, spec: ContractionSpec, target: Target) -> list[Reason]:
        return _way(problem).mismatches(problem.on(target), spec, target)

    def kernels(self, target: Target) -> list[ContractionSpec]:
        requests: list[dict[str, Any]] = [{"dtype": dtype, "unit": unit} for dtype in DTYPES for unit in UNITS]
        requests += [{**one, "between": "lds"} for one in requests if one["dtype"] in FLOATS]
        requests += [{"dtype": dtype, **MANY_TOKENS} for dtype in DTYPES]
        requests += [{**scaled, "unit": unit} for scaled in LISTED_SCALES for unit in (16, 64)]
        specs = dict.fromkeys(self.spec(self.problem(**one), target) for one in requests)
        return [spec for spec in specs if not self.validate(spec, target)]

    def build(self, spec: ContractionSpec, target: Target) -> Any:
        return MOE_GEMM.build(spec, target)

    # -- what is queued ------------------------------------------------------------------------------------------------

    def arrays(self, problem: LayerProblem) -> tuple[ArraySpec, ...]:
        return (problem.x, *problem.matrices, *problem.beside, *problem.routing, *problem.mask, problem.y)

    def launch(self, problem: LayerProblem, spec: ContractionSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        try:
            return _way(problem).launch(problem.on(target), spec, target)
        except RequestError as error:
            reasons = in_outer_words(str(error), spec.operator, problem.first_names)
            raise RequestError(f"{self.name} on {target.name}: {reasons}") from None

    def steps(self, problem: LayerProblem, spec: ContractionSpec, target: Target) -> tuple[Step, ...]:
        """Sorting, and both products with their sums."""
        if self.writes_nothing(problem):
            return (OWN_KERNEL,)
        layer = problem.on(target)
        return (Run(MOE_SORTING, layer.sorting, {}, OF_SORTING), *_way(layer).steps(layer))

    def workspaces(self, problem: LayerProblem, spec: ContractionSpec, target: Target) -> tuple[Workspace, ...]:
        if self.writes_nothing(problem):
            return ()
        layer = problem.on(target)
        lists = [array for array in MOE_SORTING.arrays(layer.sorting) if array.name in LISTS]
        return (*(Workspace(array.name, array.nbytes) for array in lists), *_way(layer).workspaces(layer))

    # -- values --------------------------------------------------------------------------------------------------------

    def _values(self, problem: LayerProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        """Those of the steps; matrices, or their scales, such that results are about as large as x."""
        second = array.name.startswith("down")
        own, names = (problem.second, problem.second_names) if second else (problem.first, problem.first_names)
        size = max(own.product.k, 1) ** -0.5
        is_bias = array.name.endswith("_bias")
        by_channels = own.product.dtype in SCALED and not own.product.scaling
        if array in problem.beside and by_channels and not is_bias:
            found: Array = generator.uniform(0.5, 1.5, array.shape)
            if array in problem.between.arrays:
                return found
            whole = 64 if own.product.dtype == "i8" else 1
            return found / whole if array.name == "x_scale" else found * size / whole
        if array not in (problem.x, *problem.matrices, *problem.beside):
            return MOE_SORTING._values(problem.sorting, array, generator)
        name = next(one.name for one in own.arrays() if names.get(one.name, one.name) == array.name)
        values = MOE_GEMM._values(own, replace(array, name=name), generator)
        scales = own.product.scaling
        if name in [one.name for one in scales]:  # which may be powers of two
            if scales[0].operand != "a":
                return values * 2.0 ** round(math.log2(size))
            if not second:  # those of x make sums of few rows about as large as activations take
                return values if name == "scale_a" else values / TYPICAL
            whole = LARGE_INTEGER if own.product.dtype == "i8" else 1
            return values * 2.0 ** round(math.log2(size / (whole * TYPICAL)))
        scaled = array not in problem.matrices or scales or by_channels
        return values if scaled else values * np.float32(size)

    def reference(self, problem: LayerProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """y in float64, of what is between the products and matrices of 4 bits times their scales, rounded to dtype;
        8-bit floats are those of the OCP.
        """
        return self.expected(problem, arrays, get_target("gfx950"))

    def expected(self, problem: LayerProblem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        routing = self._routing(problem, arrays)
        lists = _lists(problem, arrays, routing)
        inter = experts_reference.expected(problem.first, problem.first_arrays(arrays, lists), target)
        rows = problem.between.rows(inter, np.zeros_like(inter), {**arrays, **routing, **lists}, target)
        second = problem.second_arrays(arrays, lists, rows.arrays)
        return {"y": experts_reference.expected(problem.second, second, target)}

    def tolerances(
        self, problem: LayerProblem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """That of `moe_gemm` for the second products, of an A that is off by a step where the error of the first
        products, computed in f32, may cross one; and what the weights and the scales of rows may be off by.
        """
        routing = self._routing(problem, arrays)
        lists = _lists(problem, arrays, routing)
        first = replace(problem.first, product=replace(problem.first.product, out="f32"))
        own = problem.first_arrays(arrays, lists)
        exact = experts_reference.expected(first, own, target)
        found = experts_reference.tolerance(first, own, exact, target)
        sizes = np.where(np.isfinite(exact), np.abs(exact), 0.0)
        error = np.where(found.unspecified, np.inf, found.atol + found.rtol * sizes)
        rows = problem.between.rows(exact, error, {**arrays, **routing, **lists}, target)
        second = problem.second_arrays(arrays, lists, rows.arrays)
        result = experts_reference.tolerance(problem.second, second, reference["y"], target, rows.moved)
        off = self._weights_error(problem, arrays, routing, target)
        wrong = [{**second, **self._no_bias(problem, second), name: one} for name, one in rows.errors.items()]
        if off is not None:
            wrong.append({**second, "d0": _lists(problem, arrays, {**routing, "weights": off})[WEIGHTS]})
        for given in wrong:
            result = replace(result, atol=result.atol + experts_reference.magnitudes(problem.second, given))
        if problem.sums.dtype != problem.out:  # rounded once more
            sizes = np.where(np.isfinite(reference["y"]), np.abs(reference["y"]), 0.0)
            off = np.where(result.unspecified, np.inf, result.atol + result.rtol * sizes)
            result = output_tolerance(off, problem.out, result.reason, target)
        return {"y": result}

    @staticmethod
    def _no_bias(problem: LayerProblem, second: Mapping[str, Array]) -> dict[str, Array]:
        """What is added to the second products, as zeros: no scale of theirs multiplies it."""
        names = [name for name, side in problem.second_names.items() if side == "down_bias"]
        return {name: np.zeros_like(second[name]) for name in names}

    def _routing(self, problem: LayerProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The routing."""
        return {name: arrays[name] for name in ("topk_ids", "weights")}

    def _weights_error(
        self, problem: LayerProblem, arrays: Mapping[str, Array], routing: Mapping[str, Array], target: Target
    ) -> Array | None:
        """How far the routing's weights may be off; None: not at all."""
        return None

    def flops(self, problem: LayerProblem) -> int:
        """Those of the products."""
        return MOE_GEMM.flops(problem.first) + MOE_GEMM.flops(problem.second)


def _way(problem: LayerProblem) -> Apart | Chained:
    """How the products of a layer are computed."""
    return Chained() if problem.chained else Apart()


def _lists(problem: LayerProblem, arrays: Mapping[str, Array], routing: Mapping[str, Array]) -> dict[str, Array]:
    """What `moe_sorting` makes of a routing."""
    given = {**routing, **{one.name: arrays[one.name] for one in problem.mask}}
    return MOE_SORTING.reference(problem.sorting, given)


OPERATOR = FusedMoe()
"""A layer of experts whose routing is given."""
