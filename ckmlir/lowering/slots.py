"""LDS tensors that blocks take as arguments: a number at run time, that of the slot's first byte.

The slots of a tensor lie alike, so that an access differs between them by this number alone. A wave has it in a scalar
register: it is added to a lane's part once a step, and constants stay in the instructions' offsets.
"""

from ckmlir.dialect.build import constant_integer, integer_of, producer, text_of
from ckmlir.dialect.fragment_lds import rooms_of
from ckmlir.dialect.types import is_lds
from ckmlir.mlir import ir
from ckmlir.passes.framework import fail
from ckmlir.passes.slots import visits_of
from ckmlir.passes.walk import Blocks


def slots_as_numbers(function: ir.Operation, blocks: Blocks) -> dict[ir.Value, ir.Operation]:
    """Have blocks take first bytes, as i32, instead of LDS tensors; for each argument an allocation that it may be.

    PassFailure where slots of one argument lie differently.
    """
    taken = [one for block in function.regions[0] for one in block.arguments if is_lds(one.type)]
    if not taken:
        return {}
    found: dict[ir.Value, ir.Operation] = {}
    for visit in visits_of(function, blocks):
        for argument, slot in visit.slots.items():
            alloc = producer(slot)
            assert alloc is not None
            other = found.setdefault(argument, alloc)
            if _lies(other) != _lies(alloc):
                message = "a loop takes this tensor and another in turn; they need the same layout"
                fail(alloc, message, [("that one", other)])
    for held in blocks:
        for number, operand in enumerate(held[-1].operands):
            alloc = producer(operand)
            if alloc is not None and is_lds(operand.type):
                held[-1].operands[number] = _first_byte(alloc, held[-1])
    for argument in taken:
        argument.set_type(ir.IntegerType.get_signless(32))
    return found


def _lies(alloc: ir.Operation) -> tuple[str, int]:
    return text_of(alloc, "layout"), rooms_of(alloc)


def _first_byte(alloc: ir.Operation, before: ir.Operation) -> ir.Value:
    i32 = ir.IntegerType.get_signless(32)
    with ir.InsertionPoint(before), before.location:
        return constant_integer(integer_of(alloc, "offset"), i32)
