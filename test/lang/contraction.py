"""The block of a product that kernels in these tests share: a scheduled loop over K."""

from __future__ import annotations

from typing import Any

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Scalar, Tile, View, load, loop, mma, stage, to_lds, zeros
from ckmlir.ops.schedules import GEMM
from ckmlir.targets import Target, get_target

WAVES = (2, 2)
BLOCK = (64, 64, 32)


def product_of(target: Target | str) -> Mma:
    """The matrix instruction for blocks of f16; a lane's consecutive accumulators are consecutive columns."""
    chip = get_target(target) if isinstance(target, str) else target
    return Mma.select(chip, "32x32x8", "f16", block_k=BLOCK[2], transposed=True)


def contract(product: Mma, a: View, b: View, row: Any, column: Any, begin: Any, end: Any, schedule: str) -> Tile:
    """The sum over k from `begin` to `end` of a[row + i, k] b[column + j, k], in f32."""
    m, n, k = BLOCK
    start = zeros((m, n), "f32", product.c_over(WAVES, m, n))
    with loop(begin, end, k, carry=[start], schedule=Schedule.parse(GEMM[schedule])) as step:
        (total,) = step.carried
        with stage("load"):
            ga, gb = load(a.window((m, k), (row, step.index))), load(b.window((n, k), (column, step.index)))
        with stage("to_lds"):
            la, lb = to_lds(ga, "a"), to_lds(gb, "b")
        with stage("from_lds"):
            ra, rb = la.read(product.a_over(WAVES, m, k)), lb.read(product.b_over(WAVES, n, k))
        with stage("math"):
            step.carry(mma(product, ra, rb, total))
    (total,) = step.results
    return total


def blocks(length: Scalar, block: int) -> Scalar:
    """How many blocks hold a length."""
    return (length + (block - 1)) // block
