"""Which block of which product a workgroup computes, and which part of its sums: the walks, by name.

A walk says what a kernel's arguments are besides the numbers of its expression, and calls the body, which computes and
stores one block, where a workgroup has one to do: once, or in turns.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

from ckmlir.lang import Scalar, ptr, while_loop, workgroup_id
from ckmlir.lang.kernel import Argument
from ckmlir.ops.contraction.contraction_spec import ContractionSpec, accumulator_type
from ckmlir.ops.contraction.experts_kernel import Experts
from ckmlir.ops.contraction.merged_kernel import distance_arguments
from ckmlir.ops.contraction.parts_kernel import (
    batch_arguments,
    batch_coordinates,
    in_batch,
    in_part,
    part_arguments,
    part_of_k,
)  # fmt: skip
from ckmlir.ops.contraction.table_kernel import PersistentTable, Table
from ckmlir.ops.contraction.work_kernel import (
    Body,
    Share,
    Walk,
    Work,
    block_at,
    count_blocks,
    in_order,
    known_sizes,
)


class Grid:
    """A workgroup for each block, along x; for each product of a batch, along y; for each part of K, along z."""

    def arguments(self, spec: ContractionSpec) -> dict[str, Argument]:
        """See `Walk`."""
        integers = ["m", "n", "k", *distance_arguments(spec), *batch_arguments(spec), *part_arguments(spec)]
        return in_order(spec, integers)

    def walk(self, spec: ContractionSpec, given: SimpleNamespace, body: Body) -> None:
        """See `Walk`."""
        sizes = known_sizes(spec, given)
        row, column = block_at(spec, workgroup_id(0), sizes["n"])
        begin, end = part_of_k(spec, given, workgroup_id(2), sizes["k"])
        coordinates = batch_coordinates(spec, given)
        arrays = {name: in_batch(spec, name, getattr(given, name), given, coordinates) for name in spec.arrays}
        arrays |= {name: in_part(spec, arrays[name], given, workgroup_id(2)) for name in spec.outputs}
        body(Work(sizes, arrays, given, row, column, begin, end))


class StreamK:
    """Workgroups that stay share the steps along K of all blocks evenly (stream-K; Osama et al., 2023; CK Tile's
    StreamKTilePartitioner).

    They take the first `whole` blocks in turns; of the steps of the others each of the first `sharers` has `steps`, one
    behind the other, the first `longer` one more.
    """

    def arguments(self, spec: ContractionSpec) -> dict[str, Argument]:
        """See `Walk`."""
        integers = ["m", "n", "k", *distance_arguments(spec), "workgroups", "whole", "sharers", "steps", "longer"]
        spaces = {"flags": ptr("i32"), "sums": ptr(accumulator_type(spec.dtype))} if spec.gathers else {}
        return {**in_order(spec, integers), **spaces}

    def walk(self, spec: ContractionSpec, given: SimpleNamespace, body: Body) -> None:
        """See `Walk`."""
        sizes = known_sizes(spec, given)
        depth, own = count_blocks(sizes["k"], spec.block[2]).maximum(1), workgroup_id(0)
        shared = given.whole * depth

        def first_of(workgroup: Scalar) -> Scalar:
            own = workgroup.minimum(given.sharers)
            found: Scalar = shared + own * given.steps + own.minimum(given.longer)
            return found

        def who_has(step: Scalar) -> Scalar:
            place, long = step - shared, given.steps + 1
            among_longer: Scalar = place // long
            others = (place - given.longer) // given.steps.maximum(1)
            found: Scalar = (place < given.longer * long).select(among_longer, others)
            return found

        first, last = first_of(own), first_of(own + 1)
        start = (own < given.whole).select(own * depth, first)
        with while_loop(lambda at: (at < shared) | (at < last), carry=[start]) as turn:
            (at,) = turn.carried
            block = at // depth
            before, is_turn = block * depth, at < shared
            behind = before + depth
            end = is_turn.select(behind, behind.minimum(last))
            has_first = at.equals(before)
            share = Share(
                own, has_first & end.equals(behind), has_first, behind, first_of, partial(who_has, before)
            )
            row, column = block_at(spec, block, sizes["n"])
            arrays = {name: getattr(given, name) for name in spec.arrays}
            k = ((at - before) * spec.block[2], ((end - before) * spec.block[2]).minimum(sizes["k"]))
            body(Work(sizes, arrays, given, row, column, *k, share))
            following = at + given.workgroups * depth
            turn.carry(is_turn.select((following < shared).select(following, first), end))


WALKS: dict[str, Walk] = {
    "grid": Grid(),
    "table": Table(),
    "persistent": PersistentTable(),
    "stream_k": StreamK(),
    "experts": Experts(),
}
"""By the names of `ContractionSpec.walk`."""
