"""Tiles multiplied by every matrix instruction that tiles can have, on every chip, both ways round.

Values are small multiples of 1/2 (whole numbers for i8): products and sums are exact.
"""

from itertools import groupby
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernel_runner import CHIPS, DTYPES, compile_traced

from ckmlir.codeobject import CodeObject
from ckmlir.dialect.mma import Mma
from ckmlir.lang import i32, kernel, load, loop, mma, ptr, store, view, zeros
from ckmlir.targets import get_target

EIGHT_BIT = {
    "gfx942": {"fp8": ml_dtypes.float8_e4m3fnuz, "bf8": ml_dtypes.float8_e5m2fnuz},
    "gfx950": {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2},
}
WITHOUT_TILES = {"fp6", "bf6", "fp4"}
"""Types that no tile has."""


def choices(chip: str) -> list[tuple[str, str, list[Mma]]]:
    """By operand types: every instruction of a single block, as it is and transposed, with one and with two of them in
    an operand vector."""
    target = get_target(chip)
    found = [
        Mma(target.mfma(name), pack, transposed=transposed)
        for name in target.mfma_cycles
        if not target.mfma(name).sparse  # test_sparse_products.py has those
        if target.mfma(name).blocks == 1 and not {target.mfma(name).a, target.mfma(name).b} & WITHOUT_TILES
        for pack, transposed in ((1, False), (1 if target.mfma(name).scaled else 2, True))
    ]
    groups = groupby(sorted(found, key=operand_types), operand_types)
    return [(a, b, list(group)) for (a, b), group in groups]


def operand_types(one: Mma) -> tuple[str, str]:
    return one.a_dtype, one.b_dtype


def sizes(one: Mma) -> tuple[int, int, int]:
    """Rows and columns of two instructions, the depth of two operand vectors."""
    return 2 * one.m, 2 * one.n, 2 * one.k


@pytest.mark.one_in(16)
@pytest.mark.parametrize(("chip", "a", "b"), [(chip, a, b) for chip in CHIPS for a, b, _ in choices(chip)])
def test_products(chip: str, a: str, b: str) -> None:
    instructions = next(group for first, second, group in choices(chip) if (first, second) == (a, b))
    acc = instructions[0].acc_dtype
    deepest, highest = max(one.k for one in instructions) * 2, 64
    a_dtype, b_dtype = a.removeprefix("x"), b.removeprefix("x")
    names = {"a": ptr(a_dtype), "b": ptr(b_dtype)} | {f"c{i}": ptr(acc) for i in range(len(instructions))}

    @kernel("products", target=get_target(chip), waves=2, arguments=names)
    def products(given: Any) -> None:
        for number, one in enumerate(instructions):
            m, n, k = sizes(one)
            rows = view(given.a, (highest, deepest), (deepest, 1)).window((m, k), (0, 0))
            columns = view(given.b, (highest, deepest), (deepest, 1)).window((n, k), (0, 0))
            left, right = load(rows, one.a_over((2, 1), m, k)), load(columns, one.b_over((2, 1), n, k))
            product = mma(one, left, right, zeros((m, n), acc, one.c_over((2, 1), m, n)))
            store(product, view(getattr(given, f"c{number}"), (m, n), (n, 1)).window((m, n), (0, 0)))

    types = {**DTYPES, **EIGHT_BIT.get(chip, {})}
    random, scale = np.random.default_rng(7), 1 if a == "i8" else 2
    left = (random.integers(-4, 5, (highest, deepest)) / scale).astype(types[a_dtype])
    right = (random.integers(-4, 5, (highest, deepest)) / scale).astype(types[b_dtype])
    out = [np.zeros(sizes(one)[:2], types[acc]) for one in instructions]
    found = compile_traced(products).run(left, right, *out)[2:]
    for one, product in zip(instructions, found, strict=True):
        m, n, k = sizes(one)
        expected = left[:m, :k].astype(np.float64) @ right[:n, :k].astype(np.float64).T
        np.testing.assert_array_equal(product, expected, err_msg=str(one))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_double_precision_is_double(chip: str) -> None:
    """A product of 33 x 48 x 64, with the error of sums of 64 in f64."""
    one = Mma.select(get_target(chip), "16x16x4", "f64", block_k=16)
    m, n, k = 33, 48, 64

    @kernel("double", target=get_target(chip), waves=1)
    def double(a: ptr("f64"), b: ptr("f64"), c: ptr("f64")) -> None:
        total = zeros((48, 48), "f64", one.c_over((1, 1), 48, 48))
        for step in range(0, k, 16):
            left = load(view(a, (m, k), (k, 1)).pad(48, 16).window((48, 16), (0, step)), one.a_over((1, 1), 48, 16))
            right = load(view(b, (n, k), (k, 1)).window((48, 16), (0, step)), one.b_over((1, 1), 48, 16))
            total = mma(one, left, right, total)
        store(total, view(c, (m, n), (n, 1)).pad(48, 48).window((48, 48), (0, 0)))

    random = np.random.default_rng(3)
    a, b = random.standard_normal((m, k)), random.standard_normal((n, k))
    found = compile_traced(double).run(a, b, np.zeros((m, n)))[2]
    np.testing.assert_array_less(abs(found - a @ b.T), 2 * k * 2.0**-53 * (abs(a) @ abs(b).T))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("rows", "registers"), [(64, 128), (128, 256), (144, 288)])
def test_accumulators_of_double_precision_are_counted_in_registers(rows: int, registers: int) -> None:
    """Two registers each: what fits into the accumulation registers lies there, what does not is left to LLVM."""
    one = Mma.select(get_target("gfx942"), "16x16x4", "f64", block_k=8)
    columns, k = 64, 24

    @kernel("rows", target=get_target("gfx942"), waves=1)
    def rows_kernel(a: ptr("f64"), b: ptr("f64"), c: ptr("f64"), depth: i32) -> None:
        initial = zeros((rows, columns), "f64", one.c_over((1, 1), rows, columns))
        with loop(0, depth, 8, carry=[initial]) as step:
            left = load(view(a, (rows, k), (k, 1)).window((rows, 8), (0, step.index)), one.a_over((1, 1), rows, 8))
            right = load(
                view(b, (columns, k), (k, 1)).window((columns, 8), (0, step.index)), one.b_over((1, 1), columns, 8)
            )
            step.carry(mma(one, left, right, step.carried[0]))
        store(step.results[0], view(c, (rows, columns), (columns, 1)).window((rows, columns), (0, 0)))

    random = np.random.default_rng(3)
    a, b = random.standard_normal((rows, k)), random.standard_normal((columns, k))
    compiled = compile_traced(rows_kernel)
    found = compiled.run(a, b, np.zeros((rows, columns)), np.int32(k))[2]
    np.testing.assert_array_less(abs(found - a @ b.T), 2 * k * 2.0**-53 * (abs(a) @ abs(b).T))
    metadata = CodeObject.parse(compiled.hsaco).kernels["rows"].metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)
    assert rows * columns * 2 // 64 == registers
