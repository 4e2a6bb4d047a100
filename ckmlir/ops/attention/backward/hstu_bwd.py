"""hstu_bwd: the gradients dQ, dK and dV of `hstu_attention`, from Q, K, V and dO.

With S = scale · Q·Kᵀ, changed by a bias, g = 1 / (1 + exp(-S)), c the scale of weights and F as in `fmha_bwd`, for the
pairs of places that attend to each other:

    P = c · S ∘ g
    dS = c · (g + S ∘ g ∘ (1 - g)) ∘ F ∘ dO·Vᵀ
    dV = (P ∘ F)ᵀ·dO, dK = scale·dSᵀ·Q, dQ = scale·dS·K

SiLU weights have no sum, so that neither O nor LSE is an input, and no kernel runs in front of the main one. With
weights=softmax it is `fmha_bwd` with the masks of `hstu_attention`, O and LSE inputs. Requests, arrays, kernel
arguments and what is promised are otherwise those of both; workgroups do not stay (persistent=1 of `fmha_bwd`).
CK Tile's design of its HSTU backward pass has the same formulas, and two kernels, which make two of the five products
twice; here dQ leaves the kernel that has dK and dV.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckmlir.ops.attention.backward.fmha_bwd import FmhaBwd
from ckmlir.ops.attention.backward.fmha_bwd_spec import FmhaBwdSpec
from ckmlir.ops.attention.backward.hstu_bwd_reference import GatedPairs, gated_bounds
from ckmlir.ops.attention.backward.problem import BackwardProblem
from ckmlir.ops.attention.backward.reference import gradients
from ckmlir.ops.attention.backward.tolerance import backward_tolerances
from ckmlir.ops.attention.fmha_fwd_spec import HEAD_TILES
from ckmlir.ops.attention.hstu_attention import DTYPES, HstuAttention, is_gated, keys_of
from ckmlir.ops.attention.parts.bias import Bias
from ckmlir.ops.attention.parts.bias_gradient import BiasGradient
from ckmlir.ops.attention.parts.dropout import Dropout
from ckmlir.ops.attention.parts.hstu_keys import HstuKeys
from ckmlir.ops.attention.parts.silu import Silu
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.targets import Target

ALONE = {"persistent": False, "workgroups": None, "ranges": "steps", "pack": "device"}
"""What requests of `fmha_bwd` may choose and these may not."""


class HstuBwd(FmhaBwd):
    """The operator `hstu_bwd`, which the module's docstring describes."""

    name = "hstu_bwd"
    own_keys = tuple(key for key in FmhaBwd.own_keys if key.name not in ALONE)

    def _problem(self, values: Mapping[str, Any]) -> BackwardProblem:
        return super()._problem({**values, **ALONE})

    def _sums(self, values: Mapping[str, Any]) -> bool:
        return bool(values["weights"] == "softmax")

    def dealt(self, problem: BackwardProblem) -> str:
        """See `FmhaBwd`: the first places are those to which most attend under a causal mask."""
        return "causal" if keys_of(problem.attention).causal else "none"

    def kernels(self, target: Target) -> list[FmhaBwdSpec]:
        group = {"mode": "group", "seqlens_q": (1024, 500), "targets": (20, 5)}
        requests: list[dict[str, Any]] = [
            {"d": d, "dtype": dtype, **one, **sums}
            for d in (64, 128)
            for dtype in ("f16", "bf16")
            for one in ({}, group, {**group, "context": 6, "window": 100, "full": 20})
            for sums in ({}, {"deterministic": True})
        ]
        requests += [{"d": d, "dtype": dtype, "causal": 0} for d in HEAD_TILES for dtype in DTYPES]
        varieties = {"weights": "softmax"}, {"bias": "one"}, {"dropout": 0.2}, {"causal": 0, "window": 100}
        requests += [{"d": 128, **one} for one in varieties]
        requests = [{**({} if "mode" in one else {"sq": 1024}), **one} for one in requests]
        return self.specs(requests, target)

    def reference(self, problem: BackwardProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        if is_gated(problem.attention):
            return gradients(problem, arrays, GatedPairs)
        return super().reference(problem, arrays)

    def tolerances(
        self, problem: BackwardProblem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """See `backward_tolerances` and `gated_bounds`."""
        if is_gated(problem.attention):
            return backward_tolerances(problem, arrays, reference, gated_bounds(problem, arrays, target))
        return super().tolerances(problem, arrays, reference, target)


OPERATOR = HstuBwd(HstuAttention((HstuKeys, Bias, Silu, Dropout, BiasGradient)))
