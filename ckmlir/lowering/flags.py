"""Flags in memory by which workgroups wait for each other, as LLVM's atomics and fences of agent scope.

What these become on a chip is LLVM's memory model (AMDGPU user guide, "Memory Model gfx90a", "gfx942"): a release
writes L2 back where dies do not share it and waits for all stores, an acquire drops what caches hold of memory.
"""

from ckmlir.dialect import arith
from ckmlir.dialect.build import create, integer, value
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.branches import only_where
from ckmlir.lowering.context import Lowering
from ckmlir.mlir import ir
from ckmlir.passes.walk import move_rest

EXCHANGE = 0
"""llvm.atomicrmw: `xchg`."""
MONOTONIC, ACQUIRE, RELEASE = 2, 4, 5
"""Orderings of LLVM."""
PAUSE = 1
"""Of s_sleep: 64 cycles or so between two looks at a flag (CDNA3 ISA, S_SLEEP)."""


def lower_release(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.release to a fence."""
    _fence(RELEASE)
    return []


def lower_set_flag(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.set_flag to an atomic exchange by the workgroup's first thread."""
    number, pointer = op.operands
    thread = state.thread
    assert thread is not None
    # LLVM would compare before all turns, and keep the outcome in two scalar registers.
    own = assembly(thread.type, [thread], "", "=v,0", effects=True)
    is_first = arith.cmpi(arith.CmpIPredicate.eq, own, state.emit.constant(0))

    def exchange() -> None:
        attributes = {"bin_op": integer(EXCHANGE), "ordering": integer(MONOTONIC), "syncscope": _agent()}
        create("llvm.atomicrmw", [number.type], [pointer, number], attributes)

    only_where(op, is_first, exchange)
    return []


def lower_await_flag(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.await_flag to a loop of atomic loads with a pause between them, and a fence behind it."""
    number, pointer = op.operands
    block = op.block
    rest = block.create_after()
    look, pause = rest.create_before(), rest.create_before()
    move_rest(op, rest, itself=True)
    with ir.InsertionPoint(block):
        ir.Operation.create("cf.br", successors=[look])
    with ir.InsertionPoint(look):
        attributes = {"alignment": integer(4), "ordering": integer(MONOTONIC), "syncscope": _agent()}
        seen = value("rocdl.readfirstlane", number.type, [value("llvm.load", number.type, [pointer], attributes)])
        is_set = arith.cmpi(arith.CmpIPredicate.sge, seen, number)
        sizes = ir.DenseI32ArrayAttr.get([1, 0, 0])
        ir.Operation.create(
            "cf.cond_br", operands=[is_set], successors=[rest, pause], attributes={"operandSegmentSizes": sizes}
        )
    with ir.InsertionPoint(pause):
        create("rocdl.s.sleep", [], [], {"count": integer(PAUSE, 32)})
        ir.Operation.create("cf.br", successors=[look])
    with ir.InsertionPoint(op):
        _fence(ACQUIRE)
    return []


def _fence(ordering: int) -> None:
    create("llvm.fence", [], [], {"ordering": integer(ordering), "syncscope": _agent()})


def _agent() -> ir.Attribute:
    """One device: all workgroups of a launch."""
    return ir.StringAttr.get("agent")
