"""Copies to LDS that fly over barriers: a ring of three buffers is clean because its slots are apart, and every weaker
wait is found. The ranges that tell slots apart are sound."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from assembly import flow_of
from hypothesis import given, settings
from hypothesis import strategies as st
from opencl_kernels import compiled, needs_clang

from ckmlir.codeobject import CodeObject
from ckmlir.sim.analysis import check_waits, ranges
from ckmlir.sim.analysis.lds_addresses import LdsAddresses
from ckmlir.sim.analysis.ranges import Range, between, constant
from ckmlir.sim.decode import disassemble

WORD = 0xFFFF_FFFF


@needs_clang
@pytest.mark.parametrize("chip", ("gfx90a", "gfx942", "gfx950"))
def test_a_ring_of_copies_is_clean_and_every_weaker_wait_is_found(chip: str) -> None:
    code_object = compiled("ring", chip, 3)
    assert check_waits(code_object) == []
    kernel = code_object.kernel()
    code = code_object.code(kernel)
    copies = [one for one in disassemble(code_object) if one.mnemonic == "s_waitcnt" and one.modifiers["vmcnt"] == 1]
    assert len(copies) == 3
    for wait in copies:
        data = bytearray(code_object.data)
        place = code_object.data.index(code) + wait.address - kernel.address
        struct.pack_into("<I", data, place, wait.words[0] & ~0xF | 2)
        found = check_waits(CodeObject.parse(bytes(data)))
        assert any("LDS that buffer_load_dword" in finding.message for finding in found)
        assert all("vmcnt(1)" in finding.message for finding in found)


def ranges_and_members() -> st.SearchStrategy[tuple[Range, int]]:
    """A range with one of its members."""

    def build(low: int, length: int, bits: int, pick: int) -> tuple[Range, int]:
        member = (low + pick % (length + 1)) & bits
        return Range(min(low & bits, member), between(0, max(low + length, member), bits).high, bits), member

    words = st.one_of(st.integers(0, 0xFFFF), st.integers(0, WORD))
    return st.builds(build, st.integers(0, 1 << 20), st.integers(0, 1 << 12), words, st.integers(0, 1 << 12)).filter(
        lambda item: item[0].low <= item[1] <= item[0].high
    )


OPERATIONS: dict[str, Callable[..., int]] = {
    "v_add_u32": lambda x, y: x + y & WORD,
    "s_sub_u32": lambda x, y: x - y & WORD,
    "s_mul_i32": lambda x, y: x * y & WORD,
    "s_lshl_b32": lambda x, n: x << (n & 31) & WORD,
    "v_lshrrev_b32": lambda n, x: x >> (n & 31),
    "v_and_b32": lambda x, y: x & y,
    "s_andn2_b32": lambda x, y: x & ~y,
    "v_or_b32": lambda x, y: x | y,
    "v_xor_b32": lambda x, y: x ^ y,
    "s_min_u32": min,
    "s_max_u32": max,
    "v_add3_u32": lambda x, y, z: x + y + z & WORD,
    "v_lshl_add_u32": lambda x, n, y: (x << (n & 31)) + y & WORD,
    "v_lshl_or_b32": lambda x, n, y: x << (n & 31) & WORD | y,
    "v_and_or_b32": lambda x, y, z: x & y | z,
    "v_xad_u32": lambda x, y, z: (x ^ y) + z & WORD,
    "v_mad_u32_u24": lambda x, y, z: (x & 0xFFFFFF) * (y & 0xFFFFFF) + z & WORD,
    "v_bfe_u32": lambda x, n, w: x >> (n & 31) & (1 << (w & 31)) - 1,
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", OPERATIONS)
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_ranges_contain_the_result(name: str, data: st.DataObject) -> None:
    function = ranges._function(name)
    assert function is not None
    count = OPERATIONS[name].__code__.co_argcount if hasattr(OPERATIONS[name], "__code__") else 2
    inputs = [data.draw(ranges_and_members()) for _ in range(count)]
    for position in {
        "s_lshl_b32": [1],
        "v_lshrrev_b32": [0],
        "v_lshl_add_u32": [1],
        "v_lshl_or_b32": [1],
        "v_bfe_u32": [1, 2],
    }.get(name, []):
        amount = data.draw(st.integers(0, 31))
        inputs[position] = constant(amount), amount
    result = function(*(range_ for range_, _ in inputs))
    value = OPERATIONS[name](*(member for _, member in inputs))
    assert result.low <= value <= result.high and value & ~result.bits == 0


class Kernel:
    """What LdsAddresses asks of a kernel: 256 work-items of one dimension."""

    class metadata:
        max_flat_workgroup_size = 256

    class descriptor:
        workitem_id_dimensions = 1


def test_addresses_of_short_programs() -> None:
    text = """
    v_lshlrev_b32_e32 v1, 4, v0
    v_and_b32_e32 v1, 0xff0, v1
    v_or_b32_e32 v2, 0x4000, v1
    ds_read_b128 v[4:7], v1
    ds_read_b128 v[4:7], v2 offset:256
    ds_read_b128 v[4:7], v9
    s_mov_b32 m0, 0x2000
    buffer_load_dword v5, s[8:11], 0 offen lds
    """
    flow = flow_of(text, "gfx942")
    addresses = LdsAddresses(flow, Kernel())  # type: ignore[arg-type]  # stands for a kernel of 256 work-items
    accesses = [
        one for block in flow.blocks.values() for one in block.instructions if one.mnemonic[:3] in ("ds_", "buf")
    ]
    first, second, unknown, copy = (one.address for one in accesses)
    assert addresses.bytes_of(first)[:2] == (0, 0xFFF)
    assert addresses.bytes_of(second)[:2] == (0x4100, 0x50FF)
    assert addresses.bytes_of(copy)[:2] == (0x2000, 0x20FF)
    assert not addresses.may_conflict(first, second) and not addresses.may_conflict(first, copy)
    assert addresses.may_conflict(first, unknown) and addresses.may_conflict(copy, unknown)


@pytest.mark.parametrize(("access", "size"), [
    ("ds_read_u8 v4, v1", 1), ("ds_read_i8_d16_hi v4, v1", 1), ("ds_read_u16 v4, v1", 2), ("ds_read_u16_d16 v4, v1", 2),
    ("ds_write_b8 v1, v4", 1), ("ds_write_b16_d16_hi v1, v4", 2), ("ds_read_b32 v4, v1", 4),
    ("ds_write_b64 v1, v[4:5]", 8),
])  # fmt: skip
def test_narrow_accesses_end_where_they_end(access: str, size: int) -> None:
    """Those of less than a dword at the end of a buffer do not reach into the next."""
    flow = flow_of(f"v_and_b32_e32 v1, 0xf8, v0\n{access} offset:256", "gfx942")
    addresses = LdsAddresses(flow, Kernel())  # type: ignore[arg-type]  # stands for a kernel
    *_, last = (one for block in flow.blocks.values() for one in block.instructions if one.mnemonic[:3] == "ds_")
    assert addresses.bytes_of(last.address)[:2] == (256, 256 + 0xF8 + size - 1)
