"""The pooling kernel: every work-item walks through the windows of its elements, one place at a time."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from ckmlir.lang import (
    Kernel,
    Scalar,
    Tile,
    View,
    Window,
    cast,
    f32,
    full,
    i32,
    inside,
    kernel,
    load,
    loop,
    offsets,
    store,
    where,
    workgroup_id,
)  # fmt: skip
from ckmlir.ops.pooling.pooling import PoolingSpec
from ckmlir.ops.tensors.blocks import Block, kernel_arguments
from ckmlir.ops.tensors.sliding import window_view
from ckmlir.targets import Target

LEAST = float("-inf")


def build(spec: PoolingSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments = {
        **kernel_arguments(spec),
        **dict.fromkeys((*spec.sliding_arguments, *spec.counting_arguments), i32),
        "places": i32,
        "share": f32,
    }

    @kernel(spec.name, target=target, waves=spec.waves, arguments=arguments)
    def pooling(given: Any) -> None:
        block = _Pooling(spec, given)
        with loop(0, given.places, 1, carry=block.start()) as step:
            step.carry(*block.step(step.carried, step.index))
        block.finish(step.results)

    return pooling


class _Pooling(Block):
    """The windows of one workgroup."""

    def __init__(self, spec: PoolingSpec, given: Any) -> None:
        super().__init__(spec, given)
        self.pooling = spec
        self.lies = self.distribution(spec.vector("y"), spec.rank - 1)
        self.origin = self.places(workgroup_id(0), range(spec.rank))
        self.counted = spec.op == "average" and spec.count != "padding"
        n, *positions, channels = self.lengths
        self.images: View = window_view(spec, given, n, 1, channels, positions)
        self.counted_images = self.images
        if spec.counting_arguments:
            self.counted_images = window_view(spec, _with_padding(given, spec), n, 1, channels, positions)

    def window_at(self, place: Scalar, images: View) -> Window:
        """The elements of images that lie in one place of every window."""
        k = self.pooling.spatial
        for dim in reversed(range(k)):
            length = getattr(self.given, f"window{dim}")
            digit = place if dim == 0 else place % length
            place = place if dim == 0 else place // length
            images = images.freeze(1 + k + dim, digit)
        images = images.freeze(1 + k, 0)  # the only group
        return images.pad(*self.spec.tile).window(self.spec.tile, [self.origin[dim] for dim in range(self.spec.rank)])

    def full(self, number: float, dtype: str) -> Tile:
        """A tile of equal elements."""
        return full(self.spec.tile, number, dtype, self.lies)

    def start(self) -> list[Tile]:
        """What a window without elements gives: the result, then its index or the number of its elements."""
        result = [self.full(LEAST if self.pooling.op == "max" else 0.0, "f32")]
        if self.pooling.index:
            result.append(self.full(0, "i32"))
        return [*result, self.full(0.0, "f32")] if self.counted else result

    def step(self, so_far: Sequence[Tile], place: Scalar) -> list[Tile]:
        """One more place of every window."""
        window = self.window_at(place, self.images)
        x = cast(load(window, self.lies), "f32")
        best: Tile = so_far[0]
        if self.counted:
            counts = inside(self.window_at(place, self.counted_images), self.lies)
            return [best + x, so_far[1] + where(counts, self.full(1.0, "f32"), 0.0)]  # what is outside is zero
        if self.pooling.op == "average":
            return [best + x]
        x = where(inside(window, self.lies), x, LEAST)
        if self.pooling.propagate_nan:
            better = best.equals(best) & ((x > best) | x.differs(x))  # the first NaN stays
        else:
            better = x > best
        found = [where(better, x, best)]
        if self.pooling.index:
            found.append(where(better, offsets(window, self.lies), so_far[1]))
        return found

    def finish(self, results: Sequence[Tile]) -> None:
        """Divide where that is asked for, and write."""
        result = results[0]
        if self.pooling.op == "average":
            result = result / results[1] if self.counted else result * self.given.share
        names = [name for name in self.pooling.arrays if name != "x"]
        for name, tile in zip(names, [result, *results[1:]], strict=False):
            window, _ = self.window(name, self.origin)
            store(cast(tile, self.pooling.dtypes[self.pooling.place(name)]), window)


def _with_padding(given: Any, spec: PoolingSpec) -> Any:
    """The arguments of images that hold what counts of their padding. Nothing is loaded from such."""
    own = dict(vars(given))
    for dim in range(spec.spatial):
        own[f"image{dim}"] = own[f"left{dim}"] + own[f"image{dim}"] + own[f"counted{dim}"]
        own[f"right{dim}"] = own[f"right{dim}"] - own[f"counted{dim}"]
        own[f"left{dim}"] = 0
    return SimpleNamespace(**own)
