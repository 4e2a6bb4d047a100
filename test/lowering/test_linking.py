"""Linking in this process: byte for byte what LLVM's linker makes, and a refusal of everything else."""

from __future__ import annotations

import contextlib
import struct
import subprocess
from functools import cache
from pathlib import Path

import installed_tools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.codeobject import CodeObject
from ckmlir.codeobject.elf import SECTION_HEADER, SYMBOL, ElfFile, Section
from ckmlir.compiler import compile_kernel
from ckmlir.dialect.context import ck_context
from ckmlir.lowering import linker
from ckmlir.lowering.codeobject import emit_code_object
from ckmlir.lowering.linker import LinkerNotFound
from ckmlir.lowering.linking.link import COMMENT, link_object
from ckmlir.lowering.linking.relocatable import NotCovered
from ckmlir.mlir import ir
from ckmlir.ops import find_operator
from ckmlir.targets import get_target

KERNELS: dict[str, dict[str, object]] = {
    "gemm": {"m": 256, "n": 256, "k": 256, "dtype": "f16"},
    "layernorm2d": {"m": 64, "n": 1000, "dtype": "bf16"},
    "transpose2d": {"m": 64, "n": 64, "dtype": "f16"},
}
CHIPS = ("gfx90a", "gfx942", "gfx950")


@cache
def relocatable(name: str, arch: str) -> bytes:
    operator, target = find_operator(name), get_target(arch)
    kernel = compile_kernel(operator, operator.spec(operator.problem(**KERNELS[name]), target), target, keep=["obj"])
    data = kernel.artifacts["obj"]
    assert isinstance(data, bytes)
    return data


def by_lld(data: bytes, directory: Path, *options: str) -> bytes:
    source, result = directory / "in.o", directory / "out.hsaco"
    source.write_bytes(data)
    command = [*installed_tools.lld_command(), "-shared", "--no-undefined", *options, str(source), "-o", str(result)]
    subprocess.run(command, check=True, timeout=60)
    return result.read_bytes()


def section(file: ElfFile, name: str) -> Section:
    return next(one for one in file.sections if one.name == name)


def content(file: ElfFile, name: str) -> bytes:
    return file.contents(section(file, name))


def same_as_lld(data: bytes, directory: Path) -> None:
    """Equal to what the linker makes that does not reorder strings (`-O0`), its own name put in for ours."""
    expected = by_lld(data, directory, "-O0")
    name = content(ElfFile(expected), ".comment").rstrip(b"\0").decode()
    assert link_object(data, name) == expected


@pytest.mark.one_in(2)
@pytest.mark.parametrize("arch", CHIPS)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_linked_to_the_same_bytes_as_by_lld(name: str, arch: str, tmp_path: Path) -> None:
    same_as_lld(relocatable(name, arch), tmp_path)


def test_what_a_loader_sees_is_that_of_lld_as_it_is_usually_called(tmp_path: Path) -> None:
    for arch in CHIPS:
        ours, theirs = (
            ElfFile(data)
            for data in (
                link_object(relocatable("layernorm2d", arch)),
                by_lld(relocatable("layernorm2d", arch), tmp_path),
            )
        )
        assert ours.segments == theirs.segments and ours.flags == theirs.flags
        for one, other in zip(ours.sections, theirs.sections, strict=True):
            assert one[:4] == other[:4] and one.alignment == other.alignment
            if one.name not in (".comment", ".debug_str", ".debug_info"):  # of these the strings' order differs
                assert ours.contents(one) == theirs.contents(other), one.name
        strings = [sorted(content(file, ".debug_str").split(b"\0")) for file in (ours, theirs)]
        assert strings[0] == strings[1]
        assert ours.symbols() == theirs.symbols() and ours.notes() == theirs.notes()
        read = [CodeObject.parse(file.data) for file in (ours, theirs)]
        assert read[0].kernels == read[1].kernels


def test_several_kernels_in_one_object(tmp_path: Path) -> None:
    functions = "\n".join(
        f"""llvm.func @kernel_{number * 7919}_{"x" * number}(%a: !llvm.ptr<1>) attributes {{rocdl.kernel}} {{
          %0 = llvm.mlir.constant({number} : i32) : i32 llvm.store %0, %a : i32, !llvm.ptr<1> llvm.return }}"""
        for number in range(23)
    )
    with ck_context():
        module = ir.Module.parse(f"module {{ gpu.module @m {{ {functions} }} }}")
        emitted = emit_code_object(module, "gfx942", keep=["obj"], line_table=False)
    data = emitted.artifacts["obj"]
    assert isinstance(data, bytes)
    same_as_lld(data, tmp_path)
    assert content(ElfFile(emitted.hsaco), ".comment") == COMMENT.encode() + b"\0"
    assert len(emitted.code_object.kernels) == 23


@installed_tools.needs("llvm-mc", "objects of all sizes are not compared with lld's output")
@settings(max_examples=40, deadline=None)
@given(
    code=st.one_of(st.integers(0, 3000), st.integers(380, 400), st.integers(890, 910)),
    note=st.integers(0, 300),
    names=st.lists(st.text("abz_.0", min_size=1, max_size=40), min_size=1, max_size=9, unique=True),
)
def test_any_sizes_give_the_same_bytes_as_lld(
    tmp_path_factory: pytest.TempPathFactory, code: int, note: int, names: list[str]
) -> None:
    names = [f"k{name}" for name in names]
    text = "".join(
        f'.globl "{name}"\n.protected "{name}"\n.type "{name}",@function\n"{name}":\ns_endpgm\n' for name in names
    )
    descriptors = "".join(
        f'.globl "{name}.kd"\n.type "{name}.kd",@object\n.size "{name}.kd",64\n"{name}.kd":\n.zero 16\n'
        f'.quad "{name}"-("{name}.kd")\n.zero 40\n'
        for name in names
    )
    source = (
        f".text\n.p2align 8\n{text}.fill {code}, 4, 0xbf800000\n"
        f'.section .rodata,"a",@progbits\n.p2align 6\n{descriptors}'
        f'.section .note,"a",@note\n.p2align 2\n.long 7, {4 * note}, 32\n.asciz "AMDGPU"\n.p2align 2\n'
        f".zero {4 * note}\n"
    )
    directory = tmp_path_factory.mktemp("sizes")
    command = [
        installed_tools.path_of("llvm-mc"),
        "-triple=amdgcn-amd-amdhsa",
        "-mcpu=gfx942",
        "-filetype=obj",
        "-",
        "-o",
    ]
    subprocess.run([*command, str(directory / "made.o")], input=source.encode(), check=True, timeout=60)
    same_as_lld((directory / "made.o").read_bytes(), directory)


def changed(data: bytes, name: str, **fields: int) -> bytes:
    """The object with fields of a section's header replaced."""
    order = ("text", "kind", "flags", "address", "offset", "size", "link", "info", "alignment", "entry")
    file = ElfFile(data)
    index = [one.name for one in file.sections].index(name)
    at = struct.unpack_from("<Q", data, 40)[0] + index * SECTION_HEADER.size
    row = dict(zip(order, SECTION_HEADER.unpack_from(data, at), strict=True)) | fields
    return data[:at] + SECTION_HEADER.pack(*row.values()) + data[at + SECTION_HEADER.size :]


def with_symbol(data: bytes, name: str, **fields: int) -> bytes:
    """The object with fields of a symbol replaced."""
    file = ElfFile(data)
    table = section(file, ".symtab")
    number = next(index for index, (one, _) in enumerate(file.symbol_rows(table)) if one == name)
    at = table.offset + number * SYMBOL.size
    order = ("text", "info", "other", "section", "value", "size")
    row = dict(zip(order, SYMBOL.unpack_from(data, at), strict=True)) | fields
    return data[:at] + SYMBOL.pack(*row.values()) + data[at + SYMBOL.size :]


def with_relocation(data: bytes, table: str, kind: int, offset: int | None = None) -> bytes:
    """The object with kind and place of a table's first relocation replaced."""
    at = section(ElfFile(data), table).offset
    before, info, addend = struct.unpack_from("<QQq", data, at)
    row = struct.pack("<QQq", before if offset is None else offset, info >> 32 << 32 | kind, addend)
    return data[:at] + row + data[at + len(row) :]


def test_what_is_not_covered_is_refused_by_name() -> None:
    data = relocatable("gemm", "gfx942")
    kernel = next(iter(CodeObject.parse(link_object(data)).kernels))
    kernel_name = kernel if isinstance(kernel, str) else kernel.name
    refused = {
        "not an ELF file": b"nothing",
        "it is not a relocatable object": link_object(data),
        r"section \.text of kind 1 with flags 0x7": changed(data, ".text", flags=7),
        r"section \.debug_info of kind 1 with flags 0x800": changed(data, ".debug_info", flags=0x800),
        "0 sections .rodata": changed(data, ".rodata", kind=0),
        r"\.rela\.rodata, which patches \.text": changed(data, ".rela.rodata", info=2),
        f"symbol {kernel_name}, which nothing defines": with_symbol(data, kernel_name, section=0),
        r"section \.text aligned to 3": changed(data, ".text", alignment=3),
        f"symbol {kernel_name} of binding 2": with_symbol(data, kernel_name, info=0x22),
        f"symbol {kernel_name} in section 65522": with_symbol(data, kernel_name, section=0xFFF2),
        f"symbol {kernel_name} of binding 1, kind 2 and visibility 0": with_symbol(data, kernel_name, other=0),
        f"against {kernel_name}, which another object could define": with_symbol(data, kernel_name, info=0x11, other=0),
        r"relocation of kind 3 in \.rela\.rodata": with_relocation(data, ".rela.rodata", 3),
        r"relocation of kind 5 in \.rela\.debug_info": with_relocation(data, ".rela.debug_info", 5),
        r"at byte 60 of 64": with_relocation(data, ".rela.rodata", 5, 60),
    }
    for reason, object_ in refused.items():
        with pytest.raises(NotCovered, match=reason):
            link_object(object_)


@settings(max_examples=150, deadline=None)
@given(place=st.integers(0, 1 << 20), byte=st.integers(0, 255))
def test_a_damaged_object_is_refused_or_linked(place: int, byte: int) -> None:
    data = bytearray(relocatable("transpose2d", "gfx950"))
    data[place % len(data)] = byte
    with contextlib.suppress(NotCovered):
        link_object(bytes(data))


def test_what_is_not_covered_goes_to_lld(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    class Recorder:
        def link(self, data: bytes) -> bytes:
            asked.append(data)
            return b"linked"

    monkeypatch.delenv(linker.SWITCH, raising=False)
    monkeypatch.delenv("CKMLIR_LLD", raising=False)
    monkeypatch.setattr(linker, "find_linker", Recorder)
    data = relocatable("gemm", "gfx942")
    assert linker.link(data) == link_object(data) and not asked
    assert linker.link(b"other") == b"linked" and asked == [b"other"]
    monkeypatch.setenv(linker.SWITCH, "lld")
    assert linker.link(data) == b"linked"
    monkeypatch.delenv(linker.SWITCH)
    monkeypatch.setenv("CKMLIR_LLD", "/some/ld.lld")  # naming one is asking for it
    assert linker.link(data) == b"linked"
    monkeypatch.setenv(linker.SWITCH, "gold")
    with pytest.raises(LinkerNotFound, match="CKMLIR_LINKER=gold: there is no such linker; it is one of internal, lld"):
        linker.link(data)


def test_without_lld_the_error_says_what_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> linker.Linker:
        raise LinkerNotFound("no ld.lld found")

    monkeypatch.delenv("CKMLIR_LLD", raising=False)
    monkeypatch.setattr(linker, "find_linker", absent)
    data = with_relocation(relocatable("gemm", "gfx942"), ".rela.rodata", 3)
    with pytest.raises(LinkerNotFound, match=r"needs an ld.lld because of relocation of kind 3 in .*: no ld.lld found"):
        linker.link(data)
