"""What a request may add to attention; scores are changed in this order, before the mask. The second list is for keys
in pages, which have no scales of 32 elements."""

from ckmlir.ops.attention.part import Part
from ckmlir.ops.attention.parts.alibi import Alibi
from ckmlir.ops.attention.parts.bias import Bias
from ckmlir.ops.attention.parts.block_scales import BlockScales
from ckmlir.ops.attention.parts.dropout import Dropout
from ckmlir.ops.attention.parts.mx_scales import MxScales
from ckmlir.ops.attention.parts.output_scale import OutputScale
from ckmlir.ops.attention.parts.page_scales import PageScales
from ckmlir.ops.attention.parts.scales import HeadScales
from ckmlir.ops.attention.parts.sink import Sink
from ckmlir.ops.attention.parts.soft_cap import SoftCap

PARTS: tuple[type[Part], ...] = (
    Bias, Alibi, SoftCap, Sink, Dropout, HeadScales, BlockScales, MxScales, OutputScale,
)  # fmt: skip
PAGED_PARTS: tuple[type[Part], ...] = (*(part for part in PARTS if part is not MxScales), PageScales)
