"""ckmlir-opt: options, exit status, messages and output, in the process where that is possible."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from ckmlir.diagnostics import Diagnostic, Position
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass, fail
from ckmlir.passes.registry import PASSES
from ckmlir.tools.expected_diagnostics import compare
from ckmlir.tools.opt import main

ROOT = Path(__file__).resolve().parents[2]

TWICE = """func.func @f(%a: i32) -> i32 {
  %0 = arith.addi %a, %a : i32
  %1 = arith.addi %a, %a : i32
  return %1 : i32
}
"""
WRONG = "func.func @g() -> i32 {\n  return\n}\n"


@dataclass(frozen=True)
class Refuse(Pass):
    """Refuses functions of one name."""

    name: ClassVar[str] = "ck-test-refuse"
    function: str = "f"
    warn: bool = False

    def apply(self, module: ir.Module) -> None:
        for op in module.body.operations:
            if op.attributes["sym_name"].value == self.function:
                fail(op, f"{self.function} is refused", [("here", op)])


@pytest.fixture(autouse=True)
def _register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PASSES, Refuse.name, "a_module_of_tests:Refuse")
    monkeypatch.setitem(sys.modules, "a_module_of_tests", types.SimpleNamespace(Refuse=Refuse))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "input.mlir"
    path.write_text(TWICE)
    return path


def test_passes_by_name_run_in_order(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(source), "--cse", "--ck-test-refuse=function=other warn=true", "--canonicalize"]) == 0
    out, err = capsys.readouterr()
    assert out.count("arith.addi") == 1
    assert err == ""


def test_input_from_stdin_and_output_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TWICE.encode())))
    assert main(["--pass-pipeline=cse", "-o", str(tmp_path / "out.mlir")]) == 0
    assert (tmp_path / "out.mlir").read_text().count("arith.addi") == 1
    assert capsys.readouterr() == ("", "")


def test_output_is_read_back(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--mlir-print-debuginfo", "--mlir-print-op-generic"]
    assert main([str(source), "-o", str(tmp_path / "generic.mlir"), *options]) == 0
    assert '"arith.addi"' in (tmp_path / "generic.mlir").read_text()
    assert main([str(tmp_path / "generic.mlir"), "--mlir-print-debuginfo"]) == 0
    assert f'loc("{source}":2:8)' in capsys.readouterr().out


def test_printing_and_timing_go_to_stderr(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(source), "--cse", "--canonicalize", "--print-ir-after-all", "--timing", "--verify-each"]) == 0
    out, err = capsys.readouterr()
    assert re.findall("IR Dump After (.*) //-----", err) == ["cse", "canonicalize"]
    assert re.search(r"\d ms .* canonicalize\n.* total", err)
    assert "Dump" not in out and out.count("arith.addi") == 1
    assert main([str(source), "--cse", "--canonicalize", "--print-ir-after", "cse"]) == 0
    assert re.findall("IR Dump After (.*) //-----", capsys.readouterr().err) == ["cse"]
    assert main([str(source), "--cse", "--canonicalize", "--print-ir-before", "canonicalize"]) == 0
    err = capsys.readouterr().err
    assert re.findall("IR Dump (.*) //-----", err) == ["Before canonicalize"] and err.count("arith.addi") == 1
    assert main([str(source), "--cse", "--canonicalize", "--print-ir-before", "all", "--print-ir-after", "cse"]) == 0
    printed = re.findall("IR Dump (.*) //-----", capsys.readouterr().err)
    assert printed == ["Before cse", "After cse", "Before canonicalize"]


def test_statistics_of_passes(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Operations before and behind each pass, and which they were."""
    assert main([str(source), "--cse", "--canonicalize", "--pass-statistics"]) == 0
    head, *rows = capsys.readouterr().err.splitlines()
    assert head.split() == ["before", "behind", "operations"]
    assert [row.split(maxsplit=2) for row in rows] == [
        ["4", "3", "cse: -1 arith.addi"], ["3", "3", "canonicalize: as many of each"]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ck-test-refuze"], "there is no pass 'ck-test-refuze'; did you mean ck-test-refuse?"),
        (["--verify-eech"], "verify-eech: 'verify-eech' does not refer to a registered pass"),
        (["--ck-test-refuse=function"], "'function' is not of the form option=value"),
        (["--cse", "--pass-pipeline=cse"], "--pass-pipeline and single passes exclude each other"),
        (["--pass-pipeline=func.func(cse"], "missing ')'"),
        (["-o", "/nowhere/at/all"], "cannot write /nowhere/at/all: No such file or directory"),
    ],
)
def test_wrong_requests(source: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(source), *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ckmlir-opt: error: ") and message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"module {", r":1:\d+: error: "),
        (b"func.func @f() { return %0 : i32 }", r":1:25: error: use of undeclared SSA value"),
        (WRONG.encode(), r":2:3: error: 'func.return' op has 0 operands"),
        (b'"not.known"() : () -> ()', r":1:\d+: error: .*unregistered dialect"),
        (b"\xff\xfe", r"^ckmlir-opt: error: .*is not MLIR text: byte 0 is not UTF-8$"),
        (b"\x00\x01", r":1:\d+: error: "),
    ],
)
def test_malformed_input(tmp_path: Path, content: bytes, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wrong.mlir"
    path.write_bytes(content)
    assert main([str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(message, err.splitlines()[0]), err
    assert str(path) in err


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["/nothing.mlir"]) == 2
    assert capsys.readouterr().err == "ckmlir-opt: error: cannot read /nothing.mlir: No such file or directory\n"


def test_a_failing_pass_says_where_and_how_to_replay(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(source), "--cse", "--ck-test-refuse", "--reproducers", str(tmp_path / "reproducers")]
    assert main([*arguments, "-o", str(tmp_path / "out")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and not (tmp_path / "out").exists()
    lines = err.splitlines()
    assert lines[0] == f"{source}:1:1: error: f is refused"
    assert lines[1] == f"{source}:1:1: note: here"
    reproducer = Path(lines[2].split(" are in ")[1])
    assert main([str(reproducer), "--ck-test-refuse", "--reproducers=none"]) == 2
    assert capsys.readouterr().err.splitlines() == lines[:2], "replayed with the same message"


def test_pieces_keep_the_line_numbers_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pieces.mlir"
    path.write_text(TWICE + "// -----\n" + WRONG + "// ----- \n" + TWICE)
    assert main([str(path), "--split-input-file"]) == 2
    out, err = capsys.readouterr()
    assert out == "", "no output for the good pieces when one fails"
    assert err.splitlines()[0].startswith(f"{path}:8:3: error: ")
    path.write_text(TWICE + "// -----\n" + TWICE)
    assert main([str(path), "--split-input-file", "--cse"]) == 0
    assert capsys.readouterr().out.count("// -----\n") == 1


def test_expected_diagnostics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "expected.mlir"
    path.write_text("// expected-error@+2 {{f is refused}}\n// expected-note@below {{here}}\n" + TWICE)
    assert main([str(path), "--ck-test-refuse", "--verify-diagnostics"]) == 0
    assert capsys.readouterr() == ("", "")
    path.write_text("// expected-error@+1 {{g is refused}}\n" + TWICE)
    assert main([str(path), "--ck-test-refuse", "--verify-diagnostics"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"{path}:2:1: error: unexpected error: f is refused",
        f"{path}:1:1: error: expected error was not produced: g is refused",
    ]


def error(line: int, message: str, *notes: Diagnostic, severity: str = "error") -> Diagnostic:
    return Diagnostic(severity, Position("k.mlir", line, 3), message, notes)


@pytest.mark.parametrize(
    ("text", "found", "complaints"),
    [
        ("", [], 0),
        ("", [error(1, "a")], 1),
        ("", [error(1, "a", severity="warning")], 1),
        ("", [error(1, "a", severity="remark")], 0),
        ("// expected-error {{a}}", [error(1, "bab")], 0),
        ("// expected-error {{a}}", [error(1, "b")], 2),
        ("// expected-error {{a}}", [error(2, "a")], 2),
        ("// expected-error {{a}}", [error(1, "a"), error(1, "a")], 1),
        ("// expected-error {{a}} expected-error {{a}}", [error(1, "a"), error(1, "a")], 0),
        ("// expected-warning {{a}}", [error(1, "a")], 2),
        ("\n// expected-error@above {{a}}", [error(1, "a")], 0),
        ("\n// expected-error@-1 {{a}}", [error(1, "a")], 0),
        ("// expected-error@below {{a}}", [error(2, "a")], 0),
        ("// expected-error @+3 {{a}}", [error(4, "a")], 0),
        ("// expected-error@unknown {{a}}", [Diagnostic("error", None, "a")], 0),
        ("// expected-error {{a}}", [Diagnostic("error", Position("other.py", 1, 1), "a")], 2),
        ("// expected-error {{a+}}", [error(1, "aa")], 2),
        ("// expected-error-re {{a+$}}", [error(1, "baa")], 0),
        ("// expected-error-re {{a(}}", [], 1),
        ("// expected-note {{n}}\n\n// expected-error {{e}}", [error(3, "e", error(1, "n", severity="note"))], 0),
        ("// expected-note {{n}}", [error(3, "e", error(2, "n", severity="note"))], 2),
    ],
)
def test_comparing_diagnostics_with_comments(text: str, found: list[Diagnostic], complaints: int) -> None:
    assert len(compare(text, "k.mlir", found)) == complaints


def test_a_defect_is_one_line_unless_asked_otherwise(
    source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr("ckmlir.passes.pipeline.run_pipeline", broken)
    assert main([str(source)]) == 2
    assert capsys.readouterr() == (
        "",
        "ckmlir-opt: error: KeyError: 'lost'; this is a defect of ckmlir, --traceback shows where\n",
    )
    with pytest.raises(KeyError):
        main([str(source), "--traceback"])


def test_the_list_of_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-passes"]) == 0
    out = capsys.readouterr().out
    assert "ck-test-refuse: Refuses functions of one name.\n    function: str (default f)\n" in out


def test_the_installed_way_to_run_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ckmlir.tools.opt", "--cse"],
        input=TWICE,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("arith.addi") == 1


def test_a_reader_that_goes_away_is_no_crash() -> None:
    text = TWICE + "".join(f"func.func private @f{i}()\n" for i in range(20000))
    command = f"{sys.executable} -m ckmlir.tools.opt | head -1"
    done = subprocess.run(command, shell=True, input=text, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert (done.stdout, done.stderr) == ("module {\n", "")
