"""A product whose work is shared out evenly: every workgroup takes so many steps along K of whatever blocks they belong
to. A block that one workgroup computes alone is stored, others are added up by atomic updates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contraction import BLOCK, blocks, contract, product_of
from kernel_runner import CHIPS, compile_traced

from ckmlir.lang import (
    Kernel,
    atomic_add,
    exit_unless,
    i32,
    kernel,
    ptr,
    store,
    view,
    when,
    while_loop,
    workgroup_id,
)
from ckmlir.targets import get_target


def stream_k(chip: str, schedule: str) -> Kernel:
    """C += A Bᵀ for C of zeros; `share` steps along K for each workgroup."""
    bm, bn, bk = BLOCK
    product = product_of(chip)
    pointers = {"a": ptr("f16"), "b": ptr("f16"), "c": ptr("f32")}

    @kernel(
        "stream_k",
        target=get_target(chip),
        waves=4,
        arguments={**pointers, **dict.fromkeys(("m", "n", "k", "share"), i32)},
    )
    def stream(given: Any) -> None:
        m, n, k = given.m, given.n.multiple_of(4), given.k.multiple_of(8)
        A, B = (view(pointer, (rows, k), (k, 1)).pad(bm, bk) for pointer, rows in ((given.a, m), (given.b, n)))
        C = view(given.c, (m, n), (n, 1)).pad(bm, bn)
        columns, depth = blocks(n, bn), blocks(k, bk)
        first = workgroup_id(0) * given.share
        last = (first + given.share).minimum(blocks(m, bm) * columns * depth)
        exit_unless(first < last)
        with while_loop(lambda at: at < last, carry=[first]) as step:
            (at,) = step.carried
            block = at // depth
            begin, end = at - block * depth, (last - block * depth).minimum(depth)
            row, column = (block // columns * bm).multiple_of(bm), (block % columns * bn).multiple_of(bn)
            total = contract(product, A, B, row, column, begin * bk, (end * bk).minimum(k), schedule)
            window = C.window((bm, bn), (row, column))
            with when(begin.equals(0) & end.equals(depth)) as whole:
                store(total, window)
            with whole.otherwise():
                atomic_add(total, window)
            step.carry(block * depth + end)

    return stream


@pytest.mark.one_in(4)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("schedule", ["compv3", "compv4"])
def test_shares_of_any_size(chip: str, schedule: str) -> None:
    """Shares of less than a block, of some blocks and a part, of everything; ragged sizes; workgroups without work."""
    compiled = compile_traced(stream_k(chip, schedule))
    assert compiled.spills == 0
    random = np.random.default_rng(1)
    m, n, k = 130, 68, 168
    a, b = (random.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n))
    steps = 3 * 2 * 6
    for share in (4, 13, 36) if schedule == "compv4" else (7,):
        c = np.zeros((m, n), np.float32)
        *_, c = compiled.run(a, b, c, m, n, k, share, grid=(-(-steps // share) + 1, 1, 1), checks="all")
        np.testing.assert_array_equal(
            c, a.astype(np.float64) @ b.astype(np.float64).T
        )  # sums of small integers are exact
