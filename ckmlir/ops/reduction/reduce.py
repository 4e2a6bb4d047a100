"""reduce: sums, means, extrema and sums of squares over any dimensions of a tensor of up to 5, several in one pass.

`ops` names the reductions, `before` and `after` are expressions of `a`: applied to every element, and to every result;
one for all, or one for each, separated by semicolons. Sums accumulate in f32, or in i32 where x and y hold integers.

Extrema leave NaN out: max, min and amax of nothing but NaN are those of no elements, -inf, inf and 0 (of integers the
smallest, the largest and 0). Sums of NaN are NaN; a sum of no elements is 0, its mean NaN. Where the magnitudes of a
sum's terms add up to more than f32 holds, nothing is promised of it.

`split` workgroups share the elements of each result: their partial results go to a workspace, which a second kernel
reduces in a fixed order. With `atomic` they are combined in memory instead, in no fixed order.

Arrays: x (shape) at any strides; y, or y_<op> for each of several, packed, of the dimensions that are kept.

Kernel arguments: x, the outputs; lengths, numbers of tiles, strides; steps (i32), steps of a part (i32), elements of a
part's results (i32), 1 / number of elements (f32). Grid: tiles of the kept dimensions, parts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import TENSOR_TYPES, find_dtype
from ckmlir.ops.elementwise.elementwise import OPERATOR as ELEMENTWISE
from ckmlir.ops.list_keys import Numbers, Words
from ckmlir.ops.operator import NOTHING, Launch, Operator, Run, Step
from ckmlir.ops.precision import in_f32, order_decides
from ckmlir.ops.reduction.kinds import ATOMIC, KINDS, SMALLEST
from ckmlir.ops.reduction.problem import KEPT, REDUCED, STORES, ReduceProblem, ReduceSpec
from ckmlir.ops.request import MAXIMUM_SIZE, Choice, Flag, Integer, RequestError, show
from ckmlir.ops.scalars import ceil_div, f32, i32
from ckmlir.ops.spec import Reason, not_a_choice, not_all_choices, unlike
from ckmlir.ops.steps import OWN_KERNEL, Workspace
from ckmlir.ops.tensors.arrays import Operand, checked_strides, packed
from ckmlir.ops.tensors.expression import check_integers, evaluate_exactly, parse
from ckmlir.ops.tensors.expression_key import ExpressionKey
from ckmlir.ops.tensors.folding import Folded
from ckmlir.ops.tensors.keys import Dimensions, Strides
from ckmlir.ops.tensors.mapping import ALIGN, MapProblem
from ckmlir.ops.tensors.rounding import Bounded, bounded_error, expression_error, output_tolerance, saturated
from ckmlir.ops.tensors.tiling import (
    MAXIMUM_REACH,
    MAXIMUM_WORKGROUPS,
    WAVES,
    array_fields,
    check_tiles,
    choose_tile,
    invalid_tiles,
    launch_scalars,
    tile_counts,
    tile_fields,
    uncovered_tiles,
)  # fmt: skip
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

TYPES = TENSOR_TYPES
MOST_DIMENSIONS, MOST_OUTPUTS = 5, 6
ROW_BYTES = 128
"""Bytes of a kept fastest dimension that a workgroup takes: whole cache lines, and many workgroups."""

LONGEST, SPLIT = (256, 16384), 8
"""Of the kernels that are listed: the longest rows, and the workgroups that share one."""


class Reduce(Operator[ReduceProblem, ReduceSpec]):
    """The operator `reduce`, which the module's docstring describes."""

    name = "reduce"
    spec_type = ReduceSpec
    keys = (
        Numbers("shape", (256, 1024), "of x", most=MOST_DIMENSIONS),
        Dimensions("dims", None, "dimensions to reduce; default: the last", most=MOST_DIMENSIONS),
        Words("ops", ("sum",), "reductions", tuple(KINDS), most=MOST_OUTPUTS),
        Choice("dtype", "f16", "of x", TYPES),
        Choice("out", None, "of the results; default: dtype, i32 for i8", TYPES),
        ExpressionKey("before", ("a",), "of every element", variables=("a",), many=True),
        ExpressionKey("after", ("a",), "of every result", variables=("a",), many=True),
        Strides("strides", None, "of x, in elements", most=MOST_DIMENSIONS),
        Integer("split", 1, "workgroups that share a result", minimum=1),
        Flag("atomic", False, "combine their results in memory, in no fixed order"),
        ALIGN,
    )

    def _problem(self, values: Mapping[str, Any]) -> ReduceProblem:
        shape, dtype, kinds = values["shape"], values["dtype"], values["ops"]
        dims = (len(shape) - 1,) if values["dims"] is None else values["dims"]
        if len(set(dims)) != len(dims) or max(dims) >= len(shape):
            raise RequestError(f"dims={show(dims)}: expected different numbers below {len(shape)}")
        x = Operand("x", dtype, shape, checked_strides("strides", shape, values["strides"]), tuple(range(len(shape))))
        names = [f"y_{kind}" for kind in kinds] if len(kinds) > 1 else ["y"]
        names = [name if names.count(name) == 1 else f"{name}{place}" for place, name in enumerate(names)]
        problem = ReduceProblem(
            x=x,
            reduced=tuple(sorted(dims)),
            kinds=kinds,
            before=_one_each("before", values["before"], kinds),
            after=_one_each("after", values["after"], kinds),
            outputs=tuple(names),
            out=values["out"] or ("i32" if dtype == "i8" else dtype),
            count=prod(shape[dim] for dim in dims),
            parts=values["split"],
            atomic=values["atomic"],
            align=values["align"],
        )
        self._check(problem)
        return problem

    def _check(self, problem: ReduceProblem) -> None:
        if problem.integer:
            for text in (*problem.before, *problem.after):
                check_integers(parse(text, ("a",)))
            if any(KINDS[kind].divides for kind in problem.kinds):
                raise RequestError("ops=mean: a mean of integers needs a floating-point output; give out=f32")
        folded, size = problem.folded, find_dtype(problem.x.dtype).bytes
        reach = sum(
            (length - 1) * stride
            for length, stride, group in zip(folded.lengths, folded.strides[0], folded.groups, strict=True)
            if group == REDUCED
        )
        if 2 * reach * size > MAXIMUM_REACH:
            raise RequestError(
                f"the elements of one result lie up to {reach * size} bytes apart; a workgroup reaches "
                f"{MAXIMUM_REACH // 2}: reduce some of the dimensions first"
            )
        kept = folded.groups.count(KEPT)
        strides = tuple(row[:kept] for row in folded.strides)
        check_tiles(
            Folded(folded.lengths[:kept], strides, folded.groups[:kept]), _tile(problem)[:kept], (problem.x.name, "y")
        )
        workgroups = prod(tile_counts(folded.lengths[:kept], _tile(problem)[:kept])) * problem.parts
        if workgroups > MAXIMUM_WORKGROUPS:
            raise RequestError(
                f"split={problem.parts}: as many for each tile of results are {workgroups} workgroups; one launch "
                f"takes {MAXIMUM_WORKGROUPS}"
            )
        if problem.two_steps and prod(problem.kept_shape) > MAXIMUM_SIZE:
            raise RequestError(
                f"split={problem.parts}: there are {prod(problem.kept_shape)} results; kernels count to {MAXIMUM_SIZE}"
            )
        if problem.atomic:
            unable = [kind for kind in problem.kinds if kind not in ATOMIC]
            if unable:
                raise RequestError(f"atomic=1: memory does not combine {unable[0]}; it does {', '.join(ATOMIC)}")
            if problem.out != "f32" and not problem.integer:
                raise RequestError(f"atomic=1: memory does not combine {problem.out}; expected out=f32")
            if any(text != "a" for text in problem.after):
                raise RequestError("atomic=1: nothing can be applied to a result that others still change; drop after")
            if problem.align % (element := find_dtype(problem.out).bytes):
                raise RequestError(
                    f"atomic=1: memory combines elements at multiples of their {element} bytes, not of "
                    f"align={problem.align}; expected align={element} or more, or atomic=0"
                )

    def mismatches(self, problem: ReduceProblem, spec: ReduceSpec, target: Target) -> list[Reason]:
        one = problem.first_step() if problem.two_steps else problem
        different = unlike(spec, **_code(one))
        return list(different) or list(uncovered_tiles(spec, _by_array(one), one.align))

    def spec(self, problem: ReduceProblem, target: Target) -> ReduceSpec:
        """Of the kernel that reads x: the only one, or that of the parts."""
        if problem.two_steps:
            return self.spec(problem.first_step(), target)
        code = _code(problem)
        fields = array_fields(_by_array(problem), code["dtypes"], problem.align)
        return ReduceSpec(**code, **fields, **tile_fields(problem.folded, _tile(problem)))

    def validate(self, spec: ReduceSpec, target: Target) -> list[Reason]:
        chosen = [*not_all_choices(spec, kinds=KINDS), *not_a_choice(spec, stores=STORES)]
        return [*invalid_tiles(spec, target), *chosen]

    def kernels(self, target: Target) -> list[ReduceSpec]:
        found: dict[str, ReduceSpec] = {}
        for dtype in ("f16", "bf16", "f32", "fp8", "i8"):
            for ops in ("sum", "max", "amax", "sum,max,amax"):
                for shape, dims in (
                    ((256, 1024), "1"),
                    (LONGEST, "1"),
                    ((4096, 1024), "0"),
                    ((8, 32, 32, 64), "1x2"),
                ):
                    whole = self.problem(shape=shape, dims=dims, ops=ops, dtype=dtype)
                    split = [replace(whole, parts=SPLIT)] if shape == LONGEST else []
                    problems = [whole, *(one.first_step() for one in split)]
                    problems += [one.second_step(place) for one in split for place in range(len(one.kinds))]
                    for spec in (self.spec(problem, target) for problem in problems):
                        if not self.validate(spec, target):
                            found[spec.name] = spec
        return list(found.values())

    def arrays(self, problem: ReduceProblem) -> tuple[ArraySpec, ...]:
        shape = problem.kept_shape or (1,)
        if problem.partial:
            shape = (problem.parts, prod(problem.kept_shape))
        outputs = (ArraySpec(name, shape, problem.out, "out", packed(shape), problem.align) for name in problem.outputs)
        return (problem.x.array("in", problem.align), *outputs)

    def _values(self, problem: ReduceProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if find_dtype(array.dtype).is_integer:
            return generator.integers(-100, 101, array.shape)
        values: Array = generator.standard_normal(array.shape, dtype=np.float32)
        return values + 0.25

    def _each(self, problem: ReduceProblem, arrays: Mapping[str, Array], place: int) -> tuple[Array, Array]:
        """(elements after `before` and the kind's own, results before `after`) of one output."""
        kind = KINDS[problem.kinds[place]]
        x = arrays["x"].astype(np.int32 if problem.integer else np.float64)
        first = np.asarray(_evaluated(problem, problem.before[place], x))
        elements = np.broadcast_to(_evaluated(problem, kind.before, first), x.shape)
        with np.errstate(all="ignore"):
            result = kind.fold(elements, problem.reduced)
            if not problem.integer:
                result = in_f32(result)
            if kind.divides:
                result = result / np.float64(problem.count)
        return elements, np.reshape(result, problem.kept_shape or (1,))

    def reference(self, problem: ReduceProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Every output in float64, or in integers modulo 2^32."""
        found = {}
        for place, name in enumerate(problem.outputs):
            _, result = self._each(problem, arrays, place)
            value = _evaluated(problem, problem.after[place], result)
            found[name] = np.broadcast_to(value, result.shape)
        return found

    def expected(self, problem: ReduceProblem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        found = self.reference(problem, arrays)
        return {name: saturated(value, problem.out, target) for name, value in found.items()}

    def tolerances(
        self, problem: ReduceProblem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """A sum of terms t goes through s roundings, each of at most u times the sum of |t|.

        u is f32's unit roundoff; s counts the steps of a work-item, the registers that it folds, up to 16 combinations
        across lanes and waves, and the parts. Extrema only carry the errors of `before`.
        """
        if problem.integer:
            return dict.fromkeys(problem.outputs, Tolerance(0.0, 0.0, "integers are exact"))
        u = find_dtype("f32").unit_roundoff
        tile = _tile(problem)
        held = ceil_div(prod(tile), WAVES * WAVE_SIZE)
        counts = tile_counts(problem.folded.lengths, tile)
        steps = prod(counts[problem.folded.groups.count(KEPT) :]) + held + 16 + problem.parts
        x, found = arrays["x"].astype(np.float64), {}
        for place, name in enumerate(problem.outputs):
            kind = KINDS[problem.kinds[place]]
            elements, result = self._each(problem, arrays, place)
            before = parse(problem.before[place], ("a",))
            first = Bounded(evaluate_exactly(before, {"a": x}), expression_error(before, {"a": x}))
            error = np.broadcast_to(bounded_error(parse(kind.before, ("a",)), {"a": first}), x.shape)
            shape = result.shape
            with np.errstate(all="ignore"):
                if kind.combine == "+":
                    sizes = np.where(np.isfinite(elements), np.abs(elements), 0.0)
                    size = np.sum(sizes, axis=problem.reduced).reshape(shape)
                    bound = np.sum(error, axis=problem.reduced).reshape(shape) + steps * u * size
                    bound = np.where(order_decides(elements, problem.reduced).reshape(shape), np.inf, bound)
                    if kind.divides:
                        bound = bound / problem.count + 2 * u * np.abs(result)
                else:
                    bound = np.max(error, axis=problem.reduced, initial=0.0).reshape(shape)
            bound = np.where(np.isfinite(result) | np.isinf(bound), bound, 0.0)
            after = bounded_error(parse(problem.after[place], ("a",)), {"a": Bounded(result, bound)})
            what = f"{steps} f32 additions" if kind.combine == "+" else "an extremum"
            found[name] = output_tolerance(np.broadcast_to(after, shape), problem.out, what, target)
        return found

    def launch(self, problem: ReduceProblem, spec: ReduceSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        if problem.two_steps:
            return self.launch(problem.first_step(), spec, target)
        folded = problem.folded
        counts = tile_counts(folded.lengths, spec.tile)
        tiles, steps = prod(counts[: spec.kept]), prod(counts[spec.kept :])
        strides = {name: folded.strides[min(place, 1)] for place, name in enumerate(spec.arrays)}
        share = f32(1) / f32(problem.count) if problem.count else f32(math.inf)  # 0 * infinity: NaN
        scalars = launch_scalars(spec, folded.lengths, counts, strides)
        results = prod(problem.kept_shape) if problem.partial else 0  # what writes no parts counts none
        parts = [i32(steps), i32(ceil_div(steps, problem.parts)), i32(results), share]
        return Launch((tiles, problem.parts, 1), (spec.waves * WAVE_SIZE, 1, 1), (*spec.arrays, *scalars, *parts))

    def workspaces(self, problem: ReduceProblem, spec: ReduceSpec, target: Target) -> tuple[Workspace, ...]:
        if not problem.two_steps:
            return ()
        size = problem.parts * prod(problem.kept_shape) * find_dtype(problem.accumulator).bytes
        return tuple(Workspace(name, size) for name in problem.workspaces)

    def steps(self, problem: ReduceProblem, spec: ReduceSpec, target: Target) -> tuple[Step, ...]:
        """With parts, behind the kernel that reads x one for each output, which reduces the results of the parts; with
        atomics, before it what fills the outputs."""
        places = range(len(problem.kinds))
        if problem.two_steps:
            names = zip(problem.workspaces, problem.outputs, strict=True)
            arrays = [{"x": parts, "y": output} for parts, output in names]
            return (OWN_KERNEL, *(Run(self, problem.second_step(place), arrays[place]) for place in places))
        if problem.atomic:
            fills = (Run(ELEMENTWISE, _filling(problem, place), {"y": problem.outputs[place]}) for place in places)
            return (*fills, OWN_KERNEL)
        return (OWN_KERNEL,)


def _evaluated(problem: ReduceProblem, text: str, values: Array) -> Any:
    """An expression of `a` on arrays, in the numbers of the problem."""
    return evaluate_exactly(parse(text, ("a",)), {"a": values}, integer=problem.integer)


def _code(problem: ReduceProblem) -> dict[str, Any]:
    """The fields of a specification that follow from what is computed, not from the sizes."""
    return {
        "arrays": ("x", *problem.outputs),
        "dtypes": (problem.x.dtype, *([problem.out] * len(problem.kinds))),
        "kept": problem.folded.groups.count(KEPT),
        "kinds": problem.kinds,
        "before": problem.before,
        "after": problem.after,
        "stores": "partial" if problem.partial else "atomic" if problem.atomic else "write",
    }


def _by_array(problem: ReduceProblem) -> Folded:
    """The folded index space with strides for x and every output."""
    x, out = problem.folded.strides
    return replace(problem.folded, strides=(x, *(out for _ in problem.kinds)))


def _filling(problem: ReduceProblem, place: int) -> MapProblem:
    """What fills an output with the number that changes nothing."""
    kind = KINDS[problem.kinds[place]]
    if problem.integer:
        text = "-2147483647 - 1" if kind.integer_identity == SMALLEST else str(kind.integer_identity)
    else:
        text = "-inf" if kind.identity == -math.inf else str(kind.identity)
    shape = problem.kept_shape or (1,)
    output = Operand("y", problem.out, shape, packed(shape), tuple(range(len(shape))))
    return MapProblem(shape, (), output, text, problem.align)


def _one_each(key: str, texts: tuple[str, ...], kinds: tuple[str, ...]) -> tuple[str, ...]:
    if len(texts) not in (1, len(kinds)):
        raise RequestError(f"{key}: {len(texts)} expressions; expected one, or one for each of {len(kinds)} reductions")
    return texts * len(kinds) if len(texts) == 1 else texts


def _tile(problem: ReduceProblem) -> tuple[int, ...]:
    """Of a kept fastest dimension a few cache lines, of a reduced one as much as there is."""
    folded, dtype = problem.folded, problem.x.dtype
    only_x = replace(folded, strides=folded.strides[:1])
    kept = folded.groups.count(KEPT)
    unit = max((dim for dim, stride in enumerate(folded.strides[0]) if stride == 1), default=None)
    if unit is None or unit >= kept:
        return choose_tile(only_x, [dtype])
    row = min(ROW_BYTES // find_dtype(dtype).bytes, 1 << (max(folded.lengths[unit], 1) - 1).bit_length())
    reduced = choose_tile(only_x, [dtype], free=range(kept, len(folded.lengths)), elements=max(4096 // row, 1))
    return tuple(row if dim == unit else extent for dim, extent in enumerate(reduced))


OPERATOR = Reduce()
