"""fmha_bwd: the gradients dQ, dK and dV of attention, from Q, K, V, O, LSE and dO.

    P = exp(scale·Q·Kᵀ - LSE), 0 where the mask hides a key, and at most 1
    dS = P ∘ (dO·Vᵀ - rowsum(dO·O))
    dV = Pᵀ·dO, dK = scale·dSᵀ·Q, dQ = scale·dS·K

O and LSE are those of `fmha_fwd` (lse=1). Arrays have the shape of memory as there; dq is as large as q, dk as k, dv as
v, do as o. Where heads of Q share one of K and V, dK and dV are sums over them.

Several kernels run: `fmha_bwd_dot_do_o`; the main one, a workgroup for each block of keys and head of Q, which adds its
part of dQ to a workspace in f32 by atomics or, with deterministic=1, stores it in a slot of its own; and `sum_parts`,
which adds the slots in their order, multiplies and rounds. So with deterministic=1 the same inputs give the same bits.
Where heads share keys, dK and dV of each go to workspaces in f32, which `sum_parts` adds too.

A query that attends to nothing has dQ = 0. Nothing is promised of the gradients of a head where an input has NaN or
infinities (but LSE = -inf), or where something on the way does not fit f32, or dS the dtype.

Kernel arguments: q, k, v, do, exponent, delta, dq_parts, dk, dv (f32 where heads share keys); sq, sk, h, h / hk (i32);
scale, scale·log2(e) (f32); for q, k, v, do, dk, dv the strides of the sequence (i32), the head and the batch (i64);
with a mask its coordinate y, x (i32); with slots the elements of one (i64). Grid: (blocks of keys, heads, batches).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from ckmlir.ops.attention.backward_problem import INPUTS, OUTPUTS, BackwardProblem
from ckmlir.ops.attention.backward_reference import forward, gradients
from ckmlir.ops.attention.backward_tolerance import backward_tolerances
from ckmlir.ops.attention.fmha_bwd_dot_do_o import OPERATOR as DOT_DO_O
from ckmlir.ops.attention.fmha_bwd_dot_do_o import Problem as DotDoO
from ckmlir.ops.attention.fmha_bwd_spec import DTYPES, STRIDED, FmhaBwdSpec, choose_spec, invalid_fields
from ckmlir.ops.attention.fmha_fwd_spec import HEAD_TILES, MASK_KINDS
from ckmlir.ops.attention.head_strides import HeadStrides, checked_head_strides
from ckmlir.ops.attention.masks import Mask, MaskKey
from ckmlir.ops.choice import chosen_keys
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.sum_parts import OPERATOR as SUM_PARTS
from ckmlir.ops.contraction.sum_parts import SumProblem
from ckmlir.ops.operator import NOTHING, Argument, ArraySpec, Launch, Operator, Run, Step, array_spec, ceil_div
from ckmlir.ops.request import (
    GREATEST_F32,
    LEAST_NORMAL_F32,
    Choice,
    Flag,
    Integer,
    Real,
    RequestError,
)  # fmt: skip
from ckmlir.ops.schedules import BACKWARD as SCHEDULES
from ckmlir.ops.spec import Reason, unlike
from ckmlir.ops.steps import OWN_KERNEL, Fill, Workspace
from ckmlir.ops.tensors.arrays import Operand
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

CHANNEL_MULTIPLE = 8
PARTS = {"dk": "dk_parts", "dv": "dv_parts"}
"""Workspaces of dK and dV before they are added."""
ROUNDED = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


class FmhaBwd(Operator[BackwardProblem, FmhaBwdSpec]):
    """See the module's text."""

    name = "fmha_bwd"
    summary = "attention backward: dQ, dK and dV, with masks and grouped heads"
    spec_type = FmhaBwdSpec
    keys = (
        Integer("b", 1, "batches"),
        Integer("h", 2, "heads of Q and O", minimum=1),
        Integer("hk", None, "heads of K and V; divides h, by default h", minimum=1),
        Integer("sq", 256, "queries"),
        Integer("sk", None, "keys; by default sq"),
        Integer("d", 128, "channels of Q and K: a multiple of 8 up to 256", minimum=1, multiple=8),
        Integer("dv", None, "channels of V and O, as d, which is the default", minimum=1, multiple=8),
        Choice("dtype", "f16", "of all arrays but LSE", DTYPES),
        MaskKey("mask", Mask.parse("none"), "which keys a query attends to"),
        Choice("layout", "bhsd", "order of the dimensions in memory", ("bhsd", "bshd")),
        Flag("deterministic", False, "dQ without atomics: the same bits in every run, for more memory"),
        Real("scale", None, "of the scores, by default 1 / sqrt(d)"),
        *(
            HeadStrides(
                f"{name}_strides", None, f"elements from one batch, head and row of {name} to the next", 3, array=name
            )
            for name in (*INPUTS, *OUTPUTS)
        ),
        Choice("schedule", None, "of the loop over queries", tuple(SCHEDULES)),
    )

    def _problem(self, values: Mapping[str, Any]) -> BackwardProblem:
        strides = {name: values[f"{name}_strides"] for name in (*INPUTS, *OUTPUTS)}
        fields = {key: value for key, value in values.items() if not key.endswith("_strides")}
        for key, other in (("hk", "h"), ("sk", "sq"), ("dv", "d")):
            if fields[key] is None:
                fields[key] = fields[other]
        if fields["h"] % fields["hk"]:
            raise RequestError(f"hk={fields['hk']}: h={fields['h']} is not a multiple of it; expected a divisor of h")
        for key in ("d", "dv"):
            if fields[key] % CHANNEL_MULTIPLE or fields[key] > HEAD_TILES[-1]:
                right = f"a multiple of {CHANNEL_MULTIPLE} from {CHANNEL_MULTIPLE} to {HEAD_TILES[-1]}"
                raise RequestError(f"{key}={fields[key]}: heads have {right} channels")
        if fields["scale"] is None:
            fields["scale"] = 1 / math.sqrt(fields["d"])
        if not LEAST_NORMAL_F32 <= fields["scale"] * math.log2(math.e) <= GREATEST_F32:
            raise RequestError(f"scale={fields['scale']:g}: expected a positive number that f32 can hold")
        problem = BackwardProblem(**fields, head_strides=())
        checked = tuple(
            checked_head_strides(name, problem.layout, problem.b, problem.sizes(name), problem.dtype, strides[name])
            for name in (*INPUTS, *OUTPUTS)
        )
        problem = BackwardProblem(**fields, head_strides=checked)
        self.arrays(problem)  # refuses what is too large
        return problem

    def spec(self, problem: BackwardProblem, target: Target) -> FmhaBwdSpec:
        return choose_spec(
            d=problem.d, dv=problem.dv, dtype=problem.dtype, out=_sum_dtype(problem), mask=problem.mask.kind,
            sink="slots" if problem.deterministic else "atomic", schedule=problem.schedule, target=target,
        )  # fmt: skip

    def chosen(self, problem: BackwardProblem, spec: FmhaBwdSpec) -> dict[str, object]:
        return chosen_keys(problem, spec, {"schedule": "schedule"})

    def mismatches(self, problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> list[Reason]:
        return list(unlike(
            spec, dtype=problem.dtype, out=_sum_dtype(problem), d=problem.d, dv=problem.dv, mask=problem.mask.kind,
            schedule=problem.schedule, sink="slots" if problem.deterministic else "atomic",
        ))  # fmt: skip

    def validate(self, spec: FmhaBwdSpec, target: Target) -> list[Reason]:
        return invalid_fields(spec, target)

    def kernels(self, target: Target) -> list[FmhaBwdSpec]:
        masks = dict(zip(MASK_KINDS, ("none", "top_left", "window:128,0"), strict=True))
        specs = [
            self.spec(self.problem(d=d, dtype=dtype, mask=masks[kind], deterministic=deterministic), target)
            for dtype in DTYPES
            for d in HEAD_TILES
            for kind in MASK_KINDS
            for deterministic in (False, True)
        ]
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]

    def arrays(self, problem: BackwardProblem) -> tuple[ArraySpec, ...]:
        inputs = [problem.array(name, "in") for name in INPUTS]
        lse = array_spec("lse", (problem.b, problem.h, problem.sq), "f32", "in")
        return (*inputs, lse, *(problem.array(name, "out") for name in OUTPUTS))

    def _together(self, problem: BackwardProblem, generator: np.random.Generator) -> Mapping[str, Array]:
        """Normal Q, K and V, with queries doubled so that weights are uneven, and the O and LSE that belong to them."""
        made = {}
        for name in "qkv":
            values = generator.standard_normal(problem.array(name, "in").shape, dtype=np.float32)
            made[name] = (2 * values if name == "q" else values).astype(ROUNDED[problem.dtype])
        o, lse = forward(problem, made["q"], made["k"], made["v"])
        return {**made, "o": o, "lse": lse}

    def _values(self, problem: BackwardProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        return generator.standard_normal(array.shape, dtype=np.float32)

    def reference(self, problem: BackwardProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        return gradients(problem, arrays)

    def tolerances(
        self, problem: BackwardProblem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """See `backward_tolerances`."""
        return backward_tolerances(problem, arrays, reference, target)

    def flops(self, problem: BackwardProblem) -> int:
        """Those of the five products, for the pairs of query and key that the mask lets through."""
        pairs = problem.mask.pairs(problem.sq, problem.sk)
        return 2 * problem.b * problem.h * pairs * (3 * problem.d + 2 * problem.dv)

    def launch(self, problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        shared = problem.ratio > 1
        sums = [PARTS[name] if shared else name for name in ("dk", "dv")]
        arguments: list[Argument] = ["q", "k", "v", "do", "exponent", "delta", "dq_parts", *sums]
        arguments += map(np.int32, (problem.sq, problem.sk, problem.h, problem.ratio))
        arguments += map(np.float32, (problem.scale, problem.scale * math.log2(math.e)))
        for name in STRIDED:
            batch, head, row = _packed(problem, name) if shared and name in PARTS else problem.strides(name)
            arguments += (np.int32(row), np.int64(head), np.int64(batch))
        if spec.mask != "none":
            arguments += map(np.int32, problem.mask.coordinates(problem.sq, problem.sk))
        if spec.sink == "slots":
            arguments.append(np.int64(_slot_elements(problem)))
        grid = (ceil_div(problem.sk, spec.block[1]), problem.h, problem.b)
        return Launch(grid, (spec.waves * WAVE_SIZE, 1, 1), tuple(arguments))

    def steps(self, problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> tuple[Step, ...]:
        """What every query needs, zeros where parts of dQ are added or left out, the main kernel, and dQ."""
        if self.writes_nothing(problem):
            return (OWN_KERNEL,)
        strides = {f"{name}_strides": problem.strides(name) for name in ("o", "do")}
        rows = DotDoO(problem.b, problem.h, problem.sq, problem.dv, problem.dtype, problem.layout, **strides)
        names = {name: name for name in ("o", "do", "lse", "delta", "exponent")}
        complete = spec.sink == "slots" and spec.mask == "none" and problem.sk > 0
        clear = () if complete or not problem.sq else (Fill("dq_parts", 0),)
        totals = [Run(SUM_PARTS, _sum_of_slots(problem, spec), {"acc_parts": "dq_parts", "c": "dq"})]
        if problem.ratio > 1:
            totals += [
                Run(SUM_PARTS, _sum_of_heads(problem, name), {"acc_parts": parts, "c": name})
                for name, parts in PARTS.items()
            ]
        return (Run(DOT_DO_O, rows, names), *clear, OWN_KERNEL, *totals)

    def workspaces(self, problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> tuple[Workspace, ...]:
        if self.writes_nothing(problem):
            return ()
        by_query = problem.b * problem.h * problem.sq * 4
        found = [Workspace("delta", by_query), Workspace("exponent", by_query)]
        found.append(Workspace("dq_parts", _slots(problem, spec) * _slot_elements(problem) * 4))
        if problem.ratio > 1:
            found += [Workspace(parts, 4 * problem.b * _packed(problem, name)[0]) for name, parts in PARTS.items()]
        return tuple(found)


def _slot_elements(problem: BackwardProblem) -> int:
    """Of dQ."""
    return problem.b * problem.h * problem.sq * problem.d


def _slots(problem: BackwardProblem, spec: FmhaBwdSpec) -> int:
    """How many parts of dQ there are: one to which all is added, or one for each block of keys."""
    return max(ceil_div(problem.sk, spec.block[1]), 1) if spec.sink == "slots" else 1


def _sum_dtype(problem: BackwardProblem) -> str:
    """The element type of what the main kernel stores for dK and dV."""
    return problem.dtype if problem.ratio == 1 else "f32"


def _packed(problem: BackwardProblem, name: str) -> tuple[int, int, int]:
    """Strides along batches, heads of Q and rows of dK or dV before heads are added."""
    _, rows, channels = problem.sizes(name)
    return problem.h * rows * channels, rows * channels, channels


def _sum_of_slots(problem: BackwardProblem, spec: FmhaBwdSpec) -> SumProblem:
    """dQ: the sum of its parts, multiplied by the scale."""
    strides = [math.prod((problem.h, problem.sq, problem.d)[place:]) for place in range(4)]
    parts = _slots(problem, spec)
    return _sum(problem, "dq", parts, (_slot_elements(problem) if parts > 1 else 0, *strides), "acc * alpha")


def _sum_of_heads(problem: BackwardProblem, name: str) -> SumProblem:
    """dK or dV: the sum over heads of Q that share one of K."""
    batch, head, row = _packed(problem, name)
    return _sum(problem, name, problem.ratio, (head, batch, problem.ratio * head, row, 1), "")


def _sum(problem: BackwardProblem, name: str, parts: int, strides: tuple[int, ...], op: str) -> SumProblem:
    """An output from its parts in f32; strides are those of parts, batches, heads, rows and channels."""
    lengths = (problem.b, *problem.sizes(name))
    sums = Operand("acc_parts", "f32", (parts, *lengths), strides, (1, 2, 3, 4))
    array = problem.array(name, "out")
    axes = (0, 1, 2, 3) if problem.layout == "bhsd" else (0, 2, 1, 3)
    c = Operand("c", problem.dtype, array.shape, array.strides, axes)
    return SumProblem(parts, lengths, (sums,), (), c, op, problem.scale, 1.0)


OPERATOR = FmhaBwd()
