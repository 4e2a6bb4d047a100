"""Products and sums that one instruction takes together, where that has to take an element at a time.

Packed single-precision arithmetic (CDNA3 ISA, VOP3P) does two elements at once, but takes neither magnitudes nor
halves: V_FMA_F32 has a modifier for one, V_FMA_MIX_F32 converts the other, where packed arithmetic would need another
instruction for every element. Halves that are converted anyway, for something else, are packed arithmetic's; and so are
those that so many products take that converting them once is less than what is taken together (`CONVERTED`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ckmlir.dialect.build import producer, value
from ckmlir.dialect.scalars import name_of
from ckmlir.lowering.conditions import element
from ckmlir.lowering.context import Lowering
from ckmlir.mlir import ir
from ckmlir.passes import vectors

FUSED = "math.fma"
SUMS = ("arith.addf", "arith.subf")
FREE = ("math.absf", "arith.negf", "arith.extf")
"""What an operand may have done to it at no cost."""
CONVERTED = 0.4
"""Elements that are converted, of those that are multiplied and added, up to which packed arithmetic takes halves: both
together take .9 of the instructions then. By the model on gfx942, in cycles, depthwise convolutions of 32 images, one
after the other and packed: 14 x 14 with 384 channels by 7 x 7 (.24) 18749, 14825, with 672 by 5 x 5 (.30) 19357, 15884;
7 x 7 with 768 by 7 x 7 (.38) 11875, 10859; 14 x 14 with 512 by 3 x 3 (.43) 8371, 9302.
"""


def fuse(sums: Iterable[ir.Operation]) -> bool:
    """Make one operation of products and sums that may be rounded once, and have a magnitude or a half among them;
    whether there were any."""
    able = [op for op in sums if _single(op.results[0].type) and _contracts(op)]
    packed = _packed(able)
    return sum(_fuse(op) for op in able if op not in packed) > 0


def lower(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """`math.fma` element by element."""
    if not _single(op.results[0].type):
        return [value(op.name, op.results[0].type, op.operands)]
    count = vectors.length_of(op.results[0])
    made = [
        value(FUSED, op.results[0].type.element_type, [_element(operand, number) for operand in op.operands])
        for number in range(count)
    ]
    return [vectors.from_elements(made)]


def _packed(sums: Sequence[ir.Operation]) -> set[ir.Operation]:
    """The sums of products of halves, if packed arithmetic takes fewer instructions for all of them."""
    found, halves = dict[ir.Operation, int](), dict[ir.Value, int]()
    for total in sums:
        count = vectors.length_of(total.results[0])
        for operand in total.operands:
            product = producer(operand)
            if product is None or product.name != "arith.mulf" or not _contracts(product) or count % 2:
                continue
            converted = [one for one in map(producer, product.operands) if one is not None and one.name == "ck.convert"]
            free = [one for one in product.operands if _is_free(one)]
            if free and [one.results[0] for one in converted] == free:
                found[total] = count
                halves.update((one.operands[0], vectors.length_of(one.results[0])) for one in converted)
    return set(found) if sum(halves.values()) <= CONVERTED * sum(found.values()) else set()


def _fuse(total: ir.Operation) -> bool:
    for number, other in ((0, 1), (1, 0)):
        product = producer(total.operands[number])
        if product is None or product.name != "arith.mulf" or not _contracts(product) or not _summed(product):
            continue
        left, right = product.operands
        added = total.operands[other]
        if not any(map(_is_free, (left, right, added))):
            continue
        with ir.InsertionPoint(total), total.location:
            if total.name == "arith.subf":
                if number:
                    left = value("arith.negf", left.type, [left])
                else:
                    added = value("arith.negf", added.type, [added])
            fused = value(FUSED, total.results[0].type, [left, right, added])
        total.results[0].replace_all_uses_with(fused)
        total.erase()
        product.erase()
        return True
    return False


def _element(vector: ir.Value, number: int) -> ir.Value:
    """One element, made of what it is an easy function of."""
    owner = producer(vector)
    if owner is not None and owner.name == vectors.SHUFFLE:
        return _element(*vectors.shuffled(owner, number))
    if owner is None or owner.name not in FREE:
        return element(vector, number)
    return value(owner.name, vector.type.element_type, [_element(owner.operands[0], number)])


def _is_free(vector: ir.Value) -> bool:
    """Whether a vector has magnitudes, or halves that were converted for sums alone, in whatever order."""
    owner = producer(vector)
    if owner is None:
        return False
    if owner.name == vectors.SHUFFLE:
        return all(map(_is_free, owner.operands))
    return owner.name == "math.absf" or (
        owner.name == "ck.convert"
        and isinstance(owner.operands[0].type.element_type, ir.F16Type)
        and _for_sums(owner.results[0])
    )


def _for_sums(vector: ir.Value) -> bool:
    """Whether nothing takes a vector, or parts of it, but sums and products that are used once."""
    users = [use.owner.operation for use in vector.uses]
    return all(
        _for_sums(user.results[0])
        if user.name == vectors.SHUFFLE
        else user.name in (FUSED, *SUMS) or (user.name == "arith.mulf" and _summed(user))
        for user in users
    )


def _summed(product: ir.Operation) -> bool:
    """Whether one sum takes a product, and nothing else does."""
    users = [use.owner.operation for use in product.results[0].uses]
    return len(users) == 1 and users[0].name in SUMS


def _single(type_: ir.Type) -> bool:
    return isinstance(type_, ir.VectorType) and isinstance(type_.element_type, ir.F32Type)


def _contracts(op: ir.Operation) -> bool:
    return "fastmath" in op.attributes and "contract" in name_of(op.attributes["fastmath"])
