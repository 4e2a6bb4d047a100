"""Which operations lie over other waves than the workgroup has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ckmlir.dialect.build import text_of
from ckmlir.dialect.distribution import Distribution
from ckmlir.mlir import ir


def over_other_waves(operations: Iterable[ir.Operation], waves: int) -> Iterator[tuple[ir.Operation, int]]:
    """Those whose distribution is over neither one wave nor all, each with the number of waves that it is over."""
    for op in operations:
        if "distribution" in op.attributes:
            over = Distribution.parse(text_of(op, "distribution")).waves
            if over not in (1, waves):
                yield op, over
