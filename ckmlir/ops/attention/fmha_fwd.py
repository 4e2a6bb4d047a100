"""fmha_fwd: O = softmax(scale · Q·Kᵀ)·V for every batch and head, with masks and grouped heads.

Arrays have the shape of memory: with layout bhsd, q is (b, h, sq, d), k is (b, hk, sk, d), v is (b, hk, sk, dv) and o
is (b, h, sq, dv); with bshd the sequence stands before the heads. lse is (b, h, sq) in f32: the natural logarithm of
the sum of exponentials. Head i of Q uses head i / (h / hk) of K and V.

A query with nothing to attend to, or with scores of minus infinity alone, gives O = 0 and LSE = -inf; one with a score
of NaN or plus infinity among those it attends to gives NaN for both. Nothing is promised of a query with scores that
f32 does not hold, and of O where V has NaN or infinities, but that it does not reach another head.

With dtype fp8 the elements of Q, K and V stand for themselves times q_scale, k_scale and v_scale (per tensor, as CK
Tile's), and P is rounded to fp8 after multiplication by a power of two that cancels.

Kernel arguments: q, k, v, o, and lse where the specification has it; sq, sk, h, h / hk (i32); scale·log2(e) with the
scales of Q and K in it (f32); with fp8 v_scale (f32); for
q, k, v, o the strides of the sequence (i32), the head and the batch (i64); with a mask its coordinate y, x (i32).
Grid: (blocks of queries, heads, batches).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ckmlir.ops.attention.fmha_fwd_spec import (
    DTYPES,
    HEAD_TILES,
    MASK_KINDS,
    OUTPUTS,
    FmhaFwdSpec,
    channel_multiple,
    choose_spec,
    invalid_fields,
)  # fmt: skip
from ckmlir.ops.attention.head_strides import HeadStrides, checked_head_strides
from ckmlir.ops.attention.masks import Mask, MaskKey
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.attention.tolerance import fmha_tolerances
from ckmlir.ops.choice import chosen_keys
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.operator import (
    NOTHING,
    Argument,
    ArraySpec,
    Launch,
    Operator,
    array_spec,
    ceil_div,
)
from ckmlir.ops.request import GREATEST_F32, LEAST_NORMAL_F32, Choice, Flag, Integer, Real, RequestError
from ckmlir.ops.schedules import ATTENTION as SCHEDULES
from ckmlir.ops.spec import Reason, unlike
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

LAYOUTS = ("bhsd", "bshd")
REFERENCE_ROWS = 512
"""Queries that the reference takes at a time, so that its scores stay small."""


class FmhaFwd(Operator[Problem, FmhaFwdSpec]):
    """See the module's text."""

    name = "fmha_fwd"
    summary = "attention forward, O = softmax(scale · Q·Kᵀ)·V, with masks, grouped heads and LSE"
    spec_type = FmhaFwdSpec
    keys = (
        Integer("b", 1, "batches"),
        Integer("h", 2, "heads of Q and O", minimum=1),
        Integer("hk", None, "heads of K and V; divides h, by default h", minimum=1),
        Integer("sq", 256, "queries"),
        Integer("sk", None, "keys; by default sq"),
        Integer("d", 128, "channels of Q and K: a multiple of 8 (fp8: 16) up to 256", minimum=1, multiple=8),
        Integer("dv", None, "channels of V and O, as d, which is the default", minimum=1, multiple=8),
        Choice("dtype", "f16", "of Q, K and V", DTYPES),
        Choice("out", None, "of O: that of Q, K and V; with fp8 bf16 (default), f16 or f32", ("f16", "bf16", "f32")),
        MaskKey("mask", Mask.parse("none"), "which keys a query attends to"),
        Choice("layout", "bhsd", "order of the dimensions in memory", LAYOUTS),
        Flag("lse", False, "also write the logarithm of the sum of exponentials"),
        Real("scale", None, "of the scores, by default 1 / sqrt(d)"),
        Real("q_scale", 1.0, "fp8: what the elements of Q are multiplied with"),
        Real("k_scale", 1.0, "fp8: what the elements of K are multiplied with"),
        Real("v_scale", 1.0, "fp8: what the elements of V are multiplied with"),
        *(
            HeadStrides(
                f"{name}_strides", None, f"elements from one batch, head and row of {name} to the next", 3, array=name
            )
            for name in "qkvo"
        ),
        Choice(
            "schedule",
            None,
            "of the loop over keys; by default qr, or qr_async_ping_pong where that pays",
            tuple(SCHEDULES),
        ),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        fields = dict(values)
        for key, other in (("hk", "h"), ("sk", "sq"), ("dv", "d")):
            if fields[key] is None:
                fields[key] = fields[other]
        if fields["h"] % fields["hk"]:
            raise RequestError(f"hk={fields['hk']}: h={fields['h']} is not a multiple of it; expected a divisor of h")
        dtype = fields["dtype"]
        multiple = channel_multiple(dtype)
        for key in ("d", "dv"):
            if fields[key] % multiple or fields[key] > HEAD_TILES[-1]:
                right = f"a multiple of {multiple} from {multiple} to {HEAD_TILES[-1]}"
                raise RequestError(f"{key}={fields[key]}: heads of {dtype} have {right} channels")
        fields["out"] = fields["out"] or OUTPUTS[dtype][0]
        if fields["out"] not in OUTPUTS[dtype]:
            raise RequestError(f"out={fields['out']}: with dtype={dtype} O is {' or '.join(OUTPUTS[dtype])}")
        for key in ("q_scale", "k_scale", "v_scale"):
            if dtype != "fp8" and fields[key] != 1:
                raise RequestError(f"{key}={fields[key]}: only fp8 is scaled, not {dtype}; leave it out")
            if fields[key] <= 0:
                raise RequestError(f"{key}={fields[key]}: expected a positive number")
        if fields["scale"] is None:
            fields["scale"] = 1 / math.sqrt(fields["d"])
        if fields["scale"] <= 0:
            raise RequestError(
                f"scale={fields['scale']}: the softmax takes row maxima before scaling; expected a positive number"
            )
        given = {name: values[f"{name}_strides"] for name in "qkvo"}
        problem = Problem(**{**fields, **{f"{name}_strides": (0, 0, 0) for name in "qkvo"}})
        strides = {
            f"{name}_strides": checked_head_strides(
                name, problem.layout, problem.b, problem.sizes(name), problem.out if name == "o" else dtype, given[name]
            )
            for name in "qkvo"
        }
        problem = Problem(**{**fields, **strides})
        if not LEAST_NORMAL_F32 <= problem.score_scale * math.log2(math.e) <= GREATEST_F32:
            product = f"{problem.score_scale:g}"
            raise RequestError(f"scale times q_scale times k_scale, {product}, is no number that f32 can hold")
        self.arrays(problem)  # refuses what is too large
        return problem

    def spec(self, problem: Problem, target: Target) -> FmhaFwdSpec:
        return choose_spec(
            d=problem.d, dv=problem.dv, heads=problem.b * problem.h, sq=problem.sq, sk=problem.sk,
            dtype=problem.dtype, out=problem.out, mask=problem.mask.kind, lse=problem.lse, schedule=problem.schedule,
            target=target,
        )  # fmt: skip

    def chosen(self, problem: Problem, spec: FmhaFwdSpec) -> dict[str, object]:
        return chosen_keys(problem, spec, {"schedule": "schedule"})

    def mismatches(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> list[Reason]:
        reasons = list(unlike(
            spec, dtype=problem.dtype, out=problem.out, d=problem.d, dv=problem.dv, mask=problem.mask.kind,
            lse=problem.lse, schedule=problem.schedule,
        ))  # fmt: skip
        for name, length, block in (("sq", problem.sq, spec.block[0]), ("sk", problem.sk, spec.block[1])):
            if length % block and not getattr(spec, f"pad_{name}"):
                why = f"{name}={length} is no multiple of the block's {block}"
                reasons.append(Reason(f"pad_{name}", False, why, "expected 1"))
        return reasons

    def validate(self, spec: FmhaFwdSpec, target: Target) -> list[Reason]:
        return invalid_fields(spec, target)

    def kernels(self, target: Target) -> list[FmhaFwdSpec]:
        masks = dict(zip(MASK_KINDS, ("none", "top_left", "window:128,0"), strict=True))
        specs = [
            self.spec(self.problem(sq=1024, d=d, dtype=dtype, mask=masks[kind], lse=lse), target)
            for dtype in DTYPES
            for d in HEAD_TILES
            for kind in MASK_KINDS
            for lse in (False, True)
        ]
        many = {"b": 8, "h": 16, "sq": 1024, "d": 128}
        specs += [self.spec(self.problem(**many, dtype=dtype), target) for dtype in DTYPES]
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        arrays = []
        for name in "qkvo":
            dtype, role = (problem.out, "out") if name == "o" else (problem.dtype, "in")
            batch, head, row = problem.strides(name)
            middle = (head, row) if problem.layout == "bhsd" else (row, head)
            arrays.append(ArraySpec(name, problem.shape(name), dtype, role, (batch, *middle, 1)))
        if problem.lse:
            arrays.append(array_spec("lse", (problem.b, problem.h, problem.sq), "f32", "out"))
        return tuple(arrays)

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        """Normal; queries are doubled so that scores are uneven enough for a wrong key to show in O."""
        values: Array = generator.standard_normal(array.shape, dtype=np.float32)
        return 2 * values if array.name == "q" else values

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """O, and LSE where asked for, in float64."""
        o = np.zeros(problem.shape("o"))
        lse = np.zeros((problem.b, problem.h, problem.sq))
        outputs = problem.by_head(o)
        if not o.size:
            return {"o": o, "lse": lse} if problem.lse else {"o": o}
        for batch, head, key, value in _heads(problem, arrays):
            query = problem.by_head(arrays["q"])[batch, head].astype(np.float64)
            for start in range(0, problem.sq, REFERENCE_ROWS):
                rows = range(start, min(start + REFERENCE_ROWS, problem.sq))
                with np.errstate(invalid="ignore"):
                    scores = problem.score_scale * (query[rows.start : rows.stop] @ key.T)
                scores[~problem.mask.kept(rows, problem.sq, problem.sk)] = -np.inf
                weights, total = _softmax(scores)
                with np.errstate(invalid="ignore"):
                    outputs[batch, head, rows.start : rows.stop] = problem.v_scale * (weights @ value)
                lse[batch, head, rows.start : rows.stop] = total
        return {"o": o, "lse": lse} if problem.lse else {"o": o}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """See `fmha_tolerances`."""
        values = np.abs(arrays["v"].astype(np.float32))
        magnitude = self.reference(problem, {**arrays, "v": values})["o"]
        found = fmha_tolerances(problem, arrays, magnitude, target)
        return {name: found[name] for name in reference}

    def flops(self, problem: Problem) -> int:
        """Those of the two products, for the pairs of query and key that the mask lets through."""
        pairs = problem.mask.pairs(problem.sq, problem.sk)
        return 2 * problem.b * problem.h * pairs * (problem.d + problem.dv)

    def launch(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> Launch:
        if 0 in (problem.b, problem.sq):
            return NOTHING
        arguments: list[Argument] = [*"qkvo", *["lse"] * problem.lse]
        arguments += map(np.int32, (problem.sq, problem.sk, problem.h, problem.h // problem.hk))
        arguments.append(np.float32(problem.score_scale * math.log2(math.e)))
        if spec.scaled:
            arguments.append(np.float32(problem.v_scale))
        for name in "qkvo":
            batch, head, row = problem.strides(name)
            arguments += (np.int32(row), np.int64(head), np.int64(batch))
        if spec.mask != "none":
            arguments += map(np.int32, problem.mask.coordinates(problem.sq, problem.sk))
        grid = (ceil_div(problem.sq, spec.block[0]), problem.h, problem.b)
        return Launch(grid, (spec.waves * WAVE_SIZE, 1, 1), tuple(arguments))


def _heads(problem: Problem, arrays: Mapping[str, Array]) -> Iterator[tuple[int, int, Array, Array]]:
    """Batch, head of Q, and its keys and values in float64."""
    for batch in range(problem.b):
        for head in range(problem.h):
            shared = head // (problem.h // problem.hk)
            key, value = (problem.by_head(arrays[name])[batch, shared].astype(np.float64) for name in ("k", "v"))
            yield batch, head, key, value


def _softmax(scores: Array) -> tuple[Array, Array]:
    """Weights and the logarithm of the sum of exponentials of every row; rows of -inf give zeros and -inf."""
    largest = scores.max(axis=1, initial=-np.inf)
    shift = np.where(largest == -np.inf, 0.0, largest)
    weights = np.exp(scores - shift[:, None])
    total = weights.sum(axis=1)
    with np.errstate(divide="ignore"):
        return weights / np.where(total == 0, 1.0, total)[:, None], shift + np.log(total)


OPERATOR = FmhaFwd()
