"""Names for what the unscheduled program computes, found again in the scheduled one.

Every operation of the unscheduled program gets a number; operations that compute the same from the same get the same
one. The name of a value is `(number, shift)`: the value that the operation has in iteration t + shift of its loop,
where t is the iteration at which the surrounding code stands; the shift is None for what does not change from iteration
to iteration. A scheduled operation has a name exactly if its operands have names that some operation of the unscheduled
program takes together, all in one iteration. So a name proves that the value is right, whatever the schedule did.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any, NamedTuple

from ckmlir.dialect.build import producer
from ckmlir.mlir import ir

MOST_COMBINATIONS = 4096
"""Values with several names are tried in at most so many combinations."""


class Name(NamedTuple):
    """What a value is: a number of the table, and in which iteration (None: in all)."""

    number: int
    shift: int | None

    def moved(self, iterations: int) -> "Name":
        """The same value, seen from so many iterations later."""
        return self if self.shift is None else Name(self.number, self.shift - iterations)


Names = frozenset[Name]
Part = tuple[Names, int]
"""A part of an LDS tensor: what was written there, and the elements as bits."""
NOTHING: Names = frozenset()

SCHEDULING = frozenset({"ck.pinned", "ck.fences", "ck.stage", "ck.priority", "ck.apart"})
"""Attributes that say when something runs, not what it computes."""


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


@dataclass
class Table:
    """Numbers by signature and operands.

    Attributes:
        origin: for every number an operation (or loop) of the unscheduled program that it stands for.
        alike: operations of the unscheduled program by signature, with their operands, for messages.
    """

    entries: dict[tuple[Signature, Operands], Entry] = field(default_factory=dict)
    origin: dict[int, ir.Operation] = field(default_factory=dict)
    alike: dict[Signature, list[tuple[ir.Operation, Operands]]] = field(default_factory=dict)

    def fresh(self, origin: ir.Operation) -> int:
        """A number for a value that no operation computes, such as a loop's index."""
        number = len(self.origin)
        self.origin[number] = origin
        return number

    def define(self, op: ir.Operation, signature: Signature, operands: Operands) -> Name:
        """The name that an operation of the unscheduled program has in its own iteration."""
        key, first = _normal(operands)
        self.alike.setdefault(signature, []).append((op, operands))
        entry = self.entries.get((signature, key))
        if entry is None:
            entry = self.entries[signature, key] = Entry(self.fresh(op), first)
        if first is None or entry.first is None:
            return Name(entry.number, None)
        return Name(entry.number, first - entry.first)

    def find(self, signature: Signature, choices: Sequence[Sequence[Any]]) -> Names:
        """The names of an operation whose operands have the names given, each any of several."""
        found = set()
        for operands in islice(product(*choices), MOST_COMBINATIONS):
            key, first = _normal(operands)
            entry = self.entries.get((signature, key))
            if entry is not None:
                shift = None if first is None or entry.first is None else first - entry.first
                found.add(Name(entry.number, shift))
        return frozenset(found)


def _normal(operands: Operands) -> tuple[Operands, int | None]:
    """Operands seen from the iteration of the first one that has any, and that iteration."""
    first = next((name.shift for name in _names(operands) if name.shift is not None), None)
    if first is None or first == 0:
        return operands, first
    return tuple(
        (one[0].moved(first), one[1]) if isinstance(one[0], Name) else one.moved(first) for one in operands
    ), first


def _names(operands: Operands) -> Iterator[Name]:
    for one in operands:
        yield one[0] if isinstance(one[0], Name) else one


NOALIAS = "llvm.noalias"


def memory_root(op: ir.Operation, function: ir.Operation) -> int | None:
    """The argument of the kernel whose memory a fragment touches, if nothing else points there; None: any memory."""
    value: ir.Value | None = op.operands[0 if op.name in READS else 1]
    while value is not None and not isinstance(value, ir.BlockArgument):
        owner = producer(value)
        value = owner.operands[0] if owner is not None and len(owner.operands) else None
    if value is None or value.owner != function.regions[0].blocks[0] or "arg_attrs" not in function.attributes:
        return None
    attributes = function.attributes["arg_attrs"][value.arg_number]
    return value.arg_number if NOALIAS in attributes else None


READS = frozenset({"ck.load_fragment", "ck.gather_fragment", "ck.copy_fragment"})
"""What reads memory."""
EFFECTS = frozenset({"ck.store_fragment", "ck.scatter_fragment", "ck.atomic_fragment"})
"""What changes memory."""
NO_VALUE = frozenset({
    "ck.wait", "ck.barrier", "ck.group_barrier", "ck.sched_barrier", "ck.sched_group_barrier", "ck.priority",
    "ck.lds_alloc", "cf.br", "cf.cond_br", "func.return", "scf.yield",
})  # fmt: skip
"""Operations that compute nothing, for the proof."""
