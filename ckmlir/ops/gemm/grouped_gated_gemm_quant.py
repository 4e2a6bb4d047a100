"""grouped_gated_gemm_quant: C_i = op(scaled A_i · scaled G_i, scaled A_i · scaled U_i), of different sizes at once.

Each product is one of `gated_gemm_quant`, with arrays a_i, gate_i, up_i, scale_a_i, scale_gate_i, scale_up_i, D tensors
d0_i …, c_i; everything else is as in `grouped_gemm_quant`. With `gate_at` and `up_at` those matrices of all products
are parts of one array gate, or up.

Kernel arguments: as in `grouped_gemm`.
"""

from __future__ import annotations

from typing import ClassVar

from ckmlir.ops.contraction.contraction_spec import operand_names, output_names
from ckmlir.ops.contraction.operator import ContractionOperator
from ckmlir.ops.gemm.gated_gemm import PRODUCTS
from ckmlir.ops.gemm.gated_gemm_quant import OPERATOR as GATED
from ckmlir.ops.gemm.grouped_gemm_quant import OF_EACH, OWN, GroupedGemmQuant
from ckmlir.ops.gemm.grouped_keys import LAUNCH_KEYS, place_keys


class GroupedGatedGemmQuant(GroupedGemmQuant):
    """The operator `grouped_gated_gemm_quant`, which the module's docstring describes."""

    name = "grouped_gated_gemm_quant"
    single: ClassVar[ContractionOperator] = GATED
    keys = (
        *OF_EACH,
        *place_keys((*operand_names(PRODUCTS), *output_names(PRODUCTS, partial=False))),
        *(key for key in GATED.keys if key.name not in OWN),
        *LAUNCH_KEYS,
    )


OPERATOR = GroupedGatedGemmQuant()
