"""The kernel of `fmha_bwd_turns`: each lane of a wave counts the sequences in front of its own."""

from __future__ import annotations

from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import (
    Kernel,
    Pointer,
    Scalar,
    Tile,
    coordinates,
    i32,
    kernel,
    load,
    loop,
    ptr,
    reduce_sum,
    scatter,
    splat_like,
    stretch,
    view,
    where,
    workgroup_id,
    zeros,
)
from ckmlir.ops.attention.backward.fmha_bwd_turns import LANES, TurnsSpec
from ckmlir.targets import Target

OTHERS = 32
"""Sequences that a lane compares its own with in a turn of the loop."""
PAIRS = Distribution.parse(f"d0: {LANES}@lane, d1: {OTHERS}@y0")
OWN, OTHER = PAIRS.reduce(1), PAIRS.reduce(0)


def build(spec: TurnsSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""

    @kernel(spec.name, target=target, waves=1, arguments={"costs": ptr("i32"), "turns": ptr("i32"), "count": i32})
    def fmha_bwd_turns(given: Any) -> None:
        count, first = given.count, workgroup_id(0) * LANES

        def costs(begin: Scalar, length: int, lies: Distribution) -> Tile:
            """Of the sequences from one on; of those behind the last nothing, so that they are in front of none."""

            def loaded(pointer: Pointer) -> Tile:
                there = view(pointer, (count,), (1,)).pad(length)
                found: Tile = load(there.window((length,), (begin,)), lies)
                return found

            difference: Tile = loaded(given.costs.offset(1)) - loaded(given.costs)
            return difference

        own = stretch(costs(first, LANES, OWN), 1, OTHERS, PAIRS)
        with loop(0, count, OTHERS, carry=[zeros((LANES,), "i32", OWN)]) as step:
            other = stretch(costs(step.index, OTHERS, OTHER), 0, LANES, PAIRS)
            is_in_front = coordinates(other, 1) + step.index < coordinates(other, 0) + first
            before = (other > own) | (other.equals(own) & is_in_front)
            step.carry(step.carried[0] + reduce_sum(where(before, splat_like(other, 1, "i32"), 0), 1))
        (place,) = step.results
        number = coordinates(place, 0) + first
        turns = view(given.turns, (count,), (1,)).pad(LANES).window((LANES,), (0,))
        scatter(number, turns, where(number < count, place, -1), 0)

    return fmha_bwd_turns
