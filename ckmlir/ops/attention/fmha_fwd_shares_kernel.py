"""The kernel of `fmha_fwd_shares`: a wave goes over the sequences twice, for what all cost, and for their shares."""

from __future__ import annotations

from typing import Any

from ckmlir.lang import Kernel, Scalar, Tile, i32, kernel, loop, ptr, reduce_max, reduce_sum
from ckmlir.ops.attention.fmha_fwd_shares import ForwardSharesSpec
from ckmlir.ops.attention.sequence_sums_kernel import TILE, SequenceTile
from ckmlir.ops.whole_tile import whole
from ckmlir.targets import Target

NUMBERS = ("count", "sq", "sk", "together", "dearest", "workgroups", "most")


def build(spec: ForwardSharesSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {name: ptr("i32") for name in (*spec.lists, "counts", "begins")}
    rows, columns = spec.block

    @kernel(spec.name, target=target, waves=1, arguments=arguments | dict.fromkeys(NUMBERS, i32))
    def fmha_fwd_shares(given: Any) -> None:
        def costs(tile: SequenceTile) -> tuple[Tile, Tile]:
            """Blocks of queries, and the steps of each."""
            queries, keys = tile.lengths()
            steps = ((keys + (columns - 1)) // columns).minimum(given.dearest).maximum(1)
            return (queries * given.together + (rows - 1)) // rows, steps

        with loop(0, given.count, TILE, carry=[0, 0]) as step:
            total, dearest = step.carried
            blocks, steps = costs(SequenceTile(given, spec.sequences, step.index))
            step.carry(total + whole(reduce_sum, blocks * steps), dearest.maximum(whole(reduce_max, steps)))
        length = _ceil_div(step.results[0], given.workgroups).maximum(_ceil_div(step.results[1], given.most)).maximum(1)
        with loop(0, given.count + 1, TILE, carry=[0]) as step:
            (before,) = step.carried
            tile = SequenceTile(given, spec.sequences, step.index)
            blocks, steps = costs(tile)
            counts = ((steps + length // 2) // length).maximum(1)
            shares = blocks * counts
            tile.put(given.counts, counts, given.count)
            tile.put(given.begins, tile.before(shares, before), given.count + 1)
            step.carry(before + whole(reduce_sum, shares))

    return fmha_fwd_shares


def _ceil_div(number: Scalar, divisor: Scalar) -> Scalar:
    found: Scalar = (number + (divisor - 1)) // divisor
    return found
