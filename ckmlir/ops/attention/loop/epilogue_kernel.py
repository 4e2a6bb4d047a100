"""What becomes of the sums over all keys: O, and the logarithm of the sum of exponentials."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ckmlir.lang import Scalar, View, cast, load, store
from ckmlir.ops.attention.loop.loop_kernel import Sums, Weights


class Output(Struct, frozen=True):
    """Where results go.

    Attributes:
        o: (queries, channels) of the head, filled up to whole blocks; lse: (queries), where it is asked for.
        dtype: of O.
        first: the block's first query.
        weights: what the sums are of.
        factors: what O is multiplied with; channels: numbers (channels) that it is multiplied with, so padded.
    """

    o: View
    lse: View | None
    dtype: str
    first: Scalar
    weights: Weights
    factors: Sequence[Scalar]
    channels: Sequence[View] = ()

    def write(self, sums: Sums) -> None:
        """O and LSE of the block; 0 and minus infinity where a query attends to nothing."""
        o = self.weights.normalised(sums, self.factors)
        for each in self.channels:
            o = o * load(each.window(o.lengths[1:], (0,)))[None, :]
        store(cast(o, self.dtype), self.o.window(o.lengths, (self.first, 0)))
        if self.lse is not None:
            logarithm = self.weights.logarithm(sums.state)
            store(logarithm, self.lse.window(logarithm.lengths, (self.first,)))
