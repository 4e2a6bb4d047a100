"""Products of different sizes in one launch: workgroups that stay take block after block, search for the product that a
block belongs to, and read its sizes and pointers from memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contraction import BLOCK, WAVES, blocks, contract, product_of
from kernel_runner import CHIPS, compile_traced

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import Kernel, cast, i32, kernel, load, ptr, store, to_lds, view, when, while_loop, workgroup_id
from ckmlir.targets import get_target

SIZES = 4
"""Entries of the table for a product: m, n, k, and the number of its first block among all."""


def grouped(chip: str, schedule: str) -> Kernel:
    """C = A Bᵀ for every product, with a bias for those whose pointer to one is not 0; `total` blocks in all."""
    bm, bn, bk = BLOCK
    product = product_of(chip)
    arguments = {"pointers": ptr("i64", 8), "sizes": ptr("i32", 4), "total": i32, "workgroups": i32}

    @kernel("grouped", target=get_target(chip), waves=4, arguments=arguments)
    def grouped_gemm(given: Any) -> None:
        with while_loop(lambda block, group: block < given.total, carry=[workgroup_id(0), 0]) as turn:
            block, group = turn.carried
            with while_loop(
                lambda group: block >= given.sizes.scalar((group + 1) * SIZES + 3), carry=[group]
            ) as search:
                search.carry(search.carried[0] + 1)
            (group,) = search.results
            m, n, k, first = (given.sizes.scalar(group * SIZES + number) for number in range(SIZES))
            n, k = n.multiple_of(4), k.multiple_of(8)
            a, b, c = (given.pointers.pointer(group * SIZES + number, "f16") for number in range(3))
            A, B = (view(pointer, (rows, k), (k, 1)).pad(bm, bk) for pointer, rows in ((a, m), (b, n)))
            C = view(c, (m, n), (n, 1)).pad(bm, bn)
            columns = blocks(n, bn)
            row = ((block - first) // columns * bm).multiple_of(bm)
            column = ((block - first) % columns * bn).multiple_of(bn)
            tile = contract(product, A, B, row, column, 0, k, schedule)
            lies = coalesced((bm, bn), WAVES[0] * WAVES[1], 1, 4)
            out = to_lds(cast(tile, "f16"), "c").read(lies)
            with when(given.pointers.scalar(group * SIZES + 3).differs(0), otherwise=[out]) as biased:
                bias = view(given.pointers.pointer(group * SIZES + 3, "f16"), (n,), (1,)).pad(bn)
                part = load(bias.window((bn,), (column,)), lies.reduce(0))
                biased.give(out + part[None, :])
            store(biased.results[0], C.window((bm, bn), (row, column)))
            turn.carry(block + given.workgroups, group)

    return grouped_gemm


@pytest.mark.one_in(4)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("schedule", ["compv3", "compv4"])
def test_products_of_any_sizes(chip: str, schedule: str) -> None:
    """Products without rows, without columns, with sums of nothing; more workgroups than blocks, and fewer."""
    compiled = compile_traced(grouped(chip, schedule))
    assert compiled.spills == 0
    random = np.random.default_rng(2)
    sizes = [(100, 72, 136), (0, 64, 32), (70, 0, 64), (65, 8, 0), (1, 4, 8), (128, 64, 64)]
    arrays: list[Any] = []
    table, first = [], 0
    for number, (m, n, k) in enumerate(sizes):
        shapes = ((m, k), (n, k), (m, n), (n,))
        arrays += [random.integers(-3, 4, shape).astype(np.float16) for shape in shapes]
        if number % 2:
            arrays[-1] = None
        table += [m, n, k, first]
        first += -(-m // BLOCK[0]) * -(-n // BLOCK[1])
    sizes_of = np.array([*table, 0, 0, 0, first], np.int32)
    for workgroups in (3,) if schedule == "compv3" else (2, 12):
        written, _ = compiled.run(arrays, sizes_of, first, workgroups, grid=(workgroups, 1, 1), checks="all")
        for number in range(len(sizes)):
            a, b, _, bias = arrays[SIZES * number : SIZES * (number + 1)]
            wanted = a.astype(np.float64) @ b.astype(np.float64).T + (0 if bias is None else bias)
            np.testing.assert_array_equal(written[SIZES * number + 2], wanted.astype(np.float16))
