"""The MLIR door: which bindings, contexts, Python-defined dialects in several contexts, diagnostics as values."""

# Annotations are not postponed here: the dialect below needs them evaluated.
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from ckmlir import bindings, mlir
from ckmlir.diagnostics import LONGEST_NOTE, Diagnostic, Position, collect, position_of
from ckmlir.mlir import ext, ir, make_context

ROOT = Path(__file__).resolve().parent.parent


class Toy(ext.Dialect, name="toy"):
    """A dialect with one type and one operation, whose verifier refuses boxes labelled bad."""


class Box(Toy.Type, name="box"):
    label: ir.StringAttr
    content: Any


class FillOp(Toy.Operation, name="fill"):
    value: ext.Operand[Any]
    box: ext.Result[Box]

    @staticmethod
    def verify_invariants(op: Any) -> bool:
        if ir.StringAttr(op.box.type.label).value == "bad":
            op.location.emit_error("a box must not be bad")
            return False
        return True


FILL = """
func.func @f(%a: i32) {{
  %0 = "toy.fill"(%a) : (i32) -> !toy.box<"{label}", i32>
  return
}}
"""


def load_toy(context: ir.Context) -> None:
    Toy.load()


def test_python_dialects_load_in_every_context() -> None:
    contexts = [make_context(load_toy) for _ in range(3)]
    for context in [*contexts, contexts[0]]:
        module = ir.Module.parse(FILL.format(label="good"), context)
        op = module.body.operations[0].regions[0].blocks[0].operations[0]
        assert isinstance(op, FillOp)
        assert isinstance(op.box.type, Box)
        assert ir.StringAttr(op.box.type.label).value == "good"
        with collect(context) as diagnostics, pytest.raises(ir.MLIRError):
            ir.Module.parse(FILL.format(label="bad"), context)
        assert [one.message for one in diagnostics] == ["a box must not be bad"]
        assert diagnostics[0].position == Position("-", 3, 8)


def test_loaders_are_called_in_order_with_the_new_context() -> None:
    calls: list[tuple[str, ir.Context]] = []
    context = make_context(lambda given: calls.append(("one", given)), lambda given: calls.append(("two", given)))
    assert calls == [("one", context), ("two", context)]


def test_unknown_dialects_are_refused() -> None:
    context = make_context()
    with collect(context) as diagnostics, pytest.raises(ir.MLIRError):
        ir.Module.parse('"nothing.here"() : () -> ()', context)
    assert "unregistered dialect" in diagnostics[0].message


def test_threading_is_off() -> None:
    assert make_context().get_num_threads() == 1


def test_upstream_dialects_are_imported_on_demand(context: ir.Context) -> None:
    for name in mlir.DIALECTS:
        assert getattr(mlir, name).__name__.endswith(f".dialects.{name}")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mlir.nothing  # noqa: B018


@pytest.mark.parametrize(("choice", "message"), [("other", "=other: expected"), ("mlir", "no MLIR Python bindings")])
def test_forced_bindings_that_are_not_there(choice: str, message: str) -> None:
    if choice == "mlir" and mlir.BINDINGS == "mlir":
        pytest.skip("the genuine bindings are installed")
    done = subprocess.run(
        [sys.executable, "-c", "import ckmlir.mlir"],
        env={**os.environ, "CKMLIR_BINDINGS": choice, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert message in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("location", "position"),
    [
        ('loc("a.py":3:4)', Position("a.py", 3, 4)),
        ('loc("a.py":3:4 to :7)', Position("a.py", 3, 4)),
        (r'loc("q\22b\\c\C3\A9.py":3:4)', Position('q"b\\cé.py', 3, 4)),
        ('loc("name"("a.py":5:6))', Position("a.py", 5, 6)),
        ('loc(callsite("inner"("in.py":1:2) at "out.py":3:4))', Position("in.py", 1, 2)),
        ('loc(fused["a.py":1:1, "b.py":2:2])', Position("a.py", 1, 1)),
        ('loc("only a name")', None),
        ("loc(unknown)", None),
    ],
)
def test_positions_of_locations(context: ir.Context, location: str, position: Position | None) -> None:
    module = ir.Module.parse(f"func.func private @f() {location}", context)
    assert position_of(module.body.operations[0].location) == position


def test_diagnostics_print_one_line_each() -> None:
    note = Diagnostic("note", None, "x" * 3 * LONGEST_NOTE)
    text = str(Diagnostic("error", Position("k.py", 1, 2), "two\n  lines", (note,)))
    assert text.splitlines() == ["k.py:1:2: error: two lines", f"note: {'x' * LONGEST_NOTE} …"]


def test_classes_of_operations_are_there_when_asked_for_and_a_modules_always() -> None:
    program = """
import sys
from ckmlir.mlir import ir, make_context
with make_context():
    module = ir.Module.parse("module { llvm.func @f() { llvm.return } }")
    assert len(list(module.operation.clone().body)) == 1
    function = next(iter(module.body))
    assert type(function) is ir.OpView and not any(name.endswith("dialects.llvm") for name in sys.modules)
    from ckmlir.mlir import llvm
    assert isinstance(next(iter(module.body)), llvm.LLVMFuncOp)
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_collecting_ends_with_its_block(context: ir.Context) -> None:
    with collect(context) as outer:
        with collect(context) as inner:
            ir.Location.file("a.py", 1, 1).emit_error("first")
        ir.Location.file("a.py", 2, 1).emit_error("second")
    assert [one.message for one in inner] == ["first"]
    assert [one.message for one in outer] == ["second"]
    assert context.emit_error_diagnostics is False


def test_the_wheel_around_the_bindings_runs_when_it_is_asked_for() -> None:
    if mlir.BINDINGS != "flydsl":
        pytest.skip("the genuine bindings lie in no other package")
    program = """
import sys
import ckmlir.mlir
ckmlir.mlir.make_context()
assert not {"flydsl.autotune", "torch"} & set(sys.modules), "the wheel's own modules were imported"
import flydsl
from flydsl._mlir import ir
assert ir is ckmlir.mlir.ir
assert not hasattr(flydsl, "__wrapped__") and "flydsl.autotune" not in sys.modules
print(flydsl.__version__, flydsl.autotune.__module__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1] == "flydsl.autotune"


def test_the_version_of_the_bindings_is_read_off_the_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    name = bindings.choose()
    assert bindings.version(name) == metadata.version(bindings.DISTRIBUTIONS[name])
    monkeypatch.setitem(bindings.PACKAGES, "other", "json")  # a package without a description beside it
    monkeypatch.setitem(bindings.DISTRIBUTIONS, "other", "no-such-distribution")
    assert bindings.version("other") == "unknown"
