"""The kernels of `mhc_input` and `mhc_post`: a workgroup has channels of one row, of all its streams.

What weighs the streams is the same for the whole workgroup, and lies in scalar registers.
"""

from __future__ import annotations

from types import SimpleNamespace

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import (
    Kernel,
    Pointer,
    Scalar,
    Tile,
    Window,
    cast,
    i32,
    kernel,
    load,
    ptr,
    slice_tile,
    store,
    view,
    workgroup_id,
)  # fmt: skip
from ckmlir.lang.kernel import Argument
from ckmlir.ops.mhc.streams import StreamsSpec
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE


def build(spec: StreamsSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    pointers = {name: ptr("f32" if name == "coefficients" else spec.dtype) for name in spec.arrays}
    sizes = ("m", "c", "tiles", *(f"{name}_stride" for name in spec.arrays))
    arguments: dict[str, Argument] = {**pointers, **dict.fromkeys(sizes, i32)}

    @kernel(spec.name, target=target, waves=spec.waves, arguments=arguments)
    def streams(given: SimpleNamespace) -> None:
        row = Row(spec, given)
        n = spec.streams
        x = row.load("x", n)
        each = [slice_tile(x, 0, stream, 1) if n > 1 else x for stream in range(n)]
        if not spec.mixes:
            row.store(_weighed(each, [row.weight(stream) for stream in range(n)]), 0)
            return
        f = row.load("f", 1)
        for stream in range(n):
            weights = [row.weight(n + stream), *(row.weight((2 + stream) * n + other) for other in range(n))]
            row.store(_weighed([f, *each], weights), stream)

    return streams


def _weighed(tiles: list[Tile], weights: list[Scalar]) -> Tile:
    first, *others = zip(tiles, weights, strict=True)
    total: Tile = first[0] * first[1]
    for tile, weight in others:
        total = total + tile * weight
    return total


class Row:
    """Channels of the row of a workgroup."""

    def __init__(self, spec: StreamsSpec, given: SimpleNamespace) -> None:
        self.spec, self.given = spec, given
        place = workgroup_id(0)
        self.number, self.first = place // given.tiles, place % given.tiles * spec.columns
        self.channels = given.c.multiple_of(spec.align)
        self.coefficients = self._begin("coefficients", 1)

    def _begin(self, name: str, align: int) -> Pointer:
        """Where the row begins in an array."""
        stride = getattr(self.given, f"{name}_stride").to("i64")
        found: Pointer = getattr(self.given, name).offset((self.number.to("i64") * stride).multiple_of(align))
        return found

    def weight(self, place: int) -> Scalar:
        """One of the row's coefficients."""
        return self.coefficients.scalar(place)

    def _window(self, name: str, streams: int, first: int = 0) -> Window:
        spec = self.spec
        whole = view(self._begin(name, spec.align), (first + streams, self.channels), (self.channels, 1))
        return whole.pad(1, spec.columns).window((streams, spec.columns), (first, self.first))

    def load(self, name: str, streams: int) -> Tile:
        """Channels of so many streams, in f32."""
        spec = self.spec
        rows = f"{streams}@y0" if streams > 1 else "1"
        waves = f"{spec.waves}@wave " if spec.waves > 1 else ""
        vector = f" {spec.align}@y{int(streams > 1)}" if spec.align > 1 else ""
        lies = Distribution.parse(f"d0: {rows}, d1: {waves}{WAVE_SIZE}@lane{vector}")
        return cast(load(self._window(name, streams), lies), "f32")

    def store(self, tile: Tile, stream: int) -> None:
        """Write one stream of y, in its type."""
        store(cast(tile, self.spec.dtype), self._window("y", 1, stream))
