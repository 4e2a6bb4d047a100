"""Sums of which the lanes of a quad have parts for each other.

Of four numbers that all lanes of a quad need, equally far from each other, each is found by the lane whose number in
the quad, its seat, is that of the number. What the others need of it comes to them by a move within the quad, which is
part of the instruction that uses it, or, where no loop changes it, stands before loops. So a lane divides once, not
four times.
"""

from collections.abc import Iterable

from msgspec import Struct

from ckmlir.dialect.distribution import LANE, Digit
from ckmlir.lowering.dpp import QUAD
from ckmlir.lowering.parts import Atom, Monomial, Rate, Values

Terms = dict[Monomial, int]
"""A sum of products, by their factors."""


class Fours(Struct, frozen=True):
    """Numbers of which all lanes of a quad need the same four.

    Attributes:
        apart: how far each lies from the one before.
        rest: whether no loop changes them, so that what is found about them is moved once, before loops.
    """

    apart: int
    rest: bool

    def seat(self, number: int) -> int:
        """The seat of the lane that finds something out about the number, as far as it is known."""
        return number // self.apart % QUAD


def split_at_quads(digit: Digit) -> list[Digit]:
    """A digit of the lane's number as one that the lanes of a quad have in common, and one within the quad."""
    inside, rest = divmod(QUAD, digit.source_weight)
    if digit.source != LANE or rest or inside <= 1 or digit.length % inside or digit.length == inside:
        return [digit]
    return [
        Digit(digit.length // inside, LANE, QUAD, digit.weight * inside),
        Digit(inside, LANE, digit.source_weight, digit.weight),
    ]


def seats_of(terms: Terms) -> list[int]:
    """The lanes that others have parts of."""
    return sorted({atom.seat for monomial in terms for atom in monomial if atom.home})


def home_of(terms: Terms) -> int | None:
    """The seat of the lane that a quad takes all of a sum from in which lanes differ; None: of none, or of several."""
    seats = seats_of(terms)
    return seats[0] if len(seats) == 1 and is_same_in_quad(terms) else None


def is_same_in_quad(terms: Terms) -> bool:
    """Whether the lanes of a quad are known to have the same, as far as it is their own."""
    return not any(_differs(atom) for monomial in terms for atom in monomial)


def mark_same_in_quad(terms: Terms) -> None:
    """Note that the lanes of a quad have the same."""
    for monomial in terms:
        for atom in monomial:
            atom.same_in_quad = True


def at_home(terms: Terms) -> Terms:
    """A sum as the lanes have it that it is taken from."""
    found: Terms = {}
    for monomial, factor in terms.items():
        own = _product(atom.home or atom for atom in monomial)
        found[own] = found.get(own, 0) + factor
    return {monomial: factor for monomial, factor in found.items() if factor}


def do_rest(terms: Terms) -> bool:
    """Whether no loop changes what lanes have from others."""
    return all(atom.rests for monomial in terms for atom in monomial if atom.home)


def from_seat(terms: Terms, seat: int, values: Values, *, rests: bool = False) -> Terms:
    """A sum as all lanes of a quad take it from the one at a seat; `rests`: no loop changes it."""
    return {
        _product(values.seated(atom, seat, rests=rests) if _differs(atom) else atom for atom in monomial): factor
        for monomial, factor in terms.items()
    }


def in_common(terms: Terms) -> tuple[Terms, Terms]:
    """What the lanes of a quad have in common, some of it from one of them, and the rest."""
    common: Terms = {}
    rest: Terms = {}
    for monomial, factor in terms.items():
        (rest if not monomial or any(map(_differs, monomial)) else common)[monomial] = factor
    return common, rest


def taken_from(terms: Terms, seat: int) -> tuple[Terms, Terms]:
    """What the lane at a seat has for all lanes, and the rest."""
    taken: Terms = {}
    rest: Terms = {}
    for monomial, factor in terms.items():
        seats = {atom.seat for atom in monomial if atom.home}
        is_taken = seats == {seat} and not any(_differs(atom) for atom in monomial)
        (taken if is_taken else rest)[monomial] = factor
    return taken, rest


def _differs(atom: Atom) -> bool:
    return atom.rate == Rate.LANE and not (atom.same_in_quad or atom.home)


def _product(atoms: Iterable[Atom]) -> Monomial:
    return tuple(sorted(atoms, key=lambda atom: atom.number))
