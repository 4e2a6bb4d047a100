"""The kernel of unpack_int4: bytes whose elements are unpacked."""

from typing import Any

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import Kernel, cast, i32, kernel, load, ptr, store, unpack, view, workgroup_id
from ckmlir.lang.kernel import Argument
from ckmlir.ops.elementwise.unpack_int4 import TILE, WAVES, UnpackSpec
from ckmlir.targets import Target


def build(spec: UnpackSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Argument] = {"x": ptr("i8"), "y": ptr(spec.out), "bytes": i32}
    lies = coalesced((TILE,), WAVES, 0, min(spec.multiple, 16))

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def unpacked(given: Any) -> None:
        count = given.bytes.multiple_of(spec.multiple)
        start = workgroup_id(0) * TILE
        x = load(view(given.x, (count,), (1,)).pad(TILE).window((TILE,), (start,)), lies)
        wide = unpack(x, spec.packed, "f16" if spec.out == "f16" else "f32")
        y = cast(wide, spec.out, bounded=spec.out == "bf16")
        store(y, view(given.y, (count * 2,), (1,)).pad(2 * TILE).window((2 * TILE,), (start * 2,)))

    return unpacked
