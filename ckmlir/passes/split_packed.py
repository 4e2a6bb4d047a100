"""Splitting of conversions between bytes and the packed elements in them, and of what turns these."""

from collections.abc import Callable
from functools import partial
from math import gcd

from ckmlir.dialect import dequantize, packed, packed_checks, repack
from ckmlir.dialect.build import text_of
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.types import tile_of
from ckmlir.mlir import ir
from ckmlir.passes.framework import fail
from ckmlir.passes.registers import Registers
from ckmlir.passes.split_state import SplitState

Conversion = Callable[[ir.Value, str], ir.Value]

AT_ONCE = {"fp4": 16, "fp6": 24, "bf6": 24, "i4": 16, "u4": 16}
"""Bytes of a conversion, at most: a vector of memory's, and what instructions for six bits convert."""


def split_unpack(state: SplitState, op: ir.Operation) -> None:
    """A conversion for every vector of bytes."""
    name, source = text_of(op, "format"), state.of(op.operands[0])
    element, exponent = tile_of(op.results[0]).element, packed.exponent_of(op)
    conversion = partial(packed.unpack_fragment, element=element, exponent=exponent)
    _convert(state, op, source, gcd(source.count, AT_ONCE[name]), conversion)


def split_dequantize(state: SplitState, op: ir.Operation) -> None:
    """The same with what stands beside the bytes of a vector."""
    packing, parts = packed_checks.packing_of(op), dequantize.operands_of(op)
    source, element = state.of(parts.octets), tile_of(op.results[0]).element
    chunk = gcd(source.count, AT_ONCE[text_of(op, "format")])
    count = packing.count(chunk)
    beside = [None if one is None else state.of(one).rechunked(count).chunks for one in (parts.zeros, parts.scales)]
    chunks = [
        dequantize.dequantize_fragment(octets, text_of(op, "format"), element, *(one and one[place] for one in beside))
        for place, octets in enumerate(source.rechunked(chunk).chunks)
    ]
    state.bind(op.results[0], Registers(chunks, count, element))


def split_pack(state: SplitState, op: ir.Operation) -> None:
    """A conversion for every vector of bytes."""
    name, source, packing = text_of(op, "format"), state.of(op.operands[0]), packed_checks.packing_of(op)
    bytes_ = gcd(packing.size(source.count), AT_ONCE[name])
    _convert(state, op, source, packing.count(bytes_), packed.pack_fragment)


def _convert(state: SplitState, op: ir.Operation, source: Registers, chunk: int, conversion: Conversion) -> None:
    name = text_of(op, "format")
    chunks = [conversion(part, name) for part in source.rechunked(chunk).chunks]
    state.bind(op.results[0], Registers(chunks, chunks[0].type.shape[0], tile_of(op.results[0]).element))


def split_repack(state: SplitState, op: ir.Operation) -> None:
    """A turn for every run of bytes that a thread has along the first dimension, and as many such runs along the other
    as elements fill bytes.
    """
    name, (before, after) = text_of(op, "format"), packed_checks.dimensions_of(op)
    packing = packed_checks.packing_of(op)
    source, result = tile_of(op.operands[0]).placed, tile_of(op.results[0]).placed
    if not repack.lie_alike(source, result, packing, before, after):
        fail(op, f"elements that lie as '{source}' would leave their threads to lie as '{result}'")
    registers, home, place = state.of(op.operands[0]), _numbers(source), _numbers(result)
    pieces = []
    for first, count in _runs(home, before, after, (packing.bytes, packing.elements), AT_ONCE[name]):
        taken = [
            home[_moved(_moved(first, after, row), before, byte)]
            for row in range(packing.elements) for byte in range(count)
        ]  # fmt: skip
        corner = _replaced(_replaced(first, before, packing.count(first[before])), after, packing.size(first[after]))
        numbers = [
            place[_moved(_moved(corner, before, element), after, byte)]
            for element in range(packing.count(count)) for byte in range(packing.bytes)
        ]  # fmt: skip
        pieces.append((numbers, repack.repack_fragment(registers.gather(taken), name)))
    state.bind(op.results[0], Registers.scatter(pieces, tile_of(op.results[0]).element))


Place = tuple[int, ...]


def _numbers(tile: Distribution) -> dict[Place, int]:
    """The registers of the first thread by their coordinates, to which other threads add the same for all of them."""
    return {tuple(map(int, place)): number for number, place in enumerate(tile.coordinates()[:, 0, 0, :].T)}


def _runs(
    home: dict[Place, int], before: int, after: int, block: tuple[int, int], most: int
) -> list[tuple[Place, int]]:
    """Where runs of bytes along `before` begin, and their lengths, whole blocks of each: of those that are first of
    their block along `after`.
    """
    size, rows = block
    found: list[tuple[Place, int]] = []
    for place in sorted(home, key=lambda one: (_replaced(one, before, 0), one[before])):
        if place[after] % rows or place[before] % size:
            continue
        if found and place == _moved(found[-1][0], before, found[-1][1]) and found[-1][1] + size <= most:
            found[-1] = (found[-1][0], found[-1][1] + size)
        else:
            found.append((place, size))
    return found


def _moved(place: Place, dim: int, by: int) -> Place:
    return _replaced(place, dim, place[dim] + by)


def _replaced(place: Place, dim: int, by: int) -> Place:
    return (*place[:dim], by, *place[dim + 1 :])
