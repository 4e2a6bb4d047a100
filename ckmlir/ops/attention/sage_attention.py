"""sage_attention: `fmha_fwd` with Q and K in 8 bits and scales of blocks, V in fp8, f16 or bf16 (CK Tile's 49).

    O = softmax(scale · (sq Q)·(sk K)ᵀ)·(sv V)

dtype is that of Q and K, i8 or fp8; v_dtype that of V, to which the weights are rounded. Products of i8 are exact.
`scales` says which queries and keys share one (`parts/sage_scales.py`): q_scales (b, h, blocks), k_scales (b, hk,
blocks) and, with V in fp8, v_scales of its channels (b, hk, dv), in f32; in group mode q_scales and k_scales are
(heads, blocks of all sequences), with scale_start_q and scale_start_k. With scales=tensor they are q_scale, k_scale and
v_scale.

The mean of K over the keys is what makes 8 bits of K suffice (Zhang et al., "SageAttention", 2024): without it all
scores of a query are less by the same number, which the softmax does not see. As in CK Tile K comes without it;
`sage_quantization.py` takes it away and quantises in NumPy. LSE is that of the K that is given.

Arrays and kernel arguments are those of `fmha_fwd`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.attention.fmha_fwd import FmhaFwd
from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
from ckmlir.ops.attention.parts.dense import Dense
from ckmlir.ops.attention.parts.sage_scales import SageScales
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.comparison import Array
from ckmlir.ops.request import Choice, Key
from ckmlir.targets import Target

OUTPUTS = ("bf16", "f16")


class SageAttention(FmhaFwd):
    """The operator `sage_attention`, which the module's docstring describes."""

    name = "sage_attention"
    own_keys: ClassVar[tuple[Key, ...]] = (
        *(key for key in FmhaFwd.own_keys if key.name not in ("dtype", "out")),
        Choice("dtype", "i8", "of Q and K", ("i8", "fp8")),
        Choice("v_dtype", None, "of V; by default fp8", ("fp8", "f16", "bf16")),
        Choice("out", None, "of O; by default bf16, with V in f16 that", OUTPUTS),
    )

    def __init__(self) -> None:
        super().__init__((SageScales,), (Dense,))

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        of_values = values["v_dtype"] or "fp8"
        out = values["out"] or ("f16" if of_values == "f16" else "bf16")
        own = "" if of_values == values["dtype"] else of_values
        return super()._problem({**values, "v_dtype": own, "out": out})

    def kernels(self, target: Target) -> list[FmhaFwdSpec]:
        requests: list[dict[str, Any]] = [
            {"d": d, "v_dtype": v_dtype, "scales": scales}
            for d, scales in ((64, "warp"), (128, "warp"), (128, "block"))
            for v_dtype in ("fp8", "f16")
        ]
        requests += [{"d": 128, "v_dtype": v_dtype, "mask": "top_left"} for v_dtype in ("fp8", "bf16")]
        requests += [{"d": 128, "v_dtype": v_dtype, "scales": "thread"} for v_dtype in ("fp8", "f16")]
        requests += [{"d": 128, "dtype": "fp8", "scales": scales} for scales in ("block", "warp")]
        specs = []
        for one in requests:
            if target.fp8 or "fp8" not in (one.get("v_dtype", "fp8"), one.get("dtype")):
                specs.append(self.spec(self.problem(**{"sq": 1024, **one}), target))
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        """Integers of all sizes, for which scales make scores uneven."""
        if array.dtype == "i8":
            return generator.integers(-127, 128, array.shape)
        found = super()._values(problem, array, generator)
        small = problem.dtype == "i8" and array.name in ("q_scales", "k_scales")
        return found / 60 if small else found


OPERATOR = SageAttention()
