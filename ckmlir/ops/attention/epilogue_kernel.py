"""What becomes of the sums over all keys: O, and the logarithm of the sum of exponentials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ckmlir.lang import Scalar, View, cast, load, log2, store, where
from ckmlir.ops.attention.loop_kernel import Sums
from ckmlir.ops.attention.weights_kernel import Units

INFINITY = float("inf")


@dataclass(frozen=True)
class Output:
    """Where results of a softmax go.

    Attributes:
        o: (queries, channels) of the head, filled up to whole blocks; lse: (queries), where it is asked for.
        dtype: of O.
        first: the block's first query.
        units, boost: see `weights_kernel.Softmax`.
        factors: what O is multiplied with; channels: numbers (channels) that it is multiplied with, so padded.
    """

    o: View
    lse: View | None
    dtype: str
    first: Scalar
    units: Units
    boost: int
    factors: Sequence[Scalar]
    channels: Sequence[View] = ()

    def write(self, sums: Sums) -> None:
        """O and LSE of the block; 0 and minus infinity where a query attends to nothing."""
        largest, total = sums.state
        none = total.equals(0.0)  # not of a total that is NaN
        inverse = where(none, 0.0, 1.0 / where(none, 1.0, total))
        factor = inverse
        for one in self.factors:
            factor = factor * one
        o = sums.o * factor[:, None]
        for each in self.channels:
            o = o * load(each.window(o.lengths[1:], (0,)))[None, :]
        store(cast(o, self.dtype), self.o.window(sums.o.lengths, (self.first, 0)))
        if self.lse is not None:
            power = self.units.exponent(largest) + log2(where(none, 1.0, total))
            power = power - float(self.boost) if self.boost else power
            logarithm = where(none, -INFINITY, power * math.log(2))
            store(logarithm, self.lse.window(logarithm.lengths, (self.first,)))
