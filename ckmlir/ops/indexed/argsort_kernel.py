"""The kernel of argsort and topk: a workgroup sorts a row by a bitonic network (Batcher 1968).

Elements are integers with the same order, each with its place, which decides between equal ones. A thread holds those
that lie a multiple of the workgroup's size apart; a step compares each with another one, which LDS hands over.
"""

from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import (
    Kernel,
    Scalar,
    Tile,
    bitcast,
    cast,
    coordinates,
    gather,
    i32,
    kernel,
    load,
    loop,
    ptr,
    splat_like,
    store,
    to_lds,
    view,
    where,
    workgroup_id,
)
from ckmlir.ops.indexed.argsort import THREADS, SortSpec
from ckmlir.ops.indexed.rows import WAVES
from ckmlir.targets import Target

LAST = 2**31 - 1
NAN, POSITIVE = 0x7FC00000, 0x7FFFFFFF


def build(spec: SortSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {"x": ptr(spec.dtype)}
    if spec.values:
        arguments["y"] = ptr(spec.dtype)
    arguments["indices"] = ptr("i32")
    arguments.update(dict.fromkeys(("n", "k", "stride", "merges"), i32))
    length = spec.each * THREADS
    lies = Distribution.parse(f"d0: {spec.each}@y0 {WAVES}@wave 64@lane")

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def sorted_rows(given: Any) -> None:
        row = view(given.x.offset(workgroup_id(0) * given.stride), (given.n,), (1,)).pad(length).window((length,), (0,))
        x = load(row, lies)
        place = coordinates(x, 0)
        key = where(place < given.n, _key(spec, x), LAST)
        with loop(1, given.merges + 1, 1, carry=[key, place]) as merge:
            with loop(1, merge.index + 1, 1, carry=merge.carried) as step:
                key, place = step.carried
                step.carry(*_exchanged(key, place, merge.index, merge.index - step.index))
            merge.carry(*step.results)
        place = merge.results[1]
        first = workgroup_id(0) * given.k
        results = [(given.indices, place)]
        if spec.values:
            results.append((given.y, gather(row, place, 0)))
        for pointer, tile in results:
            store(tile, view(pointer.offset(first), (given.k,), (1,)).pad(length).window((length,), (0,)))

    return sorted_rows


def _exchanged(key: Tile, place: Tile, merge: Scalar, bit: Scalar) -> tuple[Tile, Tile]:
    """Each element, or the other one whose number differs in this bit. Of both the first in order goes where the bit is
    0; the other way round in every second run of 2^merge elements.
    """
    at = coordinates(key, 0)
    partner = at ^ (splat_like(at, 1, "i32") << bit)
    key_there, place_there = to_lds(key).gather(partner), to_lds(place).gather(partner)
    one = splat_like(at, 1, "i32")
    before = where(place_there < place, one, 0)
    before = where(key_there < key, one, where(key_there.equals(key), before, 0))
    other = before.differs((at >> merge ^ at >> bit) & 1)
    return where(other, key_there, key), where(other, place_there, place)


def _key(spec: SortSpec, x: Tile) -> Tile:
    """Integers in the order of the elements; those of floats are in order but for the negative ones, in reverse."""
    key = x
    if spec.dtype != "i32":
        number = cast(x, "f32") + 0.0  # of -0 this makes 0
        bits = where(number.differs(number), splat_like(number, NAN, "i32"), bitcast(number, "i32"))
        key = where(bits < 0, bits ^ POSITIVE, bits)
    return ~key if spec.order == "descending" else key
