"""The kernel of a mapping: loads, through LDS where an input's fastest dimension is not the output's, one expression,
one store.
"""

from collections.abc import Mapping
from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import coalesced, in_groups
from ckmlir.dialect.packed_tiles import bytes_over
from ckmlir.lang import (
    Kernel,
    Tile,
    Window,
    cast,
    copy_to_lds,
    kernel,
    load,
    pack,
    repack,
    store,
    to_lds,
    workgroup_id,
    zeros,
)
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.tensors.blocks import Block, Place, kernel_arguments
from ckmlir.ops.tensors.expression import parse
from ckmlir.ops.tensors.mapping_spec import MapSpec, transposes_itself
from ckmlir.ops.tensors.tiles import evaluate_tiles
from ckmlir.targets import Target

TRANSPOSING_LANES = 16
"""Neighbouring lanes along an input's fastest dimension that a transposing LDS read takes together."""


def build(spec: MapSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    widest = max((spec.vector(name) for name in spec.arrays), default=1)
    distribution = _output_distribution(spec, target, widest)

    @kernel(spec.name, target=target, waves=spec.waves, arguments=kernel_arguments(spec))
    def mapping(given: Any) -> None:
        block = Block(spec, given)
        origin = block.places(workgroup_id(0), range(spec.rank))
        tiles = {name: _input(block, name, origin, distribution) for name in spec.arrays[:-1]}
        window, _ = block.window(spec.output, origin)
        store(_value(spec, tiles, distribution), window)

    return mapping


def _output_distribution(spec: MapSpec, target: Target, vector: int) -> Distribution:
    """Vectors along the output's fastest dimension; lanes along an input's where LDS reads then transpose by
    themselves.
    """
    last = spec.last
    together = max((one.elements for dtype in spec.dtypes if (one := find_dtype(dtype).packing)), default=1)
    if together > 1:  # elements that share bytes stay with each other
        groups = (*spec.tile[:-1], spec.tile[-1] // together)
        return coalesced(groups, spec.waves, last, vector // together).expand(spec.rank, together).join(spec.rank - 1)
    crossing = [name for name in spec.arrays[:-1] if spec.crosses(name)]
    if crossing and target.has("lds_transpose_read") and transposes_itself(spec.dtypes):
        unit = spec.unit(crossing[0])
        if unit is not None and spec.tile[unit] >= TRANSPOSING_LANES and spec.vector(crossing[0]) >= 4:
            return coalesced(spec.tile, spec.waves, last, vector, lanes_first=(unit, TRANSPOSING_LANES))
    return coalesced(spec.tile, spec.waves, last, vector)


def _input(block: Block, name: str, origin: Mapping[int, Place], distribution: Distribution) -> Tile:
    """An input's part of the tile, as the output lies."""
    spec = block.spec
    assert isinstance(spec, MapSpec)
    window, dims = block.window(name, origin)
    if block.packing(name) is not None and not spec.expression:
        return _moved(block, name, window, distribution)
    if len(dims) == spec.rank and spec.staging == "direct":
        return copy_to_lds(window).read(distribution)
    if len(dims) == spec.rank and spec.staging == "registers" and not spec.crosses(name):
        return to_lds(load(window, distribution)).read(distribution)
    if len(dims) == spec.rank and spec.crosses(name):
        return to_lds(load(window)).read(distribution)
    return block.taken(name, window, dims, distribution)


def _moved(block: Block, name: str, window: Window, distribution: Distribution) -> Tile:
    """The bytes of packed elements that only move, as the output has them: turned where it shares them along another
    dimension.
    """
    packing, before, after = block.packing(name), block.along(name), block.along(block.spec.arrays[-1])
    assert packing is not None
    if before == after:
        return load(window, bytes_over(distribution, packing))
    spec = block.spec
    lengths = [packing.size(one) if dim == before else one for dim, one in enumerate(spec.tile)]
    lies = in_groups(lengths, spec.waves, before, packing.bytes, packing.elements, across=after)
    turned = repack(load(window, lies), spec.dtypes[spec.place(name)], before, after)
    return to_lds(turned).read(bytes_over(distribution, packing))


def _value(spec: MapSpec, tiles: Mapping[str, Tile], distribution: Distribution) -> Tile:
    """The expression's value in the output's type."""
    if not spec.expression:
        return tiles[spec.arrays[0]]
    output = spec.dtypes[-1]
    if spec.expression in tiles and find_dtype(output).packing is not None:
        return pack(cast(tiles[spec.expression], "f32"), output)
    if spec.expression in tiles:
        return cast(tiles[spec.expression], output)  # a conversion alone is exact, also where f32 is not
    computing = "i32" if spec.integer else "f32"
    wide = {name: cast(tile, computing) for name, tile in tiles.items()}
    like = next(iter(wide.values())) if wide else zeros(spec.tile, computing, distribution)
    return cast(evaluate_tiles(parse(spec.expression, spec.arrays[:-1]), wide, computing, like), output)
