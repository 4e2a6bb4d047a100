"""--schedule and --module of the commands that compile operators; MLIR of any stage in place of code objects."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from ckmlir.tools.cli import main

KEYS = ["gemm", "m=64", "n=128", "k=96", "block=64x64x32", "--arch", "gfx942"]
TEXT = "schedule mine 1; ahead load 2, to_lds 1; order interleave"
NAME = "gemm_f16_f16_rcr_64x64x32_waves2x2_mfma32x32x8_cshuffle_unpipelined_align8x8x8"
STAGES = ("tile", "fragments", "pipelined", "scheduled", "rocdl")


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    status = main([str(word) for word in words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a kernel's code object, g.hsaco, its IR at every stage, and a description of its launch."""
    folder = tmp_path_factory.mktemp("kept")
    keep = ",".join(STAGES)
    assert main(["compile", *KEYS, "schedule=unpipelined", "-o", str(folder / "g.hsaco"), "--keep", keep]) == 0
    array = {"dtype": "f16", "fill": "random", "access": "read"}
    arguments = {
        "a": {"shape": [64, 96], **array}, "b": {"shape": [128, 96], **array},
        "m": 64, "n": 128, "k": 96, "lda": 96, "ldb": 96, "ldc": 128,
        "c": {"shape": [64, 128], "dtype": "f16", "fill": "undefined", "access": "write", "save": "c.npy"},
    }  # fmt: skip
    launch = {"grid": [2], "block": [256], "arguments": arguments}
    (folder / "launch.json").write_text(json.dumps(launch))
    (folder / "unnamed.json").write_text(json.dumps({**launch, "arguments": list(arguments.values())}))
    return folder


@pytest.mark.one_in(2)
@pytest.mark.parametrize("command", [["run"], ["check"], ["time"], ["bench"], ["timeline", "-o", "page.html"],
                                     ["compile", "-o", "k.hsaco"]])  # fmt: skip
def test_a_schedule_written_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, command[0], *KEYS, *command[1:], "--schedule", TEXT)
    assert status == 0, err
    assert "chosen" not in out or "schedule=mine" in out


def test_names_files_and_texts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.schedule"
    file.write_text(TEXT.replace("; ", "\n"))
    registers = {}
    for name, schedule in {"text": TEXT, "file": file, "named": "unpipelined"}.items():
        status, out, _ = run(capsys, "compile", *KEYS, "-o", tmp_path / f"{name}.hsaco", "--schedule", schedule)
        assert status == 0
        registers[name] = re.findall(r"(\d+) vector registers", out)
    assert registers["text"] == registers["file"] != registers["named"]
    status, _, err = run(capsys, "run", *KEYS, "--schedule", "unpipelined", "--library", "x.ckl")
    assert status == 2
    status, _, err = run(capsys, "run", *KEYS, "schedule=compv3", "--schedule", "unpipelined")
    assert status == 2 and "--schedule unpipelined and schedule=compv3 exclude each other" in err


@pytest.mark.parametrize(
    "schedule, message",
    [
        ("nosuch", "--schedule nosuch: neither a schedule's name nor a file, and as text: schedule, line 1"),
        ("schedule x 1; ahead lod 2", "schedule 'x' speaks of stage 'lod'; the loop has from_lds, load, math, to_lds"),
        ("schedule x 1; ahead from_lds 2", ""),
    ],
)
def test_refusals(capsys: pytest.CaptureFixture[str], schedule: str, message: str) -> None:
    status, _, err = run(capsys, "run", *KEYS, "--schedule", schedule)
    assert status == 2 and message in err and len(err.splitlines()) <= 3


def test_statements_that_change_the_kernels_own(capsys: pytest.CaptureFixture[str]) -> None:
    """They take the places of its own; others stay."""
    words = ["run", *KEYS, "schedule=async", "--check", "all,copy_order"]
    assert run(capsys, *words)[0] == 1  # the named one relies on the order of copies
    status, out, _ = run(capsys, *words, "--schedule", "+waits drain; ahead load 1")
    assert status == 0 and "schedule=+waits drain; ahead load 1" in out
    assert "schedule=compv4 +unroll 2\n" in run(capsys, "run", *KEYS, "--schedule", "+unroll 2")[1]
    status, _, err = run(capsys, *words, "--schedule", "+wait drain")
    assert status == 2 and "error: --schedule +wait drain: schedule, line 1: unknown statement 'wait'" in err
    status, _, err = run(capsys, "run", "softmax", "--arch", "gfx942", "--schedule", "+waits drain")
    assert status == 2 and "has no loop to schedule" in err


def test_the_time_that_a_schedule_of_its_own_takes_to_compile_counts(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "run", *KEYS, "--schedule", TEXT, "--json", "--no-check")
    assert status == 0, err
    assert json.loads(out)["compile_s"] > 0.02


def test_an_operator_without_a_loop(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "run", "layernorm2d", "--arch", "gfx942", "--schedule", TEXT)
    assert status == 2 and "has no loop to schedule" in err


@pytest.mark.one_in(2)
@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_compiles_to_the_same_code(capsys: pytest.CaptureFixture[str], kept: Path, stage: str) -> None:
    output = kept / f"from_{stage}.hsaco"
    status, _, err = run(capsys, "compile", kept / f"g.{stage}.mlir", "-o", output)
    assert status == 0, err
    about = [run(capsys, "inspect", file, "--json")[1] for file in (kept / "g.hsaco", output)]
    first, second = (json.loads(text)["kernels"][0] for text in about)
    for field in ("name", "code_bytes", "vector_registers", "scalar_registers", "instructions"):
        assert first[field] == second[field]


def test_modules_run_and_are_timed(capsys: pytest.CaptureFixture[str], kept: Path) -> None:
    outputs = []
    for file, launch in (("g.hsaco", "launch"), ("g.scheduled.mlir", "launch"), ("g.rocdl.mlir", "unnamed")):
        words = [kept / file, "--launch", kept / f"{launch}.json"]
        status, out, err = run(capsys, "run", *words, "--check", "all")
        assert status == 0 and "ran 2 workgroups of 256x1x1" in out and "wrote" in out, err
        outputs.append(np.load(kept / "c.npy"))
        assert run(capsys, "time", *words, "--json")[0] == 0
        assert run(capsys, "check", kept / file)[0] == 0
    assert all((one == outputs[0]).all() for one in outputs)
    report = json.loads(run(capsys, "run", kept / "g.hsaco", "--launch", kept / "launch.json", "--json")[1])
    assert report["ok"] and report["run"]["counts"]["workgroups"] == 2


def test_a_module_as_an_operators_kernel(capsys: pytest.CaptureFixture[str], kept: Path, tmp_path: Path) -> None:
    unpipelined = [*KEYS, "schedule=unpipelined"]
    status, out, _ = run(capsys, "run", *unpipelined, "--module", kept / "g.pipelined.mlir")
    assert status == 0 and "agree" in out
    text = (kept / "g.tile.mlir").read_text()
    changed = tmp_path / "changed.mlir"
    changed.write_text(text.replace("constant 0.0", "constant 1.0"))
    assert changed.read_text() != text
    assert run(capsys, "run", *unpipelined, "--module", changed)[0] == 1  # the accumulators begin at one
    status, _, err = run(capsys, "run", *KEYS, "--module", kept / "g.tile.mlir")
    assert status == 2 and f"{NAME} for gfx942; these keys take" in err


def test_from_takes_what_is_before_as_it_stands(capsys: pytest.CaptureFixture[str], kept: Path, tmp_path: Path) -> None:
    lines = (kept / "g.scheduled.mlir").read_text().splitlines(keepends=True)
    hasty = tmp_path / "hasty.mlir"
    hasty.write_text("".join(line for line in lines if '"ck.barrier"' not in line))
    for words, found in (([], 0), (["--from", "ck-lower-fragments"], 1)):
        output = tmp_path / "hasty.hsaco"
        assert run(capsys, "compile", hasty, "-o", output, *words)[0] == 0
        status, out, _ = run(capsys, "run", output, "--launch", kept / "launch.json", "--check", "race")
        assert status == found and ("race" in out) == bool(found)


@pytest.mark.parametrize(
    "words, message",
    [
        (["compile", "{}/none.mlir", "-o", "{}/x.hsaco"], "none.mlir: No such file or directory"),
        (["compile", "{}/bad.mlir", "-o", "{}/x.hsaco"], "bad.mlir:1:"),
        (["compile", "{}/empty.mlir", "-o", "{}/x.hsaco"], "no chip is named"),
        (["compile", "{}/g.tile.mlir", "m=64", "-o", "{}/x.hsaco"], "key=value is for operators"),
        (["compile", "{}/g.tile.mlir", "-o", "{}/x.hsaco", "--from", "ck-nothing"], "no pass of the pipeline"),
        (["compile", "{}/g.rocdl.mlir", "-o", "{}/g.hsaco", "--keep", "rocdl"], "would write over"),
        (["compile", *KEYS, "-o", "{}/x.hsaco", "--from", "ck-split-tiles"], "not of gemm"),
        (["run", "{}/g.tile.mlir"], "needs --launch"),
        (["run", "{}/g.tile.mlir", "--launch", "{}/launch.json", "--seed", "1"], "--seed is for operators"),
        (["time", "{}/g.tile.mlir", "--launch", "{}/launch.json", "--schedule", TEXT], "--schedule is for operators"),
        (["check", "{}/g.tile.mlir", "--schedule", TEXT], "--schedule is for operators"),
    ],
)
def test_what_does_not_fit_a_module(
    capsys: pytest.CaptureFixture[str], kept: Path, words: list[str], message: str
) -> None:
    (kept / "bad.mlir").write_text("module { what }\n")
    (kept / "empty.mlir").write_text("module { }\n")
    status, _, err = run(capsys, *(word.replace("{}", str(kept)) for word in words))
    assert status == 2 and message in err
