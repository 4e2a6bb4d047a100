"""Between which numbers an integer lies, as the arithmetic that makes it says: minima, maxima, masks, choices.

Differences do not overflow, as `divisors` has it of scalars.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ckmlir.dialect.build import producer
from ckmlir.dialect.divisors import constant_of
from ckmlir.dialect.scalars import bits
from ckmlir.mlir import ir


class Range(NamedTuple):
    """All numbers from `least` up to `most`, both of them included, as signed ones."""

    least: int
    most: int


ANYWHERE = Range(-(1 << 63), (1 << 63) - 1)


def range_of(item: ir.Value) -> Range:
    """Where an integer lies; anywhere in its type, if nothing is known."""
    number = constant_of(item)
    if number is not None:
        return Range(number, number)
    half = 1 << (bits(item.type) - 1)
    owner = producer(item)
    if owner is not None and owner.name == "arith.subi" and _is_least(owner.operands[1], owner.operands[0]):
        return Range(0, half - 1)
    if owner is None or owner.name not in RULES:
        return Range(-half, half - 1)
    operands = list(owner.operands)[-2:]  # a choice's condition comes first
    found = RULES[owner.name](*map(range_of, operands))
    return found if -half <= found.least and found.most < half else Range(-half, half - 1)


def _is_least(item: ir.Value, largest: ir.Value) -> bool:
    """Whether the other is the larger one of this and something."""
    owner = producer(largest)
    return owner is not None and owner.name == "arith.maxsi" and item in list(owner.operands)


def _unsigned(left: Range, right: Range) -> Range:
    """The smaller of two, or the bits that both have: no more than one that is not negative."""
    most = [one.most for one in (left, right) if one.least >= 0]
    return Range(0, min(most)) if most else ANYWHERE


RULES: dict[str, Callable[[Range, Range], Range]] = {
    "arith.addi": lambda left, right: Range(left.least + right.least, left.most + right.most),
    "arith.minsi": lambda left, right: Range(min(left.least, right.least), min(left.most, right.most)),
    "arith.maxsi": lambda left, right: Range(max(left.least, right.least), max(left.most, right.most)),
    "arith.select": lambda left, right: Range(min(left.least, right.least), max(left.most, right.most)),
    "arith.minui": _unsigned,
    "arith.andi": _unsigned,
}
"""The range of a result from those of its operands."""
