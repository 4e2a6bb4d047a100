"""Sources of K and V in pages whose rows are cut into vectors: K (d / x, keys, x) and V (keys / x, dv, x) of a head.

V is loaded in vectors of keys, the last of which may reach behind the sequence's last one: these become zeros in
registers. Else pages are what they are in `pages_kernel.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from ckmlir.lang import Scalar, Tile, View, cut, full, gather, join_axes, load, view
from ckmlir.ops.attention.loop.page_table_kernel import Pages
from ckmlir.ops.attention.loop.pages_kernel import PageViews, Pool


@dataclass
class VectorViews(PageViews):
    """Blocks of keys that lie in one page each.

    Attributes:
        vector: elements of a vector, x.
        copied: K goes to LDS without registers, where nothing could join its vectors; they are one dimension in memory
            then. Loads are of neighbouring keys, whose vectors follow each other.
    """

    vector: int = 1
    copied: bool = False

    def load_k(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        start, x = self.k.start_of(self.found[0]), self.vector
        within, rows = self.lies(self.found[0], key)
        shape = (self.form.keys, self.form.d // x, x)
        vectors = view(start, (within + rows, self.k.channels // x, x), (x, self.pages.size * x, 1))
        if self.copied:
            joined = vectors.merge(1, 2).pad(self.form.keys, self.form.d)
            return load(joined.window((self.form.keys, self.form.d), (within, 0)))
        return join_axes(load(vectors.pad(*shape).window(shape, (within, 0, 0))), 1)

    def load_v(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        start, x = self.v.start_of(self.found[1]), self.vector
        within, rows = self.lies(self.found[1], key)
        shape = (self.form.dv, self.form.keys // x, x)
        groups = (within + rows + (x - 1)) // x
        vectors = view(start, (self.v.channels, groups, x), (x, self.v.channels * x, 1)).pad(*shape)
        return join_axes(load(vectors.window(shape, (0, within // x, 0))), 1)

    def existing(self, v: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`: the last vector may have fewer keys of the sequence than elements."""
        return cut(v, full((self.form.dv,), self.pages.length - key, "i32"), 0.0)


@dataclass
class VectorRows(VectorViews):
    """Blocks of keys that lie in several pages: rows of K, and vectors of keys of V, at places of a list.

    Attributes:
        reach: of the pools, see `ckmlir.lang.gather`.
    """

    reach: str = "near"
    numbers: list[Tile] = field(init=False, default_factory=list)

    @property
    def groups(self) -> Pages:
        """The pages with a vector of keys for a key."""
        pages, x = self.pages, self.vector
        return replace(pages, size=pages.size // x, length=(pages.length + (x - 1)) // x)

    def prepare(self, key: Scalar) -> None:
        """See `pages_kernel.PageRows`."""
        keys, x = self.form.keys, self.vector
        self.numbers = [self.pages.of_keys(key, keys), self.groups.of_keys(key // x, keys // x)]

    def _distance(self, pool: Pool, unit: int) -> Scalar:
        """From one page to the next, in so many elements."""
        units: Scalar = (pool.page // unit).to("i32")
        return units

    def load_k(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        x, size = self.vector, self.pages.size
        count = (self.pages.pool - 1) * self._distance(self.k, x) + size
        rows = view(self.k.start, (count, self.k.channels // x, x), (x, size * x, 1))
        places = self.pages.places(self.numbers[0], self._distance(self.k, x))
        return self._gathered(rows, (self.form.keys, self.form.d // x, x), places, 0)

    def load_v(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        x, channels = self.vector, self.v.channels
        count = (self.pages.pool - 1) * self._distance(self.v, x * channels) + self.pages.size // x
        groups = view(self.v.start, (channels, count, x), (x, channels * x, 1))
        numbers = self.groups.existing(self.numbers[1], key // x)
        places = self.groups.places(numbers, self._distance(self.v, x * channels))
        return self._gathered(groups, (self.form.dv, self.form.keys // x, x), places, 1)

    def _gathered(self, whole: View, shape: tuple[int, int, int], places: Tile, axis: int) -> Tile:
        """Rows (axis 0) or vectors of keys (axis 1) at their places, vectors joined."""
        lengths = tuple(1 if dim == axis else length for dim, length in enumerate(shape))
        window = whole.pad(*lengths).window(shape, (0, 0, 0))
        return join_axes(gather(window, places, axis, reach=self.reach), 1)
