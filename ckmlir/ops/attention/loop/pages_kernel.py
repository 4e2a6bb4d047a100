"""Sources of K and V whose keys lie in pages: blocks of keys within a page, and blocks of many pages.

A page that does not exist reads as zeros, whatever the table holds, and so does V of keys behind the end of a sequence.
Of K these may read anything that the pool holds, where a page has no more than some of a block's keys: their scores are
masked, whatever they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.dialect.scalars import bits, dtype_of
from ckmlir.lang import Pointer, Scalar, Tile, View, gather, load, view
from ckmlir.ops.attention.loop.loop_kernel import Form, Keys
from ckmlir.ops.attention.loop.page_table_kernel import Pages

UNSIGNED = (1 << 32) - 1


class Pool(Struct, frozen=True):
    """K or V of a head in all pages.

    Attributes:
        start: of the head in the first page.
        page, row: elements from one page (i64) and one row (i32) to the next.
        channels: of a row.
    """

    start: Pointer
    page: Scalar
    row: Scalar
    channels: int

    def distance_of(self, number: Scalar, first: Scalar | None = None) -> Scalar:
        """Bytes from the start to that of a page, or of a row of it: elements would become bytes in every step. Where
        no page has this number it is anywhere, and no row of it may be read."""
        # Unsigned, which spares half of the product: LLVM does not know that it is not negative.
        size = bits(self.start.element) // 8
        distance: Scalar = (number.to("i64") & UNSIGNED) * (self.page * size)
        return distance if first is None else distance + ((first * (self.row * size)).to("i64") & UNSIGNED)

    def at(self, distance: Scalar) -> Pointer:
        """What is so many bytes behind the start."""
        return self.start.to("i8").offset(distance).to(dtype_of(self.start.element))

    def start_of(self, number: Scalar) -> Pointer:
        """Where a page begins."""
        return self.at(self.distance_of(number))

    def view(self, distance: Scalar, rows: Scalar) -> View:
        """So many rows (keys, channels) of a page from one on. The view begins there, so that what is behind the last
        one lies beyond its end, and no lane compares rows."""
        # Behind a row's channels nothing is read. That the buffer ends with a whole row spares its size two terms.
        return view(self.at(distance), (rows, self.row), (self.row, 1)).slice(1, 0, self.channels)

    def bounded(self, size: int) -> Pool:
        """The same, whose rows are known to be no longer than pages of so many keys may be (`Paged.settled`): 32 bits
        hold the bytes of a page then."""
        most = (1 << 31) // (size * bits(self.start.element) // 8)
        return replace(self, row=self.row & (most - 1))

    @property
    def distance(self) -> Scalar:
        """Rows from one page to the next."""
        rows: Scalar = (self.page // self.row.to("i64")).to("i32")
        return rows

    def rows(self, pages: Pages) -> View:
        """The rows (rows of the pool, channels) from the head's first on."""
        count = (pages.pool - 1) * self.distance + pages.size
        return view(self.start, (count, self.channels), (self.row, 1))


@dataclass
class PageViews(Keys):
    """Blocks of keys that lie in one page each.

    Attributes:
        handed: V lies as K does, and takes over what an earlier step has computed of the place of a block's K.
    """

    form: Form
    pages: Pages
    k: Pool
    v: Pool
    handed: bool = False
    found: list[Scalar] = field(init=False, default_factory=list)
    place: tuple[Scalar, Scalar] = field(init=False)

    def prepare(self, key: Scalar) -> None:
        """See `loop_kernel.Keys`: which page it is, for K, and for V, which may be loaded in another step."""
        self.found = [self.pages.number(key) for _ in range(1 if self.handed else 2)]

    def load_k(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        shape = self.form.keys, self.form.d
        self.place = distance, rows = self.placed(self.k, self.found[0], key)
        return load(self.k.view(distance, rows).pad(*shape).window(shape, (0, 0)))

    def load_v(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        shape = self.form.dv, self.form.keys
        distance, rows = self.place if self.handed else self.placed(self.v, self.found[1], key)
        # Of what comes from another step LLVM does not know that it is few, and that its bytes fill no 32 bits.
        rows = rows & (2 * self.form.keys - 1) if self.handed else rows
        return load(self.v.view(distance, rows).permute(1, 0).pad(*shape).window(shape, (0, 0)))

    def placed(self, pool: Pool, number: Scalar, key: Scalar) -> tuple[Scalar, Scalar]:
        """How far a block is from the pool's start, and how many rows from there on are the sequence's."""
        within, rows = self.lies(number, key)
        return pool.distance_of(number, within), rows

    def lies(self, number: Scalar, key: Scalar) -> tuple[Scalar, Scalar]:
        """A block's first row in its page, and how many rows from it on are the sequence's."""
        return key & (self.pages.size - self.form.keys), self.pages.rows(number, key, self.form.keys)


@dataclass
class PageRows(Keys):
    """Blocks of keys that lie in several pages: rows at places of a list.

    Attributes:
        reach: of the pools, see `ckmlir.lang.gather`.
    """

    form: Form
    pages: Pages
    k: Pool
    v: Pool
    reach: str
    found: list[Tile] = field(init=False, default_factory=list)

    def prepare(self, key: Scalar) -> None:
        """See `loop_kernel.Keys`: the pages, for K and for V, which are loaded at different times. Their places are
        computed where they are used: waves would wait here for what they have just asked for."""
        self.found = [self.pages.of_keys(key, self.form.keys) for _ in "kv"]

    def load_k(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        window = self.k.rows(self.pages).pad(1, self.form.d).window((self.form.keys, self.form.d), (0, 0))
        return gather(window, self.pages.places(self.found[0], self.k.distance), 0, reach=self.reach)

    def load_v(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        rows = self.v.rows(self.pages).permute(1, 0).pad(self.form.dv, 1)
        window = rows.window((self.form.dv, self.form.keys), (0, 0))
        numbers = self.pages.existing(self.found[1], key)
        return gather(window, self.pages.places(numbers, self.v.distance), 1, reach=self.reach)


def pool_of_head(given: Any, name: str, head: Scalar, channels: int, multiple: int) -> Pool:
    """K or V of a head in all pages; the kernel takes strides, multiples of `multiple` elements, as
    `heads_kernel.rows_of_head` says."""
    row, by_head, page = (getattr(given, f"{name}_{one}").multiple_of(multiple) for one in ("seq", "head", "batch"))
    return Pool(getattr(given, name).offset(head.to("i64") * by_head), page, row, channels)
