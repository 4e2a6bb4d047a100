"""`ckmlir bench` and `ckmlir doctor`: on the simulator, on a GPU behind hip-python, and where things are missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ckmlir.lowering import linker
from ckmlir.ops import find_operator
from ckmlir.runtime import bench as measuring
from ckmlir.runtime.bench import Times, measure
from ckmlir.runtime.selection import select_device
from ckmlir.targets import get_target
from ckmlir.tools.cli import main

GFX942 = get_target("gfx942")
REQUEST = ["bench", "layernorm2d", "m=8", "n=64", "--arch", "gfx942"]


def test_flops_are_those_of_the_products() -> None:
    """Pairs that the mask excludes do not count; the brute force is over all pairs."""
    gemm, fmha = find_operator("gemm"), find_operator("fmha_fwd")
    assert gemm.flops(gemm.problem(m=3, n=5, k=7)) == 2 * 3 * 5 * 7
    for mask in ("none", "top_left", "bottom_right", "window:3,1", "window_bottom_right:2,0"):
        problem = fmha.problem(b=2, h=3, hk=1, sq=9, sk=13, d=64, dv=32, mask=mask)
        parsed = problem.mask
        shift = 13 - 9 if parsed.bottom_right else 0
        pairs = sum(
            (parsed.left < 0 or j >= i + shift - parsed.left) and (parsed.right < 0 or j <= i + shift + parsed.right)
            for i in range(9)
            for j in range(13)
        )
        assert fmha.flops(problem) == 2 * 2 * 3 * pairs * (64 + 32), mask
    assert find_operator("layernorm2d").flops(None) is None


def test_the_simulator_gives_counts_and_no_times(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*REQUEST, "--device", "sim", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert all(report[key] is None for key in ("median_s", "least_s", "spread_s", "tflops", "gb_per_s", "repeats"))
    counts = report["counts"]
    assert counts["workgroups"] >= 1
    assert counts["bytes_written"] == 8 * 64 * 2
    assert "mfma" not in counts and counts["valu"] > 0
    assert report["bytes"] == 2 * (8 * 64 + 64) * 2 and report["reason"] == "asked for"
    assert main([*REQUEST, "--device", "sim"]) == 0
    text = capsys.readouterr().out
    assert "the simulator has no times" in text
    assert "µs" not in text and "TFLOPS" not in text and "GB/s" not in text


@pytest.mark.parametrize("cold", ["no", "rotate", "flush"])
def test_a_gpu_gives_times(
    driver: Any, capsys: pytest.CaptureFixture[str], cold: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every launch between two events; cold caches by other arrays each time, or by filling them in between."""
    monkeypatch.setattr(measuring, "LAST_LEVEL_CACHE_BYTES", 0)
    arguments = [*REQUEST, "--device", "hip", "--warm-up", "2", "--repeats", "5", "--cold", cold]
    assert main([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["repeats"] == 5 and report["counts"] is None
    assert 0 < report["least_s"] <= report["median_s"]
    assert report["gb_per_s"] == pytest.approx(report["bytes"] / report["median_s"] / 1e9)
    assert driver.calls["hipModuleLaunchKernel"] == 7
    assert driver.calls["hipMemsetAsync"] == (7 if cold == "flush" else 0)
    assert driver.calls["hipMalloc"] == 4 * (7 if cold == "rotate" else 1) + (cold == "flush")
    driver.settle()
    assert main([*arguments]) == 0
    assert "middle half within" in capsys.readouterr().out


def test_speeds(driver: Any) -> None:
    gemm = find_operator("gemm")
    problem = gemm.problem(m=64, n=64, k=64)
    device = select_device("hip", GFX942).device
    found = measure(gemm, problem, gemm.inputs(problem, GFX942), GFX942, device, warm_up=0, repeats=1)
    assert found.times is not None and found.tflops == pytest.approx(2 * 64**3 / found.times.median / 1e12)
    assert found.times.spread == 0.0
    device.close()


def test_median_and_spread() -> None:
    times = Times((5.0, 1.0, 2.0, 3.0, 4.0))
    assert (times.median, times.least, times.spread) == (3.0, 1.0, 2.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["m=0"], "there is nothing to launch"),
        (["--repeats", "0"], "at least one launch is measured"),
        (["--warm-up", "-1"], "not a whole number"),
        (["--cold", "ice"], "invalid choice"),
    ],
)
def test_bad_requests(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    request = [one for one in REQUEST if one != "m=8"]
    assert main([*request, *arguments]) == 2
    assert words in capsys.readouterr().err


def findings(capsys: pytest.CaptureFixture[str], status: int = 0) -> dict[str, Any]:
    assert main(["doctor", "--json"]) == status
    report = json.loads(capsys.readouterr().out)
    return {"usable": report["usable"], "gpu": report["gpu"], **{one["name"]: one for one in report["findings"]}}


def test_doctor_with_and_without_a_gpu(driver: Any, capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(capsys)
    assert found["usable"] and found["gpu"]
    assert "GPU 0 (Double 0, gfx942) gfx942:sramecc+:xnack-, 304 compute units, 64 GiB" in found["GPUs"]["detail"]
    assert found["HIP"]["detail"].startswith("runtime 7.15.12345, driver 7.15.12345, ")
    assert found["HIP"]["detail"].endswith("libamdhip64.so")
    assert main(["doctor"]) == 0
    assert "Kernels run on GPUs and the simulator." in capsys.readouterr().out
    driver.stop()
    found = findings(capsys)
    assert found["usable"] and not found["gpu"] and "HIP" not in found
    assert found["GPUs"]["detail"].startswith("no device: HIP finds no GPU") and "rocminfo" in found["GPUs"]["remedy"]
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "absent   GPUs" in text and "-> see HIP_VISIBLE_DEVICES" in text and "Kernels run on the simulator." in text


def test_doctor_without_a_linker(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def find_linker() -> linker.Linker:
        raise linker.LinkerNotFound(f"no ld.lld found to link code objects; {linker.HOW_TO_GET_ONE}")

    monkeypatch.setattr(linker, "find_linker", find_linker)
    assert findings(capsys)["linker"]["detail"] == "internal (in this process)"
    monkeypatch.setenv("CKMLIR_LINKER", "lld")
    found = findings(capsys, status=2)
    assert not found["usable"] and not found["linker"]["ok"] and "pip install ziglang" in found["linker"]["remedy"]
    assert main(["doctor"]) == 2
    assert "MISSING  linker" in capsys.readouterr().out


def test_doctor_without_hip_python() -> None:
    program = "import sys; sys.modules['hip'] = None; from ckmlir.tools.cli import main; sys.exit(main(['doctor']))"
    root = Path(__file__).parent.parent.parent
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "absent   hip-python" in done.stdout and "-> pip install 'ckmlir[hip]'" in done.stdout
    assert "GPUs " not in done.stdout


def test_bench_times_every_step(driver: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """And all of them together; no event is left."""
    request = ["bench", "reduce", "shape=3x20000", "split=3", "ops=sum,max", "--arch", "gfx942", "--device", "hip"]
    assert main([*request, "--repeats", "3", "--warm-up", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["steps"]) == 3 and found["median_s"] > 0 and all(step["median_s"] > 0 for step in found["steps"])
    assert main([*request, "--repeats", "1", "--warm-up", "0"]) == 0
    assert "µs  step 3, kernel reduce_f32_max" in capsys.readouterr().out
