"""The walks through the blocks of products that a table in memory lists."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from ckmlir.lang import Pointer, Scalar, exit_unless, i32, ptr, when, while_loop, workgroup_id
from ckmlir.lang.carried import Carried
from ckmlir.lang.kernel import Argument
from ckmlir.lang.values import as_scalar
from ckmlir.ops.arrays import ALIGNMENT
from ckmlir.ops.contraction.contraction_spec import SCALARS, ContractionSpec, computing_type
from ckmlir.ops.contraction.merged_kernel import distance_arguments
from ckmlir.ops.contraction.parts_kernel import in_part, part_arguments, part_of_k
from ckmlir.ops.contraction.side import MOST, NAMES
from ckmlir.ops.contraction.work_kernel import (
    Body,
    Work,
    align_of,
    begun_if,
    block_at,
    count_blocks,
    element_types,
    known_sizes,
)
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.listed_search import Listed


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
        block, begins = workgroup_id(0), _begins(spec, given)
        asked = begins.first_asked()
        exit_unless(block < _first_block(spec, given, given.products))
        product = begins.last(block, asked)
        work = self._listed(spec, given, product, block)
        body(_completed(spec, given, product, work))

    def _listed(self, spec: ContractionSpec, given: SimpleNamespace, product: Scalar, block: Scalar) -> Work:
        """The block of a number among all, of a known product; without what is read behind its sums."""
        told = ("first", "m", "n", "k", *_early(spec, distance_arguments(spec)), *part_arguments(spec))
        fields = SimpleNamespace(**{name: _entry(spec, given, product, name) for name in told})
        sizes = known_sizes(spec, fields)
        place, part = block - fields.first, None
        if spec.sink != "store":
            blocks = count_blocks(sizes["m"], spec.block[0]) * count_blocks(sizes["n"], spec.block[1])
            part, place = place // blocks, place % blocks
        at_row, at_column = block_at(spec, place, sizes["n"])
        begin, end = part_of_k(spec, fields, part, sizes["k"])
        pointers = {name: _pointer(spec, given, product, name) for name in _early(spec, spec.arrays)}
        pointers |= {name: in_part(spec, pointers[name], fields, part) for name in _early(spec, spec.outputs)}
        return Work(sizes, pointers, fields, at_row, at_column, begin, end)


class PersistentTable(Table):
    """The blocks of a table's products in turns, by workgroups that stay. Each turn goes through them the other way
    than the one before: where blocks become shorter along the table, who has had a long one gets a short one next.

    What a block is, and what its first step loads, is on its way before the block of the turn before is written. What
    only an expression needs is read behind a block's sums: scalar registers would hold it through their loop. Where
    that needs many (`_is_crowded`), the next block's numbers are read once more behind it.
    """

    def arguments(self, spec: ContractionSpec) -> dict[str, Argument]:
        """See `Walk`."""
        return {**super().arguments(spec), "workgroups": i32}

    def walk(self, spec: ContractionSpec, given: SimpleNamespace, body: Body) -> None:
        """See `Walk`."""
        begins, own = _begins(spec, given), workgroup_id(0)
        asked = begins.first_asked()
        end = _first_block(spec, given, given.products)
        exit_unless(own < end)
        product = begins.last(own, asked)
        work = self._listed(spec, given, product, own)
        start, begun = [product, *_handed(spec, work)], begun_if(own < end, body, work)
        with while_loop(lambda first, place, end, *_: first + place < end, carry=[0, own, end, *start, *begun]) as turn:
            first, place, end, *carried = turn.carried
            own_part, there = carried[: len(start)], carried[len(start) :]
            work = _resumed(spec, own_part[1:])
            sums = body.sums(work, there)
            first, place = first + given.workgroups, given.workgroups - 1 - place
            end = self._end(spec, given, end)
            with when(first + place < end, otherwise=own_part) as goes_on:
                product = begins.last(first + place, asked)
                goes_on.give(product, *_handed(spec, self._listed(spec, given, product, first + place)))
            following = goes_on.results
            there = begun_if(first + place < end, body, _resumed(spec, following[1:]))
            body.finish(_completed(spec, given, own_part[0], work), sums)
            if _is_crowded(spec):
                first, product = first.anew(), following[0].anew()
                end = self._end(spec, given, end)
                following = [product, *_handed(spec, self._listed(spec, given, product, first + place))]
            turn.carry(first, place, end, *following, *there)

    def _end(self, spec: ContractionSpec, given: SimpleNamespace, end: Scalar) -> Scalar:
        """The number of blocks, read again where what is behind the sums is crowded."""
        return _first_block(spec, given, given.products.anew()) if _is_crowded(spec) else end


def _is_crowded(spec: ContractionSpec) -> bool:
    """Whether what is behind the sums needs the scalar registers that the next block's numbers would take: single
    elements of C beside D tensors, and four D tensors. A turn then reads the next block's numbers when it is done.
    """
    return bool(spec.side) and (spec.align[2] == 1 or len(spec.side) == MOST)


def _handed(spec: ContractionSpec, work: Work) -> list[Carried]:
    """A piece of work as what a loop carries."""
    told = [getattr(work.distances, name) for name in _early(spec, distance_arguments(spec))]
    part = [] if spec.sink == "store" else [as_scalar(work.begin, work.end.type), work.end]
    return [*work.sizes.values(), *told, *work.arrays.values(), work.row, work.column, *part]


def _resumed(spec: ContractionSpec, handed: Sequence[Any]) -> Work:
    """The inverse of `_handed`."""
    values = iter(handed)
    told = (*"mnk", *_early(spec, distance_arguments(spec)))
    fields = SimpleNamespace(**{name: next(values) for name in told})
    sizes = known_sizes(spec, fields)
    arrays = {name: next(values) for name in _early(spec, spec.arrays)}
    row, column = (next(values).multiple_of(length) for length in spec.block[:2])
    begin, end = (next(values).multiple_of(spec.block[2]), next(values)) if spec.sink != "store" else (0, sizes["k"])
    return Work(sizes, arrays, fields, row, column, begin, end)


def _completed(spec: ContractionSpec, given: SimpleNamespace, product: Scalar, work: Work) -> Work:
    """A piece of work with what is read behind its sums."""
    late = _read_late(spec)
    pitches = {name: _entry(spec, given, product, name) for name in distance_arguments(spec) if name in late}
    numbers = {name: _number(spec, given, product, name) for name in numbers_of(spec)}
    arrays = {name: _pointer(spec, given, product, name) for name in spec.arrays if name in late}
    fields = SimpleNamespace(**vars(work.distances), **pitches, **numbers)
    return replace(work, arrays={**work.arrays, **arrays}, distances=fields)


def _read_late(spec: ContractionSpec) -> frozenset[str]:
    """The arrays that are read behind the sums, and how their rows lie: those of an expression, and with them what is
    written, where its place does not depend on a part.
    """
    sides = NAMES[: len(spec.side)]
    written = spec.outputs if sides and spec.sink == "store" else ()
    return frozenset((*sides, *(f"ld_{name}" for name in sides), *written, *(f"ld{name}" for name in written)))


def _early(spec: ContractionSpec, names: Sequence[str]) -> list[str]:
    """Those names that are not read late."""
    late = _read_late(spec)
    return [name for name in names if name not in late]


# -- the table -------------------------------------------------------------------------------------------------------


def _columns(spec: ContractionSpec) -> tuple[str, ...]:
    lies = (*distance_arguments(spec), *part_arguments(spec))
    return ("first", "m", "n", "k", *lies, *numbers_of(spec), *spec.arrays)


def numbers_of(spec: ContractionSpec) -> tuple[str, ...]:
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


def _pointer(spec: ContractionSpec, given: SimpleNamespace, product: Scalar, name: str) -> Pointer:
    """Where an array of a product begins: within an array of all products no better aligned than its rows are."""
    columns, kind = _columns(spec), element_types(spec)[name]
    within = name in (*spec.tensors, *spec.outputs)
    aligned = align_of(spec, name) * find_dtype(kind).bytes if within else ALIGNMENT
    found: Pointer = given.table.pointer(product * len(columns) + columns.index(name), kind, alignment=aligned)
    return found


def _begins(spec: ContractionSpec, given: SimpleNamespace) -> Listed:
    """The numbers of the products' first blocks."""
    columns = _columns(spec)
    numbers = given.table.to("i32").offset(2 * columns.index("first"))
    return Listed(numbers, given.products, spec.wave_count, 2 * len(columns))


def _first_block(spec: ContractionSpec, given: SimpleNamespace, product: Scalar) -> Scalar:
    return _entry(spec, given, product, "first")
