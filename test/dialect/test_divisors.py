"""What divides the scalars of a function: products, loop indices, and what is not known."""

from __future__ import annotations

import pytest

from ckmlir.dialect.divisors import Divisors
from ckmlir.mlir import ir

LOOP = """
func.func @f(%n: i32) {
  %zero = arith.constant 0 : i32
  %step = arith.constant 96 : i32
  %last = arith.muli %n, %step : i32
  %odd = arith.addi %last, %n : i32
  cf.br ^head(%zero, %n : i32, i32)
^head(%index: i32, %other: i32):
  %ahead = arith.addi %index, %step : i32
  %clamped = arith.minsi %ahead, %last : i32
  %half = arith.divui %index, %step : i32
  %shorter = arith.constant 40 : i32
  %mixed = arith.subi %clamped, %shorter : i32
  %more = arith.cmpi slt, %ahead, %n : i32
  cf.cond_br %more, ^head(%ahead, %shorter : i32, i32), ^tail(%clamped : i32)
^tail(%result: i32):
  return
}
"""


@pytest.mark.parametrize("order", [1, -1])
def test_divisors_of_a_loop(context: ir.Context, order: int) -> None:
    """Whatever is asked for first: what comes round a loop keeps the divisors of its start and its step, no others."""
    with ir.Location.unknown():
        module = ir.Module.parse(LOOP)
    function = module.body.operations[0].operation
    blocks = list(function.regions[0])
    entry, head = ([op.operation.results[0] for op in list(block.operations)[:-1]] for block in blocks[:2])
    expected = {
        entry[0]: 0, entry[1]: 96, entry[2]: 96, entry[3]: 1, blocks[0].arguments[0]: 1,
        blocks[1].arguments[0]: 96, blocks[1].arguments[1]: 1, blocks[2].arguments[0]: 96,
        head[0]: 96, head[1]: 96, head[2]: 1, head[3]: 40, head[4]: 8,
    }  # fmt: skip
    divisors = Divisors()
    found = {item: divisors.of(item) for item in list(expected)[::order]}
    assert [found[item] for item in expected] == list(expected.values())
