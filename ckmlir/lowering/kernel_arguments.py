"""Where a kernel's arguments lie in memory, and whether they fill too many scalar registers."""

from __future__ import annotations

import itertools
import math

from ckmlir.dialect.build import text_of
from ckmlir.dialect.scalars import bits, name_of
from ckmlir.mlir import ir

MANY = 256
"""Bytes beyond which arguments crowd out other numbers: they fill 64 of some 100 scalar registers. With fewer, reading
them again would wait for memory for nothing."""
POINTER_BYTES, DWORD = 8, 4
SEGMENT = "llvm.amdgcn.kernarg.segment.ptr"
"""The intrinsic that has the address of all arguments (AMDGPU user guide, "LLVM IR Intrinsics")."""


class KernelArguments:
    """A kernel's arguments in memory, each at a multiple of its size (AMDGPU user guide, "Kernel Argument Segment").

    Attributes:
        entry: the block that has them.
        offsets: of each, in bytes.
        bytes: of all.
    """

    def __init__(self, entry: ir.Block) -> None:
        self.entry = entry
        self.offsets: list[int] = []
        self.bytes = 0
        self._sizes = [size_of(argument.type) for argument in entry.arguments]
        for size in self._sizes:
            self.offsets.append(-(-self.bytes // size) * size)
            self.bytes = self.offsets[-1] + size

    @property
    def are_many(self) -> bool:
        """Whether there are more than scalar registers hold beside what else a kernel computes."""
        return self.bytes > MANY

    def within(self, dwords: int) -> int:
        """How many of them, from the first on, lie in so many dwords, each in whole ones of its own."""
        places = zip(self.offsets, self._sizes, strict=True)
        inside = (not size % DWORD and at + size <= DWORD * dwords for at, size in places)
        return sum(itertools.takewhile(bool, inside))


def is_segment(op: ir.Operation) -> bool:
    """Whether an operation has the address of all arguments. Other intrinsics are called as well, such as v_perm_b32,
    of which each lane has its own."""
    return op.name == "llvm.call_intrinsic" and text_of(op, "intrin") == SEGMENT


def size_of(type_: ir.Type) -> int:
    """Bytes of an argument."""
    if isinstance(type_, ir.VectorType):
        return size_of(type_.element_type) * math.prod(map(int, type_.shape))
    name = name_of(type_)  # kernels have the same few types over and over
    return POINTER_BYTES if name.startswith("!llvm.ptr") else -(-bits(name) // 8)
