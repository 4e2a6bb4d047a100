"""Vector arithmetic in the lengths that instructions have, where longer vectors would hold scalar registers.

A vector of conditions is a pair of scalar registers an element, and LLVM makes all of them before the first is used; a
splat that a loop uses stays in as many scalar registers as the vector is long. A wave has about a hundred of them.
"""

from collections.abc import Callable, Sequence

from ckmlir.dialect.build import attributes_of, producer, value
from ckmlir.dialect.scalars import bits, name_of
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.column_bits import columns_of
from ckmlir.lowering.conditions import (
    HALF,
    Comparison,
    Condition,
    Part,
    condition_of,
    element,
    is_joined,
    scalar_of,
    whole_of,
)
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.pack_before_barriers import takes_bytes
from ckmlir.mlir import ir
from ckmlir.passes import vectors
from ckmlir.targets import Target
from ckmlir.targets.cdna import REGISTER_BITS

AT_A_TIME = 4
"""Elements whose conditions may be there at the same time: enough that no wait states are needed between a comparison
and what it selects, 2 from gfx940 on (LLVM, GCNHazardRecognizer, checkVALUHazards)."""
PACKED = 2
"""Elements of packed single-precision arithmetic (CDNA2 ISA, 6.6 "Packed Math")."""

SUMS = ("arith.addf", "arith.subf")
"""Whose splats have both registers of a pair where `Lowering.fills_pairs` says so: what scores are less by is there for
a whole step. What sums are multiplied by is used at once, and a move for that gains nothing."""
CHIPS_OF_PAIRS = ("gfx950",)
"""Where that pays: woven fp8 attention with 128 channels takes .93 of the cycles by the model with 2048 keys and 1.008
with 2000; on gfx942 1.008. f16, which is not loaded by bytes, would take 1.03 there."""


def fills_pairs(joining: Sequence[ir.Operation], target: Target, *, in_pieces: bool) -> bool:
    """Whether splats that lanes have of their own fill both registers of a pair: in kernels that weave arithmetic while
    bytes are loaded.

    LLVM leaves the upper register undefined (`_loaded_with_others`), so that it may be one to which a load brings
    something, and waits for that before each instruction that takes the pair, though nothing is taken from there.
    """
    return in_pieces and target.name in CHIPS_OF_PAIRS and takes_bytes(joining, target)


def lower_select(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """arith.select by a vector of comparisons, also joined ones, or by a part of it, element by element."""
    condition, *choices = op.operands
    found, shared = None, False
    if isinstance(condition.type, ir.VectorType):
        whole, start = whole_of(condition)
        shared = is_joined(whole) or whole != condition
        if shared:
            known = state.known_in_block(("condition", whole), lambda: condition_of(whole))
            found = known and Part(known, start)
        else:
            found = condition_of(condition)
    if found is None:
        return [value(op.name, op.results[0].type, op.operands)]
    if bits(op.results[0].type.element_type) == REGISTER_BITS:
        columns = columns_of(found, vectors.length_of(choices[0]))
        if columns is not None and (state.in_pieces or columns.pay):
            return [columns.chosen(state, choices, AT_A_TIME)]
    return [_chosen(found, choices, shared=shared)]


def choose(
    comparison: str,
    attributes: dict[str, ir.Attribute],
    left: Callable[[int], ir.Value],
    right: ir.Value,
    choices: Sequence[ir.Value],
) -> ir.Value:
    """Elements of the first choice where a comparison holds, of what `left` makes with a vector, and of the second
    where not.
    """
    return _chosen(Comparison(comparison, attributes, left, right), choices)


def _chosen(condition: Condition, choices: Sequence[ir.Value], *, shared: bool = False) -> ir.Value:
    """Elements of the first choice where a condition holds, of the second where not.

    Where elements are registers, a few conditions are there at a time. Those that are `shared` with choices by other
    parts of a vector wait for what was made there too.
    """
    widths = {bits(item.type.element_type) for item in choices}
    ordered = widths == {REGISTER_BITS} or (shared and widths == {HALF})
    length = vectors.length_of(choices[0])
    made: list[ir.Value] = []
    for start in range(0, length, AT_A_TIME):
        if ordered and start:
            condition.wait(made[-AT_A_TIME:])
        numbers = range(start, min(start + AT_A_TIME, length))
        holds = [condition.element(number) for number in numbers]
        for number, one in zip(numbers, holds, strict=True):
            parts = [element(choice, number) for choice in choices]
            made.append(value("arith.select", parts[0].type, [one, *parts]))
    if ordered and shared:
        condition.wait(made[-AT_A_TIME:])  # LLVM drops it where no other choice follows
    return vectors.from_elements(made)


def lower_arithmetic(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """Arithmetic with a splat in the length of packed instructions.

    Where nothing is repeated no splat stays in registers, and LLVM has less to think about if vectors are whole.
    """
    result, attributes = op.results[0].type, attributes_of(op)
    whole = not isinstance(result, ir.VectorType) or vectors.length_of(op.results[0]) % PACKED != 0
    stays = not state.is_straight or state.has_many_arguments
    if whole or not stays or not any(map(scalar_of, op.operands)):
        return [value(op.name, result, op.operands, attributes)]
    type_, fills = vectors.vector_type(PACKED, result.element_type), state.fills_pairs and op.name in SUMS
    parts = [
        value(op.name, type_, [_part(state, operand, start, fills=fills) for operand in op.operands], attributes)
        for start in range(0, vectors.length_of(op.results[0]), PACKED)
    ]
    return [vectors.from_elements([vectors.element(part, place) for part in parts for place in range(PACKED)])]


def _part(state: Lowering, vector: ir.Value, start: int, *, fills: bool) -> ir.Value:
    scalar = scalar_of(vector)
    if scalar is None:
        return vectors.part(vector, start, PACKED)
    if state.has_many_arguments and _loaded_with_others(scalar):
        given = scalar
        scalar = state.known_in_block(("own register", given), lambda: assembly(given.type, [given], "", "=s,0"))
    if fills and _is_of_lanes(scalar):
        taken, text = scalar, "v_mov_b32 $0, $1"
        other = state.known_in_block(("upper half", taken), lambda: assembly(taken.type, [taken], text, "=v,v"))
        return vectors.from_elements([scalar, other])
    return vectors.splat(scalar, PACKED)


def _is_of_lanes(scalar: ir.Value) -> bool:
    """Whether a number is an element of a lane's vector of f32."""
    owner = producer(scalar)
    return owner is not None and owner.name == "vector.extract" and name_of(scalar.type) == "f32"


def _loaded_with_others(scalar: ir.Value) -> bool:
    """Whether a number is one of several that a load brings: an argument of the kernel, or what memory holds.

    LLVM gives every packed instruction that takes a splat a pair of registers of its own, whose upper half is undefined
    (AMDGPUISelDAGToDAG, SelectVOP3PMods). The pairs of one register become one, but not those of a part of a longer
    load. So where scalar registers are short empty assembly gives it a register of its own first, in each block, for a
    move: in front of a loop, pairs would follow it there and be kept through the loop, each by itself.
    """
    if name_of(scalar.type) != "f32":
        return False
    owner = producer(scalar)
    if owner is not None:
        return owner.name == "llvm.load" and "invariant" in owner.attributes
    block = ir.BlockArgument(scalar).owner
    return bool(block == block.region.blocks[0])
