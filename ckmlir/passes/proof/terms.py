"""Names for what the unscheduled program computes, found again in the scheduled one.

Every operation of the unscheduled program gets a number; operations that compute the same from the same get the same
one. The name of a value is `(number, shift)`: the value that the operation has in iteration t + shift of its loop,
where t is the iteration at which the surrounding code stands; the shift is None for what does not change from iteration
to iteration. Where loops stand in loops, every number has a depth: that of the loop from whose iteration to iteration
its values change; of the loops around that one it is always the iteration in which the surrounding code stands. A
scheduled operation has a name exactly if its operands have names that some operation of the unscheduled program takes
together, all in one iteration. So a name proves that the value is right, whatever the schedule did.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

from msgspec import Struct, field

from ckmlir.dialect.build import producer
from ckmlir.dialect.held import hands_on
from ckmlir.dialect.memory import INVARIANT
from ckmlir.mlir import ir


class Name(NamedTuple):
    """What a value is: a number of the table, and in which iteration (None: in all)."""

    number: int
    shift: int | None


Names = frozenset[Name]
Part = tuple[Names, int]
"""A part of an LDS tensor: what was written there, and the elements as bits."""
NOTHING: Names = frozenset()

SCHEDULING = frozenset({
    "ck.pinned", "ck.fences", "ck.stage", "ck.priority", "ck.apart", "ck.together", "begins", "follows",
})  # fmt: skip
"""Attributes that say when something runs, or who shares memory with it, not what it computes."""


class Signature(NamedTuple):
    """What an operation does, apart from its operands."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    results: tuple[str, ...]


def signature_of(op: ir.Operation) -> Signature:
    """The signature of an operation."""
    attributes = op.attributes
    kept = tuple(sorted((name, str(attributes[name])) for name in attributes if name not in SCHEDULING))
    return Signature(op.name, kept, tuple(str(result.type) for result in op.results))


class Entry(NamedTuple):
    """An operation of the unscheduled program in the table: its number, and the shift of its first shifted operand."""

    number: int
    first: int | None


Operands = tuple[Any, ...]
"""Names and, for LDS reads, (name, elements) pairs."""


class Table(Struct):
    """Numbers by signature and operands.

    Attributes:
        origin: for every number an operation (or loop) of the unscheduled program that it stands for.
        depths: for every number the depth of the loop with which it changes, 0 for what never does.
        alike: operations of the unscheduled program by signature, with their operands, for messages.
        operands: by signature what operations take together, each as one names it in its own iteration.
    """

    entries: dict[tuple[Signature, Operands], Entry] = field(default_factory=dict)
    origin: list[ir.Operation] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    alike: dict[Signature, list[tuple[ir.Operation, Operands]]] = field(default_factory=dict)
    operands: dict[Signature, list[Operands]] = field(default_factory=dict)

    def fresh(self, origin: ir.Operation, depth: int = 0) -> int:
        """A number for a value that no operation computes, such as a loop's index."""
        self.origin.append(origin)
        self.depths.append(depth)
        return len(self.origin) - 1

    def define(self, op: ir.Operation, signature: Signature, operands: Operands) -> Name:
        """The name that an operation of the unscheduled program has in its own iteration."""
        key, first, depth = self._normal(operands)
        self.alike.setdefault(signature, []).append((op, operands))
        entry = self.entries.get((signature, key))
        if entry is None:
            entry = self.entries[signature, key] = Entry(self.fresh(op, depth), first)
            self.operands.setdefault(signature, []).append(key)
        if first is None or entry.first is None:
            return Name(entry.number, None)
        return Name(entry.number, first - entry.first)

    def find(
        self, signature: Signature, choices: Sequence[Sequence[Any]], memory: Sequence[tuple[Name, ...]] = ((),)
    ) -> Names:
        """The names of an operation whose operands have the names given, each any of several, and which sees memory in
        one of the states given.
        """
        found = set()
        for seen in memory:
            for taken in self._taken(signature, [*choices, *([one] for one in seen)]):
                key, first, _ = self._normal(taken)
                entry = self.entries.get((signature, key))
                if entry is not None:
                    shift = None if first is None or entry.first is None else first - entry.first
                    found.add(Name(entry.number, shift))
        return frozenset(found)

    def tries(self, signature: Signature, choices: Sequence[Sequence[Any]]) -> int:
        """How many sets of operands `find` looks at for each state of memory: all combinations, or what is known."""
        return min(prod(map(len, choices)), len(self.operands.get(signature, ())))

    def _taken(self, signature: Signature, choices: Sequence[Sequence[Any]]) -> Iterator[Operands]:
        """Operands of which each is one of several, and which operations of the unscheduled program may take together.
        Values that are equal on some way, as sums of no iteration are, have many names, so that of their combinations
        few are looked at.
        """
        known = self.operands.get(signature, ())
        if prod(map(len, choices)) <= len(known):
            yield from product(*choices)
            return
        allowed = [frozenset(one) for one in choices]
        for key in known:
            if len(key) == len(allowed):
                _, first, depth = self._normal(key)
                shifts = {0} if first is None else self._shifts(choices, depth)
                for taken in (tuple(self._earlier(one, -shift, depth) for one in key) for shift in shifts):
                    if all(one in names for one, names in zip(taken, allowed, strict=True)):
                        yield taken

    def _shifts(self, choices: Sequence[Sequence[Any]], depth: int) -> set[int]:
        """In which iterations of the loop at a depth the values are that operands may be."""
        names = (name for operands in choices for name in _names(tuple(operands)))
        return {name.shift for name in names if name.shift is not None and self.depths[name.number] == depth}

    def moved(self, names: Names, iterations: int, depth: int) -> Names:
        """What is known, seen from so many iterations later of the loop at a depth; deeper ones begin anew."""
        depths = self.depths
        return frozenset(
            name if name.shift is None or depths[name.number] < depth else Name(name.number, name.shift - iterations)
            for name in names
            if name.shift is None or depths[name.number] <= depth
        )

    def settled(self, names: Names, depth: int) -> Names:
        """What of it still means something outside the loop at a depth."""
        depths = self.depths
        return frozenset(name for name in names if name.shift is None or depths[name.number] < depth)

    def _normal(self, operands: Operands) -> tuple[Operands, int | None, int]:
        """Operands seen from the iteration of the first one that changes with the innermost loop of all; that
        iteration, and the loop's depth.
        """
        first, depth = None, 0
        for number, shift in _names(operands):
            if shift is not None and self.depths[number] > depth:
                first, depth = shift, self.depths[number]
        if not first:
            return operands, first, depth
        return tuple(self._earlier(one, first, depth) for one in operands), first, depth

    def _earlier(self, operand: Any, iterations: int, depth: int) -> Any:
        """`earlier` for an operand: a name, or a name with the elements of it that an LDS read finds."""
        if isinstance(operand[0], Name):
            return self.earlier(operand[0], iterations, depth), operand[1]
        return self.earlier(operand, iterations, depth)

    def earlier(self, name: Name, iterations: int, depth: int) -> Name:
        """A name, seen from so many iterations later of the loop at a depth."""
        if name.shift is None or self.depths[name.number] != depth:
            return name
        return Name(name.number, name.shift - iterations)


def _names(operands: Operands) -> Iterator[Name]:
    for one in operands:
        yield one[0] if isinstance(one[0], Name) else one


NOALIAS = "llvm.noalias"


def memory_root(op: ir.Operation, function: ir.Operation) -> int | None:
    """The argument of the kernel whose memory a fragment touches, if nothing else points there; None: any memory, such
    as that of a pointer that memory holds.
    """
    if op.name in FLAGS:
        return None
    value: ir.Value = op.operands[1 if op.name in EFFECTS else 0]
    while not isinstance(value, ir.BlockArgument):
        owner = producer(value)
        if owner is None or (owner.name not in ADDRESSES and not hands_on(owner)):
            return None
        value = owner.operands[0]
    if value.owner != function.regions[0].blocks[0] or "arg_attrs" not in function.attributes:
        return None
    attributes = function.attributes["arg_attrs"][value.arg_number]
    return value.arg_number if NOALIAS in attributes else None


ADDRESSES = frozenset({
    "ck.make_view", "ck.make_window", "ck.move_window", "ck.with_digits", "llvm.getelementptr",
})  # fmt: skip
"""What points to the same memory as its first operand."""
SCALAR_LOAD = "llvm.load"
READS = frozenset({"ck.load_fragment", "ck.gather_fragment", "ck.copy_fragment", SCALAR_LOAD})
"""What reads memory."""
FLAGS = frozenset({"ck.set_flag", "ck.await_flag"})
"""What orders all accesses to memory: those before a flag is set, and those behind a wait for one, which may see what
other workgroups have written.
"""
UPDATES = frozenset({"ck.atomic_fragment", "ck.atomic_scatter_fragment"})
EFFECTS = frozenset({"ck.store_fragment", "ck.scatter_fragment"}) | UPDATES | FLAGS
"""What changes memory."""
NO_VALUE = frozenset({
    "ck.wait", "ck.barrier", "ck.group_barrier", "ck.sched_barrier", "ck.sched_group_barrier", "ck.priority",
    "ck.release", "ck.lds_alloc", "cf.br", "cf.cond_br", "func.return", "scf.yield", "scf.condition",
})  # fmt: skip
"""Operations that compute nothing, for the proof."""


def sees_effects(op: ir.Operation) -> bool:
    """Whether what an operation does depends on what others have done to memory; reads of what the kernel is known not
    to change do not.
    """
    return (op.name in READS and INVARIANT not in op.attributes) or op.name in EFFECTS
