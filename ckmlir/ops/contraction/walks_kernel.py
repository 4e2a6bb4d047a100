"""Which block of which product a workgroup computes, and which part of its sums: the walks, by name.

A walk says what a kernel's arguments are besides the numbers of its expression, and calls the body, which computes and
stores one block, where a workgroup has one to do: once, or in turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace

from ckmlir.lang import Pointer, Scalar, exit_unless, i32, ptr, while_loop, workgroup_id
from ckmlir.lang.kernel import Argument
from ckmlir.ops.contraction.contraction_spec import SCALARS, ContractionSpec, accumulator_type, computing_type
from ckmlir.ops.contraction.experts_kernel import Experts
from ckmlir.ops.contraction.merged_kernel import distance_arguments
from ckmlir.ops.contraction.work_kernel import (
    Body,
    Share,
    Walk,
    Work,
    align_of,
    block_at,
    count_blocks,
    element_types,
    known_sizes,
)


class Grid:
    """A workgroup for each block, along x; for each product of a batch, along y; for each part of K, along z."""

    def arguments(self, spec: ContractionSpec) -> dict[str, Argument]:
        """See `Walk`."""
        integers = ["m", "n", "k", *distance_arguments(spec), *batch_arguments(spec), *part_arguments(spec)]
        pointers = {name: ptr(dtype) for name, dtype in element_types(spec).items()}
        return {**pointers, **dict.fromkeys(integers, i32)}

    def walk(self, spec: ContractionSpec, given: SimpleNamespace, body: Body) -> None:
        """See `Walk`."""
        sizes = known_sizes(spec, given)
        row, column = block_at(spec, workgroup_id(0), sizes["n"])
        begin, end = part_of_k(spec, given, workgroup_id(2), sizes["k"])
        coordinates = batch_coordinates(spec, given)
        arrays = {name: in_batch(spec, name, getattr(given, name), given, coordinates) for name in spec.arrays}
        arrays |= {name: in_part(spec, arrays[name], given, workgroup_id(2)) for name in spec.outputs}
        body(Work(sizes, arrays, given, row, column, begin, end))


class Table:
    """A workgroup for each block of the products that a table in memory lists.

    The table (products + 1, columns) of i64 has for each product the number of its first block among all, m, n, k, how
    rows lie (`distance_arguments`), of parts their length along k and their distance (`part_arguments`), with an
    expression its numbers (the bits of an f64, or of an f32 below 32 zeros), and where its arrays begin, in the order
    of `ContractionSpec.arrays`. The last row has the number of blocks. Blocks of a product are numbered row by row,
    part after part; a product may have none.
    """

    def arguments(self, spec: ContractionSpec) -> dict[str, Argument]:
        """See `Walk`."""
        return {"table": ptr("i64"), "products": i32}

    def walk(self, spec: ContractionSpec, given: SimpleNamespace, body: Body) -> None:
        """See `Walk`."""
        block = workgroup_id(0)
        exit_unless(block < _first_block(spec, given, given.products))
        body(self._listed(spec, given, block))

    def _listed(self, spec: ContractionSpec, given: SimpleNamespace, block: Scalar) -> Work:
        """The block of a number among all."""
        with while_loop(lambda found, behind: found + 1 < behind, carry=[0, given.products]) as search:
            found, behind = search.carried
            middle = (found + behind) // 2
            is_behind = block < _first_block(spec, given, middle)
            search.carry(is_behind.select(found, middle), is_behind.select(middle, behind))
        product = search.results[0]
        numbers, whole = _numbers(spec), _columns(spec)[: -len(spec.arrays)]
        row = {name: _entry(spec, given, product, name) for name in whole if name not in numbers}
        fields = SimpleNamespace(**row, **{name: _number(spec, given, product, name) for name in numbers})
        sizes = known_sizes(spec, fields)
        place, part = block - fields.first, None
        if spec.sink != "store":
            blocks = count_blocks(sizes["m"], spec.block[0]) * count_blocks(sizes["n"], spec.block[1])
            part, place = place // blocks, place % blocks
        at_row, at_column = block_at(spec, place, sizes["n"])
        begin, end = part_of_k(spec, fields, part, sizes["k"])
        pointers = {
            name: given.table.pointer(product * len(_columns(spec)) + _columns(spec).index(name), dtype)
            for name, dtype in element_types(spec).items()
        }
        pointers |= {name: in_part(spec, pointers[name], fields, part) for name in spec.outputs}
        return Work(sizes, pointers, fields, at_row, at_column, begin, end)


class PersistentTable(Table):
    """The blocks of a table's products in turns, by workgroups that stay. Each turn goes through them the other way
    than the one before: where blocks become shorter along the table, who has had a long one gets a short one next.
    """

    def arguments(self, spec: ContractionSpec) -> dict[str, Argument]:
        """See `Walk`."""
        return {**super().arguments(spec), "workgroups": i32}

    def walk(self, spec: ContractionSpec, given: SimpleNamespace, body: Body) -> None:
        """See `Walk`."""
        end = _first_block(spec, given, given.products)
        with while_loop(lambda first, place: first + place < end, carry=[0, workgroup_id(0)]) as turn:
            first, place = turn.carried
            body(self._listed(spec, given, first + place))
            turn.carry(first + given.workgroups, given.workgroups - 1 - place)


class StreamK:
    """Workgroups that stay share the steps along K of all blocks evenly (stream-K; Osama et al., 2023; CK Tile's
    StreamKTilePartitioner).

    They take the first `whole` blocks in turns; of the steps of the others each has `steps`, one behind the other, the
    first `longer` workgroups one more.
    """

    def arguments(self, spec: ContractionSpec) -> dict[str, Argument]:
        """See `Walk`."""
        pointers = {name: ptr(dtype) for name, dtype in element_types(spec).items()}
        integers = ["m", "n", "k", *distance_arguments(spec), "workgroups", "whole", "steps", "longer"]
        waits = spec.sink in ("linear", "tree")
        spaces = {"flags": ptr("i32"), "sums": ptr(accumulator_type(spec.dtype))} if waits else {}
        return {**pointers, **dict.fromkeys(integers, i32), **spaces}

    def walk(self, spec: ContractionSpec, given: SimpleNamespace, body: Body) -> None:
        """See `Walk`."""
        sizes = known_sizes(spec, given)
        depth, own = count_blocks(sizes["k"], spec.block[2]).maximum(1), workgroup_id(0)
        shared = given.whole * depth

        def first_of(workgroup: Scalar) -> Scalar:
            found: Scalar = shared + workgroup * given.steps + workgroup.minimum(given.longer)
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


# -- blocks and parts ------------------------------------------------------------------------------------------------


def part_of_k(
    spec: ContractionSpec, given: SimpleNamespace, part: Scalar | None, k: Scalar
) -> tuple[Scalar | int, Scalar]:
    """The range of K that a workgroup sums: all of it, or a part of `part_k`."""
    if spec.sink == "store" or part is None:
        return 0, k
    length = given.part_k.multiple_of(spec.block[2])
    begin = part * length
    return begin, (begin + length).minimum(k)


def in_part(spec: ContractionSpec, pointer: Pointer, given: SimpleNamespace, part: Scalar | None) -> Pointer:
    """Where an output of a part begins: partial sums lie behind those of the parts before it."""
    if spec.sink != "partial" or part is None:
        return pointer
    distance = part.to("i64") * given.part_outputs.to("i64")
    return pointer.offset(distance.multiple_of(spec.align[2]))


def part_arguments(spec: ContractionSpec) -> list[str]:
    """Kernel arguments that say how parts lie."""
    return {"store": [], "atomic": ["part_k"], "partial": ["part_k", "part_outputs"]}[spec.sink]


# -- the batch -------------------------------------------------------------------------------------------------------


def batch_coordinates(spec: ContractionSpec, given: SimpleNamespace) -> list[Scalar]:
    """This workgroup's place in each dimension of the batch, which is numbered along y, the last the fastest."""
    place = workgroup_id(1)
    found: list[Scalar] = []
    for dim in reversed(range(1, spec.batch)):
        length = getattr(given, f"batch{dim}")
        found.insert(0, place % length)
        place = place // length
    return [place, *found] if spec.batch else []


def in_batch(
    spec: ContractionSpec, name: str, pointer: Pointer, given: SimpleNamespace, coordinates: Sequence[Scalar]
) -> Pointer:
    """Where an array of this workgroup's product begins."""
    for dim, coordinate in enumerate(coordinates):
        stride = getattr(given, f"{name}_batch{dim}")
        pointer = pointer.offset((coordinate.to("i64") * stride.to("i64")).multiple_of(align_of(spec, name)))
    return pointer


def batch_arguments(spec: ContractionSpec) -> list[str]:
    """Kernel arguments that say how arrays lie in the batch."""
    lengths = [f"batch{dim}" for dim in range(1, spec.batch)]
    return [*lengths, *(f"{name}_batch{dim}" for name in spec.arrays for dim in range(spec.batch))]


# -- the table -------------------------------------------------------------------------------------------------------


def _columns(spec: ContractionSpec) -> tuple[str, ...]:
    lies = (*distance_arguments(spec), *part_arguments(spec))
    return ("first", "m", "n", "k", *lies, *_numbers(spec), *spec.arrays)


def _numbers(spec: ContractionSpec) -> tuple[str, ...]:
    return SCALARS if spec.op else ()


def _number(spec: ContractionSpec, given: SimpleNamespace, product: Scalar, name: str) -> Scalar:
    """A number of a product's expression."""
    columns, computing = _columns(spec), computing_type(spec.dtype)
    place = product * len(columns) + columns.index(name)
    number: Scalar = given.table.to(computing).scalar(place if computing == "f64" else place * 2)
    return number


def _entry(spec: ContractionSpec, given: SimpleNamespace, product: Scalar, name: str) -> Scalar:
    """A number of a product of the table."""
    columns = _columns(spec)
    entry: Scalar = given.table.scalar(product * len(columns) + columns.index(name))
    number: Scalar = entry.to("i32")
    return number


def _first_block(spec: ContractionSpec, given: SimpleNamespace, product: Scalar) -> Scalar:
    return _entry(spec, given, product, "first")
