"""An interpreter of functions on 32-bit integers with loops, branches, memory and LDS, before and after a schedule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ckmlir.mlir import ir

MASK = (1 << 32) - 1
POISON = "poison"


def signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number


def arithmetic(left: Any, right: Any, function: Any) -> Any:
    return POISON if POISON in (left, right) else function(left, right) & MASK


PREDICATES = {0: lambda a, b: a == b, 2: lambda a, b: signed(a) < signed(b)}  # arith's numbers for eq and slt
ARITHMETIC = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.xori": lambda a, b: a ^ b,
    "arith.divui": lambda a, b: a // b,
    "arith.remui": lambda a, b: a % b,
    "arith.minsi": lambda a, b: a if signed(a) < signed(b) else b,
}
# Vectors have one element, views one address.
SAME = ("vector.broadcast", "vector.extract", "ck.make_view", "llvm.inttoptr")


@dataclass
class Machine:
    """Interprets a function of one-element vectors; loads give a number that depends on the window's origin."""

    valid: range
    """Origins that a load may ask for."""
    values: dict[ir.Value, Any] = field(default_factory=dict)
    lds: dict[ir.Value, Any] = field(default_factory=dict)
    order: list[tuple[str, Any]] = field(default_factory=list)
    """Global loads, as (operation, origin), in the order in which they happen."""

    def call(self, function: ir.Operation, arguments: list[int]) -> list[Any]:
        block = function.regions[0].blocks[0]
        self.values.update(zip(block.arguments, arguments, strict=True))
        while True:
            for op in (op.operation for op in block.operations):
                if op.name == "func.return":
                    return [self.values[value] for value in op.operands]
                if op.name in ("cf.br", "cf.cond_br"):
                    block = self.branch(op)
                    break
                self.execute(op)

    def branch(self, op: ir.Operation) -> ir.Block:
        operands = [self.values[value] for value in op.operands]
        target = op.successors[0]
        if op.name == "cf.cond_br":
            _, yes, _ = op.attributes["operandSegmentSizes"]
            condition, operands = operands[0], operands[1:]
            assert condition != POISON, "a branch on a value that does not exist"
            target, operands = (target, operands[:yes]) if condition else (op.successors[1], operands[yes:])
        self.values.update(zip(target.arguments, operands, strict=True))
        return target

    def execute(self, op: ir.Operation) -> None:
        operands = [self.values[value] for value in op.operands if value in self.values]
        if op.name in ARITHMETIC:
            self.values[op.results[0]] = arithmetic(*operands, ARITHMETIC[op.name])
        elif op.name == "arith.constant":
            self.values[op.results[0]] = int(op.attributes["value"].value) & MASK
        elif op.name == "arith.cmpi":
            self.values[op.results[0]] = int(PREDICATES[int(op.attributes["predicate"].value)](*operands))
        elif op.name in SAME:
            self.values[op.results[0]] = operands[0]
        elif op.name == "ub.poison":
            self.values[op.results[0]] = POISON
        elif op.name == "ck.make_window":
            self.values[op.results[0]] = operands[1]
        elif op.name == "ck.load_fragment":
            assert operands[0] == POISON or operands[0] in self.valid, f"a load outside the tensor, at {operands[0]}"
            self.order.append((op.name, operands[0]))
            self.values[op.results[0]] = arithmetic(operands[0], operands[0], lambda a, _: a * 2654435761 + 12345)
        elif op.name == "ck.lds_alloc":
            self.lds[op.results[0]] = POISON
        elif op.name == "ck.lds_write":
            self.lds[op.operands[1]] = operands[0]
        elif op.name == "ck.lds_read":
            self.values[op.results[0]] = self.lds[op.operands[0]]
        elif op.name == "scf.for":
            self.loop(op)
        else:
            raise AssertionError(f"the interpreter does not know {op.name}")

    def loop(self, op: ir.Operation) -> None:
        index, upper, step, *carried = (self.values[value] for value in op.operands)
        block = op.regions[0].blocks[0]
        while signed(index) < signed(upper):
            self.values.update(zip(block.arguments, [index, *carried], strict=True))
            *body, end = (inner.operation for inner in block.operations)
            for inner in body:
                self.execute(inner)
            carried = [self.values[value] for value in end.operands]
            index += step
        self.values.update(zip(op.results, carried, strict=True))


def run(module: ir.Module, lower: int, trips: int, step: int, initial: list[int]) -> tuple[list[Any], Machine]:
    upper = lower + trips * step - (step - 1 if trips else 0)  # the last step may be cut short
    machine = Machine(range(lower, lower + max(trips, 1) * step, step))
    function = module.body.operations[0].operation
    return machine.call(function, [lower, upper, step, *initial, 0]), machine
