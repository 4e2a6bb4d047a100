"""The unscheduled program as regions: what follows one another, loops and branches among it.

A region is straight code in which loops and branches stand as items. It is a part of a loop or branch itself, or the
kernel's body. Its depth is the number of loops around it, which says how its values vary: once for every iteration of
the loop at that depth, seen from an iteration of each loop around.
"""

from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct, field

from ckmlir.dialect.control import surely_runs
from ckmlir.dialect.loop import LOOP
from ckmlir.mlir import ir
from ckmlir.passes.proof.carried import WHILE, Carrying
from ckmlir.passes.proof.polynomial import Polynomial
from ckmlir.passes.proof.terms import Name, Table

BRANCH = "scf.if"
FURTHEST = 16
"""A value that a loop hands on unchanged is known as the carried argument of so many iterations to come."""


class Region(Struct, eq=False):
    """Straight code with items.

    Attributes:
        item: whose part it is; None: the kernel's body.
        part: which.
        depth: the loops around.
        path: the regions from the kernel's body down to this one, without the former.
        items: in program order.
    """

    item: "Loop | Branch | None"
    part: int
    depth: int
    path: tuple["Region", ...] = ()
    items: list["Loop | Branch"] = field(default_factory=list)

    def is_in(self, item: "Loop | Branch") -> bool:
        """Whether it is a part of an item, or of one in that."""
        return any(region.item == item for region in self.path)

    def is_in_part(self, item: "Loop | Branch", part: int) -> bool:
        """Whether it is that part of an item, or in that part."""
        return any(region.item == item and region.part == part for region in self.path)

    def shared(self, other: "Region") -> int:
        """The number of loops whose same iteration both are in."""
        count = 0
        for mine, theirs in zip(self.path, other.path, strict=False):
            if mine.item != theirs.item:
                break
            count += isinstance(mine.item, Loop)
            if mine != theirs:
                break
        return count


class Loop(Struct, eq=False, dict=True):
    """A loop: one with an index (scf.for), or one that decides each time whether to go on (scf.while).

    Attributes:
        home: where it stands.
        index: the number of its index, None if it has none.
        changing: the places of the carried values that it changes; what is not among them is what it starts with.
        arguments, results: numbers of what it carries and gives, of the changing ones; all results of a loop without an
            index, which gives what it likes. Behind them of what the LDS tensors hold that it changes; so in what
            follows.
        initial, handed_on: the names of what the carried arguments start with, and of what the next iteration takes.
        lower, upper, stride: of the index; over symbols that do not change while the loop runs.
        condition: of a loop without an index, the name of the scalar that says whether to go on.
        forwarded: and the names of what its results are when it does not.
        regions: the body; without an index, what decides, and the body.
        outside: of what is handed on, what does not change while the loop runs.
    """

    op: ir.Operation
    home: Region
    index: int | None
    changing: list[int]
    arguments: list[int]
    results: list[int]
    initial: list[Name] = field(default_factory=list)
    handed_on: list[Name] = field(default_factory=list)
    lower: Polynomial = field(default_factory=dict)
    upper: Polynomial = field(default_factory=dict)
    stride: Polynomial = field(default_factory=dict)
    condition: Name | None = None
    forwarded: list[Name] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    outside: frozenset[Name] = frozenset()

    @property
    def depth(self) -> int:
        """Of its body."""
        return self.home.depth + 1

    @cached_property
    def runs(self) -> bool:
        """Whether one with an index has an iteration for certain."""
        return self.index is not None and surely_runs(self.op.operands[0], self.op.operands[1])

    def result(self, number: int) -> Name:
        """The name of a result where the loop stands."""
        return Name(number, 0 if self.home.depth else None)

    def last_values(self) -> Iterator[tuple[int, Name]]:
        """For every result its number, and what it is in the iteration that is not run any more."""
        last = self.forwarded if self.index is None else [Name(argument, 0) for argument in self.arguments]
        return zip(self.results, last, strict=True)

    def arguments_handed(self, name: Name) -> Iterator[tuple[int, int]]:
        """The carried arguments that a value is handed on as, with the shift in which they are that value."""
        for argument, handed in self._handed.get(name.number, ()):
            if name.shift is not None and handed.shift is not None:
                yield argument, name.shift - handed.shift + 1

    def starting_with(self, name: Name) -> list[int]:
        """The carried arguments that a value starts."""
        return self._starting.get(name, [])

    def always_handing(self, name: Name) -> list[int]:
        """The carried arguments that are a value from outside the loop in all iterations but the first."""
        return self._always.get(name, [])

    @cached_property
    def _handed(self) -> dict[int, list[tuple[int, Name]]]:
        found: dict[int, list[tuple[int, Name]]] = {}
        for argument, handed in zip(self.arguments, self.handed_on, strict=True):
            if handed not in self.outside:
                found.setdefault(handed.number, []).append((argument, handed))
        return found

    @cached_property
    def _starting(self) -> dict[Name, list[int]]:
        return _by_name(self.initial, self.arguments)

    @cached_property
    def _always(self) -> dict[Name, list[int]]:
        return {name: found for name, found in _by_name(self.handed_on, self.arguments).items() if name in self.outside}


class Branch(Struct, eq=False):
    """A branch (scf.if) with its two parts.

    Attributes:
        home: where it stands.
        results: numbers, behind those of its own of what the LDS tensors hold that it changes.
        condition: the name of the scalar that decides.
        handed: for each part the names of what it gives.
    """

    op: ir.Operation
    home: Region
    results: list[int]
    condition: Name | None = None
    handed: list[list[Name]] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)

    @property
    def depth(self) -> int:
        """Of its parts."""
        return self.home.depth

    def result(self, number: int) -> Name:
        """The name of a result where the branch stands."""
        return Name(number, 0 if self.home.depth else None)


Item = Loop | Branch


class Effect(Struct, frozen=True, eq=False):
    """An operation that changes memory.

    Attributes:
        home: where it stands.
        root: see `terms.memory_root`.
        before, after: numbers for memory that it has not changed yet, and will not change any more.
        during: for every loop around, from the outermost, a number for memory that it has changed in all iterations up
            to one.
    """

    op: ir.Operation
    home: Region
    root: int | None
    before: int
    during: tuple[int, ...]
    after: int

    def progress(self, depth: int, count: int) -> Name:
        """The name of memory, seen at a depth, when it has happened for all iterations before so many later ones."""
        if depth:
            return Name(self.during[depth - 1], count)
        return Name(self.after if count else self.before, None)


def read_structure(function: ir.Operation, table: Table) -> dict[ir.Block, Region]:
    """The regions of a kernel by their blocks, its body first; loops and branches have numbers, but no names yet."""
    body = function.regions[0].blocks[0]
    found = {body: Region(None, 0, 0)}
    _read(body, found, table, Carrying())
    return found


def _read(block: ir.Block, found: dict[ir.Block, Region], table: Table, carrying: Carrying) -> None:
    home = found[block]
    for op in (view.operation for view in block):
        if op.name not in (LOOP, WHILE, BRANCH):
            continue
        changing = carrying.changing(op) if op.name != BRANCH else []
        results = [table.fresh(op, home.depth) for _ in (changing if op.name == LOOP else op.results)]
        item: Item
        if op.name == BRANCH:
            item = Branch(op, home, results)
        else:
            index = table.fresh(op, home.depth + 1) if op.name == LOOP else None
            item = Loop(op, home, index, changing, [table.fresh(op, home.depth + 1) for _ in changing], results)
        home.items.append(item)
        for number, region in enumerate(op.regions):
            part = Region(item, number, item.depth)
            part.path = (*home.path, part)
            item.regions.append(part)
            if len(region.blocks):
                found[region.blocks[0]] = part
                _read(region.blocks[0], found, table, carrying)


def _by_name(names: list[Name], numbers: list[int]) -> dict[Name, list[int]]:
    found: dict[Name, list[int]] = {}
    for name, number in zip(names, numbers, strict=True):
        found.setdefault(name, []).append(number)
    return found
