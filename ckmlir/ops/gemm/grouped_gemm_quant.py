"""grouped_gemm_quant: C_i = op(scaled A_i · scaled B_i) of quantised matrices of different sizes in one launch (CK
Tile's example 17_grouped_gemm, quantised).

Each product is one of `gemm_quant`, with arrays a_i, b_i, scale_a_i, scale_b_i, D tensors d0_i …, c_i; what has a
number for each product, how workgroups find and share them and the table are as in `grouped_gemm`. What scales are of,
and how they lie, is that of all products; sums are whole.

Kernel arguments: as in `grouped_gemm`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.grouped import ForEach, PitchForEach, RealForEach
from ckmlir.ops.contraction.operator import ContractionOperator
from ckmlir.ops.gemm.gemm_quant import COMBINATIONS
from ckmlir.ops.gemm.gemm_quant import OPERATOR as GEMM_QUANT
from ckmlir.ops.gemm.grouped_gemm import GroupedGemm
from ckmlir.ops.gemm.grouped_keys import EACH, LAUNCH_KEYS, NUMBERS, PLACES
from ckmlir.targets import Target

WHOLE = tuple(key for key in EACH if key.name != "split_k")
OF_SCALES = tuple(
    PitchForEach(f"ld_scale_{operand}", None, f"elements from one row of each scale_{operand} to the next", 1, of=of)
    for operand, of in (("a", ("m", "k")), ("b", ("n", "k")))
)


OWN = frozenset(key.name for key in (*EACH, *OF_SCALES, *NUMBERS))
"""What has a number for each product in `grouped_gemm`, or here."""
OF_EACH: tuple[ForEach | RealForEach, ...] = (*WHOLE, *OF_SCALES, *NUMBERS)


class GroupedGemmQuant(GroupedGemm):
    """The operator `grouped_gemm_quant`, which the module's docstring describes."""

    name = "grouped_gemm_quant"
    single: ClassVar[ContractionOperator] = GEMM_QUANT
    each = OF_EACH
    keys = (
        *OF_EACH,
        *PLACES,
        *(key for key in GEMM_QUANT.keys if key.name not in OWN),
        *LAUNCH_KEYS,
    )  # fmt: skip

    def kernels(self, target: Target) -> list[ContractionSpec]:
        requests: list[dict[str, Any]] = [
            {"m": (size,), "dtype": dtype, "a_scale": a_scale, "b_scale": b_scale, "persistent": stays}
            for dtype in ("fp8", "i8")
            for a_scale, b_scale in COMBINATIONS
            for size in (64, 512)
            for stays in (0, 1)
        ]
        specs = dict.fromkeys(self.spec(self.problem(**one), target) for one in requests)
        return [spec for spec in specs if not self.validate(spec, target)]


OPERATOR = GroupedGemmQuant()
"""Several products of quantised matrices."""
