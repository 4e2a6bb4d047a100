"""The compress_sparse kernel: a lane has the eight elements of a byte of the index."""

from __future__ import annotations

from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import (
    Kernel,
    Tile,
    absolute,
    bitcast,
    cast,
    coordinates,
    i32,
    insert_tile,
    kernel,
    load,
    ptr,
    reduce_sum,
    slice_tile,
    splat_like,
    store,
    view,
    where,
    workgroup_id,
)  # fmt: skip
from ckmlir.ops.contraction.sparse_kernel import view_of_pieces
from ckmlir.ops.contraction.sparsity import BITS, KEPT, OF, PIECES, index_bytes, kept
from ckmlir.ops.gemm.compress_sparse import BYTES, HEIGHT, WAVES, CompressSpec
from ckmlir.targets import Target
from ckmlir.targets.matrix_names import EIGHT_BIT_FLOATS

FOURS = 2
"""Of a byte of the index."""
LIES = Distribution.parse(f"d0: {HEIGHT // WAVES}@y0 {WAVES}@wave, d1: {BYTES}@lane, d2: {FOURS}@y1, d3: {OF}@y2")


def build(spec: CompressSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {
        "x": ptr(spec.dtype, spec.base), "a": ptr(spec.dtype, spec.base), "index": ptr("i8", spec.base),
        **dict.fromkeys(("m", "k", "stride", "lda", "ld_index"), i32),
    }  # fmt: skip

    coded = spec.dtype in EIGHT_BIT_FLOATS  # numbers of 8 bits would saturate: what is moved are their codes

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def compress_sparse(given: Any) -> None:
        row, byte = workgroup_id(1) * HEIGHT, workgroup_id(0) * BYTES
        of_x, of_a, of_index = spec.aligns
        k = given.k.multiple_of(of_x)
        tiles = (index_bytes(k) + (BYTES - 1)) // BYTES

        def window(pointer: Any, length: Any, pitch: Any, each: int) -> Any:
            """A matrix seen as bytes of the index, fours and `each` element of these."""
            rows = view(pointer, (given.m, length), (pitch, 1)).pad(HEIGHT, BYTES * FOURS * each)
            seen = rows.unmerge(1, (tiles * BYTES, FOURS, each))
            return seen.window((HEIGHT, BYTES, FOURS, each), (row, byte, 0, 0))

        x = load(window(given.x, k, given.stride.multiple_of(of_x), OF), LIES)
        first, second = _places([slice_tile(cast(x, "f32"), 3, place, 1) for place in range(OF)])
        moved = cast(bitcast(x, "i8") if coded else x, "f32")
        elements, values = [slice_tile(moved, 3, place, 1) for place in range(OF)], slice_tile(moved, 3, 0, KEPT)
        for number, place in enumerate((first, second)):
            chosen = elements[0]
            for other in range(1, OF):
                chosen = where(place.equals(other), elements[other], chosen)
            values = insert_tile(values, chosen, 3, number)
        length = kept(k).multiple_of(of_a)
        found = bitcast(cast(values, "i8"), spec.dtype) if coded else cast(values, spec.dtype)
        store(found, window(given.a, length, given.lda.multiple_of(of_a), KEPT))

        fours = (coordinates(first, 1) + byte) * FOURS + coordinates(first, 2)
        named = where(fours * OF < k, first + (second << BITS), 0)
        code = reduce_sum(reduce_sum(named << (coordinates(named, 2) * (KEPT * BITS)), 3), 2)
        length = index_bytes(k)
        if spec.index_order == PIECES:
            whole = view_of_pieces(given.index, given.m, length)
        else:
            pitch = given.ld_index.multiple_of(of_index)
            whole = view(given.index, (given.m, length.multiple_of(of_index)), (pitch, 1))
        index = whole.pad(HEIGHT, BYTES)
        signed = where(code > 127, code - 256, code)
        store(cast(signed, "i8"), index.window((HEIGHT, BYTES), (row, byte)))

    return compress_sparse


def _places(elements: list[Tile]) -> tuple[Tile, Tile]:
    """Which two of four are kept, in their order: those that lose to fewer than two others."""
    sizes = [where(one.equals(one), absolute(one), float("inf")) for one in elements]
    none = splat_like(sizes[0], 0, "i32")
    losses = [none] * OF
    for one in range(OF):
        for other in range(one + 1, OF):
            wins = sizes[one] >= sizes[other]
            losses[other] = losses[other] + where(wins, none + 1, none)
            losses[one] = losses[one] + where(wins, none, none + 1)
    first = where(losses[0] < KEPT, none, where(losses[1] < KEPT, none + 1, none + 2))
    second = where(losses[3] < KEPT, none + 3, where(losses[2] < KEPT, none + 2, none + 1))
    return first, second
