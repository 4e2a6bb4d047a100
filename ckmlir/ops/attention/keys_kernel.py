"""Sources of K and V: where a block of keys lies."""

from __future__ import annotations

from dataclasses import dataclass

from ckmlir.lang import Scalar, Tile, View, load
from ckmlir.ops.attention.loop_kernel import Form


@dataclass(frozen=True)
class Rows:
    """K and V of a head as rows, one behind the other; V may be columns.

    Attributes:
        k: (keys, channels), filled up to whole blocks.
        v: (channels, keys), so too.
    """

    form: Form
    k: View
    v: View

    def prepare(self, key: Scalar) -> None:
        """See `loop_kernel.Keys`: the first row's place is all there is to know."""

    def load_k(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        return load(self.k.window((self.form.keys, self.form.d), (key, 0)))

    def load_v(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        return load(self.v.window((self.form.dv, self.form.keys), (0, key)))
