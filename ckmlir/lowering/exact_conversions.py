"""Conversions that round nothing: elements of packed types, as f32, to bf16.

Elements of 6 and 4 bits have no more digits than bf16, so that it is the upper half of each, where chips have no
instruction that rounds: half a vector instruction for each, 1.5 with the rounding of bounded numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ckmlir.dialect.build import producer
from ckmlir.dialect.scalars import name_of
from ckmlir.mlir import ir

EXACT = "ck.exact"
"""Set on conversions to bf16 of numbers that this holds as they are."""
UNPACK = "ck.unpack_fragment"
TAKING = ("vector.extract_strided_slice", "vector.shuffle", "vector.extract", "vector.from_elements")
"""What computes nothing: which elements there are, and in which order."""


def mark_exact(conversions: Sequence[ir.Operation]) -> None:
    """Mark conversions to bf16 whose elements all come from packed types."""
    for op in conversions:
        if name_of(op.results[0].type.element_type) == "bf16" and _is_unpacked(op.operands[0]):
            op.attributes[EXACT] = ir.UnitAttr.get(op.context)


def _is_unpacked(source: ir.Value) -> bool:
    """Whether all elements of a vector are elements of a packed type as f32."""
    owner = producer(source)
    if owner is not None and owner.name in TAKING:
        return all(map(_is_unpacked, owner.operands))
    return owner is not None and owner.name == UNPACK and name_of(source.type.element_type) == "f32"
