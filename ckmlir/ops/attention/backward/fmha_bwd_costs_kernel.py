"""The kernel of `fmha_bwd_costs`: a wave goes over the sequences and sums up what they cost."""

from __future__ import annotations

from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import (
    Kernel,
    Pointer,
    Scalar,
    Tile,
    coordinates,
    full,
    i32,
    kernel,
    load,
    loop,
    ptr,
    reduce_max,
    reduce_sum,
    scan_sum,
    store,
    stretch,
    uniform,
    view,
    where,
)
from ckmlir.ops.attention.backward.fmha_bwd_costs import CostsSpec
from ckmlir.ops.attention.backward.key_blocks import KeyBlocks
from ckmlir.ops.attention.backward.shares_kernel import bounding, bounds_of
from ckmlir.ops.attention.backward.slot_table import share_of
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

VECTOR = 4
TILE = WAVE_SIZE * VECTOR
LIES = Distribution.parse(f"d0: {WAVE_SIZE}@lane {VECTOR}@y0")
ONE = LIES.expand(0, 1).reduce(1)
"""One element that every lane has."""


def build(spec: CostsSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {name: ptr("i32") for name in (*spec.lists, "costs")}
    arguments |= dict.fromkeys(("count", "heads", "sq", "sk", "workgroups"), i32) | bounding(spec.mask)

    @kernel(spec.name, target=target, waves=1, arguments=arguments)
    def fmha_bwd_costs(given: Any) -> None:
        def loaded(pointer: Pointer, first: Scalar) -> Tile:
            found: Tile = load(view(pointer, (given.count,), (1,)).pad(TILE).window((TILE,), (first,)), LIES)
            return found

        def lengths(side: str, word: str, first: Scalar) -> Tile:
            if "length" in word:
                return loaded(getattr(given, f"seqlen_{side}"), first)
            if "start" in word:
                starts = getattr(given, f"seqstart_{side}")
                own: Tile = loaded(starts.offset(1), first) - loaded(starts, first)
                return own
            return full((TILE,), getattr(given, f"s{side}"), "i32", LIES)

        def whole(fold: Any, tile: Tile) -> Scalar:
            """The fold of all elements."""
            found: Scalar = uniform(fold(stretch(tile, 0, 1, LIES.expand(0, 1)), 1))
            return found

        with loop(0, given.count + 1, TILE, carry=[0, 0]) as step:
            (before, shortest), first = step.carried, step.index
            sq, sk = (lengths(side, word, first) for side, word in zip("qk", spec.sequences, strict=True))
            sk = where(coordinates(sk, 0) < given.count - first, sk, 0)
            blocks = KeyBlocks.of(0, sq, sk, spec.block, bounds_of(spec.mask, given, sq, sk))
            costs = blocks.width * given.heads
            found = view(given.costs, (given.count + 1,), (1,)).pad(TILE).window((TILE,), (first,))
            store(scan_sum(costs, 0, exclusive=True) + before, found)
            step.carry(before + whole(reduce_sum, costs), shortest.maximum(whole(reduce_max, blocks.shortest)))
        total, shortest = step.results
        share = full((1,), share_of(total, given.workgroups).maximum(shortest), "i32", ONE)
        store(share, view(given.costs.offset(given.count + 1), (1,), (1,)).window((1,), (0,)))

    return fmha_bwd_costs
