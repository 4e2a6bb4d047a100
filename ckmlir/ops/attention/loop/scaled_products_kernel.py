"""Products of attention whose elements have a power of two for every 32 along K, by instructions that scale them."""

from __future__ import annotations

from dataclasses import dataclass

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.mma_scales import scales_over
from ckmlir.lang import Scalar, Tile, View, bitcast, full, load, mma
from ckmlir.ops.attention.loop.loop_kernel import Form, MatrixProducts
from ckmlir.ops.attention.loop.scales_kernel import Uniform
from ckmlir.ops.attention.loop.storage_kernel import Storage
from ckmlir.targets.mfma import SCALED_BLOCK

ONE = 127
"""The code of 1 in e8m0."""


@dataclass(frozen=True)
class ByInstruction(Uniform):
    """Scales of 32 elements.

    Attributes:
        first: the first query of the block.
        q, k: scales (rows, blocks of channels), and v (blocks of keys, channels), of a head.
    """

    first: Scalar | None = None
    q: View | None = None
    k: View | None = None
    v: View | None = None

    def products(self, form: Form, storage: Storage) -> MatrixProducts:
        """See `scales_kernel.Scaling`."""
        assert self.first is not None and self.q is not None and self.k is not None and self.v is not None
        deep = form.d // SCALED_BLOCK
        q = self.q.pad(form.queries, deep).window((form.queries, deep), (self.first, 0))
        k, v = self.k.pad(form.keys, deep), self.v.permute(1, 0).pad(form.dv, form.keys // SCALED_BLOCK)
        return ScaledProducts(form, storage, load(q, _lies(form, form.scores, form.queries, form.d)), k, v)


class ScaledProducts(MatrixProducts):
    """See `loop_kernel.MatrixProducts`. Weights are numbers of 8 bits as they are: their scales are 1.

    Attributes:
        of_k, of_v: the scales of a step's K and V.
    """

    of_k: Tile
    of_v: Tile

    def __init__(self, form: Form, storage: Storage, of_q: Tile, k: View, v: View) -> None:
        """`of_q`: the scales of Q (queries, blocks); k (keys, blocks), v (channels, blocks): those of a head."""
        super().__init__(form, storage)
        self.of_q, self.k, self.v = of_q, k, v
        blocks = (form.queries, form.keys // SCALED_BLOCK)
        ones = full(blocks, ONE, "i8", _lies(form, form.values, form.queries, form.keys))
        self.of_p = bitcast(ones, "e8m0")

    def load_k(self, key: Scalar) -> None:
        """See `loop_kernel.MatrixProducts`."""
        form = self.form
        window = self.k.window((form.keys, form.d // SCALED_BLOCK), (key, 0))
        self.of_k = load(window, _lies(form, form.scores, form.keys, form.d, of_b=True))

    def load_v(self, key: Scalar) -> None:
        """See `loop_kernel.MatrixProducts`."""
        form = self.form
        window = self.v.window((form.dv, form.keys // SCALED_BLOCK), (0, key // SCALED_BLOCK))
        self.of_v = load(window, _lies(form, form.values, form.dv, form.keys, of_b=True))

    def scores(self, q: Tile, k: Tile, none: Tile) -> Tile:
        """See `loop_kernel.MatrixProducts`."""
        return mma(self.form.scores, q, k, none, (self.of_q, self.of_k))

    def values(self, p: Tile, v: Tile, sums: Tile) -> Tile:
        """See `loop_kernel.MatrixProducts`."""
        return mma(self.form.values, p, v, sums, (self.of_p, self.of_v))


def _lies(form: Form, product: Mma, rows: int, deep: int, *, of_b: bool = False) -> Distribution:
    """How scales lie of an operand that is so deep."""
    return scales_over(product, form.waves, rows, deep, of_b=of_b)
