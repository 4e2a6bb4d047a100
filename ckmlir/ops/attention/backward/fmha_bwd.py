"""fmha_bwd: the gradients dQ, dK and dV of attention, from Q, K, V, O, LSE and dO.

    P = exp(S - LSE), 0 where the mask hides a key, and at most 1
    dS = P ∘ (F ∘ dO·Vᵀ - rowsum(dO·O))
    dV = (P ∘ F)ᵀ·dO, dK = scale·dSᵀ·Q, dQ = scale·dS·K

S, O and LSE are those of `fmha_fwd` (lse=1), with a bias or ALiBi where it has them. F is one or, with dropout, zero
for the weights that the forward operator drops with the same seed and offset, and 1 / (1 - p) for others. Arrays have
the shape of memory as there, in group mode too; dq is as large as q, dk as k, dv as v, do as o. Where heads of Q share
one of K and V, dK and dV are sums over them. With dbias=1 the gradient of the bias is an output too: dS, summed over
the batches and heads that share the bias, which takes a workspace with a dS in f32 for each of them. With sink=1 dsink
(h) is one, f32: minus the sum over queries of the sink's weight, exp(sink - LSE), times rowsum(dO·O); the first and the
last kernel compute it, in a fixed order.

Elements are f16, bf16 or f32; f32 as far as registers go: one of d and dv is at most 128.

Several kernels run: `fmha_bwd_dot_do_o`; the main one, a workgroup for each block of keys and head of Q, which adds its
part of dQ to a workspace in f32 by atomics or, with deterministic=1, stores it in a slot of its own; and `sum_parts`,
which adds the slots in their order, multiplies and rounds. So with deterministic=1 the same inputs give the same bits.
Where the queries of every sequence are one block of 16 or 32 rows (`most_kept`), a workgroup keeps them all, and their
dQ, and walks over keys, which several workgroups share: dK and dV leave as they are found, and `sum_parts` adds a slot
for each of these workgroups, in order, without atomics whatever the request says. keeps= decides for one or the other.
With persistent=1, as many workgroups as the device holds stay and take equal shares of the steps, one behind the other
(`slot_table`); each has a slot in every head that it has work in, which `fmha_bwd_convert_dq` adds. Two may share a
block of keys: each leaves its dK and dV in a slot, in f32, and `fmha_bwd_join` adds these. Where shares begin depends
on lengths in memory: `fmha_bwd_costs` finds it out, a kernel, or with pack=host a function on the host, in the stream's
order. With ranges=blocks a workgroup takes whole blocks, and slots are those of CK Tile (`block_table`). Where heads
share keys, dK and dV of each head of Q are workspaces in f32, which `sum_parts` adds. Of many short sequences
(`BackwardProblem.kept`) a workgroup takes a head instead, all of its blocks of keys, and adds to dQ in their order;
which sequence has which turn, `fmha_bwd_turns` finds out, or the function on the host.

A query that attends to nothing has dQ = 0, and so has a key that no query attends to. Nothing is promised of rows of no
sequence, nor of the gradients of a head where an input has NaN or infinities (but LSE = -inf, or a bias of -inf), or
where something on the way does not fit f32, or dS the dtype (of bf16: is 2^100 or more).

Kernel arguments: q, k, v, do, exponent, delta, dq_parts, dk, dv (f32 where heads share keys); seqstart_q, seqlen_q,
seqstart_k, seqlen_k as the specification has them; the most queries and keys of a sequence, rows of a batch of Q, h, h
/ hk (i32); scale, scale·log2(e) (f32); for q, k, v, do, dk, dv the strides of the sequence (i32), the head and the
batch (i64); with a mask its coordinate y, x, with sink tokens their number, and where lengths differ whether its corner
is the bottom right one (i32); with slots the elements of one (i64), and where queries are kept the keys of a workgroup
(i32), with shares costs, the rows that slots have, and the numbers of `Shares.arguments`, with whole heads turns and
the number of sequences (i32); then those of the parts. Grid: (blocks of keys, or workgroups that share them, heads,
sequences), or of shares and of whole heads one dimension.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import ml_dtypes
import numpy as np

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.backward.fmha_bwd_costs import unknown_places
from ckmlir.ops.attention.backward.fmha_bwd_spec import (
    BACKWARD_PARTS,
    DTYPES,
    KEPT,
    SCHEDULES,
    SHARING,
    STRIDED,
    WIDE_SINGLES,
    FmhaBwdSpec,
    choose_spec,
    invalid_fields,
)  # fmt: skip
from ckmlir.ops.attention.backward.problem import GRADIENTS, BackwardProblem
from ckmlir.ops.attention.backward.reference import gradients
from ckmlir.ops.attention.backward.steps import (
    COSTS,
    PARTS,
    SHARED,
    TURNS,
    WRITTEN,
    shares_of,
    steps_around,
    workspaces_of,
)
from ckmlir.ops.attention.backward.sums import keys_of_a_workgroup, packed_strides, slot_elements
from ckmlir.ops.attention.backward.tolerance import backward_tolerances, softmax_bounds
from ckmlir.ops.attention.fmha_fwd import FmhaFwd
from ckmlir.ops.attention.fmha_fwd_spec import HEAD_TILES
from ckmlir.ops.attention.head_strides import HeadStrides, checked_head_strides
from ckmlir.ops.attention.orders import BLOCKS_FIRST, FEWER, ORDERS, fits
from ckmlir.ops.attention.parts.sink import Sink
from ckmlir.ops.attention.reference import attention, lse_shape
from ckmlir.ops.choice import chosen_keys
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.operator import NOTHING, Argument, Launch, Operator, Step
from ckmlir.ops.precision import LOG2_E
from ckmlir.ops.request import Choice, Flag, Integer, Key, RequestError
from ckmlir.ops.scalars import ceil_div, f32, i32, i64
from ckmlir.ops.spec import Reason, by, unlike
from ckmlir.ops.steps import OWN_KERNEL, Workspace
from ckmlir.records import replace
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

if TYPE_CHECKING:
    from ckmlir.lang import Kernel

LEFT_OUT = ("dtype", "out", "v_layout", "lse", "q_scale", "k_scale", "v_scale", "schedule", "edge", "randval")
"""Keys of the forward operator that are not asked for."""
INPUTS = ("q", "k", "v", "o", "do")
ROUNDED = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}


class FmhaBwd(Operator[BackwardProblem, FmhaBwdSpec]):
    """The operator `fmha_bwd`, which the module's docstring describes.

    Args:
        forward: the operator that is differentiated. Its parts are those of the main kernel, but for a sink.
    """

    name = "fmha_bwd"
    spec_type = FmhaBwdSpec
    plan_fields: ClassVar[Mapping[str, str]] = {"schedule": "schedule"}
    own_keys: ClassVar[tuple[Key, ...]] = (
        Choice("dtype", "f16", "of all arrays but LSE", DTYPES),
        Flag("deterministic", False, "dQ without atomics: the same bits in every run, for more memory"),
        Flag("persistent", False, "with deterministic: workgroups that stay share the work, for less memory"),
        Integer("workgroups", None, "with persistent: that share the work; by default what the device holds", minimum=1,
                maximum=1 << 16),
        Choice("ranges", "steps", "with persistent: what work of one ends behind: any step, or blocks of keys as CK "
               "Tile partitions it", ("steps", "blocks")),
        Choice("pack", "device", "with persistent: where it is found out which work is whose", ("device", "host")),
        *(HeadStrides(f"{name}_strides", None, f"elements from one batch, head and row of {name} to the next", 3,
                      array=name) for name in GRADIENTS),
        Choice("keeps", None, "what a workgroup keeps in registers while it walks over the other: by default queries "
               "where they are few, without persistent", ("keys", "queries")),
        Choice("schedule", None, "of the loop over what is not kept", tuple(SCHEDULES)),
    )

    def __init__(self, forward: FmhaFwd) -> None:
        self.forward = forward
        self.parts = tuple(part for part in forward.parts if part is not Sink)
        self.keys = (*(key for key in forward.keys if key.name not in LEFT_OUT), *self.own_keys)

    def _problem(self, values: Mapping[str, Any]) -> BackwardProblem:
        others = {key.name: key.default for key in self.forward.keys}
        whole = {"lse": self._sums(values), "schedule": None, "edge": None}
        differentiated = self.forward._problem({**others, **values, **whole})
        strides = []
        for name in GRADIENTS:
            given, sizes = values[f"{name}_strides"], differentiated.sizes(name[-1])
            strides.append(checked_head_strides(
                name, differentiated.layout, differentiated.array_batches, sizes, differentiated.dtype, given
            ))  # fmt: skip
        if values["persistent"] and not values["deterministic"]:
            raise RequestError("persistent=1: only sums without atomics have shares; expected deterministic=1 with it")
        if values["workgroups"] and not values["persistent"]:
            what = f"workgroups={values['workgroups']}: as many as there are blocks of keys and heads"
            raise RequestError(f"{what}; expected persistent=1 with it")
        if values["ranges"] != "steps" and not values["persistent"]:
            raise RequestError(f"ranges={values['ranges']}: only workgroups that stay have some; expected persistent=1 "
                               "with it")  # fmt: skip
        chosen = ("deterministic", "persistent", "workgroups", "ranges", "pack", "keeps", "schedule")
        own = {name: values[name] for name in chosen}
        problem = BackwardProblem(differentiated, gradient_strides=tuple(strides), **own)
        if problem.kept == KEPT and (problem.persistent or differentiated.sq > problem.most_kept):
            what = "with persistent=1" if problem.persistent else f"sq={differentiated.sq}"
            most = problem.most_kept or "none"
            raise RequestError(f"keeps=queries: {what}; a workgroup keeps {most} of them, and has them all; "
                               "expected keeps=keys")  # fmt: skip
        self.arrays(problem)  # refuses what is too large
        return problem

    def _sums(self, values: Mapping[str, Any]) -> bool:
        """Whether the weights that a request asks for have a sum, of which there is LSE."""
        return True

    def dealt(self, problem: BackwardProblem) -> str:
        """The mask whose blocks of keys take as long as those of the problem."""
        return problem.attention.mask.kind

    def spec(self, problem: BackwardProblem, target: Target) -> FmhaBwdSpec:
        dealt = self.dealt(problem)
        spec = choose_spec(schedule=problem.schedule, target=target, dealt=dealt, **_fields(problem))
        few = fits(self.grid(problem, spec, target))
        return spec if few else replace(spec, order=BLOCKS_FIRST.get(spec.order, spec.order))

    def chosen(self, problem: BackwardProblem, spec: FmhaBwdSpec) -> dict[str, object]:
        return chosen_keys(problem, spec, self.plan_fields)

    def mismatches(self, problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> list[Reason]:
        fields = _fields(problem)
        few = fields.pop("few")
        found = list(unlike(spec, schedule=problem.schedule, **fields))
        if not found and few > spec.block[0]:
            why = f"sequences have up to {few} queries"
            found.append(Reason("block", spec.block, why, "expected a block that has them all"))
        if not found and not fits(grid := self.grid(problem, spec, target)):
            why = f"HIP launches no grid of {by(grid)} workgroups"
            found.append(Reason("order", spec.order, why, f"expected {BLOCKS_FIRST.get(spec.order, FEWER)}"))
        return found

    def validate(self, spec: FmhaBwdSpec, target: Target) -> list[Reason]:
        known = [part.name for part in self.parts]
        reasons = [
            Reason("parts", word, "not a part of attention", f"expected {', '.join(known)}")
            for word in spec.parts
            if word.partition("_")[0] not in known
        ]
        return reasons or unknown_places(spec) or invalid_fields(spec, target)

    def kernels(self, target: Target) -> list[FmhaBwdSpec]:
        masks = ("none", "top_left", "window:128,0")
        shares = {"deterministic": True, "persistent": True}
        requests: list[dict[str, Any]] = [
            {"d": d, "dtype": dtype, "mask": mask, **sums}
            for dtype in DTYPES
            for d in HEAD_TILES
            for mask in masks
            for sums in ({}, {"deterministic": True}, shares)
            if not (dtype == "f32" and (d > WIDE_SINGLES[0] or sums is shares))
        ]
        group = {"mode": "group", "seqlens_q": (1024, 500), "seqlens_k": (1024, 500)}
        blocks = {**shares, "ranges": "blocks"}
        short = {"mode": "group", "seqlens_q": (256,) * 128, "seqlens_k": (256,) * 128, "h": 8, "mask": "top_left"}
        varieties: tuple[dict[str, Any], ...] = (group, {**group, **shares}, {**short, **shares}, blocks,
                                                {**group, **blocks}, {**group, **blocks, "mask": "top_left"},
                                                {"bias": "one"}, {"bias": "one", "dbias": 1}, {"alibi": "head"},
                                                {"mask": "window:128,0,4"}, {"dropout": 0.2})  # fmt: skip
        requests += [{"d": d, **one} for d in (64, 128) for one in varieties]
        return self.specs(requests, target)

    def specs(self, requests: Sequence[Mapping[str, Any]], target: Target) -> list[FmhaBwdSpec]:
        """The kernels of requests that the chip runs, each once."""
        found = [self.spec(self.problem(**one), target) for one in requests]
        return [spec for spec in dict.fromkeys(found) if not self.validate(spec, target)]

    def build(self, spec: FmhaBwdSpec, target: Target) -> Kernel:
        from ckmlir.ops.attention.backward.fmha_bwd_kernel import build

        return build(spec, target, self.parts)

    def arrays(self, problem: BackwardProblem) -> tuple[ArraySpec, ...]:
        whole = problem.attention
        inputs = [problem.array(name, "in") for name in INPUTS if whole.lse or name != "o"]
        inputs += [array_spec("lse", lse_shape(whole), "f32", "in")] * whole.lse
        inputs += (*whole.queries.arrays(), *whole.keys.arrays())
        inputs += [array for part in whole.parts for array in part.arrays(whole) if array.role == "in"]
        return (*inputs, *(problem.output(name) for name in problem.outputs))

    def _together(self, problem: BackwardProblem, generator: np.random.Generator) -> Mapping[str, Array]:
        """Inputs as the forward operator makes them, and the O and LSE that belong to them."""
        whole = problem.attention
        made = dict(self.forward._together(whole, generator))
        for array in self.arrays(problem):
            if array.role == "in" and array.name not in (*made, "o", "lse", "do"):
                values = self.forward._values(whole, array, generator)
                made[array.name] = values.astype({**ROUNDED, "i32": np.int32}[array.dtype])
        return {**made, **attention(whole, made)} if whole.lse else made

    def check_inputs(self, problem: BackwardProblem, arrays: Mapping[str, Array]) -> None:
        self.forward.check_inputs(problem.attention, arrays)

    def _values(self, problem: BackwardProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        return generator.standard_normal(array.shape, dtype=np.float32)

    def reference(self, problem: BackwardProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        return gradients(problem, arrays)

    def tolerances(
        self, problem: BackwardProblem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """See `softmax_bounds`."""
        return backward_tolerances(problem, arrays, reference, softmax_bounds(problem, arrays, target))

    def flops(self, problem: BackwardProblem) -> int:
        """Those of the five products, for the pairs of query and key that the mask lets through."""
        whole = problem.attention
        return self.forward.flops(whole) // (whole.d + whole.dv) * (3 * whole.d + 2 * whole.dv)

    def launch(self, problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        whole, parted = problem.attention, problem.parted
        sums = [PARTS[name] if parted else name for name in ("dk", "dv")]
        arguments: list[Argument] = ["q", "k", "v", "do", *["exponent", "delta"] * spec.sums, "dq_parts"]
        arguments += (*sums, *spec.lists)
        arguments += map(i32, (whole.sq, whole.sk, whole.rows("q"), whole.h, problem.ratio))
        arguments += map(f32, (whole.scale, whole.scale * LOG2_E))
        for name in STRIDED:
            batch, head, row = packed_strides(problem, name) if parted and name in PARTS else problem.strides(name)
            arguments += (i32(row), i64(head), i64(batch))
        if spec.mask != "none":
            found = whole.mask.cornerless if spec.varied else whole.mask.coordinates
            arguments += map(i32, found(whole.sq, whole.sk))
            more = [whole.mask.sink] * (spec.mask == "sinks") + [whole.mask.bottom_right] * spec.varied
            arguments += map(i32, more)
        if spec.sink in ("slots", KEPT):
            arguments.append(i64(slot_elements(problem)))
            arguments += [i32(keys_of_a_workgroup(problem, spec, target))] * (spec.sink == KEPT)
        elif spec.sink in SHARING:
            pieces = SHARED.values() if spec.sink == "shares" else ()
            arguments += (COSTS, *pieces, WRITTEN, *shares_of(problem, spec, target).arguments(whole.d))
        elif spec.sink == "heads":
            arguments += (TURNS, i32(whole.b))
        for part in problem.kernel_parts:
            arguments += (*(problem.written(array.name) for array in part.arrays(whole)), *part.numbers(whole))
        return Launch(self.grid(problem, spec, target), (spec.waves * WAVE_SIZE, 1, 1), tuple(arguments))

    def grid(self, problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> tuple[int, int, int]:
        """Workgroups of the main kernel."""
        whole = problem.attention
        taken = keys_of_a_workgroup(problem, spec, target) if spec.sink == KEPT else spec.block[1]
        grid = ORDERS[spec.order].grid(ceil_div(whole.sk, taken), whole.h, whole.b)
        if spec.sink in SHARING:
            return shares_of(problem, spec, target).workgroups if math.prod(grid) else 0, 1, 1
        if spec.sink == "heads":
            return whole.h * whole.b, 1, 1
        return grid

    def steps(self, problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> tuple[Step, ...]:
        """See `steps_around`."""
        if self.writes_nothing(problem):
            return (OWN_KERNEL,)
        return steps_around(OWN_KERNEL, problem, spec, target)

    def workspaces(self, problem: BackwardProblem, spec: FmhaBwdSpec, target: Target) -> tuple[Workspace, ...]:
        return () if self.writes_nothing(problem) else workspaces_of(problem, spec, target)


def _fields(problem: BackwardProblem) -> dict[str, Any]:
    """Fields of a specification that follow from the problem."""
    whole = problem.attention
    return {
        "dtype": whole.dtype, "out": "f32" if problem.parted else whole.dtype, "d": whole.d, "dv": whole.dv,
        "mask": whole.mask.kind, "sink": problem.kept,
        "sequences": (whole.queries.word, whole.keys.word), "parts": tuple(part.word for part in problem.kernel_parts),
        "few": whole.sq if problem.kept == KEPT else 0,
    }  # fmt: skip


OPERATOR = FmhaBwd(FmhaFwd((*BACKWARD_PARTS, Sink)))
