"""The kernel of unpack_int4: every byte twice, shifted to one of its halves."""

from typing import Any

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import (
    Kernel,
    cast,
    coordinates,
    i32,
    join_axes,
    kernel,
    load,
    ptr,
    store,
    stretch,
    view,
    workgroup_id,
)  # fmt: skip
from ckmlir.lang.kernel import Argument
from ckmlir.ops.elementwise.unpack_int4 import TILE, WAVES, UnpackSpec
from ckmlir.targets import Target

WORD = 32
HALF = 4


def build(spec: UnpackSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Argument] = {"x": ptr("i8"), "y": ptr(spec.out), "bytes": i32}
    lies = coalesced((TILE,), WAVES, 0, min(spec.multiple, 16))

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def unpack(given: Any) -> None:
        count = given.bytes.multiple_of(spec.multiple)
        start = workgroup_id(0) * TILE
        x = load(view(given.x, (count,), (1,)).pad(TILE).window((TILE,), (start,)), lies)
        twice = stretch(cast(x, "i32"), 1, 2, lies.expand(1, 2))
        half = (twice << ((WORD - HALF) - coordinates(twice, 1) * HALF)) >> (WORD - HALF)
        y = join_axes(cast(cast(half, "f32"), spec.out), 0)
        store(y, view(given.y, (count * 2,), (1,)).pad(2 * TILE).window((2 * TILE,), (start * 2,)))

    return unpack
