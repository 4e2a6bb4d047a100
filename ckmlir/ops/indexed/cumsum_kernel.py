"""The cumsum kernel: a workgroup walks along the axis with what has been summed so far."""

from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import (
    Kernel,
    Scalar,
    Window,
    cast,
    i32,
    kernel,
    load,
    loop,
    ptr,
    reduce_sum,
    scan_sum,
    store,
    stretch,
    view,
    workgroup_id,
    zeros,
)
from ckmlir.ops.indexed.cumsum import AXES, TILES, VECTOR, WAVES, CumsumSpec
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

LIES = {
    "rows": Distribution.parse(f"d0: {WAVES}@wave, d1: {WAVE_SIZE}@lane {VECTOR}@y0"),
    "columns": Distribution.parse(f"d0: {WAVES}@wave 4@lane 16@y0, d1: 16@lane"),
}
"""Along columns neighbouring lanes hold neighbouring columns, and few columns are many workgroups."""


def build(spec: CumsumSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    computed = "i32" if spec.dtype == "i32" else "f32"
    arguments: dict[str, Any] = {"x": ptr(spec.dtype), "y": ptr(spec.dtype)}
    if spec.totals:
        arguments["totals"] = ptr(computed)
    arguments.update(dict.fromkeys(("m", "n", "stride", "ystride"), i32))
    shape, lies, axis, across = TILES[spec.along], LIES[spec.along], AXES[spec.along], 1 - AXES[spec.along]

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def cumsum(given: Any) -> None:
        n, strides = given.n.multiple_of(spec.align), {"x": given.stride, "y": given.ystride}
        first, lengths = workgroup_id(0) * shape[across], (given.m, n)

        def window(name: str, index: Scalar) -> Window:
            origin = (index, first) if axis == 0 else (first, index)
            stride = strides[name].multiple_of(spec.align)
            return view(getattr(given, name), lengths, (stride, 1)).pad(*shape).window(shape, origin)

        with loop(0, lengths[axis], shape[axis], carry=[zeros((shape[across],), computed, lies.along(across))]) as step:
            (total,) = step.carried
            x = cast(load(window("x", step.index), lies), computed)
            sums = scan_sum(x, axis, exclusive=spec.exclusive) + stretch(total, axis, shape[axis], lies)
            store(cast(sums, spec.dtype), window("y", step.index))
            step.carry(total + reduce_sum(x, axis))
        if spec.totals:
            found = view(given.totals, (lengths[across],), (1,)).pad(shape[across])
            store(step.results[0], found.window((shape[across],), (first,)))

    return cumsum
