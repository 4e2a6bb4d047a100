"""The table of operations against the decoder's opcode table: the same instructions, with operands of the same
width."""

from __future__ import annotations

import pytest

from ckmlir.sim import semantics
from ckmlir.sim.chips import TARGETS
from ckmlir.sim.decode.opcodes import Opcode, opcode_table
from ckmlir.sim.decode.operands import operand_type
from ckmlir.sim.operation import OPERATIONS, Operation

assert semantics
ROWS = [(target, row) for target in TARGETS for row in opcode_table(target).values() if row.mnemonic in OPERATIONS]


def test_every_operation_is_an_instruction_of_some_chip() -> None:
    assert set(OPERATIONS) == {row.mnemonic for _, row in ROWS}


def widths(operation: Operation) -> list[int]:
    factor = 2 if operation.packed else 1
    places = operation.results + operation.operands
    return [
        max(1, place.type.bits * factor // 32) * place.count if place.type.name != "mask" else 2
        for place in places
        if not place.implicit
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_operands_have_the_decoder_s_widths(target: str) -> None:
    wrong = []
    for owner, row in ROWS:
        fields = (*row.destinations, *row.sources)
        registers = [
            1
            if field.field in ("simm16", "literal")
            else 2
            if field.field == "vcc"
            else operand_type(field.type).registers
            for field in fields
        ]
        if owner == target and registers != widths(OPERATIONS[row.mnemonic]):
            wrong.append((row.mnemonic, row.encoding, registers, widths(OPERATIONS[row.mnemonic])))
    assert not wrong


def test_rows_of_one_mnemonic_name_the_same_operands() -> None:
    def shape(row: Opcode) -> tuple[int, int]:
        return len(row.destinations), len(row.sources)

    by_name: dict[str, set[tuple[int, int]]] = {}
    for _, row in ROWS:
        by_name.setdefault(row.mnemonic, set()).add(shape(row))
    assert not {name: shapes for name, shapes in by_name.items() if len(shapes) > 1}
