"""The unscheduled program, numbered: what every operation is called, and what its loops do.

Loops are innermost ones, one after another. An LDS tensor that a loop reads is one that the same iteration has written,
or that was written before and not in the loop.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ckmlir.dialect.loop import LOOP
from ckmlir.mlir import ir
from ckmlir.passes.proof.finding import Finding, words_for
from ckmlir.passes.proof.footprints import elements_of, is_access, tensor_of, value_operands
from ckmlir.passes.proof.polynomial import Polynomial, add, constant, multiply, symbol
from ckmlir.passes.proof.terms import (
    EFFECTS,
    NO_VALUE,
    READS,
    Name,
    Operands,
    Signature,
    Table,
    memory_root,
    signature_of,
)  # fmt: skip

COPY = Signature("copy", (), ())
"""What a copy to LDS writes: the elements of its window, whichever lanes move them."""


class Unprovable(Exception):
    """The program is of a form that the proof does not cover; carries the finding."""

    def __init__(self, op: ir.Operation, message: str) -> None:
        self.finding = Finding("dependence", op, message)
        super().__init__(message)


@dataclass
class Loop:
    """A loop: numbers of its index, carried arguments and results; what it starts from and hands on."""

    op: ir.Operation
    index: int
    arguments: list[int]
    results: list[int]
    initial: list[Name]
    lower: Polynomial
    upper: Polynomial
    stride: Polynomial
    handed_on: list[Name] = field(default_factory=list)

    def arguments_handed(self, name: Name) -> Iterator[tuple[int, int]]:
        """The carried arguments that a value is handed on as, with the shift in which they are that value."""
        for argument, handed in self._handed.get(name.number, ()):
            if name.shift is not None and handed.shift is not None:
                yield argument, name.shift - handed.shift + 1

    def starting_with(self, name: Name) -> list[int]:
        """The carried arguments that a value starts."""
        return self._starting.get(name, [])

    @cached_property
    def _handed(self) -> dict[int, list[tuple[int, Name]]]:
        found: dict[int, list[tuple[int, Name]]] = {}
        for argument, handed in zip(self.arguments, self.handed_on, strict=True):
            found.setdefault(handed.number, []).append((argument, handed))
        return found

    @cached_property
    def _starting(self) -> dict[Name, list[int]]:
        found: dict[Name, list[int]] = {}
        for argument, initial in zip(self.arguments, self.initial, strict=True):
            found.setdefault(initial, []).append(argument)
        return found


@dataclass(frozen=True)
class Effect:
    """An operation that changes memory.

    Attributes:
        loop: the number of its loop, None outside.
        root: see `terms.memory_root`.
        before, during, after: numbers for memory that it has not changed yet, has changed up to an iteration, and will
            not change any more.
    """

    op: ir.Operation
    loop: int | None
    root: int | None
    before: int
    during: int
    after: int


class SourceProgram:
    """A numbered program.

    Attributes:
        table: of all operations.
        loops: in program order.
        effects: in program order; `effect_names` gives those that a name may stand for.
        returned: the names of what the function returns.

    Raises:
        Unprovable: it has loops in loops, or reads LDS in a way that the module's text excludes.
    """

    def __init__(self, function: ir.Operation) -> None:
        self.table = Table()
        self.loops: list[Loop] = []
        self.effects = [self._effect(op, loop, function) for op, loop in _effects(function)]
        self.effect_names: dict[int, list[int]] = {}
        self.returned: list[Name] = []
        self.function = function
        self._names: dict[ir.Value, Name] = {}
        self._scalars: dict[ir.Value, Polynomial] = {}
        self._written: dict[ir.Operation, list[tuple[Name, int]]] = {}
        self._done: set[int] = set()
        self._inside: int | None = None
        blocks = list(function.regions[0])
        if len(blocks) != 1:
            raise Unprovable(function, "the reference has branches already; it is the module before ck-pipeline-loops")
        self.arguments = [Name(self.table.fresh(function), None) for _ in blocks[0].arguments]
        self._names.update(zip(blocks[0].arguments, self.arguments, strict=True))
        for op in (view.operation for view in blocks[0]):
            self._number(op)

    def _effect(self, op: ir.Operation, loop: int | None, function: ir.Operation) -> Effect:
        before, during, after = (self.table.fresh(op) for _ in range(3))
        return Effect(op, loop, memory_root(op, function), before, during, after)

    # -- operations

    def _number(self, op: ir.Operation) -> None:
        if op.name == LOOP:
            self._loop(op)
        elif op.name == "ck.lds_alloc":
            self._written[op] = []
        elif op.name == "func.return":
            self.returned = [self._names[operand] for operand in op.operands]
        elif op.name not in NO_VALUE:
            if len(op.regions):
                raise Unprovable(
                    op, f"{words_for(op)} holds a region; proofs are about straight code and loops of stages"
                )
            self._name(op)

    def _name(self, op: ir.Operation) -> None:
        polynomial = scalar(op, self.polynomial)
        if polynomial is not None:
            self._scalars[op.results[0]] = polynomial
        signature, operands = signature_of(op), self._operands(op)
        if op.name == "ck.copy_fragment":
            signature = COPY
        name = self.table.define(op, signature, operands)
        if op.name in EFFECTS:
            number = next(index for index, effect in enumerate(self.effects) if effect.op == op)
            self.effect_names.setdefault(name.number, []).append(number)
            self._done.add(number)
        if is_access(op) and not op.results:
            self._write(op, name)
        for result in op.results:
            self._names[result] = name
        if len(op.results) > 1:
            raise Unprovable(op, f"{words_for(op)} has several results")

    def _operands(self, op: ir.Operation) -> Operands:
        values = [self._names[operand] for operand in value_operands(op)]
        if op.name == "ck.lds_read":
            return tuple(self._contents(op))
        if op.name in READS or op.name in EFFECTS:
            root = memory_root(op, self.function)
            values += [
                self._memory(index) for index, one in enumerate(self.effects) if meets(root, one) and one.op != op
            ]
        return tuple(values)

    def _memory(self, index: int) -> Name:
        effect, done = self.effects[index], index in self._done
        if effect.loop is not None and effect.loop == self._inside:
            return Name(effect.during, int(done))
        return Name(effect.after if done else effect.before, None)

    # -- LDS

    def _write(self, op: ir.Operation, name: Name) -> None:
        elements = elements_of(op)
        kept = [(other, mask & ~elements) for other, mask in self._written[tensor_of(op)] if mask & ~elements]
        self._written[tensor_of(op)] = [*kept, (name, elements)]

    def _contents(self, op: ir.Operation) -> list[tuple[Name, int]]:
        needed = elements_of(op)
        parts = [(name, mask & needed) for name, mask in self._written[tensor_of(op)] if mask & needed]
        if sum(mask for _, mask in parts) != needed:
            raise Unprovable(op, f"{words_for(op)} reads elements that the same iteration has not written before")
        return merged(parts)

    # -- loops

    def _loop(self, op: ir.Operation) -> None:
        if self._inside is not None:
            raise Unprovable(op, "a loop in a loop; proofs are about loops that hold none")
        body = op.regions[0].blocks[0]
        lower, upper, stride = (self.polynomial(operand) for operand in op.operands[:3])
        fresh = self.table.fresh
        loop = Loop(
            op, fresh(op), [fresh(op) for _ in op.results], [fresh(op) for _ in op.results],
            [self._names[operand] for operand in op.operands[3:]], lower, upper, stride,
        )  # fmt: skip
        self._inside = len(self.loops)
        self.loops.append(loop)
        outside = {tensor: list(parts) for tensor, parts in self._written.items()}
        for tensor in {tensor_of(one) for one in _operations(body) if is_access(one) and not one.results}:
            self._written[tensor] = []  # what another iteration wrote counts for nothing
        self._names.update(
            (argument, Name(number, 0))
            for argument, number in zip(body.arguments, [loop.index, *loop.arguments], strict=True)
        )
        *inside, last = _operations(body)
        for one in inside:
            self._number(one)
        loop.handed_on = [self._names[operand] for operand in last.operands]
        self._inside = None
        self._written = {
            tensor: outside.get(tensor, []) if parts == outside.get(tensor) else []
            for tensor, parts in self._written.items()
        }
        self._names.update(
            (result, Name(number, None)) for result, number in zip(op.results, loop.results, strict=True)
        )

    def polynomial(self, value: ir.Value) -> Polynomial:
        """What is known of an integer; an unknown of its own if nothing is."""
        found = self._scalars.get(value)
        return symbol(self._names[value]) if found is None else found


def scalar(op: ir.Operation, of: Callable[[ir.Value], Polynomial | None]) -> Polynomial | None:
    """The result of integer arithmetic on scalars as a polynomial; None for other operations, and unknown operands."""
    if len(op.results) != 1 or not isinstance(op.results[0].type, (ir.IntegerType, ir.IndexType)):
        return None
    if op.name == "arith.constant":
        attribute = op.attributes["value"]
        return constant(int(attribute.value)) if isinstance(attribute, ir.IntegerAttr) else None
    if op.name not in ("arith.addi", "arith.subi", "arith.muli"):
        return None
    left, right = (of(operand) for operand in op.operands)
    if left is None or right is None:
        return None
    return multiply(left, right) if op.name == "arith.muli" else add(left, right, -1 if op.name == "arith.subi" else 1)


def meets(root: int | None, effect: Effect) -> bool:
    """Whether an access to memory with this root may touch what an effect changes."""
    return root is None or effect.root is None or root == effect.root


def merged(parts: list[tuple[Name, int]]) -> list[tuple[Name, int]]:
    """Parts in the order of their elements, those with one name together."""
    found: dict[Name, int] = {}
    for name, mask in parts:
        found[name] = found.get(name, 0) | mask
    return sorted(found.items(), key=lambda part: part[1] & -part[1])


def _operations(block: ir.Block) -> list[ir.Operation]:
    return [view.operation for view in block]


def _effects(function: ir.Operation) -> Iterator[tuple[ir.Operation, int | None]]:
    loops = 0
    for op in _operations(function.regions[0].blocks[0]):
        if op.name == LOOP:
            yield from ((one, loops) for one in _operations(op.regions[0].blocks[0]) if one.name in EFFECTS)
            loops += 1
        elif op.name in EFFECTS:
            yield op, None
