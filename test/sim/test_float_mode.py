"""Rounding, denormals and overflow by the MODE register, and the instructions that change it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from single_wave import SingleWave, imm, make, s, v, wave_with

from ckmlir.sim.decode import Operand

Array = np.ndarray[Any, Any]


def floats(seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(64).astype(np.float32)


def f32(wave: SingleWave, register: int) -> Array:
    return wave.vgpr[register].view(np.float32)


def bits(number: float) -> int:
    return int(np.float32(number).view(np.uint32))


@pytest.mark.parametrize("mode,operand_kept,result_kept", [(0x3F0, 1, 1), (0x3C0, 0, 0), (0x3D0, 1, 0), (0x3E0, 0, 1)])
def test_f32_denormals_by_mode(mode: int, operand_kept: int, result_kept: int) -> None:
    tiny = np.float32(2.0**-130)
    wave = wave_with(v1=np.full(64, tiny), v2=np.full(64, np.float32(2.0**-100)))
    wave.mode = mode
    wave.run(
        [
            make("v_mul_f32", [v(3)], [v(1), imm(bits(2.0**20))]),  # a normal result of a denormal operand
            make("v_mul_f32", [v(4)], [v(2), imm(bits(-(2.0**-30)))]),  # a denormal result of normal operands
            make("v_cndmask_b32", [v(5)], [v(1), v(1), s(106, 2)]),  # moves are not arithmetic
        ],
        dynamic_mode=True,
    )
    assert f32(wave, 3)[0] == (2.0**-110 if operand_kept else 0.0)
    assert f32(wave, 4)[0] == (-(2.0**-130) if result_kept else 0.0) and np.signbit(f32(wave, 4)[0])
    assert f32(wave, 5)[0] == tiny


def test_f16_denormals_follow_their_own_field() -> None:
    wave = wave_with(v1=np.full(64, 0x0001, np.uint32))
    for mode, kept in ((0x3F0, True), (0x330, False)):
        wave.mode = mode
        wave.run([make("v_add_f16", [v(0)], [v(1), imm(0)])], dynamic_mode=True)
        assert (wave.vgpr[0] == (1 if kept else 0)).all()


@pytest.mark.parametrize("rounding,direction", [(0, None), (1, np.inf), (2, -np.inf), (3, 0)])
def test_rounding_mode_of_f32(rounding: int, direction: float | None) -> None:
    x, y = floats(1), floats(2) * np.float32(1e-5)
    wave = wave_with(v1=x, v2=y)
    wave.mode = 0x3F0 | rounding
    wave.run([make("v_add_f32", [v(0)], [v(1), v(2)])], dynamic_mode=True)
    exact = x.astype(np.float64) + y.astype(np.float64)
    nearest = exact.astype(np.float32)
    got = f32(wave, 0)
    if direction is None:
        np.testing.assert_array_equal(got, nearest)
    elif direction == 0:
        assert (np.abs(got) <= np.abs(exact)).all() and (
            np.abs(np.nextafter(got, np.copysign(np.float32(np.inf), got))) > np.abs(exact)
        ).all()
    else:
        beyond = np.nextafter(got, np.float32(-direction))
        assert ((got - exact) * np.sign(direction) >= 0).all() and ((beyond - exact) * np.sign(direction) < 0).all()
    wave.mode = 0x3F0
    wave.run([make("v_add_f32", [v(0)], [v(1), v(2)])])
    np.testing.assert_array_equal(f32(wave, 0), nearest)  # the host's rounding is as before


def test_s_setreg_changes_the_mode_and_s_getreg_reads_it() -> None:
    wave = wave_with(v1=np.full(64, np.float32(2.0**-130)))
    denormals = Operand("imm", 1 | 4 << 6 | (4 - 1) << 11, text="hwreg(HW_REG_MODE, 4, 4)")
    whole = Operand("imm", 1 | 31 << 11, text="hwreg(HW_REG_MODE)")
    wave.run(
        [
            make("s_setreg_imm32_b32", [], [denormals, imm(0b1100)], "SOPK"),
            make("s_getreg_b32", [s(3)], [whole], "SOPK"),
            make("v_add_f32", [v(0)], [v(1), imm(0)]),
        ],
        dynamic_mode=True,
    )
    assert wave.sgpr[3] == 0x3C0 == wave.mode
    assert not f32(wave, 0).any()


def test_fp16_overflow_clamps_fp8_conversions() -> None:
    wave = wave_with(v1=np.full(64, np.float32(1e6)))
    for mode, encoding in ((0x3F0, 0x80), (0x3F0 | 1 << 23, 0x7F)):
        wave.mode = mode
        wave.run([make("v_cvt_pk_fp8_f32", [v(0)], [v(1), v(1)])], dynamic_mode=True)
        assert (wave.vgpr[0] & 0xFF == encoding).all()
