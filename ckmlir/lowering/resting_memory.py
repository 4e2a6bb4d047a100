"""Let freed LLVM instructions rest, so that the backend's output does not depend on the heap.

LLVM's Reassociate asks the uniformity analysis about instructions that it has just created. Of instructions that it
has erased that analysis forgets nothing, so a new one at the address of an erased one inherits its verdict, and sums
come out in another order, as the heap happens to be (llvm/llvm-project pull request 214719, "Invalidate stale
UniformityInfo entries on instruction erase"; the LLVM of the pinned bindings is older). The code computes the same,
but is not the same bytes.

The remedy is a stock of free pieces of just those sizes, made before the backend runs: glibc takes from the oldest
(malloc/malloc.c, "Small bins": first in, first out; the few pieces a thread keeps for itself are full of the stock's
when the backend starts), so that what is freed during a pass lies at the far end of a queue. Nothing is wrong where
another allocator is used, or the stock runs out: then only the order of sums may vary again.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import chain, repeat
from typing import Any

INSTRUCTION_BYTES = (104, 136)
"""What LLVM asks for a cast and for a binary operator: 72 bytes, and 32 a use. Sums have both as their terms: products,
and indices that are widened to 64 bits."""
INTEGER_ARITHMETIC = frozenset({
    "llvm.add", "llvm.sub", "llvm.mul", "llvm.udiv", "llvm.sdiv", "llvm.urem", "llvm.srem", "llvm.and", "llvm.or",
    "llvm.xor", "llvm.shl", "llvm.lshr", "llvm.ashr", "llvm.zext", "llvm.sext", "llvm.trunc",
})  # fmt: skip
"""What Reassociate makes anew: all that it may do without leave to round otherwise."""
PIECES_PER_OPERATION = 4
LEAST_PIECES, LEAST_WITH_BRANCHES = 128, 1024
"""From trials with a heap in disorder: one for each of 240 operations of a table of offsets is too little, one and a
half are enough; 500 are too little for a small loop that is unrolled, 700 enough; without branches nothing is unrolled,
and 48 were enough for 40 drawn kernels of up to 31 operations. A piece costs about a microsecond."""
SORTED_FROM = 1 << 16
"""A request of this size makes malloc sort what was freed into its queues ("Large bins" begin far below)."""
KEPT_BY_THE_HEAP = 16 << 20
"""Twice of this may be free at the end of the heap before glibc gives it back to the system. It takes the largest block
that was freed for the measure (mallopt(3), "M_MMAP_THRESHOLD"), and begins with so little that each compilation of a
norm would ask for the same thousand pages again, a twentieth of its time. Most programs free a block of this size
anyway."""


@contextmanager
def resting_memory(operations: int, branches: bool) -> Iterator[None]:
    """Inside, memory of erased instructions is not handed out again soon.

    Args:
        operations: of INTEGER_ARITHMETIC in the kernel.
        branches: whether it has more than one block, and so perhaps loops.
    """
    heap = glibc_heap()
    if heap is None:
        yield
        return
    allocate, free = heap
    stock = max(LEAST_WITH_BRANCHES if branches else LEAST_PIECES, PIECES_PER_OPERATION * operations)
    pieces = [*chain.from_iterable(map(allocate, repeat(size, 2 * stock)) for size in INSTRUCTION_BYTES)]
    deque(map(free, pieces[::2]), maxlen=0)  # the other half keeps free pieces from being joined
    free(allocate(SORTED_FROM))
    try:
        yield
    finally:
        deque(map(free, pieces[1::2]), maxlen=0)


@cache
def glibc_heap() -> tuple[Any, Any] | None:
    """malloc and free where they are glibc's, called without giving up Python's lock, which would cost more.

    malloc's argument has no declared type: a call takes three fifths of the time, and sizes here fit into the int of
    C that it passes.
    """
    library = ctypes.PyDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return None
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes, library.free.restype = [ctypes.c_void_p], None
    library.free(library.malloc(KEPT_BY_THE_HEAP))
    return library.malloc, library.free
