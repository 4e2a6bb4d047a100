"""The channels of a workgroup in tile code: the sums of all parts, and arrays with an element for every channel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Kernel,
    Tile,
    View,
    cast,
    i32,
    kernel,
    load,
    loop,
    ptr,
    reduce_sum,
    stage,
    store,
    view,
    workgroup_id,
    zeros,
)
from ckmlir.lang.kernel import Argument
from ckmlir.ops.batchnorm.channels import CHANNELS, PARTS, ROWS, ChannelsSpec
from ckmlir.targets import Target

SCHEDULE = "schedule batchnorm2d_channels 1; ahead load 2"


class Channels:
    """The channels of one workgroup."""

    def __init__(self, spec: ChannelsSpec, given: Any, arrays: Mapping[str, str]) -> None:
        self.spec, self.given, self._arrays = spec, given, arrays
        self.first = workgroup_id(0) * CHANNELS
        self.c = given.c.multiple_of(spec.align)

    def totals(self) -> list[Tile]:
        """Both sums over all parts, f64."""
        lies = coalesced((ROWS, CHANNELS), 1, 1, self.spec.align)
        views = [view(getattr(self.given, name), (self.given.parts, self.c), (self.c, 1)) for name in PARTS]
        start = [zeros((ROWS, CHANNELS), "f64", lies) for _ in PARTS]
        with loop(0, self.given.parts, ROWS, carry=start, schedule=Schedule.parse(SCHEDULE)) as step:
            with stage("load"):
                window = ((ROWS, CHANNELS), (step.index, self.first))
                loaded = [load(one.pad(ROWS, CHANNELS).window(*window), lies) for one in views]
            with stage("math"):
                step.carry(*(a + b for a, b in zip(step.carried, loaded, strict=True)))
        return [reduce_sum(total, 0) for total in step.results]

    def load(self, name: str, step: Any = 1) -> Tile:
        """An array of channels, whose elements lie `step` apart."""
        return load(self._view(name, step).window((CHANNELS,), (self.first,)))

    def store(self, tile: Tile, name: str) -> None:
        """Write an array of channels, rounded to its type."""
        store(cast(tile, self._arrays[name]), self._view(name, 1).window((CHANNELS,), (self.first,)))

    def _view(self, name: str, step: Any) -> View:
        return view(getattr(self.given, name), (self.c,), (step,)).pad(CHANNELS)


def channels_kernel(
    spec: ChannelsSpec,
    target: Target,
    arrays: Mapping[str, str],
    numbers: Mapping[str, Argument],
    body: Callable[[Channels], None],
) -> Kernel:
    """Trace a kernel of channels; `arrays` are names and types, in the order of the launch."""
    arguments: dict[str, Argument] = {
        **dict.fromkeys(PARTS, ptr("f64")),
        **{name: ptr(dtype, spec.base_of(dtype)) for name, dtype in arrays.items()},
        "c": i32, "parts": i32, **numbers,
    }  # fmt: skip

    @kernel(spec.name, target=target, waves=1, arguments=arguments)
    def channels(given: Any) -> None:
        body(Channels(spec, given, arrays))

    return channels
