"""How many vector registers of a lane the values take that a block gets from those before it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ckmlir.mlir import ir
from ckmlir.targets.cdna import REGISTER_BITS

_VECTOR = re.compile(r"vector<(\d+)x[a-z]+(\d+)>")


def carried_registers(blocks: Iterable[ir.Block]) -> int:
    """The most 32-bit registers that the vectors among the arguments of one of these blocks take.

    A loop's accumulators are among them: they all live at a time, so a kernel has no fewer registers.
    """
    return max((sum(map(_registers, block.arguments)) for block in blocks), default=0)


def _registers(argument: ir.Value) -> int:
    vector = _VECTOR.fullmatch(str(argument.type))
    return -(-int(vector[1]) * int(vector[2]) // REGISTER_BITS) if vector else 0
