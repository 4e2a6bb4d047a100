"""Scalar code applied to vectors: the regions of ck.map and ck.reduce, one operation a vector."""

from collections.abc import Mapping

from ckmlir.dialect.build import attributes_of, create
from ckmlir.mlir import ir
from ckmlir.passes import vectors
from ckmlir.passes.framework import fail


def apply_region(
    block: ir.Block, length: int, arguments: Mapping[ir.Value, ir.Value], elements: Mapping[ir.Value, ir.Value]
) -> list[ir.Value]:
    """The values that a region of scalar code yields for vectors of one length.

    `arguments` stand for its block arguments, `elements` for the elements of tiles that it reads; values from outside
    are the same for all elements.
    """
    known: dict[ir.Value, ir.Value] = dict(arguments)
    for op_view in block.operations:
        op = op_view.operation
        if op.name == "ck.element":
            known[op.results[0]] = elements[op.operands[0]]
            continue
        if op.name == "ck.yield":
            return [_lookup(known, value, length) for value in op.operands]
        if len(op.regions) or len(op.results) != 1:
            fail(op, f"'{op.name}' is not a scalar operation; element-wise code has arith and math operations only")
        operands = [_lookup(known, value, length) for value in op.operands]
        known[op.results[0]] = _vectorised(op, operands, length)
    raise AssertionError("a region without ck.yield passed the verifier")


def _vectorised(op: ir.Operation, operands: list[ir.Value], length: int) -> ir.Value:
    type_ = vectors.vector_type(length, op.results[0].type)
    attributes = attributes_of(op)
    if op.name == "arith.constant":
        attributes["value"] = ir.DenseElementsAttr.get_splat(type_, attributes["value"])
    return create(op.name, [type_], operands, attributes).results[0]


def _lookup(known: dict[ir.Value, ir.Value], value: ir.Value, length: int) -> ir.Value:
    """The vector of a value; one from outside the region is the same for all elements."""
    found = known.get(value)
    if found is None:
        found = known[value] = vectors.splat(value, length)
    return found
