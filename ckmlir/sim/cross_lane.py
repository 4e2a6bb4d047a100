"""Instructions that move data between lanes: readlane and its kin, permlane swaps, LDS permutes and swizzles,
transposing reads.

AMD CDNA3 ISA, sections 12.11 (V_READLANE_B32 …) and 12.13 (DS_PERMUTE_B32, DS_SWIZZLE_B32); CDNA4 ISA for the swaps and
DS_READ_*_TR.
"""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.access import Access
from ckmlir.sim.builder import Value
from ckmlir.sim.element import U32
from ckmlir.sim.handler import HandlerBuilder
from ckmlir.sim.ir_text import each_lane
from ckmlir.sim.memory_access import lds_addresses, low_word, preload, transfer
from ckmlir.sim.register_index import destination_register, source_register

# -- one lane --------------------------------------------------------------------------------------------------------


def _lane_pointer(b: HandlerBuilder, register: str, lane: str) -> str:
    """Where a register, given by its byte offset, keeps the dword of a lane (an i64)."""
    return b.assign(f"getelementptr i32, ptr {b.pointer('%wave', register)}, i64 {lane}")


def _lane_operand(b: HandlerBuilder) -> str:
    """The lane number in slot 2, from a scalar register or a constant, modulo 64, as i64."""
    number = b.slot(2)
    if b.key.operands[2] == "s":
        number = b.assign(f"zext i32 {b.load_scalar(number, U32)} to i64")
    return b.assign(f"and i64 {number}, 63")


def read_lane(b: HandlerBuilder) -> None:
    """v_readlane_b32. Slots: scalar destination, vector source, lane."""
    word = b.assign(f"load i32, ptr {_lane_pointer(b, source_register(b, 1, 0, 1), _lane_operand(b))}, align 4")
    b.store_scalar(b.slot(0), word, U32)
    b.next()


def read_first_lane(b: HandlerBuilder) -> None:
    """v_readfirstlane_b32: the first active lane, lane 0 if none is. Slots: scalar destination, source."""
    if b.key.operands[1] != "v":
        word = b.load_scalar(b.slot(1), U32) if b.key.operands[1] == "s" else b.assign(f"trunc i64 {b.slot(1)} to i32")
    else:
        first = b.intrinsic("llvm.cttz.i64", "i64", ("i64", b.exec_bits()), ("i1", "false"))
        lane = b.assign(f"and i64 {first}, 63")
        word = b.assign(f"load i32, ptr {_lane_pointer(b, source_register(b, 1, 0, 1), lane)}, align 4")
    b.store_scalar(b.slot(0), word, U32)
    b.next()


def write_lane(b: HandlerBuilder) -> None:
    """v_writelane_b32. Slots: vector destination, scalar source, lane. EXEC does not matter."""
    word = b.load_scalar(b.slot(1), U32) if b.key.operands[1] == "s" else b.assign(f"trunc i64 {b.slot(1)} to i32")
    register, exists = destination_register(b, 0, 1, b.true())
    place = _lane_pointer(b, register, _lane_operand(b))
    if b.key.modifier("indexed"):
        any_lane = b.assign(f"icmp ne i64 {b.bits_of_mask(exists)}, 0")
        word = b.assign(f"select i1 {any_lane}, i32 {word}, i32 {b.assign(f'load i32, ptr {place}, align 4')}")
    b.emit(f"store i32 {word}, ptr {place}, align 4")
    b.next()


# -- exchanges of rows -----------------------------------------------------------------------------------------------


def swap_rows(b: HandlerBuilder, row: int) -> None:
    """v_permlane16_swap, v_permlane32_swap: odd rows of the first register with even rows of the second, for active
    lanes."""
    preload(b, 2)
    x, y = b.load_register(b.slot(0), U32), b.load_register(b.slot(1), U32)
    partner = tuple(lane ^ row for lane in range(64))
    odd = b.mask_of_bits(str(sum(1 << lane for lane in range(64) if lane & row)))
    new_x = b.select(odd, b.shuffle(y, partner), x)
    new_y = b.select(odd, y, b.shuffle(x, partner))
    b.store_register(b.slot(0), new_x, b.active())
    b.store_register(b.slot(1), new_y, b.active())
    b.next()


# -- any lane to any lane --------------------------------------------------------------------------------------------


def _gather(b: HandlerBuilder, data: Value, source_lanes: Value) -> Value:
    """Lane i gets data of lane source_lanes[i] & 63, or 0 if that lane is inactive."""
    rows = b.work(state.WORK_ROWS)
    indices, result = b.pointer(rows, state.VGPR_BYTES), b.pointer(rows, 2 * state.VGPR_BYTES)
    masked = b.select(b.active(), data, b.u32(0))
    b.emit(f"store {b.typed(masked)}, ptr {rows}, align 64")
    b.emit(f"store {b.typed(source_lanes & 63)}, ptr {indices}, align 64")
    b.emit(f"call void @gather_lanes(ptr {rows}, ptr {indices}, ptr {result})")
    return Value(b, U32, b.assign(f"load <64 x i32>, ptr {result}, align 64"))


def backward_permute(b: HandlerBuilder) -> None:
    """ds_bpermute_b32: each lane names the lane it reads, as a byte address. Slots: destination, address, data,
    offset."""
    preload(b, 4)
    offset = b.splat(U32, b.assign(f"trunc i64 {b.slot(3)} to i32"))
    lanes = (b.load_register(b.slot(1), U32) + offset) >> 2
    b.store_register(b.slot(0), _gather(b, b.load_register(b.slot(2), U32), lanes), b.active())
    b.next()


def forward_permute(b: HandlerBuilder) -> None:
    """ds_permute_b32: each active lane names the lane it writes; the highest wins, and lanes nobody names get 0."""
    preload(b, 4)
    rows = b.work(state.WORK_ROWS)
    targets, data = b.pointer(rows, state.VGPR_BYTES), b.pointer(rows, 2 * state.VGPR_BYTES)
    offset = b.splat(U32, b.assign(f"trunc i64 {b.slot(3)} to i32"))
    lanes = ((b.load_register(b.slot(1), U32) + offset) >> 2) & 63
    b.emit(f"store <64 x i32> zeroinitializer, ptr {rows}, align 64")
    b.emit(f"store {b.typed(lanes)}, ptr {targets}, align 64")
    b.emit(f"store {b.typed(b.load_register(b.slot(2), U32))}, ptr {data}, align 64")
    b.emit(f"call void @scatter_lanes(i64 {b.exec_bits()}, ptr {data}, ptr {targets}, ptr {rows})")
    b.store_register(b.slot(0), Value(b, U32, b.assign(f"load <64 x i32>, ptr {rows}, align 64")), b.active())
    b.next()


def swizzle_lanes(offset: int) -> tuple[int, ...]:
    """Source lane of each lane for a ds_swizzle offset: FFT (bit reversal of the lane bits above those of the mask),
    rotation, quad permutation, or and/or/xor masks."""
    lanes = range(64)
    if offset >= 0xE000:
        mask = offset & 31
        kept = mask.bit_count()
        return tuple(lane & 32 | lane & mask | int(f"{lane & 31:05b}"[::-1], 2) >> kept for lane in lanes)
    if offset >= 0xC000:
        amount, mask = offset >> 5 & 31, offset & 31
        step = -amount if offset >> 10 & 1 else amount
        return tuple(lane & 32 | lane & mask | (lane + step) & ~mask & 31 for lane in lanes)
    if offset & 0x8000:
        return tuple(lane & ~3 | offset >> 2 * (lane & 3) & 3 for lane in lanes)
    keep, set_bits, flip = offset & 31, offset >> 5 & 31, offset >> 10 & 31
    return tuple(lane & 32 | ((lane & keep) | set_bits) ^ flip for lane in lanes)


def swizzle(b: HandlerBuilder) -> None:
    """ds_swizzle_b32. Slots: destination, source. A disabled source lane gives 0.

    The mask is shuffled beside the data. Masking the data before the shuffle would be shorter, but LLVM 22 drops such a
    select on AVX-512 when the shuffled result is stored under the same mask.
    """
    preload(b, 2)
    lanes = swizzle_lanes(b.key.modifier("offset"))
    moved = b.select(b.shuffle(b.active(), lanes), b.shuffle(b.load_register(b.slot(1), U32), lanes), b.u32(0))
    b.store_register(b.slot(0), moved, b.active())
    b.next()


# -- transposing LDS reads (gfx950) ----------------------------------------------------------------------------------


def transposed_read(b: HandlerBuilder, bits: int) -> None:
    """ds_read_b64_tr_b16 / b8 / b4 and ds_read_b96_tr_b6: 16 lanes read a block of rows, one row of elements of `bits`
    bits each lane's 64 (96) bits, and receive it transposed. Slots: destination, address, offset.

    Within 16 lanes, element e of lane l comes from the data that lane (l / per) + (16 / per) * e read, at position l %
    per, where `per` is the number of elements a lane reads.
    """
    preload(b, 3)
    exec = b.exec_bits()
    dwords = 3 if bits == 6 else 2
    lds_addresses(b, b.load_register(b.slot(1), U32), low_word(b, b.slot(2)), exec, 4 * dwords)
    rows = b.work(state.WORK_ROWS)
    transfer(b, Access(4 * dwords), rows, exec, store=False)
    words = [
        Value(b, U32, b.assign(f"load <64 x i32>, ptr {b.pointer(rows, k * state.VGPR_BYTES)}, align 64"))
        for k in range(dwords)
    ]
    per = 32 * dwords // bits
    results = [b.u32(0)] * dwords
    for element in range(per):
        picked = _transposed_element(b, words, element, per, bits)
        first = element * bits
        results[first // 32] = results[first // 32] | (picked << (first % 32))
        if first % 32 + bits > 32:
            results[first // 32 + 1] = results[first // 32 + 1] | (picked >> (32 - first % 32))
    for k, word in enumerate(results):
        offset = b.assign(f"add i64 {b.slot(0)}, {k * state.VGPR_BYTES}")
        b.store_register(offset, word, b.active())
    b.next()


def transposed_source(lane: int, element: int, per: int) -> tuple[int, int]:
    """(lane, element) of the data read that becomes `element` of `lane`."""
    group, within = lane & ~15, lane & 15
    return group | (element * (16 // per) + within // per), within % per


def _transposed_element(b: HandlerBuilder, words: list[Value], element: int, per: int, bits: int) -> Value:
    """One element of the result in every lane: a constant shuffle for each position that occurs."""
    sources = [transposed_source(lane, element, per) for lane in range(64)]
    order = tuple(lane for lane, _ in sources)
    result = b.u32(0)
    for position in range(per):
        chosen = sum(1 << lane for lane, (_, where) in enumerate(sources) if where == position)
        first = position * bits
        data = words[first // 32] >> (first % 32)
        if first % 32 + bits > 32:
            data = data | (words[first // 32 + 1] << (32 - first % 32))
        moved = b.shuffle(data & ((1 << bits) - 1), order)
        result = b.select(b.mask_of_bits(str(chosen)), moved, result)
    return result


HELPERS = {
    "gather_lanes": """define internal void @gather_lanes(ptr %data, ptr %indices, ptr %result) #1 {
entry:
  br label %body
body:
  %lane = phi i64 [ 0, %entry ], [ %next, %body ]
  %index_slot = getelementptr i32, ptr %indices, i64 %lane
  %index = load i32, ptr %index_slot, align 4
  %source = getelementptr i32, ptr %data, i32 %index
  %word = load i32, ptr %source, align 4
  %target = getelementptr i32, ptr %result, i64 %lane
  store i32 %word, ptr %target, align 4
  %next = add i64 %lane, 1
  %more = icmp ult i64 %next, 64
  br i1 %more, label %body, label %done
done:
  ret void
}
""",
    "scatter_lanes": f"""define internal void @scatter_lanes(i64 %mask, ptr %data, ptr %targets, ptr %result) #1 {{
entry:
  br label %head
{each_lane(None, again="body")}  %source = getelementptr i32, ptr %data, i64 %lane
  %word = load i32, ptr %source, align 4
  %target_slot = getelementptr i32, ptr %targets, i64 %lane
  %target_lane = load i32, ptr %target_slot, align 4
  %target = getelementptr i32, ptr %result, i32 %target_lane
  store i32 %word, ptr %target, align 4
  br label %head
done:
  ret void
}}
""",
}
