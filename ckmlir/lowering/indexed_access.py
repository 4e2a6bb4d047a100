"""Gathers and scatters: accesses whose lanes go where an index says, near through a buffer or far through pointers."""

from ckmlir.dialect.build import integer_of, producer, text_of
from ckmlir.dialect.reach import CLOSE, FAR, reach_of
from ckmlir.lowering.buffer_address import buffer_address
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.global_access import first_copy, load_from, store_to
from ckmlir.lowering.index import Index
from ckmlir.lowering.parts import Rate
from ckmlir.lowering.place import inside_of
from ckmlir.lowering.pointer_access import load_through, pointer_to, store_through
from ckmlir.mlir import ir
from ckmlir.passes import vectors


def lower_gather(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.gather_fragment to a load whose lanes go where their index says."""
    window, index = op.operands
    inside, axis = indexed(state, op, index)
    reach = reach_of(op, window)
    if reach == FAR:
        return [load_through(op, *pointer_to(state, window, inside, anywhere=axis))]
    return [load_from(op, buffer_address(state, window, inside, anywhere=_compared(axis, reach)))]


def lower_scatter(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.scatter_fragment to a store whose lanes go where their index says."""
    _, window, index = op.operands
    inside, axis = indexed(state, op, index)
    condition = first_copy(state, op)
    reach = reach_of(op, window)
    if reach == FAR:
        return store_through(op, *pointer_to(state, window, inside, condition=condition, anywhere=axis))
    anywhere = _compared(axis, reach)
    return store_to(op, buffer_address(state, window, inside, condition=condition, anywhere=anywhere))


def _compared(axis: int, reach: str) -> int | None:
    """The axis along which an index may be any number; none where the buffer's size refuses all that are outside."""
    return None if reach == CLOSE else axis


def indexed(state: Lowering, op: ir.Operation, index: ir.Value) -> tuple[list[Index], int]:
    """Where a fragment begins, with the index given in place of its own coordinate along the axis; the axis."""
    inside, axis = inside_of(state, op), integer_of(op, "axis")
    close = "reach" in op.attributes and text_of(op, "reach") == CLOSE
    inside[axis] = _linear(state, index) if close else state.emit.index(index, Rate.LANE)
    return inside, axis


def _linear(state: Lowering, item: ir.Value) -> Index:
    """An index that no lane compares as the sum that it is computed by: what of that no loop changes is multiplied by
    the distance of rows before it, where LLVM would multiply the sum."""
    taken = producer(item)
    if taken is None or taken.name != "vector.extract" or vectors.length_of(taken.operands[0]) != 1:
        return state.emit.index(item, Rate.LANE)
    whole = producer(taken.operands[0])
    if whole is not None and whole.name == "arith.addi":
        left, right = (_linear(state, vectors.element(one, 0)) for one in whole.operands)
        return left + right
    if whole is not None and whole.name == "arith.muli":
        number, factor = whole.operands
        uniform = producer(factor)
        if uniform is not None and uniform.name == "vector.broadcast":
            own = state.emit.index(vectors.element(number, 0), Rate.LANE)
            return own * state.emit.index(uniform.operands[0], Rate.FIXED)
    return state.emit.index(item, Rate.LANE)
