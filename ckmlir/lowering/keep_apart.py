"""Registers of their own for what is read from different LDS tensors.

LLVM may read a tile into the registers of another that has just been used for the last time. Where a schedule wants
them apart, that other tile is still used, by nothing: empty assembly behind the reads.
"""

from ckmlir.dialect.build import create, text_of
from ckmlir.lowering.storage import to_storage
from ckmlir.mlir import ir
from ckmlir.passes.pipeline_loops import APART


def keep_apart(reads: list[ir.Operation]) -> None:
    """Let every fragment that is marked with a tensor live until all later reads of its block from others are done.

    Being alive together, they differ; and as a loop uses the same registers in each of its steps, they differ in all.

    Args:
        reads: all of a kernel, in the program's order.
    """
    marked: dict[ir.Block, list[ir.Operation]] = {}
    for read in reads:
        if APART in read.attributes:
            marked.setdefault(read.block, []).append(read)
    for reads in marked.values():
        for last in reads:
            rest = reads[reads.index(last) + 1 :]
            if rest and text_of(rest[0], APART) == text_of(last, APART):
                continue  # not the end of a run of reads from one tensor
            before = reads[: reads.index(last)]
            others = [op.results[0] for op in before if text_of(op, APART) != text_of(last, APART)]
            if others:
                _use(last, others)


def _use(after: ir.Operation, fragments: list[ir.Value]) -> None:
    """Something behind an operation that needs all of these in vector registers and does nothing."""
    following = list(after.block)
    place = following[following.index(after) + 1]
    with ir.InsertionPoint(place), after.location:
        operands = [to_storage(fragment) for fragment in fragments]
        attributes = {
            "asm_string": ir.StringAttr.get(""),
            "constraints": ir.StringAttr.get(",".join(["v"] * len(operands))),
            "has_side_effects": ir.UnitAttr.get(),
        }
        create("llvm.inline_asm", [], operands, attributes)
