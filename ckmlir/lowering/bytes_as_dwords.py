"""Vectors of bytes as dwords, where they go from block to block, where parts of them are taken, and where one is put
behind the other.

LLVM has no registers for vectors of bytes: what is not plainly a dword may be taken apart and put together again, by
vector arithmetic on every byte. One byte or two go from block to block as a number of 32 bits: as bytes they would be
taken apart, or given a sign, where they were loaded, and each load of a loop that runs ahead be waited for at once.
"""

from collections.abc import Iterable

from ckmlir.dialect.build import producer, value
from ckmlir.dialect.control import end_of
from ckmlir.dialect.scalars import bits
from ckmlir.lowering.branches import BRANCHES, received
from ckmlir.lowering.storage import as_integers, bitcast, bytes_of, from_storage, storage_of, to_storage
from ckmlir.mlir import ir
from ckmlir.passes.vectors import SLICE, is_join, part, shuffle, splat

BYTE, DWORD = 8, 4
FEW = (1, 2)
"""Bytes that are less than a dword."""


def use_dwords(function: ir.Operation, shuffled: Iterable[ir.Operation]) -> None:
    """Change the types of block arguments, of slices and of joins, and convert before and behind.

    Args:
        shuffled: the slices and shuffles of the kernel.
    """
    _, *blocks = function.regions[0]
    for argument in [one for block in blocks for one in block.arguments if is_bytes(one.type) or _is_few(one.type)]:
        fragment, uses = argument.type, list(argument.uses)
        first = argument.owner.operations[0]
        with ir.InsertionPoint(first), first.location:
            few = _is_few(fragment)
            argument.set_type(ir.IntegerType.get_signless(32) if few else dwords_of(fragment))
            raw = value("arith.trunci", storage_of(fragment), [argument]) if few else argument
            converted = from_storage(raw, fragment)
        for use in uses:
            use.owner.operation.operands[use.operand_number] = converted
    for op in shuffled:
        if op.name == SLICE:
            if is_bytes(op.results[0].type) and is_bytes(op.operands[0].type):
                _slice(op)
        elif is_join(op) and is_bytes(op.operands[0].type):
            _join(op)
    for end in [end_of(block) for block in function.regions[0]]:
        if end.name in BRANCHES:
            _hand_on(end)


def dwords_of(fragment: ir.Type) -> ir.Type:
    """The type with the bits of a vector of bytes."""
    return ir.VectorType.get([bytes_of(fragment) // DWORD], ir.IntegerType.get_signless(32))


def to_dwords(fragment: ir.Value) -> ir.Value:
    """A vector of bytes, or of 8-bit floats, as dwords."""
    return bitcast(as_integers(fragment), dwords_of(fragment.type))


def _hand_on(branch: ir.Operation) -> None:
    for number, operand in enumerate(branch.operands):
        into = received(branch, number)
        if into is not None and into.type != operand.type:
            with ir.InsertionPoint(branch), branch.location:
                few = _is_few(operand.type)
                branch.operands[number] = _number(operand) if few else to_dwords(operand)


def _slice(op: ir.Operation) -> None:
    start = int(ir.ArrayAttr(op.attributes["offsets"])[0].value)
    if start % DWORD == 0:
        fragment = op.results[0].type
        with ir.InsertionPoint(op), op.location:
            dwords = part(to_dwords(op.operands[0]), start // DWORD, bytes_of(fragment) // DWORD)
            op.results[0].replace_all_uses_with(from_storage(dwords, fragment))
        op.erase()


def _join(op: ir.Operation) -> None:
    fragment = op.results[0].type
    with ir.InsertionPoint(op), op.location:
        if (same := _repeated(op)) is not None:  # as words its bytes would be as many numbers
            op.results[0].replace_all_uses_with(splat(same, bytes_of(fragment)))
            op.erase()
            return
        first, second = map(to_dwords, op.operands)
        dwords = shuffle(first, second, range(bytes_of(fragment) // DWORD))
        op.results[0].replace_all_uses_with(from_storage(dwords, fragment))
    op.erase()


def _repeated(join: ir.Operation) -> ir.Value | None:
    """The byte that both parts repeat, if they do."""
    owners = [producer(operand) for operand in join.operands]
    if any(owner is None or owner.name != "vector.broadcast" for owner in owners):
        return None
    first, second = (owner.operands[0] for owner in owners if owner is not None)
    return first if first == second else None


def is_bytes(type_: ir.Type) -> bool:
    """Whether a type is a vector of bytes, or of 8-bit floats, that fills whole dwords."""
    return _holds_bytes(type_) and bytes_of(type_) % DWORD == 0


def _is_few(type_: ir.Type) -> bool:
    """Whether a type is a vector of one or two of them."""
    return _holds_bytes(type_) and bytes_of(type_) in FEW


def _number(fragment: ir.Value) -> ir.Value:
    """One byte or two as a number of 32 bits."""
    return value("arith.extui", ir.IntegerType.get_signless(32), [to_storage(fragment)])


def _holds_bytes(type_: ir.Type) -> bool:
    return isinstance(type_, ir.VectorType) and bits(type_.element_type) == BYTE
