"""Splitting of copies from memory to LDS into copies of one cell a thread."""

from ckmlir.dialect import fragment_lds
from ckmlir.dialect.build import integer_of, string
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.types import LdsType, describe
from ckmlir.mlir import ir
from ckmlir.passes.accesses import plan_accesses
from ckmlir.passes.copy_plans import copy_plan
from ckmlir.passes.split_indexed import index_of, indexed
from ckmlir.passes.split_memory import name_of
from ckmlir.passes.split_state import SplitState


def split_copy_to_lds(state: SplitState, op: ir.Operation) -> None:
    """An allocation whose contiguous dimension is the memory's, and one copy_fragment for every cell of a thread."""
    window, *indices = op.operands
    lds = describe(op.results[0].type)
    assert isinstance(lds, LdsType)
    order, distribution, cell = copy_plan(op, state.vector_length, state.waves, state.target)
    buffer = fragment_lds.lds_alloc(lds, LdsLayout.plain(lds.lengths, order), name_of(state, op), distribution)
    state.buffers[op.results[0]] = buffer
    where = {"distribution": string(str(distribution))}
    own = None
    for one in indices:
        where = indexed(op, window, distribution)
        own = index_of(state, op, one, distribution, integer_of(op, "axis"))
    for number, registers in enumerate(plan_accesses(distribution, order[-1], cell)):
        operands = [window, buffer] if own is None else [window, buffer, own(registers[0])]
        fragment_lds.copy_fragment(operands, where, registers, begins=number == 0)
