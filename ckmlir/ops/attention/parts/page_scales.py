"""Scales of fp8 elements for every page of K and V."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.paged import Paged
from ckmlir.ops.attention.parts.scales import Scales
from ckmlir.ops.attention.problem import Place, Problem
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Argument
from ckmlir.ops.scalars import i32

if TYPE_CHECKING:
    from ckmlir.lang import Pointer, Scalar, Tile
    from ckmlir.ops.attention.loop.loop_kernel import Form
    from ckmlir.ops.attention.loop.work_kernel import Work


@dataclass(frozen=True)
class PageScales(Scales):
    """k_scales and v_scales (pages, hk); Q has the scale of its tensor alone. Scales of pages that no key lies in may
    be anything."""

    name = "pagescales"
    kind = "page"

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> PageScales | None:
        return cls() if cls.wanted(values, problem) else None

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        pages = max(problem.source.extent(problem)[0], 1)  # one is read where there are no keys
        return tuple(array_spec(f"{name}_scales", (pages, problem.hk), "f32", "in") for name in "kv")

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        return (i32(problem.hk),)

    def check(self, problem: Problem, arrays: Mapping[str, Array]) -> None:
        """Scales of pages that are used."""
        assert isinstance(problem.source, Paged)
        for number in range(problem.b):
            pages = problem.source.used(problem, arrays, number)
            super().check(problem, {one.name: arrays[one.name][pages] for one in self.arrays(problem)})

    def stored(self, problem: Problem, name: str, place: Place, arrays: Mapping[str, Array]) -> Array:
        if name == "q":
            return np.ones(1)
        pages, _ = problem.source.places(problem, place.number, arrays, range(place.keys))
        column: Array = arrays[f"{name}_scales"][pages, place.head // (problem.h // problem.hk)][:, None]
        return column

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import i32, ptr

        return {"k_scales": ptr("f32", alignment=4), "v_scales": ptr("f32", alignment=4), "scale_heads": i32}

    @classmethod
    def traced(cls, word: str, given: Any, work: Work, form: Form) -> Any:
        from ckmlir.lang import full, gather, view
        from ckmlir.ops.attention.loop.scales_kernel import ByBlock, ByKey, group_of, one_by_one, singly

        pages, heads = work.pages, given.scale_heads
        assert pages is not None  # the part is one of sources that have them
        few = singly(form, pages.size)
        group = pages.size if few else group_of(pages.size)
        groups = replace(pages, size=pages.size // group)
        rows = full((form.queries,), given.scale, "f32", form.row_layout)
        k, v = (one.offset(work.shared) for one in (given.k_scales, given.v_scales))

        def place(key: Scalar) -> Scalar:
            """Where a key's scales lie, or those of some page that exists."""
            number = pages.number(key)
            found: Scalar = number.below(pages.pool).select(number, 0) * heads
            return found

        def places(key: Scalar) -> list[Scalar]:
            """Those of all pages of a step's keys."""
            return [place(key + distance) for distance in range(0, form.keys, pages.size)]

        def numbers(key: Scalar) -> Tile:
            """The pages of groups of keys."""
            return groups.of_keys(key // group, form.keys // group)

        def gathered(scales: Pointer, numbers: Tile) -> Tile:
            each = view(scales, (pages.pool,), (heads,)).pad(1).window((form.keys // group,), (0,))
            return gather(each, numbers, 0, reach="near")

        if form.keys <= pages.size:
            return ByBlock(rows, place, k.scalar, v.scalar)
        if few:
            return ByKey(form, group, rows, places, one_by_one(k), one_by_one(v))
        return ByKey(form, group, rows, numbers, lambda all: gathered(k, all), lambda all: gathered(v, all))
