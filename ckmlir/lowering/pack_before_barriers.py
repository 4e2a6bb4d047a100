"""Bytes that were loaded one by one, or in pairs, are joined in front of the barrier behind which they go to LDS.

LLVM's scheduler joins them on either side. In front of the barrier a wave does so while others are still reading;
behind it all wait for what it writes. fp8 attention whose V comes byte by byte takes .91 to 1.002 of the cycles on
gfx942 by the model, and took .90 to .95 on gfx950 before that turned bytes in LDS
(benchmarks/results/low_precision.md). Larger elements stay where they are: f16 attention, which turns V by pairs, takes
.98 with 64 channels and 1.015 with 128.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from ckmlir.lowering.instructions import fence
from ckmlir.lowering.kernel_arguments import size_of
from ckmlir.mlir import ir
from ckmlir.targets import Target

WAIT, BARRIER, WRITE = "ck.wait", "ck.barrier", "ck.lds_write"
SHUFFLE, EXTRACT, JOIN = "vector.shuffle", "vector.extract", "vector.from_elements"
JOINING = (SHUFFLE, EXTRACT, JOIN)
"""What puts elements of several vectors into one: whole vectors, or elements that are taken out first."""
PAIRS = ("gfx950",)
"""Chips on which bytes that come in pairs are joined so too: fp8 attention with 128 channels under a causal mask takes
.967 of the cycles by the model (with 512 keys and no mask .984, under a window 1.001), on gfx942 1.011."""


def pack_before_barriers(barriers: Sequence[ir.Operation], joining: Sequence[ir.Operation], target: Target) -> None:
    """Move what joins bytes between a barrier and writes to LDS in front of it, and keep it there. For kernels whose
    order is LLVM's.
    """
    if not takes_bytes(joining, target):
        return
    for block in dict.fromkeys(op.block for op in barriers):
        ops = [view.operation for view in block.operations]
        for place in (place for place, op in enumerate(ops) if op.name == BARRIER):
            joined = list(_joined(ops[place + 1 :]))
            if not any(_takes_bytes(op, target) for op in joined):
                continue
            first = ops[place - 1] if place and ops[place - 1].name == WAIT else ops[place]
            for op in joined:
                op.move_before(first)
            with ir.InsertionPoint(first), first.location:
                fence("none")


def takes_bytes(joining: Sequence[ir.Operation], target: Target) -> bool:
    """Whether operations join bytes that are loaded one by one, or in pairs."""
    return any(_takes_bytes(op, target) for op in joining)


def _joined(ops: Sequence[ir.Operation]) -> Iterator[ir.Operation]:
    """What is joined among the writes with which a block goes on."""
    return (op for op in takewhile(lambda op: op.name in (WRITE, *JOINING), ops) if op.name != WRITE)


def _takes_bytes(op: ir.Operation, target: Target) -> bool:
    """Whether an operation joins bytes that came one by one, or takes one out of a pair that came so."""
    if op.name == JOIN:
        return False
    taken, pairs = op.operands[0].type, target.name in PAIRS and op.name == EXTRACT
    return size_of(taken.element_type) == 1 and size_of(taken) <= 1 + pairs
