"""Elements of fewer bits than a byte: how many of them share bytes, and how a tile of bytes lies as one of elements.

Memory, LDS and registers hold such elements as bytes (i8). The lowest bits of the first byte are the first element:
two elements of fp4 (e2m1), i4 or u4 in a byte, four of fp6 (e2m3) or bf6 (e3m2) in three (CDNA4 ISA, "Data formats"; CK
Tile's pk_int4 of quantised products). Elements follow each other along the last dimension of a tile; `repacked` has
tiles whose elements share bytes along another.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from msgspec import Struct

from ckmlir.dialect.distribution import REGISTER, Distribution
from ckmlir.targets import Target

TURNED_BITS = 4
"""Of packed elements that transposing reads of LDS are used for."""


class Packing(Struct, frozen=True):
    """A format of small floats: a sign, an exponent and a mantissa, neither infinities nor NaN; or of integers.

    Attributes:
        exponent, mantissa: bits of each; without an exponent the format is of integers, in two's complement where they
            are signed, and the mantissa has all bits but the sign's.
        bias: of the exponent.
        signed: whether there is a sign.
    """

    exponent: int
    mantissa: int
    bias: int
    signed: bool = True

    @property
    def bits(self) -> int:
        """Of an element."""
        return self.signed + self.exponent + self.mantissa

    @property
    def is_integer(self) -> bool:
        """Whether elements are integers."""
        return self.exponent == 0

    @property
    def elements(self) -> int:
        """The fewest that fill whole bytes."""
        return 8 // gcd(self.bits, 8)

    @property
    def bytes(self) -> int:
        """Those that they fill."""
        return self.bits // gcd(self.bits, 8)

    @property
    def largest(self) -> float:
        """The largest number."""
        if self.is_integer:
            return float((1 << self.mantissa) - 1)
        return (2.0 - 2.0**-self.mantissa) * 2.0 ** ((1 << self.exponent) - 1 - self.bias)

    @property
    def least(self) -> float:
        """The number that is farthest below the others."""
        return (-self.largest - self.is_integer) if self.signed else 0.0

    def count(self, bytes_: int) -> int:
        """Elements in so many bytes.

        Raises:
            ValueError: some elements would lie in them in part.
        """
        if bytes_ % self.bytes:
            raise ValueError(f"{bytes_} bytes hold elements of {self.bits} bits in part; expected {self.bytes}s")
        return bytes_ // self.bytes * self.elements

    def size(self, elements: int) -> int:
        """Bytes of so many elements.

        Raises:
            ValueError: they do not fill whole bytes.
        """
        if elements % self.elements:
            raise ValueError(
                f"{elements} elements of {self.bits} bits do not fill bytes; expected a multiple of {self.elements}"
            )
        return elements // self.elements * self.bytes


PACKED = {
    "fp4": Packing(2, 1, 1), "fp6": Packing(2, 3, 1), "bf6": Packing(3, 2, 3),
    "i4": Packing(0, 3, 0), "u4": Packing(0, 4, 0, signed=False),
}  # fmt: skip
"""The packed element types by name (OCP Microscaling Formats, 5.3: e2m1, e2m3, e3m2), and integers from -8 to 7 and
from 0 to 15."""


def elements_over(bytes_: Distribution, packing: Packing) -> Distribution:
    """How the elements lie of a tile of bytes.

    Raises:
        ValueError: a lane does not hold, in consecutive registers, all bytes that elements share.
    """
    return _resized(bytes_, packing.bytes, packing.elements, "bytes")


def bytes_over(elements: Distribution, packing: Packing) -> Distribution:
    """How the bytes lie of a tile of elements.

    Raises:
        ValueError: a lane does not hold, in consecutive registers, all elements that share bytes.
    """
    return _resized(elements, packing.elements, packing.bytes, "elements")


def repacked(tile: Distribution, packing: Packing, before: int, after: int) -> Distribution:
    """How the bytes lie of a tile whose elements share bytes along one dimension, when they share them along another:
    every element stays in its thread.

    Raises:
        ValueError: a lane does not hold, in consecutive registers, all bytes that elements share, or along the other
            dimension all elements that will.
    """
    elements = elements_along(tile, packing, before)
    last = elements.dims[after][-1] if elements.dims[after] else None
    if last is None or last.owner != REGISTER or last.length % packing.elements:
        raise ValueError(f"'{tile}' does not give lanes groups of {packing.elements} along d{after}")
    others = [place for place in range(len(elements.register_lengths)) if place != last.rank]
    return bytes_along(elements.with_register_order([*others, last.rank]), packing, after)


def elements_along(tile: Distribution, packing: Packing, dim: int) -> Distribution:
    """How the elements lie of a tile of bytes that they share along a dimension.

    Raises:
        ValueError: as `elements_over`.
    """
    return _last(dim, lambda one: elements_over(one, packing), tile)


def bytes_along(elements: Distribution, packing: Packing, dim: int) -> Distribution:
    """How the bytes lie of a tile of elements that share them along a dimension.

    Raises:
        ValueError: as `bytes_over`.
    """
    return _last(dim, lambda one: bytes_over(one, packing), elements)


def turns_packed(target: Target | None, packing: Packing | None) -> bool:
    """Whether the chip, if one is known, turns packed elements while it reads LDS."""
    turned = packing is not None and packing.bits == TURNED_BITS
    return turned and target is not None and target.has("lds_transpose_read")


def with_last(dim: int, rank: int) -> tuple[int, ...]:
    """The order of dimensions that has one as the last, the others as they were."""
    return (*(one for one in range(rank) if one != dim), dim)


def _last(dim: int, change: Callable[[Distribution], Distribution], tile: Distribution) -> Distribution:
    """A change of the last dimension, made to another."""
    order = with_last(dim, tile.rank)
    changed = change(tile.permute(order))
    return changed.permute([order.index(one) for one in range(tile.rank)])


def _resized(tile: Distribution, have: int, want: int, what: str) -> Distribution:
    """With groups of `have` registers along the last dimension as groups of `want`."""
    *outer, last = tile.dims
    if have == 1:
        return tile.expand(tile.rank, want).join(tile.rank - 1)
    fastest = len(tile.register_lengths) - 1
    factor = last[-1] if last else None
    if factor is None or (factor.owner, factor.rank) != (REGISTER, fastest) or factor.length % have:
        raise ValueError(f"'{tile}' does not give lanes groups of {have} {what} along the last dimension")
    changed = (*last[:-1], factor._replace(length=factor.length // have * want))
    return Distribution(tile.replicated, (*outer, changed))
