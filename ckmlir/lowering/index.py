"""Address arithmetic: indices as polynomials over run-time parts, split by how often each part changes.

Coordinate transforms are evaluated on these objects with the same code that evaluates them on integers. Sums and
products stay symbolic, so an offset falls apart into what is constant, what differs between lanes, what a loop
advances and where the tile begins: the places that a memory instruction has for them. What is not linear (a
remainder, a swizzle's exclusive or) becomes one new part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from math import gcd
from typing import Any

from ckmlir.dialect.build import producer, value
from ckmlir.mlir import arith, ir


class Rate(IntEnum):
    """How often a part changes; the larger wins in a product."""

    FIXED = 0  # equal for all lanes, never changes: a stride, a length
    ORIGIN = 1  # equal for all lanes, never changes, counted in the whole tensor: may need 64 bits once multiplied
    STEP = 2  # equal for all lanes, advances with a loop
    LANE = 3  # differs between lanes


@dataclass(eq=False, slots=True)
class Atom:
    """One run-time part: an i32 value with its rate and, where known, a bound that it stays below. Never negative."""

    value: ir.Value
    rate: Rate
    bound: int | None
    number: int
    whole: tuple[Atom, int] | None = None
    """The atom that this is a part of, and what divided it without a rest."""


Monomial = tuple[Atom, ...]
Key = frozenset[tuple[Monomial, int]]


class Emitter:
    """Creates arithmetic at the current insertion point, once for equal requests within a block."""

    def __init__(self) -> None:
        self._types = {bits: ir.IntegerType.get_signless(bits) for bits in (32, 64)}
        self._cache: dict[Any, ir.Value] = {}
        self._atoms: dict[Any, Atom] = {}
        self._at_start: dict[Any, ir.Value] = {}
        self.divisor_of: Callable[[ir.Value], int] = lambda item: 1
        """What is known to divide a value."""

    def begin_block(self) -> None:
        """Forget what was emitted: it may not dominate what follows."""
        self._cache.clear()

    def once(self, key: Any, make: Callable[[], ir.Value]) -> ir.Value:
        """The value made for `key`, made now if it is asked for the first time in this block."""
        found = self._cache.get(key)
        if found is None:
            found = self._cache[key] = make()
        return found

    def atom(self, item: ir.Value, rate: Rate, bound: int | None = None) -> Atom:
        """The atom of an i32 value."""
        found = self._atoms.get(item)
        if found is None:
            found = self._atoms[item] = Atom(item, rate, bound, len(self._atoms))
        return found

    def index(self, item: ir.Value, rate: Rate, bound: int | None = None) -> Index:
        """A run-time value as an index."""
        return Index({(self.atom(item, rate, bound),): 1}, self)

    def number(self, constant: int) -> Index:
        """A constant as an index."""
        return Index({(): constant} if constant else {}, self)

    def constant(self, number: int, bits: int = 32) -> ir.Value:
        """An integer constant."""
        type_ = self._types[bits]
        return self.once(
            ("constant", number, bits),
            lambda: value("arith.constant", type_, [], {"value": ir.IntegerAttr.get(type_, number)}),
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
                constant = value("arith.constant", argument.type, [], {"value": number})
                found = self._at_start[key] = value("arith.muli", argument.type, [argument, constant])
        return found

    def exact_part(self, atom: Atom, divisor: int) -> Index | None:
        """An atom divided by a power of two, where that is known to leave no rest; else None."""
        whole, before = atom.whole or (atom, 1)
        divisor *= before
        if atom.rate == Rate.LANE or divisor & (divisor - 1) or self.divisor_of(whole.value) % divisor:
            return None
        shift = self.constant(divisor.bit_length() - 1)
        exact = {"isExact": ir.UnitAttr.get()}
        key = ("exact", whole.number, divisor)
        item = self.once(key, lambda: value("arith.shrui", whole.value.type, [whole.value, shift], exact))
        part = self.atom(item, whole.rate, None if whole.bound is None else (whole.bound - 1) // divisor + 1)
        part.whole = whole, divisor
        return Index({(part,): 1}, self)

    def widen(self, item: ir.Value) -> ir.Value:
        """i32 to i64, unsigned: parts are never negative."""
        return self.once(("extui", item), lambda: value("arith.extui", self._types[64], [item]))


class Index:
    """A polynomial with integer coefficients over atoms."""

    __slots__ = ("_key", "emitter", "terms")

    def __init__(self, terms: dict[Monomial, int], emitter: Emitter) -> None:
        if not all(terms.values()):
            terms = {monomial: coefficient for monomial, coefficient in terms.items() if coefficient}
        self.terms = terms  # never changed afterwards
        self.emitter = emitter
        self._key: Key | None = None

    # -- what is known

    @property
    def constant(self) -> int:
        """The constant part."""
        return self.terms.get((), 0)

    @property
    def is_constant(self) -> bool:
        """Whether nothing of it is known at run time only."""
        return all(not monomial for monomial in self.terms)

    @property
    def bound(self) -> int | None:
        """A number that the value stays below, if one is known."""
        total = 1
        for monomial, coefficient in self.terms.items():
            if coefficient < 0:
                return None
            largest = coefficient
            for atom in monomial:
                if atom.bound is None:
                    return None
                largest *= atom.bound - 1
            total += largest
        return total

    @property
    def rate(self) -> Rate:
        """The rate of the fastest part."""
        return max((rate_of(monomial) for monomial in self.terms), default=Rate.FIXED)

    def part(self, *rates: Rate, constant: bool = False) -> Index:
        """The terms of the given rates, with or without the constant."""
        return Index({m: c for m, c in self.terms.items() if (rate_of(m) in rates if m else constant)}, self.emitter)

    # -- arithmetic

    def _lift(self, other: Index | int) -> Index:
        return self.emitter.number(other) if isinstance(other, int) else other

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index({**self.terms, (): self.constant + other}, self.emitter) if other else self
        terms = dict(self.terms)
        for monomial, coefficient in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return Index(terms, self.emitter)

    __radd__ = __add__

    def __neg__(self) -> Index:
        return Index({monomial: -coefficient for monomial, coefficient in self.terms.items()}, self.emitter)

    def __sub__(self, other: Index | int) -> Index:
        return self + (-other if isinstance(other, int) else other.__neg__())

    def __rsub__(self, other: Index | int) -> Index:
        return self.__neg__() + other

    def __mul__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            if other == 1:
                return self
            return Index({monomial: coefficient * other for monomial, coefficient in self.terms.items()}, self.emitter)
        terms: dict[Monomial, int] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                monomial = tuple(sorted(left + right, key=lambda atom: atom.number))
                terms[monomial] = terms.get(monomial, 0) + a * b
        return Index(terms, self.emitter)

    __rmul__ = __mul__

    def __floordiv__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            quotient, rest = self._split(other)
            bound = rest.bound
            if other == 1 or (bound is not None and bound <= other):
                return quotient
            new_bound = None if bound is None else (bound - 1) // other + 1
            return quotient + rest._opaque(
                "floordiv", other, lambda: rest._power_or("shrui", "divui", other), new_bound
            )
        return self._opaque("floordiv", other, lambda: self.emitter.binary("divui", self.emit(), other.emit()), None)

    def __mod__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            _, rest = self._split(other)
            bound = rest.bound
            if bound is not None and bound <= other:
                return rest
            return rest._opaque("mod", other, lambda: rest._power_or("andi", "remui", other), other)
        return self._opaque("mod", other, lambda: self.emitter.binary("remui", self.emit(), other.emit()), other.bound)

    def _split(self, divisor: int) -> tuple[Index, Index]:
        """(q, r) with self = divisor * q + r, moving every term that divides into q; no term of r is negative."""
        quotient: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        whole = Index({}, self.emitter)
        for monomial, coefficient in self.terms.items():
            if not monomial or coefficient < 0 or coefficient % divisor == 0:
                quotient[monomial], rest[monomial] = divmod(coefficient, divisor)
                continue
            common = gcd(coefficient, divisor)
            part = self.emitter.exact_part(monomial[0], divisor // common) if len(monomial) == 1 else None
            if part is None:
                rest[monomial] = coefficient
            else:
                whole = whole + part * (coefficient // common)
        return whole + Index(quotient, self.emitter), Index(rest, self.emitter)

    def __xor__(self, other: Index | int) -> Index:
        other = self._lift(other)
        if self.is_constant and other.is_constant:
            return self.emitter.number(self.constant ^ other.constant)
        fixed = self.emitter.number(self.constant)
        moving = self - self.constant
        bounds = [moving.bound, other.bound]
        known = [bound for bound in bounds if bound is not None]
        limit = 1 << (max(known) - 1).bit_length() if len(known) == 2 else None
        if not moving.terms:
            moving, fixed = other, fixed
            mixed = other
        else:
            mixed = (
                moving._opaque("xor", other, lambda: self.emitter.binary("xori", moving.emit(), other.emit()), limit)
                if other.terms
                else moving
            )
        if not fixed.terms:
            return mixed
        low = moving.bound
        if low is None or self.constant % (1 << (low - 1).bit_length()):
            return self._opaque("xor", other, lambda: self.emitter.binary("xori", self.emit(), other.emit()), None)
        if limit is not None and self.constant % limit == 0:
            return mixed + self.constant
        joint = None if limit is None else 1 << (max(limit - 1, self.constant)).bit_length()
        return mixed._opaque("xor", fixed, lambda: self.emitter.binary("xori", mixed.emit(), fixed.emit()), joint)

    def _power_or(self, shift_or_mask: str, general: str, number: int) -> ir.Value:
        if number & (number - 1) == 0:
            operand = number - 1 if shift_or_mask == "andi" else number.bit_length() - 1
            return self.emitter.binary(shift_or_mask, self.emit(), self.emitter.constant(operand))
        return self.emitter.binary(general, self.emit(), self.emitter.constant(number))

    def _opaque(self, name: str, other: Index | int, make: Callable[[], ir.Value], bound: int | None) -> Index:
        """A new part holding the result of an operation that is not linear."""
        rate = self.rate if isinstance(other, int) else max(self.rate, other.rate)
        key = (name, self.key, other if isinstance(other, int) else other.key)
        return self.emitter.index(self.emitter.once(key, make), rate, bound)

    @property
    def key(self) -> Key:
        """Equal for equal polynomials."""
        if self._key is None:
            self._key = frozenset(self.terms.items())
        return self._key

    # -- comparison

    def _compare(self, predicate: str, other: Index | int) -> Predicate:
        other = self._lift(other)
        code = getattr(arith.CmpIPredicate, predicate)

        def make() -> ir.Value:
            return arith.cmpi(code, self.emit(), other.emit())

        return Predicate(self.emitter.once((predicate, self.key, other.key), make), self.emitter)

    def __lt__(self, other: Index | int) -> Predicate:
        return self._compare("ult", other)

    def __ge__(self, other: Index | int) -> Predicate:
        return self._compare("uge", other)

    def __gt__(self, other: Index | int) -> Predicate:
        return self._compare("ugt", other)

    def __le__(self, other: Index | int) -> Predicate:
        return self._compare("ule", other)

    # -- emission

    def emit(self, bits: int = 32) -> ir.Value:
        """The value as i32 or i64."""
        return self.emitter.once(("sum", self.key, bits), lambda: self._sum(bits))

    def _sum(self, bits: int) -> ir.Value:
        emit = self.emitter
        total: ir.Value | None = None
        for monomial, coefficient in sorted(self.terms.items(), key=_order):
            if not monomial:
                continue
            product = _scaled(emit, monomial, coefficient, bits)
            total = product if total is None else emit.binary("addi", total, product)
        if total is None:
            return emit.constant(self.constant, bits)
        return emit.binary("addi", total, emit.constant(self.constant, bits)) if self.constant else total


class Predicate:
    """A condition that differs between lanes, as an i1 value."""

    __slots__ = ("emitter", "value")

    def __init__(self, condition: ir.Value, emitter: Emitter) -> None:
        self.value = condition
        self.emitter = emitter

    def __and__(self, other: Predicate | bool) -> Predicate:
        if isinstance(other, bool):
            if not other:
                raise ValueError("an access that is never valid")
            return self
        return Predicate(self.emitter.binary("andi", self.value, other.value), self.emitter)

    __rand__ = __and__


def _order(term: tuple[Monomial, int]) -> tuple[bool, list[int]]:
    """Where a term stands in a sum: the older first, and what is no part of a lane's or wave's number (bounded) last.

    The registers of a thread have the former in common, so that it is added up once for all of them. LLVM would find
    that out as well, but takes a quarter of its time for it.
    """
    monomial, _ = term
    return all(atom.bound is None for atom in monomial), [atom.number for atom in monomial]


def rate_of(monomial: Iterable[Atom]) -> Rate:
    """The rate of a product."""
    rate = Rate.FIXED
    for atom in monomial:
        if atom.rate > rate:
            rate = atom.rate
    return rate


def _scaled(emit: Emitter, monomial: Monomial, coefficient: int, bits: int) -> ir.Value:
    """A product of atoms and a constant."""
    if bits == 32 and coefficient != 1 and len(monomial) == 2 and rate_of(monomial) == Rate.STEP:
        first, second = monomial if monomial[0].rate == Rate.FIXED else monomial[::-1]
        if first.rate == Rate.FIXED and isinstance(first.value, ir.BlockArgument):
            return emit.binary("muli", second.value, emit.at_start(first.value, coefficient))
    if bits == 32 and coefficient > 1 and len(monomial) == 1:
        owner = producer(monomial[0].value)
        if owner is not None and owner.name == "arith.minsi":
            # The smaller of two multiples: what a loop advances stays a sum that LLVM can count up. Parts are never
            # negative, so unsigned the comparison is right for multiples up to 4 GiB.
            return emit.binary("minui", *(_scale(emit, one, coefficient, bits) for one in owner.operands))
    product = _product(emit, monomial, bits)
    return product if coefficient == 1 else _scale(emit, product, coefficient, bits)


def _product(emit: Emitter, monomial: Monomial, bits: int) -> ir.Value:
    factors = [emit.widen(atom.value) if bits == 64 else atom.value for atom in monomial]
    product = factors[0]
    for factor in factors[1:]:
        product = emit.binary("muli", product, factor)
    return product


def _scale(emit: Emitter, item: ir.Value, coefficient: int, bits: int) -> ir.Value:
    if coefficient > 0 and coefficient & (coefficient - 1) == 0:
        return emit.binary("shli", item, emit.constant(coefficient.bit_length() - 1, bits))
    return emit.binary("muli", item, emit.constant(coefficient, bits))
