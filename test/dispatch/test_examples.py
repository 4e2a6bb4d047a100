"""The examples of dispatch run and say what they promise."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "dispatch"
SAID = {
    "01_basic.py": (["first fit, of 1", "largest error"], []),
    "02_batch.py": (["(32, 64, 64): c: 1152 elements agree", "(128, 128, 64): c: 32768 elements agree"], []),
    "03_benchmark.py": (["wave instructions", "bytes read"], []),
    "04_validation.py": (
        ["m=-1: expected a whole number", "layout=RCX", "lda=8", "rows=3: unknown key", "gfx90a has no fp8 MFMA",
         "strict dispatcher does not compile; the nearest is gemm_"], []),
    "05_numpy.py": (["largest error", "misses: gemm gfx942"], []),
    "10_advanced_benchmark.py": (
        ["µs by the model  gemm_", "(the operator's choice)", ": tuned table, of"], ["--budget", "1"]),
    "06_json_export.py": (["4 dropped: dtype=fp8: gfx90a has no fp8 MFMA", '"gfx950": 12', "bytes"], []),
    "07_stress.py": (["3 kernels built in", "all are right"], ["--kernels", "3"]),
    "08_heuristics.py": (["24 kernels in 6 pools", "compv4  by shaped", "by tuned table", "by size buckets"], []),
    "09_registries.py": (["both     gemm_f16_f16_rcr_64x64x64", "strict dispatcher does not compile", "0 of 2"], []),
    "11_json_import.py": (['waves="four": expected int', "can be read"], []),
}


def test_every_example_is_run() -> None:
    assert set(SAID) == {one.name for one in EXAMPLES.glob("*.py")}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", SAID)
def test_example(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    texts, arguments = SAID[name]
    monkeypatch.setenv("CKMLIR_DEVICE", "sim")
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    output = capsys.readouterr().out
    for text in texts:
        assert text in output
