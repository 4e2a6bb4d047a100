"""The kernel of argsort and topk: a workgroup ranks the elements of a row, each by comparing it with all."""

from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import (
    Kernel,
    Tile,
    bitcast,
    cast,
    coordinates,
    full,
    i32,
    kernel,
    load,
    loop,
    ptr,
    reduce_sum,
    scatter,
    splat_like,
    stretch,
    to_lds,
    view,
    where,
    workgroup_id,
)
from ckmlir.ops.indexed.argsort import THREADS, SortSpec
from ckmlir.ops.indexed.rows import WAVES
from ckmlir.targets import Target

AT_A_TIME = 4
"""Elements that all others are compared with at a time: a row of them in LDS."""
LAST = 2**31 - 1
NAN, POSITIVE = 0x7FC00000, 0x7FFFFFFF
ROW = Distribution.parse(f"r: {WAVES}@wave 64@lane, d0: 1, d1: {AT_A_TIME}@y0")


def build(spec: SortSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {"x": ptr(spec.dtype)}
    if spec.values:
        arguments["y"] = ptr(spec.dtype)
    arguments["indices"] = ptr("i32")
    arguments.update(dict.fromkeys(("n", "k", "stride"), i32))
    length = spec.each * THREADS
    own = Distribution.parse(f"d0: {spec.each}@y0 {WAVES}@wave 64@lane")
    pairs, rows = own.expand(1, AT_A_TIME), length // AT_A_TIME
    by_rows = Distribution.parse(f"d0: {spec.each}@y0 {WAVES}@wave {64 // AT_A_TIME}@lane, d1: {AT_A_TIME}@lane")

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def ranked(given: Any) -> None:
        row = view(given.x.offset(workgroup_id(0) * given.stride), (given.n,), (1,)).pad(length)
        x = load(row.window((length,), (0,)), own)
        key, place = _key(spec, x), coordinates(x, 0)
        others = _key(spec, load(row.unmerge(0, (rows, AT_A_TIME)).window((rows, AT_A_TIME), (0, 0)), by_rows))
        exists = coordinates(others, 0) * AT_A_TIME + coordinates(others, 1) < given.n
        held = to_lds(where(exists, others, LAST))
        with loop(0, rows, 1, carry=[splat_like(place, 0, "i32")]) as step:
            (rank,) = step.carried
            some = held.gather(full((1,), step.index, "i32", ROW.along(0)), 0, ROW)
            other, mine = stretch(reduce_sum(some, 0), 0, length, pairs), stretch(key, 1, AT_A_TIME, pairs)
            # All bits where the other stands in front, by its sign: a condition more would hold scalar registers.
            in_front = (coordinates(other, 1) + step.index * AT_A_TIME - coordinates(other, 0)) >> 31
            one = splat_like(other, 1, "i32")
            equal = where(other.equals(mine), one, 0) & in_front
            step.carry(rank + reduce_sum(where(other < mine, one, 0) + equal, 1))
        rank = where(place < given.n, step.results[0], -1)
        first = workgroup_id(0) * given.k
        scatter(place, view(given.indices.offset(first), (given.k,), (1,)).window((length,), (0,)), rank, 0)
        if spec.values:
            scatter(x, view(given.y.offset(first), (given.k,), (1,)).window((length,), (0,)), rank, 0)

    return ranked


def _key(spec: SortSpec, x: Tile) -> Tile:
    """Integers in the order of the elements; those of floats are in order but for the negative ones, in reverse."""
    key = x
    if spec.dtype != "i32":
        number = cast(x, "f32") + 0.0  # of -0 this makes 0
        bits = where(number.differs(number), splat_like(number, NAN, "i32"), bitcast(number, "i32"))
        key = where(bits < 0, bits ^ POSITIVE, bits)
    return ~key if spec.order == "descending" else key
