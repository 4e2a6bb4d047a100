"""Vectors as memory instructions move them: one integer, or a vector of dwords, of the same bits."""

from ckmlir.dialect.build import value
from ckmlir.dialect.scalars import bits, name_of
from ckmlir.mlir import ir


def bytes_of(fragment: ir.Type) -> int:
    """Bytes of a vector."""
    return int(fragment.shape[0]) * bits(fragment.element_type) // 8


def storage_of(fragment: ir.Type) -> ir.Type:
    """i8, i16, i32, or a vector of i32 with the bits of a vector.

    Raises:
        ValueError: no memory instruction moves so many bytes.
    """
    size = bytes_of(fragment)
    if size in (1, 2, 4):
        return ir.IntegerType.get_signless(8 * size)
    if size in (8, 12, 16):
        return ir.VectorType.get([size // 4], ir.IntegerType.get_signless(32))
    raise ValueError(f"no memory instruction moves {size} bytes a lane ({fragment})")


def integers_of(fragment: ir.Type) -> ir.Type:
    """The same vector with integer elements where LLVM has no such floating-point type."""
    if name_of(fragment.element_type).startswith("f8"):
        return ir.VectorType.get(fragment.shape, ir.IntegerType.get_signless(8))
    return fragment


def from_storage(raw: ir.Value, fragment: ir.Type) -> ir.Value:
    """A loaded value, or dwords, as the fragment that it is."""
    return as_fragment(bitcast(raw, integers_of(fragment)), fragment)


def to_storage(fragment: ir.Value) -> ir.Value:
    """A fragment as memory instructions take it."""
    return bitcast(as_integers(fragment), storage_of(fragment.type))


def as_fragment(integers: ir.Value, fragment: ir.Type) -> ir.Value:
    """Integer elements as 8-bit floats, where the fragment has those."""
    return integers if integers.type == fragment else value("arith.bitcast", fragment, [integers])


def as_integers(fragment: ir.Value) -> ir.Value:
    """8-bit floats as integers; other vectors as they are."""
    type_ = integers_of(fragment.type)
    return fragment if type_ == fragment.type else value("arith.bitcast", type_, [fragment])


def bitcast(source: ir.Value, type_: ir.Type) -> ir.Value:
    """The same bits as another type."""
    return source if source.type == type_ else value("llvm.bitcast", type_, [source])
