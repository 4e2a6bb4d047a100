"""hstu_attention: O = silu(scale · Q·Kᵀ)·V · attn_scale over sequences of different lengths, with HSTU's masks.

Queries and keys of a sequence are the same places. Which of them a place attends to, causal or not, within a window,
with a context and candidates, is in `parts/hstu_keys.py`; SiLU weights are in `parts/silu.py`. With weights=softmax it
is `fmha_fwd` with these masks. CK Tile's hstu_attention, of which jagged sequences are mode=group.

Arrays are those of `fmha_fwd`: with mode=group those of all sequences follow each other along the rows. Kernel
arguments too: behind the strides come num_targets, context, window and full (i32), and the scale of weights (f32).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ckmlir.ops.attention.fmha_fwd import FmhaFwd
from ckmlir.ops.attention.fmha_fwd_spec import HEAD_TILES, FmhaFwdSpec
from ckmlir.ops.attention.hstu_reference import silu_attention, silu_tolerances
from ckmlir.ops.attention.masks import Mask
from ckmlir.ops.attention.part import Part, key_parts
from ckmlir.ops.attention.parts.bias import Bias
from ckmlir.ops.attention.parts.dropout import Dropout
from ckmlir.ops.attention.parts.hstu_keys import HstuKeys, lengths_of
from ckmlir.ops.attention.parts.silu import Silu
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.attention.schedule_choice import order
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.request import Choice, Key, RequestError
from ckmlir.targets import Target

DTYPES = ("f16", "bf16", "f32")
SAME: dict[str, Any] = {"mask": Mask.parse("none"), "v_layout": "rows", "out": None}
"""What requests of `fmha_fwd` may choose and these may not."""
OF_KEYS = {"sk": "sq", "seqlens_k": "seqlens_q", "slots_k": "slots_q"}
"""Keys have the places of queries."""
SCALES = ("q_scale", "k_scale", "v_scale")


class HstuAttention(FmhaFwd):
    """The operator `hstu_attention`, which the module's docstring describes."""

    name = "hstu_attention"
    own_keys: ClassVar[tuple[Key, ...]] = tuple(
        Choice("dtype", "f16", "of Q, K, V and O", DTYPES) if key.name == "dtype" else key
        for key in FmhaFwd.own_keys
        if key.name not in (*SAME, *OF_KEYS, *SCALES)
    )

    def __init__(self, parts: Sequence[type[Part]] = (HstuKeys, Bias, Silu, Dropout)) -> None:
        super().__init__(parts)

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        if values["mode"] == "group" and values["seqlens_q"] is None:
            raise RequestError("mode=group: it needs seqlens_q, the lengths of the sequences")
        same = {name: values[of] for name, of in OF_KEYS.items()}
        return super()._problem({**values, **SAME, **dict.fromkeys(SCALES, 1.0), **same})

    def order(self, problem: Problem, spec: FmhaFwdSpec) -> str:
        """The last places, which attend to most, come first under a causal mask."""
        return order("causal" if keys_of(problem).causal else "none")

    def kernels(self, target: Target) -> list[FmhaFwdSpec]:
        group = {"mode": "group", "seqlens_q": (1024, 500), "targets": (20, 5)}
        requests: list[dict[str, Any]] = [
            {"d": d, "dtype": dtype, **one}
            for d in (64, 128)
            for dtype in ("f16", "bf16")
            for one in ({}, group, {**group, "context": 6, "window": 100, "full": 20})
        ]
        requests += [{"d": d, "dtype": dtype, "causal": 0} for d in HEAD_TILES for dtype in DTYPES]
        varieties = {"weights": "softmax", "lse": 1}, {"bias": "one"}, {"dropout": 0.2}, {"causal": 0, "window": 100}
        requests += [{"d": 128, **one} for one in varieties]
        specs = [self.spec(self.problem(**({} if "mode" in one else {"sq": 1024}), **one), target) for one in requests]
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        return silu_attention(problem, arrays) if is_gated(problem) else super().reference(problem, arrays)

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """See `silu_tolerances`; with a softmax those of `fmha_fwd`."""
        if is_gated(problem):
            return silu_tolerances(problem, arrays, target)
        return super().tolerances(problem, arrays, reference, target)

    def flops(self, problem: Problem) -> int:
        """Those of the two products, for the places that attend to each other."""
        keys, lengths = keys_of(problem), lengths_of(problem)
        targets = keys.targets or (0,) * problem.b
        pairs = sum(keys.pairs(length, count) for length, count in zip(lengths, targets, strict=True))
        return 2 * problem.h * pairs * (problem.d + problem.dv)


def keys_of(problem: Problem) -> HstuKeys:
    """Which keys places attend to."""
    (found,) = key_parts(problem)
    assert isinstance(found, HstuKeys)
    return found


def is_gated(problem: Problem) -> bool:
    """Whether weights are SiLU's."""
    return any(isinstance(part, Silu) for part in problem.parts)


OPERATOR = HstuAttention()
