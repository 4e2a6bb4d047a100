"""Exchanges between lanes of a wave: data-parallel-primitive moves, swizzles and permutes.

A reduction that has folded the lower bits already stays out of the LDS unit altogether: rows of 16 lanes, each of equal
values, change places by moves that shift over the row's edge and broadcast within the row.

Controls of DPP: CDNA3 ISA, 6.4 "DPP"; ds_swizzle and ds_bpermute: 12.14 of the same, and LLVM's AMDGPU usage.
"""

from ckmlir.dialect import arith
from ckmlir.dialect.build import constant_integer, integer_of, value
from ckmlir.dialect.scalars import bits
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.dpp import moved
from ckmlir.lowering.storage import bitcast
from ckmlir.mlir import ir
from ckmlir.passes import vectors

QUAD_XOR_1 = 0xB1  # quad_perm [1, 0, 3, 2]
QUAD_XOR_2 = 0x4E  # quad_perm [2, 3, 0, 1]
ROW_HALF_MIRROR = 0x141  # lane 7 - i of each 8
ROW_ROTATE_8 = 0x128  # lane i ^ 8 of each 16
WAVE_SHIFT_1 = 0x130  # lane i + 1 of the wave
ROW_BROADCAST_15 = 0x142  # the last lane of the row before
WAVE_BROADCAST_31 = 0x143  # lane 31, to the upper half
LANE_OF_ROW = 0x150  # with a number: this lane of the row itself
LAST_OF_ROW = LANE_OF_ROW | 15
DPP = {1: QUAD_XOR_1, 2: QUAD_XOR_2, 8: ROW_ROTATE_8}
MIRRORED = (4, 16, 32)
"""Lanes that moves exchange too, where those of lower bits hold equal values."""
ODD_ROWS = 0b1010
UPPER_ROWS = 0b1100
DWORD = 32


def lower_exchange(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.exchange, one 32-bit move a dword of the vector."""
    source, mask = op.operands[0], integer_of(op, "mask")
    equal_below = "equal_below" in op.attributes
    words = source if _moves(mask, equal_below) and bits(source.type.element_type) == DWORD else _words(source)
    result = vectors.from_elements(
        [_move(state, vectors.element(words, i), mask, equal_below) for i in range(vectors.length_of(words))]
    )
    return [result if words is source else _unwords(result, source.type)]


def lower_half(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.half to v_permlane32_swap_b32, one a dword for both halves: it exchanges the upper half of one register with
    the lower half of another, and these are copies of the value (CDNA4 ISA, VOP1).
    """
    state.target.require("permlane_swap", "the halves of a wave")
    source, upper = op.operands[0], "upper" in op.attributes
    words = _words(source)
    halves = state.known_in_block(
        ("halves", source),
        lambda: [_swapped(vectors.element(words, number)) for number in range(vectors.length_of(words))],
    )
    place = {"position": ir.DenseI64ArrayAttr.get([int(upper)])}
    parts = [value("llvm.extractvalue", words.type.element_type, [pair], place) for pair in halves]
    return [_unwords(vectors.from_elements(parts), source.type)]


def _swapped(word: ir.Value) -> ir.Value:
    """The lower halves of the wave in all lanes, and the upper ones."""
    no = ir.BoolAttr.get(False)
    both = ir.Type.parse("!llvm.struct<(i32, i32)>")
    return value("rocdl.permlane32.swap", both, [word, word], {"fi": no, "boundControl": no})


def lower_row_lane(_: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.row_lane to a DPP move for each dword, which LLVM folds into its user, but not into packed arithmetic."""
    source, control = op.operands[0], LANE_OF_ROW | integer_of(op, "lane")
    words = _words(source)
    singles = [moved(vectors.element(words, number), control) for number in range(vectors.length_of(words))]
    return [_unwords(vectors.from_elements(singles), source.type)]


def lower_first_lane(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.first_lane to v_readfirstlane_b32, one a dword; a condition travels as a number."""
    source, i32 = op.operands[0], ir.IntegerType.get_signless(32)
    if bits(source.type) >= DWORD:
        return [value("rocdl.readfirstlane", source.type, [source])]
    number = value("rocdl.readfirstlane", i32, [value("arith.extui", i32, [source])])
    return [value("arith.trunci", source.type, [number])]


def _words(source: ir.Value) -> ir.Value:
    """A vector as dwords, widened where its bits do not fill them."""
    i32 = ir.IntegerType.get_signless(32)
    type_ = source.type
    width, length = bits(type_.element_type), vectors.length_of(source)
    if width == 32:
        return bitcast(source, vectors.vector_type(length, i32))
    if width == 64:
        return bitcast(source, vectors.vector_type(2 * length, i32))
    integers = bitcast(source, vectors.vector_type(length, ir.IntegerType.get_signless(width)))
    return value("arith.extui", vectors.vector_type(length, i32), [integers])


def _unwords(words: ir.Value, type_: ir.Type) -> ir.Value:
    width, length = bits(type_.element_type), int(type_.shape[0])
    if width >= 32:
        return bitcast(words, type_)
    narrow = vectors.vector_type(length, ir.IntegerType.get_signless(width))
    return bitcast(value("arith.trunci", narrow, [words]), type_)


def _moves(mask: int, equal_below: bool) -> bool:
    """Whether lanes change by moves alone, which take a dword of any type."""
    return mask in DPP or (equal_below and mask in MIRRORED)


def _move(state: Lowering, word: ir.Value, mask: int, equal_below: bool) -> ir.Value:
    if mask in DPP:
        return moved(word, DPP[mask])
    if mask == 4 and equal_below:
        return moved(word, ROW_HALF_MIRROR)
    if mask == 16 and equal_below:
        from_next = moved(moved(word, WAVE_SHIFT_1), LAST_OF_ROW)
        return moved(word, ROW_BROADCAST_15, rows=ODD_ROWS, others=from_next)
    if mask == 32 and equal_below:
        last = constant_integer(63, ir.IntegerType.get_signless(32))
        upper = value("rocdl.readlane", word.type, [word, last])
        return moved(word, WAVE_BROADCAST_31, rows=UPPER_ROWS, others=upper)
    if mask <= 16:
        # Bit-mask mode within 32 lanes: lane = ((i & and) | or) ^ xor, fields of five bits from the lowest.
        pattern = constant_integer(0x1F | mask << 10, word.type)
        return value("rocdl.ds_swizzle", word.type, [word, pattern])
    assert state.lane is not None
    other = arith.xori(state.lane, constant_integer(mask, word.type))
    address = arith.shli(other, constant_integer(2, word.type))
    return value("rocdl.ds_bpermute", word.type, [address, word])
