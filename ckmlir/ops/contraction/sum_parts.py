"""sum_parts: C = op(p[0] + p[1] + …, D0, D1, …), the second step of products whose sums are shared by workgroups.

Parts are added in an order that follows from their number and C's shape, one after the other or in shares that are
added then, so two runs give the same bits. `op` is an expression of the sum, `acc`, and of up to four tensors d0 to d3
that broadcast to `shape`; it is computed in f32, for parts of f64 in f64. Without one, C is the sum.

Arrays: acc_parts (parts, shape), of f32, f64 or i32; d0, d1, …; c (shape). A gated product has gate_parts and up_parts.

Kernel arguments: the arrays; lengths, numbers of tiles, strides of the folded index space; parts, elements from one
part to the next (i32); alpha, beta (f32, or f64). Grid: one dimension, tiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from ckmlir.dialect.schedule_items import MOST_AHEAD
from ckmlir.digests import digest_of
from ckmlir.ops.arrays import ALIGNMENT, ArraySpec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.added_parts import (
    MOST_SHARES,
    SumProblem,
    ahead_of,
    fields_of_tile,
    shares_of,
    tile_of,
    within_reach,
)  # fmt: skip
from ckmlir.ops.contraction.contraction_spec import (
    COMPUTED,
    SCALARS,
    accumulator_names,
    computing_type,
    output_names,
)  # fmt: skip
from ckmlir.ops.contraction.keys import NO_OP, check_described, check_scalars
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.side import MOST, REQUESTED, TYPES
from ckmlir.ops.elementwise.elementwise import OPERATOR as ELEMENTWISE
from ckmlir.ops.list_keys import Numbers, Words
from ckmlir.ops.operator import NOTHING, Launch, Operator, Run
from ckmlir.ops.precision import order_decides
from ckmlir.ops.request import MAXIMUM_SIZE, Choice, Integer, Real, RequestError
from ckmlir.ops.scalars import f32, f64, i32
from ckmlir.ops.spec import Algorithm, Reason, by, not_powers_of_two, unlike
from ckmlir.ops.steps import Fill
from ckmlir.ops.tensors.arrays import Operand, aligned_elements, broadcast_axes, checked_strides, packed
from ckmlir.ops.tensors.expression import check_f64, evaluate_exactly, parse, read_expression
from ckmlir.ops.tensors.expression_key import ExpressionKey
from ckmlir.ops.tensors.keys import Broadcast, Strides
from ckmlir.ops.tensors.mapping import MapProblem
from ckmlir.ops.tensors.rounding import Bounded, bounded_error, output_tolerance, saturated
from ckmlir.ops.tensors.tiling import (
    ArrayFields,
    TileSpec,
    array_fields,
    check_tiles,
    invalid_tiles,
    launch_scalars,
    tile_counts,
    uncovered_tiles,
)  # fmt: skip
from ckmlir.ops.tensors.values import moved_values
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

MOST_DIMENSIONS = 5
OUTPUTS = {"f32": ("f32", "f16", "bf16"), "i32": ("i32",), "f64": ("f64", "f32")}
"""Type of the parts -> types of C without an expression."""
OF_PRODUCT = {"elements of c": "out"} | {f"elements of {name}": "d" for name in REQUESTED}
"""What refusals name here -> keys of a product whose parts are added."""


class SumSpec(TileSpec):
    """What the kernel depends on; arrays are the parts of each accumulator, D tensors, C.

    Attributes:
        sums: accumulators.
        op: see SumProblem.
        shares: of the parts, which work-items add side by side: of two shares one has the parts 0, 2, ….
        ahead: parts of a share that are on their way while one is added.
    """

    sums: int
    op: str
    shares: Algorithm[int] = 1
    ahead: Algorithm[int] = 4

    @property
    def name(self) -> str:
        digest = digest_of(self.to_json(), 10)
        return "_".join(["sum_parts", self.dtypes[0], self.dtypes[-1], f"tile{by(self.tile)}", digest])


class SumParts(Operator[SumProblem, SumSpec]):
    """The operator `sum_parts`, which the module's docstring describes."""

    name = "sum_parts"
    spec_type = SumSpec
    keys = (
        Integer("parts", 4, "that are added", minimum=1),
        Numbers("shape", (64, 1024), "of c", most=MOST_DIMENSIONS),
        Choice("dtype", "f32", "of the parts", tuple(OUTPUTS)),
        Choice("out", None, "of c; by default f16, i32 for i32, f64 for f64", (*COMPUTED["f32"], "f64", "i32")),
        Strides("strides", None, "of c, in elements", most=MOST_DIMENSIONS),
        ExpressionKey("op", None, "what is stored", ("acc", *REQUESTED, *SCALARS)),
        Words("d", None, "types of the D tensors that op names; by default out", TYPES, MOST),
        *(Broadcast(name, None, f"shape of {name}; by default that of c", MOST_DIMENSIONS) for name in REQUESTED),
        Real("alpha", 1.0, "a number that op names"),
        Real("beta", 1.0, "a number that op names"),
    )

    def _problem(self, values: Mapping[str, Any]) -> SumProblem:
        parts, shape, dtype, op = values["parts"], values["shape"], values["dtype"], values["op"] or ""
        computing = computing_type(dtype)
        out = values["out"] or {"i32": "f16" if op else "i32", "f32": "f16", "f64": "f64"}[dtype]
        able = COMPUTED[computing] if op else OUTPUTS[dtype]
        if out not in able:
            raise RequestError(f"out={out}: expected {'|'.join(able)}")
        c = _operand("c", out, shape, checked_strides("strides", shape, values["strides"]))
        whole = (parts, *shape)
        sums = Operand("acc_parts", dtype, whole, packed(whole), tuple(range(1, len(whole))))
        expression = read_expression(op, ("acc", *REQUESTED, *SCALARS)) if op else None
        if expression is not None and computing == "f64":
            check_f64(expression)
        used = expression.variables if expression is not None else ()
        check_scalars(values, op, used)
        names = [name for name in REQUESTED if name in used]
        unread = next((name for name in REQUESTED if name not in used and values[name] is not None), None)
        if unread is not None:
            raise RequestError(f"{unread}={'x'.join(map(str, values[unread]))}: no op names it; {NO_OP}")
        check_described("d", values["d"], op, len(names))
        types = values["d"] or (out,) * len(names)
        side = []
        for name, own in zip(names, types, strict=True):
            if own == "f64" != computing:
                raise RequestError(f"d: {name} is f64, and op of dtype={dtype} is computed in f32; expected f32")
            lies = values[name] or shape
            side.append(Operand(name, own, lies, packed(lies), broadcast_axes(name, lies, shape)))
        problem = SumProblem(parts, shape, (sums,), tuple(side), c, op, values["alpha"], values["beta"])
        check_tiles(problem.ordered, tile_of(problem), [one.name for one in problem.operands])
        if problem.part_stride > MAXIMUM_SIZE and not self.writes_nothing(problem):
            apart = f"parts lie {problem.part_stride} elements apart"
            raise RequestError(f"shape={'x'.join(map(str, shape))}: {apart}; kernels take at most {MAXIMUM_SIZE}")
        return problem

    def spec(self, problem: SumProblem, target: Target) -> SumSpec:
        return SumSpec(
            arrays=tuple(one.name for one in problem.operands),
            dtypes=tuple(one.dtype for one in problem.operands),
            sums=len(problem.sums),
            op=problem.op,
            shares=shares_of(problem),
            ahead=ahead_of(problem),
            **_array_fields(problem),
            **fields_of_tile(problem),
        )

    def mismatches(self, problem: SumProblem, spec: SumSpec, target: Target) -> list[Reason]:
        different = unlike(
            spec, arrays=tuple(one.name for one in problem.operands), sums=len(problem.sums), op=problem.op,
            dtypes=tuple(one.dtype for one in problem.operands),
        )  # fmt: skip
        reasons = list(different) or list(uncovered_tiles(spec, problem.ordered, problem.align))
        for name, align in zip(spec.arrays[: spec.sums], spec.aligns, strict=False):
            if not reasons and problem.part_stride % align:
                why = f"parts of {name} are not aligned to {align} elements"
                reasons.append(Reason("aligns", spec.aligns, why, "expected less"))
        if not reasons and not within_reach(problem, spec.shares, spec.tile):
            reasons.append(Reason("shares", spec.shares, "their parts lie 2 GiB apart", "expected fewer"))
        return reasons

    def validate(self, spec: SumSpec, target: Target) -> list[Reason]:
        reasons = [*not_powers_of_two(spec, "shares"), *invalid_tiles(spec, target)]
        if spec.shares > MOST_SHARES:
            why = "no such number of shares"
            reasons.append(Reason("shares", spec.shares, why, f"expected at most {MOST_SHARES}"))
        if spec.ahead not in range(MOST_AHEAD + 1):
            why = "no such number of parts on their way"
            reasons.append(Reason("ahead", spec.ahead, why, f"expected 0 to {MOST_AHEAD}"))
        return reasons

    def kernels(self, target: Target) -> list[SumSpec]:
        requests: list[dict[str, object]] = [
            {"out": "f16"}, {"out": "bf16"}, {"out": "f32"}, {"op": "relu(acc + d0)", "d0": (1024,)},
            {"op": "gelu(acc + d0) + d1", "d0": (1024,)}, {"dtype": "i32"},
            {"dtype": "i32", "out": "i8", "op": "acc * alpha"}, {"dtype": "f64"},
        ]  # fmt: skip
        problems = [self.problem(**keys) for keys in requests]
        return list(dict.fromkeys(self.spec(problem, target) for problem in problems))

    def arrays(self, problem: SumProblem) -> tuple[ArraySpec, ...]:
        inputs = (one.array("in", problem.align) for one in (*problem.sums, *problem.side))
        return (*inputs, problem.c.array("out", problem.align))

    def _values(self, problem: SumProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        return moved_values(array, generator)

    def reference(self, problem: SumProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """C in float64 before it is rounded; sums of i32 wrap around."""
        sums = _sums(problem, arrays)
        if not problem.op:
            return {"c": sums["acc"]}
        variables = {**sums, **_beside(problem, arrays)}
        value = evaluate_exactly(parse(problem.op, problem.variables), variables, precision=problem.precision)
        return {"c": np.broadcast_to(value, problem.lengths)}

    def expected(self, problem: SumProblem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        c = self.reference(problem, arrays)["c"]
        return {"c": saturated(c, problem.c.dtype, target) if problem.op else c}

    def tolerances(
        self, problem: SumProblem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """P parts take P - 1 additions, each rounded in f32 or f64 (i32 is exact, rounded once for an expression); then
        the expression by the bounds of `tensors.rounding`."""
        out = problem.c.dtype
        if out == "i32":
            return {"c": Tolerance(0.0, 0.0, "integers are exact")}
        precision, variables = problem.precision, {}
        u = precision.unit
        for name, operand in zip(accumulator_names(len(problem.sums)), problem.sums, strict=True):
            total = _sums(problem, arrays)[name].astype(np.float64)
            parts = arrays[operand.name].astype(np.float64)
            size = np.sum(np.where(np.isfinite(parts), np.abs(parts), 0.0), axis=0)
            error = u * (np.abs(total) if operand.dtype == "i32" else problem.parts * size)
            variables[name] = Bounded(total, np.where(order_decides(parts, 0, precision), np.inf, error))
        error = variables["acc"].error if not problem.op else bounded_error(
            parse(problem.op, problem.variables),
            {**variables, **{name: Bounded(one, 0.0) for name, one in _beside(problem, arrays).items()}},
            precision,
        )  # fmt: skip
        then = f", then {problem.op} in {precision.name}" if problem.op else ""
        what = f"{problem.parts} {precision.name} additions{then}"
        return {"c": output_tolerance(np.broadcast_to(error, problem.lengths), out, what, target)}

    def launch(self, problem: SumProblem, spec: SumSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        folded = problem.folded
        counts = tile_counts(folded.lengths, spec.tile)
        strides = dict(zip(spec.arrays, problem.ordered.strides, strict=True))
        scalars = launch_scalars(spec, folded.lengths, counts, strides)
        parts = (i32(problem.parts), i32(problem.part_stride))
        real = f64 if problem.precision.name == "f64" else f32
        numbers = (real(problem.alpha), real(problem.beta))
        return Launch((prod(counts), 1, 1), (spec.waves * WAVE_SIZE, 1, 1), (*spec.arrays, *scalars, *parts, *numbers))


def sum_of(product: Problem, parts: int) -> SumProblem:
    """What adds the partial sums of a product; its arrays are the product's workspaces, D tensors and C."""
    product = product.whole()
    parted, batch = product.parted(), product.batch
    lengths, rank = (*batch, product.m, product.n), len(batch)
    sums = []
    for name in output_names(product.products, partial=True):
        strides = (parted.part_outputs, *parted.batch_of(name).strides, parted.ldc, 1)
        sums.append(Operand(name, parted.out, (parts, *lengths), strides, tuple(range(1, rank + 3))))
    arrays = {array.name: array for array in product.arrays()}
    lies = {"full": (rank, rank + 1), "row": (-1, rank), "column": (rank, -1), "scalar": (-1, rank)}
    side = []
    for one in product.side:
        array = arrays[one.name]
        side.append(Operand(one.name, one.dtype, array.shape, array.strides, (*range(rank), *lies[one.kind])))
    c = _operand("c", product.out, lengths, arrays["c"].strides)
    return SumProblem(parts, lengths, tuple(sums), tuple(side), c, product.op, product.alpha, product.beta)


def sum_over(
    parts: int,
    lengths: tuple[int, ...],
    dtype: str,
    strides: tuple[int, ...],
    out: str,
    own: tuple[int, ...],
    align: int = ALIGNMENT,
) -> SumProblem:
    """The sum over the first dimension of an array (parts, lengths) of these strides, C having strides of its `own`;
    `align` bytes divide the addresses of both."""
    summed = Operand("acc_parts", dtype, (parts, *lengths), strides, tuple(range(1, len(strides))))
    return SumProblem(parts, lengths, (summed,), (), _operand("c", out, lengths, own), "", 1.0, 1.0, align)


def cleared(array: ArraySpec) -> Fill | Run:
    """What sets the elements of an array to zero, and nothing between them."""
    if array.elements == prod(array.shape):
        return Fill(array.name, 0)
    output = _operand("y", array.dtype, array.shape, array.strides)
    return Run(ELEMENTWISE, MapProblem(array.shape, (), output, "0"), {"y": array.name})


def _operand(name: str, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> Operand:
    return Operand(name, dtype, shape, strides, tuple(range(len(shape))))


def _array_fields(problem: SumProblem) -> ArrayFields:
    """Fields of a specification that follow from the arrays; parts too begin at aligned places."""
    dtypes = [one.dtype for one in problem.operands]
    fields = array_fields(problem.ordered, dtypes, problem.align)
    aligns = [
        min(align, aligned_elements(one.dtype, problem.align, problem.part_stride)) if one in problem.sums else align
        for align, one in zip(fields["aligns"], problem.operands, strict=True)
    ]
    return {"steps": fields["steps"], "aligns": tuple(aligns)}


def _sums(problem: SumProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Every accumulator: in float64, or in i32."""
    found: dict[str, Array] = {}
    for name, operand in zip(accumulator_names(len(problem.sums)), problem.sums, strict=True):
        dtype: type[np.generic] = np.int32 if operand.dtype == "i32" else np.float64
        with np.errstate(invalid="ignore"):
            total = np.asarray(np.sum(arrays[operand.name], axis=0, dtype=dtype))
        found[name] = total if operand.dtype == "i32" else problem.precision.within(total)
    return found


def _beside(problem: SumProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The D tensors and numbers, as they meet C."""
    numbers = (("alpha", problem.alpha), ("beta", problem.beta))
    found: dict[str, Array] = {name: np.asarray(problem.precision.number(value), np.float64) for name, value in numbers}
    for one in problem.side:
        found[one.name] = one.in_index_space(arrays[one.name], problem.lengths).astype(np.float64)
    return found


OPERATOR = SumParts()
