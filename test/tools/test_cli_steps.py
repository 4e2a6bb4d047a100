"""Operators of several kernels at the command line: every step is listed, compiled, timed, counted and scheduled."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ckmlir.codeobject import CodeObject
from ckmlir.ops import find_operator
from ckmlir.targets import get_target
from ckmlir.tools.cli import main

SPLIT = ["reduce", "shape=3x20000", "split=3", "ops=sum,max"]
ARCH = ["--arch", "gfx942"]


def output(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(list(arguments)) == status
    return capsys.readouterr().out


def test_list_shows_what_a_request_queues(capsys: pytest.CaptureFixture[str]) -> None:
    lines = output(capsys, "list", *SPLIT, *ARCH).splitlines()
    assert lines[0] == "reduce on gfx942: what is queued"
    assert [line.split(":")[0].strip() for line in lines[1:]] == [
        "step 1", "step 2", "step 3", "workspace y_sum_parts", "workspace y_max_parts",
    ]  # fmt: skip
    assert re.search(
        r"kernel reduce_f16_sum_max_.*_partial_.* on x, y_sum_parts, y_max_parts: 3x3x1 workgroups", lines[1]
    )
    found = json.loads(output(capsys, "list", "ragged_row_sums", "total=900", "--json"))
    steps = found["plans"]["gfx950"]["steps"]
    assert list(found["plans"]) == ["gfx90a", "gfx942", "gfx950"]
    assert [step["step"] for step in steps] == ["fill", "pack", "kernel"]
    assert steps[0] == {"step": "fill", "arrays": ["sums"], "byte": 0, "bytes": 64}
    assert steps[1] == {"step": "pack", "arrays": ["table"], "inputs": ["offsets"]}
    assert steps[2]["own"] and steps[2]["arrays"] == ["values", "table", "sums"] and steps[2]["grid"] == [19, 1, 1]
    assert "nothing to launch" in output(capsys, "list", "copy", "m=0", *ARCH)


def test_list_of_one_operator(capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys, "list", "unpack_int4").startswith("unpack_int4:")
    found = json.loads(output(capsys, "list", "reduce", *ARCH, "--json"))
    assert [one["name"] for one in found["operators"]] == ["reduce"]
    stores = {(one["spec"]["stores"], one["spec"]["dtypes"][0]) for one in found["kernels"]}
    assert {("partial", "f16"), ("partial", "i8"), ("write", "f32"), ("write", "i32")} <= stores
    assert main(["list", "redice"]) == 2
    assert "did you mean reduce?" in capsys.readouterr().err


def test_run_says_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    lines = output(capsys, "run", *SPLIT, *ARCH).splitlines()
    assert [line.partition(":")[0] for line in lines[1:4]] == ["step 1", "step 2", "step 3"]
    found = json.loads(output(capsys, "run", *SPLIT, *ARCH, "--json"))
    assert found["ok"] and found["kernel"] == found["steps"][0]["kernel"]
    assert [(step["op"], step["own"]) for step in found["steps"]] == [
        ("reduce", True),
        ("reduce", False),
        ("reduce", False),
    ]
    single = json.loads(output(capsys, "run", "copy", "m=4", "n=4", *ARCH, "--json"))
    assert [step["step"] for step in single["steps"]] == ["kernel"]
    assert "step 1" not in output(capsys, "run", "copy", "m=4", "n=4", *ARCH)


def test_compile_writes_every_kernel_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.hsaco"
    said = output(capsys, "compile", "reduce", "shape=3x20000", "split=3", "ops=sum,sum,max", *ARCH, "-o", str(file),
                  "--keep", "asm").splitlines()  # fmt: skip
    names = ["x.hsaco", "x.s", "x.step2.hsaco", "x.step2.s", "x.step4.hsaco", "x.step4.s"]
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(names)
    assert len(said) == 3 and all("0 spilled" in line for line in said)
    alone = tmp_path / "alone.hsaco"
    output(capsys, "compile", *SPLIT, *ARCH, "--step", "3", "-o", str(alone))
    assert list(CodeObject.parse(alone).kernels) == list(CodeObject.parse(tmp_path / "x.step4.hsaco").kernels)
    (kernel,) = CodeObject.parse(file).kernels
    operator = find_operator("reduce")
    problem = operator.problem(shape="3x20000", split=3, ops="sum,sum,max")
    assert kernel == operator.spec(problem, get_target("gfx942")).name


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("0", "step 0 of ragged_row_sums does not exist; expected 3"),
        ("4", "step 4 of ragged_row_sums does not exist; expected 3"),
        ("2", "step 2 of ragged_row_sums is not a kernel but: pack table on the host from offsets; expected 3"),
    ],
)
@pytest.mark.parametrize("command", [["compile", "-o", "x.hsaco"], ["schedule"], ["timeline", "-o", "x.html"]])
def test_steps_that_are_no_kernels(
    command: list[str], step: str, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([command[0], "ragged_row_sums", *ARCH, *command[1:], "--step", step]) == 2
    assert words in capsys.readouterr().err


def test_bench_counts_every_kernel_and_their_sum(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(output(capsys, "bench", "ragged_row_sums", "pack=device", *ARCH, "--device", "sim", "--json"))
    counts = [step["counts"] for step in found["steps"]]
    assert [step["step"] for step in found["steps"]] == ["fill", "fill", "kernel", "kernel"]
    assert counts[:2] == [None, None]
    names = counts[2] | counts[3]
    assert found["counts"] == {name: counts[2].get(name, 0) + counts[3].get(name, 0) for name in names}
    assert found["counts"]["workgroups"] == found["steps"][2]["grid"][0] + found["steps"][3]["grid"][0]
    text = output(capsys, "bench", "ragged_row_sums", "pack=device", *ARCH, "--device", "sim")
    assert "wave instructions: step 3, kernel ragged_tiles_256" in text
    assert "counts of one launch of each of 2 kernels together" in text


def test_time_of_every_kernel_and_their_sum(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("numba")
    found = json.loads(output(capsys, "time", *SPLIT, *ARCH, "--json"))
    kernels = found["kernels"]
    assert found["kernel"] == kernels[0]["kernel"] and len(kernels) == 3
    for unit in ("cycles", "microseconds"):
        assert found["sum"][unit] == pytest.approx(sum(one["grid"][unit] for one in kernels))
    text = output(capsys, "time", *SPLIT, *ARCH)
    assert "3 kernels one after another" in text and "not modelled" in text
    # What prepares workspaces is run, and recorded; what stands behind has inputs of its own.
    kernels = json.loads(output(capsys, "time", "ragged_row_sums", "pack=device", *ARCH, "--json"))["kernels"]
    assert [one["kernel"] for one in kernels] == ["ragged_tiles_256", "ragged_row_sums_256"]
