"""Tiles multiplied where A has two of every four elements along K, against sums over the elements kept, one by one.

Elements are small multiples of 1/2, so that every product and sum is exact in f32 too.
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernel_runner import compile_traced

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.mma_index import index_over
from ckmlir.lang import Kernel, kernel, load, mma, ptr, store, view, zeros
from ckmlir.targets import Target, get_target

TYPES: dict[str, dict[str, Any]] = {
    "gfx942": {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "fp8": ml_dtypes.float8_e4m3fnuz,
               "bf8": ml_dtypes.float8_e5m2fnuz},
    "gfx950": {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "fp8": ml_dtypes.float8_e4m3fn,
               "bf8": ml_dtypes.float8_e5m2},
}  # fmt: skip
CASES = [
    (chip, one.shape, one.a, one.b, depth)
    for chip in TYPES
    for one in map(get_target(chip).mfma, get_target(chip).mfma_cycles)
    if one.sparse
    for depth in (1, 4)
]
WAVES = (2, 1)
PAIRS = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])


def product_kernel(target: Target, one: Mma, m: int, n: int, k: int) -> Kernel:
    """C = A · Bᵀ, one tile."""
    names = {"a": ptr(one.a_dtype), "b": ptr(one.b_dtype), "index": ptr("i8"), "c": ptr(one.acc_dtype)}

    @kernel("sparse", target=target, waves=2, arguments=names)
    def sparse(given: Any) -> None:
        def tile(pointer: Any, rows: int, depth: int, lies: Any) -> Any:
            return load(view(pointer, (rows, depth), (depth, 1)).window((rows, depth), (0, 0)), lies)

        a = tile(given.a, m, k // 2, one.a_over(WAVES, m, k))
        b = tile(given.b, n, k, one.b_over(WAVES, n, k))
        index = tile(given.index, m, k // 8, index_over(one, WAVES, m, k))
        c = mma(one, a, b, zeros((m, n), one.acc_dtype, one.c_over(WAVES, m, n)), index=index)
        store(c, view(given.c, (m, n), (n, 1)).window((m, n), (0, 0)))

    return sparse


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("chip", "shape", "a", "b", "depth"), CASES)
def test_products(chip: str, shape: str, a: str, b: str, depth: int) -> None:
    target = get_target(chip)
    instruction = target.find_mfma(shape, a, b, sparse=True)
    one = Mma.select(target, shape, a, b, block_k=depth * instruction.k, sparse=True)
    m, n, k = 4 * one.m, one.n, depth * instruction.k
    random = np.random.default_rng(5)
    scale = 1 if a == "i8" else 2
    left = (random.integers(-6, 7, (m, k // 2)) / scale).astype(TYPES[chip][a])
    right = (random.integers(-6, 7, (n, k)) / scale).astype(TYPES[chip][b])
    places = PAIRS[random.integers(0, len(PAIRS), (m, k // 4))].reshape(m, k // 2)
    index = (places.reshape(m, k // 8, 4) << np.arange(0, 8, 2)).sum(axis=2).astype(np.uint8).view(np.int8)
    acc = np.dtype("i4") if a == "i8" else np.dtype("f4")
    compiled = compile_traced(product_kernel(target, one, m, n, k))
    assert instruction.mnemonic in compiled.assembly
    found = compiled.run(left, right, index, np.zeros((m, n), acc), checks="all")[-1]
    expected = np.zeros((m, n))
    for element in range(k // 2):
        of_b = right.astype(np.float64)[:, 4 * (element // 2) + places[:, element]]  # (n, m)
        expected += left[:, element, None].astype(np.float64) * of_b.T
    np.testing.assert_array_equal(found, expected)
