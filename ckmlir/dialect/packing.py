"""Elements of fewer bits than a byte: what they are, and how many of them share bytes.

Memory, LDS and registers hold such elements as bytes (i8). The lowest bits of the first byte are the first element:
two elements of fp4 (e2m1), i4 or u4 in a byte, four of fp6 (e2m3) or bf6 (e3m2) in three (CDNA4 ISA, "Data formats"; CK
Tile's pk_int4 of quantised products).
"""

from __future__ import annotations

from math import gcd

from msgspec import Struct

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


MULTIPLES = {"i8": 4, "f8E4M3FN": -9, "f8E4M3FNUZ": -10}
"""Element type -> the exponent of the power of two times which integers of 4 bits are made of the fewest instructions:
in the upper halves of bytes, with their sign; as denormals, which are as far apart as integers (OCP OFP8, 5.1)."""


def light_exponent(packing: Packing, element: str) -> int:
    """The exponent of the power of two times which elements become a type by the fewest instructions."""
    able = packing.is_integer and (packing.signed or element != "i8")
    return MULTIPLES.get(element, 0) if able else 0


def turns_packed(target: Target | None, packing: Packing | None) -> bool:
    """Whether the chip, if one is known, turns packed elements while it reads LDS."""
    turned = packing is not None and packing.bits == TURNED_BITS
    return turned and target is not None and target.has("lds_transpose_read")
