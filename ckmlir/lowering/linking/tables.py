"""The tables that a loader finds a code object's symbols by: string tables and both kinds of hash table.

Formats: System V ABI, chapter 5, "Hash Table"; for `.gnu.hash` the description in binutils' and LLVM's linkers, which
agree: https://sourceware.org/legacy-ml/binutils/2006-10/msg00377.html.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

BLOOM_WORD_BITS = 64
BLOOM_SHIFT = 26
BLOOM_BITS_PER_SYMBOL = 12
SYMBOLS_PER_BUCKET = 4


class Strings:
    """A string table under construction; equal strings are there once."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.content = bytearray(b"\0")
        self._places = {"": 0}
        for text in texts:
            self.place(text)

    def place(self, text: str) -> int:
        """Where `text` stands, after it was put there if need be."""
        if text not in self._places:
            self._places[text] = len(self.content)
            self.content += text.encode() + b"\0"
        return self._places[text]


def system_v_hash_table(names: Sequence[str]) -> bytes:
    """The `.hash` of symbols with these names, which begin with the one of no symbol."""
    count = len(names)
    buckets, chains = [0] * count, [0] * count
    for number, name in enumerate(names):
        if number:
            bucket = _system_v_hash(name) % count
            chains[number], buckets[bucket] = buckets[bucket], number
    return struct.pack(f"<{2 + 2 * count}I", count, count, *buckets, *chains)


def in_gnu_order(names: Sequence[str]) -> list[str]:
    """The order of symbols that `.gnu.hash` asks for: one bucket after the other."""
    buckets = _bucket_count(len(names))
    return sorted(names, key=lambda name: _gnu_hash(name) % buckets)


def gnu_hash_table(names: Sequence[str]) -> bytes:
    """The `.gnu.hash` of symbols with these names in its own order, without the one of no symbol, number 0."""
    hashes = [_gnu_hash(name) for name in names]
    count = _bucket_count(len(names))
    words = 1 << (len(names) * BLOOM_BITS_PER_SYMBOL // BLOOM_WORD_BITS).bit_length()
    bloom = [0] * words
    buckets = [0] * count
    chains = []
    for number, value in enumerate(hashes):
        bits = 1 << value % BLOOM_WORD_BITS | 1 << (value >> BLOOM_SHIFT) % BLOOM_WORD_BITS
        bloom[value // BLOOM_WORD_BITS % words] |= bits
        buckets[value % count] = buckets[value % count] or number + 1
        last = number + 1 == len(hashes) or hashes[number + 1] % count != value % count
        chains.append(value & ~1 | last)
    head = struct.pack("<4I", count, 1, words, BLOOM_SHIFT)
    return head + struct.pack(f"<{words}Q", *bloom) + struct.pack(f"<{count + len(chains)}I", *buckets, *chains)


def _bucket_count(symbols: int) -> int:
    return max(symbols // SYMBOLS_PER_BUCKET, 1)


def _gnu_hash(name: str) -> int:
    value = 5381
    for byte in name.encode():
        value = value * 33 + byte & 0xFFFFFFFF
    return value


def _system_v_hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value
