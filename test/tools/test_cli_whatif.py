"""`ckmlir whatif` compares a kernel with changes of it: the model's numbers, instructions, schedules, keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ckmlir.tools.cli import main

GEMM = ["whatif", "gemm", "m=64", "n=64", "k=256", "block=64x64x32", "schedule=compv3", "--arch", "gfx942"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main([*GEMM, *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def outcomes(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    status, out, err = run(capsys, "--json", *arguments)
    assert status == 0, err
    rows: list[dict[str, Any]] = json.loads(out)["outcomes"]
    return rows


def test_without_changes_the_usual_ones_are_tried(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys)
    lines = out.splitlines()
    assert status == 0 and lines[0] == "gemm m=64 n=64 k=256 block=64x64x32 schedule=compv3 on gfx942"
    assert [line.split("  ")[0] for line in lines[2:8]] == [
        "base",
        "lds.latency × 2",
        "memory.*latency × 2",
        "without s_barrier",
        "without s_waitcnt*",
        "no bank conflicts",
    ]
    assert "model, not hardware" in out and "critical path, " in out and "loop_kernel.py:" in out


def test_every_change_makes_a_line_in_its_order(capsys: pytest.CaptureFixture[str]) -> None:
    rows = outcomes(
        capsys, "--remove", "s_barrier", "--scale", "memory.*latency=4", "--set", "lds.latency=200",
        "--wait", "s_waitcnt*:vmcnt=none", "--no-bank-conflicts",
    )  # fmt: skip
    names = ["base", "without s_barrier", "memory.*latency × 4", "lds.latency=200", "s_waitcnt*: vmcnt(63)"]
    assert [row["name"] for row in rows] == [*names, "no bank conflicts"]
    assert rows[0]["change_cycles"] == 0 and rows[2]["change_cycles"] > 0 and rows[3]["change_cycles"] > 0
    assert "BARRIER" not in rows[1]["stall_cycles_a_wave"] and rows[1]["remark"].startswith("timing only")
    assert "WAIT_VMEM" not in rows[4]["stall_cycles_a_wave"]


def test_changes_together_make_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows = outcomes(
        capsys, "--together", "--remove", "s_barrier", "--with", "schedule=compv4", "--scale", "lds.latency=2"
    )
    assert [row["name"] for row in rows] == ["base", "schedule=compv4, without s_barrier, lds.latency × 2"]


def test_schedules_by_name_file_text_and_buffers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.schedule"
    file.write_text("schedule mine 1; ahead load 2, to_lds 1; buffers 2; order interleave; fences memory\n")
    rows = outcomes(
        capsys, "--schedule", "compv4", "--schedule", str(file), "--schedule", "schedule plain 1", "--buffers", "+1",
        "--buffers", "2",
    )  # fmt: skip
    names = ["base", "schedule=compv4", "schedule mine", "schedule plain", "2 LDS buffers", "2 LDS buffers"]
    assert [row["name"] for row in rows] == names
    # The same schedule; two compilations may choose another order of a few scalar instructions.
    assert rows[1]["cycles"] == pytest.approx(rows[2]["cycles"], rel=0.03)
    assert rows[3]["cycles"] > rows[0]["cycles"]  # nothing runs ahead
    assert rows[4]["cycles"] == pytest.approx(rows[5]["cycles"], rel=0.03)


def test_another_share_of_the_work_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    rows = outcomes(capsys, "--with", "m=128")
    assert rows[1]["remark"] == "2 workgroups instead of 1, so only cycles of the launch compare"


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--scale", "lds.latensy=2"], "did you mean lds.latency"),
        (["--remove", "v_nothing"], "no instruction's mnemonic or text matches 'v_nothing'"),
        (["--remove", "s_endpgm"], "it steers waves"),
        (["--wait", "s_waitcnt*:vscnt=1"], "write PLACE:vmcnt=3"),
        (["--schedule", "compv99"], "neither a schedule's name nor a file"),
        (["--schedule", "schedule s 1; ahead fetch 1"], "speaks of stage 'fetch'"),
        (["--schedule", "schedule s 1; ahead from_lds 1"], "reads an LDS tensor before it is written"),
        (["--buffers", "two"], "+1 for one more than the 1 of now"),
        (["--buffers", "9"], "1 to 8 buffers make sense"),
        (["--with", "schedule=compv4,colour=red"], "unknown key"),
        (["--together", "--buffers", "+1", "--schedule", "compv4"], "one of --schedule, --buffers and --with"),
    ],
)
def test_what_is_refused(capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str) -> None:
    status, _, err = run(capsys, *arguments)
    assert status == 2 and reason in err


def test_operators_without_a_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["whatif", "copy", "--arch", "gfx90a"]
    assert main([*arguments, "--path", "0"]) == 0
    out = capsys.readouterr().out
    assert "without s_barrier" not in out and "critical path" not in out  # there are none to leave out
    assert main([*arguments, "--schedule", "compv4"]) == 2
    assert "copy has no loop with a schedule" in capsys.readouterr().err
