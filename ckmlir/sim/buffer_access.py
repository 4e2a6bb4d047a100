"""Buffer instructions (MUBUF): addresses by a buffer resource, and its range check.

AMD CDNA3 ISA, section 9.1. The resource (V#) in four scalar registers: base (48 bits), stride (14 bits, bits 61:48),
swizzle enable (bit 63), num_records (word 2), and in word 3 the index stride (bits 22:21, 8 << n lanes) and
add_tid_enable (bit 23); the element size of swizzled buffers is 4 bytes here, which is what the private segment's
resource uses.

Range check, as that section gives it: a buffer with stride 0 or without swizzling is raw, and a dword is out of range
when buffer_offset >= num_records - soffset, with buffer_offset the sum of the instruction's, the VGPR's and the indexed
offset; the scalar offset thus counts. A swizzled buffer with a stride is structured: out of range when index >=
num_records. Each dword of a wide access is checked by itself; the subtraction saturates. Loads out of range give 0,
stores are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ckmlir.sim import state
from ckmlir.sim.access import Access
from ckmlir.sim.builder import Value
from ckmlir.sim.checks.observe import observe_clamped
from ckmlir.sim.element import MASK, U32, U64
from ckmlir.sim.handler import HandlerBuilder
from ckmlir.sim.memory_access import check_allocated, count_bytes, preload, register_rows, transfer
from ckmlir.sim.transfers import clear_lanes, dword_of

_ADD_TID = 1 << 23  # bit of word 3
# Operand slots of a buffer instruction.
DATA, ADDRESS, RESOURCE, SCALAR_OFFSET, OFFSET, REMEMBERED = range(6)


class BufferLanes:
    """Where the lanes of a buffer instruction access memory.

    Attributes:
        swizzled: Whether the resource is (a scalar mask).
        offset: Lanes' offset from VGPR and instruction (u64 lanes: it does not wrap); `index` u32 lanes.
        limit: num_records - scalar offset, saturated (u64 lanes).
        start: Base address plus scalar offset (u64 lanes).
    """

    def __init__(self, b: HandlerBuilder, formatted: bool = False) -> None:
        self.b = b
        preload(b, 6)
        s = b.scalars()
        resource = b.slot(RESOURCE)
        words = [b.load_scalar(b.assign(f"add i64 {resource}, {4 * k}"), U32) for k in range(4)]
        self.words = [Value(s, U32, name) for name in words]
        base = s.join(self.words[0], self.words[1] & 0xFFFF)
        self.stride = (self.words[1] >> 16) & 0x3FFF
        if not formatted:  # with add_tid_enable the data format is bits 17:14 of the stride
            more = ((self.words[3] >> 15) & 15) << 14
            self.stride = self.stride | s.select((self.words[3] & _ADD_TID).ne(0), more, s.u32(0))
        self.swizzled = ((self.words[1] >> 31).ne(0)) & self.stride.ne(0)
        scalar = self._scalar_offset(s).to(U64)
        limit = s.intrinsic("llvm.usub.sat.i64", "i64", self.words[2].to(U64), scalar)
        self.limit = b.splat(U64, limit)
        self.start = b.splat(U64, (base + scalar).handle)
        self.index, self.offset = self._index_and_offset()

    def _scalar_offset(self, s: HandlerBuilder) -> Value:
        b = self.b
        if b.key.operands[SCALAR_OFFSET] == "s":
            return Value(s, U32, b.load_scalar(b.slot(SCALAR_OFFSET), U32))
        return Value(s, U32, b.assign(f"trunc i64 {b.slot(SCALAR_OFFSET)} to i32"))

    def _index_and_offset(self) -> tuple[Value | None, Value]:
        """idxen takes the index from the first address register, offen the offset from the next. No index means 0."""
        b, key = self.b, self.b.key
        offset = b.splat(U64, b.slot(OFFSET))
        index, place = None, b.slot(ADDRESS)
        if key.modifier("idxen"):
            index = b.load_register(place, U32)
            place = b.assign(f"add i64 {place}, {state.VGPR_BYTES}")
        if key.modifier("offen"):
            offset = offset + b.load_register(place, U32).to(U64)
        return index, offset

    def complete_index(self) -> Value:
        """The index with the lane number that add_tid_enable adds."""
        b = self.b
        lane = b.lane() * b.splat(U32, ((self.words[3] >> 23) & 1).handle)
        return lane if self.index is None else self.index + lane

    def linear_offset(self) -> Value:
        """buffer_offset of an unswizzled resource without add_tid_enable, u64 lanes."""
        if self.index is None:
            return self.offset
        return self.offset + self.index.to(U64) * self.b.splat(U32, self.stride.handle).to(U64)

    def is_simple(self) -> str:
        """Whether `linear_offset` is all there is to it (an i1): no swizzle, no lane added."""
        simple = ~self.swizzled & (self.words[3] & _ADD_TID).eq(0)
        return str(simple.handle)

    def whole_in_range(self, bytes: Value) -> Value:
        """The lanes whose `bytes` (u64 lanes) are all in range."""
        b, index = self.b, self.complete_index()
        linear = self.offset + index.to(U64) * b.splat(U32, self.stride.handle).to(U64)
        structured = index < b.splat(U32, self.words[2].handle)
        return b.select(b.splat(MASK, self.swizzled.handle), structured, linear + bytes <= self.limit)

    def general(self, dwords: int) -> list[tuple[Value, Value]]:
        """For each dword: host addresses, and the lanes that are in range. Section 9.1.5: a swizzled buffer interleaves
        the dwords of as many records as its index stride says."""
        b, s = self.b, self.b.scalars()
        index = self.complete_index()
        swizzled = b.splat(MASK, self.swizzled.handle)
        stride = b.splat(U32, self.stride.handle)
        log2 = b.splat(U32, (((self.words[3] >> 21) & 3) + 3).handle)  # of the index stride
        step = (s.u32(32) << ((self.words[3] >> 21) & 3)).to(U64)  # from one dword of a record to the next
        linear = self.offset + index.to(U64) * stride.to(U64)
        column = ((index >> log2) * stride).to(U64) + (self.offset & ~3)
        within = index & ((b.u32(1) << log2) - 1)
        interleaved = (column << log2.to(U64)) + (within << 2).to(U64) + (self.offset & 3)
        offsets = b.select(swizzled, interleaved, linear)
        steps = b.select(swizzled, b.splat(U64, step.handle), b.u64(4))
        structured = index < b.splat(U32, self.words[2].handle)
        found = []
        for k in range(dwords):
            addresses = self.start + offsets + (steps * b.u64(k) if k else b.u64(0))
            found.append((addresses, b.select(swizzled, structured, linear + 4 * k < self.limit)))
        return found


def for_each_part(
    b: HandlerBuilder,
    access: Access,
    lanes: BufferLanes,
    whole: Callable[[str], None],
    part: Callable[[int, str, str], None],
    counter: int,
) -> None:
    """Run `whole(mask)` when every active lane is in range with all its dwords contiguous, else `part(dword, mask, out
    of range)` for each dword. The masks are i64; addresses are checked and noted before each, and the bytes of lanes in
    range are counted."""
    exec = b.exec_bits()
    linear = lanes.linear_offset()
    inside = b.bits_of_mask(linear + 4 * (access.dwords - 1) < lanes.limit)
    beyond = b.assign(f"and i64 {b.assign(f'xor i64 {inside}, -1')}, {exec}")
    whole_case = b.assign(f"and i1 {lanes.is_simple()}, {b.assign(f'icmp eq i64 {beyond}, 0')}")
    plain, partial, done = b.new_label("plain"), b.new_label("partial"), b.new_label("done")
    b.emit(f"br i1 {whole_case}, label %{plain}, label %{partial}")
    b.label(plain)
    check_allocated(b, lanes.start + linear, exec, access.bytes, REMEMBERED)
    whole(exec)
    count_bytes(b, counter, exec, access.bytes)
    b.emit(f"br label %{done}")
    b.label(partial)
    for k, (addresses, in_range) in enumerate(lanes.general(access.dwords)):
        mask = b.assign(f"and i64 {exec}, {b.bits_of_mask(in_range)}")
        check_allocated(b, addresses, mask, min(access.bytes, 4), REMEMBERED)
        refused = b.assign(f"xor i64 {mask}, {exec}")
        observe_clamped(b, refused)
        part(k, mask, refused)
        count_bytes(b, counter, mask, min(access.bytes, 4))
    b.emit(f"br label %{done}")
    b.label(done)


def load_into(b: HandlerBuilder, access: Access, lanes: BufferLanes, rows: str) -> None:
    """Load into rows at a pointer; lanes out of range get 0."""

    def part(k: int, mask: str, out_of_range: str) -> None:
        row = b.pointer(rows, k * state.VGPR_BYTES)
        clear_lanes(b, access, row, out_of_range)
        transfer(b, dword_of(access), row, mask, store=False)

    whole = partial(transfer, b, access, rows, store=False)
    for_each_part(b, access, lanes, whole, part, state.READ_GLOBAL)


def store_from(b: HandlerBuilder, access: Access, lanes: BufferLanes, rows: str) -> None:
    """Store rows at a pointer; lanes out of range store nothing."""

    def part(k: int, mask: str, _: str) -> None:
        transfer(b, dword_of(access), b.pointer(rows, k * state.VGPR_BYTES), mask, store=True)

    whole = partial(transfer, b, access, rows, store=True)
    for_each_part(b, access, lanes, whole, part, state.WRITTEN_GLOBAL)


def buffer_access(b: HandlerBuilder, access: Access, store: bool) -> None:
    """buffer_load / buffer_store. Slots: data, address register, resource, scalar offset, offset, remembered
    allocation."""
    lanes = BufferLanes(b)
    (store_from if store else load_into)(b, access, lanes, register_rows(b, DATA))
    b.next()
