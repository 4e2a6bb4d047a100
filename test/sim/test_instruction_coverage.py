"""Every instruction that the simulator executes has a test of its own, and docs/simulator.md says so."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest
from instruction_registry import COVERED

from ckmlir.sim import coverage
from ckmlir.sim.operation import OPERATIONS

DOCUMENT = Path(__file__).parents[2] / "docs" / "simulator.md"
MODULES = (
    "test_alu_operations", "test_control_instructions", "test_direct_to_lds", "test_lane_exchange",
    "test_lds_and_atomics",
    "test_matrix_instructions", "test_memory_instructions", "test_sparse_matrix", "test_store_from_lds",
    "test_typed_buffers",
    "test_vector_encodings", "test_vector_forms",
)  # fmt: skip
UPDATE = "CKMLIR_UPDATE_DOCUMENTS"


def names_under_test() -> frozenset[str]:
    """The mnemonics that the test modules say they exercise."""
    for module in MODULES:
        importlib.import_module(module)
    return frozenset(COVERED)


def test_every_executable_instruction_has_a_test() -> None:
    assert not sorted(coverage.executed() - names_under_test())


def test_no_test_names_an_instruction_that_does_not_exist() -> None:
    names = names_under_test()
    two_words = {name for name in names if name.startswith("v_mfma_scale_")}
    assert not sorted(names - coverage.executed() - two_words)


def test_every_operation_executes() -> None:
    """What has semantics is reachable from machine code."""
    assert set(OPERATIONS) <= coverage.executed()


@pytest.mark.parametrize(
    "part,text", [("opcodes", lambda: coverage.table(names_under_test())), ("refused", coverage.refusals)]
)
def test_the_document_is_current(part: str, text: object) -> None:
    """CKMLIR_UPDATE_DOCUMENTS=1 writes it anew."""
    begin, end = f"<!-- {part}: generated -->\n", f"<!-- end of {part} -->"
    written = DOCUMENT.read_text()
    before, rest = written.split(begin)
    current, after = rest.split(end)
    wanted = f"{text()}\n"  # type: ignore[operator]
    if os.environ.get(UPDATE):
        DOCUMENT.write_text(f"{before}{begin}{wanted}{end}{after}")
    else:
        assert current == wanted, f"{DOCUMENT} is out of date; {UPDATE}=1 pytest {Path(__file__).name} writes it"
