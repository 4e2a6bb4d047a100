"""Fragments that are one instruction, or a few: matrix multiplication, mathematics, thread indices, synchronisation."""

from ckmlir.dialect import arith
from ckmlir.dialect.build import (
    attributes_of,
    constant_integer,
    constant_value,
    create,
    integer,
    integer_of,
    registers_of,
    text_of,
    value,
)
from ckmlir.dialect.distribution import Distribution
from ckmlir.lowering.accumulator_form import ACCUMULATION, BEGIN, COMPUTED, assembly
from ckmlir.lowering.branches import only_where
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.storage import as_integers, bitcast
from ckmlir.mlir import ir
from ckmlir.passes import vectors
from ckmlir.passes.framework import fail
from ckmlir.targets import TargetError
from ckmlir.targets.mfma import INDEXED, ROCDL_FORMATS, MfmaInstruction

MATH = {"math.exp2": "rocdl.exp2", "math.log2": "rocdl.log", "math.rsqrt": "rocdl.rsq", "math.sqrt": "rocdl.sqrt"}
"""Transcendental instructions: about 1 ulp, denormal inputs and results flushed (CDNA3 ISA, 7.4)."""

MATRIX_WAIT_STATES = (16, 4)
"""Wait states, as s_nop takes them, from any matrix instruction to a use of its result: 16 passes and 4 at most (LLVM,
GCNHazardRecognizer, gfx950). Where two ways of unequal length meet behind one LLVM counts those of the way that it
follows first; with so many at the place where they meet either is right.
"""

WORKGROUP = ("rocdl.workgroup.id.x", "rocdl.workgroup.id.y", "rocdl.workgroup.id.z")


def lower_mfma(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.mfma to the target's instruction.

    One that can scale its operands and is given no scales does not: LLVM takes scales of 0 for the form without
    (VOP3PInstructions.td, the patterns of mfma_scale), which multiplies as scales of 1 would.
    """
    name = text_of(op, "instruction")
    try:
        instruction = state.target.mfma(name)
    except TargetError as problem:
        fail(op, str(problem))
    a, b, c, *scales = op.operands
    left = bitcast(as_integers(a), ir.Type.parse(instruction.a_type))
    right = bitcast(as_integers(b), ir.Type.parse(instruction.b_type))
    if ACCUMULATION in op.attributes:
        waits = f"{BEGIN}\n" * (COMPUTED in op.attributes)
        factors = [_as_register(one) for one in scales]
        spelled = waits + (_scaling(op, instruction) if scales else _plain(instruction))
        return [assembly(c.type, [left, right, c, *factors], spelled, "=a,v,v,0" + ",v" * len(factors))]
    i32 = ir.IntegerType.get_signless(32)
    zero = ir.IntegerAttr.get(i32, 0)
    if instruction.sparse:
        chosen = integer_of(op, "index_byte") * INDEXED // instruction.a_per_lane  # of the sets of the register
        which = {"cbsz": zero, "abid": ir.IntegerAttr.get(i32, chosen)}
        return [value(instruction.op, c.type, [left, right, c, _as_register(scales[0])], which)]
    if instruction.scaled:
        formats = {
            place: ir.Attribute.parse(f"#rocdl<matrix_format {ROCDL_FORMATS[dtype]}>")
            for place, dtype in (("cbsz", instruction.a), ("blgp", instruction.b))
        }
        unscaled = constant_value(zero)
        factors = [_as_register(one) for one in scales] or [unscaled, unscaled]
        places = [ir.IntegerAttr.get(i32, place) for place in registers_of(op, "scale_bytes")] if scales else [zero] * 2
        selected = dict(zip(("opselA", "opselB"), places, strict=True))
        return [value(instruction.op, c.type, [left, right, c, *factors], {**formats, **selected})]
    # Of f64 the field negates operands, of all others it permutes lanes of B.
    field = "mfma_neg_modifier" if instruction.acc == "f64" else "mfma_perm_b"
    plain = {"cbsz": zero, "abid": zero, "blgp": ir.Attribute.parse(f"#rocdl<{field} none>")}
    return [value(instruction.op, c.type, [left, right, c], plain)]


def _plain(instruction: MfmaInstruction) -> str:
    return f"{instruction.mnemonic} $0, $1, $2, $0{instruction.modifiers}"


def _scaling(op: ir.Operation, instruction: MfmaInstruction) -> str:
    """With block scales, bytes of the last two operands: the lower bits of their places, and the upper ones."""
    places = registers_of(op, "scale_bytes")
    chosen = [",".join(str(place >> bit & 1) for place in places) for bit in (0, 1)]
    name = instruction.mnemonic.replace("_mfma_", "_mfma_scale_")
    selected = f" op_sel:[{chosen[0]},0] op_sel_hi:[{chosen[1]},0]"
    return f"{name} $0, $1, $2, $0, $4, $5{selected}{instruction.modifiers}"


def _as_register(bytes_: ir.Value) -> ir.Value:
    """Up to four bytes, block scales or an index, as a register."""
    octets = as_integers(bytes_)
    i32, size = ir.IntegerType.get_signless(32), int(octets.type.shape[0])
    word = bitcast(octets, ir.IntegerType.get_signless(8 * size))
    return word if word.type == i32 else value("arith.extui", i32, [word])


def lower_math(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """A transcendental function, element by element: the instructions are not vectors."""
    source = op.operands[0]
    name = MATH[op.name]
    if not isinstance(source.type, ir.VectorType):
        return [value(name, source.type, [source])]
    if str(source.type.element_type) != "f32":
        fail(op, f"'{op.name}' works on f32, not {source.type.element_type}; cast first")
    scalar = source.type.element_type
    results = [value(name, scalar, [vectors.element(source, i)]) for i in range(vectors.length_of(source))]
    return [vectors.from_elements(results)]


def lower_quotient(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """arith.divf; one that need not be exact, as `lang.reciprocal` asks for, by reciprocals: of vectors of one element
    LLVM makes exact ones, with ten instructions more."""
    (dividend, divisor), result, attributes = op.operands, op.results[0].type, attributes_of(op)
    vector = isinstance(result, ir.VectorType)
    if not vector or str(result.element_type) != "f32" or "afn" not in str(attributes.get("fastmath")):
        return [value(op.name, result, op.operands, attributes)]
    elements = [vectors.element(divisor, i) for i in range(vectors.length_of(divisor))]
    inverses = [value("rocdl.rcp", result.element_type, [one]) for one in elements]
    return [value("arith.mulf", result, [dividend, vectors.from_elements(inverses)], attributes)]


def lower_thread_coordinate(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.thread_coordinate to arithmetic on the lane and wave."""
    distribution = Distribution.parse(text_of(op, "distribution"))
    return [state.coordinates(distribution, 0)[integer_of(op, "axis")].emit()]


def lower_workgroup_id(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.workgroup_id to the register that the hardware sets."""
    return [value(WORKGROUP[integer_of(op, "axis")], op.results[0].type, [])]


def lower_barrier(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.barrier to s_barrier alone: waits are operations of their own."""
    ir.Operation.create("rocdl.s.barrier")
    return []


def lower_group_barrier(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.group_barrier to an s_barrier that the other groups' waves branch around; a wave's number is in a scalar
    register, and so is the branch.
    """
    groups, first, last = (integer_of(op, name) for name in ("groups", "first", "last"))
    size, left = divmod(state.waves, groups)
    if left or state.wave is None:
        fail(op, f"{state.waves} waves cannot form {groups} groups of equal size")
    i32 = ir.IntegerType.get_signless(32)

    def number(wave: int) -> ir.Value:
        return constant_integer(wave, i32)

    # One comparison: subtracting wraps around for the waves before the first.
    distance = arith.subi(state.wave, number(first * size)) if first else state.wave
    arrives = arith.cmpi(arith.CmpIPredicate.ult, distance, number((last - first + 1) * size))
    only_where(op, arrives, lambda: ir.Operation.create("rocdl.s.barrier"))
    with ir.InsertionPoint(op):
        for cycles in MATRIX_WAIT_STATES:
            nops = ir.IntegerAttr.get(ir.IntegerType.get_signless(16), cycles - 1)
            ir.Operation.create("rocdl.s.nop", attributes={"count": nops})
        fence("none")
    return []


def lower_wait(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.wait to s_waitcnt, with the largest value (no wait) of counters that are not named; copies to LDS are waited
    for by their marks, from which LLVM finds the count.
    """
    if "copies" in op.attributes:
        create("rocdl.wait.asyncmark", [], [], {"count": integer(integer_of(op, "copies"), 16)})
    if "lds" not in op.attributes and "vector_memory" not in op.attributes:
        return []
    vector_memory = integer_of(op, "vector_memory") if "vector_memory" in op.attributes else 63
    lds = integer_of(op, "lds") if "lds" in op.attributes else 15
    # gfx9 encoding: vmcnt bits 3:0 and 15:14, expcnt 6:4, lgkmcnt 11:8 (CDNA3 ISA, 4.4).
    bitfield = (vector_memory & 15) | 7 << 4 | lds << 8 | (vector_memory >> 4) << 14
    ir.Operation.create(
        "rocdl.s.waitcnt", attributes={"bitfield": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), bitfield)}
    )
    return []


def lower_sched_barrier(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.sched_barrier to LLVM's."""
    fence(text_of(op, "mask"))
    return []


def fence(crossing: str) -> None:
    """LLVM's scheduler moves only instructions of these kinds across here ("none": no others)."""
    mask = ir.Attribute.parse(f"#rocdl<sched_group_mask {crossing}>")
    ir.Operation.create("rocdl.sched.barrier", attributes={"mask": mask})


def lower_sched_group_barrier(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.sched_group_barrier to LLVM's."""
    i32 = ir.IntegerType.get_signless(32)
    ir.Operation.create("rocdl.sched.group.barrier", attributes={
        "mask": ir.Attribute.parse(f"#rocdl<sched_group_mask {text_of(op, 'mask')}>"),
        "size": ir.IntegerAttr.get(i32, integer_of(op, "count")),
        "groupId": ir.IntegerAttr.get(i32, integer_of(op, "group")),
    })  # fmt: skip
    return []


def lower_priority(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.priority to s_setprio."""
    ir.Operation.create(
        "rocdl.s.setprio",
        attributes={"priority": ir.IntegerAttr.get(ir.IntegerType.get_signless(16), integer_of(op, "level"))},
    )
    return []


def lower_anew(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.anew to empty assembly, which may change it for all LLVM knows."""
    return [assembly(op.results[0].type, [op.operands[0]], "", "=s,0", effects=True)]
