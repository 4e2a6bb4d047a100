"""Keys whose number follows from lists of pages: how many there are, and how many keys the last one has."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.sequences import PAGES, Rows
from ckmlir.ops.comparison import Array
from ckmlir.ops.request import RequestError
from ckmlir.ops.scalars import ceil_div


class ListedRows(Rows, frozen=True):
    """kv_indptr (b + 1) says where each sequence's pages begin in a list, kv_last_page_lens (b) how many keys of its
    last page count.

    Attributes:
        page: keys of a page.
    """

    page: int = 1

    @property
    def word(self) -> str:
        return PAGES

    @property
    def counts(self) -> list[int]:
        """Pages of each sequence, as the request has it."""
        return [ceil_div(length, self.page) for length in self.lengths]

    def arrays(self) -> tuple[ArraySpec, ...]:
        count = len(self.lengths)
        shapes = (("kv_indptr", count + 1), ("kv_last_page_lens", count))
        return tuple(array_spec(name, (length,), "i32", "in") for name, length in shapes)

    def values(self) -> dict[str, Array]:
        last = [(length - 1) % self.page + 1 if length else 0 for length in self.lengths]
        return {"kv_indptr": np.array([0, *itertools.accumulate(self.counts)]), "kv_last_page_lens": np.array(last)}

    def of(self, arrays: Mapping[str, Array], number: int) -> tuple[int, int]:
        begin, end = (int(one) for one in arrays["kv_indptr"][number : number + 2])
        return 0, (end - begin - 1) * self.page + int(arrays["kv_last_page_lens"][number]) if end > begin else 0

    def check(self, arrays: Mapping[str, Array]) -> None:
        starts, last = arrays["kv_indptr"].astype(np.int64), arrays["kv_last_page_lens"].astype(np.int64)
        most = sum(self.counts)
        if starts[0] < 0 or starts[-1] > most:
            raise RequestError(f"array kv_indptr: pages {starts[0]} to {starts[-1]} of a list of {most}")
        counts = np.diff(starts)
        if (counts < 0).any():
            place = int(np.argmax(counts < 0))
            pair = f"{starts[place + 1]} follows {starts[place]}"
            raise RequestError(f"array kv_indptr: {pair}; expected numbers that do not fall")
        wrong = (counts > 0) & ((last < 1) | (last > self.page))
        if wrong.any():
            place = int(np.argmax(wrong))
            what = f"the last page of sequence {place} has {last[place]} keys"
            raise RequestError(f"array kv_last_page_lens: {what}; expected 1 to {self.page}")
        lengths = np.where(counts > 0, (counts - 1) * self.page + last, 0)
        if (lengths > self.longest).any():
            place = int(np.argmax(lengths > self.longest))
            what = f"sequence {place} has {lengths[place]} keys"
            raise RequestError(f"array kv_indptr: {what}; expected at most {self.longest}")
