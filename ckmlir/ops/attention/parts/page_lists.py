"""K and V in pages of a pool, where the pages of all sequences follow each other in one list (SGLang's tables)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import asdict

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.listed_rows import ListedRows
from ckmlir.ops.attention.paged import Paged, page_counts, pool_of_request, random_pages
from ckmlir.ops.attention.paged_spec import page_size
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.attention.sequences import Rows
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Argument
from ckmlir.ops.scalars import i32

if TYPE_CHECKING:
    from ckmlir.ops.attention.loop.page_table_kernel import Pages
    from ckmlir.ops.attention.loop.work_kernel import Work


@dataclass(frozen=True)
class PageLists(Paged):
    """kv_page_indices has the pages of sequence i from kv_indptr[i] up to kv_indptr[i + 1], i32; of the last of them
    kv_last_page_lens[i] keys count."""

    name = "lists"
    keys = ()

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> PageLists | None:
        wanted = values.get("table") == "sglang" and values["page_size"] is not None
        return cls(*pool_of_request(values, problem)) if wanted else None

    def sequences(self, problem: Problem) -> Rows:
        rows = super().sequences(problem)
        return ListedRows(**asdict(rows), page=self.size)

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return (array_spec("kv_page_indices", (sum(page_counts(problem, self.size)),), "i32", "in"),)

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        return i32(self.pool), i32(self.size)

    def together(self, problem: Problem, generator: np.random.Generator) -> Mapping[str, Array]:
        lists = random_pages(page_counts(problem, self.size), self.pool, generator)
        return {"kv_page_indices": np.concatenate([np.zeros(0, np.int64), *lists])}

    def pages(self, arrays: Mapping[str, Array], number: int) -> Array:
        begin, end = arrays["kv_indptr"][number : number + 2]
        found: Array = arrays["kv_page_indices"][begin:end]
        return found

    def check(self, problem: Problem, arrays: Mapping[str, Array]) -> None:
        self.check_pages("kv_page_indices", problem, arrays)

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import i32, ptr

        return {"kv_page_indices": ptr("i32", alignment=4), "pages": i32, "page_keys": i32}

    @classmethod
    def pages_of(cls, word: str, given: Any, work: Work) -> Pages:
        from ckmlir.ops.attention.loop.page_table_kernel import Pages

        begin, end = given.kv_indptr.scalar(work.batch), given.kv_indptr.scalar(work.batch + 1)
        return Pages(given.kv_page_indices.offset(begin), end - begin, page_size(word), given.pages, work.sk)
