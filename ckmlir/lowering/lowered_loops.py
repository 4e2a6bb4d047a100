"""Kernels in LLVM's dialect: their steady loops, and what is computed around them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ckmlir.dialect.build import producer, text_of
from ckmlir.mlir import ir
from ckmlir.passes.flow import Flow, Loop

ARITHMETIC = frozenset(
    f"llvm.{name}" for name in (
        "add", "sub", "mul", "sdiv", "udiv", "sext", "zext", "trunc", "shl", "ashr", "lshr", "and", "or", "icmp",
        "select", "intr.smin", "intr.smax", "intr.umin", "intr.umax"
    )
)  # fmt: skip
"""What is computed of scalars, by an instruction or a few; of divisions those by constants."""
MATRIX, COPY = "mfma", "load.async.lds"
"""Parts of the names of matrix instructions, and of copies to LDS."""


def branching_kernels(module: ir.Module) -> Iterator[ir.Operation]:
    """The functions of a module, and of its gpu.modules, that have several blocks."""
    for top in module.body.operations:
        inside = top.operation.regions[0].blocks[0].operations if top.operation.name == "gpu.module" else (top,)
        for op in inside:
            if op.operation.name == "llvm.func" and len(op.operation.regions[0].blocks) > 1:
                yield op.operation


def steady_loops(flow: Flow, turns: Loop) -> list[Loop]:
    """The innermost loops with matrix instructions in a loop, which may be one itself."""
    return [one for one in flow.innermost if one.places <= turns.places and has_any(flow, one.places, MATRIX)]


def has_any(flow: Flow, places: Collection[int], kind: str) -> bool:
    """Whether blocks have instructions of a kind, by a part of their names, written as operations or as assembly."""
    ops = (op.operation for place in places for op in flow.blocks[place].operations)
    return any(kind in (text_of(op, "asm_string") if op.name == "llvm.inline_asm" else op.name) for op in ops)


def is_constant(operand: ir.Value) -> bool:
    """Whether a value is a constant."""
    op = producer(operand)
    return op is not None and op.name == "llvm.mlir.constant"
