"""Comparisons of columns, which are constants, with a limit of the lane: as bits of one number.

A comparison writes a pair of scalar registers, of which a wave has about fifty, and what selects by it waits for two
cycles from gfx940 on. Columns on one side of a limit are the bits on one side of a shift: so a few instructions make
the conditions of 64 columns, whatever they join, in two vector registers. Each element takes two instructions that wait
for nothing: one repeats its bit, the other chooses bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ckmlir.dialect import arith
from ckmlir.dialect.build import constant_value, integer, intrinsic, producer, value
from ckmlir.dialect.scalars import bits
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.conditions import Comparison, Condition, Joined, Part, after, element, scalar_of, shared_element
from ckmlir.lowering.context import Lowering
from ckmlir.mlir import ir
from ckmlir.passes import vectors
from ckmlir.targets.cdna import REGISTER_BITS

WORD = 2 * REGISTER_BITS
LEAST = 8
"""Elements from which on bits pay where one limit makes them: they take a few instructions more. Pieces of a row share
them."""
BELOW = (arith.CmpIPredicate.slt, arith.CmpIPredicate.sle)
BEYOND = (arith.CmpIPredicate.sle, arith.CmpIPredicate.sgt)
"""Those that put the limit's own column on the side of what is below it."""


class Columns(Struct):
    """Conditions of the elements of a row.

    Attributes:
        bits: of 64 columns (i64).
        numbers: the column of each element.
        holds: whether the bits are those of columns for which a condition holds; else those for which it does not.
        joined: several conditions are.
    """

    bits: ir.Value
    numbers: Sequence[int]
    holds: bool = False
    joined: bool = False

    @property
    def fails(self) -> ir.Value:
        """Bits of columns for which the condition does not hold."""
        return arith.xori(self.bits, _number(-1, WORD)) if self.holds else self.bits

    def at(self, numbers: Sequence[int]) -> Columns | None:
        """The same for columns of these numbers; None where it is known for others only. What holds for a position of
        the lane, which is column 0 in all elements, holds for all columns or none."""
        if self.numbers == numbers:
            return self
        if any(self.numbers):
            return None
        first = arith.shli(self.bits, _number(WORD - 1, WORD))
        return Columns(arith.shrsi(first, _number(WORD - 1, WORD)), numbers, self.holds, self.joined)

    @property
    def pay(self) -> bool:
        """Whether bits take fewer registers or instructions than comparing each element."""
        return self.joined or len(self.numbers) >= LEAST

    def chosen(self, state: Lowering, choices: Sequence[ir.Value], at_a_time: int) -> ir.Value:
        """Elements (of 32 bits) of the first choice where a condition holds, of the second where not.

        Bits of so many elements are repeated at a time: LLVM would repeat all of them before the first product is
        there. Where conditions are joined it may: with an order it then takes 20 registers more.
        """
        i32, kind = _integer(REGISTER_BITS), choices[0].type.element_type
        halves = [arith.trunci(i32, self.bits)]
        if max(self.numbers) >= REGISTER_BITS:
            halves.append(arith.trunci(i32, arith.shrui(self.bits, _number(REGISTER_BITS, WORD))))
        one, instead = _unknown(state, integer(1, REGISTER_BITS), "s"), _splat(state, choices[1])
        made = list[ir.Value]()
        for place, number in enumerate(self.numbers):
            half, bit = divmod(number, REGISTER_BITS)
            if made and place % at_a_time == 0 and not self.joined:
                halves[half] = after(halves[half], made[-at_a_time:])
            is_set = _repeated(halves[half], bit, one)
            both = element(choices[0], place), instead or element(choices[1], place)
            kept, other = (value("arith.bitcast", i32, [choice]) for choice in (both if self.holds else both[::-1]))
            chosen = arith.ori(arith.andi(is_set, kept), arith.andi(arith.xori(is_set, _number(-1)), other))
            made.append(value("arith.bitcast", kind, [chosen]))
        return vectors.from_elements(made)


def columns_of(condition: Condition, length: int, start: int = 0) -> Columns | None:
    """So many elements of a condition, from one on, as bits; None where their columns are not known, or lie too far
    apart, or where they have several limits."""
    if isinstance(condition, Part):
        return columns_of(condition.whole, length, start + condition.start)
    if isinstance(condition, Joined):
        left, right = (columns_of(one, length, start) for one in (condition.left, condition.right))
        join = {"arith.andi": arith.ori, "arith.ori": arith.andi}.get(condition.name)
        if left is None or right is None or join is None:
            return None
        numbers = left.numbers if any(left.numbers) else right.numbers
        left, right = left.at(numbers), right.at(numbers)
        if left is None or right is None:
            return None
        return Columns(join(left.fails, right.fails), numbers, joined=True)
    return _compared(condition, length, start) if isinstance(condition, Comparison) else None


def _compared(condition: Comparison, length: int, start: int) -> Columns | None:
    numbers = (condition.columns or [])[start : start + length]
    if not numbers or not 0 <= min(numbers) <= max(numbers) < WORD - 1:
        return None
    limit = shared_element(condition.right, start, length)
    if limit is None or bits(limit.type) != REGISTER_BITS:
        return None
    if condition.lane is not None:
        limit = value("llvm.intr.ssub.sat", limit.type, [limit, condition.lane])
    predicate = int(condition.attributes["predicate"].value)
    if predicate in BEYOND:
        limit = value("llvm.intr.sadd.sat", limit.type, [limit, _number(1)])
    first = arith.minsi(arith.maxsi(limit, _number(0)), _number(WORD - 1))
    behind = arith.shli(_number(-1, WORD), value("arith.extui", _integer(WORD), [first]))
    return Columns(behind, numbers, holds=predicate not in BELOW)


def _repeated(word: ir.Value, bit: int, one: ir.Value) -> ir.Value:
    """A bit of a register in all bits of another: v_bfe_i32 of one bit."""
    return intrinsic("llvm.amdgcn.sbfe", word.type, [word, _number(bit), one])


def _splat(state: Lowering, choice: ir.Value) -> ir.Value | None:
    """What all elements of a choice are, if they are the same; of a constant LLVM would take each bit apart."""
    single = scalar_of(choice)
    owner = producer(single) if single is not None else None
    known = owner is not None and owner.name == "arith.constant"
    return _unknown(state, owner.attributes["value"], "v") if owner is not None and known else single


def _unknown(state: Lowering, constant: ir.Attribute, register: str) -> ir.Value:
    """A constant in a register, from the kernel's beginning on, of which LLVM does not know what it is: from a bit that
    is repeated a known number of times, it would make a condition again."""
    begin = state.function.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(begin), state.function.location:
        known = constant_value(constant)
        return assembly(constant.type, [known], "", f"={register},0")


def _integer(width: int) -> ir.Type:
    return ir.IntegerType.get_signless(width)


def _number(number: int, width: int = REGISTER_BITS) -> ir.Value:
    attribute = integer(number, width)
    return constant_value(attribute)
