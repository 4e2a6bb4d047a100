"""What indices are made of: run-time parts with their rates, and the arithmetic that computes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, TypeVar

from msgspec import Struct

from ckmlir.dialect import arith
from ckmlir.dialect.build import constant_integer, constant_value, producer, value
from ckmlir.lowering.dpp import from_each_seat, from_quad
from ckmlir.mlir import ir

T = TypeVar("T")


class Rate(IntEnum):
    """How often a part changes; the larger wins in a product."""

    FIXED = 0  # equal for all lanes, never changes: a stride, a length
    ORIGIN = 1  # equal for all lanes, never changes, counted in the whole tensor: may need 64 bits once multiplied
    STEP = 2  # equal for all lanes, advances with a loop
    LANE = 3  # differs between lanes


class Atom(Struct, eq=False):
    """One run-time part: an i32 value with its rate and, where known, a bound that it stays below. Never negative."""

    value: ir.Value
    rate: Rate
    bound: int | None
    number: int
    whole: tuple[Atom, int] | None = None
    """The atom that this is a part of, and what divided it without a rest."""
    multiple: int = 1
    """What divides the value because a view says so of it, whatever computes it."""
    same_in_quad: bool = False
    """Whether it differs between lanes, but not between the four of a quad."""
    moving: bool = False
    """Whether it differs between lanes and advances with a loop as well."""
    home: Atom | None = None
    """What the lane at `seat` of a quad has this for all four of."""
    seat: int = 0
    rests: bool = False
    """Whether no loop changes what the lane at `seat` has."""


Monomial = tuple[Atom, ...]


class Values:
    """Creates arithmetic at the current insertion point, once for equal requests within a block."""

    def __init__(self) -> None:
        self._types = {bits: ir.IntegerType.get_signless(bits) for bits in (1, 32, 64)}
        self._cache: dict[Any, Any] = {}
        self._atoms: dict[Any, Atom] = {}
        self._at_start: dict[Any, ir.Value] = {}

    def begin_block(self) -> None:
        """Forget what was emitted: it may not dominate what follows."""
        self._cache.clear()

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """What is made for `key`, made now if it is asked for the first time in this block."""
        found: T | None = self._cache.get(key)
        if found is None:
            found = self._cache[key] = make()
        return found

    def atom(self, item: ir.Value, rate: Rate, bound: int | None = None) -> Atom:
        """The atom of an i32 value."""
        found = self._atoms.get(item)
        if found is None:
            found = self._atoms[item] = Atom(item, rate, bound, len(self._atoms))
        return found

    def seated(self, atom: Atom, seat: int, *, rests: bool) -> Atom:
        """An atom as the lane at a seat of each quad has it; `rests`: no loop changes it."""
        key = (atom, seat, rests)
        found = self._atoms.get(key)
        if found is None:
            found = Atom(atom.value, atom.rate, atom.bound, len(self._atoms), home=atom, seat=seat, rests=rests)
            self._atoms[key] = found
        return found

    def from_seat(self, item: ir.Value, seat: int, *, rests: bool = False) -> ir.Value:
        """What the lane at a seat of its quad has, in all lanes; of what `rests`, for all seats at once."""
        if rests:
            return self.once(("seats", item), lambda: from_each_seat(item))[seat]
        return self.once(("seat", item, seat), lambda: from_quad(item, seat))

    def constant(self, number: int, bits: int = 32) -> ir.Value:
        """An integer constant."""
        type_ = self._types[bits]
        return self.once(
            ("constant", number, bits),
            lambda: constant_integer(number, type_),
        )

    def binary(self, name: str, left: ir.Value, right: ir.Value) -> ir.Value:
        """`arith.<name>` of two values of one type."""
        return self.once((name, left, right), lambda: value(f"arith.{name}", left.type, [left, right]))

    def at_start(self, argument: ir.Value, coefficient: int) -> ir.Value:
        """A kernel argument times a constant, computed once where the kernel begins.

        Computed in several loops, LLVM may join it where they meet, and hold what it joined in a vector register: an
        address that is the same for all lanes then needs a loop over lanes.
        """
        key = (argument, coefficient)
        found = self._at_start.get(key)
        if found is None:
            with ir.InsertionPoint.at_block_begin(ir.BlockArgument(argument).owner):
                number = ir.IntegerAttr.get(argument.type, coefficient)
                constant = constant_value(number)
                found = self._at_start[key] = value("arith.muli", argument.type, [argument, constant])
        return found

    def divided(self, item: ir.Value, by: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The quotient and the rest of an i32 below 2^31, by a number that never changes.

        With z = floor((2^32 - 1) / d), at least 2^32 / d - 1, the upper half of n * z is the quotient or one less: the
        error n * (1 / d - z / 2^32) is at most n / 2^32, less than one half. So one comparison mends it. z is computed
        once, where d is; a division by a run-time number is four times as long, and LLVM repeats all of it in loops.
        """
        product = self.binary("muli", self.widen(item), self._reciprocal(by))
        estimate = self.binary("shrui", product, self.constant(32, 64))
        guess = self.once(("low", estimate), lambda: value("arith.trunci", item.type, [estimate]))
        rest = self.binary("subi", item, self.binary("muli", guess, by))
        return self._mended(guess, rest, by)

    def few(self, item: ir.Value, by: ir.Value) -> ir.Value:
        """The quotient of an i32 by a number that never changes, where their product is below 2^31.

        With z = ceil(2^31 / d), less than 2^31 / d + 1, it is floor(n * z / 2^31): the error of that is less than
        n / 2^31, and so less than 1 / d, by which n / d is at least below the next whole number.
        """
        twice = self.binary("shli", item, self.constant(1))
        product = self.binary("muli", self.widen(twice), self._share(by))
        high = self.binary("shrui", product, self.constant(32, 64))
        return self.once(("low", high), lambda: value("arith.trunci", item.type, [high]))

    def _mended(self, guess: ir.Value, rest: ir.Value, by: ir.Value) -> tuple[ir.Value, ir.Value]:
        """A quotient that may be one too small, and its rest, without that."""
        is_less = self.once(("less", rest, by), lambda: arith.cmpi(arith.CmpIPredicate.uge, rest, by))
        more = self.once(("more", is_less), lambda: value("arith.extui", rest.type, [is_less]))
        # What is less than d wraps around when d is subtracted.
        return self.binary("addi", guess, more), self.binary("minui", rest, self.binary("subi", rest, by))

    def _reciprocal(self, by: ir.Value) -> ir.Value:
        """floor((2^32 - 1) / d) as i64; of 0, by which nothing that counts is divided, some number."""
        return self._behind("reciprocal", by, -1, lambda quotient, one: quotient)

    def _share(self, by: ir.Value) -> ir.Value:
        """ceil(2^31 / d) as i64; of 0 likewise."""
        return self._behind("share", by, (1 << 31) - 1, lambda quotient, one: arith.addi(quotient, one))

    def _behind(
        self, name: str, by: ir.Value, dividend: int, finish: Callable[[ir.Value, ir.Value], ir.Value]
    ) -> ir.Value:
        """What `finish` makes of floor(dividend / d), and of 1, as i64, behind what computes d."""
        key = (name, by)
        if key not in self._at_start:
            owner = producer(by)
            block = ir.BlockArgument(by).owner if owner is None else None
            with ir.InsertionPoint.at_block_begin(block) if owner is None else ir.InsertionPoint.after(owner):
                whole, one = (constant_integer(number, by.type) for number in (dividend, 1))
                quotient = value("arith.divui", by.type, [whole, value("arith.maxui", by.type, [by, one])])
                self._at_start[key] = value("arith.extui", self._types[64], [finish(quotient, one)])
        return self._at_start[key]

    def widen(self, item: ir.Value) -> ir.Value:
        """i32 to i64, unsigned: parts are never negative."""
        return self.once(("extui", item), lambda: value("arith.extui", self._types[64], [item]))


def rate_of(monomial: Iterable[Atom]) -> Rate:
    """The rate of a product."""
    rate = Rate.FIXED
    for atom in monomial:
        if atom.rate > rate:
            rate = atom.rate
    return rate


def is_moving(monomial: Iterable[Atom]) -> bool:
    """Whether a product differs between lanes and advances with a loop."""
    return any(atom.moving for atom in monomial)
