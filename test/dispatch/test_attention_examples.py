"""The examples of attention run, and compare their results themselves; some say what they promise."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "dispatch" / "fmha"
NAMES = sorted(one.name for one in EXAMPLES.glob("[0-9]*.py"))
SAID = {
    "01": "first fit, of",
    "02": "kernels for 4 shapes",
    "03": "matrix instructions; the simulator has no times",
    "04": "gfx90a has no fp8 MFMA",
    "05": "largest error:",
    "06": '"fmha_fwd": 24',
    "07": "kernels are right",
    "08": "by long_rows",
    "09": "both ",
    "10": "chosen by model of time",
    "16": "kernel fmha_fwd_splitkv_combine",
    "18": "kernel fmha_bwd_dot_do_o",
    "30": "1 kernel\n",
    "32": "gfx950 32 48 64 80 96 128 160 192 256",
    "36": "µs by the model",
}


def test_there_is_one_for_each_subject() -> None:
    assert [name[:2] for name in NAMES] == [f"{number:02}" for number in range(1, 39)]


@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", NAMES)
def test_example(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CKMLIR_DEVICE", "sim")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    output = capsys.readouterr().out
    assert SAID.get(name[:2], "elements agree") in output
