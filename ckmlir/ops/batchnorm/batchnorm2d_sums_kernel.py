"""The kernel of sums over parts of channels: a work-item follows every register position of its tile through the rows
or images of a part, and lanes and waves add what is left at the end.
"""

from collections.abc import Mapping
from typing import Any

from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Kernel,
    Pointer,
    Tile,
    cast,
    full,
    i32,
    inside,
    join_axes,
    kernel,
    load,
    loop,
    reduce_sum,
    stage,
    store,
    where,
    workgroup_id,
)  # fmt: skip
from ckmlir.ops.batchnorm.batchnorm2d_sums import OUTPUTS, SumsSpec
from ckmlir.ops.tensors.blocks import Block, Place, kernel_arguments
from ckmlir.ops.tensors.expression import parse
from ckmlir.ops.tensors.tiles import evaluate_tiles
from ckmlir.targets import Target

SCHEDULE = "schedule batchnorm2d_sums 1; ahead load 3"
"""Memory answers after some steps of a wave."""


def build(spec: SumsSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""

    @kernel(spec.name, target=target, waves=spec.waves, arguments={**kernel_arguments(spec), "part": i32})
    def sums(given: Any) -> None:
        block = _Sums(spec, given)
        start = [full(spec.tile, 0.0, "f64", block.lies) for _ in OUTPUTS]
        with loop(0, block.steps, 1, carry=start, schedule=Schedule.parse(SCHEDULE)) as step:
            with stage("load"):
                loaded = block.loaded(step.index)
            with stage("math"):
                step.carry(*(a + b for a, b in zip(step.carried, block.summands(loaded, step.index), strict=True)))
        for name, total in zip(OUTPUTS, step.results, strict=True):
            block.finish(name, total)

    return sums


class _Sums(Block):
    """The sums of one workgroup: those of a tile of channels over a part."""

    def __init__(self, spec: SumsSpec, given: Any) -> None:
        super().__init__(spec, given)
        self.summed = spec
        unit = spec.unit("x")
        self.lies = self.distribution(spec.vector("x"), spec.rank - 1 if unit is None else unit)
        self.begin = workgroup_id(1) * given.part.multiple_of(spec.tile[1])
        self.lengths[1] = (self.lengths[1] - self.begin).minimum(given.part).multiple_of(spec.multiples[1])
        rest = [getattr(given, f"tiles{dim}") for dim in range(2, spec.rank)]
        tiles = (self.lengths[1] + (spec.tile[1] - 1)) // spec.tile[1]
        self.steps = tiles * rest[0] if rest else tiles
        self.places_of_channels: dict[int, Place] = self.places(workgroup_id(0), [0])
        self.ragged = not spec.kind.vanish and any(spec.multiples[dim] != spec.tile[dim] for dim in range(1, spec.rank))
        anywhere = {**self.places_of_channels, **dict.fromkeys(range(1, spec.rank), 0)}
        self.channel = cast(self.load(spec.kind.channel, anywhere, self.lies), "f64")

    def loaded(self, index: Place) -> dict[str, Tile]:
        """The next tile of every array of images."""
        origin = self.origin(index)
        return {name: load(self.window(name, origin)[0], self.lies) for name in self.summed.kind.images}

    def origin(self, index: Place) -> dict[int, Place]:
        """Where the `index`-th tile of the part begins."""
        return {**self.places_of_channels, **self.shared(index)}

    def shared(self, index: Place) -> dict[int, Place]:
        """The same along the dimensions that are summed up."""
        spec = self.summed
        if spec.rank == 2:
            return {1: index * spec.tile[1]}
        inner = self.given.tiles2
        return {1: index // inner * spec.tile[1], 2: index % inner * spec.tile[2]}

    def summands(self, loaded: Mapping[str, Tile], index: Place) -> list[Tile]:
        """What a tile adds to both sums."""
        kind = self.summed.kind
        wide = {name: cast(loaded[name], "f64") for name in kind.images} | {kind.channel: self.channel}
        found = [evaluate_tiles(parse(text, tuple(wide)), wide, "f64", wide["x"]) for text in kind.summands]
        if not self.ragged:
            return found
        exists = inside(self.window("x", self.origin(index))[0], self.lies)  # here: conditions that wait take registers
        return [where(exists, one, 0.0) for one in found]

    def finish(self, name: str, total: Tile) -> None:
        """Add what work-items have, and write it."""
        for _ in range(2, self.summed.rank):  # one dimension, so that waves exchange their results once
            total = join_axes(total, 1)
        total = reduce_sum(total, 1)
        window, _ = self.window(name, {**self.places_of_channels, **dict.fromkeys(range(1, self.summed.rank), 0)})
        store(total, window)

    def pointer(self, name: str) -> Pointer:
        """Images of a part begin with its first row; sums of a part lie behind those of the parts before it."""
        found: Pointer = super().pointer(name)
        if name in OUTPUTS:
            return found.offset(workgroup_id(1) * self.given.length0)
        if name not in self.summed.kind.images:
            return found
        (step,), align = self.strides(name, [1]), self.summed.aligns[self.summed.place(name)]
        if isinstance(step, int):  # rows of one channel are neighbours
            return found.offset(self.begin.to("i64").multiple_of(min(align, self.summed.tile[1])))
        return found.offset((self.begin.to("i64") * step.to("i64")).multiple_of(align))
