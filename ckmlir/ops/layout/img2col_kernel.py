"""The img2col kernel: a load from the images seen through their windows, and a store."""

from typing import Any

from ckmlir.lang import Kernel, i32, kernel, load, store, workgroup_id
from ckmlir.ops.layout.img2col import Img2colSpec
from ckmlir.ops.tensors.blocks import Block, kernel_arguments
from ckmlir.ops.tensors.sliding import window_view
from ckmlir.targets import Target


def build(spec: Img2colSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments = {**kernel_arguments(spec), **dict.fromkeys(spec.sliding_arguments, i32)}
    k = spec.spatial

    @kernel(spec.name, target=target, waves=spec.waves, arguments=arguments)
    def img2col(given: Any) -> None:
        block = Block(spec, given)
        origin = block.places(workgroup_id(0), range(spec.rank))
        groups, n, *positions = block.lengths[: 2 + k]
        images = window_view(spec, given, n, groups, block.lengths[-1], positions)
        images = images.permute(2 * k + 1, *range(2 * k + 1), 2 * k + 2).pad(*spec.tile)
        source = images.window(spec.tile, [origin[dim] for dim in range(spec.rank)])
        window, _ = block.window("y", origin)
        store(load(source, block.distribution(spec.vector("y"), spec.rank - 1)), window)

    return img2col
