"""Every MFMA of the three chips against a NumPy product, with operands laid out by the published lane formulas."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from instruction_registry import register
from single_wave import SingleWave, imm, make, v

from ckmlir.sim.decode.opcodes import Opcode, opcode_table

Array = np.ndarray[Any, Any]

# Published shapes: (rows = columns, K): {type: (blocks, elements a lane holds)}. AMD matrix instruction calculator.
BITS = {
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "xf32": 32,
    "f64": 64,
    "i8": 8,
    "fp8": 8,
    "bf8": 8,
    "fp6": 6,
    "bf6": 6,
    "fp4": 4,
}
DTYPES: dict[tuple[str, bool], Any] = {
    ("f16", False): np.float16, ("bf16", False): ml_dtypes.bfloat16, ("f32", False): np.float32,
    ("f64", False): np.float64, ("xf32", False): np.float32, ("i8", False): np.int8,
    ("fp8", True): ml_dtypes.float8_e4m3fnuz, ("bf8", True): ml_dtypes.float8_e5m2fnuz,
    ("fp8", False): ml_dtypes.float8_e4m3fn, ("bf8", False): ml_dtypes.float8_e5m2,
    ("fp6", False): ml_dtypes.float6_e2m3fn, ("bf6", False): ml_dtypes.float6_e3m2fn,
    ("fp4", False): ml_dtypes.float4_e2m1fn,
}  # fmt: skip
F8F6F4 = ("fp8", "bf8", "fp6", "bf6", "fp4")


@dataclass(frozen=True)
class Shape:
    mnemonic: str
    target: str
    m: int
    k: int
    blocks: int
    a: str
    b: str
    result: str
    a_registers: int
    b_registers: int
    d_registers: int
    modifiers: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return f"{self.mnemonic}-{self.target}-{self.a}-{self.b}"

    @property
    def groups(self) -> int:
        return 64 // (self.m * self.blocks)

    @property
    def held(self) -> int:
        return self.k // self.groups


def registers_of(row: Opcode) -> list[int]:
    """Registers of D, A, B and C by the opcode table's types."""
    counts = []
    for field in (*row.destinations, *row.sources):
        _, number, times = re.fullmatch(r"([a-z]+)(\d+)(?:x(\d+))?", field.type).groups()  # type: ignore[union-attr]
        counts.append(int(number) // 32 * int(times or 1))
    return counts


def shapes() -> list[Shape]:
    found = []
    for target in ("gfx90a", "gfx942", "gfx950"):
        for row in opcode_table(target).values():
            match = re.match(r"v_mfma_(f32|i32|f64)_(\d+)x\d+x(\d+)(?:_(\d+)b)?_?([a-z]\w*)$", row.mnemonic)
            if not match:
                continue
            result, m, k, blocks, types = match[1], int(match[2]), int(match[3]), match[4], match[5]
            d, a, b, _ = registers_of(row)
            pairs: list[tuple[str, str, tuple[tuple[str, int], ...]]]
            if types == "f8f6f4":
                pairs = [
                    (F8F6F4[x], F8F6F4[y], (("blgp", y), ("cbsz", x)))
                    for x in range(5)
                    for y in range(5)
                    if x == y or x * y == 0 or (x, y) in ((2, 4), (4, 2))
                ]
            elif types[:4] in ("fp8_", "bf8_"):
                pairs = [(types[:3], types[4:], ())]
            else:
                pairs = [(types.replace("_1k", ""),) * 2 + ((),)]  # type: ignore[list-item]
            for first, second, modifiers in pairs:
                a_count, b_count = (
                    32 * BITS[t] // 32 if types == "f8f6f4" else n for t, n in ((first, a), (second, b))
                )
                held = 32 * a_count // BITS[first]
                count = int(blocks) if blocks else max(1, 64 * held // (m * k))
                found.append(
                    Shape(row.mnemonic, target, m, k, count, first, second, result, a_count, b_count, d, modifiers)
                )
    return found


SHAPES = shapes()
register({shape.mnemonic for shape in SHAPES}, "test_matrix_instruction_agrees_with_numpy")
register({f"v_mfma_scale_f32_{size}_f8f6f4" for size in ("16x16x128", "32x32x64")}, "test_block_scales")


def element_place(shape: Shape, block: int, row: int, k: int, type: str) -> tuple[int, int]:
    """(lane, element) of A[row][k] or B[k][row]."""
    if shape.held == 32 and type in ("fp8", "bf8"):
        half, within = divmod(k, shape.k // 2)
        group, element = within // 16, 16 * half + within % 16
    else:
        group, element = divmod(k, shape.held)
    return row + shape.m * (block + shape.blocks * group), element


def result_place(shape: Shape, block: int, row: int, column: int) -> tuple[int, int]:
    """(lane, register of 32 or 64 bits) of D[row][column]."""
    if shape.m == 32:
        return column + 32 * (row // 4 % 2), 16 * block + row % 4 + 4 * (row // 8)
    if shape.m == 16:
        return (
            (column + 16 * (row % 4), row // 4)
            if shape.result == "f64"
            else (column + 16 * (row // 4), 4 * block + row % 4)
        )
    return (column + 4 * block + 16 * row, 0) if shape.result == "f64" else (column + 4 * block, row)


def pack(elements: Array, bits: int) -> Array:
    """Element bit patterns (lane, element) to dwords (register, lane)."""
    lanes, count = elements.shape
    flat = np.zeros((lanes, count * bits), np.uint8)
    for bit in range(bits):
        flat[:, bit::bits] = elements >> np.uint64(bit) & np.uint64(1)
    return np.packbits(flat, axis=1, bitorder="little").view(np.uint32).T.copy()


def patterns(values: Array) -> Array:
    return values.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[values.dtype.itemsize]).astype(np.uint64)


class Product:
    """Random matrices for a shape, in the registers of a wave: A from v0, B from v64, C from a0, D from v128."""

    A, B, C, D = 0, 32, 256, 128

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        self.shape, self.wave = shape, SingleWave()
        rng = np.random.default_rng(seed)
        fnuz = shape.target == "gfx942"
        self.wave.vgpr[:] = rng.integers(0, 1 << 32, (512, 64), np.uint32)
        dtypes = [DTYPES.get((t, fnuz)) or DTYPES[t, False] for t in (shape.a, shape.b)]
        size = (shape.blocks, shape.m, shape.k)
        if shape.result == "i32":
            self.a, self.b = (rng.integers(-128, 128, size).astype(np.int8) for _ in range(2))
        else:
            spread = 2.0 if BITS[shape.a] < 8 or BITS[shape.b] < 8 else 1.0
            self.a, self.b = ((rng.standard_normal(size) * spread).astype(np.float32).astype(dtype) for dtype in dtypes)
        if shape.a == "xf32":
            self.a, self.b = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (self.a, self.b))
        self.result_dtype = {"f32": np.float32, "i32": np.int32, "f64": np.float64}[shape.result]
        size = (shape.blocks, shape.m, shape.m)
        self.c = (
            rng.integers(-1000, 1000, size).astype(self.result_dtype)
            if shape.result == "i32"
            else rng.standard_normal(size).astype(self.result_dtype)
        )
        self.load(self.A, self.a, shape.a)
        self.load(self.B, self.b, shape.b)
        self.store_result(self.C, self.c)

    def load(self, first: int, matrix: Array, type: str) -> None:
        shape, bits = self.shape, BITS[type]
        elements = np.zeros((64, shape.held), np.uint64)
        source = patterns(matrix)
        for block in range(shape.blocks):
            for row in range(shape.m):
                for k in range(shape.k):
                    elements[element_place(shape, block, row, k, type)] = source[block, row, k]
        words = pack(elements, bits)
        self.wave.vgpr[first : first + len(words)] = words

    def store_result(self, first: int, matrix: Array) -> None:
        source = patterns(matrix)
        for (block, row, column), word in np.ndenumerate(source):
            lane, register = result_place(self.shape, block, row, column)
            if self.shape.result == "f64":
                self.wave.vgpr[first + 2 * register, lane] = int(word) & 0xFFFFFFFF
                self.wave.vgpr[first + 2 * register + 1, lane] = int(word) >> 32
            else:
                self.wave.vgpr[first + register, lane] = word

    def result(self, first: int = D) -> Array:
        shape = self.shape
        words = np.zeros((shape.blocks, shape.m, shape.m), np.uint64)
        for index in np.ndindex(words.shape):
            lane, register = result_place(shape, *index)
            if shape.result == "f64":
                words[index] = (
                    int(self.wave.vgpr[first + 2 * register, lane])
                    | int(self.wave.vgpr[first + 2 * register + 1, lane]) << 32
                )
            else:
                words[index] = self.wave.vgpr[first + register, lane]
        return words.astype(np.uint64 if shape.result == "f64" else np.uint32).view(self.result_dtype)

    def instruction(self, **modifiers: int) -> Any:
        from ckmlir.sim.decode import Operand

        shape = self.shape
        c = Operand("a", 0, shape.d_registers, "a0")
        sources = (v(self.A, shape.a_registers), v(self.B, shape.b_registers), c)
        return make(
            shape.mnemonic, [v(self.D, shape.d_registers)], sources, "MFMA", **{**dict(shape.modifiers), **modifiers}
        )

    def expected(self) -> Array:
        if self.shape.result == "i32":
            return np.einsum("bik,bjk->bij", self.a.astype(np.int64), self.b.astype(np.int64)) + self.c
        return np.einsum("bik,bjk->bij", self.a.astype(np.float64), self.b.astype(np.float64)) + self.c


def assert_close(shape: Shape, got: Array, expected: Array) -> None:
    if shape.result == "i32":
        np.testing.assert_array_equal(got, expected)
    else:
        unit = 2.0**-52 if shape.result == "f64" else 2.0**-23
        np.testing.assert_allclose(got, expected, rtol=4 * unit, atol=unit * 8 * np.sqrt(shape.k) * 4)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_matrix_instruction_agrees_with_numpy(shape: Shape) -> None:
    product = Product(shape)
    product.wave.exec = 1  # matrix instructions ignore EXEC
    assert product.wave.run([product.instruction()], shape.target) == 0
    assert_close(shape, product.result(), product.expected())


def named(mnemonic: str, target: str = "gfx942") -> Shape:
    return next(shape for shape in SHAPES if shape.mnemonic == mnemonic and shape.target == target)


@pytest.mark.parametrize(
    "mnemonic",
    ["v_mfma_f32_32x32x8_f16", "v_mfma_f32_16x16x16_f16", "v_mfma_f32_4x4x4_16b_f16", "v_mfma_f64_16x16x4_f64"],
)
@pytest.mark.parametrize("shift", [0, 2])
def test_accumulating_in_place_and_into_an_overlapping_range(mnemonic: str, shift: int) -> None:
    product = Product(named(mnemonic))
    shape = product.shape
    product.store_result(product.D + shift, product.c)
    c = v(product.D + shift, shape.d_registers)
    sources = (v(product.A, shape.a_registers), v(product.B, shape.b_registers), c)
    product.wave.run([make(mnemonic, [v(product.D, shape.d_registers)], sources, "MFMA")])
    assert_close(shape, product.result(), product.expected())


def test_destination_over_the_operands() -> None:
    product = Product(named("v_mfma_f32_16x16x16_f16"))
    sources = (v(product.A, 2), v(product.B, 2), v(product.D, 4))
    product.store_result(product.D, product.c)
    product.wave.run([make(product.shape.mnemonic, [v(product.A, 4)], sources, "MFMA")])
    assert_close(product.shape, product.result(product.A), product.expected())


@pytest.mark.parametrize(
    "mnemonic",
    ["v_mfma_f32_32x32x8_f16", "v_mfma_i32_16x16x32_i8", "v_mfma_f32_4x4x1_16b_f32", "v_mfma_f64_16x16x4_f64"],
)
def test_constant_accumulator(mnemonic: str) -> None:
    product = Product(named(mnemonic))
    shape = product.shape
    product.c = np.zeros_like(product.c)
    sources = (v(product.A, shape.a_registers), v(product.B, shape.b_registers), imm(0))
    product.wave.run([make(mnemonic, [v(product.D, shape.d_registers)], sources, "MFMA")])
    assert_close(shape, product.result(), product.expected())


def test_f64_operands_are_negated_by_blgp() -> None:
    for blgp, signs in ((1, (-1, 1, 1)), (2, (1, -1, 1)), (4, (1, 1, -1)), (7, (-1, -1, -1))):
        product = Product(named("v_mfma_f64_16x16x4_f64"))
        product.wave.run([product.instruction(blgp=blgp)])
        product.a, product.b, product.c = (x * sign for x, sign in zip((product.a, product.b, product.c), signs))
        assert_close(product.shape, product.result(), product.expected())


def test_cbsz_broadcasts_a_block_of_a() -> None:
    product = Product(named("v_mfma_f32_16x16x4_4b_f16"))
    product.wave.run([product.instruction(cbsz=1, abid=1)])
    product.a = product.a[[1, 1, 3, 3]]
    assert_close(product.shape, product.result(), product.expected())


def test_blgp_rearranges_the_lanes_of_b() -> None:
    product = Product(named("v_mfma_f32_16x16x4_4b_f16"))
    product.wave.run([product.instruction(blgp=2)])
    product.b = product.b[[2, 3, 2, 3]]
    assert_close(product.shape, product.result(), product.expected())


BLGP = {  # the lane of B that each lane reads, by AMD's table "BLGP"
    1: lambda lane: lane % 32, 2: lambda lane: lane % 32 + 32, 3: lambda lane: (lane + 16) % 64,
    4: lambda lane: lane % 16, 5: lambda lane: lane % 16 + 16, 6: lambda lane: lane % 16 + 32,
    7: lambda lane: lane % 16 + 48,
}  # fmt: skip
REARRANGED = [
    (shape, min(number % 3, shape.blocks.bit_length() - 1), number % 7 + 1)
    for number, shape in enumerate(SHAPES)
    if shape.result != "f64" and not shape.mnemonic.endswith("f8f6f4") and shape.target != "gfx950"
]


@pytest.mark.parametrize(
    "shape,cbsz,blgp",
    [
        pytest.param(*case, marks=() if number % 6 == 0 else pytest.mark.full, id="-".join(map(str, case)))
        for number, case in enumerate(REARRANGED)
    ],
)
def test_broadcasts_and_rearrangements_of_lanes(shape: Shape, cbsz: int, blgp: int) -> None:
    """CBSZ and ABID give a block of A to a group of blocks, BLGP rearranges the lanes of B: the same as the plain
    instruction with the registers rearranged."""
    size = 1 << cbsz
    abid = size - 1
    product, plain = Product(shape), Product(shape)
    lanes = np.arange(64)
    block, rest = lanes // shape.m % shape.blocks, lanes // shape.m // shape.blocks
    from_block = block // size * size + abid
    a_lanes = lanes % shape.m + shape.m * (from_block + shape.blocks * rest)
    b_lanes = np.array([BLGP[blgp](lane) for lane in range(64)])
    for first, count, source in ((product.A, shape.a_registers, a_lanes), (product.B, shape.b_registers, b_lanes)):
        plain.wave.vgpr[first : first + count] = product.wave.vgpr[first : first + count][:, source]
    product.wave.run([product.instruction(cbsz=cbsz, abid=abid, blgp=blgp)], shape.target)
    plain.wave.run([plain.instruction()], shape.target)
    np.testing.assert_array_equal(product.result(), plain.result())


SCALED = [
    shape
    for shape in SHAPES
    if shape.mnemonic.endswith("f8f6f4") and (shape.m == 16 or (shape.a, shape.b) in (("fp8", "fp8"), ("fp4", "fp6")))
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape", SCALED, ids=str)
def test_block_scales(shape: Shape) -> None:
    """Byte 1 of the scale registers, for each row and block of 32 along K."""
    product = Product(shape)
    blocks = shape.k // 32
    exponents = np.random.default_rng(3).integers(120, 134, (2, shape.m, blocks))
    for which, register_number in enumerate((100, 101)):
        words = np.zeros(64, np.uint32)
        for row, block in np.ndindex(shape.m, blocks):
            words[row + shape.m * block] = int(exponents[which, row, block]) << 8 | 0x11_00_00_22
        product.wave.vgpr[register_number] = words
    plain = product.instruction()
    scaled = plain._replace(
        mnemonic=shape.mnemonic.replace("v_mfma_", "v_mfma_scale_"),
        sources=(*plain.sources, v(100), v(101)),
        modifiers={**plain.modifiers, "op_sel": 3, "op_sel_hi": 0},
    )
    product.wave.run([scaled], "gfx950")
    scales = 2.0 ** (exponents - 127.0).repeat(32, axis=2)
    product.a, product.b = (x.astype(np.float64) * scale for x, scale in zip((product.a, product.b), scales))
    expected = product.expected()
    np.testing.assert_allclose(product.result(), expected, rtol=1e-5, atol=np.abs(expected).max() * 1e-6)


def test_gfx90a_flushes_denormal_operands_of_f16() -> None:
    product = Product(named("v_mfma_f32_16x16x16f16", "gfx90a"))
    product.a = np.full_like(product.a, np.float16(2.0**-20))
    product.load(product.A, product.a, "f16")
    product.wave.run([product.instruction()], "gfx90a")
    np.testing.assert_array_equal(product.result(), product.c)
