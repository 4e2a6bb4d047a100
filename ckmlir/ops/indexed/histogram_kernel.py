"""The histogram kernel: counts in LDS by atomic addition, pieces added up in registers."""

from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import (
    Kernel,
    Pointer,
    Scalar,
    Tile,
    coordinates,
    full,
    i32,
    kernel,
    load,
    loop,
    minimum,
    ptr,
    splat_like,
    store,
    to_lds,
    view,
    where,
    workgroup_id,
    zeros,
)
from ckmlir.ops.indexed.histogram import EACH, WAVES, HistogramSpec
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE


def build(spec: HistogramSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {"x": ptr("i32"), "counts": ptr("i32"), "n": i32, "part": i32}

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def histogram(given: Any) -> None:
        first = workgroup_id(0) * given.part.multiple_of(spec.align)
        end = first + minimum(given.part, given.n - first)
        counts = counted(given.x, first, end, spec.bins, WAVES, spec.each)
        (length,) = counts.lengths
        row = view(given.counts.offset(workgroup_id(0) * spec.bins), (spec.bins,), (1,)).pad(length)
        store(counts, row.window((length,), (0,)))

    return histogram


def bins_line(bins: int, waves: int) -> Distribution:
    """Numbers for at least so many bins over all threads."""
    return Distribution.parse(f"d0: {waves}@wave {WAVE_SIZE}@lane {ceil_div(bins, waves * WAVE_SIZE)}@y0")


def counted(x: Pointer, first: Scalar | int, end: Scalar, bins: int, waves: int, each: int = EACH) -> Tile:
    """How many of the elements from `first` up to `end` are each of the numbers 0 to bins - 1, as `bins_line` lies."""
    line = bins_line(bins, waves)
    piece = Distribution.parse(f"d0: {waves}@wave {WAVE_SIZE}@lane {each}@y0")
    (length,) = piece.lengths
    with loop(first, end, length, carry=[full(line.lengths, 0, "i32", line)]) as step:
        (counts,) = step.carried
        numbers = load(view(x, (end,), (1,)).pad(length).window((length,), (step.index,)), piece)
        numbers = where((coordinates(numbers, 0) < end - step.index) & numbers.below(bins), numbers, -1)
        held = to_lds(zeros(line.lengths, "i32", line))
        held.scatter_add(splat_like(numbers, 1, "i32"), numbers)
        step.carry(counts + held.read(line))
    found: Tile = step.results[0]
    return found
