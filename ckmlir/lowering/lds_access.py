"""Accesses to LDS, and copies from memory to it: one array for the workgroup, constants in the immediate offset."""

from ckmlir.dialect.build import create, integer, integer_of, registers_of, text_of, value
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.fragment_lds import room_distance, rooms_of
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.packed_checks import packing_of
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import describe
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.buffer_address import buffer_address
from ckmlir.lowering.bytes_as_dwords import dwords_of, is_bytes
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.index import Index
from ckmlir.lowering.parts import Rate
from ckmlir.lowering.place import accesses_of
from ckmlir.lowering.storage import as_fragment, as_integers, from_storage, integers_of
from ckmlir.mlir import ir

TRANSPOSING = {size: f"rocdl.ds.read.tr{size}.b64" for size in (16, 8, 4)}
"""Bits of an element -> the operation that transposes."""
TRANSPOSED_BYTES = 8
"""What a transposing read moves for a lane, and is aligned to."""
MOST_ADDRESSES = 24
"""Copies to LDS of a step whose addresses scalar registers hold beside all else."""
DYNAMIC = -(1 << 31)  # llvm.getelementptr: this index is an operand


def lower_read(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.lds_read to a load, or to the instruction that transposes."""
    fragment = op.results[0].type
    pointer, alignment = _pointer(state, op, op.operands[0], fragment)
    if "transposed" in op.attributes:
        state.target.require("lds_transpose_read", "a transposing LDS read")
        if alignment["alignment"].value < TRANSPOSED_BYTES:
            raise ValueError(f"a transposing LDS read is aligned to {TRANSPOSED_BYTES} bytes, which the layout is not")
        size = packing_of(op).bits if "format" in op.attributes else bits(fragment.element_type)
        if is_bytes(fragment):
            return [from_storage(value(TRANSPOSING[size], dwords_of(fragment), [pointer]), fragment)]
        return [value(TRANSPOSING[size], fragment, [pointer])]
    if is_bytes(fragment):
        return [from_storage(value("llvm.load", dwords_of(fragment), [pointer], alignment), fragment)]
    loaded = value("llvm.load", integers_of(fragment), [pointer], alignment)
    return [as_fragment(loaded, fragment)]


def lower_write(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.lds_write to a store."""
    fragment = op.operands[0]
    pointer, alignment = _pointer(state, op, op.operands[1], fragment.type)
    ir.Operation.create("llvm.store", operands=[as_integers(fragment), pointer], attributes=alignment)
    return []


def lower_copy(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.copy_fragment to a buffer load straight to LDS, in the form whose waits LLVM leaves to marks.

    The instruction takes one LDS address for the wave and adds the lane's number in cells (CDNA3 ISA, 9.1.9). Its
    constant offset would move the LDS address too, and stays 0. Every copy gets a mark, so that waits count copies.
    """
    alloc, first = state.tensor(op.operands[1])
    layout, element = LdsLayout.parse(text_of(alloc, "layout")), describe(alloc.results[0].type).element
    distribution, numbers, size = Distribution.parse(text_of(op, "distribution")), registers_of(op), bits(element) // 8
    width = len(numbers) * size
    state.target.require_direct_to_lds(width, "a copy to LDS")
    inside, axis = layout.element_at(state.coordinates(distribution, numbers[0])), None
    window, _, *index = op.operands
    for one in index:  # rows by a list: a swizzle leaves them where they are
        axis = integer_of(op, "axis")
        inside[axis] = state.emit.index(one, Rate.LANE)
    several = accesses_of(distribution, len(numbers)) > 1
    address = buffer_address(state, window, inside, anywhere=axis, several=several)
    place = layout.place(state.wave_coordinates(distribution, numbers[0])) * size + first
    place = place + _room(state, alloc, distribution)
    pointer = _of_wave(state, op.block, place, address.scalar)
    zero = state.emit.constant(0)
    operands = [address.resource, pointer, state.emit.constant(width), address.vector, address.scalar, zero]
    create("rocdl.raw.ptr.buffer.load.async.lds", [], operands, {"aux": integer(0, 32)})
    create("rocdl.asyncmark", [], [])
    return []


def _of_wave(state: Lowering, block: ir.Block, place: Index, moving: ir.Value) -> ir.Value:
    """The address so many bytes behind the first, the same for all lanes of a wave, beside a scalar that loops move.

    LLVM would compute the addresses of all copies before the loop, and keep them in scalar registers. Where those are
    too few, only what the addresses begin with is known before a step, and each copy adds its own distance; a slot that
    blocks hand on is part of the beginning: after a whole turn it is the same again, and LLVM would find that. LLVM's
    vectorizers must leave such kernels alone: beside a lane's own number they put a wave's into a vector register, from
    which the assembly would get it by a copy that does not exist.
    """
    in_turn = state.known_in_block("copies", lambda: copies_in_turn(block))
    if not in_turn or place.is_constant:
        return state.emit.once(("lds of the wave", place.key), lambda: _step(state.lds, place.emit()))
    own = place - place.constant
    start = state.emit.once(
        ("lds in turn", own.key, moving),
        lambda: assembly(moving.type, [own.emit(), moving], "", "=s,0,s", effects=block not in state.steps),
    )
    constant = place.constant
    offset = state.emit.binary("addi", start, state.emit.constant(constant)) if constant else start
    return state.emit.once(("lds of the wave", offset), lambda: _step(state.lds, offset))


def copies_in_turn(block: ir.Block) -> bool:
    """Whether a block has too many copies to LDS for addresses in scalar registers (`_of_wave`)."""
    copies: int = sum(op.operation.name == "ck.copy_fragment" for op in block)
    return copies > MOST_ADDRESSES


def _pointer(
    state: Lowering, op: ir.Operation, lds: ir.Value, fragment: ir.Type
) -> tuple[ir.Value, dict[str, ir.Attribute]]:
    """The address of an access at its thread's own place, and the attribute that says how far it is aligned."""
    alloc, _ = state.tensor(lds)
    distribution, layout = Distribution.parse(text_of(op, "distribution")), LdsLayout.parse(text_of(alloc, "layout"))
    number, size = registers_of(op)[0], bits(fragment.element_type) // 8
    # Slots of a tensor differ in their first byte only.
    inside = state.known_in_block(
        ("lds", layout, distribution, number), lambda: layout.offset(state.coordinates(distribution, number))
    )
    offset = inside * size
    if op.name == "ck.lds_write":
        offset = offset + _room(state, alloc, distribution)
    return address_at(state, lds, offset, fragment)


def address_at(
    state: Lowering, lds: ir.Value, offset: Index, fragment: ir.Type
) -> tuple[ir.Value, dict[str, ir.Attribute]]:
    """The address so many bytes behind a tensor's first, and the attribute that says how far it is aligned.

    The lanes' part comes first, then a slot that is a number at run time, the constant last, so that the constant
    becomes the instruction's offset.
    """
    alloc, first = state.tensor(lds)
    layout, size = LdsLayout.parse(text_of(alloc, "layout")), bits(fragment.element_type) // 8
    constant, slot = offset.constant + first.constant, first - first.constant
    lanes = offset - offset.constant
    pointer = state.emit.once(("lds", lanes.key), lambda: _step(state.lds, lanes.emit()) if lanes.terms else state.lds)
    if slot.terms:
        own = pointer
        pointer = state.emit.once(("lds", lanes.key, slot.key), lambda: _step(own, slot.emit()))
    within = constant % (state.target.lds_immediate + 1)
    reach = constant - within
    if reach:
        near = pointer
        pointer = state.emit.once(("lds", lanes.key, slot.key, reach), lambda: _kept(_step(near, reach)))
    if within:
        base = pointer
        pointer = state.emit.once(("lds", lanes.key, slot.key, constant), lambda: _step(base, within))
    return pointer, {"alignment": integer(layout.alignment(fragment.shape[0]) * size)}


def _room(state: Lowering, alloc: ir.Operation, distribution: Distribution) -> Index:
    """Where the copy of the tensor begins that this wave writes, in bytes behind the first."""
    number = state.emit.number(0)
    if rooms_of(alloc) == 1:
        return number
    for digit in distribution.wave_copies():
        number = number + state.digit(digit) * digit.weight
    return number * room_distance(alloc)


def _kept(pointer: ir.Value) -> ir.Value:
    """The pointer, which LLVM does not take apart: else it would add up both constants, and hold every sum that an
    instruction's offset does not reach in a register of its own.
    """
    return value("llvm.intr.strip.invariant.group", pointer.type, [pointer])


def _step(pointer: ir.Value | None, distance: ir.Value | int) -> ir.Value:
    assert pointer is not None
    fixed = isinstance(distance, int)
    attributes = {
        "rawConstantIndices": ir.DenseI32ArrayAttr.get([distance if fixed else DYNAMIC]),
        "elem_type": ir.TypeAttr.get(ir.IntegerType.get_signless(8)),
    }
    return value("llvm.getelementptr", pointer.type, [pointer] if fixed else [pointer, distance], attributes)
