"""SMFMAC evaluated from the bits of its registers in exact arithmetic, and against what was seen on a GPU.

The evaluator shares nothing with the simulator: it decodes elements by the definition of their format, finds each by
the formulas of AMD's matrix instruction calculator (16 bytes of B a lane) or by the places that a GPU was seen to take
them from (32 bytes), and adds up whole numbers, which f32 has too: results are equal to the bit.

Source of the second kind: one-hot operands of __builtin_amdgcn_smfmac_f32_16x16x64_f16 on a gfx950, in the notes on a
"GFX950 SMFMAC 16x16x64 sparse trick" published beside a matrix multiplication benchmark; index 0x4444, that is the
elements 0 and 1 of every four.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from single_wave import SingleWave, make, v
from test_sparse_matrix import SHAPES, Shape

A, B, D, INDEX = 0, 16, 64, 48
FORMATS = {"f16": (5, 10), "bf16": (8, 7), "fp8": (4, 3), "bf8": (5, 2)}
"""Bits of exponent and mantissa."""


def decoded(code: int, dtype: str, chip: str) -> Fraction:
    """The number that bits stand for; of 8-bit floats in the chip's flavour (FNUZ has a bias larger by 1)."""
    if dtype == "i8":
        return Fraction(code - 256 if code > 127 else code)
    exponent_bits, mantissa_bits = FORMATS[dtype]
    bias = 2 ** (exponent_bits - 1) - 1 + (chip == "gfx942" and dtype in ("fp8", "bf8"))
    sign = -1 if code >> (exponent_bits + mantissa_bits) else 1
    exponent, mantissa = code >> mantissa_bits & (2**exponent_bits - 1), code & (2**mantissa_bits - 1)
    scale = Fraction(2) ** (max(exponent, 1) - bias - mantissa_bits)
    return sign * scale * (mantissa + (2**mantissa_bits if exponent else 0))


@cache
def code_of(number: int, dtype: str, chip: str) -> int:
    """The bits of a whole number from -3 to 3: searched, by what bits stand for."""
    bits = 8 if dtype in ("i8", "fp8", "bf8") else 16
    step = 1 if bits == 8 else 2 ** (FORMATS[dtype][1] - 1)  # such numbers have one bit of mantissa
    zero = 2 ** (bits - 1)  # with a sign, or none of FNUZ
    codes = [code for code in range(0, 2**bits, step) if code != zero or dtype == "i8"]
    return next(code for code in codes if decoded(code, dtype, chip) == number)


def place_of_b(shape: Shape, column: int) -> tuple[int, int]:
    """(group of lanes, element of a lane) that holds a column of A's row, or row of B."""
    held = 2 * shape.held
    if held * shape.bits == 128:
        return column // held, column % held
    half, rest = divmod(column, shape.k // 2)
    return rest // (held // 2), half * (held // 2) + rest % (held // 2)


def numbers(wave: SingleWave, first: int, count: int, dtype: str, shape: Shape) -> np.ndarray:
    """The elements of an operand [lane, element], whole numbers, from the bits of its registers."""
    known = {code: int(decoded(code, dtype, shape.target)) for code in codes(shape, dtype)}
    found = np.zeros((64, count), np.int64)
    for number in range(count):
        words = wave.vgpr[first + number * shape.bits // 32] >> np.uint32(number * shape.bits % 32)
        found[:, number] = [known[int(word) & (2**shape.bits - 1)] for word in words]
    return found


def evaluated(wave: SingleWave, shape: Shape, chosen: int) -> np.ndarray:
    """The products of every row and column, added up as whole numbers."""
    a = numbers(wave, A, shape.held, shape.a, shape)
    b = numbers(wave, B, 2 * shape.held, shape.b, shape)
    found = np.zeros((shape.m, shape.m), np.int64)
    for row in range(shape.m):
        for number in range(shape.k // 2):
            group, own = divmod(number, shape.held)
            lane = row + shape.m * group
            which = int(wave.vgpr[INDEX, lane]) >> (2 * shape.held * chosen + 2 * own) & 3
            of_b, there = place_of_b(shape, number // 2 * 4 + which)
            found[row] += a[lane, own] * b[shape.m * of_b : shape.m * (of_b + 1), there]
    return found


def codes(shape: Shape, dtype: str) -> list[int]:
    """Of whole numbers from -3 to 3."""
    return [code_of(number, dtype, shape.target) for number in range(-3, 4)]


def filled(shape: Shape, random: np.random.Generator) -> SingleWave:
    """Operands of small numbers, any index, D and all other registers of any bits."""
    wave = SingleWave()
    wave.vgpr[:] = random.integers(0, 1 << 32, (512, 64), np.uint32)
    for first, count, dtype in ((A, shape.held, shape.a), (B, 2 * shape.held, shape.b)):
        drawn = random.choice(np.array(codes(shape, dtype), np.uint32), (64, count))
        words = drawn.astype(np.uint8 if shape.bits == 8 else np.uint16).view(np.uint32)
        wave.vgpr[first : first + words.shape[1]] = words.T
    d = random.integers(-99, 99, (shape.m * shape.m // 64, 64))
    wave.vgpr[D : D + len(d)] = d.astype(np.int32 if shape.integer else np.float32).view(np.uint32)
    return wave


def instruction(shape: Shape, chosen: int) -> object:
    words = shape.held * shape.bits // 32
    sources = (v(A, words), v(B, 2 * words), v(INDEX))
    return make(shape.mnemonic, [v(D, shape.m * shape.m // 64)], sources, "MFMA", cbsz=0, abid=chosen)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_exact_evaluation_agrees(shape: Shape) -> None:
    """Any index, two equal or descending places of four included, in the last of its sets."""
    wave, chosen = filled(shape, np.random.default_rng(8)), shape.sets - 1
    expected = evaluated(wave, shape, chosen)
    acc = np.int32 if shape.integer else np.float32
    before = wave.vgpr[D : D + shape.m * shape.m // 64].view(acc).copy()
    assert wave.run([instruction(shape, chosen)], shape.target) == 0
    after = wave.vgpr[D : D + shape.m * shape.m // 64].view(acc)
    for row, column in np.ndindex(shape.m, shape.m):
        register, lane = row % 4 + 4 * (row // (4 * (64 // shape.m))), column + shape.m * (row // 4 % (64 // shape.m))
        assert int(after[register, lane]) == after[register, lane]
        assert int(after[register, lane]) == expected[row, column] + int(before[register, lane])


def seen_on_a_gpu(slot: int, group: int) -> tuple[int, int]:
    """(element, group of lanes) of B that A's element `slot` of a group of lanes met, of 16x16x64_f16 and index 0x4."""
    table = {
        0: [(0, 0), (0, 2), (8, 0), (8, 2)], 1: [(1, 0), (1, 2), (9, 0), (9, 2)],
        2: [(4, 0), (4, 2), (12, 0), (12, 2)], 3: [(5, 0), (5, 2), (13, 0), (13, 2)],
        4: [(0, 1), (0, 3), (8, 1), (8, 3)], 5: [(1, 1), (1, 3), (9, 1), (9, 3)],
        6: [(4, 1), (4, 3), (12, 1), (12, 3)], 7: [(5, 1), (5, 3), (13, 1), (13, 3)],
    }  # fmt: skip
    return table[slot][group]


@pytest.mark.parametrize("name", ["v_smfmac_f32_16x16x64_f16", "v_smfmac_f32_16x16x64_bf16"])
def test_one_hot_operands_meet_as_on_a_gpu(name: str) -> None:
    """One element of A and one of B are 1: the product is where both were seen to meet, and nowhere else."""
    shape = next(one for one in SHAPES if one.mnemonic == name and one.target == "gfx950")
    one = code_of(1, shape.a, shape.target)
    for slot in range(8):
        for group in range(4):
            wave = SingleWave()
            wave.vgpr[:] = 0
            wave.vgpr[INDEX] = 0x4444
            wave.vgpr[A + slot // 2, 16 * group] = one << 16 * (slot % 2)
            there, of_b = seen_on_a_gpu(slot, group)
            wave.vgpr[B + there // 2, 16 * of_b] = one << 16 * (there % 2)
            assert wave.run([instruction(shape, 0)], shape.target) == 0
            d = wave.vgpr[D : D + 4].view(np.float32)
            assert d[0, 0] == 1 and d.sum() == 1
