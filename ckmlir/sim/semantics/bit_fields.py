"""Small elements in a row of 32-bit registers: taking them out and putting them together."""

from __future__ import annotations

from collections.abc import Sequence

from ckmlir.sim.builder import Builder, Value


def bit_field(words: Sequence[Value], element: int, bits: int) -> Value:
    """Element number `element` of elements of `bits` bits that follow each other through u32 words; a u32."""
    first = element * bits
    low = words[first // 32] >> (first % 32) if first % 32 else words[first // 32]
    if first % 32 + bits > 32:
        low = low | (words[first // 32 + 1] << (32 - first % 32))
    return low & ((1 << bits) - 1) if bits < 32 else low


def packed_fields(b: Builder, elements: Sequence[Value], bits: int) -> list[Value]:
    """The u32 words that hold elements of `bits` bits (u32, upper bits zero) one after another."""
    words = [b.u32(0)] * (len(elements) * bits // 32)
    for number, element in enumerate(elements):
        first = number * bits
        words[first // 32] = words[first // 32] | (element << (first % 32) if first % 32 else element)
        if first % 32 + bits > 32:
            words[first // 32 + 1] = words[first // 32 + 1] | (element >> (32 - first % 32))
    return words
