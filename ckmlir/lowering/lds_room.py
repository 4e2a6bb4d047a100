"""How much LDS a workgroup reserves, and whether its tensors lie there as accesses take for granted.

ck-allocate-lds sees to both. IR that people change behind it, or write themselves, need not be so, and the addresses
that would be lowered from it are wrong without a word.
"""

from __future__ import annotations

from collections.abc import Iterable

from ckmlir.dialect.build import integer_of
from ckmlir.dialect.fragment_lds import ALIGNMENT, tensor_bytes
from ckmlir.mlir import ir
from ckmlir.passes.allocate_lds import LDS_BYTES, name_of
from ckmlir.passes.framework import fail
from ckmlir.targets import Target


def reserved_lds(function: ir.Operation, allocations: Iterable[ir.Operation], target: Target) -> int:
    """The bytes of LDS that a kernel reserves, with room for its allocations; PassFailure where they have none."""
    try:
        reserved = integer_of(function, LDS_BYTES) if LDS_BYTES in function.attributes else 0
    except ValueError as problem:
        fail(function, str(problem))
    if not 0 <= reserved <= target.lds_bytes:
        fail(function, f"reserves {reserved} bytes of LDS ({LDS_BYTES}); {target.name} has {target.lds_bytes}")
    for op in allocations:
        try:
            start = integer_of(op, "offset")
        except ValueError as problem:
            fail(op, f"{problem}: run ck-allocate-lds before ck-lower-fragments")
        if start % ALIGNMENT:
            fail(
                op,
                f"{name_of(op)} begins at byte {start} of LDS; accesses take up to {ALIGNMENT} bytes at a time, so its "
                f"offset has to be a multiple of {ALIGNMENT}",
            )
        end = start + tensor_bytes(op)
        if end > reserved:
            taken = f"{name_of(op)} takes bytes {start} to {end - 1} of LDS"
            fail(op, f"{taken}; the kernel reserves {reserved} ({LDS_BYTES})")
    return reserved
