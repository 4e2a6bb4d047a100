"""Splitting of conversions between bytes and the packed elements in them."""

from collections.abc import Callable
from functools import partial
from math import gcd

from ckmlir.dialect import dequantize, packed
from ckmlir.dialect.build import text_of
from ckmlir.dialect.types import tile_of
from ckmlir.mlir import ir
from ckmlir.passes.registers import Registers
from ckmlir.passes.split_state import SplitState

Conversion = Callable[[ir.Value, str], ir.Value]

AT_ONCE = {"fp4": 16, "fp6": 24, "bf6": 24, "i4": 16, "u4": 16}
"""Bytes of a conversion, at most: a vector of memory's, and what instructions for six bits convert."""


def split_unpack(state: SplitState, op: ir.Operation) -> None:
    """A conversion for every vector of bytes."""
    name, source = text_of(op, "format"), state.of(op.operands[0])
    conversion = partial(packed.unpack_fragment, element=tile_of(op.results[0]).element)
    _convert(state, op, source, gcd(source.count, AT_ONCE[name]), conversion)


def split_dequantize(state: SplitState, op: ir.Operation) -> None:
    """The same with what stands beside the bytes of a vector."""
    packing, parts = packed.packing_of(op), dequantize.operands_of(op)
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
    name, source, packing = text_of(op, "format"), state.of(op.operands[0]), packed.packing_of(op)
    bytes_ = gcd(packing.size(source.count), AT_ONCE[name])
    _convert(state, op, source, packing.count(bytes_), packed.pack_fragment)


def _convert(state: SplitState, op: ir.Operation, source: Registers, chunk: int, conversion: Conversion) -> None:
    name = text_of(op, "format")
    chunks = [conversion(part, name) for part in source.rechunked(chunk).chunks]
    state.bind(op.results[0], Registers(chunks, chunks[0].type.shape[0], tile_of(op.results[0]).element))
