"""Split tiles into the fragments of one thread: vectors of registers, one memory access or matrix instruction each.

After this pass a kernel holds builtin vectors, arith and math on them, and the fragment operations of the ck dialect.
Loops are still loops of stages, and branches are branches; every fragment inherits its tile operation's stage and
source line.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ckmlir.dialect.control import STRUCTURED
from ckmlir.mlir import ir
from ckmlir.passes import (
    split_compute,
    split_copies,
    split_indexed,
    split_memory,
    split_packed,
    split_reduce,
    split_rows,
    split_scan,
)
from ckmlir.passes.framework import Pass, fail
from ckmlir.passes.split_control import split_control
from ckmlir.passes.split_state import SplitState
from ckmlir.passes.walk import functions, waves_of
from ckmlir.passes.window_vectors import vector_lengths

Splitter = Callable[[SplitState, ir.Operation], None]

SPLITTERS: dict[str, Splitter] = {
    "ck.load": split_memory.split_load,
    "ck.store": split_memory.split_store,
    "ck.gather": split_indexed.split_gather,
    "ck.scatter": split_indexed.split_scatter,
    "ck.atomic_scatter": split_indexed.split_atomic_scatter,
    "ck.lds_gather": split_indexed.split_lds_gather,
    "ck.lds_update": split_indexed.split_lds_update,
    "ck.atomic_update": split_memory.split_atomic_update,
    "ck.inside": split_memory.split_inside,
    "ck.offsets": split_memory.split_offsets,
    "ck.to_lds": split_memory.split_to_lds,
    "ck.copy_to_lds": split_copies.split_copy_to_lds,
    "ck.from_lds": split_memory.split_from_lds,
    "ck.map": split_compute.split_map,
    "ck.cast": split_compute.split_cast,
    "ck.unpack": split_packed.split_unpack,
    "ck.dequantize": split_packed.split_dequantize,
    "ck.pack": split_packed.split_pack,
    "ck.repack": split_packed.split_repack,
    "ck.splat": split_compute.split_splat,
    "ck.coordinates": split_compute.split_coordinates,
    "ck.broadcast": split_compute.split_broadcast,
    "ck.slice": split_compute.split_slice,
    "ck.join_axes": split_compute.split_join_axes,
    "ck.permute_axes": split_compute.split_permute_axes,
    "ck.insert": split_compute.split_insert,
    "ck.redistribute": split_compute.split_redistribute,
    "ck.cut": split_rows.split_cut,
    "ck.rescale": split_rows.split_rescale,
    "ck.mma": split_compute.split_mma,
    "ck.uniform": split_compute.split_uniform,
    "ck.reduce": split_reduce.split_reduce,
    "ck.scan": split_scan.split_scan,
}


@dataclass(frozen=True)
class SplitTiles(Pass):
    """Split tiles into per-thread fragments: accesses, matrix instructions and vectors of registers."""

    name: ClassVar[str] = "ck-split-tiles"

    def apply(self, module: ir.Module) -> None:
        for function in functions(module):
            state = SplitState(function, waves_of(function), vector_lengths(function))
            split_block(state, function.regions[0].blocks[0])
            for op in reversed(state.finished):
                op.erase()


def split_block(state: SplitState, block: ir.Block) -> None:
    """Replace every tile operation of a block by fragments, in place; the old operations end in `state.finished`."""
    for op_view in list(block.operations):
        op = op_view.operation
        if op.name in STRUCTURED:
            with ir.InsertionPoint(op), op.location:
                split_control(state, op, split_block)
        elif op.name in SPLITTERS:
            with ir.InsertionPoint(op), op.location, state.stage(op):
                try:
                    SPLITTERS[op.name](state, op)
                except ValueError as problem:  # of a type or a notation, in words
                    fail(op, str(problem))
            state.finished.append(op)
