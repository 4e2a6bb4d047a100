"""`ckmlir tune`: what it prints and keeps, for a request and for misses, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckmlir.dispatch.records import read_records
from ckmlir.tools.cli import main

SOFTMAX = ["tune", "softmax", "m=5", "n=64", "--arch", "gfx942", "--jobs", "1"]
SPACE = {
    "schema": 1, "op": "softmax", "arch": ["gfx942", "gfx950"], "keys": {"m": 5, "n": 1024},
    "algorithm": {"row_waves": [1, 2]},
}  # fmt: skip


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_request_is_tuned_by_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    Path("space.json").write_text(json.dumps(SPACE))
    longer = [*SOFTMAX[:3], "n=1024", *SOFTMAX[4:], "--space", "space.json"]
    assert main(longer) == 0
    lines = capsys.readouterr().out.splitlines()
    kernels = [one.kernel for one in read_records(Path("tuned.jsonl"))]
    assert lines[0] == f"softmax m=5 on gfx942: {len(kernels)} of {len(kernels)} kernels were looked at"
    assert sum("(the operator's choice)" in line for line in lines) == 1
    assert lines[-1] == "times are the model's; no GPU was asked; all records are in tuned.jsonl"
    assert main([*longer, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    times = [one["median_us"] for one in report["best"]]
    assert times == sorted(times) and len(times) == report["resumed"] == len(kernels) == 2
    assert report["best"][0]["checked"] == "softmax m=5 on gfx942"


def test_misses_are_tuned(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [("softmax", "gfx942", {"m": "5", "n": "64"}), ("copy", "gfx950", {"m": "9", "n": "16"})]
    lines = [json.dumps({"schema": 1, "op": op, "arch": arch, "keys": keys}) for op, arch, keys in asked]
    Path("misses.jsonl").write_text("\n".join([*lines, lines[1], ""]))
    assert main(["tune", "--misses", "misses.jsonl", "-o", "out.jsonl", "--jobs", "1", "--budget", "1"]) == 0
    out = capsys.readouterr().out
    assert out.index("copy m=9 n=16 on gfx950: ") < out.index("softmax m=5 n=64 on gfx942: ")  # it is wanted more often
    assert {one.asked.operator.name for one in read_records(Path("out.jsonl"))} == {"softmax", "copy"}
    assert main(["tune", "--misses", "misses.jsonl", "--arch", "gfx90a"]) == 2
    assert "there is no request for gfx90a in it" in capsys.readouterr().err


def test_a_miss_that_cannot_be_tuned_leaves_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [("gemm", "gfx90a", {"dtype": "fp8"}), ("softmax", "gfx942", {"m": "0"})]
    asked.append(("copy", "gfx950", {"m": "9", "n": "16"}))
    lines = [json.dumps({"schema": 1, "op": op, "arch": arch, "keys": keys}) for op, arch, keys in asked]
    Path("misses.jsonl").write_text("\n".join([*lines, ""]))
    assert main(["tune", "--misses", "misses.jsonl", "--jobs", "1", "--budget", "1"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("copy m=9 n=16 on gfx950: ")
    assert "gemm dtype=fp8 on gfx90a: " in err and "gfx90a has no fp8 MFMA" in err
    assert "softmax m=0 on gfx942: " in err and "nothing is launched" in err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["tune"], "expected either OP key=value … or --misses FILE"),
        (["tune", "softmax"], "the following arguments are required: --arch"),
        (["tune", "softmx", "--arch", "gfx942"], "did you mean softmax?"),
        (["tune", "softmax", "q=1", "--arch", "gfx942"], "softmax has no key q; "),
        (["tune", "gemm", "dtype=fp8", "--arch", "gfx90a"], "gfx90a has no fp8 MFMA"),
        (["tune", "gemm", "k=64", "lda=8", "--arch", "gfx942"], "gemm: lda=8: rows of array a have 64 elements"),
        (["tune", "softmax", "m=0", "--arch", "gfx942"], "nothing is launched"),
        ([*SOFTMAX, "--budget", "-1"], "-1 is not a number of seconds"),
        ([*SOFTMAX, "--finalists", "0"], "0 is not a whole number from 1 to 1000"),
        ([*SOFTMAX, "--on", "there"], "--on there: expected local, or dask://host:port"),
        ([*SOFTMAX, "-o", "none/tuned.jsonl"], "there is no directory"),
        ([*SOFTMAX, "-o", "/dev/full"], "/dev/full is not a regular file"),
        ([*SOFTMAX, "--space", "none.json"], "cannot read none.json"),
        ([*SOFTMAX, "--device", "gpu"], "invalid choice: 'gpu'"),
        ([*SOFTMAX, "--jobs", "0"], "--jobs 0: expected 1 or more"),
        (["tune", "--misses", "none.jsonl"], "cannot read none.jsonl"),
        (["tune", "softmax", "--misses", "m.jsonl"], "expected either OP key=value … or --misses FILE"),
    ],
)
def test_what_is_refused(words: list[str], text: str, capsys: pytest.CaptureFixture[str], directory: Path) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and text in err and err.count("\n") == 1
    assert list(directory.iterdir()) == []


def test_a_file_that_is_none_of_records(capsys: pytest.CaptureFixture[str]) -> None:
    Path("tuned.jsonl").write_text("hello\n")
    assert main(SOFTMAX) == 2
    assert "tuned.jsonl:1 is not JSON" in capsys.readouterr().err
    assert Path("tuned.jsonl").read_text() == "hello\n"
