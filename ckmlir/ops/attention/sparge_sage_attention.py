"""sparge_sage_attention: `sparge_attention` with Q and K quantised by blocks as `sage_attention` takes them
(`sparge_sage` of CK Tile's example 50).

Which blocks of keys matter is predicted from Q and K as they are given, in dtype. Then both become `quantised`, i8 or
fp8, with a scale for each of the blocks that `scales` names (`quantize_heads`). V comes in v_dtype; in fp8 v_scales
(b, hk, dv) has the scales of its channels. O is bf16 or f16.

With smooth=1 keys come without their mean over the sequence in both: in the prediction, where that changes which blocks
are alike, and before they are quantised, where it leaves more bits for what differs. All scores of a query are then
less by the same number, which O does not show but LSE would: lse=1 is refused beside it.

Rounding may decide what an element of Q or K becomes, by a step of its type at most; tolerances have that, and as for
`sparge_attention` nothing is promised where it decides which blocks a block of queries takes.

Arrays are those of `sparge_attention`, and v_scales. Steps: K's mean with smooth=1, those of `predict_blocks`,
`quantize_heads` of Q and of K, and those of `sparse_attention` with a map.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import asdict, replace

from ckmlir.ops.attention import quantize_heads
from ckmlir.ops.attention.fmha_fwd import FmhaFwd
from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
from ckmlir.ops.attention.part import scale_parts
from ckmlir.ops.attention.parts.alibi import Alibi
from ckmlir.ops.attention.parts.bias import Bias
from ckmlir.ops.attention.parts.predicted_blocks import PredictedBlocks
from ckmlir.ops.attention.parts.quantised_scales import STEPS, QuantisedScales
from ckmlir.ops.attention.parts.sink import Sink
from ckmlir.ops.attention.parts.skip import Skip
from ckmlir.ops.attention.parts.soft_cap import SoftCap
from ckmlir.ops.attention.prediction.block_means import DTYPES
from ckmlir.ops.attention.prediction.reference import mean_error, mean_of_keys
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.attention.quantize_heads import OPERATOR as QUANTIZE_HEADS
from ckmlir.ops.attention.quantize_heads import OUT, quantised_tolerances
from ckmlir.ops.attention.sage_attention import OPERATOR as SAGE
from ckmlir.ops.attention.sparge_attention import MAP, SpargeAttention, predicted_of
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Launch, Run, Step
from ckmlir.ops.request import Choice, Key, RequestError
from ckmlir.ops.steps import Fill, Workspace
from ckmlir.targets import Target

QUANTISED = {"q": "quantised_q", "k": "quantised_k"}
"""Workspaces for what Q and K become."""
MEAN = "k_mean"
OF_TENSORS = ("q_scale", "k_scale", "v_scale")
"""Keys of `fmha_fwd` that blocks of rows take the place of."""


class Quantising(Problem, frozen=True):
    """Attention for which Q and K are quantised."""

    given: str = ""
    """Type of Q and K in memory, which become `dtype` before the kernel runs; none: they are that."""

    def held_as(self, name: str) -> str:
        """See `Problem`."""
        return self.given if self.given and name in "qk" else Problem.held_as(self, name)


class SpargeSageAttention(SpargeAttention):
    """The operator `sparge_sage_attention`, which the module's docstring describes."""

    name = "sparge_sage_attention"
    problem_type = Quantising
    renamed: ClassVar[Mapping[str, str]] = {"dtype": "quantised"}
    own_keys: ClassVar[tuple[Key, ...]] = (
        *(key for key in SpargeAttention.own_keys if key.name not in ("dtype", "out", *OF_TENSORS)),
        Choice("dtype", "f16", "of Q and K", DTYPES),
        Choice("quantised", "i8", "what Q and K become", OUT),
        *(key for key in SAGE.own_keys if key.name in ("v_dtype", "out")),
    )

    def __init__(self) -> None:
        FmhaFwd.__init__(self, (PredictedBlocks, QuantisedScales, Bias, Alibi, SoftCap, Sink, Skip))

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        given, becomes = values["dtype"], values["quantised"]
        of_values = values["v_dtype"] or "fp8"
        own = {
            "given": given, "dtype": becomes, "v_dtype": "" if of_values == becomes else of_values,
            "out": values["out"] or ("f16" if of_values == "f16" else "bf16"),
        }  # fmt: skip
        if values["smooth"] and values["lse"]:
            raise RequestError("lse=1: with smooth=1 all scores of a query are less by a number; leave one out")
        return super()._problem({**values, **dict.fromkeys(OF_TENSORS, 1.0), **own})

    def kernels(self, target: Target) -> list[FmhaFwdSpec]:
        requests: list[dict[str, Any]] = [
            {"d": d, "v_dtype": v_dtype, "scales": scales, "mask": mask}
            for d in (64, 128) for v_dtype in ("fp8", "bf16") for scales in ("block", "warp")
            for mask in ("none", "top_left")
        ]  # fmt: skip
        requests += [{"scales": "thread"}, {"quantised": "fp8", "scales": "warp"}]
        able = [one for one in requests if target.fp8 or one.get("v_dtype") == "bf16"]
        specs = [self.spec(self.problem(sq=1024, **one), target) for one in able]
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]

    def expected(self, problem: Problem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        return super().expected(*self._made(problem, arrays, target), target)

    def _made(
        self, problem: Problem, arrays: Mapping[str, Array], target: Target
    ) -> tuple[Problem, Mapping[str, Array]]:
        """See `SpargeAttention`: Q and K are quantised, too, with their scales and steps beside them."""
        if MAP in arrays:
            return problem, arrays
        prediction, more = predicted_of(problem).prediction, dict[str, Array]()
        for name, one in quantisations(problem).items():
            given, moved = {"x": arrays[name]}, np.zeros(())
            if one.shift:
                given["shift"] = mean_of_keys(prediction, arrays)
                moved = np.asarray(mean_error(prediction, arrays, given["shift"], target))
            found = QUANTIZE_HEADS.expected(one, given, target)
            more |= {name: found["q"], f"{name}_scales": found["scales"]}
            more[STEPS[name]] = np.asarray(quantised_tolerances(one, given, target, moved)["q"].atol)
        whole, mapped = super()._made(quantised(problem), arrays, target)
        return whole, {**mapped, **more}

    def launch(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> Launch:
        found = super().launch(quantised(problem), spec, target)
        names = [QUANTISED.get(one, one) if isinstance(one, str) else one for one in found.arguments]
        return replace(found, arguments=tuple(names))

    def steps(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> tuple[Step, ...]:
        found = super().steps(problem, spec, target)
        if self.writes_nothing(problem):
            return found
        before: list[Step] = []
        if isinstance(found[0], Run):  # the prediction
            before, found = [replace(found[0], arrays={"shift": MEAN})], found[1:]
        for name, one in quantisations(problem).items():
            names = {"x": name, "shift": MEAN, "q": QUANTISED[name], "scales": f"{name}_scales"}
            before.append(Run(QUANTIZE_HEADS, one, names) if one.s else Fill(f"{name}_scales", 0))
        return (*before, *found)

    def workspaces(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> tuple[Workspace, ...]:
        found = list(super().workspaces(problem, spec, target))
        for name, one in quantisations(problem).items() if found else ():
            heads = one.b * one.h
            found.append(Workspace(QUANTISED[name], max(heads * one.s * one.d, 1)))
            found.append(Workspace(f"{name}_scales", 4 * heads * max(one.blocks, 1)))
            found += [Workspace(MEAN, 4 * heads * one.d)] * one.shift
        return tuple(found)


def quantisations(problem: Problem) -> dict[str, quantize_heads.Problem]:
    """What makes 8 bits of Q and of K."""
    prediction, (part,) = predicted_of(problem).prediction, scale_parts(problem)
    assert isinstance(part, QuantisedScales)
    sides = {"q": (prediction.queries, part.queries), "k": (prediction.keys, part.rows)}
    return {
        name: quantize_heads.Problem(**{**asdict(side), "block": rows}, out=problem.dtype)
        for name, (side, rows) in sides.items()
    }  # fmt: skip


def quantised(problem: Problem) -> Problem:
    """The problem behind that: Q and K in 8 bits, without gaps."""
    strides = {f"{name}_strides": one.rows for name, one in quantisations(problem).items()}
    return replace(problem, given="", **strides)


OPERATOR = SpargeSageAttention()
