"""The kernel of `fmha_fwd_appendkv`: a workgroup takes some new rows of a head, and some queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import (
    Kernel,
    Scalar,
    Tile,
    View,
    cast,
    coordinates,
    i32,
    i64,
    join_axes,
    kernel,
    load,
    ptr,
    reduce_sum,
    stretch,
    view,
    when,
    where,
    workgroup_id,
)  # fmt: skip
from ckmlir.ops.attention.fmha_fwd_appendkv import ROWS, STRIDED, WAVES, AppendSpec
from ckmlir.ops.attention.fmha_fwd_splitkv import OPERATOR as ATTENTION
from ckmlir.ops.attention.loop.heads_kernel import rows_of_head
from ckmlir.ops.attention.loop.places_kernel import PLACES, New, Places, RowPlaces
from ckmlir.ops.attention.loop.work_kernel import Alike
from ckmlir.ops.attention.source import find_source
from ckmlir.targets import Target


def build(spec: AppendSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""

    @kernel(spec.name, target=target, waves=WAVES, arguments=_arguments(spec))
    def appendkv(given: Any) -> None:
        first, head, batch = workgroup_id(0) * ROWS, workgroup_id(1), workgroup_id(2)
        start = given.cached.scalar(batch)

        def rows(name: str, count: Scalar, channels: int) -> View:
            return rows_of_head(given, name, head, Alike(count, batch), channels, spec.multiple)

        def rotated(row: View, to: Places, positions: Scalar, each: Scalar | int) -> None:
            for begin, end, tile in _rotations(spec, row, given, first, start, positions, each):
                to.put(tile, begin, end)
            if spec.rotary < spec.d:
                to.put(_part(spec, row, spec.rotary, spec.d, first), spec.rotary, spec.d)

        left = (given.positions - start).maximum(0)
        with when((head < given.hk) & (first < given.snew) & (start >= 0)):
            k, v = PLACES[spec.source.partition("_")[0]](New(spec, given, head, batch, start, first))
            rotated(rows("knew", given.snew, spec.d), k, left, spec.rotary // 2)
            v.put(_part(spec, rows("vnew", given.snew, spec.dv), 0, spec.dv, first), 0, spec.dv)
        if spec.queries:
            with when((head < given.h) & (first < given.sq) & (start >= 0)):
                out = RowPlaces(rows("q_rotated", given.sq, spec.d), first)
                alike = (left > 0).select(given.sq, 0)
                rotated(rows("q", given.sq, spec.d), out, given.each.equals(0).select(alike, left), given.each)

    return appendkv


def _arguments(spec: AppendSpec) -> dict[str, Any]:
    names = ["knew", "vnew", *["q", "q_rotated"] * spec.queries, *["rotary_cos", "rotary_sin"] * bool(spec.rotary)]
    arguments: dict[str, Any] = dict.fromkeys([*names, "k", "v"], ptr(spec.dtype))
    arguments |= {"cached": ptr("i32", alignment=4)}
    arguments |= dict.fromkeys(("sq", "snew", "sk", "positions", "each", "h", "hk"), i32)
    for name in STRIDED:
        if spec.queries or not name.startswith("q"):
            arguments |= {f"{name}_seq": i32, f"{name}_head": i64, f"{name}_batch": i64}
    return arguments | find_source(ATTENTION.sources, spec.source).parameters(spec.source)


def tile_of(channels: int) -> int:
    """The channels of a tile that holds so many: a power of two."""
    return max(1 << (channels - 1).bit_length(), 8)


def _part(spec: AppendSpec, row: View, begin: int, end: int, first: Scalar) -> Tile:
    """Some channels of a block of rows."""
    shape = (ROWS, tile_of(end - begin))
    lies = coalesced(shape, WAVES, 1, spec.multiple)
    return load(row.slice(1, begin, end).pad(*shape).window(shape, (first, 0)), lies)


def _rotations(
    spec: AppendSpec, row: View, given: Any, first: Scalar, start: Scalar, positions: Scalar, each: Scalar | int
) -> Iterator[tuple[int, int, Tile]]:
    """The rotated channels of a block of rows: where they begin and end, and a tile of them.

    Args:
        positions: rows that have one in the tables.
        each: elements of these from one row's position to the next row's.
    """
    if not spec.rotary:
        return
    count = spec.rotary // 2
    shape = (ROWS, tile_of(count))
    lies = coalesced(shape, WAVES, 1, spec.multiple if spec.half else spec.multiple // 2)
    distance = each if isinstance(each, int) else each.multiple_of(8)

    def turns(name: str) -> Tile:
        table = getattr(given, f"rotary_{name}").offset((start.to("i64") * count).multiple_of(8))
        angles = view(table, (positions, count), (distance, 1)).pad(*shape)
        return cast(load(angles.window(shape, (first, 0)), lies), "f32")

    cos, sin = turns("cos"), turns("sin")
    if spec.half:
        left, right = (cast(_part(spec, row, at, at + count, first), "f32") for at in (0, count))
        yield 0, count, cast(left * cos - right * sin, spec.dtype)
        yield count, spec.rotary, cast(right * cos + left * sin, spec.dtype)
        return
    pairs = row.slice(1, 0, spec.rotary).unmerge(1, (count, 2)).pad(*shape, 1)
    paired = Distribution.parse(f"{lies}, d2: 2@y{str(lies).count('@y')}")
    x = cast(load(pairs.window((*shape, 2), (first, 0, 0)), paired), "f32")
    even = coordinates(x, 2).equals(0)
    by_cos, by_sin = x * stretch(cos, 2, 2), x * stretch(sin, 2, 2)
    left = reduce_sum(where(even, by_cos, -by_sin), 2)
    right = reduce_sum(where(even, by_sin, by_cos), 2)
    both = where(even, stretch(left, 2, 2), stretch(right, 2, 2))
    yield 0, spec.rotary, join_axes(cast(both, spec.dtype), 1)
