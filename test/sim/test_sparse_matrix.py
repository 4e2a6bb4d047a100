"""Every SMFMAC of the chips against a NumPy product, with A spread out to a dense matrix by its indices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from instruction_registry import register
from single_wave import SingleWave, make, selection_of, v

from ckmlir.sim.decode import Instruction
from ckmlir.sim.decode.opcodes import opcode_table
from ckmlir.sim.library import library

Array = np.ndarray[Any, Any]
A, B, D, INDICES = 0, 16, 64, 48


@dataclass(frozen=True)
class Shape:
    mnemonic: str
    target: str
    m: int
    k: int
    a: str
    b: str
    integer: bool

    def __str__(self) -> str:
        return f"{self.mnemonic}-{self.target}"

    @property
    def bits(self) -> int:
        return 16 if "16" in self.a else 8

    @property
    def held(self) -> int:
        """Elements of A in a lane."""
        return self.k // 2 * self.m // 64

    @property
    def runs(self) -> int:
        """Runs of consecutive k that a lane holds of B."""
        return 2 if 2 * self.held * self.bits == 256 else 1

    @property
    def sets(self) -> int:
        return 32 // (2 * self.held)


def shapes() -> list[Shape]:
    found = []
    for target in ("gfx942", "gfx950"):
        for row in opcode_table(target).values():
            if match := re.match(r"v_smfmac_(f32|i32)_(\d+)x\d+x(\d+)_(\w+)$", row.mnemonic):
                a, _, b = match[4].partition("_")
                found.append(Shape(row.mnemonic, target, int(match[2]), int(match[3]), a, b or a, match[1] == "i32"))
    return found


SHAPES = shapes()
register({shape.mnemonic for shape in SHAPES}, "test_sparse_product_agrees_with_numpy")


def dtype(name: str, target: str) -> Any:
    fnuz = "fnuz" if target == "gfx942" else ""
    return {
        "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8,
        "fp8": getattr(ml_dtypes, f"float8_e4m3fn{fnuz[2:]}" if fnuz else "float8_e4m3fn"),
        "bf8": getattr(ml_dtypes, f"float8_e5m2{fnuz}"),
    }[name]  # fmt: skip


class Product:
    def __init__(self, shape: Shape, chosen_set: int = 0) -> None:
        self.shape, self.wave = shape, SingleWave()
        rng = np.random.default_rng(1)
        self.wave.vgpr[:] = rng.integers(0, 1 << 32, (512, 64), np.uint32)
        m, k = shape.m, shape.k

        def random(size: tuple[int, int], name: str) -> Array:
            if shape.integer:
                return rng.integers(-128, 128, size).astype(np.int8)
            return rng.standard_normal(size).astype(np.float32).astype(dtype(name, shape.target))

        self.values, self.b = random((m, k // 2), shape.a), random((k, m), shape.b)
        pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
        self.positions = pairs[rng.integers(0, 6, (m, k // 4))].reshape(m, k // 2)
        self.c = rng.integers(-99, 99, (m, m)).astype(np.int32 if shape.integer else np.float32)
        self._load(chosen_set)

    def _load(self, chosen_set: int) -> None:
        shape, lanes = self.shape, np.arange(64)
        column, group = lanes % shape.m, lanes // shape.m
        elements = np.stack([self.values[column, group * shape.held + e] for e in range(shape.held)], 1)
        self._set(A, elements)
        positions = np.stack([self.positions[column, group * shape.held + e] for e in range(shape.held)], 1)
        word = (positions << 2 * np.arange(shape.held)).sum(1).astype(np.uint64)
        random = self.wave.vgpr[INDICES].astype(np.uint64)
        mask, shift = (1 << 2 * shape.held) - 1, 2 * shape.held * chosen_set
        self.wave.vgpr[INDICES] = (random & np.uint64(~(mask << shift) & 0xFFFFFFFF) | word << np.uint64(shift)).astype(
            np.uint32
        )
        per_run = 2 * shape.held // shape.runs
        dense = [shape.k // shape.runs * (e // per_run) + per_run * group + e % per_run for e in range(2 * shape.held)]
        self._set(B, np.stack([self.b[k, column] for k in dense], 1))
        for (row, col), value in np.ndenumerate(self.c):
            lane = col + shape.m * (row // 4 % (64 // shape.m))
            self.wave.vgpr[D + row % 4 + 4 * (row // (4 * (64 // shape.m))), lane] = value.view(np.uint32)

    def _set(self, first: int, elements: Array) -> None:
        words = np.ascontiguousarray(elements).view(np.uint32)
        self.wave.vgpr[first : first + words.shape[1]] = words.T

    def result(self) -> Array:
        shape = self.shape
        got = np.zeros((shape.m, shape.m), self.c.dtype)
        for row, col in np.ndindex(got.shape):
            lane = col + shape.m * (row // 4 % (64 // shape.m))
            got[row, col] = self.wave.vgpr[D + row % 4 + 4 * (row // (4 * (64 // shape.m))), lane].view(got.dtype)
        return got

    def dense(self) -> Array:
        spread = np.zeros((self.shape.m, self.shape.k), np.float64)
        for element in range(self.shape.k // 2):
            rows = np.arange(self.shape.m)
            spread[rows, element // 2 * 4 + self.positions[:, element]] = self.values[:, element].astype(np.float64)
        return spread

    def instruction(self, **modifiers: int) -> Instruction:
        shape = self.shape
        registers = shape.held * shape.bits // 32
        sources = (v(A, registers), v(B, 2 * registers), v(INDICES))
        count = shape.m * shape.m // 64
        return make(shape.mnemonic, [v(D, count)], sources, "MFMA", **{"cbsz": 0, "abid": 0, **modifiers})


@pytest.fixture(scope="module", autouse=True)
def compiled_together() -> None:
    library().addresses(dict.fromkeys(selection_of(Product(shape).instruction(), shape.target).key for shape in SHAPES))


def check(product: Product, **modifiers: int) -> None:
    shape = product.shape
    product.wave.exec = 1  # matrix instructions ignore EXEC
    assert product.wave.run([product.instruction(**modifiers)], shape.target) == 0
    expected = product.dense() @ product.b.astype(np.float64) + product.c
    if shape.integer:
        np.testing.assert_array_equal(product.result(), expected)
    else:
        np.testing.assert_allclose(product.result(), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sparse_product_agrees_with_numpy(shape: Shape) -> None:
    check(Product(shape))


@pytest.mark.parametrize("name", ["v_smfmac_f32_16x16x32_f16", "v_smfmac_i32_32x32x32_i8", "v_smfmac_f32_32x32x32_f16"])
def test_abid_chooses_the_set_of_indices_unless_cbsz_asks_for_the_first(name: str) -> None:
    shape = next(shape for shape in SHAPES if shape.mnemonic == name)
    for chosen in range(1, shape.sets):
        check(Product(shape, chosen), abid=chosen)
    check(Product(shape, 0), abid=shape.sets - 1, cbsz=1)


def test_columns_that_no_index_names_do_not_count() -> None:
    """Infinities in B where A has nothing leave no NaN."""
    product = Product(next(shape for shape in SHAPES if shape.mnemonic == "v_smfmac_f32_16x16x32_f16"))
    product.positions[:] = np.tile([0, 2], product.shape.k // 4)
    product.b[1::2] = np.inf
    product._load(0)
    assert product.wave.run([product.instruction()]) == 0
    assert np.isfinite(product.result()).all()
