"""What an operation says of its tiles' distributions: which of them lie alike, and which follow from another.

`ck-infer-distributions` asks until nothing new follows. An operation that is missing here says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ckmlir.dialect.build import integer_of, registers_of
from ckmlir.dialect.control import STRUCTURED, same_values
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.packed_checks import dimensions_of, packing_of
from ckmlir.dialect.packed_tiles import bytes_over, elements_over, repacked
from ckmlir.dialect.regions import sources_of
from ckmlir.dialect.types import is_tile, tile_of
from ckmlir.mlir import ir

BY_ROWS = ("ck.rescale", "ck.cut")
"""What takes a tile's rows and an element for each."""
COPY = "ck.copy_to_lds"
INDEXED = {
    "ck.gather": 1, "ck.scatter": 2, "ck.atomic_scatter": 2, "ck.lds_gather": 1, "ck.lds_update": 2, COPY: 1,
}  # fmt: skip
"""Operations whose coordinate along an axis comes from a tile, and which operand that is."""
Tiles = Iterable[ir.Value]


class Link(NamedTuple):
    """How the distribution of one tile follows from that of another.

    Attributes:
        known, found: the tile whose distribution is given, and the one whose distribution follows.
        rule: from the one distribution to the other; raises ValueError where none follows.
    """

    known: ir.Value
    found: ir.Value
    rule: Callable[[Distribution], Distribution]


def lie_alike(op: ir.Operation) -> Iterator[list[ir.Value]]:
    """The tiles of an operation that need one distribution, set by set."""
    if op.name in STRUCTURED:
        yield from (values for values in same_values(op) if is_tile(values[0].type))
    elif op.name in ALIKE:
        yield from map(list, ALIKE[op.name](op))


def links_of(op: ir.Operation) -> tuple[Link, ...]:
    """Which of an operation's tiles follow from which others."""
    return LINKS[op.name](op) if op.name in LINKS else ()


def data_of(op: ir.Operation) -> ir.Value:
    """The tile whose elements an indexed access moves."""
    return op.results[0] if len(op.results) else op.operands[0]


def _sum_and_result(op: ir.Operation) -> Iterator[Tiles]:
    yield op.operands[2], op.results[0]


def _input_and_results(op: ir.Operation) -> Iterator[Tiles]:
    yield op.operands[0], *op.results


def _gathered(op: ir.Operation) -> Iterator[Tiles]:
    data = data_of(op)
    if len(tile_of(data).lengths) == 1:  # each element has an index of its own
        yield data, op.operands[INDEXED[op.name]]


def _updated(op: ir.Operation) -> Iterator[Tiles]:
    yield from _input_and_results(op)
    yield from _gathered(op)


ALIKE: dict[str, Callable[[ir.Operation], Iterable[Tiles]]] = {
    "ck.map": lambda op: [[*op.results, *sources_of(op)]],
    "ck.cast": _input_and_results,
    **dict.fromkeys(BY_ROWS, _input_and_results),
    "ck.mma": _sum_and_result,
    "ck.dequantize": lambda op: [[*list(op.operands)[1:], op.results[0]]],
    "ck.atomic_update": _input_and_results,
    "ck.atomic_scatter": _input_and_results,
    "ck.lds_gather": _gathered,
    "ck.lds_update": _updated,
    "ck.insert": lambda op: [[op.operands[1], op.results[0]]],
    "ck.scan": lambda op: [[*op.operands, *op.results]],
    "ck.reduce": lambda op: [op.operands, op.results],
}


def _reduced(op: ir.Operation) -> tuple[Link, ...]:
    axis = integer_of(op, "axis")
    return (Link(op.operands[0], op.results[0], lambda lies: lies.reduce(axis)),)


def _stretched(op: ir.Operation) -> tuple[Link, ...]:
    """The other way round a tile may be stretched in several ways."""
    axis = integer_of(op, "axis")
    return (Link(op.results[0], op.operands[0], lambda lies: lies.reduce(axis)),)


def _rows(op: ir.Operation) -> tuple[Link, ...]:
    return (Link(op.operands[0], op.operands[1], lambda lies: lies.reduce(1)),)


def _joined(op: ir.Operation) -> tuple[Link, ...]:
    source, result, axis = op.operands[0], op.results[0], integer_of(op, "axis")
    inner = tile_of(source).lengths[axis + 1]
    return (
        Link(source, result, lambda lies: lies.join(axis)),
        Link(result, source, lambda lies: lies.split(axis, inner)),
    )


def _permuted(op: ir.Operation) -> tuple[Link, ...]:
    source, result, order = op.operands[0], op.results[0], registers_of(op, "order")
    back = [order.index(dim) for dim in range(len(order))]
    return (
        Link(source, result, lambda lies: lies.permute(order)),
        Link(result, source, lambda lies: lies.permute(back)),
    )


def _packed(op: ir.Operation) -> tuple[Link, ...]:
    """Bytes from the elements in them, or those from the bytes."""
    source, result, packing = op.operands[0], op.results[0], packing_of(op)
    forth, back = (bytes_over, elements_over) if op.name == "ck.pack" else (elements_over, bytes_over)
    return (
        Link(source, result, lambda lies: forth(lies, packing)),
        Link(result, source, lambda lies: back(lies, packing)),
    )


def _repacked(op: ir.Operation) -> tuple[Link, ...]:
    """Elements stay in their threads."""
    source, result, packing, dims = op.operands[0], op.results[0], packing_of(op), dimensions_of(op)
    return (
        Link(source, result, lambda lies: repacked(lies, packing, *dims)),
        Link(result, source, lambda lies: repacked(lies, packing, *dims[::-1])),
    )


def _part(op: ir.Operation, whole: ir.Value, part: ir.Value) -> tuple[Link, ...]:
    axis, start = integer_of(op, "axis"), integer_of(op, "start")
    length = tile_of(part).lengths[axis]
    return (Link(whole, part, lambda lies: lies.slice(axis, start, length)[0]),)


def _indexed(op: ir.Operation) -> tuple[Link, ...]:
    axis = integer_of(op, "axis")
    return (Link(data_of(op), op.operands[INDEXED[op.name]], lambda lies: lies.along(axis)),)


LINKS: dict[str, Callable[[ir.Operation], tuple[Link, ...]]] = {
    "ck.reduce": _reduced,
    "ck.broadcast": _stretched,
    **dict.fromkeys(BY_ROWS, _rows),
    "ck.join_axes": _joined,
    "ck.permute_axes": _permuted,
    **dict.fromkeys(("ck.unpack", "ck.dequantize", "ck.pack"), _packed),
    "ck.repack": _repacked,
    "ck.slice": lambda op: _part(op, op.operands[0], op.results[0]),
    "ck.insert": lambda op: _part(op, op.results[0], op.operands[0]),
    **dict.fromkeys((name for name in INDEXED if name != COPY), _indexed),
}
