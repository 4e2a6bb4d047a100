"""Between which numbers integers lie: each rule against all operands of a few bits."""

from __future__ import annotations

from itertools import product

import pytest

from ckmlir.dialect.ranges import RULES, Range, range_of
from ckmlir.mlir import ir

EXACT = {
    "arith.addi": lambda a, b: a + b,
    "arith.minsi": min,
    "arith.maxsi": max,
    "arith.andi": lambda a, b: a & b,
    "arith.minui": lambda a, b: min(a, b, key=lambda one: one % 256),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_rule_holds_for_all_numbers(name: str) -> None:
    """Between any two ends, also on both sides of 0."""
    for a, b, c, d in product(range(-4, 5), repeat=4):
        if a <= b and c <= d:
            found = RULES[name](Range(a, b), Range(c, d))
            results = [EXACT[name](one, other) for one in range(a, b + 1) for other in range(c, d + 1)]
            assert found.least <= min(results) and max(results) <= found.most


FUNCTION = """
func.func @f(%c: i1, %a: i32, %b: i32) {
  %n5 = arith.constant -5 : i32
  %n64 = arith.constant 64 : i32
  %most = arith.constant 2147483647 : i32
  %masked = arith.andi %a, %n64 : i32
  %least = arith.minui %n64, %b : i32
  %sum = arith.addi %masked, %least : i32
  %beyond = arith.addi %sum, %most : i32
  %upper = arith.minsi %a, %n64 : i32
  %between = arith.maxsi %upper, %n5 : i32
  %chosen = arith.select %c, %sum, %between : i32
  %larger = arith.maxsi %a, %b : i32
  %left = arith.subi %larger, %b : i32
  %right = arith.subi %b, %larger : i32
  return
}
"""


def test_ranges_of_arithmetic(context: ir.Context) -> None:
    """What may overflow, and what nothing is known of, lies anywhere; a difference from the larger of two is none
    below 0."""
    with ir.Location.unknown():
        module = ir.Module.parse(FUNCTION)
    block = module.body.operations[0].operation.regions[0].blocks[0]
    found = [range_of(op.operation.results[0]) for op in list(block.operations)[:-1]]
    anything, least, most = Range(-(2**31), 2**31 - 1), -(2**31), 2**31 - 1
    assert found == [
        (-5, -5), (64, 64), (most, most), (0, 64), (0, 64), (0, 128), anything, (least, 64), (-5, 64), (-5, 128),
        anything, (0, most), anything,
    ]  # fmt: skip
    assert range_of(block.arguments[1]) == anything
