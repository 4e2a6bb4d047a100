"""What becomes of the sums over all keys: O, and the logarithm of the sum of exponentials."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ckmlir.lang import Scalar, Tile, View, cast, log2, store, where
from ckmlir.ops.attention.loop_kernel import Sums

INFINITY = float("inf")


@dataclass(frozen=True)
class Output:
    """Where results of a softmax go.

    Attributes:
        o: (queries, channels) of the head, filled up to whole blocks; lse: (queries), where it is asked for.
        dtype: of O.
        first: the block's first query.
        exponent, boost: see `weights_kernel.Softmax`.
        factor: what O is multiplied with, if anything.
    """

    o: View
    lse: View | None
    dtype: str
    first: Scalar
    exponent: Callable[[Tile], Tile]
    boost: int
    factor: Scalar | None

    def write(self, sums: Sums) -> None:
        """O and LSE of the block; 0 and minus infinity where a query attends to nothing."""
        largest, total = sums.state
        none = total.equals(0.0)  # not of a total that is NaN
        inverse = where(none, 0.0, 1.0 / where(none, 1.0, total))
        factor = inverse if self.factor is None else inverse * self.factor
        store(cast(sums.o * factor[:, None], self.dtype), self.o.window(sums.o.lengths, (self.first, 0)))
        if self.lse is not None:
            power = self.exponent(largest) + log2(where(none, 1.0, total))
            power = power - float(self.boost) if self.boost else power
            logarithm = where(none, -INFINITY, power * math.log(2))
            store(logarithm, self.lse.window(logarithm.lengths, (self.first,)))
