"""Vector arithmetic in the lengths that instructions have, where longer vectors would hold scalar registers.

A vector of conditions is a pair of scalar registers an element, and LLVM makes all of them before the first is used; a
splat that a loop uses stays in as many scalar registers as the vector is long. A wave has about a hundred of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ckmlir.dialect.build import attributes_of, producer, value
from ckmlir.dialect.scalars import bits
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.context import Lowering
from ckmlir.mlir import arith, ir
from ckmlir.passes import vectors

COMPARISONS = ("arith.cmpi", "arith.cmpf")
AT_A_TIME = 4
"""Elements whose conditions may be there at the same time: enough that no wait states are needed between a comparison
and what it selects, 2 from gfx940 on (LLVM, GCNHazardRecognizer, checkVALUHazards)."""
REGISTER_BITS = 32
PACKED = 2
"""Elements of packed single-precision arithmetic (CDNA2 ISA, 6.6 "Packed Math")."""


def lower_select(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """arith.select by a vector of comparisons, element by element."""
    condition, *choices = op.operands
    comparison = producer(condition)
    if not isinstance(condition.type, ir.VectorType) or comparison is None or comparison.name not in COMPARISONS:
        return [value(op.name, op.results[0].type, op.operands)]
    attributes = attributes_of(comparison)
    left, right = _Sum.of(comparison.operands[0]), comparison.operands[1]
    limit = _scalar_of(right)
    if left.exact and limit is not None and attributes["predicate"].value == arith.CmpIPredicate.slt.value:
        # No element needs a sum when the limit is taken less the lane's part. The sum does not overflow, and the
        # difference saturates, which decides alike.
        right = vectors.splat(value("llvm.intr.ssub.sat", limit.type, [limit, left.lane]), vectors.length_of(right))
        left = _Sum(left.rest)
    return [choose(comparison.name, attributes, left.element, right, choices)]


def choose(
    comparison: str,
    attributes: dict[str, ir.Attribute],
    left: Callable[[int], ir.Value],
    right: ir.Value,
    choices: Sequence[ir.Value],
) -> ir.Value:
    """Elements of the first choice where a comparison holds, of what `left` makes with a vector, and of the second
    where not.

    Where the right side is a splat, and elements are registers, a few conditions are there at a time, whatever LLVM's
    scheduler prefers.
    """
    limit, condition = _scalar_of(right), ir.IntegerType.get_signless(1)
    length = vectors.length_of(right)
    ordered = limit is not None and {bits(item.type.element_type) for item in (right, *choices)} == {REGISTER_BITS}
    made: list[ir.Value] = []
    for start in range(0, length, AT_A_TIME):
        if limit is not None and ordered and start:
            limit = _after(limit, made[-AT_A_TIME:])
        numbers = range(start, min(start + AT_A_TIME, length))
        others = [limit or vectors.element(right, number) for number in numbers]
        holds = [
            value(comparison, condition, [left(number), other], attributes)
            for number, other in zip(numbers, others, strict=True)
        ]
        for number, one in zip(numbers, holds, strict=True):
            parts = [element(choice, number) for choice in choices]
            made.append(value("arith.select", parts[0].type, [one, *parts]))
    return vectors.from_elements(made)


@dataclass(frozen=True)
class _Sum:
    """A vector as what all its elements have in common, and the rest of each."""

    rest: ir.Value
    lane: ir.Value | None = None
    exact: bool = False
    """Whether the sum of the two is known not to overflow."""

    @staticmethod
    def of(vector: ir.Value) -> _Sum:
        """A splat plus a vector of constants, or such a sum and another splat added or subtracted; others as they
        are.
        """
        owner = producer(vector)
        if owner is None or owner.name not in ("arith.addi", "arith.subi"):
            return _Sum(vector)
        first, second = owner.operands
        lane, other = _scalar_of(first), producer(second)
        if lane is not None and owner.name == "arith.addi" and other is not None and other.name == "arith.constant":
            return _Sum(second, lane, "nsw" in str(owner.attributes["overflowFlags"]))
        total, change = _Sum.of(first), _scalar_of(second)
        if total.lane is None or change is None:
            return _Sum(vector)
        return _Sum(total.rest, value(owner.name, change.type, [total.lane, change]))

    def element(self, number: int) -> ir.Value:
        """One element of the vector."""
        rest = element(self.rest, number)
        return rest if self.lane is None else arith.addi(self.lane, rest)


def lower_arithmetic(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """Arithmetic with a splat in the length of packed instructions."""
    result, attributes = op.results[0].type, attributes_of(op)
    vector = isinstance(result, ir.VectorType)
    if not vector or not any(map(_scalar_of, op.operands)) or vectors.length_of(op.results[0]) % PACKED:
        return [value(op.name, result, op.operands, attributes)]
    type_ = vectors.vector_type(PACKED, result.element_type)
    parts = [
        value(op.name, type_, [_part(operand, start) for operand in op.operands], attributes)
        for start in range(0, vectors.length_of(op.results[0]), PACKED)
    ]
    return [vectors.from_elements([vectors.element(part, place) for part in parts for place in range(PACKED)])]


def _after(item: ir.Value, others: list[ir.Value]) -> ir.Value:
    """The same value, which LLVM believes to depend on others: assembly of nothing."""
    return assembly(item.type, [item, *others], "", ",".join(["=v", "0", *["v"] * len(others)]))


def _scalar_of(vector: ir.Value) -> ir.Value | None:
    """What a splat is made of; None for other vectors."""
    owner = producer(vector)
    return owner.operands[0] if owner is not None and owner.name == "vector.broadcast" else None


def element(vector: ir.Value, number: int) -> ir.Value:
    """One element, without a vector where a splat has it."""
    return _scalar_of(vector) or vectors.element(vector, number)


def _part(vector: ir.Value, start: int) -> ir.Value:
    scalar = _scalar_of(vector)
    return vectors.part(vector, start, PACKED) if scalar is None else vectors.splat(scalar, PACKED)
