"""Where new rows go: the counterparts of the sources of K and V."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from ckmlir.lang import Scalar, Tile, View, scatter, store
from ckmlir.ops.attention.fmha_fwd_appendkv import ROWS, AppendSpec
from ckmlir.ops.attention.loop.heads_kernel import rows_of_head
from ckmlir.ops.attention.loop.page_table_kernel import Pages
from ckmlir.ops.attention.loop.pages_kernel import Pool, pool_of_head
from ckmlir.ops.attention.loop.work_kernel import Alike, Side, slot_of
from ckmlir.ops.attention.paged import LARGE
from ckmlir.ops.attention.paged_spec import page_size


class Places(Protocol):
    """Where a block of rows goes."""

    def put(self, tile: Tile, begin: int, end: int) -> None:
        """Write channels `begin` up to `end` of the rows."""


class RowPlaces(Struct, frozen=True):
    """Rows one behind the other, from `first` on."""

    rows: View
    first: Scalar

    def put(self, tile: Tile, begin: int, end: int) -> None:
        """See `Places`."""
        rows = self.rows.slice(1, begin, end).pad(*tile.lengths)
        store(tile, rows.window(tile.lengths, (self.first, 0)))


class PagePlaces(Struct, frozen=True):
    """Rows in small pages: from the key `first` on."""

    pages: Pages
    pool: Pool
    first: Scalar
    reach: str

    def put(self, tile: Tile, begin: int, end: int) -> None:
        """See `Places`."""
        rows = self.pool.rows(self.pages).slice(1, begin, end).pad(1, tile.lengths[1])
        within = self.first % self.pages.size
        numbers = self.pages.existing(self.pages.of_keys(self.first, ROWS), self.first)
        places = self.pages.places(numbers, self.pool.distance, within)
        scatter(tile, rows.window(tile.lengths, (0, 0)), places, 0, reach=self.reach)


class NextPages(Struct, frozen=True):
    """Rows in pages of at least a block of rows, of which two take it: from the key `first` on."""

    pages: Pages
    pool: Pool
    first: Scalar

    def put(self, tile: Tile, begin: int, end: int) -> None:
        """See `Places`."""
        within = self.first % self.pages.size
        for turn in (0, self.pages.size):
            key = self.first - within + turn
            number = self.pages.number(key)
            distance, existing = self.pool.distance_of(number), self.pages.rows(number, key, self.pages.size)
            rows = self.pool.view(distance, existing).slice(1, begin, end)
            rows = (rows.pad_left(0, turn) if turn else rows).pad(*tile.lengths)
            store(tile, rows.window(tile.lengths, (within, 0)))


class New(Struct, frozen=True):
    """New rows of a sequence in a head.

    Attributes:
        start: rows that the cache has before; first: of the workgroup's block.
    """

    spec: AppendSpec
    given: Any
    head: Scalar
    batch: Scalar
    start: Scalar
    first: Scalar

    @property
    def end(self) -> Scalar:
        """Rows that the cache has afterwards."""
        rows: Scalar = (self.start + self.given.snew).minimum(self.given.sk)
        return rows

    def dense(self, side: Side) -> list[Places]:
        """Of K and of V, in rows of the cache."""
        spec, found = self.spec, []
        for name, channels in (("k", spec.d), ("v", spec.dv)):
            rows = rows_of_head(self.given, name, self.head, side, channels, spec.multiple)
            found.append(RowPlaces(rows, self.start + self.first))
        return list(found)

    def in_pages(self) -> list[Places]:
        """Of K and of V, in pages."""
        spec, given, key = self.spec, self.given, self.start + self.first
        table = given.block_table.offset(self.batch.to("i64") * given.entries.to("i64"))
        pages, found = Pages(table, given.entries, page_size(spec.source), given.pages, self.end), []
        for name, channels in (("k", spec.d), ("v", spec.dv)):
            pool = pool_of_head(given, name, self.head, channels, spec.multiple)
            reach = "far" if "far" in spec.source.split("_") else "near"
            near = NextPages(pages, pool, key) if pages.size >= LARGE else PagePlaces(pages, pool, key, reach)
            found.append(near)
        return list(found)


PLACES: Mapping[str, Callable[[New], list[Places]]] = {
    "": lambda new: new.dense(Alike(new.end, new.batch)),
    "cache": lambda new: new.dense(
        slot_of(Alike(new.end, new.batch), new.given.cache_batch_idx.scalar(new.batch), new.given.slots)
    ),
    "pages": lambda new: new.in_pages(),
}
"""By the first word of a source: where its new K and V go."""
