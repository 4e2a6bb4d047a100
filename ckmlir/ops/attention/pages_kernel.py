"""Sources of K and V whose keys lie in pages: blocks of keys within a page, and blocks of many pages.

A page that does not exist reads as zeros, whatever the table holds, and so do keys behind the end of a sequence.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ckmlir.lang import Pointer, Scalar, Tile, View, gather, load, view
from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec, copying, row_multiple
from ckmlir.ops.attention.loop_kernel import Form, Keys
from ckmlir.ops.attention.page_table_kernel import Pages
from ckmlir.ops.attention.work_kernel import Work


@dataclass(frozen=True)
class Pool:
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

    def start_of(self, pages: Pages, number: Scalar, key: Scalar) -> tuple[Pointer, Scalar]:
        """Where the page that begins at a key does, and how many of its rows are the sequence's."""
        exists = number.below(pages.pool)
        # That it is not negative spares half of the product: LLVM does not know that pages are.
        start = self.start.offset(exists.select(number, 0).maximum(0).to("i64") * self.page)
        return start, exists.select((pages.length - key).minimum(pages.size), 0)

    def view(self, pages: Pages, number: Scalar, key: Scalar) -> View:
        """The rows (keys, channels) of the page that begins at a key, as far as the sequence goes."""
        start, rows = self.start_of(pages, number, key)
        return view(start, (rows, self.channels), (self.row, 1))

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
class PageViews:
    """Blocks of keys that lie in one page each."""

    form: Form
    pages: Pages
    k: Pool
    v: Pool
    found: list[Scalar] = field(default_factory=list)

    def prepare(self, key: Scalar) -> None:
        """See `loop_kernel.Keys`: which page it is, for K and for V, which are loaded at different times."""
        self.found = [self.pages.number(key), self.pages.number(key)]

    def load_k(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        within = self.pages.within(key)
        rows = self.k.view(self.pages, self.found[0], key - within).pad(self.form.keys, self.form.d)
        return load(rows.window((self.form.keys, self.form.d), (within, 0)))

    def load_v(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        within = self.pages.within(key)
        rows = self.v.view(self.pages, self.found[1], key - within).permute(1, 0).pad(self.form.dv, self.form.keys)
        return load(rows.window((self.form.dv, self.form.keys), (0, within)))


@dataclass
class PageRows:
    """Blocks of keys that lie in several pages: rows at places of a list.

    Attributes:
        reach: of the pools, see `ckmlir.lang.gather`.
    """

    form: Form
    pages: Pages
    k: Pool
    v: Pool
    reach: str
    found: list[Tile] = field(default_factory=list)

    def prepare(self, key: Scalar) -> None:
        """See `loop_kernel.Keys`: the rows, for K and for V, which are loaded at different times."""
        self.found = [self.pages.places(key, self.form.keys, pool.distance) for pool in (self.k, self.v)]

    def load_k(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        rows = self.k.rows(self.pages).pad(1, self.form.d)
        return gather(rows.window((self.form.keys, self.form.d), (0, 0)), self.found[0], 0, reach=self.reach)

    def load_v(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        rows = self.v.rows(self.pages).permute(1, 0).pad(self.form.dv, 1)
        return gather(rows.window((self.form.dv, self.form.keys), (0, 0)), self.found[1], 1, reach=self.reach)


def in_pages(word: str, given: Any, spec: FmhaFwdSpec, work: Work, form: Form) -> Keys:
    """K and V of the work's head in its pages; `word` is the source's."""
    from ckmlir.ops.attention.vector_pages_kernel import VectorRows, VectorViews

    _, _, *how = word.split("_")
    pages = work.pages
    assert pages is not None
    multiple = row_multiple(spec.dtype)

    k = pool_of_head(given, "k", work.shared, spec.d, multiple)
    v = pool_of_head(given, "v", work.shared, spec.dv, multiple)
    if "alike" in how:  # so that what is computed of both is computed once
        v = replace(v, page=k.page, row=k.row)
    reach, whole = "far" if "far" in how else "near", form.keys <= pages.size
    if "vectors" in how:
        if whole:
            return VectorViews(form, pages, k, v, multiple, bool(copying(spec, "k")))
        return VectorRows(form, pages, k, v, multiple, copied=False, reach=reach)
    return PageViews(form, pages, k, v) if whole else PageRows(form, pages, k, v, reach)


def pool_of_head(given: Any, name: str, head: Scalar, channels: int, multiple: int) -> Pool:
    """K or V of a head in all pages; the kernel takes strides, multiples of `multiple` elements, as
    `heads_kernel.rows_of_head` says."""
    row, by_head, page = (getattr(given, f"{name}_{one}").multiple_of(multiple) for one in ("seq", "head", "batch"))
    return Pool(getattr(given, name).offset(head.to("i64") * by_head), page, row, channels)
