"""The nonzero kernel: a wave walks along a row with the number of columns that it has found."""

from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import (
    Kernel,
    cast,
    coordinates,
    i32,
    kernel,
    load,
    loop,
    ptr,
    reduce_sum,
    scan_sum,
    scatter,
    splat_like,
    store,
    stretch,
    uniform,
    view,
    where,
    workgroup_id,
    zeros,
)
from ckmlir.ops.indexed.nonzero import VECTOR, NonzeroSpec
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

STEP = WAVE_SIZE * VECTOR
LINE = Distribution.parse(f"d0: {WAVE_SIZE}@lane {VECTOR}@y0")
ONE = Distribution.parse(f"r: {WAVE_SIZE}@lane, d0: 1")


def build(spec: NonzeroSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {"x": ptr(spec.dtype), "y": ptr("i32"), "counts": ptr("i32", alignment=4)}
    arguments.update(n=i32, stride=i32)
    computed = "i32" if spec.dtype in ("i32", "i8") else "f32"

    @kernel(spec.name, target=target, waves=1, arguments=arguments)
    def nonzero(given: Any) -> None:
        row, n, stride = workgroup_id(0), *(one.multiple_of(spec.align) for one in (given.n, given.stride))
        x = view(given.x.offset(row.to("i64") * stride.to("i64")), (n,), (1,)).pad(STEP)
        y = view(given.y.offset(row.to("i64") * n.to("i64")), (n,), (1,)).pad(STEP).window((STEP,), (0,))
        with loop(0, n, STEP, carry=[row - row]) as step:
            (before,) = step.carried
            elements = cast(load(x.window((STEP,), (step.index,)), LINE), computed)
            found = where(elements.differs(0), splat_like(elements, 1, "i32"), 0)
            column, earlier = coordinates(found, 0) + step.index, scan_sum(found, 0, exclusive=True) + before
            # Zeros are noted from the end: as many as came before lie behind.
            place = where(found.equals(1), earlier, n - 1 - (column - earlier))
            scatter(where(found.equals(1), column, -1), y, where(column < n, place, -1), 0, "near")
            step.carry(before + uniform(reduce_sum(stretch(found, 0, 1, LINE.expand(0, 1)), 1)))
        count = zeros((1,), "i32", ONE) + step.results[0]
        store(count, view(given.counts.offset(row), (1,), (1,)).window((1,), (0,)))

    return nonzero
