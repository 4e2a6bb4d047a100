"""What surrounds the semantic functions of vector instructions: modifiers, SDWA, DPP, packed halves, operand kinds,
float modes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from single_wave import SingleWave, imm, make, s, v, wave_with

from ckmlir.sim.decode import Operand
from ckmlir.sim.vector_alu import dpp_source_lanes

Array = np.ndarray[Any, Any]
LANES = np.arange(64)


def floats(seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(64).astype(np.float32)


def f32(wave: SingleWave, register: int) -> Array:
    return wave.vgpr[register].view(np.float32)


def bits(number: float) -> int:
    return int(np.float32(number).view(np.uint32))


# -- operands --------------------------------------------------------------------------------------------------------


def test_input_modifiers_are_absolute_value_then_sign() -> None:
    x, y = floats(1), floats(2)
    wave = wave_with(v1=x, v2=y)
    wave.run([make("v_add_f32", [v(0)], [v(1, absolute=True, negate=True), v(2, negate=True)])])
    np.testing.assert_array_equal(f32(wave, 0), -np.abs(x) - y)


@pytest.mark.parametrize("operand,number", [(s(5), 2.5), (imm(bits(-1.25)), -1.25)])
def test_scalar_and_constant_operands_reach_every_lane(operand: Operand, number: float) -> None:
    x = floats(1)
    wave = wave_with(v1=x)
    wave.sgpr[5] = bits(2.5)
    wave.run([make("v_mul_f32", [v(0)], [operand, v(1)])])
    np.testing.assert_array_equal(f32(wave, 0), np.float32(number) * x)


def test_special_scalar_operands() -> None:
    wave = wave_with()
    wave.set_pair(106, 0)
    wave.scc = 1
    sources = {"vccz": Operand("s", 251), "execz": Operand("s", 252), "scc": Operand("s", 253)}
    wave.run([make("v_mov_b32", [v(n)], [operand]) for n, operand in enumerate(sources.values())])
    assert [int(wave.vgpr[n, 0]) for n in range(3)] == [1, 0, 1]


def test_accumulation_registers_are_a_file_of_their_own() -> None:
    wave = wave_with(v3=LANES.astype(np.uint32))
    a3 = Operand("a", 3)
    wave.run(
        [
            make("v_accvgpr_write_b32", [a3], [v(3)]),
            make("v_mov_b32", [v(3)], [imm(0)]),
            make("v_accvgpr_read_b32", [v(4)], [a3]),
        ]
    )
    np.testing.assert_array_equal(wave.vgpr[4], LANES)
    np.testing.assert_array_equal(wave.vgpr[259], LANES)
    assert not wave.vgpr[3].any()


def test_inactive_lanes_keep_their_registers_and_clear_their_mask_bits() -> None:
    wave = wave_with(v1=floats(1), v2=floats(2))
    before = wave.vgpr[0].copy()
    wave.exec = 0x00FF_0000_0000_FF01
    lanes = np.array([wave.exec >> lane & 1 for lane in range(64)], bool)
    wave.set_pair(10, (1 << 64) - 1)
    wave.run([make("v_add_f32", [v(0)], [v(1), v(2)]), make("v_cmp_tru_f32", [s(10, 2)], [v(1), v(2)], "VOPC")])
    np.testing.assert_array_equal(wave.vgpr[0][~lanes], before[~lanes])
    assert wave.mask(10) == wave.exec


def test_sources_are_read_before_an_overlapping_destination_is_written() -> None:
    low, high = (np.random.default_rng(k).integers(0, 1 << 32, 64, np.uint32) for k in (1, 2))
    wave = wave_with(v1=low, v2=high)
    wave.run([make("v_lshlrev_b64", [v(2, 2)], [imm(4), v(1, 2)])])
    whole = (high.astype(np.uint64) << np.uint64(32) | low) << np.uint64(4)
    np.testing.assert_array_equal(wave.vgpr[2], (whole & np.uint64(0xFFFFFFFF)).astype(np.uint32))
    np.testing.assert_array_equal(wave.vgpr[3], (whole >> np.uint64(32)).astype(np.uint32))


# -- output modifiers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("omod,factor", [(1, 2.0), (2, 4.0), (3, 0.5)])
def test_output_scale(omod: int, factor: float) -> None:
    """Only outside IEEE mode, and where denormal results are flushed; -0 becomes +0."""
    x, y = floats(1), floats(2)
    x[:2] = y[:2] = -0.0, 2.0**-125
    add = make("v_add_f32", [v(0)], [v(1), v(2)], omod=omod)
    for mode, applies in ((0x3F0, False), (0x3D0, False), (0x1F0, False), (0x1D0, True)):
        for dynamic in (False, True) if mode == 0x3F0 else (True,):
            wave = wave_with(v1=x, v2=y)
            wave.mode = mode
            wave.run([add], dynamic_mode=dynamic)
            expected = (x + y) * np.float32(factor if applies else 1)
            np.testing.assert_array_equal(f32(wave, 0), expected)
            assert bool(np.signbit(f32(wave, 0)[0])) != applies


def test_float_clamp_and_nan() -> None:
    x = floats(1) * 3
    x[:3] = np.nan, np.inf, -np.inf
    wave = wave_with(v1=x)
    wave.run([make("v_add_f32", [v(0)], [v(1), imm(0)], clamp=1)])
    np.testing.assert_array_equal(f32(wave, 0), np.where(np.isnan(x), 0, np.clip(x, 0, 1)))


def test_nan_passes_the_clamp_without_dx10_clamp() -> None:
    wave = wave_with(v1=np.full(64, np.nan, np.float32))
    wave.mode = 0x2F0
    wave.run([make("v_add_f32", [v(0)], [v(1), imm(0)], clamp=1)], dynamic_mode=True)
    assert np.isnan(f32(wave, 0)).all()


def test_integer_clamp_saturates() -> None:
    x, y = (np.random.default_rng(k).integers(0, 1 << 32, 64, np.uint32) for k in (1, 2))
    wave = wave_with(v1=x, v2=y)
    names = ("v_add_u32", "v_sub_u32", "v_add_i32", "v_sub_i32")
    wave.run([make(name, [v(10 + n)], [v(1), v(2)], clamp=1) for n, name in enumerate(names)])
    p, q, sp, sq = (
        x.astype(np.int64),
        y.astype(np.int64),
        x.view(np.int32).astype(np.int64),
        y.view(np.int32).astype(np.int64),
    )
    low, high = -(1 << 31), (1 << 31) - 1
    expected = [
        np.minimum(p + q, (1 << 32) - 1),
        np.maximum(p - q, 0),
        np.clip(sp + sq, low, high),
        np.clip(sp - sq, low, high),
    ]
    for n, numbers in enumerate(expected):
        np.testing.assert_array_equal(wave.vgpr[10 + n].astype(np.int64), numbers & 0xFFFFFFFF)


# -- halves ----------------------------------------------------------------------------------------------------------


def half_pairs(seed: int) -> tuple[Array, Array, Array]:
    """Registers of two f16, and the low and high f16."""
    pairs = np.random.default_rng(seed).standard_normal((64, 2)).astype(np.float16)
    return pairs.view(np.uint32)[:, 0], pairs[:, 0], pairs[:, 1]


def test_op_sel_chooses_halves_of_sources_and_destination() -> None:
    (x, x_low, x_high), (y, y_low, y_high) = half_pairs(1), half_pairs(2)
    wave = wave_with(v1=x, v2=y)
    old = wave.vgpr[0].copy()
    wave.run([make("v_add_f16", [v(0)], [v(1), v(2)], op_sel=0b1001)])
    np.testing.assert_array_equal((wave.vgpr[0] >> 16).astype(np.uint16).view(np.float16), x_high + y_low)
    np.testing.assert_array_equal(wave.vgpr[0] & 0xFFFF, old & 0xFFFF)
    wave.run([make("v_add_f16", [v(0)], [v(1), v(2)], op_sel=0b0010)])
    np.testing.assert_array_equal(wave.vgpr[0], (x_low + y_high).view(np.uint16))  # the upper half becomes zero


@pytest.mark.parametrize("op_sel,op_sel_hi,neg_lo,neg_hi", [(0, 7, 0, 0), (1, 6, 2, 1), (7, 0, 7, 5)])
def test_packed_f16_fma(op_sel: int, op_sel_hi: int, neg_lo: int, neg_hi: int) -> None:
    sources = [half_pairs(k) for k in (1, 2, 3)]
    wave = wave_with(v1=sources[0][0], v2=sources[1][0], v3=sources[2][0])
    wave.run(
        [
            make(
                "v_pk_fma_f16",
                [v(0)],
                [v(1), v(2), v(3)],
                "VOP3P",
                op_sel=op_sel,
                op_sel_hi=op_sel_hi,
                neg_lo=neg_lo,
                neg_hi=neg_hi,
            )
        ]
    )
    for half, (select, negate) in enumerate(((op_sel, neg_lo), (op_sel_hi, neg_hi))):
        a, b, c = (
            source[1 + (select >> k & 1)].astype(np.float64) * (-1 if negate >> k & 1 else 1)
            for k, source in enumerate(sources)
        )
        got = (wave.vgpr[0] >> np.uint32(16 * half)).astype(np.uint16).view(np.float16)
        np.testing.assert_array_equal(got, (a * b + c).astype(np.float16))


def test_packed_f32_selects_registers_of_pairs() -> None:
    data = [floats(k) for k in range(1, 5)]
    wave = wave_with(v2=data[0], v3=data[1], v4=data[2], v5=data[3])
    wave.run(
        [
            make(
                "v_pk_mul_f32",
                [v(0, 2)],
                [v(2, 2), v(4, 2)],
                "VOP3P",
                op_sel=0b01,
                op_sel_hi=0b10,
                neg_lo=0,
                neg_hi=0b10,
            )
        ]
    )
    np.testing.assert_array_equal(f32(wave, 0), data[1] * data[2])
    np.testing.assert_array_equal(f32(wave, 1), data[0] * -data[3])


def test_packed_scalar_operand() -> None:
    data = [floats(k) for k in (1, 2)]
    wave = wave_with(v2=data[0], v3=data[1])
    wave.sgpr[6:8] = bits(3.0), bits(5.0)
    wave.run([make("v_pk_add_f32", [v(0, 2)], [v(2, 2), s(6, 2)], "VOP3P", op_sel=0, op_sel_hi=3, neg_lo=0, neg_hi=0)])
    np.testing.assert_array_equal(f32(wave, 0), data[0] + np.float32(3))
    np.testing.assert_array_equal(f32(wave, 1), data[1] + np.float32(5))


def test_mixed_precision_fma() -> None:
    x, (y, _, y_high), z = floats(1), half_pairs(2), floats(3)
    wave = wave_with(v1=x, v2=y, v3=z)
    fields = {"op_sel": 0b010, "op_sel_hi": 0b010, "neg_lo": 0b100, "neg_hi": 0b001}  # |x| * y.high - z
    wave.run([make("v_fma_mix_f32", [v(0)], [v(1), v(2), v(3)], "VOP3P", **fields)])
    expected = np.abs(x).astype(np.float64) * y_high.astype(np.float64) - z
    np.testing.assert_array_equal(f32(wave, 0), expected.astype(np.float32))


# -- SDWA ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "selection,first,width", [(0, 0, 8), (1, 8, 8), (2, 16, 8), (3, 24, 8), (4, 0, 16), (5, 16, 16), (6, 0, 32)]
)
@pytest.mark.parametrize("sext", [False, True])
def test_sdwa_source_selection(selection: int, first: int, width: int, sext: bool) -> None:
    wave = wave_with()
    x = wave.vgpr[1].astype(np.int64)
    wave.run(
        [
            make(
                "v_add_u32",
                [v(0)],
                [v(1, sext=sext), imm(0)],
                "SDWA",
                dst_sel=6,
                dst_unused=0,
                src0_sel=selection,
                src1_sel=6,
            )
        ]
    )
    field = x >> first & (1 << width) - 1
    if sext:
        field = (field ^ 1 << width - 1) - (1 << width - 1)
    np.testing.assert_array_equal(wave.vgpr[0].astype(np.int64), field & 0xFFFFFFFF)


@pytest.mark.parametrize("selection,first,width", [(0, 0, 8), (2, 16, 8), (4, 0, 16), (5, 16, 16)])
@pytest.mark.parametrize("unused", [0, 1, 2])
def test_sdwa_destination_selection(selection: int, first: int, width: int, unused: int) -> None:
    wave = wave_with()
    x, old = wave.vgpr[1].astype(np.int64), wave.vgpr[0].astype(np.int64)
    wave.run([make("v_mov_b32", [v(0)], [v(1)], "SDWA", dst_sel=selection, dst_unused=unused, src0_sel=6)])
    mask = (1 << width) - 1
    part = x & mask
    if unused == 1:
        part = (part ^ 1 << width - 1) - (1 << width - 1)
    expected = part << first
    if unused == 2:
        expected |= old & ~(mask << first)
    np.testing.assert_array_equal(wave.vgpr[0].astype(np.int64), expected & 0xFFFFFFFF)


def test_sdwa_float_operand_from_the_upper_word() -> None:
    x, _, x_high = half_pairs(1)
    wave = wave_with(v1=x)
    wave.run([make("v_cvt_f32_f16", [v(0)], [v(1, negate=True)], "SDWA", dst_sel=6, dst_unused=0, src0_sel=5)])
    np.testing.assert_array_equal(f32(wave, 0), -x_high.astype(np.float32))


def test_sdwa_source_of_a_result_in_two_registers() -> None:
    """Both registers of a pair are written: the destination's selection speaks of parts of one register only."""
    codes = np.arange(64, dtype=np.uint32)
    wave = wave_with(v1=codes << 16 | (255 - codes) << 24)
    wave.run([make("v_cvt_pk_f32_bf8", [v(2, 2)], [v(1)], "SDWA", dst_sel=6, dst_unused=0, src0_sel=5)])
    for register, octets in ((2, codes), (3, 255 - codes)):
        expected = octets.astype(np.uint8).view(ml_dtypes.float8_e5m2fnuz).astype(np.float32)
        np.testing.assert_array_equal(f32(wave, register), expected)


# -- DPP -------------------------------------------------------------------------------------------------------------

DPP_SOURCES = {  # lane -> source lane, or None: out of bounds. From the ISA document's table of DPP_CTRL.
    0x1B: lambda lane: lane ^ 3,  # quad_perm:[3,2,1,0]
    0x101: lambda lane: lane + 1 if lane % 16 < 15 else None,  # row_shl:1
    0x111: lambda lane: lane - 1 if lane % 16 else None,  # row_shr:1
    0x118: lambda lane: lane - 8 if lane % 16 >= 8 else None,  # row_shr:8
    0x121: lambda lane: lane // 16 * 16 + (lane - 1) % 16,  # row_ror:1
    0x138: lambda lane: lane - 1 if lane else None,  # wave_shr:1
    0x13C: lambda lane: (lane - 1) % 64,  # wave_ror:1
    0x140: lambda lane: lane // 16 * 16 + 15 - lane % 16,  # row_mirror
    0x141: lambda lane: lane // 8 * 8 + 7 - lane % 8,  # row_half_mirror
    0x142: lambda lane: lane // 16 * 16 - 1 if lane >= 16 else None,  # row_bcast:15
    0x143: lambda lane: 31 if lane >= 32 else None,  # row_bcast:31
    0x153: lambda lane: lane // 16 * 16 + 3,  # row_newbcast:3
}


@pytest.mark.parametrize("control", DPP_SOURCES, ids=hex)
@pytest.mark.parametrize("bound_ctrl", [0, 1])
def test_dpp_moves_lanes(control: int, bound_ctrl: int) -> None:
    wave = wave_with()
    wave.exec = 0xFFFF_FFFF_FFFF_FF7F  # lane 7 is off: reading it is out of bounds too
    x, old = wave.vgpr[1].copy(), wave.vgpr[0].copy()
    wave.run(
        [make("v_mov_b32", [v(0)], [v(1)], "DPP", dpp_ctrl=control, row_mask=0xF, bank_mask=0xF, bound_ctrl=bound_ctrl)]
    )
    for lane in range(64):
        source = DPP_SOURCES[control](lane)
        if lane == 7:
            expected = old[lane]
        elif source is None or source == 7:
            expected = 0 if bound_ctrl else old[lane]
        else:
            expected = x[source]
        assert wave.vgpr[0, lane] == expected, f"lane {lane}"


def test_dpp_row_and_bank_masks_keep_lanes() -> None:
    wave = wave_with()
    x, y, old = (wave.vgpr[n].astype(np.uint32).copy() for n in (1, 2, 0))
    wave.run(
        [
            make(
                "v_add_u32",
                [v(0)],
                [v(1), v(2)],
                "DPP",
                dpp_ctrl=0x140,
                row_mask=0b0101,
                bank_mask=0b0011,
                bound_ctrl=0,
            )
        ]
    )
    written = ((0b0101 >> LANES // 16) & (0b0011 >> LANES % 16 // 4) & 1).astype(bool)
    np.testing.assert_array_equal(wave.vgpr[0], np.where(written, x[LANES // 16 * 16 + 15 - LANES % 16] + y, old))


def test_dpp_with_destination_as_source() -> None:
    wave = wave_with(v0=LANES.astype(np.uint32))
    wave.run(
        [make("v_add_u32", [v(0)], [v(0), v(0)], "DPP", dpp_ctrl=0x121, row_mask=0xF, bank_mask=0xF, bound_ctrl=0)]
    )
    np.testing.assert_array_equal(wave.vgpr[0], LANES + LANES // 16 * 16 + (LANES - 1) % 16)


def test_undefined_dpp_control_is_refused() -> None:
    with pytest.raises(ValueError, match="0x131"):
        dpp_source_lanes(0x131)
