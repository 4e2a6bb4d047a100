"""Which block of which product a workgroup computes, and which part of its sums: the walks, by name.

A walk says what a kernel's arguments are besides the numbers of its expression, and calls the body, which computes and
stores one block, where a workgroup has one to do: once, or in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Protocol

from ckmlir.lang import Pointer, Scalar, exit_unless, i32, ptr, while_loop, workgroup_id
from ckmlir.lang.kernel import Argument
from ckmlir.ops.contraction.contraction_spec import ContractionSpec, accumulator_type
from ckmlir.ops.contraction.merged_kernel import distance_arguments, known_divisors
from ckmlir.ops.contraction.side import NAMES, SideSpec
from ckmlir.ops.contraction.sources import ROWS, SourceSpec


@dataclass(frozen=True)
class Share:
    """A workgroup's part of the steps along K of a block, where workgroups share those of all blocks.

    Attributes:
        workgroup: its number.
        is_whole: whether it has all steps of the block.
        has_first: whether it has the block's first step.
        behind: the number of the step behind the block's last.
        first_of: the first step of a workgroup, by its number; that of the next is where it ends.
        first_workgroup: who has the block's first step.
    """

    workgroup: Scalar
    is_whole: Scalar
    has_first: Scalar
    behind: Scalar
    first_of: Callable[[Scalar], Scalar]
    first_workgroup: Callable[[], Scalar]


@dataclass(frozen=True)
class Work:
    """A block of a product, or a part of its sums.

    Attributes:
        sizes: m, n and k of the product, with what is known to divide them.
        arrays: where the product's arrays begin, by name; outputs of parts where those of this part do.
        distances: how rows lie in them, by the names of `distance_arguments`.
        row, column: where the block begins in C.
        begin, end: the range of K.
        share: where workgroups share the steps of blocks.
    """

    sizes: Mapping[str, Scalar]
    arrays: Mapping[str, Pointer]
    distances: SimpleNamespace
    row: Scalar
    column: Scalar
    begin: Scalar | int
    end: Scalar
    share: Share | None = None


Body = Callable[[Work], None]


class Walk(Protocol):
    """A way through the blocks."""

    def arguments(self, spec: ContractionSpec) -> dict[str, Argument]:
        """The kernel's arguments by name, in order."""

    def walk(self, spec: ContractionSpec, given: SimpleNamespace, body: Body) -> None:
        """Trace the kernel: the body for what this workgroup computes; `given` are the arguments."""


class Grid:
    """A workgroup for each block, along x; for each product of a batch, along y; for each part of K, along z."""

    def arguments(self, spec: ContractionSpec) -> dict[str, Argument]:
        """See `Walk`."""
        integers = ["m", "n", "k", *distance_arguments(spec), *_batch_arguments(spec), *_part_arguments(spec)]
        pointers = {name: ptr(dtype) for name, dtype in element_types(spec).items()}
        return {**pointers, **dict.fromkeys(integers, i32)}

    def walk(self, spec: ContractionSpec, given: SimpleNamespace, body: Body) -> None:
        """See `Walk`."""
        sizes = _divisors(spec, given)
        row, column = _block(spec, workgroup_id(0), sizes["n"])
        begin, end = _part_of_k(spec, given, workgroup_id(2), sizes["k"])
        coordinates = _batch_coordinates(spec, given)
        arrays = {name: _in_batch(spec, name, getattr(given, name), given, coordinates) for name in spec.arrays}
        arrays |= {name: _in_part(spec, arrays[name], given, workgroup_id(2)) for name in spec.outputs}
        body(Work(sizes, arrays, given, row, column, begin, end))


class Table:
    """A workgroup for each block of the products that a table in memory lists.

    The table (products + 1, columns) of i64 has for each product the number of its first block among all, m, n, k, how
    rows lie (`distance_arguments`), of parts their length along k and their distance (`_part_arguments`), and where its
    arrays begin, in the order of `ContractionSpec.arrays`. The last row has the number of blocks. Blocks of a product
    are numbered row by row, part after part; a product may have none.
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
        row = {name: _entry(spec, given, product, name) for name in _columns(spec)[: -len(spec.arrays)]}
        fields = SimpleNamespace(**row)
        sizes = _divisors(spec, fields)
        place, part = block - fields.first, None
        if spec.sink != "store":
            blocks = _blocks(sizes["m"], spec.block[0]) * _blocks(sizes["n"], spec.block[1])
            part, place = place // blocks, place % blocks
        at_row, at_column = _block(spec, place, sizes["n"])
        begin, end = _part_of_k(spec, fields, part, sizes["k"])
        pointers = {
            name: given.table.pointer(product * len(_columns(spec)) + _columns(spec).index(name), dtype)
            for name, dtype in element_types(spec).items()
        }
        pointers |= {name: _in_part(spec, pointers[name], fields, part) for name in spec.outputs}
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
        sizes = _divisors(spec, given)
        depth, own = _blocks(sizes["k"], spec.block[2]).maximum(1), workgroup_id(0)
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
            row, column = _block(spec, block, sizes["n"])
            arrays = {name: getattr(given, name) for name in spec.arrays}
            k = ((at - before) * spec.block[2], ((end - before) * spec.block[2]).minimum(sizes["k"]))
            body(Work(sizes, arrays, given, row, column, *k, share))
            following = at + given.workgroups * depth
            turn.carry(is_turn.select((following < shared).select(following, first), end))


WALKS: dict[str, Walk] = {"grid": Grid(), "table": Table(), "persistent": PersistentTable(), "stream_k": StreamK()}
"""By the names of `ContractionSpec.walk`."""


def element_types(spec: ContractionSpec) -> dict[str, str]:
    """Of every array, by name."""
    sides = {name: SideSpec.parse(text).dtype for name, text in zip(NAMES, spec.side, strict=False)}
    sources = {one.name: one.dtype for one in map(SourceSpec.parse, spec.sources)}
    return {**(sources or dict.fromkeys(spec.tensors, spec.stored)), **sides, **dict.fromkeys(spec.outputs, spec.out)}


# -- blocks and parts ------------------------------------------------------------------------------------------------


def _blocks(length: Scalar, step: int) -> Scalar:
    count: Scalar = (length + (step - 1)) // step
    return count


def _block(spec: ContractionSpec, place: Scalar, n: Scalar) -> tuple[Scalar, Scalar]:
    """First row and column of a block of C; blocks are numbered row by row."""
    bm, bn, _ = spec.block
    across = _blocks(n, bn)
    return place // across * bm, place % across * bn


def _part_of_k(
    spec: ContractionSpec, given: SimpleNamespace, part: Scalar | None, k: Scalar
) -> tuple[Scalar | int, Scalar]:
    """The range of K that a workgroup sums: all of it, or a part of `part_k`."""
    if spec.sink == "store" or part is None:
        return 0, k
    length = given.part_k.multiple_of(spec.block[2])
    begin = part * length
    return begin, (begin + length).minimum(k)


def _in_part(spec: ContractionSpec, pointer: Pointer, given: SimpleNamespace, part: Scalar | None) -> Pointer:
    """Where an output of a part begins: partial sums lie behind those of the parts before it."""
    if spec.sink != "partial" or part is None:
        return pointer
    distance = part.to("i64") * given.part_outputs.to("i64")
    return pointer.offset(distance.multiple_of(spec.align[2]))


def _part_arguments(spec: ContractionSpec) -> list[str]:
    """Kernel arguments that say how parts lie."""
    return {"store": [], "atomic": ["part_k"], "partial": ["part_k", "part_outputs"]}[spec.sink]


# -- the batch -------------------------------------------------------------------------------------------------------


def _batch_coordinates(spec: ContractionSpec, given: SimpleNamespace) -> list[Scalar]:
    """This workgroup's place in each dimension of the batch, which is numbered along y, the last the fastest."""
    place = workgroup_id(1)
    found: list[Scalar] = []
    for dim in reversed(range(1, spec.batch)):
        length = getattr(given, f"batch{dim}")
        found.insert(0, place % length)
        place = place // length
    return [place, *found] if spec.batch else []


def _in_batch(
    spec: ContractionSpec, name: str, pointer: Pointer, given: SimpleNamespace, coordinates: Sequence[Scalar]
) -> Pointer:
    """Where an array of this workgroup's product begins."""
    for dim, coordinate in enumerate(coordinates):
        stride = getattr(given, f"{name}_batch{dim}")
        pointer = pointer.offset((coordinate.to("i64") * stride.to("i64")).multiple_of(_align(spec, name)))
    return pointer


def _batch_arguments(spec: ContractionSpec) -> list[str]:
    """Kernel arguments that say how arrays lie in the batch."""
    lengths = [f"batch{dim}" for dim in range(1, spec.batch)]
    return [*lengths, *(f"{name}_batch{dim}" for name in spec.arrays for dim in range(spec.batch))]


# -- the table -------------------------------------------------------------------------------------------------------


def _columns(spec: ContractionSpec) -> tuple[str, ...]:
    return ("first", "m", "n", "k", *distance_arguments(spec), *_part_arguments(spec), *spec.arrays)


def _entry(spec: ContractionSpec, given: SimpleNamespace, product: Scalar, name: str) -> Scalar:
    """A number of a product of the table."""
    columns = _columns(spec)
    entry: Scalar = given.table.scalar(product * len(columns) + columns.index(name))
    number: Scalar = entry.to("i32")
    return number


def _first_block(spec: ContractionSpec, given: SimpleNamespace, product: Scalar) -> Scalar:
    return _entry(spec, given, product, "first")


# -- what is known of lengths ----------------------------------------------------------------------------------------


def _align(spec: ContractionSpec, name: str) -> int:
    """Elements that divide the distances between rows of an array."""
    if spec.sources and name in spec.tensors:
        return SourceSpec.parse(spec.sources[spec.tensors.index(name)]).align
    if name in spec.tensors:
        return spec.align[0 if name == "a" else 1]
    return spec.align[2] if name in spec.outputs else SideSpec.parse(spec.side[NAMES.index(name)]).align


def _divisors(spec: ContractionSpec, given: SimpleNamespace) -> dict[str, Scalar]:
    """The sizes with what is known to divide them: the block, or the alignment of the rows that they are the
    length of.
    """
    known = known_divisors(spec) if spec.merged else dict.fromkeys("mnk", 1)
    rows = {0: "k" if spec.layout[0] == "R" else "m", 1: "n" if spec.layout[1] == "R" else "k", 2: "n"}
    if spec.shuffled:
        del rows[1]  # rows of tiles, filled up
    if spec.merged:
        rows.clear()
    elif spec.sources:
        rows = {2: "n"}  # sources say of themselves what they are aligned to
    for source in map(SourceSpec.parse, spec.sources):
        letter = "k" if source.form in ("along_k", "each_k") else ROWS[source.name[0]]
        known[letter] = max(known[letter], source.align)
    for operand, letter in rows.items():
        known[letter] = max(known[letter], spec.align[operand])
    for letter, length in zip("mnk", spec.block, strict=True):
        if letter not in spec.pad:
            known[letter] = length
    return {letter: getattr(given, letter).multiple_of(known[letter]) for letter in "mnk"}
