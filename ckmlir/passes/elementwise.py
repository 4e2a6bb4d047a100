"""Scalar code applied to vectors: the regions of ck.map, ck.reduce and ck.scan, one operation a vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ckmlir.dialect.build import attributes_of, value
from ckmlir.mlir import ir
from ckmlir.passes import vectors
from ckmlir.passes.framework import fail

NO_ELEMENTS: Mapping[ir.Value, ir.Value] = MappingProxyType({})


class _Line(NamedTuple):
    """An operation of scalar code. Values are called by their numbers in the code."""

    name: str
    operands: list[int]
    result: int
    type: ir.Type
    """Of one element."""
    attributes: dict[str, ir.Attribute]


class ScalarCode:
    """The scalar code of a region: it is read once, and applied to as many vectors as a tile has.

    The bindings take longer to read an operation than to make one, and a tile of 4-byte elements has twice the vectors
    of one of halves.
    """

    def __init__(self, block: ir.Block) -> None:
        numbers: dict[ir.Value, int] = {argument: number for number, argument in enumerate(block.arguments)}
        self._arguments = len(numbers)
        self._elements: list[tuple[int, ir.Value]] = []
        """Values that are elements of tiles, with the tiles."""
        self._lines: list[_Line] = []
        self._forms: dict[int, list[tuple[ir.Type, dict[str, ir.Attribute]]]] = {}
        """Of each line for vectors of a length: the result's type, and the attributes."""

        def numbered(items: Sequence[ir.Value]) -> list[int]:
            return [numbers.setdefault(item, len(numbers)) for item in items]

        for op_view in block.operations:
            op = op_view.operation
            name, operands, results = op.name, op.operands, op.results
            if name == "ck.element":
                self._elements.append((numbered(results)[0], operands[0]))
            elif name == "ck.yield":
                self._yielded = numbered(operands)
                break
            elif len(op.regions) or len(results) != 1:
                fail(op, f"'{name}' is not a scalar operation; element-wise code has arith and math operations only")
            else:
                taken, result = numbered(operands), results[0]
                self._lines.append(_Line(name, taken, numbered([result])[0], result.type, attributes_of(op)))
        else:
            raise AssertionError("a region without ck.yield passed the verifier")
        self._values = list(numbers)

    @property
    def tiles(self) -> list[ir.Value]:
        """Those whose elements it reads, each once, in the order of the code."""
        return list(dict.fromkeys(tile for _, tile in self._elements))

    @property
    def names(self) -> list[str]:
        """The operations that compute, in order."""
        return [line.name for line in self._lines]

    def apply(
        self, length: int, arguments: Sequence[ir.Value], elements: Mapping[ir.Value, ir.Value] = NO_ELEMENTS
    ) -> list[ir.Value]:
        """The values that the region yields for vectors of one length.

        `arguments` stand for its block's arguments, `elements` for the elements of tiles that it reads; values from
        outside are the same for all elements.
        """
        assert len(arguments) == self._arguments
        known: list[ir.Value | None] = [*arguments, *[None] * (len(self._values) - self._arguments)]
        for number, tile in self._elements:
            known[number] = elements[tile]

        def vector(number: int) -> ir.Value:
            found = known[number]
            if found is None:
                found = known[number] = vectors.splat(self._values[number], length)
            return found

        for line, (type_, attributes) in zip(self._lines, self._form(length), strict=True):
            known[line.result] = value(line.name, type_, [vector(number) for number in line.operands], attributes)
        return [vector(number) for number in self._yielded]

    def _form(self, length: int) -> list[tuple[ir.Type, dict[str, ir.Attribute]]]:
        found = self._forms.get(length)
        if found is None:
            found = self._forms[length] = [_vectorised(line, length) for line in self._lines]
        return found


def _vectorised(line: _Line, length: int) -> tuple[ir.Type, dict[str, ir.Attribute]]:
    type_ = vectors.vector_type(length, line.type)
    if line.name != "arith.constant":
        return type_, line.attributes
    return type_, {**line.attributes, "value": ir.DenseElementsAttr.get_splat(type_, line.attributes["value"])}
