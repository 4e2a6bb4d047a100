"""The loop over K: the only one of the contraction family."""

from collections.abc import Sequence
from typing import Any, Protocol

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Scalar, Tile, loop, mma, stage, to_lds, zeros

Amount = Scalar | int


class Operand(Protocol):
    """A or a matrix B, for the block that a workgroup computes."""

    @property
    def name(self) -> str:
        """What schedules and reports call it in LDS."""

    def load(self, k: Scalar) -> Any:
        """Its tile (rows, block's depth) at k, as memory holds it; or several tiles that it is made of."""

    def prepared(self, loaded: Any, k: Scalar) -> Tile:
        """What goes to LDS of what was loaded at k."""


def contract(
    product: Mma,
    waves: tuple[int, int],
    block: tuple[int, int, int],
    a: Operand,
    matrices: Sequence[Operand],
    begin: Amount,
    end: Amount,
    schedule: Schedule,
) -> list[Tile]:
    """A · Bᵀ for every matrix B, summed over [begin, end) of K: one block of accumulators each.

    Stages: load, to_lds, from_lds, math. Operands lie in LDS under their names.
    """
    bm, bn, bk = block
    initial = [zeros((bm, bn), product.acc_dtype, product.c_over(waves, bm, bn)) for _ in matrices]
    with loop(begin, end, bk, carry=initial, schedule=schedule) as step:
        with stage("load"):
            loaded = [operand.load(step.index) for operand in (a, *matrices)]
        with stage("to_lds"):
            held = [
                to_lds(operand.prepared(tile, step.index), operand.name)
                for operand, tile in zip((a, *matrices), loaded, strict=True)
            ]
        with stage("from_lds"):
            rows = held[0].read(product.a_over(waves, bm, bk))
            columns = [one.read(product.b_over(waves, bn, bk)) for one in held[1:]]
        with stage("math"):
            step.carry(*(mma(product, rows, one, sum_) for one, sum_ in zip(columns, step.carried, strict=True)))
    totals: list[Tile] = step.results
    return totals
