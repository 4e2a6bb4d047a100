"""Digits that advance by a step: add, compare, carry; how it is written, and how it is found again.

    total = digit + digit of the step + carry    less than twice the length, since both digits are below it
    carry = total >= length
    digit = min(total, total - length)           unsigned: where the total is less than the length this wraps around

The first digit is not reduced: it stays at the last place there is, or goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ckmlir.dialect import arith
from ckmlir.dialect.build import constant_integer, integer, producer, value
from ckmlir.mlir import ir

Digits = tuple[ir.Value, ...]


def prepared(step: Sequence[ir.Value], radices: Sequence[ir.Value]) -> tuple[list[ir.Value], list[ir.Value]]:
    """What does not change in a loop: the digits of its step, of all but the last -1 - digit, which is subtracted with
    a borrow as the digit is added with a carry; and the lengths, instead of the first of which the last place there is.
    """
    *others, last = step
    first, *lengths = radices
    return [*(arith.subi(constant(-1), one) for one in others), last], [arith.subi(first, constant(1)), *lengths]


def advanced(
    digits: Sequence[ir.Value], steps: Sequence[ir.Value], radices: Sequence[ir.Value], *, stays: bool, uniform: bool
) -> list[ir.Value]:
    """The digits of the next iteration, of what `prepared` made of the step's digits and the lengths; the first
    `stays`.
    """
    found: list[ir.Value] = []
    borrow: ir.Value | None = None
    for digit, step, length in reversed(list(zip(digits, steps, radices, strict=True))):
        if borrow is None:
            total = _made("addi", digit, step)
        else:
            total = _made("subi", _made("subi", digit, step), borrow)
        if len(found) == len(digits) - 1:
            found.insert(0, _made("minui", total, length) if stays else total)
            break
        less = _made("subi", total, length)
        found.insert(0, _made("minui", total, less))
        borrow = _made("shrui", less, constant(31)) if uniform else _is_less(total, length)
    return found


class Advance(NamedTuple):
    """How uniform digits came about: the digits before, the last one's step, and the lengths that `advanced` takes."""

    before: Digits
    step: ir.Value
    lengths: Digits


def advance_of(digits: Digits) -> Advance | None:
    """What `advanced` made uniform digits of, the first of which stays; None for others."""
    *others, last = digits
    total, less = _operands("minui", last)
    same, length = _operands("subi", less)
    digit, step = _operands("addi", total)
    if digit is None or step is None or length is None or total != same:
        return None
    before, lengths = [digit], [length]
    for one in reversed(others):
        borrow_of = less
        total, less = _operands("minui", one)
        more, borrow = _operands("subi", total)
        digit, _ = _operands("subi", more)
        carried, _ = _operands("shrui", borrow)
        same, length = _operands("subi", less) if len(before) < len(others) else (total, less)
        if digit is None or length is None or carried != borrow_of or same != total:
            return None
        before.insert(0, digit)
        lengths.insert(0, length)
    return Advance(tuple(before), step, tuple(lengths))


def constant(number: int) -> ir.Value:
    """An i32 that is known."""
    i32 = ir.IntegerType.get_signless(32)
    return constant_integer(number, i32)


def _operands(name: str, item: ir.Value | None) -> tuple[ir.Value | None, ir.Value | None]:
    """The operands of the operation of a name whose result a value is; else two times None."""
    owner = None if item is None else producer(item)
    if owner is None or owner.name != f"arith.{name}":
        return None, None
    left, right = owner.operands
    return left, right


def _is_less(left: ir.Value, right: ir.Value) -> ir.Value:
    """1 where a number is less than another, else 0: the borrow of their difference, which the vector unit has."""
    predicate = {"predicate": integer(arith.CmpIPredicate.ult)}
    found = value("arith.cmpi", ir.IntegerType.get_signless(1), [left, right], predicate)
    return value("arith.extui", left.type, [found])


def _made(name: str, left: ir.Value, right: ir.Value) -> ir.Value:
    return value(f"arith.{name}", left.type, [left, right])
