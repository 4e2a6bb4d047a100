"""The operators through the real hip-python: launches arrive at the driver double, which runs them on the simulator."""

from __future__ import annotations

import gc
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from driver_double import DriverDouble

from ckmlir.ops import find_operator
from ckmlir.runtime import check_outputs, open_device, run_operator
from ckmlir.targets import get_target
from ckmlir.tools.cli import main

REQUESTS = [
    ("gemm", {"m": 70, "n": 50, "k": 90, "dtype": "bf16", "layout": "RRR", "lda": 96}),
    ("layernorm2d", {"m": 9, "n": 200, "add": "store", "save_stats": 1, "ystride": 208}),
    ("fmha_fwd", {"b": 1, "h": 2, "hk": 1, "sq": 40, "sk": 70, "d": 64, "mask": "bottom_right", "lse": 1}),
]


@pytest.mark.parametrize(("name", "keys"), REQUESTS, ids=[name for name, _ in REQUESTS])
def test_right_numbers(driver: DriverDouble, name: str, keys: dict[str, Any]) -> None:
    target = get_target("gfx942")
    operator = find_operator(name)
    problem = operator.problem(**keys)
    arrays = operator.inputs(problem, target)
    device = open_device("hip", target)
    result = run_operator(operator, problem, arrays, target, device)
    assert all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, target))
    assert [launch[0] for launch in driver.launches] == [result.kernel.kernel_name]
    assert driver.live() == {}
    device.close()


def test_the_example_takes_the_gpu(
    driver: DriverDouble, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program that runs on the simulator runs on a GPU unchanged, and leaves nothing there."""
    monkeypatch.setattr(sys, "argv", ["with_numpy.py"])
    example = Path(__file__).parent.parent.parent / "examples" / "with_numpy.py"
    runpy.run_path(str(example), run_name="__main__")
    output = capsys.readouterr().out
    assert "GPU 0 (Double 0, gfx942): a GPU of this chip is there" in output and "the same from memory" in output
    assert len(driver.launches) == 4


def test_the_command_runs_on_the_gpu(driver: DriverDouble, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "gemm", "m=40", "n=40", "k=40", "--arch", "gfx942", "--device", "hip"]) == 0
    output = capsys.readouterr().out
    assert "gemm on the GPU 0 (Double 0, gfx942)" in output and "1600 elements agree" in output
    gc.collect()
