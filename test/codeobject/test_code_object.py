"""Reading code objects: what LLVM's own tools say of the files in data/, and what damaged files do."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.codeobject import CodeObject, CodeObjectError, SourceLine
from ckmlir.codeobject.metadata import chip_in_metadata
from ckmlir.sim.decode import CATEGORIES, disassemble, instruction_mix

DATA = Path(__file__).parent / "data"
LINKED = [DATA / f"kernels_{target}.hsaco" for target in ("gfx90a", "gfx942", "gfx950")]
UNLINKED = DATA / "kernels_gfx942.o"
CONTENTS = {path: path.read_bytes() for path in (*LINKED, UNLINKED)}


def parse(target: str) -> CodeObject:
    return CodeObject.parse(DATA / f"kernels_{target}.hsaco")


@pytest.mark.parametrize(
    ("target", "target_id", "version"),
    [
        ("gfx90a", "gfx90a:sramecc+", 4),
        ("gfx942", "gfx942:sramecc+:xnack-", 5),
        ("gfx950", "gfx950:sramecc+", 6),
    ],
)
def test_target_and_version(target: str, target_id: str, version: int) -> None:
    code_object = parse(target)
    assert (code_object.target, code_object.target_id, code_object.version) == (target, target_id, version)
    assert list(code_object.kernels) == ["scale_add", "reverse"]


def test_a_path_a_text_path_and_bytes_give_the_same() -> None:
    assert CodeObject.parse(LINKED[0]) == CodeObject.parse(str(LINKED[0])) == CodeObject.parse(CONTENTS[LINKED[0]])


@pytest.mark.parametrize(
    ("target", "vgprs", "sgprs", "address", "size"),
    [("gfx90a", 6, 19, 0x1B00, 124), ("gfx942", 4, 15, 0x2000, 116), ("gfx950", 6, 15, 0x2000, 116)],
)
def test_kernel_metadata(target: str, vgprs: int, sgprs: int, address: int, size: int) -> None:
    kernel = parse(target).kernel("scale_add")
    metadata = kernel.metadata
    assert (metadata.vgpr_count, metadata.agpr_count, metadata.sgpr_count) == (vgprs, 0, sgprs)
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    assert (metadata.max_flat_workgroup_size, metadata.required_workgroup_size) == (256, (256, 1, 1))
    assert (metadata.wavefront_size, metadata.kernarg_alignment, metadata.uses_dynamic_stack) == (64, 8, False)
    assert (kernel.address, kernel.size) == (address, size)


def test_arguments() -> None:
    arguments = parse("gfx942").kernel("scale_add").arguments
    visible = [item for item in arguments if not item.is_hidden]
    assert [(item.name, item.offset, item.size, item.value_kind) for item in visible] == [
        ("x", 0, 8, "global_buffer"),
        ("y", 8, 8, "global_buffer"),
        ("factor", 16, 4, "by_value"),
        ("count", 20, 4, "by_value"),
    ]
    assert (visible[0].access, visible[0].address_space) == ("read_only", "global")
    assert "hidden_block_count_x" in {item.value_kind for item in arguments}


def test_kernel_descriptor_of_gfx942() -> None:
    code_object = parse("gfx942")
    scale_add, reverse = (code_object.kernel(name).descriptor for name in ("scale_add", "reverse"))
    assert (scale_add.group_segment_size, scale_add.private_segment_size, scale_add.kernarg_size) == (0, 0, 280)
    assert (reverse.group_segment_size, reverse.kernarg_size) == (1024, 264)
    assert (scale_add.allocated_vgprs, scale_add.allocated_sgprs, scale_add.accum_offset) == (8, 16, 4)
    assert (scale_add.float_mode, scale_add.dx10_clamp, scale_add.ieee_mode) == (0xF0, True, True)
    assert (scale_add.fp16_overflow, scale_add.threadgroup_split, scale_add.enable_private_segment) == (False,) * 3
    assert scale_add.workgroup_id_enabled == (True, True, True)
    assert (scale_add.workitem_id_dimensions, reverse.workitem_id_dimensions) == (1, 3)
    assert scale_add.user_sgprs == (
        ("dispatch_ptr", 2),
        ("queue_ptr", 2),
        ("kernarg_segment_ptr", 2),
        ("dispatch_id", 2),
    )
    assert sum(count for _, count in scale_add.user_sgprs) == scale_add.user_sgpr_count
    assert (scale_add.wavefront_size, scale_add.kernarg_preload_length) == (64, 0)


def test_gfx90a_passes_a_private_segment_buffer_first() -> None:
    descriptor = parse("gfx90a").kernel("scale_add").descriptor
    assert descriptor.user_sgprs[0] == ("private_segment_buffer", 4)
    assert sum(count for _, count in descriptor.user_sgprs) == descriptor.user_sgpr_count


def test_line_table() -> None:
    lines = parse("gfx942").line_table
    assert lines.lookup(0x2000) == SourceLine("/source/kernels.py", 11, 5)
    assert lines.lookup(0x205C) == SourceLine("/source/kernels.py", 14, 13)
    assert lines.lookup(0x2138) == SourceLine("/source/kernels.py", 33, 5)
    assert lines.lookup(0x2020) is None  # line 0: belongs to no source line
    assert lines.lookup(0x1FFC) is None
    assert lines.lookup(0x2150) is None


def test_an_unlinked_object_has_the_same_kernels() -> None:
    linked, unlinked = parse("gfx942"), CodeObject.parse(UNLINKED)
    for name, kernel in linked.kernels.items():
        other = unlinked.kernels[name]
        assert unlinked.code(other) == linked.code(kernel)
        assert other.metadata == kernel.metadata
        assert other.address - other.descriptor_address == other.descriptor.entry_offset
    assert len(unlinked.line_table) == 0


def test_the_image_keeps_its_bytes_when_loaded_elsewhere() -> None:
    image = parse("gfx942").image
    assert image.load(0x7F0000000000) == image.contents
    unlinked = CodeObject.parse(UNLINKED).image
    assert unlinked.load(0) == unlinked.load(0x10000) != unlinked.contents  # relative to the place: base is no matter


def test_kernels_disassemble_and_count() -> None:
    instructions = disassemble(parse("gfx942"), "reverse")
    assert [item.text for item in instructions][-2:] == ["global_store_dword v0, v1, s[0:1]", "s_endpgm"]
    assert instructions[0].address == 0x2100
    mix = instruction_mix(instructions)
    assert tuple(mix) == CATEGORIES and sum(mix.values()) == len(instructions)
    expected = {"lds": 2, "vmem": 2, "smem": 1, "barrier": 1, "wait": 4, "branch": 1, "valu": 3}
    assert {name: count for name, count in mix.items() if count} == expected


def test_asking_for_a_kernel_that_is_not_there() -> None:
    code_object = parse("gfx942")
    with pytest.raises(CodeObjectError, match="no kernel 'gemm'; the code object has: scale_add, reverse"):
        code_object.kernel("gemm")
    with pytest.raises(CodeObjectError, match="name one of its kernels; the code object has: scale_add, reverse"):
        code_object.kernel()


def patched(offset: int, value: bytes) -> bytes:
    data = CONTENTS[LINKED[1]]
    return data[:offset] + value + data[offset + len(value) :]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty file"),
        (b"not a code object, just text", "not an ELF file"),
        (b"\x7fELF", "ELF header ends at byte 64, the file has 4"),
        (patched(4, b"\x01"), "not a 64-bit little-endian ELF file"),
        (patched(18, b"\x3e"), "machine 62, not for AMDGPU"),
        (patched(7, b"\x41"), "OS ABI 65, not for HSA"),
        (patched(8, b"\x09"), "unknown ABI version 9"),
        (patched(16, b"\x02"), "type 2"),
    ],
)
def test_foreign_files_are_refused_by_name(data: bytes, message: str) -> None:
    with pytest.raises(CodeObjectError, match=message) as error:
        CodeObject.parse(data)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_header_and_metadata_are_for_the_same_chip(target: str) -> None:
    """What would run the code is chosen by one of them, and the code may be the other's."""
    data = (DATA / f"kernels_{target}.hsaco").read_bytes()
    other = {"gfx90a": 0x4C, "gfx942": 0x4F, "gfx950": 0x3F}[target]
    named = {0x4C: "gfx942", 0x4F: "gfx950", 0x3F: "gfx90a"}[other]
    message = f"its ELF header is for {named}, its metadata for {target}"
    with pytest.raises(CodeObjectError, match=message):
        CodeObject.parse(data[:48] + bytes([other]) + data[49:])
    swapped = data.replace(f"amdhsa--{target}".encode(), f"amdhsa--{named}".encode())
    assert swapped != data
    with pytest.raises(CodeObjectError, match=f"its ELF header is for {target}, its metadata for {named}"):
        CodeObject.parse(swapped)


@pytest.mark.parametrize(
    ("target", "chip"),
    [
        ("amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-", "gfx942"),
        ("amdgcn-amd-amdhsa-unknown-gfx90a", "gfx90a"),
        ("amdgcn-amd-amdhsa--gfx9-4-generic", "gfx9-4-generic"),
        ("", ""),
    ],
)
def test_the_chip_in_a_target(target: str, chip: str) -> None:
    assert chip_in_metadata({"amdhsa.target": target}) == chip


def test_a_missing_file_is_a_code_object_error(tmp_path: Path) -> None:
    with pytest.raises(CodeObjectError, match=r"cannot read .*missing\.hsaco: No such file"):
        CodeObject.parse(tmp_path / "missing.hsaco")


def read_everything(data: bytes) -> None:
    code_object = CodeObject.parse(data)
    code_object.image.load(0x1000)
    for kernel in code_object.kernels.values():
        assert len(code_object.code(kernel)) == kernel.size
        assert kernel.descriptor.user_sgprs is not None
    code_object.line_table.lookup(0)


@pytest.mark.parametrize("path", CONTENTS, ids=lambda path: path.name)
def test_a_file_cut_anywhere_is_refused(path: Path) -> None:
    data = CONTENTS[path]
    for length in range(0, len(data), 7):
        with pytest.raises(CodeObjectError):
            read_everything(data[:length])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("path", CONTENTS, ids=lambda path: path.name)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_bytes_raise_nothing_else(path: Path, data: st.DataObject) -> None:
    contents = bytearray(CONTENTS[path])
    for _ in range(data.draw(st.integers(1, 4))):
        contents[data.draw(st.integers(0, len(contents) - 1))] = data.draw(st.integers(0, 255))
    try:
        read_everything(bytes(contents))
    except CodeObjectError as error:
        assert "\n" not in str(error)
