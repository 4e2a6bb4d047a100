"""Promises that a kernel relies upon, evaluated beside its run.

A kernel's author may promise what the compiler cannot know, such as a stride that is a multiple of 8. The compiler uses
it and leaves in the code object's metadata what computes the value: a program of scalars, whose statements
`ckmlir/passes/record_promises.py` describes. It is evaluated here for every workgroup of a launch, before the kernel
runs, from the arguments and from what memory holds then.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from msgspec import Struct, field

from ckmlir.codeobject import CodeObjectError, Kernel
from ckmlir.sim.checks.finding import Finding
from ckmlir.sim.memory import MemoryTable

PASSES = 1 << 20
"""Times that loops without a count go round for one workgroup; what waits for other kernels would go round for ever."""

Statement = Sequence[Any]


def _quotient(left: int, right: int) -> int:
    return (abs(left) // abs(right)) * (1 if (left < 0) == (right < 0) else -1)


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b, "subi": lambda a, b: a - b, "muli": lambda a, b: a * b,
    "divsi": _quotient, "remsi": lambda a, b: a - b * _quotient(a, b), "minsi": min, "maxsi": max,
    "andi": lambda a, b: a & b, "ori": lambda a, b: a | b, "xori": lambda a, b: a ^ b,
    "shli": lambda a, b: a << b, "shrsi": lambda a, b: a >> b,
}  # fmt: skip
"""Of signed numbers."""
UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "divui": lambda a, b: a // b, "remui": lambda a, b: a % b, "minui": min, "maxui": max, "shrui": lambda a, b: a >> b,
}  # fmt: skip
COMPARISONS: dict[int, Callable[[int, int], bool]] = {
    0: lambda a, b: a == b, 1: lambda a, b: a != b, 2: lambda a, b: a < b, 3: lambda a, b: a <= b,
    4: lambda a, b: a > b, 5: lambda a, b: a >= b,
}  # fmt: skip
"""By MLIR's number of the predicate; 6 to 9 are 2 to 5 of unsigned numbers."""


class _Undecided(Exception):
    """A loop does not end by what is known."""


def broken_promises(
    kernel: Kernel,
    arguments: bytes,
    grid: Sequence[int],
    table: MemoryTable,
) -> list[Finding]:
    """A finding for each promise of a kernel that a launch does not keep, at the line that makes it.

    Args:
        arguments: The kernel argument segment.
        grid: Workgroups in x, y, z.
        table: The memory that the kernel may read.

    Raises:
        CodeObjectError: what the metadata says is not such a program.
    """
    program = kernel.metadata.notes.get("promises")
    if not program:
        return []
    groups: Iterator[tuple[int, ...]] = product(*(range(count) for count in reversed(grid)))
    if "'workgroup'" not in str(program):  # the same for all
        groups = iter([(0, 0, 0)])
    found: dict[tuple[Any, ...], Finding] = {}
    try:
        for group in groups:
            place = (group[2], group[1], group[0])
            run = _Run(kernel, arguments, place, table, found)
            try:
                run.block(program)
            except _Undecided:
                continue
    except (TypeError, ValueError, IndexError, KeyError, ZeroDivisionError, OverflowError) as error:
        raise CodeObjectError(f"damaged code object: the promises of {kernel.name} cannot be read ({error})") from error
    return list(found.values())


class _Run(Struct):
    """One workgroup's evaluation."""

    kernel: Kernel
    arguments: bytes
    workgroup: tuple[int, int, int]
    table: MemoryTable
    found: dict[tuple[Any, ...], Finding]
    values: dict[int, int | None] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    """The arguments' names, by value."""
    passes: int = 0

    def block(self, statements: Sequence[Statement]) -> None:
        for word, *rest in statements:
            STATEMENTS[word](self, *rest)

    def all(self, numbers: Sequence[int]) -> list[int | None]:
        return [self.values.get(number) for number in numbers]

    def give(self, numbers: Sequence[int], values: Sequence[int | None]) -> None:
        self.values.update(zip(numbers, values, strict=True))

    # -- values

    def define(self, number: int, what: str, *rest: Any) -> None:
        self.values[number] = self._value(number, what, *rest)

    def _value(self, number: int, what: str, *rest: Any) -> int | None:
        if what == "constant":
            return int(rest[0])
        if what == "argument":
            argument = self.kernel.arguments[rest[0]]
            self.names[number] = argument.name
            data = self.arguments[argument.offset : argument.offset + argument.size]
            return int.from_bytes(data, "little", signed=argument.value_kind == "by_value")
        if what == "workgroup":
            return self.workgroup[rest[0]]
        size, *operands = rest
        known = self.all(operands)
        if what == "select":
            return None if known[0] is None else known[1 if known[0] else 2]
        if any(one is None for one in known):
            return None
        operand = [one for one in known if one is not None]
        if what == "load":
            return self._load(size, operand[0])
        return _computed(what, size, operand)

    def _load(self, size: int, address: int) -> int | None:
        allocation = self.table.find(address)
        if allocation is None or not allocation.contains(address + size - 1):
            return None
        return int.from_bytes(ctypes.string_at(address, size), "little", signed=True)

    # -- control

    def loop(
        self, index: int, lower: int, upper: int, step: int, carried: Sequence[Sequence[int]],
        body: Sequence[Statement], handed: Sequence[int], results: Sequence[int],
    ) -> None:  # fmt: skip
        first, last, by = self.all([lower, upper, step])
        arguments = [argument for argument, _ in carried]
        values = self.all([initial for _, initial in carried])
        if first is None or last is None or by is None or by < 1:
            self.give(results, [None] * len(results))
            return
        for place in range(first, last, by):
            self.values[index] = place
            self.give(arguments, values)
            self.block(body)
            values = self.all(handed)
        self.give(results, values)

    def branch(
        self, condition: int, yes: Sequence[Statement], given: Sequence[int], no: Sequence[Statement],
        otherwise: Sequence[int], results: Sequence[int],
    ) -> None:  # fmt: skip
        holds = self.values.get(condition)
        if holds is None:
            self.give(results, [None] * len(results))
            return
        self.block(yes if holds else no)
        self.give(results, self.all(given if holds else otherwise))

    def repeat(
        self, carried: Sequence[Sequence[int]], deciding: Sequence[Statement], condition: int, passed: Sequence[int],
        taken: Sequence[int], body: Sequence[Statement], handed: Sequence[int], results: Sequence[int],
    ) -> None:  # fmt: skip
        arguments = [argument for argument, _ in carried]
        values = self.all([initial for _, initial in carried])
        while True:
            self.give(arguments, values)
            self.block(deciding)
            goes_on = self.values.get(condition)
            if not goes_on:
                self.give(results, [None] * len(results) if goes_on is None else self.all(passed))
                return
            self.passes += 1
            if self.passes > PASSES:
                raise _Undecided
            self.give(taken, self.all(passed))
            self.block(body)
            values = self.all(handed)

    # -- promises

    def multiple(self, number: int, divisor: int, file: str, line: int) -> None:
        value = self.values.get(number)
        if value is not None and value % divisor:
            name = self.names.get(number)
            shown = hex(value) if value >= 1 << 40 else str(value)  # an address
            what = f"{name} = {shown}" if name else shown
            self._report(f"{what} was promised to be a multiple of {divisor}", divisor, file, line)

    def near(self, number: int, most: int, file: str, line: int) -> None:
        value = self.values.get(number)
        if value is not None and value > most:
            what = f"what is indexed here takes {value} bytes, and near addresses reach {most}; they need reach=\"far\""
            self._report(what, "near", file, line)

    def _report(self, message: str, key: Any, file: str, line: int) -> None:
        if (file, line, key) not in self.found:
            source = (file, line) if file else None
            self.found[file, line, key] = Finding("promise", message, self.kernel.name, 0, "", source, self.workgroup)


STATEMENTS: dict[str, Callable[..., None]] = {
    "is": _Run.define, "for": _Run.loop, "if": _Run.branch, "while": _Run.repeat, "multiple": _Run.multiple,
    "near": _Run.near,
}  # fmt: skip


def _computed(what: str, size: int, operand: Sequence[int]) -> int | None:
    """An operation on integers of so many bits, signed; None for what has no result, such as a division by 0."""
    if what == "address":
        return operand[0] + size * operand[1]
    if what in ("extsi", "extui"):
        return operand[0] if what == "extsi" else operand[0] & ((1 << size) - 1)
    left, right = operand if len(operand) == 2 else (operand[0], 0)
    mask = (1 << size) - 1
    name, _, predicate = what.partition(" ")
    if name == "cmpi":
        code = int(predicate)
        pair = (left & mask, right & mask) if code > 5 else (left, right)
        return int(COMPARISONS[code - 4 if code > 5 else code](*pair))
    if name == "trunci":
        result = left
    elif name in UNSIGNED:
        right &= mask
        if right == 0 and name in ("divui", "remui"):
            return None
        result = UNSIGNED[name](left & mask, right)
    else:
        if (right == 0 and name in ("divsi", "remsi")) or (name.startswith("sh") and not 0 <= right < size):
            return None
        result = OPERATIONS[name](left, right)
    result &= mask
    return result - (1 << size) if size > 1 and result >> (size - 1) else result
