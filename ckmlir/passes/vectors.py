"""Builtin vectors of one thread: taking them apart and putting them together."""

from collections.abc import Sequence

from ckmlir.dialect.build import constant_value, producer, value
from ckmlir.mlir import ir

SLICE, SHUFFLE = "vector.extract_strided_slice", "vector.shuffle"


def vector_type(length: int, element: ir.Type) -> ir.Type:
    """`vector<length x element>`."""
    return ir.VectorType.get([length], element)


def length_of(vector: ir.Value) -> int:
    """Number of elements."""
    return int(vector.type.shape[0])


def part(vector: ir.Value, start: int, length: int) -> ir.Value:
    """Elements [start, start + length); of a splat a shorter splat."""
    if start == 0 and length == length_of(vector):
        return vector
    owner = producer(vector)
    if owner is not None and owner.name == "vector.broadcast":
        return splat(owner.operands[0], length)
    i64 = ir.IntegerType.get_signless(64)
    array = {
        name: ir.ArrayAttr.get([ir.IntegerAttr.get(i64, number)])
        for name, number in (("offsets", start), ("sizes", length), ("strides", 1))
    }
    return value(SLICE, vector_type(length, vector.type.element_type), [vector], array)


def element(vector: ir.Value, position: int) -> ir.Value:
    """One element as a scalar."""
    return value(
        "vector.extract", vector.type.element_type, [vector], {"static_position": ir.DenseI64ArrayAttr.get([position])}
    )


def shuffle(left: ir.Value, right: ir.Value, positions: Sequence[int]) -> ir.Value:
    """Elements of two vectors of one type; positions count through `left`, then `right`."""
    return value(
        SHUFFLE,
        vector_type(len(positions), left.type.element_type),
        [left, right],
        {"mask": ir.DenseI64ArrayAttr.get(list(positions))},
    )


def shuffled(op: ir.Operation, position: int) -> tuple[ir.Value, int]:
    """The operand of a shuffle that has what comes to a position, and where."""
    found, (left, right) = int(ir.DenseI64ArrayAttr(op.attributes["mask"])[position]), op.operands
    return (left, found) if found < length_of(left) else (right, found - length_of(left))


def is_join(op: ir.Operation) -> bool:
    """Whether an operation is a shuffle that puts one vector behind the other."""
    return op.name == SHUFFLE and list(ir.DenseI64ArrayAttr(op.attributes["mask"])) == list(
        range(sum(int(operand.type.shape[0]) for operand in op.operands))
    )


def splat(scalar: ir.Value, length: int) -> ir.Value:
    """A vector of equal elements."""
    return value("vector.broadcast", vector_type(length, scalar.type), [scalar])


def from_elements(elements: Sequence[ir.Value]) -> ir.Value:
    """A vector of scalars."""
    return value("vector.from_elements", vector_type(len(elements), elements[0].type), elements)


def scalars_of(vector: ir.Value) -> list[ir.Value]:
    """Those that a vector was put together of, if it was; what is taken from one place of another vector several times
    is one value.
    """
    owner = producer(vector)
    if owner is None or owner.name not in ("vector.from_elements", "vector.broadcast"):
        return []
    if owner.name == "vector.broadcast":
        return [owner.operands[0]] * length_of(vector)
    first = dict[tuple[ir.Value, str], ir.Value]()
    return [first.setdefault(_origin(scalar), scalar) for scalar in owner.operands]


def repeated(vector: ir.Value) -> ir.Value | None:
    """The scalar that all elements are, if they were plainly made of one."""
    owner = producer(vector)
    if owner is not None and owner.name == SHUFFLE:
        first, second = map(repeated, owner.operands)
        return first if first is not None and first == second else None
    first, *others = scalars_of(vector) or [None]
    return first if all(one == first for one in others) else None


def _origin(scalar: ir.Value) -> tuple[ir.Value, str]:
    """What a scalar is taken from, and its place; of others the scalar."""
    owner = producer(scalar)
    if owner is None or owner.name != "vector.extract" or len(owner.operands) > 1:
        return scalar, ""
    return owner.operands[0], str(owner.attributes["static_position"])


def dense(numbers: Sequence[int], element_type: ir.Type) -> ir.Value:
    """A constant integer vector."""
    type_ = vector_type(len(numbers), element_type)
    attribute = ir.DenseElementsAttr.get([ir.IntegerAttr.get(element_type, number) for number in numbers], type=type_)
    return constant_value(attribute)


def add(left: ir.Value, right: ir.Value, *, exact: bool = False) -> ir.Value:
    """The sum of two integer vectors; `exact`: it is known not to overflow."""
    flags = {"overflowFlags": ir.Attribute.parse("#arith.overflow<nsw>")} if exact else None
    return value("arith.addi", left.type, [left, right], flags)
