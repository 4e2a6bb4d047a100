"""`ckmlir run`: arrays from and to files, the comparison, its report, the exit status. NumPy stands in for a device."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.runtime import FindingsFault, KernelFault, RunResult
from ckmlir.sim import Finding
from ckmlir.tools import run as run_command
from ckmlir.tools.cli import main

Change = Callable[[dict[str, np.ndarray]], object]


class Numpy:
    """What a run does, with the reference for a device: `seen` are its inputs, `change` spoils its outputs."""

    def __init__(self) -> None:
        self.seen: dict[str, np.ndarray] = {}
        self.change: Change = lambda outputs: None

    def run(
        self, operator: Any, problem: Any, arrays: Any, target: Any, device: Any, *, guarded: bool, **kernel: Any
    ) -> RunResult:
        self.seen = dict(arrays)
        reference = operator.reference(problem, arrays)
        dtypes = {array.name: numpy_dtype(array.dtype, target) for array in operator.arrays(problem)}
        outputs = {name: value.astype(dtypes[name]) for name, value in reference.items()}
        self.change(outputs)
        return RunResult(outputs, None, 0.5, 0.25)


@pytest.fixture
def numpy(monkeypatch: pytest.MonkeyPatch) -> Numpy:
    stand_in = Numpy()
    properties = SimpleNamespace(name="numpy")
    monkeypatch.setattr(run_command, "run_operator", stand_in.run)
    monkeypatch.setattr(run_command, "open_device", lambda kind, target, **_: SimpleNamespace(properties=properties))
    return stand_in


GEMM = ["run", "gemm", "m=9", "n=10", "k=11", "--arch", "gfx942"]


def test_agreement(numpy: Numpy, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(GEMM) == 0
    out, err = capsys.readouterr()
    assert "c: 90 elements agree" in out
    assert err == ""  # progress is for terminals


def test_disagreement_says_where_and_by_how_much(numpy: Numpy, capsys: pytest.CaptureFixture[str]) -> None:
    def change(outputs: dict[str, np.ndarray]) -> None:
        outputs["c"][3, 4] += 1
        outputs["c"][8, 9] += 5

    numpy.change = change
    assert main(GEMM) == 1
    out = capsys.readouterr().out
    assert "c: 2 of 90 elements disagree, worst at [8, 9]: got " in out
    assert "max abs err 5" in out
    assert main([*GEMM, "--no-check"]) == 0
    assert "not compared" in capsys.readouterr().out


def test_json_report(numpy: Numpy, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GEMM, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {key: report[key] for key in ("op", "arch", "device", "compile_s", "run_s", "ok")} == {
        "op": "gemm", "arch": "gfx942", "device": "numpy", "compile_s": 0.5, "run_s": 0.25, "ok": True
    }  # fmt: skip
    assert report["spec"]["block"] == [64, 64, 64]
    assert 0 < report["max_abs_err"] < 0.01
    assert 0 < report["max_rel_err"] < 0.001
    assert set(report["tolerance"]) == {"rtol", "atol", "reason"}
    assert report["outputs"]["c"]["elements"] == 90


def test_json_report_of_a_disagreement(numpy: Numpy, capsys: pytest.CaptureFixture[str]) -> None:
    numpy.change = lambda outputs: outputs["o"].__setitem__((0, 1, 2, 3), np.nan)
    assert main(["run", "fmha_fwd", "sq=5", "d=8", "lse=1", "--arch", "gfx950", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert report["max_abs_err"] == "inf"
    assert report["outputs"]["lse"]["ok"] is True
    assert report["outputs"]["o"]["ok"] is False
    assert report["outputs"]["o"]["mismatches"] == 1
    assert report["outputs"]["o"]["worst"]["index"] == [0, 1, 2, 3]
    assert report["outputs"]["o"]["worst"]["actual"] == "nan"


def test_json_report_without_a_comparison(numpy: Numpy, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GEMM, "--json", "--no-check"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["max_abs_err"], report["tolerance"], report["outputs"]) == (None, None, None, {})


def test_a_fault_is_a_failed_run_not_a_bad_request(numpy: Numpy, capsys: pytest.CaptureFixture[str]) -> None:
    def fault(outputs: dict[str, np.ndarray]) -> None:
        raise KernelFault("gemm: out of bounds")

    numpy.change = fault
    assert main(GEMM) == 1
    out, err = capsys.readouterr()
    assert (out, err) == ("", "ckmlir: error: gemm: out of bounds\n")


def test_the_seed_makes_the_arrays(numpy: Numpy) -> None:
    seen = []
    for seed in ("1", "1", "2"):
        assert main([*GEMM, "--seed", seed]) == 0
        seen.append(numpy.seen["a"])
    np.testing.assert_array_equal(seen[0], seen[1])
    assert (seen[0] != seen[2]).any()


@pytest.mark.parametrize(
    ("key", "dtype", "stored"),
    [
        ("f16", np.float16, np.float16),
        ("i8", np.int8, np.int8),
        ("bf16", ml_dtypes.bfloat16, np.uint16),
        ("bf16", ml_dtypes.bfloat16, "V2"),
        ("fp8", ml_dtypes.float8_e4m3fnuz, np.uint8),
        ("fp8", ml_dtypes.float8_e4m3fnuz, "V1"),
        ("f16", np.float16, ">f2"),
    ],
)
def test_inputs_from_files(numpy: Numpy, tmp_path: Path, key: str, dtype: Any, stored: Any) -> None:
    a = np.arange(-49, 50).reshape(9, 11).astype(dtype)
    in_file = a.astype(stored) if stored == ">f2" else a.view(stored)
    np.save(tmp_path / "a.npy", np.asfortranarray(in_file))
    assert main([*GEMM, f"dtype={key}", "--input", f"a={tmp_path}/a.npy"]) == 0
    assert numpy.seen["a"].dtype == dtype
    np.testing.assert_array_equal(numpy.seen["a"].astype(np.float32), a.astype(np.float32))


@pytest.mark.parametrize(("key", "bits"), [("bf16", np.uint16), ("f32", np.float32)])
def test_outputs_to_files(numpy: Numpy, tmp_path: Path, key: str, bits: Any) -> None:
    words = [*GEMM, "dtype=bf16", f"out={key}", "--output", f"c={tmp_path}/c.npy", f"a={tmp_path}/a.npy"]
    assert main(words) == 0
    c, a = np.load(tmp_path / "c.npy"), np.load(tmp_path / "a.npy")
    assert (c.shape, c.dtype) == ((9, 10), bits)
    np.testing.assert_array_equal(a.view(ml_dtypes.bfloat16), numpy.seen["a"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "c.npy"]
    # What was written can be given back.
    before = numpy.seen["a"]
    assert main([*GEMM, "dtype=bf16", "--seed", "9", "--input", f"a={tmp_path}/a.npy"]) == 0
    np.testing.assert_array_equal(numpy.seen["a"], before)


def _save(path: Path, content: Any) -> None:
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content)


def _huge_header() -> bytes:
    text = b"{'descr': '<f2', 'fortran_order': False, 'shape': (1000000000000000,), }"
    text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (np.zeros((11, 9), np.float16), "array a has shape (11, 9); these keys ask for (9, 11)"),
        (np.zeros((9, 11), np.float32), "array a has type float32; dtype f16 is float16"),
        (np.zeros((9, 11), np.uint16), "array a has type uint16; dtype f16 is float16"),
        (np.array([None, {}], object), "not a whole .npy file of numbers"),
        (b"", "not a .npy file"),
        (b"PK\x03\x04 an archive", "not a .npy file"),
        (b"\x93NUMPY\x01\x00\x10\x00{'descr'", "not a whole .npy file of numbers"),
        (_huge_header(), "not a whole .npy file of numbers"),
    ],
)
def test_files_that_are_refused(
    numpy: Numpy, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: Any, words: str
) -> None:
    _save(tmp_path / "a.npy", content)
    output = tmp_path / "c.npy"
    assert main([*GEMM, "--input", f"a={tmp_path}/a.npy", "--output", f"c={output}"]) == 2
    out, err = capsys.readouterr()
    assert words in err
    assert (out, err.count("\n")) == ("", 1)
    assert not output.exists()


def test_a_truncated_file_is_refused(numpy: Numpy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((9, 11), np.float16))
    path.write_bytes(path.read_bytes()[:-5])
    assert main([*GEMM, "--input", f"a={path}"]) == 2
    assert "not a whole .npy file of numbers" in capsys.readouterr().err


def test_nothing_is_written_when_the_kernel_faults(numpy: Numpy, tmp_path: Path) -> None:
    def fault(outputs: dict[str, np.ndarray]) -> None:
        raise KernelFault("fault")

    numpy.change = fault
    assert main([*GEMM, "--output", f"c={tmp_path}/c.npy"]) == 1
    assert list(tmp_path.iterdir()) == []


def test_progress_is_shown_on_a_terminal_only(
    numpy: Numpy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(GEMM) == 0
    err = capsys.readouterr().err
    assert "compiling and running gemm_f16" in err
    assert err.endswith("\r\033[K")


def test_the_whole_way_on_the_simulator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = np.linspace(-1, 1, 65 * 40).reshape(40, 65).astype(np.float16)
    np.save(tmp_path / "a.npy", a)
    words = ["run", "gemm", "m=65", "n=33", "k=40", "layout=CRR", "out=f32", "--arch", "gfx942", "--device", "sim"]
    files = ["--input", f"a={tmp_path}/a.npy", "--output", f"c={tmp_path}/c.npy", f"b={tmp_path}/b.npy"]
    assert main([*words, *files, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["device"]) == (True, "simulator (gfx942)")
    assert report["compile_s"] > 0
    assert report["run_s"] > 0
    b, c = np.load(tmp_path / "b.npy"), np.load(tmp_path / "c.npy")
    np.testing.assert_allclose(c, a.T.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-4)


# -- checkers --------------------------------------------------------------------------------------------------------

FINDING = Finding("race", "conflict", "gemm", 64, "ds_read_b32 v0, v1", ("gemm.py", 7), (0, 0, 0), 1, (3,), 16, "LDS")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_findings_make_the_run_fail(
    form: list[str], numpy: Numpy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: Any, **__: Any) -> RunResult:
        raise FindingsFault("gemm: 1 finding", [FINDING])

    monkeypatch.setattr(run_command, "run_operator", run)
    assert main([*GEMM, "--check", "race,memory", *form]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    if form:
        report = json.loads(out)
        assert report["ok"] is False and report["findings"][0]["source"] == ["gemm.py", 7]
        assert report["findings"][0]["lanes"] == [3] and report["findings"][0]["allocation"] == "LDS"
    else:
        assert "1 finding" in out


def test_a_clean_run_with_all_checks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GEMM, "--check", "all", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["findings"] == []
    assert report["checked"] == ["memory", "initialisation", "race", "barrier", "wait", "hazard", "promise"]
    assert main([*GEMM, "--check", "race,wait"]) == 0
    assert capsys.readouterr().out.endswith("\nnothing found by the checkers race, wait\n")


@pytest.mark.parametrize(("operator", "keys", "says"), [
    ("fused_moe", ["t=2", "e=2", "topk=1", "hidden=16", "inter=0"], "nothing found by the checkers race"),
    ("softmax", ["m=0"], "checked: nothing, since nothing was launched"),
])  # fmt: skip
def test_kernels_of_other_operators_count_as_checked(
    operator: str, keys: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is nothing of its own to launch, as with experts that have nothing between their products."""
    assert main(["run", operator, *keys, "--arch", "gfx942", "--device", "sim", "--check", "race"]) == 0
    assert capsys.readouterr().out.endswith(f"\n{says}\n")



@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--check", "rece"], "'rece' is not a checker; choose all, or from memory"),
        (["--check", "race", "--device", "hip"], "the checkers are the simulator's"),
    ],
)
def test_bad_checks(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GEMM, *arguments]) == 2
    assert message in capsys.readouterr().err
