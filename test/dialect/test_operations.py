"""The dialect as a whole: every operation is tested as text, verifiers never let an exception out."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from ckmlir.diagnostics import collect
from ckmlir.dialect.context import OPERATION_MODULES
from ckmlir.dialect.verify import expect, verified
from ckmlir.mlir import ir

MODULES = [importlib.import_module(f"ckmlir.dialect.{name}") for name in OPERATION_MODULES]
OPERATIONS = sorted(
    item.OPERATION_NAME
    for module in MODULES
    for item in vars(module).values()
    if isinstance(item, type) and issubclass(item, ir.OpView) and hasattr(item, "OPERATION_NAME")
)


def test_there_are_operations() -> None:
    assert {"ck.load", "ck.mfma", "ck.barrier"} <= set(OPERATIONS)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_printed_and_parsed_in_a_test(name: str) -> None:
    text = (Path(__file__).parent / "round_trip.mlir").read_text()
    assert f'"{name}"(' in text


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_with_a_verifier_is_refused_in_a_test(name: str) -> None:
    without = {"ck.barrier", "ck.release", "ck.yield"}  # nothing of their own can be wrong with them
    texts = [path.read_text() for path in Path(__file__).parent.glob("*_errors.mlir")]
    assert name in without or any(f"{{{{'{name}'" in text for text in texts)


def test_a_verifier_reports_its_sentence_at_the_operation(context: ir.Context) -> None:
    class Operation:
        def __init__(self, operation: ir.Operation) -> None:
            self.operation = operation

    @verified
    def check(op: Operation) -> None:
        expect(1 + 1 == 3, "counts wrongly")

    @verified
    def broken(op: Operation) -> None:
        raise IndexError("7")

    module = ir.Module.parse("module {}")
    with collect(context) as diagnostics:
        assert not check(Operation(module.operation))
        assert not broken(Operation(module.operation))
    assert [one.message for one in diagnostics] == [
        "'builtin.module' counts wrongly",
        "'builtin.module' cannot be verified: IndexError: 7; this is a defect of ckmlir",
    ]


def test_loading_the_dialect_twice_changes_nothing(context: ir.Context) -> None:
    from ckmlir.dialect.context import load

    load(context)
    assert ir.Module.parse('"ck.barrier"() : () -> ()').operation.verify()
