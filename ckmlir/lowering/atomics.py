"""Atomic updates of global memory: an instruction a fragment where the chip has one, and no loops of compare-and-swap.

Where the chip only has the instruction for pointers (gfx942: packed bf16), the lanes that have nothing to update branch
around it. Updates are of agent scope and relaxed: they order nothing else. The result of one that has a result is what
was there before, zero for lanes whose element does not exist.

Sources: CDNA2, CDNA3 and CDNA4 ISA, "MUBUF instructions" and "FLAT, scratch and global instructions".
"""

from collections.abc import Callable

from msgspec import Struct

from ckmlir.dialect import arith
from ckmlir.dialect.build import integer, intrinsic, text_of, value
from ckmlir.dialect.types import WindowType
from ckmlir.dialect.views import described_as
from ckmlir.lowering.branches import only_where, where
from ckmlir.lowering.buffer_address import BufferAddress, buffer_address
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.existence import existence
from ckmlir.lowering.global_access import first_copy
from ckmlir.lowering.index import Index
from ckmlir.lowering.indexed_access import indexed
from ckmlir.lowering.place import inside_of, place_of
from ckmlir.lowering.pointer_access import pointer_to
from ckmlir.lowering.predicate import Predicate
from ckmlir.lowering.storage import bitcast
from ckmlir.mlir import ir
from ckmlir.passes import vectors
from ckmlir.passes.framework import fail

Issue = Callable[[Lowering, ir.Value, BufferAddress], ir.Value]
"""Appends the instructions that update an address with a fragment's value; what was there before."""


class Update(Struct, frozen=True):
    """How an update of so many elements at once is done: in a buffer, if the chip has the feature (None: all have)."""

    elements: int
    issue: Issue
    feature: str | None = None
    pointer_feature: str | None = None
    """The feature that lets chips without `feature` do it through pointers."""


def _plain(name: str) -> Issue:
    def issue(state: Lowering, data: ir.Value, address: BufferAddress) -> ir.Value:
        operands = [data, *address.operands]
        return value(f"rocdl.raw.ptr.buffer.atomic.{name}", data.type, operands, {"aux": integer(0, 32)})

    return issue


def _intrinsic(name: str) -> Issue:
    """For what ROCDL has no operation."""

    def issue(state: Lowering, data: ir.Value, address: BufferAddress) -> ir.Value:
        operands = [data, *address.operands, state.emit.constant(0)]
        return intrinsic(f"llvm.amdgcn.raw.ptr.buffer.atomic.{name}", data.type, operands)

    return issue


def _float_maximum(state: Lowering, data: ir.Value, address: BufferAddress) -> ir.Value:
    """No gfx9 chip has a 32-bit float maximum. As integers, floats without their sign are in order, and negative ones,
    as unsigned integers, in reverse: so a signed maximum serves lanes with positive data, an unsigned minimum the rest.
    """
    whole = bitcast(data, ir.IntegerType.get_signless(32))
    positive = arith.cmpi(arith.CmpIPredicate.sge, whole, state.emit.constant(0))
    negative = arith.cmpi(arith.CmpIPredicate.slt, whole, state.emit.constant(0))
    risen = _plain("smax")(state, whole, address.only_where(positive, state))
    fallen = _plain("umin")(state, whole, address.only_where(negative, state))
    return bitcast(value("arith.select", whole.type, [positive, risen, fallen]), data.type)


UPDATES: dict[tuple[str, str], Update] = {
    ("add", "f32"): Update(1, _plain("fadd"), "buffer_atomic_add_f32"),
    ("add", "f64"): Update(1, _plain("fadd")),
    ("add", "i32"): Update(1, _intrinsic("add")),
    ("add", "i64"): Update(1, _intrinsic("add")),
    ("add", "f16"): Update(2, _plain("fadd"), "buffer_atomic_pk_add_f16"),
    ("add", "bf16"): Update(2, _plain("fadd"), "buffer_atomic_pk_add_bf16", "global_atomic_pk_add_bf16"),
    ("max", "f32"): Update(1, _float_maximum),
    ("max", "f64"): Update(1, _plain("fmax")),
    ("max", "i32"): Update(1, _plain("smax")),
    ("max", "i64"): Update(1, _intrinsic("smax")),
}
"""By kind and element type."""


def lower_atomic(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.atomic_fragment to the chip's instruction."""
    return _lower(state, op, inside_of(state, op))


def lower_atomic_scatter(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.atomic_scatter_fragment to the chip's instruction, whose lanes go where their index says."""
    return _lower(state, op, *indexed(state, op, op.operands[2]))


def _lower(state: Lowering, op: ir.Operation, inside: list[Index], anywhere: int | None = None) -> list[ir.Value]:
    """An update of the element `inside` the window; the coordinate along dimension `anywhere` may be any number."""
    fragment, window = op.operands[0], op.operands[1]
    kind, element = text_of(op, "kind"), str(described_as(window.type, WindowType).element)
    update = UPDATES.get((kind, element))
    if update is None:
        able = ", ".join(name for one, name in UPDATES if one == kind)
        fail(op, f"no chip here has an atomic {kind} of {element}; there are those of {able}")
    if vectors.length_of(fragment) != update.elements:
        fail(
            op,
            f"{element} is updated in pairs, which this window or distribution does not give: both elements must be "
            "neighbours in memory and in one thread, the first at an even place",
        )
    data = fragment if update.elements > 1 else vectors.element(fragment, 0)
    condition = first_copy(state, op)
    if update.feature is None or state.target.has(update.feature):
        address = buffer_address(state, window, inside, condition=condition, anywhere=anywhere, writes=True)
        before = update.issue(state, data, address)
        if not len(op.results):
            return []
        valid = existence(place_of(state, window, inside), anywhere=anywhere, unpadded=True)
        if valid is not None:
            before = value("arith.select", data.type, [valid.value, before, _zero(data)])
    elif update.pointer_feature is not None and state.target.has(update.pointer_feature):
        pointer, valid = pointer_to(state, window, inside, condition=condition, anywhere=anywhere)
        before = _add_through(op, pointer, data, valid)
    else:
        fail(op, f"atomic {kind} of {element}: {state.target.lacks(update.pointer_feature or update.feature)}")
    if not len(op.results):
        return []
    with ir.InsertionPoint(op):  # which may stand in another block now
        return [before if before.type == fragment.type else vectors.splat(before, 1)]


def _zero(like: ir.Value) -> ir.Value:
    return value("llvm.mlir.zero", like.type, [])


def _add_through(op: ir.Operation, pointer: ir.Value, data: ir.Value, valid: Predicate | None) -> ir.Value:
    """Add through a pointer, for the lanes whose element exists; what was there before."""
    if valid is None:
        return _add_to(pointer, data)
    if len(op.results):
        return where(op, valid.value, lambda: _add_to(pointer, data), _zero(data))
    only_where(op, valid.value, lambda: _add_to(pointer, data))
    return data


def _add_to(pointer: ir.Value, data: ir.Value) -> ir.Value:
    """The attributes promise ordinary device memory; without them LLVM makes a loop of compare-and-swap."""
    promises = ("no_fine_grained_memory", "no_remote_memory", "ignore_denormal_mode")
    return value("llvm.atomicrmw", data.type, [pointer, data], {
        "bin_op": integer(ADD_FLOAT), "ordering": integer(MONOTONIC), "syncscope": ir.StringAttr.get("agent"),
        **{f"rocdl.{name}": ir.UnitAttr.get() for name in promises},
    })  # fmt: skip


ADD_FLOAT, MONOTONIC = 11, 2
"""llvm.atomicrmw: `fadd`, and the weakest ordering that is atomic between threads."""
