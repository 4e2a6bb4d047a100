"""f32 to f16 by multiply-adds, two elements in two instructions, where the chip has no instruction for both.

V_FMA_MIXLO_F16 and V_FMA_MIXHI_F16 round what they compute in f32 to either half of a register and leave the other one
(CDNA3 ISA, VOP3P); LLVM takes them for a product that is rounded, with -0 added. V_CVT_F16_F32 writes a register for
each element, and a third instruction joins two. A product that nothing else takes needs no instruction besides: two
elements then take two instead of four or, where LLVM takes packed arithmetic apart, five. By the ISA's text the sum is
rounded to f32 first, as by two instructions; a chip that rounded once would come closer to the product.

That is for kernels in pieces, which LLVM's vectorizers leave alone: they would join products of neighbours to packed
ones, which do not round. Without vectorizers LLVM's order of whole kernels is a worse one: attention under `qr` would
take 1.01 of the cycles by the model on gfx942, causal under `qr_two_ahead` 1.02.
"""

from __future__ import annotations

from ckmlir.dialect.build import constant_real, producer, value
from ckmlir.dialect.scalars import name_of
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.storage import bitcast
from ckmlir.mlir import ir
from ckmlir.passes import vectors

A_REGISTER = 2
"""Elements."""


def is_mixed(state: Lowering, op: ir.Operation) -> bool:
    """Whether a `ck.convert` is one that `rounded` is for."""
    source, result = op.operands[0], op.results[0]
    types = name_of(source.type.element_type), name_of(result.type.element_type)
    wanted = state.in_pieces and not state.target.has("packed_f16_convert")
    return wanted and types == ("f32", "f16") and vectors.length_of(source) % A_REGISTER == 0


def rounded(state: Lowering, source: ir.Value) -> ir.Value:
    """An even number of f32 as f16, rounded to nearest even; NaN stays NaN.

    Empty assembly hides that a register has two elements: LLVM writes to both halves of one only where nothing takes
    elements by themselves, as stores to LDS do.
    """
    left, right = _factors(source)
    f16, words = ir.F16Type.get(), []
    word = vectors.vector_type(1, ir.IntegerType.get_signless(32))
    for first in range(0, vectors.length_of(source), A_REGISTER):
        halves = []
        for number in range(first, first + A_REGISTER):
            factor = _one(state) if right is None else vectors.element(right, number)
            product = value("arith.mulf", factor.type, [vectors.element(left, number), factor])
            halves.append(value("arith.truncf", f16, [product]))
        joined = vectors.element(bitcast(vectors.from_elements(halves), word), 0)
        words.append(assembly(joined.type, [joined], "", "=v,0"))
    return bitcast(vectors.from_elements(words), vectors.vector_type(vectors.length_of(source), f16))


def _factors(source: ir.Value) -> tuple[ir.Value, ir.Value | None]:
    """What is multiplied, where elements are products that nothing else takes; or the elements."""
    product = producer(source)
    if product is None or product.name != "arith.mulf" or len(list(source.uses)) > 1:
        return source, None
    left, right = product.operands
    return left, right


def _one(state: Lowering) -> ir.Value:
    """1.0, of which LLVM does not know that multiplying with it changes nothing."""
    f32 = ir.F32Type.get()

    def hidden() -> ir.Value:
        one = constant_real(1.0, f32)
        return assembly(f32, [one], "", "=s,0")

    return state.known_in_block("hidden one", hidden)
