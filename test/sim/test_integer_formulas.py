"""What instructions compute, against formulas on Python integers written from the ISA documents: an opinion that shares
nothing with the semantic functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from single_wave import SingleWave, make, s, v

M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def signed(x: int, bits: int = 32) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def clamp(x: int, low: int, high: int) -> int:
    return min(max(x, low), high)


def middle(*numbers: int) -> int:
    return sorted(numbers)[1]


def perm(x: int, y: int, selectors: int) -> int:
    pool = (y | x << 32).to_bytes(8, "little")
    result = []
    for selector in selectors.to_bytes(4, "little"):
        if selector < 8:
            result.append(pool[selector])
        elif selector < 12:
            result.append(255 * (pool[2 * (selector - 8) + 1] >> 7))
        else:
            result.append(0 if selector == 12 else 255)
    return int.from_bytes(bytes(result), "little")


def field(x: int, offset: int, width: int) -> int:
    return x >> (offset & 31) & (1 << (width & 31)) - 1


def signed_field(x: int, offset: int, width: int) -> int:
    offset, width = offset & 31, width & 31
    if not width:
        return 0
    return signed(signed(x) >> offset, width) & M32


def first_set(x: int, bits: int, from_top: bool) -> int:
    if not x:
        return M32
    return bits - x.bit_length() if from_top else (x & -x).bit_length() - 1


def leading_sign_bits(x: int, bits: int) -> int:
    top = x >> (bits - 1)
    run = next((k for k in range(bits) if (x >> (bits - 1 - k) & 1) != top), None)
    return M32 if run is None else run


def halves(x: int) -> tuple[int, int]:
    return x & 0xFFFF, x >> 16


def dot(x: int, y: int, z: int, bits: int, is_signed: bool) -> int:
    total = signed(z) if is_signed else z
    for shift in range(0, 32, bits):
        p, q = (word >> shift & (1 << bits) - 1 for word in (x, y))
        total += signed(p, bits) * signed(q, bits) if is_signed else p * q
    return total


def sad(x: int, y: int, bits: int) -> int:
    return sum(abs((x >> k & (1 << bits) - 1) - (y >> k & (1 << bits) - 1)) for k in range(0, 32, bits))


# mnemonic: (registers of the result, registers of each source, formula); results are taken modulo their width
VECTOR: dict[str, tuple[int, str, Callable[..., int]]] = {
    "v_add_u32": (1, "11", lambda x, y: x + y),
    "v_sub_u32": (1, "11", lambda x, y: x - y),
    "v_subrev_u32": (1, "11", lambda x, y: y - x),
    "v_add3_u32": (1, "111", lambda x, y, z: x + y + z),
    "v_lshl_add_u32": (1, "111", lambda x, n, z: (x << (n & 31)) + z),
    "v_add_lshl_u32": (1, "111", lambda x, y, n: x + y << (n & 31)),
    "v_lshl_or_b32": (1, "111", lambda x, n, z: (x << (n & 31) & M32) | z),
    "v_and_or_b32": (1, "111", lambda x, y, z: x & y | z),
    "v_or3_b32": (1, "111", lambda x, y, z: x | y | z),
    "v_xad_u32": (1, "111", lambda x, y, z: (x ^ y) + z),
    "v_xnor_b32": (1, "11", lambda x, y: ~(x ^ y)),
    "v_not_b32": (1, "1", lambda x: ~x),
    "v_lshl_add_u64": (2, "212", lambda x, n, z: (x << (n & 7)) + z),
    "v_lshlrev_b32": (1, "11", lambda n, x: x << (n & 31)),
    "v_lshrrev_b32": (1, "11", lambda n, x: x >> (n & 31)),
    "v_ashrrev_i32": (1, "11", lambda n, x: signed(x) >> (n & 31)),
    "v_lshlrev_b64": (2, "12", lambda n, x: x << (n & 63)),
    "v_lshrrev_b64": (2, "12", lambda n, x: x >> (n & 63)),
    "v_ashrrev_i64": (2, "12", lambda n, x: signed(x, 64) >> (n & 63)),
    "v_lshlrev_b16": (1, "11", lambda n, x: (x & 0xFFFF) << (n & 15) & 0xFFFF),
    "v_ashrrev_i16": (1, "11", lambda n, x: signed(x, 16) >> (n & 15) & 0xFFFF),
    "v_mul_lo_u32": (1, "11", lambda x, y: x * y),
    "v_mul_hi_u32": (1, "11", lambda x, y: x * y >> 32),
    "v_mul_hi_i32": (1, "11", lambda x, y: signed(x) * signed(y) >> 32),
    "v_mul_lo_u16": (1, "11", lambda x, y: (x & 0xFFFF) * (y & 0xFFFF) & 0xFFFF),
    "v_mul_u32_u24": (1, "11", lambda x, y: (x & 0xFFFFFF) * (y & 0xFFFFFF)),
    "v_mul_i32_i24": (1, "11", lambda x, y: signed(x, 24) * signed(y, 24)),
    "v_mul_hi_u32_u24": (1, "11", lambda x, y: (x & 0xFFFFFF) * (y & 0xFFFFFF) >> 32),
    "v_mul_hi_i32_i24": (1, "11", lambda x, y: signed(x, 24) * signed(y, 24) >> 32),
    "v_mad_u32_u24": (1, "111", lambda x, y, z: (x & 0xFFFFFF) * (y & 0xFFFFFF) + z),
    "v_mad_i32_i24": (1, "111", lambda x, y, z: signed(x, 24) * signed(y, 24) + z),
    "v_mad_u32_u16": (1, "111", lambda x, y, z: (x & 0xFFFF) * (y & 0xFFFF) + z),
    "v_mad_i32_i16": (1, "111", lambda x, y, z: signed(x, 16) * signed(y, 16) + z),
    "v_mad_u16": (1, "111", lambda x, y, z: x * y + z & 0xFFFF),
    "v_bfe_u32": (1, "111", field),
    "v_bfe_i32": (1, "111", signed_field),
    "v_bfi_b32": (1, "111", lambda m, x, y: m & x | ~m & y),
    "v_bfm_b32": (1, "11", lambda width, offset: (1 << (width & 31)) - 1 << (offset & 31)),
    "v_alignbit_b32": (1, "111", lambda x, y, n: (x << 32 | y) >> (n & 31)),
    "v_alignbyte_b32": (1, "111", lambda x, y, n: (x << 32 | y) >> 8 * (n & 3)),
    "v_perm_b32": (1, "111", perm),
    "v_bfrev_b32": (1, "1", lambda x: int(f"{x:032b}"[::-1], 2)),
    "v_bcnt_u32_b32": (1, "11", lambda x, y: x.bit_count() + y),
    "v_ffbh_u32": (1, "1", lambda x: first_set(x, 32, True)),
    "v_ffbl_b32": (1, "1", lambda x: first_set(x, 32, False)),
    "v_ffbh_i32": (1, "1", lambda x: leading_sign_bits(x, 32)),
    "v_min_i32": (1, "11", lambda x, y: min(signed(x), signed(y))),
    "v_max_u32": (1, "11", max),
    "v_min3_u32": (1, "111", min),
    "v_max3_i32": (1, "111", lambda *numbers: max(map(signed, numbers))),
    "v_med3_u32": (1, "111", middle),
    "v_med3_i32": (1, "111", lambda *numbers: middle(*map(signed, numbers))),
    "v_sad_u8": (1, "111", lambda x, y, z: sad(x, y, 8) + z),
    "v_sad_u16": (1, "111", lambda x, y, z: sad(x, y, 16) + z),
    "v_sad_u32": (1, "111", lambda x, y, z: abs(x - y) + z),
    "v_cvt_pk_u16_u32": (1, "11", lambda x, y: min(x, 0xFFFF) | min(y, 0xFFFF) << 16),
    "v_cvt_pk_i16_i32": (
        1,
        "11",
        lambda x, y: (clamp(signed(x), -32768, 32767) & 0xFFFF) | (clamp(signed(y), -32768, 32767) & 0xFFFF) << 16,
    ),
    "v_sat_pk_u8_i16": (
        1,
        "1",
        lambda x: clamp(signed(x, 16), 0, 255) | clamp(signed(x >> 16, 16), 0, 255) << 8,
    ),
    "v_pack_b32_f16": (1, "11", lambda x, y: x & 0xFFFF | y << 16),
    "v_dot4_i32_i8": (1, "111", lambda x, y, z: dot(x, y, z, 8, True)),
    "v_dot4_u32_u8": (1, "111", lambda x, y, z: dot(x, y, z, 8, False)),
    "v_dot2_i32_i16": (1, "111", lambda x, y, z: dot(x, y, z, 16, True)),
    "v_dot8_i32_i4": (1, "111", lambda x, y, z: dot(x, y, z, 4, True)),
    "v_dot8_u32_u4": (1, "111", lambda x, y, z: dot(x, y, z, 4, False)),
    "v_ashr_pk_i8_i32": (
        1,
        "111",
        lambda x, y, n: sum(
            (clamp(signed(word) >> (n & 31), -128, 127) & 255) << 8 * k for k, word in enumerate((x, y))
        ),
    ),
}

SCALAR: dict[str, tuple[int, str, Callable[..., int], Callable[..., int] | None]] = {
    "s_add_u32": (1, "11", lambda x, y: x + y, lambda x, y: x + y >> 32),
    "s_sub_u32": (1, "11", lambda x, y: x - y, lambda x, y: int(x < y)),
    "s_add_i32": (1, "11", lambda x, y: x + y, lambda x, y: int(signed(x) + signed(y) != signed(x + y))),
    "s_sub_i32": (1, "11", lambda x, y: x - y, lambda x, y: int(signed(x) - signed(y) != signed(x - y))),
    "s_mul_i32": (1, "11", lambda x, y: x * y, None),
    "s_mul_hi_u32": (1, "11", lambda x, y: x * y >> 32, None),
    "s_mul_hi_i32": (1, "11", lambda x, y: signed(x) * signed(y) >> 32, None),
    "s_min_i32": (1, "11", lambda x, y: min(signed(x), signed(y)), lambda x, y: int(signed(x) < signed(y))),
    "s_max_u32": (1, "11", max, lambda x, y: int(x > y)),
    "s_abs_i32": (1, "1", lambda x: abs(signed(x)), lambda x: int(x != 0)),
    "s_absdiff_i32": (1, "11", lambda x, y: abs(signed(x - y)), lambda x, y: int(x != y)),
    "s_lshl2_add_u32": (1, "11", lambda x, y: (x << 2) + y, lambda x, y: int((x << 2) + y > M32)),
    "s_andn2_b64": (2, "22", lambda x, y: x & ~y, lambda x, y: int(x & ~y != 0)),
    "s_orn2_b32": (1, "11", lambda x, y: x | ~y, lambda x, y: int((x | ~y) & M32 != 0)),
    "s_nand_b32": (1, "11", lambda x, y: ~(x & y), lambda x, y: int(~(x & y) & M32 != 0)),
    "s_xnor_b64": (2, "22", lambda x, y: ~(x ^ y), lambda x, y: int(x ^ y != M64)),
    "s_lshl_b32": (1, "11", lambda x, n: x << (n & 31), lambda x, n: int(x << (n & 31) & M32 != 0)),
    "s_lshr_b64": (2, "21", lambda x, n: x >> (n & 63), lambda x, n: int(x >> (n & 63) != 0)),
    "s_ashr_i32": (1, "11", lambda x, n: signed(x) >> (n & 31), lambda x, n: int(signed(x) >> (n & 31) != 0)),
    "s_ashr_i64": (2, "21", lambda x, n: signed(x, 64) >> (n & 63), lambda x, n: int(signed(x, 64) >> (n & 63) != 0)),
    "s_bfm_b32": (1, "11", lambda width, offset: (1 << (width & 31)) - 1 << (offset & 31), None),
    "s_brev_b32": (1, "1", lambda x: int(f"{x:032b}"[::-1], 2), None),
    "s_bcnt1_i32_b64": (1, "2", lambda x: x.bit_count(), lambda x: int(x != 0)),
    "s_ff1_i32_b64": (1, "2", lambda x: first_set(x, 64, False), None),
    "s_flbit_i32_b32": (1, "1", lambda x: first_set(x, 32, True), None),
    "s_flbit_i32": (1, "1", lambda x: leading_sign_bits(x, 32), None),
    "s_sext_i32_i8": (1, "1", lambda x: signed(x, 8), None),
    "s_sext_i32_i16": (1, "1", lambda x: signed(x, 16), None),
    "s_pack_ll_b32_b16": (1, "11", lambda x, y: x & 0xFFFF | y << 16, None),
    "s_pack_lh_b32_b16": (1, "11", lambda x, y: x & 0xFFFF | y & 0xFFFF0000, None),
    "s_pack_hh_b32_b16": (1, "11", lambda x, y: x >> 16 | y & 0xFFFF0000, None),
    "s_quadmask_b32": (
        1,
        "1",
        lambda x: sum(((x >> 4 * k & 15) != 0) << k for k in range(8)),
        lambda x: int(x != 0),
    ),
    "s_wqm_b32": (
        1,
        "1",
        lambda x: sum((15 * ((x >> 4 * k & 15) != 0)) << 4 * k for k in range(8)),
        lambda x: int(x != 0),
    ),
    "s_bitreplicate_b64_b32": (2, "1", lambda x: sum((3 * (x >> k & 1)) << 2 * k for k in range(32)), None),
}


def numbers(rng: np.random.Generator, registers: int, count: int) -> list[int]:
    """Random words, small numbers and edges."""
    bits = 32 * registers
    edges = [0, 1, 31, 32, 63, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1, 0x00FF00FF, 0x80007FFF]
    found = []
    for _ in range(count):
        word = int.from_bytes(rng.bytes(bits // 8), "little")
        kind = rng.integers(0, 4)
        found.append(int(rng.choice(edges[:5])) if kind == 0 else edges[rng.integers(0, 10)] if kind == 1 else word)
    return found


@pytest.mark.parametrize("mnemonic", VECTOR)
def test_vector_formula(mnemonic: str) -> None:
    width, sources, formula = VECTOR[mnemonic]
    rng, wave = np.random.default_rng(13), SingleWave()
    columns = [numbers(rng, int(registers), 64) for registers in sources]
    operands = []
    for k, (registers, column) in enumerate(zip(sources, columns)):
        place = 10 + 4 * k
        wave.vgpr[place] = np.array([word & M32 for word in column], np.uint32)
        if registers == "2":
            wave.vgpr[place + 1] = np.array([word >> 32 for word in column], np.uint32)
        operands.append(v(place, int(registers)))
    target = "gfx950" if "ashr_pk" in mnemonic else "gfx942"
    wave.run([make(mnemonic, [v(0, width)], operands)], target)
    for lane, words in enumerate(zip(*columns)):
        got = int(wave.vgpr[0, lane]) | (int(wave.vgpr[1, lane]) << 32 if width == 2 else 0)
        assert got == formula(*words) & (1 << 32 * width) - 1, f"{mnemonic}{tuple(map(hex, words))} gave {got:#x}"


@pytest.mark.parametrize("mnemonic", SCALAR)
def test_scalar_formula(mnemonic: str) -> None:
    width, sources, formula, scc = SCALAR[mnemonic]
    rng, wave = np.random.default_rng(14), SingleWave()
    for words in zip(*(numbers(rng, int(registers), 60) for registers in sources)):
        operands = []
        for k, (registers, word) in enumerate(zip(sources, words)):
            wave.set_pair(10 + 4 * k, word)
            operands.append(s(10 + 4 * k, int(registers)))
        wave.scc = 1
        wave.run([make(mnemonic, [s(0, width)], operands, "SOP2")])
        got = wave.mask(0) if width == 2 else int(wave.sgpr[0])
        assert got == formula(*words) & (1 << 32 * width) - 1, f"{mnemonic}{tuple(map(hex, words))} gave {got:#x}"
        assert wave.scc == (1 if scc is None else scc(*words)), (
            f"{mnemonic}{tuple(map(hex, words))} set SCC to {wave.scc}"
        )


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("kind", "ui")
def test_scalar_bit_fields(bits: int, kind: str) -> None:
    rng, wave = np.random.default_rng(15), SingleWave()
    for word in numbers(rng, bits // 32, 80):
        offset, width = int(rng.integers(0, bits)), int(rng.integers(0, bits + 1))
        wave.set_pair(10, word)
        wave.sgpr[14] = offset | width << 16
        wave.run([make(f"s_bfe_{kind}{bits}", [s(0, bits // 32)], [s(10, bits // 32), s(14)], "SOP2")])
        whole = signed(word, bits) if kind == "i" else word
        part = whole >> offset & (1 << width) - 1
        part = (
            signed(part, min(width, bits - offset) or 1) if kind == "i" and width and offset + width <= bits else part
        )
        if kind == "i" and offset + width > bits:
            part = whole >> offset
        expected = part & (1 << bits) - 1
        assert (wave.mask(0) if bits == 64 else int(wave.sgpr[0])) == expected, (hex(word), offset, width)
        assert wave.scc == int(expected != 0)


@pytest.mark.parametrize(
    "mnemonic,formula",
    [
        ("s_and_saveexec_b64", lambda x, e: x & e), ("s_or_saveexec_b64", lambda x, e: x | e),
        ("s_andn2_saveexec_b64", lambda x, e: x & ~e), ("s_andn1_saveexec_b64", lambda x, e: ~x & e),
        ("s_xor_saveexec_b64", lambda x, e: x ^ e), ("s_orn1_saveexec_b64", lambda x, e: ~x | e),
    ],
)  # fmt: skip
def test_saveexec(mnemonic: str, formula: Callable[[int, int], int]) -> None:
    wave = SingleWave()
    for x, exec in ((0xF0F0, 0xFF00), (0, 0xFF), (M64, 0), (1 << 63, M64)):
        wave.exec = exec
        wave.set_pair(10, x)
        wave.run([make(mnemonic, [s(20, 2)], [s(10, 2)], "SOP1")])
        assert (wave.mask(20), wave.exec, wave.scc) == (exec, formula(x, exec) & M64, int(formula(x, exec) & M64 != 0))


def test_carry_chains_add_and_subtract_128_bits() -> None:
    rng, wave = np.random.default_rng(16), SingleWave()
    x, y = ([int.from_bytes(rng.bytes(16), "little") | (M64 if k % 3 else 0) for k in range(64)] for _ in range(2))
    y[::4] = [(1 << 128) - number for number in x[::4]]  # carries through words whose sum is all ones
    for base, column in ((10, x), (20, y)):
        for word in range(4):
            wave.vgpr[base + word] = np.array([number >> 32 * word & M32 for number in column], np.uint32)
    vcc = s(106, 2)
    program = []
    for name, base in (("add", 30), ("sub", 40)):
        program.append(make(f"v_{name}_co_u32", [v(base), vcc], [v(10), v(20)], "VOP2"))
        chained = "addc" if name == "add" else "subb"
        program += [
            make(f"v_{chained}_co_u32", [v(base + k), vcc], [v(10 + k), v(20 + k), vcc], "VOP2") for k in (1, 2, 3)
        ]
    wave.run(program)
    for lane in range(64):
        for base, exact in ((30, x[lane] + y[lane]), (40, x[lane] - y[lane])):
            got = sum(int(wave.vgpr[base + k, lane]) << 32 * k for k in range(4))
            assert got == exact & (1 << 128) - 1


def test_wide_multiply_add_and_its_carry() -> None:
    rng, wave = np.random.default_rng(17), SingleWave()
    for name, convert in (("v_mad_u64_u32", lambda x, b: x), ("v_mad_i64_i32", signed)):
        x, y, z = numbers(rng, 1, 64), numbers(rng, 1, 64), numbers(rng, 2, 64)
        for place, column in ((10, x), (12, y), (14, z)):
            wave.vgpr[place] = np.array([word & M32 for word in column], np.uint32)
        wave.vgpr[15] = np.array([word >> 32 for word in z], np.uint32)
        wave.run([make(name, [v(0, 2), s(20, 2)], [v(10), v(12), v(14, 2)])])
        for lane, (p, q, r) in enumerate(zip(x, y, z)):
            exact = convert(p, 32) * convert(q, 32) + convert(r, 64)
            assert int(wave.vgpr[0, lane]) | int(wave.vgpr[1, lane]) << 32 == exact & M64
            overflow = exact > M64 if name.endswith("u32") else exact != signed(exact, 64)
            assert wave.mask(20) >> lane & 1 == int(overflow)


def test_lane_counting() -> None:
    wave = SingleWave()
    mask = 0x8123_4567_89AB_CDEF
    wave.sgpr[4], wave.sgpr[5] = mask & M32, mask >> 32
    wave.vgpr[1] = 100
    wave.run([make("v_mbcnt_lo_u32_b32", [v(0)], [s(4), v(1)]), make("v_mbcnt_hi_u32_b32", [v(0)], [s(5), v(0)])])
    assert wave.vgpr[0].tolist() == [100 + (mask & (1 << lane) - 1).bit_count() for lane in range(64)]
