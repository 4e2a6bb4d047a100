"""Where a point of the scheduled program stands in the unscheduled one: the iterations of loops, and parts of branches.

Everything is seen from one iteration t of every loop around: before a loop and in its prologue t is 0 (`at` holds the
number), in blocks that are reached in several ways it is unknown (`at` is None). `left` says how many iterations, t
included, are still to come.
"""

from collections.abc import Hashable, Sequence
from math import inf
from typing import NamedTuple

from msgspec import Struct

from ckmlir.mlir import ir
from ckmlir.passes.proof.polynomial import (
    Polynomial,
    add,
    constant,
    multiple,
    multiply,
    quotient,
    substitute,
    symbol,
)
from ckmlir.passes.proof.structure import Branch, Loop, Region
from ckmlir.passes.proof.terms import Name

LEAST = -16
"""How many iterations too many may be known to have run; beyond that nothing is known of what is left, so that a search
ends where the program goes round without asking. A steady loop has at most so many steps.
"""


class Fact(NamedTuple):
    """What a scalar says: it is true if `left` < `right` ("less"), or it is the smaller of both ("smaller")."""

    kind: str
    left: Polynomial
    right: Polynomial


class Left(NamedTuple):
    """How many iterations are left: at least `least`, at most `most`."""

    least: float = 0
    most: int | None = None

    def moved(self, iterations: int) -> "Left":
        """Seen from so many iterations later."""
        least = self.least - iterations
        return Left(least if least >= LEAST else -inf, None if self.most is None else self.most - iterations)

    def join(self, other: "Left") -> "Left":
        """Either."""
        return Left(min(self.least, other.least), self.most if self.most == other.most else None)

    @property
    def exact(self) -> int | None:
        """The number, if there is only one."""
        return self.most if self.least == self.most else None


NOTHING_KNOWN = Left()


class Frame(Struct, frozen=True):
    """The iteration of a loop from which everything is seen.

    Attributes:
        at: its number.
        left: see `Left`.
        some: whether the loop has an iteration for certain.
        part: of a loop without an index: 0 where it decides, 1 in the body.
        lower, upper, stride: as they are in this iteration of the loops around.
    """

    loop: Loop
    lower: Polynomial
    upper: Polynomial
    stride: Polynomial
    at: int | None = 0
    left: Left = NOTHING_KNOWN
    some: bool = False
    part: int = 0

    @property
    def region(self) -> Region:
        """What the iteration is in."""
        return self.loop.regions[self.part]

    def index(self, shift: int) -> Polynomial:
        """The loop's index in iteration t + shift."""
        start = add(self.lower, multiply(self.stride, constant(self.at))) if self.at is not None else self.base
        return add(start, multiply(self.stride, constant(shift)))

    @property
    def base(self) -> Polynomial:
        """The index of an iteration of which the number is not known."""
        assert self.loop.index is not None
        return symbol(Name(self.loop.index, 0))

    def shift_of(self, polynomial: Polynomial | None) -> int | None:
        """The k with which a polynomial is the index of iteration t + k; None: it is none."""
        if polynomial is None or self.loop.index is None:
            return None
        return multiple(add(polynomial, self.index(0), -1), self.stride)

    def clamped(self, fact: Fact | None) -> int | None:
        """The k with which a scalar is the index of iteration t + k, or of the last one if that is earlier."""
        if fact is None or fact.kind != "smaller" or not self.some or self.loop.index is None:
            return None
        last = self.last_index
        if last not in (fact.left, fact.right):
            return None
        return self.shift_of(fact.right if fact.left == last else fact.left)

    def more(self, fact: Fact | None) -> int | None:
        """The k with which a scalar says whether iteration t + k exists."""
        if fact is None or fact.kind != "less" or self.loop.index is None:
            return None
        return self.shift_of(add(fact.left, add(self.upper, fact.right, -1)))

    @property
    def last_index(self) -> Polynomial:
        """The index of the last iteration, if there is one."""
        distance = add(add(self.upper, self.lower, -1), constant(-1))
        return add(self.lower, multiply(self.stride, quotient(distance, self.stride)))


class Arm(Struct, frozen=True):
    """A part of a branch that runs for iteration t + shift of the loop around; it ends where `end` begins."""

    branch: Branch
    part: int
    shift: int
    end: ir.Block | None

    @property
    def region(self) -> Region:
        """What runs."""
        return self.branch.regions[self.part]


Stack = tuple[Frame | Arm, ...]


def opened(loop: Loop, around: Sequence[Frame]) -> Frame:
    """A loop seen from its first iteration, in these iterations of the loops around."""
    indices = {frame.loop.index: frame for frame in around}

    def here(one: Hashable) -> Polynomial | None:
        return indices[one.number].index(one.shift or 0) if isinstance(one, Name) and one.number in indices else None

    lower, upper, stride = (substitute(polynomial, here) for polynomial in (loop.lower, loop.upper, loop.stride))
    runs = loop.index is None or loop.runs
    return Frame(loop, lower, upper, stride, left=Left(1) if runs else NOTHING_KNOWN, some=loop.runs)
