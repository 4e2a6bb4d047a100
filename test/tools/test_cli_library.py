"""`ckmlir run` and `bench` with kernels of a library: which one is taken, nothing compiled, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.dispatch.library import Library
from ckmlir.dispatch.misses import Asked
from ckmlir.dispatch.records import MODEL, Record, append_records
from ckmlir.runtime import compile_cache
from ckmlir.tools.cli import main

SPACES: list[dict[str, Any]] = [
    {"schema": 1, "op": "softmax", "arch": ["gfx942"], "keys": {"m": 5, "n": [64, 100]}},
    {"schema": 1, "op": "gemm", "arch": ["gfx942"], "keys": {"m": 64, "n": 64, "k": 512, "split_k": 4},
     "algorithm": {"schedule": ["v1"]}},
]  # fmt: skip
SOFTMAX = ["softmax", "m=7", "n=100", "--arch", "gfx942", "--device", "sim"]
SPLIT = ["gemm", "m=64", "n=64", "k=512", "split_k=4", "--arch", "gfx942", "--device", "sim"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("library")
    (directory / "space.json").write_text(json.dumps(SPACES))
    assert main(["build", str(directory / "space.json"), "-o", str(directory / "lib.ckl"), "--jobs", "1"]) == 0
    return directory / "lib.ckl"


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_nothing(*anything: object) -> CompiledKernel:
        raise AssertionError("a kernel was compiled")

    monkeypatch.setattr("ckmlir.compiler.compile_kernel", compile_nothing)
    monkeypatch.setenv("CKMLIR_CACHE", "off")
    compile_cache.forget()


@pytest.mark.usefixtures("no_compiler")
def test_run_takes_kernels_from_a_library(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["run", *SOFTMAX, "--library", str(file)]) == 0
    out = capsys.readouterr().out
    assert f"from {file}: softmax/gfx942/softmax_f16_" in out and ", the operator's choice of 1\n" in out
    assert "y: 700 elements agree" in out
    assert main(["run", *SPLIT, "--library", str(file), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] and [step.get("op") for step in report["steps"]] == ["gemm", "sum_parts"]
    assert report["library"]["identifier"].startswith("gemm/gfx942/") and report["library"]["taken"]
    assert report["library"]["rule"] == "first fit"  # of what the operator considers it has none
    assert report["spec"]["schedule"] == "v1"  # the library's, not what the operator chooses
    assert main(["run", "softmax", "m=0", "n=30", "--arch", "gfx942", "--library", str(file)]) == 0
    assert f"not from {file}: nothing to launch" in capsys.readouterr().out


@pytest.mark.usefixtures("no_compiler")
def test_bench_takes_kernels_from_a_library(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *SPLIT, "--library", str(file)]) == 0
    assert f"from {file}: gemm/gfx942/" in capsys.readouterr().out
    assert main(["bench", *SPLIT, "--library", str(file), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["library"]["fitting"] == 1 and "_v1_" in report["kernel"]


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.parametrize("command", ["run", "bench"])
def test_what_a_library_lacks_is_refused(command: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main([command, *SOFTMAX, "dtype=f32", "--library", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "no kernel of registry lib.ckl computes this softmax on gfx942" in err
    assert "dtype=f16: the kernel is another one; expected f32" in err and err.count("\n") == 1
    assert main([command, *SOFTMAX, "--library", "none.ckl"]) == 2
    assert "cannot read none.ckl: No such file" in capsys.readouterr().err
    assert main([command, *SOFTMAX, "--compile-missing"]) == 2
    assert "--compile-missing: there is no library" in capsys.readouterr().err


@pytest.mark.usefixtures("no_compiler")
def test_of_a_library_the_kernel_that_tuning_found(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = Library.load(file).registry()
    kernels = [one for one in library if one.operator.name == "gemm"]
    asked = Asked.of(kernels[0].operator, {"m": 64, "n": 64, "k": 512, "split_k": 4}, kernels[0].target)
    records = tmp_path / "tuned.jsonl"
    append_records(records, [Record(asked, kernels[0], MODEL, "gfx942", 3.0)])
    assert main(["run", *SPLIT, "--library", str(file), "--tuned", str(records)]) == 0
    assert f"{kernels[0]}, tuned table of 1" in capsys.readouterr().out
    assert main(["registry", "show", str(records), "--all"]) == 0
    assert f"1 of gemm, 1 of gfx942\n  {kernels[0]}\n" in capsys.readouterr().out
    assert main(["run", *SPLIT, "--tuned", str(records)]) == 2
    assert "--tuned: there is no library" in capsys.readouterr().err


def test_what_a_library_lacks_is_compiled_if_asked(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *SOFTMAX, "dtype=f32", "--library", str(file), "--compile-missing"]) == 0
    out = capsys.readouterr().out
    assert f"not from {file}, none of whose kernels computes this: softmax/gfx942/softmax_f32_" in out
    assert main(["run", *SOFTMAX, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["library"] is None
