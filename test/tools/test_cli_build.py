"""`ckmlir build` and `ckmlir registry`: what they print and write, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ckmlir.dispatch.library import Library
from ckmlir.tools import registry
from ckmlir.tools.cli import main

SPACE: dict[str, Any] = {
    "schema": 1, "op": "softmax", "arch": ["gfx942"], "keys": {"m": 5, "n": [64, 100], "dtype": ["f16", "f64"]},
}  # fmt: skip


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "space.json"
    file.write_text(json.dumps({**SPACE, "keys": {**SPACE["keys"], "dtype": ["f16", "f32"]}}))
    return file


def done(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert main(list(words)) == status
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ckmlir: error: ") and err.count("\n") == 1
    return err


def test_from_a_space_to_a_library_and_registries(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dry = done(capsys, "build", "space.json", "-o", "lib.ckl", "--dry-run", "--arch", "gfx942,gfx950").splitlines()
    assert dry[0] == "8 kernels of 8 combinations"
    assert sum(line.startswith("softmax/gfx950/softmax_f16_rows") for line in dry) == 2
    assert not Path("lib.ckl").exists()
    assert "lib.ckl: 4 kernels, " in done(capsys, "build", "space.json", "-o", "lib.ckl", "--jobs", "1")
    assert len(Library.load("lib.ckl")) == 4

    shown = done(capsys, "registry", "show", "lib.ckl", "space.json", "--all").splitlines()
    assert shown[0] == "lib.ckl: 4 kernels of 2 signatures: 4 of softmax, 4 of gfx942"
    assert sorted(shown[1:5]) == sorted(shown[6:])
    assert done(capsys, "registry", "export", "lib.ckl", "-o", "all.json") == "all.json: 4 kernels\n"
    values = json.loads(Path("all.json").read_text())
    values["kernels"], values["statistics"] = values["kernels"][:3], {"kernels": 3}
    Path("three.json").write_text(json.dumps(values))
    assert done(capsys, "registry", "diff", "all.json", "lib.ckl") == ""
    difference = done(capsys, "registry", "diff", "all.json", "three.json", status=1)
    assert difference.startswith("- softmax/gfx942/") and difference.count("\n") == 1
    assert done(capsys, "registry", "merge", "three.json", "lib.ckl", "-o", "again.json") == "again.json: 4 kernels\n"
    assert done(capsys, "registry", "import", "three.json", "-o", "grown.json") == "grown.json: 3 kernels\n"
    assert done(capsys, "registry", "import", "lib.ckl", "-o", "grown.json") == "grown.json: 4 kernels\n"
    assert list(registry.open_registry(Path("grown.json"))) == list(registry.open_registry(Path("again.json")))
    of_one = ("lib.ckl", "-o", "grown.json", "--op", "softmax")
    assert done(capsys, "registry", "import", *of_one) == "grown.json: 4 kernels\n"

    explained = done(capsys, "registry", "explain", "lib.ckl", "softmax", "m=9", "n=100", "--arch", "gfx942")
    assert explained.startswith("registry lib.ckl: softmax on gfx942: 1 of 4 kernels compute the problem\n")
    assert "dtype=f32: the kernel is another one; expected f16" in explained
    assert explained.endswith("is among them\n")
    assert "0 of 0 kernels" in done(capsys, "registry", "explain", "lib.ckl", "softmax", "--arch", "gfx950")


def test_a_registry_without_what_is_asked_for_says_what_it_has(
    space: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done(capsys, "registry", "export", "space.json", "-o", "all.json")
    words = ("build", "all.json", "-o", "lib.ckl", "--arch", "gfx950")
    assert "all.json: --arch gfx950 leaves no kernel; there are some of softmax for gfx942" in refused(capsys, *words)


def test_a_partial_import_goes_into_a_partial_registry(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done(capsys, "registry", "export", "space.json", "-o", "all.json")
    Path("none.json").write_text(json.dumps({"schema": 1, "name": "none", "kernels": []}))
    words = ("registry", "import", "none.json", "-o", "grown.json", "--partial")
    assert done(capsys, *words) == "grown.json: 0 kernels\n"
    assert done(capsys, *words) == "grown.json: 0 kernels\n"
    into_it = ("registry", "import", "all.json", "-o", "grown.json")
    assert "grown.json: registry grown: it has no kernels" in refused(capsys, *into_it)
    assert done(capsys, *into_it, "--partial") == "grown.json: 4 kernels\n"


def test_registries_and_profiles_are_built(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done(capsys, "registry", "export", "space.json", "-o", "all.json")
    printed = done(capsys, "build", "all.json", "-o", "one.ckl", "--jobs", "1", "--arch", "gfx942,gfx950")
    assert printed.startswith("4 kernels of 4 combinations\none.ckl: 4 kernels, ")
    assert done(capsys, "registry", "diff", "one.ckl", "all.json") == ""
    dry = done(capsys, "build", "f32", "-o", "lib.ckl", "--dry-run", "--op", "fmha_fwd_splitkv").splitlines()
    assert dry[0] == "6 kernels of 6 combinations, and 6 that they take too"
    assert sum(line.startswith("fmha_fwd_splitkv_combine/") for line in dry) == 6
    with pytest.raises(SystemExit):
        main(["build", "--help"])
    assert "  flash_backward  what flash-attention calls backward" in capsys.readouterr().out


def test_what_is_dropped_is_printed(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space.write_text(json.dumps(SPACE))
    printed = done(capsys, "build", "space.json", "-o", "lib.ckl", "--dry-run")
    first, second = printed.splitlines()[:2]
    assert first == "2 kernels of 4 combinations"
    assert second == "        2 dropped: softmax: dtype=f64: expected f16|bf16|f32"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["build", "flash_forwards", "-o", "lib.ckl"], "is neither a file nor a profile; did you mean flash_forward?"),
        (["build", "fp8", "-o", "lib.ckl", "--arch", "gfx90a", "--op", "gemm"], "to build: dtype=fp8: gfx90a has no"),
        (["build", "fp8", "-o", "lib.ckl", "--op", "copy"], "fp8: --op copy leaves no kernel; there are some of gemm"),
        (["build", "fp8", "-o", "lib.ckl", "--op", "gem"], "did you mean gemm?"),
        (["build", "none.jsonl", "-o", "lib.ckl"], "cannot read none.jsonl: No such file"),
        (["build", "empty.jsonl", "-o", "lib.ckl", "--op", "gemm"], "empty.jsonl: it has no kernels"),
        (["build", "none.json", "-o", "lib.ckl"], "cannot read none.json: No such file or directory"),
        (["build", "space.json", "-o", "none/lib.ckl"], "cannot write none/lib.ckl: there is no directory"),
        (["build", "space.json", "-o", "lib.ckl", "--jobs", "0"], "--jobs 0: expected 1 or more"),
        (["build", "space.json", "-o", "lib.ckl", "--on", "far"], "--on far: expected local, or dask://host:port"),
        (["build", "space.json", "-o", "lib.ckl", "--arch", "gfx941"], "--arch gfx941: unknown target"),
        (["registry", "show", "none.ckl"], "cannot read none.ckl: No such file"),
        (["registry", "show", "/dev/null"], "/dev/null is not JSON"),
        (["registry", "list", "space.json"], "argument ACTION: invalid choice: 'list'"),
        (["registry", "diff", "space.json"], "diff: 1 files; expected two"),
        (["registry", "export", "space.json"], "export: -o FILE is missing"),
        (["registry", "show", "space.json", "-o", "x"], "-o x: show writes nothing; leave it out"),
        (["registry", "export", "space.json", "-o", "x.json", "--op", "gemm"], "no kernel is left to export"),
        (["registry", "import", "space.json", "-o", "x.json", "--op", "gemm"], "no kernel is left to import"),
        (["registry", "explain", "space.json", "softmax"], "explain: expected FILE OP key=value … --arch A"),
        (["registry", "explain", "space.json", "softmx", "--arch", "gfx942"], "did you mean softmax?"),
        (["registry", "explain", "space.json", "gemm", "dtype=fp8", "--arch", "gfx90a"], "gemm on gfx90a: dtype=fp8: "),
    ],
)
def test_what_is_refused(space: Path, capsys: pytest.CaptureFixture[str], words: list[str], text: str) -> None:
    Path("empty.jsonl").touch()
    assert text in refused(capsys, *words)
    assert {one.name for one in space.parent.iterdir()} == {"space.json", "empty.jsonl"}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({}, "space: no field schema; expected a whole number"),
        ({"schema": 1, "op": "softmax", "arch": "gfx900"}, "space: arch: unknown target 'gfx900'"),
        ({"schema": 1, "kernels": []}, "registry: no field name; expected text"),
    ],
)
def test_a_file_that_means_nothing_is_named(
    space: Path, capsys: pytest.CaptureFixture[str], content: dict[str, object], text: str
) -> None:
    (space.parent / "other.json").write_text(json.dumps(content))
    assert f"error: other.json: {text}" in refused(capsys, "registry", "merge", "space.json", "other.json", "-o", "x")
