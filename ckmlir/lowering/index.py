"""Address arithmetic: indices as polynomials over run-time parts, split by how often each part changes.

Coordinate transforms are evaluated on these objects with the same code that evaluates them on integers. Sums and
products stay symbolic, so an offset falls apart into what is constant, what differs between lanes, what a loop
advances and where the tile begins: the places that a memory instruction has for them. What is not linear (a
remainder, a swizzle's exclusive or) becomes one new part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from math import gcd, lcm

from ckmlir.dialect import arith
from ckmlir.dialect.build import value
from ckmlir.lowering import quads
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.dpp import QUAD
from ckmlir.lowering.parts import Atom, Monomial, Rate, Values, rate_of
from ckmlir.lowering.predicate import Predicate
from ckmlir.lowering.quads import Fours, at_home, do_rest, from_seat, is_same_in_quad, mark_same_in_quad, seats_of
from ckmlir.lowering.sums import lasting, sum_of
from ckmlir.mlir import ir

Key = frozenset[tuple[Monomial, int]]


class Emitter(Values):
    """Makes indices, and what is computed for them."""

    def __init__(self) -> None:
        super().__init__()
        self.divisor_of: Callable[[ir.Value], int] = lambda item: 1
        """What is known to divide a value."""
        self.quads: Mapping[Key, Fours] = {}
        """Sums whose divisions the lanes of a quad share, without their constants: see `Index._shared`."""
        self.in_turn = False
        """Whether what is divided is not to be known before: of accesses one after the other."""
        self.quad_lane: Callable[[], Index] = lambda: self.number(0)
        """This lane's number in its quad."""

    def index(self, item: ir.Value, rate: Rate, bound: int | None = None, multiple: int = 1) -> Index:
        """A run-time value as an index; it is known to be a multiple of `multiple`."""
        atom = self.atom(item, rate, bound)
        atom.multiple = lcm(atom.multiple, multiple)
        return Index({(atom,): 1}, self)

    def number(self, constant: int) -> Index:
        """A constant as an index."""
        return Index({(): constant} if constant else {}, self)

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

    @property
    def negative(self) -> Index:
        """The terms with a negative coefficient; all others are never negative, as atoms are not."""
        return Index({m: c for m, c in self.terms.items() if c < 0}, self.emitter)

    def rest_fits(self, divisor: int) -> bool:
        """Whether it is known to be a multiple of `divisor` and something less than that."""
        bound = self._not_known(divisor).bound
        return bound is not None and bound <= divisor

    @property
    def multiple(self) -> int:
        """What is known to divide it; 0 for 0."""
        return gcd(*(self._factor(monomial) for monomial in self.terms))

    def _factor(self, monomial: Monomial) -> int:
        """What is known to divide a term."""
        factor = self.terms[monomial]
        for atom in monomial:
            found = 1 if atom.rate == Rate.LANE else self.emitter.divisor_of(atom.value)
            factor *= lcm(atom.multiple, found)
        return factor

    def _not_known(self, divisor: int) -> Index:
        """The terms that are not known to be multiples of `divisor`."""
        return Index({m: c for m, c in self.terms.items() if self._factor(m) % divisor}, self.emitter)

    def apart(self, divisor: Index) -> tuple[Index, Index]:
        """(w, r) with self = w + r: w and the divisor are multiples of something that r is less than. So r is left over
        by a division, and makes no difference to a comparison, whatever w and the divisor are; else it is 0.
        """
        common = divisor.multiple & -divisor.multiple
        while common > 1:
            rest = self._not_known(common)
            if rest.bound is not None and rest.bound <= common:
                return self - rest, rest
            common //= 2
        return self, self.emitter.number(0)

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
        if not self.terms:
            return self
        if isinstance(other, int):
            quotient, rest = self._split(other)
            bound = rest.bound
            if other == 1 or (bound is not None and bound <= other):
                return quotient
            most = None if bound is None else (bound - 1) // other + 1
            return quotient + rest._opaque("floordiv", other, lambda: rest._power_or("shrui", "divui", other), most)
        whole, _ = self.apart(other)
        if not whole.terms:
            return whole
        shared = whole._shared(other, lambda one: one // other)
        return shared or whole._opaque("floordiv", other, lambda: whole._divided(other)[0], None)

    def __mod__(self, other: Index | int) -> Index:
        if not self.terms:
            return self
        if isinstance(other, int):
            _, rest = self._split(other)
            if (rest.bound or other + 1) <= other:
                return rest
            return rest._opaque("mod", other, lambda: rest._power_or("andi", "remui", other), other)
        whole, rest = self.apart(other)
        if not whole.terms:
            return rest
        shared = whole._shared(other, lambda one: one % other)
        return (shared or whole._opaque("mod", other, lambda: whole._divided(other)[1], other.bound)) + rest

    def _shared(self, divisor: Index, divide: Callable[[Index], Index]) -> Index | None:
        """What is divided, if the lanes of a quad share it: see `quads`."""
        if seats_of(self.terms) or not is_same_in_quad(self.terms):
            return None if quads.home_of(self.terms) is None else self._found(divide)
        emit = self.emitter
        fours = emit.quads.get((self - self.constant).key)
        if fours is None or divisor.multiple % (QUAD * fours.apart) == 0:
            return None
        seat = fours.seat(self.constant)
        return Index(from_seat(divide(self.of_each(seat, fours)).terms, seat, emit, rests=fours.rest), emit)

    def _found(self, find: Callable[[Index], Index]) -> Index:
        """What is found of it: by the lane that a quad takes it from, if it is one."""
        seat = quads.home_of(self.terms)
        if seat is None:
            return find(self)
        own, rests = find(self.at_home()), do_rest(self.terms)
        return Index(from_seat(own.terms, seat, self.emitter, rests=rests), self.emitter)

    def of_each(self, seat: int, fours: Fours) -> Index:
        """What each lane of a quad finds something out about, where the one at a seat does about this. Of what rests
        that is the same arithmetic wherever it is asked for, so that what lanes move is moved once.
        """
        each = self - seat * fours.apart + self.emitter.quad_lane() * fours.apart
        return each._in_any_block() if fours.rest else each

    def _in_any_block(self) -> Index:
        """The value as one part, added up in an order that does not follow from what its block asked for before."""
        emit = self.emitter
        terms = sorted(self.terms.items(), key=lambda term: (*lasting(term[0]), term[1]))
        parts = [sum_of({monomial: factor}, emit) for monomial, factor in terms]
        total = reduce(lambda left, right: emit.binary("addi", left, right), parts)
        return emit.index(total, self.rate, self.bound)

    def at_home(self) -> Index:
        """As the lanes have it that others take it from."""
        return Index(at_home(self.terms), self.emitter) if seats_of(self.terms) else self

    def in_quad(self) -> tuple[int, Index, Index] | None:
        """The seat of the lane that a quad takes from, the sum there, and the rest, each lane's own; else None."""
        (common, rest), seats = quads.in_common(self.terms), seats_of(self.terms)
        if len(seats) != 1 or seats_of(rest):
            return None
        return seats[0], Index(common, self.emitter).at_home(), Index(rest, self.emitter)

    def _divided(self, divisor: Index) -> tuple[ir.Value, ir.Value]:
        """The quotient and the rest of a division by a run-time number: by one that never changes, and is not computed
        here, by multiplications.
        """
        item, by = self._in_turn() if self.emitter.in_turn else self.emit(), divisor.emit()
        alone = [(monomial, factor) for monomial, factor in divisor.terms.items() if len(monomial) == factor == 1]
        if divisor.rate == Rate.FIXED and len(alone) == len(divisor.terms) == 1:
            return self.emitter.divided(item, by)
        return self.emitter.binary("divui", item, by), self.emitter.binary("remui", item, by)

    def _in_turn(self) -> ir.Value:
        """The value, where all lanes have the same by assembly that does nothing, so that it is not known earlier."""
        own, emit = self - self.constant, self.emitter
        if self.rate > Rate.ORIGIN or not (own.terms and self.constant):
            return self.emit()
        start = own.emit()
        key = ("in turn", self.key)
        known = emit.once(key, lambda: assembly(start.type, [start], "", "=s,0", effects=True))
        return emit.binary("addi", known, emit.constant(self.constant))

    def __rfloordiv__(self, other: int) -> Index:
        return self._lift(other) // self

    def __rmod__(self, other: int) -> Index:
        return self._lift(other) % self

    def mirrored(self, length: Index | int) -> Index:
        """length - 1 - self, for what is below the length: one part, since sums hold no parts that are subtracted."""
        last = self._lift(length) - 1
        if self.is_constant:
            return last - self
        emit, bound = self.emitter, length if isinstance(length, int) else length.bound
        return self._found(
            lambda own: own._opaque("mirrored", length, lambda: emit.binary("subi", last.emit(), own.emit()), bound)
        )

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
            mixed = moving = other
        else:
            mixed = moving._mixed(other, limit) if other.terms else moving
        if not fixed.terms:
            return mixed
        low = moving.bound
        if low is None or self.constant % (1 << (low - 1).bit_length()):
            return self._mixed(other, None)
        if limit is not None and self.constant % limit == 0:
            return mixed + self.constant
        joint = None if limit is None else 1 << (max(limit - 1, self.constant)).bit_length()
        return mixed._mixed(fixed, joint)

    __rxor__ = __xor__

    def _mixed(self, other: Index, bound: int | None) -> Index:
        return self._opaque("xor", other, lambda: self.emitter.binary("xori", self.emit(), other.emit()), bound)

    def _power_or(self, shift_or_mask: str, general: str, number: int) -> ir.Value:
        if number & (number - 1) == 0:
            operand = number - 1 if shift_or_mask == "andi" else number.bit_length() - 1
            return self.emitter.binary(shift_or_mask, self.emit(), self.emitter.constant(operand))
        return self.emitter.binary(general, self.emit(), self.emitter.constant(number))

    def _opaque(self, name: str, other: Index | int, make: Callable[[], ir.Value], bound: int | None) -> Index:
        """A new part holding the result of an operation that is not linear."""
        rate = self.rate if isinstance(other, int) else max(self.rate, other.rate)
        key = (name, self.key, other if isinstance(other, int) else other.key)
        found = self.emitter.index(self.emitter.once(key, make), rate, bound)
        terms = self.terms if isinstance(other, int) else self.terms | other.terms
        if rate == Rate.LANE and is_same_in_quad(terms) and not seats_of(terms):
            mark_same_in_quad(found.terms)
        return found

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

        same = is_same_in_quad(self.terms) and is_same_in_quad(other.terms)
        return Predicate(self.emitter.once((predicate, self.key, other.key), make), self.emitter, same_in_quad=same)

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
        return sum_of(self.terms, self.emitter, bits)
