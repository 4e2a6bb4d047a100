"""Block lists: queries attend to blocks of keys that a list, or a map, names for each block of queries and head.

| form | arrays |
|---|---|
| list | block_list (…, entries): numbers of blocks of keys; block_counts (…): how many of them count |
| deltas | block_deltas (…, entries): a number, then distances from one number to the next; block_counts |
| map | block_map (…, blocks of keys): not 0 where queries attend to the keys |

where … are sequences, heads of Q and blocks of queries. Numbers are i32, a map is i8. On the host numbers have to rise
and to exist. On the device a number that does not exist counts for nothing, a repeated one counts again, and any order
will do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.part import KeyPart
from ckmlir.ops.attention.problem import Place, Problem
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Argument
from ckmlir.ops.request import Choice, Integer, Key, PowerOfTwo, Real, RequestError
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Reason

if TYPE_CHECKING:
    from random import Random

    from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
    from ckmlir.ops.attention.loop.loop_kernel import Form
    from ckmlir.ops.attention.loop.spans_kernel import Reach
    from ckmlir.ops.attention.loop.work_kernel import Work

FORMS = ("map", "deltas", "list")
LISTED, COUNTED = "listed_blocks", "counted_blocks"
"""Workspaces for lists and counts that are made of other forms."""
NO_BLOCK = -7
"""What entries hold that do not count; they may hold anything."""


class BlockSize(PowerOfTwo, frozen=True):
    """Rows, queries or keys of a block; nothing but powers of two."""

    maximum: int = 1 << 30

    @property
    def form(self) -> str:
        return f"a power of two from {self.minimum} to {self.maximum}"

    def read(self, value: object) -> int:
        number = super().read(value)
        if number & (number - 1):
            raise self.refuse(value)
        return number

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        return min(random.choice((self.minimum, 64, 64, 128, 128, 256)), self.maximum)


class Share(Real, frozen=True):
    """A share of the whole."""

    @property
    def form(self) -> str:
        return "a share, from 0 to 1"

    def read(self, value: object) -> float:
        number = super().read(value)
        if number > 1:
            raise self.refuse(value)
        return number

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        return random.choice((0.0, 0.3, 0.5, 0.8, 1.0))


class Entries(Integer, frozen=True):
    """Of a list."""

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        return random.choice((1, 1, 2, 3))


@dataclass(frozen=True)
class BlockLists(KeyPart):
    """Queries attend to the blocks of keys that a list or a map names.

    Attributes:
        form: of `FORMS`; block: queries and keys; entries: of a list, or blocks of a map.
        listed: blocks of keys of each made-up list, as far as a sequence has them.
    """

    form: str
    block: tuple[int, int]
    entries: int
    listed: int

    name = "blocks"
    keys: ClassVar[tuple[Key, ...]] = (
        Choice("lists", "map", "which keys are attended to: a map of blocks, distances between them, a list", FORMS),
        BlockSize("block_q", 128, "queries of a block", minimum=64),
        BlockSize("block_k", 128, "keys of a block", minimum=32),
        Entries("entries", None, "of each list, by default as many as there are blocks of keys", minimum=1),
        Share("sparsity", 0.5, "share of the blocks of keys that made-up lists leave out", 0),
    )

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> BlockLists:
        form, entries, sparsity = (values[name] for name in ("lists", "entries", "sparsity"))
        block = values["block_q"], values["block_k"]
        most = max(ceil_div(problem.sk, block[1]), 1)
        if entries is not None and form == "map":
            raise RequestError(f"entries={entries}: a map has an element for each block of keys; leave it out")
        entries = most if entries is None else entries
        if entries > most:
            raise RequestError(f"entries={entries}: expected at most {most}, the blocks of keys")
        blocks = ceil_div(problem.sk, block[1])
        found = cls(form, block, entries, min(int((1 - sparsity) * blocks + 0.5), entries))
        lists = problem.b, problem.h, found.rows(problem), entries
        array_spec(LISTED, lists, "i32", "in")  # refuses what is too large
        return found

    @property
    def word(self) -> str:
        return f"{self.name}_{self.block[0]}_{self.block[1]}"

    def rows(self, problem: Problem) -> int:
        """Blocks of queries, of the longest sequence."""
        return ceil_div(problem.sq, self.block[0])

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        shape = problem.b, problem.h, self.rows(problem)
        if self.form == "map":
            return (array_spec("block_map", (*shape, self.entries), "i8", "in"),)
        lists = array_spec(f"block_{self.form}", (*shape, self.entries), "i32", "in")
        return lists, array_spec("block_counts", shape, "i32", "in")

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        return i32(self.entries), i32(self.rows(problem))

    def arguments(self, problem: Problem) -> tuple[Argument, ...]:
        lists = "block_list" if self.form == "list" else LISTED
        return lists, COUNTED if self.form == "map" else "block_counts", *self.numbers(problem)

    def together(self, problem: Problem, generator: np.random.Generator) -> Mapping[str, Array]:
        """As many different blocks for each block of queries, wherever they are."""
        shape = problem.b, problem.h, self.rows(problem), self.entries
        found, counts = np.full(shape, NO_BLOCK), np.zeros(shape[:-1], np.int64)
        for number, keys in enumerate(problem.keys.lengths or problem.keys.slots or (problem.sk,) * problem.b):
            blocks = ceil_div(keys, self.block[1])
            order = np.argsort(generator.random((*shape[1:3], blocks)))[..., : self.listed]
            found[number, ..., : order.shape[-1]], counts[number] = np.sort(order), order.shape[-1]
        if self.form == "map":
            chosen = np.zeros((*shape[:-1], self.entries + 1), np.int8)
            np.put_along_axis(chosen, np.where(found == NO_BLOCK, self.entries, found), 1, -1)
            return {"block_map": chosen[..., :-1]}
        lists = np.diff(found, prepend=0) if self.form == "deltas" else found
        return {f"block_{self.form}": lists, "block_counts": counts}

    def _lists(self, arrays: Mapping[str, Array], number: int) -> tuple[Array, Array]:
        """The lists of a sequence (h, blocks of queries, entries) and their counts, of the forms that have them."""
        lists = arrays[f"block_{self.form}"][number].astype(np.int64)
        return np.cumsum(lists, -1) if self.form == "deltas" else lists, arrays["block_counts"][number]

    def check(self, problem: Problem, arrays: Mapping[str, Array]) -> None:
        """Raise RequestError for blocks that do not exist, or do not rise."""
        for number in range(problem.b):
            queries, keys = (side.of(arrays, number)[1] for side in (problem.queries, problem.keys))
            rows, blocks = ceil_div(queries, self.block[0]), ceil_div(keys, self.block[1])
            if self.form == "map":
                chosen = arrays["block_map"][number, :, :rows, blocks:] != 0
                for head, row, block in np.argwhere(chosen)[:1]:
                    what = f"block {row} of head {head} of sequence {number} has block {blocks + block} of the keys"
                    raise RequestError(f"array block_map: {what}; expected 0 to {blocks - 1}")
                continue
            lists, counts = (one[:, :rows] for one in self._lists(arrays, number))
            for head, row in np.argwhere((counts < 0) | (counts > self.entries))[:1]:
                what = f"block {row} of head {head} of sequence {number} has {counts[head, row]} blocks"
                raise RequestError(f"array block_counts: {what}; expected 0 to {self.entries}")
            counted = np.arange(self.entries) < counts[..., None]
            before = np.concatenate([np.full((*counts.shape, 1), -1), lists[..., :-1]], -1)
            for head, row, place in np.argwhere(counted & ((lists <= before) | (lists >= blocks)))[:1]:
                found, last = lists[head, row, place], before[head, row, place]
                what = f"block {row} of head {head} of sequence {number} has block {found} of the keys"
                right = f"expected {last + 1} to {blocks - 1}" if last + 1 < blocks else "expected no more"
                raise RequestError(f"array block_{self.form}: {what} behind block {last}; {right}"
                                   if place else f"array block_{self.form}: {what}; {right}")  # fmt: skip

    def kept(self, problem: Problem, place: Place, arrays: Mapping[str, Array]) -> Array:
        blocks = ceil_div(place.keys, self.block[1])
        if self.form == "map":
            chosen = arrays["block_map"][place.number, place.head] != 0
        else:
            lists, counts = (one[place.head] for one in self._lists(arrays, place.number))
            chosen = np.zeros((len(lists), blocks), np.bool_)
            rows, places = np.nonzero((np.arange(self.entries) < counts[:, None]) & (lists >= 0) & (lists < blocks))
            chosen[rows, lists[rows, places]] = True
        rows, keys = np.asarray(place.rows) // self.block[0], np.arange(place.keys) // self.block[1]
        found: Array = chosen[rows[:, None], keys[None, :]]
        return found

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import i32, ptr

        names = "block_list", "block_counts"
        return {**{name: ptr("i32", alignment=4) for name in names}, "block_entries": i32, "block_rows": i32}

    @classmethod
    def unfit(cls, word: str, spec: FmhaFwdSpec) -> Iterator[Reason]:
        yield from super().unfit(word, spec)
        for what, size, taken in zip(("queries", "keys"), block_of(word), spec.block, strict=True):
            if size % taken:
                yield Reason("block", spec.block, f"lists are of blocks of {size} {what}", "expected a part of them")
        if "edge" in spec.loops:
            yield Reason("edge", spec.edge, "any block of a list may be one that the mask cuts", "expected none")

    @classmethod
    def traced(cls, word: str, given: Any, work: Work, form: Form, reach: Reach) -> Reach:
        from ckmlir.ops.attention.loop.blocks_kernel import listed

        return listed(block_of(word), given, work, form, reach)


def block_of(word: str) -> tuple[int, int]:
    """Queries and keys of a block, by the part's word."""
    queries, keys = word.split("_")[1:]
    return int(queries), int(keys)
