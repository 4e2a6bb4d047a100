"""What is known to divide the scalars that addresses are made of: tile origins, loop indices.

A loop's index is a block argument that comes back increased by the step, so the answer is a fixed point: everything
that a value depends on starts as divisible by all numbers, and loses divisors until nothing changes. Scalars count
positions within tensors and do not overflow.
"""

from collections.abc import Callable
from math import gcd

from ckmlir.dialect.build import producer
from ckmlir.mlir import ir

Rule = Callable[..., int]

RULES: dict[str, Rule] = {
    **dict.fromkeys(("arith.addi", "arith.subi", "arith.minsi", "arith.maxsi", "arith.minui", "arith.maxui"), gcd),
    "arith.muli": lambda left, right: left * right,
    "arith.select": lambda _, left, right: gcd(left, right),
}
"""The divisor of a result from those of its operands; 0 is what everything divides."""


class Divisors:
    """The known divisors of a function's integers, found when asked for and remembered."""

    def __init__(self, function: ir.Operation) -> None:
        self._function = function
        self._found: dict[ir.Value, int] = {}

    def of(self, item: ir.Value) -> int:
        """A number that divides `item`; 1 where nothing is known, 0 for what is always 0."""
        if item not in self._found:
            self._solve(item)
        return self._found[item]

    def _solve(self, item: ir.Value) -> None:
        """Find a value together with all that it depends on."""
        depends: dict[ir.Value, list[ir.Value]] = {}
        waiting = [item]
        while waiting:
            current = waiting.pop()
            if current not in depends and current not in self._found:
                depends[current] = self._sources(current)
                waiting += depends[current]
        self._found.update(dict.fromkeys(depends, 0))
        changed = True
        while changed:
            changed = False
            for current, sources in depends.items():
                divisor = self._evaluate(current, [self._found[source] for source in sources])
                changed |= divisor != self._found[current]
                self._found[current] = divisor

    def _sources(self, item: ir.Value) -> list[ir.Value]:
        """What decides a value's divisors: operands, or what predecessors hand to a block argument."""
        owner = producer(item)
        if owner is not None:
            return list(owner.operands) if owner.name in RULES else []
        argument = ir.BlockArgument(item)
        return [operands[argument.arg_number] for operands in self._handed_to(argument.owner)]

    def _evaluate(self, item: ir.Value, sources: list[int]) -> int:
        owner = producer(item)
        if owner is None:
            return gcd(*sources) if sources else 1
        number = constant_of(item)
        if number is not None:
            return abs(number)
        rule = RULES.get(owner.name)
        return 1 if rule is None else rule(*sources)

    def _handed_to(self, block: ir.Block) -> list[list[ir.Value]]:
        """The operands that branches pass to a block, one list a branch."""
        found = []
        for other in self._function.regions[0]:
            branch = list(other.operations)[-1].operation
            operands = list(branch.operands)
            if branch.name == "cf.br":
                parts = [operands]
            elif branch.name == "cf.cond_br":
                _, first, _ = ir.DenseI32ArrayAttr(branch.attributes["operandSegmentSizes"])
                parts = [operands[1 : 1 + first], operands[1 + first :]]
            else:
                continue
            found += [part for successor, part in zip(branch.successors, parts, strict=True) if successor == block]
        return found


def constant_of(item: ir.Value) -> int | None:
    """The value of an integer arith.constant, None for anything else."""
    owner = producer(item)
    if owner is None or owner.name != "arith.constant":
        return None
    attribute = owner.attributes["value"]
    return int(attribute.value) if isinstance(attribute, ir.IntegerAttr) else None
