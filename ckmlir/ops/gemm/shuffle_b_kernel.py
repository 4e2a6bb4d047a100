"""The kernel of `shuffle_b`: a block of B through LDS, so that rows are read and tiles are written in full vectors."""

from __future__ import annotations

from types import SimpleNamespace

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import Kernel, i32, kernel, load, ptr, store, to_lds, view, workgroup_id
from ckmlir.lang.kernel import Argument
from ckmlir.ops.contraction.shuffle import tile_depth, vector_length
from ckmlir.ops.contraction.shuffle_kernel import shuffled_view
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.gemm.shuffle_b import DEPTH_BYTES, ROWS, WAVES, ShuffleSpec
from ckmlir.targets import Target


def build(spec: ShuffleSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    size = find_dtype(spec.dtype).bytes
    vector, depth = vector_length(size), tile_depth(spec.columns, size)
    block = ROWS, DEPTH_BYTES // size
    # Neighbouring lanes have neighbouring columns, as tiles do.
    tiles = coalesced(block, WAVES, 1, vector, lanes_first=(0, spec.columns))
    pointers: dict[str, Argument] = {"b": ptr(spec.dtype), "shuffled": ptr(spec.dtype)}
    arguments = {**pointers, "n": i32, "k": i32, "pitch": i32}

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def shuffle(given: SimpleNamespace) -> None:
        n, k, pitch = given.n, given.k, given.pitch.multiple_of(spec.align)
        if spec.layout == "C":
            b = view(given.b, (n, k.multiple_of(spec.align)), (pitch, 1))
        else:
            b = view(given.b, (n.multiple_of(spec.align), k), (1, pitch))
        blocks_k = (k + (block[1] - 1)) // block[1]
        at = workgroup_id(0) // blocks_k * block[0], workgroup_id(0) % blocks_k * block[1]
        row = (k + (depth - 1)) // depth * (depth * spec.columns)
        lies = shuffled_view(given.shuffled, n, k, row, spec.columns, size)
        moved = to_lds(load(b.pad(*block).window(block, at))).read(tiles)
        store(moved, lies.pad(*block).window(block, at))

    return shuffle
