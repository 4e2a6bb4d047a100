"""A thread's registers in vectors: whatever list of registers is asked for, the right elements come."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckmlir.dialect.context import shared_context
from ckmlir.mlir import ir
from ckmlir.passes.registers import Registers

Values = dict[ir.Value, list[int]]


def build(count: int, chunk: int, make: Callable[[Registers], list[ir.Value]]) -> tuple[list[list[int]], ir.Module]:
    """What `make` returns for registers that hold their own numbers, by interpreting the vector operations."""
    arguments = ", ".join(f"%c{i}: vector<{chunk}xi32>" for i in range(count // chunk))
    with ir.Location.unknown():
        module = ir.Module.parse(f"func.func @f({arguments}) {{ return }}")
        block = module.body.operations[0].operation.regions[0].blocks[0]
        registers = Registers(list(block.arguments), chunk, ir.IntegerType.get_signless(32))
        with ir.InsertionPoint.at_block_begin(block):
            made = make(registers)
    known: Values = {value: list(range(i * chunk, (i + 1) * chunk)) for i, value in enumerate(block.arguments)}
    for op in (op.operation for op in block.operations):
        interpret(op, known)
    assert module.operation.verify()
    return [known[value] for value in made], module


def interpret(op: ir.Operation, known: Values) -> None:
    operands = [known[operand] for operand in op.operands]
    if op.name == "vector.extract_strided_slice":
        start, size = (int(op.attributes[name][0].value) for name in ("offsets", "sizes"))
        known[op.results[0]] = operands[0][start : start + size]
    elif op.name == "vector.extract":
        known[op.results[0]] = [operands[0][next(iter(op.attributes["static_position"]))]]
    elif op.name == "vector.shuffle":
        both = operands[0] + operands[1]
        known[op.results[0]] = [both[position] for position in op.attributes["mask"]]
    elif op.name == "vector.broadcast":
        known[op.results[0]] = operands[0] * int(op.results[0].type.shape[0])
    elif op.name == "vector.from_elements":
        known[op.results[0]] = [item for operand in operands for item in operand]
    else:
        assert op.name == "func.return", op.name


@given(st.sampled_from([1, 2, 3, 4, 8]), st.integers(1, 6), st.data())
def test_gather_gives_the_registers_asked_for(chunk: int, chunks: int, data: st.DataObject) -> None:
    count = chunk * chunks
    numbers = data.draw(
        st.lists(st.integers(0, count - 1), min_size=1, max_size=9)
        | st.tuples(st.integers(0, count - 1), st.integers(1, count)).map(
            lambda pair: list(range(pair[0], min(pair[0] + pair[1], count)))
        )
    )
    with shared_context():
        results, _ = build(count, chunk, lambda registers: [registers.gather(numbers)])
    assert results == [numbers]


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8, 16]))
def test_rechunking_keeps_the_registers(chunk: int, other: int) -> None:
    with shared_context():
        results, _ = build(16, chunk, lambda registers: registers.rechunked(other).chunks)
    assert results == [list(range(start, start + other)) for start in range(0, 16, other)]


@given(st.permutations(range(8)), st.sampled_from([1, 2, 4, 8]))
def test_scatter_puts_pieces_in_their_place(order: list[int], size: int) -> None:
    """Pieces that each hold some registers, in any order: gathering all of them gives 0, 1, 2, …"""
    pieces = [order[start : start + size] for start in range(0, 8, size)]

    def make(registers: Registers) -> list[ir.Value]:
        element = registers.element
        scattered = Registers.scatter([(piece, registers.gather(piece)) for piece in pieces], element)
        assert scattered.count == 8
        return [scattered.gather(range(8))]

    with shared_context():
        results, _ = build(8, 8, make)
    assert results == [list(range(8))]


def test_what_lies_in_one_vector_costs_nothing(context: ir.Context) -> None:
    _, module = build(8, 4, lambda registers: [registers.gather(range(4, 8)), *registers.rechunked(4).chunks])
    assert [op.operation.name for op in module.body.operations[0].operation.regions[0].blocks[0]] == ["func.return"]


@pytest.mark.parametrize(
    ("count", "chunk", "numbers", "operations"),
    [
        (8, 8, [2, 3], ["vector.extract_strided_slice"]),
        (8, 8, [3, 3, 3], ["vector.extract", "vector.broadcast"]),
        (8, 8, [3, 1], ["vector.shuffle"]),
        (8, 4, range(8), ["vector.shuffle"]),
        (8, 4, [3, 4], ["vector.shuffle"]),
        (16, 4, range(16), ["vector.shuffle"] * 3),
    ],
)  # fmt: skip
def test_how_registers_are_gathered(
    context: ir.Context, count: int, chunk: int, numbers: list[int], operations: list[str]
) -> None:
    _, module = build(count, chunk, lambda registers: [registers.gather(list(numbers))])
    block = module.body.operations[0].operation.regions[0].blocks[0]
    assert [op.operation.name for op in block][:-1] == operations
