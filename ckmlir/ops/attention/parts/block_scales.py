"""Scales of fp8 elements for blocks of queries and of keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.parts.scales import Scales
from ckmlir.ops.attention.problem import LEAST_SCALE, Place, Problem
from ckmlir.ops.attention.sequences import Rows
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Argument
from ckmlir.ops.request import Key, PowerOfTwo, RequestError
from ckmlir.ops.scalars import ceil_div, i32

if TYPE_CHECKING:
    from random import Random

    from ckmlir.lang import Pointer, Scalar, Tile
    from ckmlir.ops.attention.loop.loop_kernel import Form
    from ckmlir.ops.attention.loop.work_kernel import Work

DEFAULT = 128
"""Rows of a block (CK Tile's)."""


class BlockRows(PowerOfTwo, frozen=True):
    """Rows of a block that has a scale."""

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        return random.choice((1, 4, 16, 32, 64, 128, 512))


@dataclass(frozen=True)
class BlockScales(Scales):
    """One for each block of so many queries, or keys, of a sequence: q_scales (b, h, blocks), k_scales and v_scales
    (b, hk, blocks). Of sequences that follow each other along rows they are (heads, blocks of all sequences), and
    scale_start_q, scale_start_k (b + 1) in i32 say where a sequence's blocks begin.

    Attributes:
        queries, rows: of a block of queries, and of keys; packed: sides whose sequences follow each other.
    """

    queries: int
    rows: int
    packed: str

    name = "blockscales"
    kind = "block"
    keys: ClassVar[tuple[Key, ...]] = (
        BlockRows("scale_queries", None, "scales=block: queries of a block, a power of two; by default 128", minimum=1),
        BlockRows("scale_keys", None, "scales=block: keys of a block, a power of two; by default 128", minimum=1),
    )  # fmt: skip

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> BlockScales | None:
        wanted = cls.wanted(values, problem)
        for key in ("scale_queries", "scale_keys"):
            size = values[key]
            if size is not None and not wanted:
                raise RequestError(f"{key}={size}: only scales=block has blocks; leave it out")
            if size is not None and size & (size - 1):
                raise RequestError(f"{key}={size}: expected a power of two")
        packed = "".join(rows.side for rows in (problem.queries, problem.keys) if rows.slots)
        return cls(values["scale_queries"] or DEFAULT, values["scale_keys"] or DEFAULT, packed) if wanted else None

    @property
    def word(self) -> str:
        return f"{self.name}_{self.queries}_{self.rows}{self.packed and '_' + self.packed}"

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        found = []
        for name, heads in (("q", problem.h), ("k", problem.hk), ("v", problem.hk)):
            rows, size = self._side(problem, name)
            shape = (heads, _blocks(rows, size))
            found.append(array_spec(f"{name}_scales", shape if rows.slots else (problem.b, *shape), "f32", "in"))
        return (*found, *self._starts(problem))

    def _starts(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return tuple(array_spec(f"scale_start_{side}", (problem.b + 1,), "i32", "in") for side in self.packed)

    def _side(self, problem: Problem, name: str) -> tuple[Rows, int]:
        """The rows of an array, and how many of them a block has."""
        return (problem.queries, self.queries) if name == "q" else (problem.keys, self.rows)

    def values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.dtype == "f32":
            return super().values(problem, array, generator)
        rows, size = self._side(problem, array.name[-1])
        return np.cumsum([0, *(ceil_div(one, size) for one in rows.slots)])

    def check(self, problem: Problem, arrays: Mapping[str, Array]) -> None:
        super().check(problem, arrays)
        for side in self.packed:
            rows, size = self._side(problem, side)
            name, blocks = f"scale_start_{side}", _blocks(rows, size)
            for number, start in enumerate(arrays[name][: problem.b].tolist()):
                needed = ceil_div(rows.of(arrays, number)[1], size)
                if start < 0 or start + needed > blocks:
                    what = f"sequence {number} has {needed} blocks from {start} on"
                    raise RequestError(f"array {name}: {what}; expected blocks from 0 to {blocks}")

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        return tuple(i32(_blocks(*self._side(problem, side))) for side in "qk")

    def stored(self, problem: Problem, name: str, place: Place, arrays: Mapping[str, Array]) -> Array:
        rows, size = self._side(problem, name)
        head = place.head if name == "q" else place.head // (problem.h // problem.hk)
        blocks = (np.asarray(place.rows) if name == "q" else np.arange(place.keys)) // size
        scales = arrays[f"{name}_scales"]
        if rows.slots:
            found = scales[head, arrays[f"scale_start_{rows.side}"][place.number] + blocks]
        else:
            found = scales[place.number, head, blocks]
        column: Array = found[:, None]
        return column

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import i32, ptr

        found: dict[str, Any] = {f"{name}_scales": ptr("f32", alignment=4) for name in "qkv"}
        found |= {f"scale_start_{side}": ptr("i32", alignment=4) for side in packed_sides(word)}
        return found | {f"scale_blocks_{side}": i32 for side in "qk"}

    @classmethod
    def traced(cls, word: str, given: Any, work: Work, form: Form) -> Any:
        from ckmlir.ops.attention.loop.scales_kernel import ByBlock, ByKey

        blocks = Blocks(word, given, work, form)
        k, v = (blocks.of_keys(one) for one in (given.k_scales, given.v_scales))
        if blocks.keys % form.keys == 0:
            return ByBlock(blocks.rows(), blocks.place, k.scalar, v.scalar)
        return ByKey(form, blocks.group, blocks.rows(), blocks.known, blocks.single(k), blocks.single(v))


class Blocks(Struct, frozen=True):
    """Where the scales of a workgroup's queries and keys lie; in kernels."""

    word: str
    given: Any
    work: Work
    form: Form

    @property
    def sizes(self) -> tuple[int, int]:
        """Queries and keys of a block."""
        queries, keys = map(int, self.word.split("_")[1:3])
        return queries, keys

    @property
    def keys(self) -> int:
        """Of a block."""
        return self.sizes[1]

    @property
    def group(self) -> int:
        """Keys of a group, which share a scale; see `scales_kernel.ByKey`."""
        from ckmlir.ops.attention.loop.scales_kernel import group_of, singly

        return self.keys if singly(self.form, self.keys) else group_of(self.keys)

    def start(self, side: str, head: Scalar, heads: Scalar) -> Scalar:
        """The first of a sequence's scales in a head (i64)."""
        blocks, begin, row = getattr(self.given, f"scale_blocks_{side}").to("i64"), 0, head.to("i64")
        if side in packed_sides(self.word):
            begin = getattr(self.given, f"scale_start_{side}").scalar(self.work.batch).to("i64")
        else:
            row = row + self.work.batch.to("i64") * heads.to("i64")
        found: Scalar = row * blocks + begin
        return found

    def rows(self) -> Tile:
        """The scales of queries, times that of scores."""
        from ckmlir.lang import maximum
        from ckmlir.ops.attention.loop.scales_kernel import scales_of_rows

        given, work, form = self.given, self.work, self.form
        q = given.q_scales.offset(self.start("q", work.head, given.h))
        rows = scales_of_rows(q, self.sizes[0], work.sq, work.first, form.queries, form.row_layout)
        scaled: Tile = maximum(rows, LEAST_SCALE) * given.scale
        return scaled

    def of_keys(self, scales: Pointer) -> Pointer:
        """The first of K's, or V's, of the sequence."""
        return scales.offset(self.start("k", self.work.shared, self.given.h // self.given.ratio))

    def place(self, key: Scalar) -> Scalar:
        """Which block a key is in."""
        found: Scalar = key // self.keys
        return found

    def known(self, key: Scalar) -> Any:
        """What `single` makes scales of: where those of a step's blocks lie, or the step's first key."""
        from ckmlir.ops.attention.loop.scales_kernel import singly

        if not singly(self.form, self.keys):
            return key
        last = (self.work.sk - 1).maximum(0) // self.keys
        return [self.place(key + distance).minimum(last) for distance in range(0, self.form.keys, self.keys)]

    def single(self, scales: Pointer) -> Callable[[Any], Tile]:
        """What loads the scale of each group of a step's keys."""
        from ckmlir.ops.attention.loop.scales_kernel import one_by_one, scales_of_rows, singly

        if singly(self.form, self.keys):
            return one_by_one(scales)
        group, keys = self.group, self.form.keys
        groups = (self.work.sk + (group - 1)) // group
        return lambda key: scales_of_rows(scales, self.keys // group, groups, key // group, keys // group)


def packed_sides(word: str) -> str:
    """Sides whose sequences follow each other along rows."""
    return next((one for one in word.split("_")[3:] if one in ("q", "k", "qk")), "")


def _blocks(rows: Rows, size: int) -> int:
    """Scales of a head; at least one, which is read where there are no rows."""
    return max(sum(ceil_div(one, size) for one in rows.slots or (rows.longest,)), 1)
