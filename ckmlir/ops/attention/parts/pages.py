"""K and V in pages of a pool: a table has a row for each sequence, with the numbers of its pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.paged import PAGE_KEYS, Paged, page_counts, pool_of_request, random_pages
from ckmlir.ops.attention.paged_spec import page_size
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Argument
from ckmlir.ops.request import RequestError
from ckmlir.ops.scalars import ceil_div, i32

if TYPE_CHECKING:
    from ckmlir.ops.attention.loop.page_table_kernel import Pages as PagesOfSequence
    from ckmlir.ops.attention.loop.work_kernel import Work

NO_PAGE = -7
"""What entries hold that no sequence uses; they may hold anything."""


@dataclass(frozen=True)
class Pages(Paged):
    """K and V are (pages, keys of a page, …) as `Problem` has batches and rows; block_table is (sequences, entries) in
    i32."""

    name = "pages"
    keys = PAGE_KEYS

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> Pages | None:
        if values["page_size"] is None and values["pages"] is not None:
            raise RequestError(f"pages={values['pages']}: K and V are not in pages; expected page_size as well")
        wanted = values.get("table", "vllm") == "vllm" and values["page_size"] is not None
        return cls(*pool_of_request(values, problem)) if wanted else None

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        entries = max(ceil_div(problem.sk, self.size), 1)
        return (array_spec("block_table", (problem.b, entries), "i32", "in"),)

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        return i32(self.arrays(problem)[0].shape[1]), i32(self.pool)

    def together(self, problem: Problem, generator: np.random.Generator) -> Mapping[str, Array]:
        table = np.full(self.arrays(problem)[0].shape, NO_PAGE)
        for row, pages in zip(table, random_pages(page_counts(problem, self.size), self.pool, generator), strict=False):
            row[: len(pages)] = pages
        return {"block_table": table}

    def pages(self, arrays: Mapping[str, Array], number: int) -> Array:
        found: Array = arrays["block_table"][number]
        return found

    def check(self, problem: Problem, arrays: Mapping[str, Array]) -> None:
        self.check_pages("block_table", problem, arrays)

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import i32, ptr

        return {"block_table": ptr("i32", alignment=4), "entries": i32, "pages": i32}

    @classmethod
    def pages_of(cls, word: str, given: Any, work: Work) -> PagesOfSequence:
        from ckmlir.ops.attention.loop.page_table_kernel import Pages as PagesOfSequence

        row = given.block_table.offset(work.batch.to("i64") * given.entries.to("i64"))
        return PagesOfSequence(row, given.entries, page_size(word), given.pages, work.sk)
