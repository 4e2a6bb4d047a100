"""What LDS tensors hold, as names: in parts, by what wrote them, or as a whole.

A whole is a value like any other: loops carry it round and branches give it, so that what one iteration leaves for the
next, or one part of a branch for what follows, has a name. A part of a whole has the whole's name and the elements that
are meant.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from ckmlir.mlir import ir
from ckmlir.passes.proof.footprints import all_elements
from ckmlir.passes.proof.terms import Name, Names, Part, Signature, Table

WHOLE = Signature("contents", (), ())
"""Of parts that make a whole; nothing computes it."""
Tensor: TypeAlias = ir.Operation
Named = TypeVar("Named", bound=Hashable)


class Contents:
    """What the LDS tensors of the unscheduled program hold where it has been read to."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.parts: dict[Tensor, list[tuple[Name, int]]] = {}

    def begin(self, tensor: Tensor) -> None:
        """Nothing has been written yet."""
        self.parts[tensor] = []

    def write(self, tensor: Tensor, name: Name, elements: int) -> None:
        """These elements are now others."""
        self.parts[tensor] = overlaid(self.parts[tensor], name, elements)

    def found(self, tensor: Tensor, elements: int) -> list[tuple[Name, int]] | None:
        """What a read of these elements finds; None: not all of them have been written."""
        parts = merged((name, mask & elements) for name, mask in self.parts[tensor] if mask & elements)
        return parts if sum(mask for _, mask in parts) == elements else None

    def whole(self, tensor: Tensor, op: ir.Operation, depth: int) -> Name:
        """All that a tensor holds where an operation stands, at a depth. While something is unwritten that is nothing
        known.
        """
        parts = self.found(tensor, all_elements(tensor))
        if parts is None:
            return Name(self.table.fresh(op, depth), 0 if depth else None)
        return parts[0][0] if len(parts) == 1 else self.table.define(op, WHOLE, tuple(parts))

    def become(self, tensor: Tensor, name: Name) -> None:
        """A tensor holds a whole."""
        self.parts[tensor] = [(name, all_elements(tensor))]


def whole_of(table: Table, tensor: Tensor, parts: Sequence[Part]) -> Names:
    """The names of all that a tensor of the scheduled program holds; none while something is unwritten."""
    if sum(mask for _, mask in parts) != all_elements(tensor):
        return frozenset()
    found: set[Name] = set()
    for reading in readings(parts):
        found |= reading[0][0] if len(reading) == 1 else table.find(WHOLE, choices_of(reading))
    return frozenset(found)


def readings(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """The ways to take parts together: those of the same names, and those that share one name, each as parts of one
    whole.
    """
    plain = merged(parts)
    yield plain
    for name in sorted({name for names, _ in plain for name in names}, key=_order):
        shared = sum(mask for names, mask in plain if name in names)
        others = [(names, mask) for names, mask in plain if name not in names]
        if len(others) < len(plain) - 1:
            yield merged([*others, (frozenset({name}), shared)])


def choices_of(parts: Iterable[Part]) -> list[list[object]]:
    """For every part what it may be taken for, as operands of the table have it."""
    return [[(name, mask) for name in names] for names, mask in parts]


def overlaid(parts: Iterable[tuple[Named, int]], names: Named, elements: int) -> list[tuple[Named, int]]:
    """Parts, of which these elements are written anew."""
    kept = [(other, mask & ~elements) for other, mask in parts if mask & ~elements]
    return [*kept, (names, elements)]


def merged(parts: Iterable[tuple[Named, int]]) -> list[tuple[Named, int]]:
    """Parts in the order of their elements, those with the same name or names together."""
    found: dict[Named, int] = {}
    for name, mask in parts:
        found[name] = found.get(name, 0) | mask
    return sorted(found.items(), key=lambda part: part[1] & -part[1])


def _order(name: Name) -> tuple[int, bool, int]:
    return name.number, name.shift is None, name.shift or 0
