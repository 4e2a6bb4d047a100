"""Finding a linker, and what its failures look like."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckmlir.lowering import linker
from ckmlir.lowering.linker import Linker, LinkerNotFound, LinkError, find_linker


def executable(path: Path, script: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment without any linker; returns an empty directory that is all of PATH."""
    empty = tmp_path / "bin"
    empty.mkdir()
    monkeypatch.delenv("CKMLIR_LLD", raising=False)
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "no-rocm"))
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    linker._find.cache_clear()
    return empty


def test_without_any_linker_the_error_tells_the_ways_to_get_one(bare: Path) -> None:
    with pytest.raises(LinkerNotFound) as caught:
        find_linker()
    text = str(caught.value)
    assert "\n" not in text
    for way in ("pip install ziglang", "apt install lld", "ROCm", "CKMLIR_LLD="):
        assert way in text


def test_the_order_of_places(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "ziglang"
    spec = type("Spec", (), {"submodule_search_locations": [str(package)]})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec if name == "ziglang" else None)
    zig = executable(package / "zig")

    def found() -> Linker:
        linker._find.cache_clear()
        return find_linker()

    assert found() == Linker((str(zig), "ld.lld"), "ziglang")
    for version in (9, 18, 17):
        executable(bare / f"ld.lld-{version}")
    (bare / "ld.lld-99").touch()  # not executable
    executable(bare / "ld.lld-new")
    assert found() == Linker((str(bare / "ld.lld-18"),), "PATH")
    plain = executable(bare / "ld.lld")
    assert found() == Linker((str(plain),), "PATH")
    in_rocm = executable(tmp_path / "no-rocm/llvm/bin/ld.lld")
    assert found() == Linker((str(in_rocm),), "ROCm")
    named = executable(tmp_path / "mine")
    monkeypatch.setenv("CKMLIR_LLD", str(named))
    assert found() == Linker((str(named),), "CKMLIR_LLD")


def test_one_that_is_too_old_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM 14, the default of a distribution, knows no code objects of version 5."""

    def of_version(path: Path, version: str) -> Path:
        return executable(path, f'[ "$1" = --version ] && echo "Debian LLD {version} (compatible with GNU linkers)"')

    old = of_version(bare / "ld.lld", "14.0.6")
    with pytest.raises(LinkerNotFound) as caught:
        find_linker()
    assert f"({old} (PATH) is LLD 14.0.6, 15 or later is needed); get one in any" in str(caught.value)
    of_version(bare / "ld.lld-14", "14.0.6")
    new = of_version(bare / "ld.lld-16", "16.0.6")
    linker._find.cache_clear()
    assert find_linker() == Linker((str(new),), "PATH")
    monkeypatch.setenv("CKMLIR_LLD", str(old))
    with pytest.raises(LinkerNotFound, match=r"CKMLIR_LLD=.* is LLD 14\.0\.6; 15 or later is needed"):
        find_linker()


def test_a_named_linker_that_is_not_there_is_no_reason_to_take_another(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(bare / "ld.lld")
    monkeypatch.setenv("CKMLIR_LLD", "/nothing/here")
    with pytest.raises(LinkerNotFound, match="CKMLIR_LLD=/nothing/here is not an executable file"):
        find_linker()


def test_a_linker_that_refuses(tmp_path: Path) -> None:
    refusing = Linker((str(executable(tmp_path / "lld", 'echo "lld: error: no good" >&2; exit 3')),), "test")
    with pytest.raises(LinkError, match="failed with status 3: lld: error: no good"):
        refusing.link(b"object")


def test_a_linker_that_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="it said nothing"):
        Linker((str(executable(tmp_path / "lld")),), "test").link(b"object")


def test_a_linker_that_cannot_be_run(tmp_path: Path) -> None:
    with pytest.raises(LinkerNotFound, match="cannot run the linker"):
        Linker((str(tmp_path / "nothing"),), "test").link(b"object")


def test_a_linker_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linker, "TIMEOUT_SECONDS", 0.1)
    with pytest.raises(LinkError, match="did not finish"):
        Linker((str(executable(tmp_path / "lld", "exec sleep 5")),), "test").link(b"object")


def test_the_real_linker_refuses_what_is_no_object() -> None:
    with pytest.raises(LinkError, match="failed with status"):
        find_linker().link(b"not an object")
