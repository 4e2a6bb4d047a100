"""What is known at a point of the scheduled program.

Everything is seen from one iteration t of the current loop, the `frame`: before the loop and in its prologue t is 0
(`at` holds the number), in blocks that are reached in several ways it is unknown (`at` is None) and the loop's index
there is the symbol BASE. `left` says how many iterations, t included, are still to come.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ckmlir.mlir import ir
from ckmlir.passes.proof.polynomial import Polynomial, add, constant, multiple, multiply, symbol
from ckmlir.passes.proof.source_program import Loop, SourceProgram
from ckmlir.passes.proof.terms import NOTHING, Name, Names, Part

BASE = "base"
"""The loop's index at the iteration of an unknown frame."""
FINAL = "final"
"""The number of the loop's last iteration."""

Fact = tuple[str, int]
"""What a scalar says about the loop: ("more", k): iteration t + k exists; ("last", 0): the number of the last one;
("clamped", k): the index of iteration t + k, or of the last one if that is earlier.
"""


class Value(NamedTuple):
    """What is known of a value.

    Attributes:
        names: all true; none: it is nothing that the unscheduled program computes, as far as is known.
        polynomial: for integers, over symbols of names that never change.
        inside: whether it was computed from indices of iterations that exist.
        fact: see `Fact`.
        clash: the names on two paths that meet here without one in common.
        spoilt: an operand of what computes it had no name: that has been reported.
    """

    names: Names = NOTHING
    polynomial: Polynomial | None = None
    inside: bool = True
    fact: Fact | None = None
    clash: tuple[Names, Names] | None = None
    spoilt: bool = False


class Left(NamedTuple):
    """How many iterations are left: at least `least`, at most `most`."""

    least: int = 0
    most: int | None = None

    def moved(self, iterations: int) -> "Left":
        """Seen from so many iterations later."""
        return Left(self.least - iterations, None if self.most is None else self.most - iterations)

    def join(self, other: "Left") -> "Left":
        """Either."""
        return Left(min(self.least, other.least), self.most if self.most == other.most else None)

    @property
    def exact(self) -> int | None:
        """The number, if there is only one."""
        return self.least if self.least == self.most else None


NOTHING_KNOWN = Left()

Progress = int | str | None
"""Of an effect: "before", "after", or up to which iteration it has happened; None: not the same on all paths."""


@dataclass
class State:
    """What is known at a point; the module's text says how it is to be read."""

    program: SourceProgram
    number: int = 0
    at: int | None = 0
    left: Left = NOTHING_KNOWN
    values: dict[ir.Value, Value] = field(default_factory=dict)
    lds: dict[ir.Operation, tuple[Part, ...]] = field(default_factory=dict)
    memory: dict[int, Progress] = field(default_factory=dict)

    @property
    def loop(self) -> Loop | None:
        """The loop that is running, or the next one."""
        return self.program.loops[self.number] if self.number < len(self.program.loops) else None

    def copy(self) -> "State":
        """A state to change."""
        return replace(self, values=dict(self.values), lds=dict(self.lds), memory=dict(self.memory))

    # -- indices

    def index(self, shift: int) -> Polynomial:
        """The loop's index in iteration t + shift."""
        loop = self.loop
        assert loop is not None
        start = symbol(BASE) if self.at is None else add(loop.lower, multiply(loop.stride, constant(self.at)))
        return add(start, multiply(loop.stride, constant(shift)))

    def shift_of(self, polynomial: Polynomial | None) -> int | None:
        """The k with which a polynomial is the index of iteration t + k; None: it is none."""
        if polynomial is None or self.loop is None:
            return None
        return multiple(add(polynomial, self.index(0), -1), self.loop.stride)

    @property
    def last_index(self) -> Polynomial | None:
        """The index of the last iteration, if there is one."""
        if self.loop is None or (self.at == 0 and self.left.least < 1):
            return None
        return add(self.loop.lower, multiply(self.loop.stride, symbol(FINAL)))

    # -- names

    def names_of(self, value: ir.Value) -> Names:
        """All names of a value: those known, and those that follow."""
        known = self.values.get(value, Value())
        return self.closure(known)

    def closure(self, known: Value) -> Names:
        """The names of a value and those that follow: as a carried argument, and as an index."""
        loop = self.loop
        if loop is None:
            return known.names
        found = set(known.names)
        for name in known.names:
            for argument, shift in loop.arguments_handed(name):
                found.add(Name(argument, shift))
            if self.at is not None:
                found.update(Name(argument, -self.at) for argument in loop.starting_with(name))
        index = self.shift_of(known.polynomial)
        if index is None and known.fact is not None and known.fact[0] == "clamped":
            index = known.fact[1]
        if index is not None:
            found.add(Name(loop.index, index))
        return frozenset(found)

    def exists(self, names: Names) -> bool:
        """Whether what has these names belongs to an iteration that exists for certain."""
        return any(name.shift is None or name.shift < self.left.least for name in names)

    # -- moving on

    def moved(self, iterations: int) -> "State":
        """The same, seen from so many iterations later."""
        if iterations == 0:
            return self.copy()
        loop = self.loop
        assert loop is not None
        back = add(symbol(BASE), multiply(loop.stride, constant(iterations)), -1)
        values = {key: _moved(value, iterations, back) for key, value in self.values.items()}
        lds = {
            alloc: tuple((frozenset(name.moved(iterations) for name in names), mask) for names, mask in parts)
            for alloc, parts in self.lds.items()
        }
        memory = {
            effect: progress - iterations if isinstance(progress, int) else progress
            for effect, progress in self.memory.items()
        }
        at = None if self.at is None else self.at + iterations
        return replace(self, at=at, left=self.left.moved(iterations), values=values, lds=lds, memory=memory)

    def join(self, other: "State", arguments: set[ir.Value]) -> "State":
        """What holds whichever of two paths led here; values other than arguments must be known alike to survive."""
        at = self.at if self.at == other.at else None
        joined = replace(self, at=at, left=self.left.join(other.left), values={}, lds={}, memory={})
        for key, value in self.values.items():
            if key in other.values:
                joined.values[key] = _join(self, value, other, other.values[key], joined)
        for alloc, parts in self.lds.items():
            if alloc in other.lds:
                joined.lds[alloc] = _common(parts, other.lds[alloc])
        for effect, progress in self.memory.items():
            joined.memory[effect] = progress if progress == other.memory.get(effect) else None
        return joined

    def same(self, other: "State") -> bool:
        """Whether two states know the same."""
        return (self.number, self.at, self.left, self.values, self.lds, self.memory) == (
            other.number, other.at, other.left, other.values, other.lds, other.memory,
        )  # fmt: skip


def _moved(value: Value, iterations: int, base: Polynomial) -> Value:
    if not value.names and value.polynomial is None and value.fact is None:
        return value
    polynomial = value.polynomial
    if polynomial is not None and any(BASE in monomial for monomial in polynomial):
        coefficient = polynomial.get((BASE,), 0)
        rest = {monomial: factor for monomial, factor in polynomial.items() if monomial != (BASE,)}
        known = not any(BASE in monomial for monomial in rest)
        polynomial = add(rest, base, coefficient) if known else None
    fact = value.fact
    if fact is not None and fact[0] in ("more", "clamped"):
        fact = (fact[0], fact[1] - iterations)
    return value._replace(
        names=frozenset(name.moved(iterations) for name in value.names), polynomial=polynomial, fact=fact
    )


def _join(one: State, left: Value, two: State, right: Value, joined: State) -> Value:
    if left == right and one.at == two.at:
        return left
    mine, theirs = one.closure(left), two.closure(right)
    if left.spoilt != right.spoilt:  # reported where it was computed; go on as if it had been right
        mine = theirs = theirs if left.spoilt else mine
    names = mine & theirs
    polynomial = left.polynomial if left.polynomial == right.polynomial else None
    if polynomial is not None and any(BASE in monomial for monomial in polynomial) and one.at != two.at:
        polynomial = None
    shift = one.shift_of(left.polynomial)
    if polynomial is None and shift is not None and shift == two.shift_of(right.polynomial):
        polynomial = joined.index(shift)
    clash = left.clash or right.clash
    if not names and clash is None and (mine or theirs):
        clash = mine, theirs
    return Value(
        names, polynomial, left.inside and right.inside, left.fact if left.fact == right.fact else None,
        None if names else clash, left.spoilt and right.spoilt,
    )  # fmt: skip


def _common(left: tuple[Part, ...], right: tuple[Part, ...]) -> tuple[Part, ...]:
    """The elements that were written alike on both paths."""
    if left == right:
        return left
    parts = []
    for names, mask in left:
        for also, other in right:
            same = names & also if names and also else names | also  # what has no name has been reported
            if mask & other and (same or not (names or also)):
                parts.append((same, mask & other))
    return tuple(parts)
