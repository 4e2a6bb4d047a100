"""Vector offsets that begin with empty assembly, so that LLVM takes them for others than those that it has met."""

from __future__ import annotations

from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.index import Index
from ckmlir.lowering.parts import Rate
from ckmlir.mlir import ir


def at_hand(state: Lowering, vector: Index, *, effects: bool) -> ir.Value:
    """A vector offset that is computed where it is used, as an instruction's immediate offset as far as that goes.

    Sums that a loop does not change LLVM computes before it, and has them in as many registers as there are accesses.
    So what the sums begin with passes through assembly, which is empty: it may be another value in each iteration. The
    loop hands it on (`handed_on`).
    """
    emit, constant = state.emit, vector.constant
    own = vector - constant
    if own.is_constant:
        return vector.emit()

    def passed() -> ir.Value:
        start = assembly(own.emit().type, [own.emit()], "", "=v,0", effects=effects)
        state.passing.append(start.owner.operation)
        return start

    start = emit.once(("at hand", own.key, effects), passed)
    return emit.binary("addi", start, emit.constant(constant)) if constant else start


def anew(state: Lowering, pointer: ir.Value, vector: Index) -> ir.Value:
    """A vector offset that LLVM takes for another than other pointers' have: lanes' part comes by empty assembly."""
    emit, own = state.emit, vector.part(Rate.LANE)
    if not own.terms:
        return vector.emit()
    rest = vector - own
    key = ("anew", pointer, own.key)
    start = emit.once(key, lambda: assembly(own.emit().type, [own.emit()], "", "=v,0", effects=True))
    return emit.binary("addi", start, rest.emit()) if rest.terms else start
