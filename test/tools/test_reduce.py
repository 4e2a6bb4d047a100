"""`ckmlir-reduce`, and what `ckmlir-opt` prints of changes and makes of reproducers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ckmlir.tools import cli, opt, reduce

GEMM = ["gemm", "m=64", "n=64", "k=128", "block=64x64x32", "schedule=compv3", "--arch", "gfx942"]
CHECK = "import sys; text = open(sys.argv[1]).read(); print('it', 'multiplies'); sys.exit(3 * ('arith.muli' in text))"
UNUSED = """module {
  func.func @f(%a: i32) -> i32 {
    %c = arith.constant 3 : i32
    %0 = arith.addi %a, %c {mine = 1 : i32} : i32
    %1 = arith.muli %0, %a : i32
    %2 = arith.subi %1, %c : i32
    return %2 : i32
  }
  func.func @g() {
    return
  }
}
"""


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """Fragments of a GEMM whose schedule runs products before what they need."""
    assert cli.main(["compile", *GEMM, "-o", str(tmp_path / "g.hsaco"), "--keep", "fragments"]) == 0
    text = (tmp_path / "g.fragments.mlir").read_text()
    file = tmp_path / "wrong.mlir"
    file.write_text(text.replace("ahead load 2, to_lds 1", "ahead math 2"))
    assert file.read_text() != text
    return file


def test_a_reproducer_becomes_small(wrong: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept, small = tmp_path / "kept", tmp_path / "small.mlir"
    assert opt.main([str(wrong), "--ck-pipeline-loops", "--reproducers", str(kept)]) == 2
    message = "runs this before what it uses"
    assert message in capsys.readouterr().err
    (reproducer,) = kept.iterdir()
    assert opt.main([str(reproducer), "--run-reproducer", "--reproducers", "none"]) == 2
    assert message in capsys.readouterr().err
    assert reduce.main([str(reproducer), "-o", str(small)]) == 0
    out, err = capsys.readouterr()
    assert message in out and "lines" in err
    lines = small.read_text().splitlines()
    assert len(lines) < 25 < len(wrong.read_text().splitlines()) / 2
    for words in (["--ck-pipeline-loops"], ["--run-reproducer"]):  # it is a reproducer itself
        assert opt.main([str(small), *words, "--reproducers", "none"]) == 2
        assert message in capsys.readouterr().err


def test_a_command_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, small = tmp_path / "in.mlir", tmp_path / "small.mlir"
    file.write_text(UNUSED)
    command = f'"{sys.executable}" -c "{CHECK}" {{}}'
    assert reduce.main([str(file), "--command", command, "-o", str(small), "--quiet"]) == 0
    text, captured = small.read_text(), capsys.readouterr()
    assert captured.err == "" and "it multiplies" in captured.out
    assert "arith.muli" in text and "@g" not in text and "mine" not in text
    assert "addi" not in text and "subi" not in text
    assert reduce.main([str(file), "--command", command, "--match", "it multiplies", "-o", str(small)]) == 0
    assert "arith.muli" in small.read_text()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "words, message",
    [
        (["{}/none.mlir"], "none.mlir: No such file"),
        (["{}/bad.mlir"], "bad.mlir: "),
        (["{}/in.mlir"], "not a reproducer"),
        (["{}/in.mlir", "--pass-pipeline", "cse"], "does not fail"),
        (["{}/in.mlir", "--pass-pipeline", "ck-nothing"], "there is no pass 'ck-nothing'"),
        (["{}/in.mlir", "--command", "false"], "it names no {}"),
        (["{}/in.mlir", "--command", "no-such-program {}"], "no-such-program: No such file"),
        (["{}/in.mlir", "--command", "true {}"], "does not fail"),
        (["{}/in.mlir", "--command", "grep 'x {}"], "--command grep 'x {}: No closing quotation"),
        (["{}/in.mlir", "--command", "sh -c 'sleep 9' {}", "--seconds", "1"], "longer than --seconds 1 on"),
        (["{}/in.mlir", "--command", "false {}", "--match", "sorry"], "fails without printing --match sorry"),
    ],
)
def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    (tmp_path / "in.mlir").write_text(UNUSED)
    (tmp_path / "bad.mlir").write_text("module {")
    filled = [words[0].replace("{}", str(tmp_path)), *words[1:], "-o", str(tmp_path / "out.mlir")]
    assert reduce.main(filled) == 2
    err = capsys.readouterr().err
    assert err.startswith("ckmlir-reduce: error: ") and message in err and not (tmp_path / "out.mlir").exists()


def test_what_passes_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "in.mlir"
    file.write_text(UNUSED.replace("arith.subi %1, %c", "arith.muli %0, %a"))
    passes = ["--cse", "--canonicalize", "--cse"]
    assert opt.main([str(file), *passes, "--print-ir-diff"]) == 0
    err = capsys.readouterr().err
    assert "--- before\n+++ after\n" in err and "-    %1' = arith.muli" in err and "No Change By cse" in err
    assert opt.main([str(file), *passes, "--print-ir-after-change"]) == 0
    whole = capsys.readouterr().err
    assert whole.count("IR Dump After cse") == 1 and whole.count("func.func @g") >= 1 and "+++" not in whole
    assert opt.main([str(file), *passes, "--print-ir-diff", "--print-ir-after", "canonicalize"]) == 0
    assert "cse" not in capsys.readouterr().err
    assert opt.main([str(file), "--run-reproducer"]) == 2
    assert "not a reproducer" in capsys.readouterr().err
    assert opt.main([str(file), "--cse", "--run-reproducer"]) == 2
    assert "leave out others" in capsys.readouterr().err
