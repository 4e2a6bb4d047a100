"""Take promises out of the program, and keep what evaluates them: they cost nothing, and a checked run tests them.

What a kernel's author promises (`Scalar.multiple_of`) is a statement on scalars, and scalars of a kernel follow from
its arguments, the workgroup's position, and memory that it does not change. So the part of the kernel that computes
them is written down as data, the attribute `ck.promises`, which travels in the code object's metadata. The simulator's
checker `promise` evaluates it for every workgroup beside the run of the kernel itself, whose code stays as it is.

The data is a list of statements, each a list that begins with a word; values have numbers.

    [is, value, operation, bits, operand, …]                an operation of arith on integers, without its prefix
    [is, value, "constant" | "argument" | "workgroup", number]
    [is, value, "load", bytes, pointer]                     [is, value, "address", bytes, pointer, index]
    [for, index, lower, upper, step, carried, body, handed on, results]       carried: [argument, initial value] each
    [if, condition, arm, results, arm, results, results]    an arm is statements, and the values that leave it
    [while, carried, deciding, condition, passed, arguments, body, handed on, results]
    [multiple, value, divisor, file, line]                  a promise
    [near, value, bytes, file, line]                        an access relies on a view of `value` bytes being no larger

A value that no statement makes is not known, and what depends on it is not tested: what comes out of a tile, or memory
that the kernel may write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any, ClassVar

from msgspec import Struct, field

from ckmlir.diagnostics import position_of
from ckmlir.dialect.build import integer, integer_of, producer
from ckmlir.dialect.control import end_of
from ckmlir.dialect.divisors import ARGUMENT_DIVISOR, constant_of
from ckmlir.dialect.notes import PROMISES, leave_note
from ckmlir.dialect.reach import NEAR_BYTES
from ckmlir.dialect.scalars import bits, name_of
from ckmlir.dialect.views import view_and_origins
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass
from ckmlir.passes.promised_reach import WINDOWS, extent_of, sizes_of, window_of
from ckmlir.passes.walk import blocks_of, functions, listed

ARITHMETIC = frozenset(
    f"arith.{name}"
    for name in (
        "addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "minsi", "maxsi", "minui", "maxui", "andi", "ori",
        "xori", "shli", "shrsi", "shrui", "extsi", "extui", "trunci", "select", "cmpi",
    )
)  # fmt: skip
MAKERS = ARITHMETIC | {
    "arith.constant", "ck.promise", "ck.workgroup_id", "llvm.getelementptr", "llvm.inttoptr", "llvm.load",
}  # fmt: skip
"""Operations with one result that follows from their operands, if their types and attributes allow it."""
PROMISE = "ck.promise"
CONTROL = ("scf.for", "scf.if", "scf.while")


@dataclass(frozen=True)
class RecordPromises(Pass):
    """Replace promises by what was promised of, and keep what evaluates them beside the program."""

    name: ClassVar[str] = "ck-record-promises"
    keeps_lists: ClassVar[bool] = True

    def apply(self, module: ir.Module) -> None:
        for function in functions(module):
            promises, near, blocks = [], _Near(), blocks_of(function)
            for op in listed(function):
                name = op.name
                if name == PROMISE:
                    promises.append(op)
                elif name in WINDOWS:
                    near.note(op)
            if not promises and not near.accesses:
                continue
            statements = _Recorder(promises, near.accesses).statements(function.regions[0].blocks[0], blocks[0])
            leave_note(function, PROMISES, statements)
            _keep_divisors(function, promises)
            for block in blocks:
                block[:] = [op for op in block if op.name != PROMISE]
            for op in promises:
                op.results[0].replace_all_uses_with(op.operands[0])
                op.erase()


def _keep_divisors(function: ir.Operation, promises: Sequence[ir.Operation]) -> None:
    """Leave what is promised of arguments with the arguments, where the promise is made whatever the kernel does."""
    entry = function.regions[0].blocks[0]
    found: dict[int, int] = {}
    for promise in promises:
        item = promise.operands[0]
        if promise.block == entry and producer(item) is None and name_of(item.type) in ("i32", "i64"):
            number = ir.BlockArgument(item).arg_number
            found[number] = lcm(found.get(number, 1), integer_of(promise, "divisor"))
    if found:
        known = function.attributes
        said = list(known["arg_attrs"]) if "arg_attrs" in known else [ir.DictAttr.get({})] * len(entry.arguments)
        for number, divisor in found.items():
            own = {item.name: item.attr for item in ir.DictAttr(said[number])}
            said[number] = ir.DictAttr.get({**own, ARGUMENT_DIVISOR: integer(divisor)})
        known["arg_attrs"] = ir.ArrayAttr.get(said)


class _Near(Struct):
    """The accesses that rely on a view being near: one of each view at each line."""

    accesses: dict[ir.Operation, ir.Value] = field(default_factory=dict)
    """With their windows."""
    _known: set[Any] = field(default_factory=set)

    def note(self, op: ir.Operation) -> None:
        window = window_of(op)
        if window is not None:
            key = (view_and_origins(window)[0], str(op.location))
            if key not in self._known:
                self._known.add(key)
                self.accesses[op] = window


class _Recorder(Struct):
    """Writes down what the promises of a kernel need."""

    promises: Sequence[ir.Operation]
    near: Mapping[ir.Operation, ir.Value]
    needed: set[ir.Value] = field(default_factory=set)
    inside: set[ir.Operation] = field(default_factory=set)
    """Structured control that holds something needed."""
    numbers: dict[Any, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        waiting: list[ir.Value] = []
        for promise in self.promises:
            waiting += [promise.operands[0], *self._around(promise)]
        for access, window in self.near.items():
            waiting += [*sizes_of(window), *self._around(access)]
        while waiting:
            item = waiting.pop()
            if item not in self.needed:
                self.needed.add(item)
                waiting += self._sources(item)

    def _around(self, op: ir.Operation) -> list[ir.Value]:
        """What decides whether, and how often, the control around an operation runs it."""
        found: list[ir.Value] = []
        parent = op.parent.operation
        while parent.name in CONTROL:
            if parent in self.inside:
                break
            self.inside.add(parent)
            found += _deciding(parent)
            parent = parent.parent.operation
        return found

    def _sources(self, item: ir.Value) -> list[ir.Value]:
        owner = producer(item)
        if owner is None:
            argument = ir.BlockArgument(item)
            control = argument.owner.owner.operation
            if control.name not in CONTROL:
                return []
            self.inside.add(control)
            return [*_round(control, item), *_deciding(control), *self._around(control)]
        around = self._around(owner)
        if owner.name in CONTROL:
            self.inside.add(owner)
            return [*_leaving(owner, ir.OpResult(item).result_number), *_deciding(owner), *around]
        return [*owner.operands, *around] if _is_known(owner) else around

    def number(self, item: Any) -> int:
        return self.numbers.setdefault(item, len(self.numbers))

    def all(self, items: Sequence[ir.Value]) -> list[int]:
        return [self.number(item) for item in items]

    def statements(self, block: ir.Block, listed: Sequence[ir.Operation] | None = None) -> list[Any]:
        """What a block says of needed values; `listed`: its operations, where somebody has them."""
        found: list[Any] = []
        if block.owner.operation.name == "func.func":
            for argument in block.arguments:
                if argument in self.needed:
                    found.append(["is", self.number(argument), "argument", argument.arg_number])
        for op in [view.operation for view in block] if listed is None else listed:
            name = op.name
            if name in CONTROL:
                if op in self.inside:
                    found.append(self._control(op))
            elif name == PROMISE:
                found.append(["multiple", self.number(op.operands[0]), integer_of(op, "divisor"), *_position(op)])
                if op.results[0] in self.needed:
                    self.numbers[op.results[0]] = self.number(op.operands[0])
            elif name in MAKERS:
                if op.results[0] in self.needed and _is_known(op):
                    found.append(["is", self.number(op.results[0]), *self._operation(op)])
            elif self.near and op in self.near:
                extent, number = extent_of(self.near[op], self.number)
                found += [*extent, ["near", number, NEAR_BYTES, *_position(op)]]
        return found

    def _operation(self, op: ir.Operation) -> list[Any]:
        operands = self.all(op.operands)
        if op.name == "arith.constant":
            return ["constant", constant_of(op.results[0])]
        if op.name == "ck.workgroup_id":
            return ["workgroup", integer_of(op, "axis")]
        if op.name == "llvm.load":
            return ["load", bits(op.results[0].type) // 8, *operands]
        if op.name == "llvm.inttoptr":
            return ["extui", 64, *operands]
        if op.name == "llvm.getelementptr":
            return ["address", bits(op.attributes["elem_type"].value) // 8, *operands]
        name = op.name.removeprefix("arith.")
        if name == "cmpi":
            name += f" {op.attributes['predicate'].value}"
        width = bits(op.operands[0].type if name.startswith(("cmpi", "ext")) else op.results[0].type)
        return [name, width, *operands]

    def _control(self, op: ir.Operation) -> list[Any]:
        blocks = [region.blocks[0] if len(region.blocks) else None for region in op.regions]
        parts = [(self.statements(block), self.all(_end(block).operands)) if block else ([], []) for block in blocks]
        results = self.all(op.results)
        if op.name == "scf.if":
            return ["if", self.number(op.operands[0]), *parts[0], *parts[1], results]
        first = blocks[0]
        assert first is not None
        if op.name == "scf.for":
            lower, upper, step, *initial = self.all(op.operands)
            index, *arguments = self.all(first.arguments)
            carried = [list(pair) for pair in zip(arguments, initial, strict=True)]
            return ["for", index, lower, upper, step, carried, *parts[0], results]
        carried = [list(pair) for pair in zip(self.all(first.arguments), self.all(op.operands), strict=True)]
        (deciding, (condition, *passed)), (body, handed) = parts
        second = blocks[1]
        assert second is not None
        return ["while", carried, deciding, condition, passed, self.all(second.arguments), body, handed, results]


def _position(op: ir.Operation) -> list[Any]:
    place = position_of(op.location)
    return [place.file, place.line] if place else ["", 0]


def _is_known(op: ir.Operation) -> bool:
    """Whether an operation's result follows from its operands, by the rules of the data."""
    if op.name in ("ck.workgroup_id", "ck.promise", "llvm.inttoptr"):
        return True
    if op.name == "arith.constant":
        return constant_of(op.results[0]) is not None
    if op.name == "llvm.load":
        return "invariant" in op.attributes and name_of(op.results[0].type) in ("i32", "i64")
    if op.name == "llvm.getelementptr":
        return len(op.operands) == 2
    return op.name in ARITHMETIC and name_of(op.results[0].type) in ("i1", "i32", "i64")


def _end(block: ir.Block) -> ir.Operation:
    return end_of(block)


def _deciding(control: ir.Operation) -> list[ir.Value]:
    """How often structured control runs what it holds."""
    if control.name == "scf.while":
        return [_end(control.regions[0].blocks[0]).operands[0]]
    return list(control.operands)[: 3 if control.name == "scf.for" else 1]


def _round(control: ir.Operation, argument: ir.Value) -> list[ir.Value]:
    """What a block's argument of a loop may be."""
    number = ir.BlockArgument(argument).arg_number
    if control.name == "scf.for":
        end = _end(control.regions[0].blocks[0]).operands
        return [] if number == 0 else [control.operands[2 + number], end[number - 1]]
    first, second = (_end(region.blocks[0]).operands for region in control.regions)
    if argument.owner == control.regions[0].blocks[0]:
        return [control.operands[number], second[number]]
    return [first[1 + number]]


def _leaving(control: ir.Operation, number: int) -> list[ir.Value]:
    """What a result of structured control may be."""
    if control.name == "scf.while":
        return [_end(control.regions[0].blocks[0]).operands[1 + number]]
    ends = [_end(region.blocks[0]).operands[number] for region in control.regions]
    return [*ends, control.operands[3 + number]] if control.name == "scf.for" else ends
