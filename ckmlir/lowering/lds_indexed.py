"""LDS by run-time indices: reads, writes and atomic updates at places that each lane knows for itself.

An index is compared with the tensor's length in any case, since LDS has no bounds of its own within the workgroup's.
A read outside goes to the first element and gives zero; lanes with nothing to change branch around the change.

Sources: CDNA2, CDNA3 and CDNA4 ISA, "LDS instructions" (DS_ADD_U32, DS_ADD_F32, DS_MAX_I32, DS_MAX_F32).
"""

from ckmlir.dialect.build import constant_value, create, integer, integer_of, text_of, value
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.scalars import bits, is_float, zero_of
from ckmlir.dialect.types import LdsType, describe
from ckmlir.lowering.branches import only_where, where
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.global_access import first_copy
from ckmlir.lowering.index import Index
from ckmlir.lowering.lds_access import address_at
from ckmlir.lowering.parts import Rate
from ckmlir.lowering.place import inside_of
from ckmlir.lowering.predicate import Predicate
from ckmlir.lowering.storage import as_fragment, as_integers, integers_of
from ckmlir.mlir import ir
from ckmlir.passes import vectors

OPERATIONS = {("add", False): 1, ("add", True): 11, ("max", False): 7, ("max", True): 13}
"""llvm.atomicrmw: `add`, `fadd`, `max`, `fmax`; whether it is of floats."""
MONOTONIC = 2
"""The weakest ordering that is atomic between threads."""


def lower_lds_gather(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.lds_gather_fragment to a load, and zero for lanes whose index lies outside."""
    fragment = op.results[0].type
    index, inside = _within(state, op, op.operands[0], op.operands[1])
    safe = value("arith.select", index.type, [inside.value, index, state.emit.constant(0)])
    pointer, alignment = _address(state, op, op.operands[0], safe, fragment)
    loaded = as_fragment(value("llvm.load", integers_of(fragment), [pointer], alignment), fragment)
    zero = constant_value(zero_of(fragment))
    return [value("arith.select", fragment, [inside.value, loaded, zero])]


def lower_lds_update(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.lds_update_fragment to a store or an atomic update, for lanes whose index lies inside; the others learn of
    zero before it, if it has a result.
    """
    data, kind = op.operands[0], text_of(op, "kind")
    index, inside = _within(state, op, op.operands[1], op.operands[2])
    alone = first_copy(state, op)
    if alone is not None:
        inside = inside & alone
    pointer, alignment = _address(state, op, op.operands[1], index, data.type)
    if kind == "store":
        only_where(op, inside.value, lambda: create("llvm.store", [], [as_integers(data), pointer], alignment))
        return []
    element = vectors.element(data, 0)
    if not len(op.results):
        only_where(op, inside.value, lambda: _combine(kind, element, pointer))
        return []
    zero = value("llvm.mlir.zero", element.type, [])
    before = where(op, inside.value, lambda: _combine(kind, element, pointer), zero)
    with ir.InsertionPoint(op):  # which stands in another block now
        return [vectors.splat(before, 1)]


def _within(state: Lowering, op: ir.Operation, lds: ir.Value, index: ir.Value) -> tuple[ir.Value, Predicate]:
    """A thread's index, and whether it lies in the tensor."""
    tensor = describe(state.tensor(lds)[0].results[0].type)
    assert isinstance(tensor, LdsType)
    return index, state.emit.index(index, Rate.LANE) < tensor.lengths[integer_of(op, "axis")]


def _address(
    state: Lowering, op: ir.Operation, lds: ir.Value, index: ir.Value, fragment: ir.Type
) -> tuple[ir.Value, dict[str, ir.Attribute]]:
    alloc, _ = state.tensor(lds)
    place: list[Index] = inside_of(state, op)
    place[integer_of(op, "axis")] = state.emit.index(index, Rate.LANE)
    size = bits(fragment.element_type) // 8
    return address_at(state, lds, LdsLayout.parse(text_of(alloc, "layout")).offset(place) * size, fragment)


def _combine(kind: str, element: ir.Value, pointer: ir.Value) -> ir.Value:
    return value("llvm.atomicrmw", element.type, [pointer, element], {
        "bin_op": integer(OPERATIONS[kind, is_float(element.type)]), "ordering": integer(MONOTONIC),
        "syncscope": ir.StringAttr.get("workgroup"),
    })  # fmt: skip
