"""What is known to divide the scalars that addresses are made of: tile origins, loop indices, lengths, strides.

A loop's index is a block argument that comes back increased by the step, so the answer is a fixed point: everything
that a value depends on starts as divisible by all numbers, and loses divisors until nothing changes. Scalars count
positions within tensors and do not overflow; powers of two would survive that, other divisors would not.

It reads structured loops and branches (scf) as well as a control-flow graph (cf), and also a function that is still
being written: what a loop hands on that has no end yet is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, lcm
from operator import lshift, mul
from typing import NamedTuple

from ckmlir.dialect.build import integer_of, producer
from ckmlir.dialect.control import end_of
from ckmlir.dialect.scalars import bits
from ckmlir.mlir import ir

Rule = Callable[..., int]
MOST_ALIGNED = 1 << 12
"""Bytes that the null pointer is said to be aligned to."""
CONSTANT = "arith.constant"
PROMISE = "ck.promise"
"""The operation by which a kernel's author says what the compiler cannot know."""
ARGUMENT_DIVISOR = "ck.divisor"
"""What divides an argument of a kernel, as its attribute: what is left of promises once they are recorded."""


def power_of_two(divisor: int) -> int:
    """The largest power of two in a divisor; 0 stays 0."""
    return divisor & -divisor


def _quotient(dividend: int, divisor: int) -> int:
    return dividend // divisor if divisor and dividend % divisor == 0 else 1


def _masked(left: int, right: int) -> int:
    """Low bits that are zero in either operand are zero in the result."""
    left, right = power_of_two(left), power_of_two(right)
    return 0 if 0 in (left, right) else max(left, right)


def _same(divisor: int) -> int:
    return divisor


RULES: dict[str, Rule] = {
    **dict.fromkeys(("arith.addi", "arith.subi", "arith.minsi", "arith.maxsi", "arith.minui", "arith.maxui"), gcd),
    **dict.fromkeys(("arith.remsi", "arith.remui"), gcd),
    **dict.fromkeys(("arith.extsi", "arith.extui"), _same),
    **dict.fromkeys(("arith.ori", "arith.xori"), lambda left, right: gcd(power_of_two(left), power_of_two(right))),
    "arith.trunci": power_of_two,
    "arith.andi": _masked,
    "arith.muli": mul,
    "arith.select": lambda _, left, right: gcd(left, right),
}
"""The divisor of a result from those of its operands; 0 is what everything divides."""
BY_CONSTANT: dict[str, Callable[[int, int], int]] = {
    **dict.fromkeys(("arith.divsi", "arith.divui", "arith.floordivsi", "arith.ceildivsi"), _quotient),
    "arith.shli": lshift,
    **dict.fromkeys(("arith.shrsi", "arith.shrui"), lambda divisor, places: _quotient(divisor, 1 << places)),
}
"""The divisor of a result from that of the first operand, where the second is a constant."""


class Divisors:
    """The known divisors of integers, found when asked for and remembered."""

    def __init__(self) -> None:
        self._found: dict[ir.Value, int] = {}

    def of(self, item: ir.Value) -> int:
        """A number that divides `item`; 1 where nothing is known, 0 for what is always 0."""
        if item not in self._found:
            self._solve(item)
        return self._found[item]

    def of_sum(self, items: Sequence[ir.Value]) -> int:
        """A number that divides each of `items`, and so their sum; 0 where all are 0."""
        return gcd(*(self.of(item) for item in items))

    def alignment(self, pointer: ir.Value) -> int:
        """Bytes that a pointer is known to be aligned to; 1 where nothing is known."""
        owner = producer(pointer)
        if owner is None:
            return _argument_alignment(ir.BlockArgument(pointer))
        if owner.name == PROMISE:
            return lcm(self.alignment(owner.operands[0]), integer_of(owner, "divisor"))
        if owner.name == "llvm.inline_asm":  # `Pointer.held`
            return self.alignment(owner.operands[0])
        if owner.name == "llvm.inttoptr":
            return self.of(owner.operands[0]) or MOST_ALIGNED
        if owner.name != "llvm.getelementptr" or len(owner.operands) != 2:
            return 1
        size = bits(owner.attributes["elem_type"].value) // 8
        return gcd(self.alignment(owner.operands[0]), size * self.of(owner.operands[1]))

    def _solve(self, item: ir.Value) -> None:
        """Find a value together with all that it depends on."""
        own = _known(item)
        if all(source in self._found for source in own.sources):
            self._found[item] = own.divisor([self._found[source] for source in own.sources])
            return
        depends = {item: own}
        waiting = list(own.sources)
        while waiting:
            current = waiting.pop()
            if current not in depends and current not in self._found:
                depends[current] = known = _known(current)
                waiting += known.sources
        self._found.update(dict.fromkeys(depends, 0))
        changed = True
        while changed:
            changed = False
            for current, known in reversed(depends.items()):  # what others depend on first
                divisor = known.divisor([self._found[source] for source in known.sources])
                changed |= divisor != self._found[current]
                self._found[current] = divisor


class _Known(NamedTuple):
    """What decides a value's divisors: operands, or what reaches it round a loop or from branches, and how."""

    sources: Sequence[ir.Value]
    divisor: Callable[[list[int]], int]
    """From the divisors of these."""


def _is(number: int) -> _Known:
    return _Known((), lambda _: number)


def _known(item: ir.Value) -> _Known:
    owner = producer(item)
    if owner is None:
        sources = _argument_sources(ir.BlockArgument(item))
        return _joint(sources) if sources else _is(1 if sources is None else _of_argument(item))
    name = owner.name
    if name == PROMISE:
        promised = integer_of(owner, "divisor")
        return _Known(list(owner.operands), lambda found: lcm(found[0], promised))
    if name in RULES:
        operands, rule = list(owner.operands), RULES[name]
        rest, count = _without_remainder(owner, name), len(operands)
        return _Known([*operands, *rest], lambda found: lcm(rule(*found[:count]), *found[count:]))
    if name in BY_CONSTANT:
        places, by = constant_of(owner.operands[1]), BY_CONSTANT[name]
        if places is None or places < 0:
            return _is(1)
        return _Known([owner.operands[0]], lambda found: by(found[0], places))
    if name in ("scf.for", "scf.if", "scf.while"):
        return _joint(_result_sources(owner, ir.OpResult(item).result_number))
    number = _number(owner) if name == CONSTANT else None
    return _is(1 if number is None else abs(number))


def _joint(sources: list[ir.Value] | None) -> _Known:
    """What is one of several values, or is not known."""
    return _is(1) if sources is None else _Known(sources, lambda found: gcd(*found))


def _without_remainder(owner: ir.Operation, name: str) -> list[ir.Value]:
    """The divisor d of x - x % d, which is a multiple of it; empty for any other operation."""
    rest = producer(owner.operands[1]) if name == "arith.subi" else None
    if rest is None or rest.name not in ("arith.remsi", "arith.remui") or rest.operands[0] != owner.operands[0]:
        return []
    return [rest.operands[1]]


def _result_sources(owner: ir.Operation, number: int) -> list[ir.Value] | None:
    """What a result of structured control may be."""
    if owner.name == "scf.for":
        return _joined([owner.operands[3 + number]], _handed_on(owner.regions[0], number))
    if owner.name == "scf.while":
        return _joined([], _handed_on(owner.regions[0], 1 + number))
    return _joined([], *(_handed_on(region, number) for region in owner.regions))


def _argument_sources(argument: ir.BlockArgument) -> list[ir.Value] | None:
    """What a block's argument may be."""
    block, number = argument.owner, argument.arg_number
    control = block.owner.operation
    if control.name == "scf.for":
        if number == 0:
            return [control.operands[0], control.operands[2]]
        return _joined([control.operands[2 + number]], _handed_on(control.regions[0], number - 1))
    if control.name == "scf.while":
        if block == control.regions[0].blocks[0]:
            return _joined([control.operands[number]], _handed_on(control.regions[1], number))
        return _joined([], _handed_on(control.regions[0], 1 + number))
    if control.name not in ("func.func", "llvm.func"):
        return None
    if block == control.regions[0].blocks[0]:
        return []
    handed = [operands[number] for operands in _branches_to(block, control)]
    return handed or None


def _joined(first: list[ir.Value], *others: ir.Value | None) -> list[ir.Value] | None:
    """All of them, None where one is not known."""
    found = list(first)
    for other in others:
        if other is None:
            return None
        found.append(other)
    return found


def _handed_on(region: ir.Region, number: int) -> ir.Value | None:
    """An operand of a block's terminator; None while the block has none."""
    last = _last(region.blocks[0]) if len(region.blocks) else None
    if last is None or last.name not in ("scf.yield", "scf.condition") or number >= len(last.operands):
        return None
    return last.operands[number]


def _branches_to(block: ir.Block, function: ir.Operation) -> list[list[ir.Value]]:
    """The operands that branches pass to a block, one list a branch."""
    found = []
    for other in function.regions[0]:
        branch = _last(other)
        if branch is None or branch.name not in ("cf.br", "cf.cond_br"):
            continue
        operands = list(branch.operands)
        if branch.name == "cf.br":
            parts = [operands]
        else:
            _, first, _ = ir.DenseI32ArrayAttr(branch.attributes["operandSegmentSizes"])
            parts = [operands[1 : 1 + first], operands[1 + first :]]
        found += [part for successor, part in zip(branch.successors, parts, strict=True) if successor == block]
    return found


def _argument_alignment(argument: ir.BlockArgument) -> int:
    """Bytes that the function says an argument of its own is aligned to."""
    return _argument_number(argument, "llvm.align")


def _of_argument(item: ir.Value) -> int:
    """What the function says divides an argument of its own."""
    return _argument_number(ir.BlockArgument(item), ARGUMENT_DIVISOR) if producer(item) is None else 0


def _argument_number(argument: ir.BlockArgument, name: str) -> int:
    """A number that the function says of an argument of its own; 1 where it says none."""
    function = argument.owner.owner.operation
    if function.name != "func.func" or argument.owner != function.regions[0].blocks[0]:
        return 1
    if "arg_attrs" not in function.attributes:
        return 1
    attributes = ir.ArrayAttr(function.attributes["arg_attrs"])[argument.arg_number]
    return int(attributes[name].value) if name in attributes else 1


def constant_of(item: ir.Value) -> int | None:
    """The value of an integer arith.constant, None for anything else."""
    owner = producer(item)
    return None if owner is None or owner.name != CONSTANT else _number(owner)


def _number(owner: ir.Operation) -> int | None:
    """What a constant is, if it is an integer."""
    attribute = owner.attributes["value"]
    return int(attribute.value) if isinstance(attribute, ir.IntegerAttr) else None


def _last(block: ir.Block) -> ir.Operation | None:
    """A block's last operation, without a look at the others; None while it has none."""
    return end_of(block) if len(block.operations) else None
