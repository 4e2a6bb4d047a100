"""Creation of operations: one thin function, because the generated builders bind signatures at a cost a
compiler notices.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ckmlir.mlir import ir


class _Thread(threading.local):
    """What each thread has of its own, as it has its own context."""

    defaults: dict[str, ir.Attribute] = {}  # replaced, never changed

    def __init__(self) -> None:
        self.numbers: dict[ir.Attribute, tuple[int, ...]] = {}
        """Of arrays of registers."""


_thread = _Thread()

_create = ir.Operation.create
"""Name, types of results, operands, attributes, successors, number of regions; by place, which is half a µs quicker."""


@contextmanager
def default_attributes(attributes: dict[str, ir.Attribute]) -> Iterator[None]:
    """Every operation created inside carries these attributes too."""
    outer, _thread.defaults = _thread.defaults, attributes
    try:
        yield
    finally:
        _thread.defaults = outer


def create(
    name: str,
    results: Sequence[ir.Type],
    operands: Sequence[ir.Value],
    attributes: dict[str, ir.Attribute] | None = None,
    regions: int = 0,
) -> ir.Operation:
    """Append operation `name` at the current insertion point and location."""
    return _create(name, results, operands, _merged(attributes), None, regions)


def value(
    name: str, result: ir.Type, operands: Sequence[ir.Value], attributes: dict[str, ir.Attribute] | None = None
) -> ir.Value:
    """Append an operation without regions and return its only result."""
    return _create(name, (result,), operands, _merged(attributes)).result


def intrinsic(name: str, type_: ir.Type, operands: Sequence[ir.Value] = ()) -> ir.Value:
    """What one of LLVM's intrinsics gives, which the dialects have no operation for."""
    attributes = {
        "intrin": ir.StringAttr.get(name),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
    }
    return value("llvm.call_intrinsic", type_, operands, attributes)


def constant_value(attribute: ir.Attribute) -> ir.Value:
    """Append the constant that a typed attribute holds, a number or a vector of them."""
    return value("arith.constant", attribute.type, [], {"value": attribute})


def constant_integer(number: int, type_: ir.Type) -> ir.Value:
    """Append an integer of a type."""
    return value("arith.constant", type_, [], {"value": ir.IntegerAttr.get(type_, number)})


def constant_real(number: float, type_: ir.Type) -> ir.Value:
    """Append a floating-point number of a type."""
    return value("arith.constant", type_, [], {"value": ir.FloatAttr.get(type_, number)})


def _merged(attributes: dict[str, ir.Attribute] | None) -> dict[str, ir.Attribute] | None:
    defaults = _thread.defaults
    if not defaults:
        return attributes
    return {**defaults, **attributes} if attributes else defaults


def integer(number: int, bits: int = 64) -> ir.Attribute:
    """An integer attribute."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(bits), number)


def string(text: str) -> ir.Attribute:
    """A string attribute."""
    return ir.StringAttr.get(text)


def registers(numbers: Sequence[int]) -> ir.Attribute:
    """Register numbers of a thread, as `array<i32: 0, 1, …>`."""
    return ir.DenseI32ArrayAttr.get(list(numbers))


def attributes_of(op: Any) -> dict[str, ir.Attribute]:
    """All attributes of an operation; bindings have items, or iterate over named attributes."""
    attributes = op.attributes
    if hasattr(attributes, "items"):
        return dict(attributes.items())
    return {item.name: item.attr for item in attributes}


def text_of(op: Any, name: str) -> str:
    """A string attribute's text; ValueError in words when it is missing or of another kind."""
    attributes = op.attributes
    if name not in attributes:
        raise ValueError(f"needs the attribute '{name}', a string")
    attribute = attributes[name]
    if not isinstance(attribute, ir.StringAttr):
        raise ValueError(f"attribute '{name}' must be a string, not {attribute}")
    return str(attribute.value)


def integer_of(op: Any, name: str) -> int:
    """An integer attribute's value; ValueError in words when it is missing or of another kind."""
    attributes = op.attributes
    if name not in attributes:
        raise ValueError(f"needs the attribute '{name}', an integer")
    attribute = attributes[name]
    if not isinstance(attribute, ir.IntegerAttr):
        raise ValueError(f"attribute '{name}' must be an integer, not {attribute}")
    return int(attribute.value)


def registers_of(op: Any, name: str = "registers") -> tuple[int, ...]:
    """The numbers of an `array<i32: …>` attribute; ValueError in words when it is missing or of another kind."""
    attributes = op.attributes
    if name not in attributes:
        raise ValueError(f"needs the attribute '{name}', array<i32: …>")
    attribute = attributes[name]
    found = _thread.numbers.get(attribute)  # to find it takes a tenth of the time of asking for each number
    if found is None:
        if not isinstance(attribute, ir.DenseI32ArrayAttr):
            raise ValueError(f"attribute '{name}' must be array<i32: …>, not {attribute}")
        found = _thread.numbers[attribute] = tuple(attribute)
    return found


def producer(value_: ir.Value) -> ir.Operation | None:
    """The operation whose result a value is; None for a block argument."""
    owner = value_.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def segments_of(op: Any) -> tuple[int, ...]:
    """How many operands of each kind an operation has."""
    return registers_of(op, "operandSegmentSizes")


def product_segments(scales: int, index: int = 0) -> ir.Attribute:
    """Segment sizes of a product's three operands, of none or two with block scales, and of the index of a sparse A."""
    return ir.DenseI32ArrayAttr.get([1, 1, 1, int(scales > 0), int(scales > 1), index])
