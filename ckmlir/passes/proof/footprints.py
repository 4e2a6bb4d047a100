"""Which bytes of LDS each wave touches with an access, evaluated from its distribution and layout.

Bytes are the bits of a Python integer, so that two accesses meet exactly where the conjunction is not zero.
"""

import math
from functools import lru_cache, reduce
from operator import or_

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ckmlir.dialect.build import integer_of, producer, registers_of, text_of
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import LdsType, describe
from ckmlir.mlir import ir

Numbers = npt.NDArray[np.int64]

WIDEST = 16
"""Bytes of the widest access to LDS."""
OPERAND = {
    "ck.lds_read": 0, "ck.lds_write": 1, "ck.copy_fragment": 1,
    "ck.lds_gather_fragment": 0, "ck.lds_update_fragment": 1,
}  # fmt: skip
"""The accesses to LDS, and which of their operands is the tensor."""
KINDS = {
    "ck.lds_read": "read", "ck.lds_write": "write", "ck.copy_fragment": "copy",
    "ck.lds_gather_fragment": "read", "ck.lds_update_fragment": "update",
}  # fmt: skip
INDEXED = ("ck.lds_gather_fragment", "ck.lds_update_fragment")
"""What may touch any element of its tensor."""
COMMUTING = ("add", "max")
"""Updates that give the same in any order."""


class Footprint(Struct, frozen=True):
    """An access to LDS: what it does ("read", "write", "copy", "update") and the bytes of each wave, as bits."""

    op: ir.Operation
    kind: str
    alloc: ir.Operation
    waves: tuple[int, ...]
    others: tuple[int, ...]
    """For every wave the bytes that the other waves touch."""

    @property
    def writes(self) -> bool:
        """Whether it changes LDS."""
        return self.kind != "read"

    @property
    def every(self) -> int:
        """The bytes that some wave touches."""
        return reduce(or_, self.waves)


def is_access(op: ir.Operation) -> bool:
    """Whether an operation reads or writes LDS."""
    return op.name in OPERAND


def finds(op: ir.Operation) -> bool:
    """Whether what an operation does depends on what LDS holds: a read, or a change of what is there."""
    return KINDS.get(op.name) in ("read", "update")


def changes(op: ir.Operation) -> bool:
    """Whether an operation changes what LDS holds."""
    return op.name in KINDS and KINDS[op.name] != "read"


def in_any_order(one: ir.Operation, other: ir.Operation) -> bool:
    """Whether two updates of a tensor may happen in either order: they are of one tile, or commute and nobody learns
    which came first.
    """
    if {KINDS.get(one.name), KINDS.get(other.name)} != {"update"}:
        return False
    kinds = text_of(one, "kind"), text_of(other, "kind")
    fetches = len(one.results) + len(other.results) > 0
    return kinds[0] == kinds[1] and ((kinds[0] in COMMUTING and not fetches) or "follows" in one.attributes)


def tensor_of(op: ir.Operation) -> ir.Operation:
    """The allocation that an access touches."""
    alloc = producer(op.operands[OPERAND[op.name]])
    assert alloc is not None, "LDS tensors are results of lds_alloc"
    return alloc


def value_operands(op: ir.Operation) -> list[ir.Value]:
    """The operands of an operation without the LDS tensor that it accesses."""
    skipped = OPERAND.get(op.name)
    return [operand for number, operand in enumerate(op.operands) if number != skipped]


def bytes_of(alloc: ir.Operation) -> tuple[int, int]:
    """First byte of an allocation and one past its last.

    Raises:
        ValueError: it has no offset yet, or no layout that can be read.
    """
    start = integer_of(alloc, "offset")
    rooms, size = _rooms(alloc)
    return start, start + (rooms - 1) * _distance(size) + size


def footprint(op: ir.Operation, waves: int) -> Footprint:
    """The bytes of an access in a workgroup of so many waves.

    Raises:
        ValueError: the allocation has no offset, or the distribution is for another number of waves.
    """
    alloc = tensor_of(op)
    distribution = Distribution.parse(text_of(op, "distribution"))
    if distribution.waves not in (1, waves):
        raise ValueError(f"its distribution is one over {distribution.waves} waves, the kernel has {waves}")
    kind, layout = KINDS[op.name], LdsLayout.parse(text_of(alloc, "layout"))
    if op.name in INDEXED:
        size = layout.elements * _element_bytes(alloc)
        every = ((1 << size) - 1 << integer_of(alloc, "offset"),) * waves
        return Footprint(op, kind, alloc, every, every if waves > 1 else (0,))
    found = _bytes_by_wave(layout, distribution, registers_of(op), _element_bytes(alloc), kind == "copy")
    start, rooms = integer_of(alloc, "offset"), [0] * waves
    if kind != "read" and _rooms(alloc)[0] > 1:
        rooms = [_copy(distribution, wave) * _distance(_rooms(alloc)[1]) for wave in range(waves)]
    every = found if len(found) == waves else found * waves
    shifted = tuple(one << start + room for one, room in zip(every, rooms, strict=True))
    others = tuple(reduce(or_, (one for other, one in enumerate(shifted) if other != wave), 0) for wave in range(waves))
    return Footprint(op, kind, alloc, shifted, others)


@lru_cache(maxsize=8192)
def _bytes_by_wave(
    layout: LdsLayout, distribution: Distribution, registers: tuple[int, ...], size: int, linear: bool
) -> tuple[int, ...]:
    """A copy writes lane behind lane, so its LDS side has no swizzle (`linear`)."""
    coordinates = distribution.coordinates()[..., list(registers)]  # [dimension, wave, lane, register]
    place = layout.place if linear else layout.offset
    offsets = np.asarray(place(list(coordinates))) * size
    return tuple(_bits_of(wave[..., None] + np.arange(size), layout.elements * size) for wave in offsets)


def _rooms(alloc: ir.Operation) -> tuple[int, int]:
    """How many copies of its tensor an allocation holds, and the bytes of one."""
    size = LdsLayout.parse(text_of(alloc, "layout")).elements * _element_bytes(alloc)
    return integer_of(alloc, "rooms") if "rooms" in alloc.attributes else 1, size


def _distance(size: int) -> int:
    """Bytes from one copy to the next: they begin where the widest access may."""
    return (size + WIDEST - 1) // WIDEST * WIDEST


def _copy(distribution: Distribution, wave: int) -> int:
    """The number of the copy that a wave writes, among the waves that hold the same elements."""
    digits = distribution.wave_copies()
    return sum(wave // digit.source_weight % digit.length * digit.weight for digit in digits)


def _element_bytes(alloc: ir.Operation) -> int:
    lds = describe(alloc.results[0].type)
    assert isinstance(lds, LdsType)
    return bits(lds.element) // 8


def span(mask: int) -> str:
    """Bytes of a mask in words: the range from its first to its last."""
    first = (mask & -mask).bit_length() - 1
    return f"bytes {first} to {mask.bit_length() - 1}"


def all_elements(alloc: ir.Operation) -> int:
    """The elements of a tensor, numbered row by row, as bits."""
    return (1 << math.prod(LdsLayout.parse(text_of(alloc, "layout")).lengths)) - 1


def elements_of(op: ir.Operation) -> int:
    """The elements of the tensor that an access reads or writes, as `all_elements` numbers them."""
    if op.name in INDEXED:
        return all_elements(tensor_of(op))
    distribution = Distribution.parse(text_of(op, "distribution"))
    if op.name != "ck.copy_fragment":
        return _elements(distribution, registers_of(op))
    return _copied(LdsLayout.parse(text_of(tensor_of(op), "layout")), distribution, registers_of(op))


@lru_cache(maxsize=8192)
def _elements(distribution: Distribution, registers: tuple[int, ...]) -> int:
    return _bits_of(distribution.elements()[..., list(registers)], math.prod(distribution.lengths))


@lru_cache(maxsize=8192)
def _copied(layout: LdsLayout, distribution: Distribution, registers: tuple[int, ...]) -> int:
    """A copy fills places of LDS; the elements are those that the layout has there."""
    coordinates = distribution.coordinates()[..., list(registers)]
    found = np.ravel_multi_index(tuple(np.asarray(one) for one in layout.element_at(list(coordinates))), layout.lengths)
    return _bits_of(found, math.prod(layout.lengths))


def _bits_of(numbers: Numbers, count: int) -> int:
    touched = np.zeros(count, dtype=np.uint8)
    touched[np.ravel(numbers)] = 1
    return int.from_bytes(np.packbits(touched, bitorder="little").tobytes(), "little")
