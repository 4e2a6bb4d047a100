"""Gathers and scatters: accesses whose lanes go where an index says, near through a buffer or far through pointers."""

from ckmlir.dialect.build import integer_of
from ckmlir.dialect.reach import FAR, reach_of
from ckmlir.lowering.buffer_address import buffer_address
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.global_access import first_copy, load_from, store_to
from ckmlir.lowering.index import Index
from ckmlir.lowering.parts import Rate
from ckmlir.lowering.place import inside_of
from ckmlir.lowering.pointer_access import load_through, pointer_to, store_through
from ckmlir.mlir import ir


def lower_gather(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.gather_fragment to a load whose lanes go where their index says."""
    window, index = op.operands
    inside, axis = indexed(state, op, index)
    if reach_of(op, window) == FAR:
        return [load_through(op, *pointer_to(state, window, inside, anywhere=axis))]
    return [load_from(op, buffer_address(state, window, inside, anywhere=axis))]


def lower_scatter(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.scatter_fragment to a store whose lanes go where their index says."""
    _, window, index = op.operands
    inside, axis = indexed(state, op, index)
    condition = first_copy(state, op)
    if reach_of(op, window) == FAR:
        return store_through(op, *pointer_to(state, window, inside, condition=condition, anywhere=axis))
    return store_to(op, buffer_address(state, window, inside, condition=condition, anywhere=axis))


def indexed(state: Lowering, op: ir.Operation, index: ir.Value) -> tuple[list[Index], int]:
    """Where a fragment begins, with the index given in place of its own coordinate along the axis; the axis."""
    inside, axis = inside_of(state, op), integer_of(op, "axis")
    inside[axis] = state.emit.index(index, Rate.LANE)
    return inside, axis
