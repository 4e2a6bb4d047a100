"""The loop over K: the only one of the contraction family."""

from collections.abc import Sequence
from typing import Any, Protocol

from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Scalar, Tile, loop, stage, to_lds
from ckmlir.ops.contraction.accumulation_kernel import Accumulation

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
    accumulation: Accumulation,
    a: Operand,
    matrices: Sequence[Operand],
    begin: Amount,
    end: Amount,
    schedule: Schedule,
) -> list[Tile]:
    """A · Bᵀ for every matrix B, summed over [begin, end) of K: one block of accumulators each.

    Stages: load, to_lds, from_lds, math. Operands lie in LDS under their names.
    """
    product, waves, (bm, bn, bk) = accumulation.product, accumulation.waves, accumulation.block
    with loop(begin, end, bk, carry=accumulation.start(), schedule=schedule) as step:
        with stage("load"):
            loaded = [operand.load(step.index) for operand in (a, *matrices)]
            scales = accumulation.load(step.index)
        with stage("to_lds"):
            held = [
                to_lds(operand.prepared(tile, step.index), operand.name)
                for operand, tile in zip((a, *matrices), loaded, strict=True)
            ]
            scales = accumulation.hold(scales)
        with stage("from_lds"):
            rows = held[0].read(product.a_over(waves, bm, bk))
            columns = [one.read(product.b_over(waves, bn, bk)) for one in held[1:]]
            scales = accumulation.read(scales)
        with stage("math"):
            step.carry(*accumulation.add(step.carried, rows, columns, scales))
    totals: list[Tile] = step.results
    return totals
