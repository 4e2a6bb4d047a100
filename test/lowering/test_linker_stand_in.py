"""What stands for the linker that MLIR calls: the program is what its text says, and hands objects back."""

import io
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from elftools.elf.elffile import ELFFile

from ckmlir.compiler import compile_kernel
from ckmlir.files import write_atomically
from ckmlir.lowering import linker_stand_in
from ckmlir.lowering.linker_stand_in import INSTRUCTIONS, SCRIPT, STAND_IN, program
from ckmlir.ops import find_operator
from ckmlir.targets import get_target

HERE = pytest.mark.skipif(program() != STAND_IN, reason="the program is for Linux on x86-64")
STAND_INS = [pytest.param(program(), marks=HERE, id="program"), pytest.param(SCRIPT, id="script")]


def assembled(text: str) -> bytes:
    """The .text section of an object with `text`, in Intel's notation for x86-64, as LLVM assembles it."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
    machine = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine()
    lines = "".join(f'module asm "{line}"\n' for line in (".intel_syntax noprefix", ".text", *text.splitlines()))
    module = llvm.parse_assembly(lines)
    section = ELFFile(io.BytesIO(machine.emit_object(module))).get_section_by_name(".text")
    assert section is not None
    return bytes(section.data())


@HERE
def test_bytes_are_those_of_the_text() -> None:
    text, encoded = zip(*INSTRUCTIONS, strict=True)
    assert assembled("\n".join(text)) == bytes.fromhex("".join(encoded))


@pytest.mark.parametrize("content", STAND_INS)
def test_an_object_is_handed_back(content: bytes, tmp_path: Path) -> None:
    linker, given, asked = (tmp_path / name for name in ("ld.lld", "kernel1.o", "kernel.hsaco"))
    write_atomically(linker, content, executable=True)
    for text in (b"an object", b"another"):  # MLIR has made an empty output already
        given.write_bytes(text)
        assert subprocess.run([linker, "-shared", given, "-o", asked], check=False).returncode == 0
        assert asked.read_bytes() == text
    given.unlink(missing_ok=True)
    ended = subprocess.run([linker, "-shared", given, "-o", asked], check=False, capture_output=True)
    assert ended.returncode != 0


@pytest.mark.parametrize("content", STAND_INS)
def test_kernels_are_the_same(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy, target = find_operator("copy"), get_target("gfx942")
    spec = copy.spec(copy.problem(m=4, n=64), target)
    usual = compile_kernel(copy, spec, target).hsaco
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(linker_stand_in, "STAND_IN", content)
    assert compile_kernel(copy, spec, target).hsaco == usual
    (made,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert made.read_bytes() == content


def test_versions_do_not_take_each_others_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that has begun with one version's script would go on with another's program."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = {}
    for content in (program(), SCRIPT, program() + b" "):
        monkeypatch.setattr(linker_stand_in, "STAND_IN", content)
        made[linker_stand_in.toolkit() / "llvm" / "bin" / "ld.lld"] = content
    assert {path: path.read_bytes() for path in made} == made
    assert len(made) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="files of the superuser's on Linux")
def test_where_the_cache_cannot_be_the_program_lies_among_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert linker_stand_in.toolkit().is_relative_to(tmp_path)
