"""Pages on the host: requests for them, pages of sequences, what is wrong with others, and the rows of a sequence."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ckmlir.ops.arrays import MAXIMUM_ARRAY_BYTES, ArraySpec
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.attention.sequences import Rows
from ckmlir.ops.attention.source import Source
from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.request import MAXIMUM_SIZE, Integer, PowerOfTwo, RequestError
from ckmlir.ops.scalars import ceil_div
from ckmlir.records import replace

if TYPE_CHECKING:
    from random import Random

    from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
    from ckmlir.ops.attention.loop.loop_kernel import Form, Keys
    from ckmlir.ops.attention.loop.work_kernel import Work

SPARE = 3
"""Pages of a pool that no sequence has, unless a request says how many there are."""
VECTOR_BYTES = 16
"""Of a vector that pages are cut into."""
LARGE = 64
"""Keys of pages from which on a block of keys lies in one."""


class PageSize(PowerOfTwo, frozen=True):
    """Keys of a page."""

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        return random.choice((1, 2, 16, 32, 64, 128, 1024))


PAGE_KEYS = (
    PageSize("page_size", None, "keys of a page, a power of two; by default K and V are not in pages", minimum=1),
    Integer("pages", None, "of the pool; by default as many as the sequences have, and some more"),
)


@dataclass(frozen=True)
class Paged(Source):
    """K and V as arrays of pages, which are their batches; lengths of sequences are always in memory.

    Attributes:
        size: keys of a page; pool: pages.
        far: pages are smaller than blocks of keys, and the pool larger than 32-bit offsets reach.
        vector: elements of the vectors that pages are cut into, 0 where they have rows: K is (pages, hk, d / vector,
            size, vector), V (pages, hk, size / vector, dv, vector).
        alike: from page to page and from row to row it is as far in K as in V.
    """

    size: int
    pool: int
    far: bool = False
    vector: int = 0
    alike: bool = False

    limited = False

    @property
    def word(self) -> str:
        words = {"vectors": bool(self.vector), "alike": self.alike, "far": self.far}
        return "_".join([self.name, str(self.size), *(word for word, holds in words.items() if holds)])

    def sequences(self, problem: Problem) -> Rows:
        return replace(problem.keys, lengths=key_lengths(problem), slots=())

    def extent(self, problem: Problem) -> tuple[int, int]:
        return self.pool, self.size

    def settled(self, problem: Problem) -> Paged:
        """See `Source`: small pages lie a whole number of rows apart, and are reached by offsets or by addresses. Each
        page is small enough for offsets from its start."""
        reach = 0
        for name in "kv":
            page, _, row = problem.strides(name)
            if self.vector and (row != problem.sizes(name)[2] or page % (row * self.vector)):
                given, right = "x".join(map(str, problem.strides(name))), f"rows of {problem.sizes(name)[2]}"
                what = f"pages of vectors are packed; expected {right}, and from page to page whole vectors of them"
                raise RequestError(f"{name}_strides={given}: {what}")
            if self.size < LARGE and page % row:
                given = "x".join(map(str, problem.strides(name)))
                right = f"expected a multiple of {row}, elements from row to row, from one page to the next"
                raise RequestError(f"{name}_strides={given}: pages of {self.size} keys are read by rows; {right}")
            if self.size < LARGE and self.pool * (page // row) > MAXIMUM_SIZE:
                raise RequestError(f"pages={self.pool}: more than {MAXIMUM_SIZE} rows from the first to the last")
            most = self.size * row * find_dtype(problem.dtype).bytes
            if most > MAXIMUM_ARRAY_BYTES:
                given = "x".join(map(str, problem.strides(name)))
                right = f"kernels address at most {MAXIMUM_ARRAY_BYTES} from its start"
                raise RequestError(f"{name}_strides={given}: a page of {self.size} keys takes {most} bytes; {right}")
            reach = max(reach, (max(self.pool - 1, 1) * page + self.size * row) * find_dtype(problem.dtype).bytes)
        (k_page, _, k_row), (v_page, _, v_row) = (problem.strides(name) for name in "kv")
        far, alike = self.size < LARGE and reach > MAXIMUM_ARRAY_BYTES, (k_page, k_row) == (v_page, v_row)
        return replace(self, far=far, alike=alike)

    def layout(self, problem: Problem) -> str:
        return "bhsd" if self.vector else problem.layout

    def array(self, problem: Problem, name: str) -> ArraySpec:
        found = problem.array(name)
        if not self.vector:
            return found
        page, head, channels = problem.strides(name)
        x, (pages, heads) = self.vector, found.shape[:2]
        inner = (channels // x, self.size) if name == "k" else (self.size // x, channels)
        return ArraySpec(name, (pages, heads, *inner, x), problem.dtype, "in", (page, head, inner[1] * x, x, 1))

    def by_head(self, problem: Problem, name: str, array: Array) -> Array:
        if not self.vector:
            return problem.by_head(array)
        order = (0, 1, 3, 2, 4) if name == "k" else (0, 1, 2, 4, 3)
        found: Array = array.transpose(order).reshape(*array.shape[:2], self.size, problem.sizes(name)[2])
        return found

    @abstractmethod
    def pages(self, arrays: Mapping[str, Array], number: int) -> Array:
        """The pages of a sequence, by the arrays."""

    def used(self, problem: Problem, arrays: Mapping[str, Array], number: int) -> Array:
        """Those that its keys lie in."""
        return self.pages(arrays, number)[: ceil_div(problem.keys.of(arrays, number)[1], self.size)]

    def places(self, problem: Problem, number: int, arrays: Mapping[str, Array], keys: range) -> tuple[Array, Array]:
        at = np.array(keys, np.int64)
        return self.pages(arrays, number)[at // self.size], at % self.size

    def check_pages(self, name: str, problem: Problem, arrays: Mapping[str, Array]) -> None:
        """Raise RequestError where a page that a sequence uses, by the array of this name, is not in the pool."""
        for number in range(problem.b):
            pages = self.used(problem, arrays, number)
            wrong = (pages < 0) | (pages >= self.pool)
            if wrong.any():
                place = int(np.argmax(wrong))
                what = f"page {place} of sequence {number} is {pages[place]}"
                raise RequestError(f"array {name}: {what}; expected 0 to {self.pool - 1}")


    @classmethod
    def traced(cls, word: str, given: Any, spec: FmhaFwdSpec, work: Work, form: Form) -> Keys:
        from ckmlir.ops.attention.loop.keys_in_pages_kernel import in_pages

        return in_pages(word, given, spec, work, form)


def page_counts(problem: Problem, size: int) -> list[int]:
    """Pages that each sequence's keys lie in, by the request's lengths."""
    return [ceil_div(length, size) for length in key_lengths(problem)]


def key_lengths(problem: Problem) -> tuple[int, ...]:
    """The lengths of all sequences as the request has them, in group mode as their parts of packed rows."""
    return problem.keys.lengths or problem.keys.slots or (problem.sk,) * problem.b


def pool_of_request(values: Mapping[str, Any], problem: Problem) -> tuple[int, int, bool, int]:
    """Keys of a page, pages of the pool, that nothing is known yet of its reach, and elements of a vector. Raises
    RequestError."""
    size, pool = values["page_size"], values["pages"]
    if size & (size - 1):
        raise RequestError(f"page_size={size}: expected a power of two")
    if problem.v_layout == "columns":
        raise RequestError("v_layout=columns: pages hold rows of V; expected rows")
    if values["slots_k"] is not None:
        raise RequestError(f"slots_k={','.join(map(str, values['slots_k']))}: keys lie in pages; leave it out")
    needed = page_counts(problem, size)
    vector = VECTOR_BYTES // find_dtype(problem.dtype).bytes if values.get("kv_layout") == "vectorised" else 0
    if size < vector:
        right = f"expected a multiple of {vector}, the elements of a vector, or kv_layout=linear"
        raise RequestError(f"page_size={size}: {right}")
    return size, sum(needed) + SPARE if pool is None else pool, False, vector


def random_pages(counts: Sequence[int], pool: int, generator: np.random.Generator) -> list[Array]:
    """Pages for sequences of so many: different ones as long as the pool has them. Raises RequestError without any."""
    total = sum(counts)
    if total and not pool:
        raise RequestError(f"pages=0: the sequences have {total}; expected at least 1")
    numbers = generator.permutation(pool)[:total] if total <= pool else generator.integers(0, pool, total)
    return np.split(numbers, np.cumsum(counts)[:-1])
