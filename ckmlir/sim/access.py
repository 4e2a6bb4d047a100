"""Moving data between memory and the lanes of vector registers: what an access is, and the helper functions that
handlers call.

A helper takes the lanes' host addresses as an array of 64 i64 and the registers as rows of 64 dwords. Bounds are
checked before, in `memory_access.py`. Helpers are IR text; a module includes those that its handlers name.
"""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from ckmlir.sim import state
from ckmlir.sim.ir_text import FIND_ENTRY, each_lane, field


class Access(Struct, frozen=True):
    """The shape of one lane's access: whole dwords, or one byte or half word.

    Attributes:
        bytes: In memory.
        signed: A byte or half word is sign extended when loaded.
        place: Where a byte or half word is in its register: "whole" (extended to 32 bits; the low part when stored),
            "low" or "high" (a d16 load keeps the other half).
    """

    bytes: int
    signed: bool = False
    place: str = "whole"

    @property
    def dwords(self) -> int:
        return max(1, self.bytes // 4)

    @property
    def is_part(self) -> bool:
        return self.bytes < 4

    @property
    def name(self) -> str:
        if not self.is_part:
            return f"{self.dwords}dwords"
        return f"{'i' if self.signed else 'u'}{8 * self.bytes}_{self.place}"


# By the end of the mnemonic of global, flat, scratch and buffer instructions, and of LDS instructions.
ACCESSES: dict[str, Access] = {
    "ubyte": Access(1), "sbyte": Access(1, True), "ushort": Access(2), "sshort": Access(2, True),
    "dword": Access(4), "dwordx2": Access(8), "dwordx3": Access(12), "dwordx4": Access(16),
    "ubyte_d16": Access(1, False, "low"), "sbyte_d16": Access(1, True, "low"), "short_d16": Access(2, False, "low"),
    "ubyte_d16_hi": Access(1, False, "high"), "sbyte_d16_hi": Access(1, True, "high"),
    "short_d16_hi": Access(2, False, "high"),
    "byte": Access(1), "short": Access(2), "byte_d16_hi": Access(1, False, "high"),
    "b8": Access(1), "b16": Access(2), "b32": Access(4), "b64": Access(8), "b96": Access(12), "b128": Access(16),
    "u8": Access(1), "i8": Access(1, True), "u16": Access(2), "i16": Access(2, True),
    "u8_d16": Access(1, False, "low"), "i8_d16": Access(1, True, "low"), "u16_d16": Access(2, False, "low"),
    "u8_d16_hi": Access(1, False, "high"), "i8_d16_hi": Access(1, True, "high"), "u16_d16_hi": Access(2, False, "high"),
    "b8_d16_hi": Access(1, False, "high"), "b16_d16_hi": Access(2, False, "high"),
}  # fmt: skip

_ROW = state.VGPR_BYTES


def _masked_loop(signature: str, body: str) -> str:
    """A function that runs `body` for each set bit %lane of %mask; %address is that lane's address as a pointer."""
    return f"""define internal void {signature} #1 {{
entry:
  br label %head
{each_lane("address_bits")}  %address = inttoptr i64 %address_bits to ptr
  %register = getelementptr i32, ptr %rows, i64 %lane
{body}  br label %next
next:
  br label %head
done:
  ret void
}}
"""


def _part_load(access: Access) -> str:
    """Load a byte or half word and merge it into the register."""
    bits = 8 * access.bytes
    extension = "sext" if access.signed else "zext"
    lines = [f"%part = load i{bits}, ptr %address, align 1"]
    if access.place == "whole":
        lines += [f"%word = {extension} i{bits} %part to i32"]
    else:
        half = "%part" if bits == 16 else "%half"
        lines += [f"%half = {extension} i{bits} %part to i16"] if bits < 16 else []
        shift, kept = (0, 0xFFFF0000) if access.place == "low" else (16, 0xFFFF)
        lines += [
            f"%wide = zext i16 {half} to i32",
            f"%placed = shl i32 %wide, {shift}",
            "%old = load i32, ptr %register, align 4",
            f"%kept = and i32 %old, {kept}",
            "%word = or i32 %kept, %placed",
        ]
    lines += ["store i32 %word, ptr %register, align 4"]
    return "".join(f"  {line}\n" for line in lines)


def _part_store(access: Access) -> str:
    bits, shift = 8 * access.bytes, 16 if access.place == "high" else 0
    return (
        f"  %word = load i32, ptr %register, align 4\n  %moved = lshr i32 %word, {shift}\n"
        f"  %part = trunc i32 %moved to i{bits}\n  store i{bits} %part, ptr %address, align 1\n"
    )


def _dwords(access: Access, store: bool) -> str:
    lines = []
    for k in range(access.dwords):
        lines += [
            f"%memory{k} = getelementptr i8, ptr %address, i64 {4 * k}",
            f"%row{k} = getelementptr i8, ptr %register, i64 {_ROW * k}",
        ]
        source, target = (f"%row{k}", f"%memory{k}") if store else (f"%memory{k}", f"%row{k}")
        lines += [f"%word{k} = load i32, ptr {source}, align 1", f"store i32 %word{k}, ptr {target}, align 1"]
    return "".join(f"  {line}\n" for line in lines)


_AHEAD = 128  # two lines of the host's caches: a step of 64 f16 along K, and rows of matrices are read along them


def _transposed(access: Access, verb: str) -> str:
    """All 64 lanes, four at a time: whole vectors on the memory side, four lanes of each row on the register side.

    Args:
        access: The shape of a lane's access.
        verb: "load", "store", or "stream": a load from memory that also asks for the bytes _AHEAD of its own, since
            kernels read memory in strips that go on there. The load of LDS does not, which is in the cache anyway.
    """
    n = access.dwords
    memory, row = f"<{n} x i32>" if n > 1 else "i32", "<4 x i32>"
    lines = []
    for lane in range(4):
        lines += [
            f"%slot{lane} = getelementptr i64, ptr %four_addresses, i64 {lane}",
            f"%bits{lane} = load i64, ptr %slot{lane}, align 8",
            f"%address{lane} = inttoptr i64 %bits{lane} to ptr",
        ]
    for k in range(n):
        lines += [f"%row{k} = getelementptr i8, ptr %four_lanes, i64 {_ROW * k}"]
    if verb == "store":
        lines += [f"%r{k} = load {row}, ptr %row{k}, align 16" for k in range(n)]
        lines += _transpose([f"%r{k}" for k in range(n)], 4)
        lines += [f"store {memory} %v{lane}, ptr %address{lane}, align 1" for lane in range(4)]
    else:
        lines += [f"%m{lane} = load {memory}, ptr %address{lane}, align 1" for lane in range(4)]
        lines += _transpose([f"%m{lane}" for lane in range(4)], n)
        lines += [f"store {row} %v{k}, ptr %row{k}, align 16" for k in range(n)]
    if verb == "stream":
        lines += [
            f"%ahead = getelementptr i8, ptr %address0, i64 {_AHEAD}",
            "call void @llvm.prefetch.p0(ptr %ahead, i32 0, i32 2, i32 1)",  # for reading, into the second cache
        ]
    body = "".join(f"  {line}\n" for line in lines)
    name = f"{verb}_all_{access.name}"
    return f"""define internal void @{name}(ptr %addresses, ptr %rows) #1 {{
entry:
  br label %body
body:
  %lane = phi i64 [ 0, %entry ], [ %next_lane, %body ]
  %four_addresses = getelementptr i64, ptr %addresses, i64 %lane
  %four_lanes = getelementptr i32, ptr %rows, i64 %lane
{body}  %next_lane = add i64 %lane, 4
  %more = icmp ult i64 %next_lane, 64
  br i1 %more, label %body, label %done
done:
  ret void
}}
"""


def _transpose(inputs: list[str], length: int) -> list[str]:
    """IR that turns vectors of `length` dwords into %v0..%v(length-1), each with one dword of every input."""
    count = len(inputs)
    scalar_in, scalar_out = length == 1, count == 1
    vector = f"<{count} x i32>"
    lines = []
    if scalar_in or scalar_out or count not in (2, 4) or length not in (2, 4):
        for k in range(length):
            current = "poison"
            for position, name in enumerate(inputs):
                element = name
                if not scalar_in:
                    element = f"%e{k}_{position}"
                    lines.append(f"{element} = extractelement <{length} x i32> {name}, i64 {k}")
                if scalar_out:
                    lines.append(f"%v{k} = freeze i32 {element}")
                    continue
                target = f"%v{k}" if position == count - 1 else f"%i{k}_{position}"
                lines.append(f"{target} = insertelement {vector} {current}, i32 {element}, i64 {position}")
                current = target
        return lines
    joined = "<" + ", ".join(f"i32 {k}" for k in range(2 * length)) + ">"
    type = f"<{length} x i32>"
    pairs = []
    for position in range(0, count, 2):
        name = f"%pair{position}"
        lines.append(
            f"{name} = shufflevector {type} {inputs[position]}, {type} {inputs[position + 1]}, "
            f"<{2 * length} x i32> {joined}"
        )
        pairs.append(name)
    wide = f"<{2 * length} x i32>"
    second = pairs[1] if count == 4 else "poison"
    for k in range(length):
        order = ", ".join(f"i32 {k + length * position}" for position in range(count))
        lines.append(f"%v{k} = shufflevector {wide} {pairs[0]}, {wide} {second}, <{count} x i32> <{order}>")
    return lines


@cache
def helper_texts() -> dict[str, str]:
    """All helpers by name."""
    texts: dict[str, str] = {}
    for access in ACCESSES.values():
        signature = f"_masked_{access.name}(i64 %mask, ptr %addresses, ptr %rows)"
        if access.is_part:
            texts[f"load_masked_{access.name}"] = _masked_loop("@load" + signature, _part_load(access))
            texts[f"store_masked_{access.name}"] = _masked_loop("@store" + signature, _part_store(access))
        else:
            texts[f"load_masked_{access.name}"] = _masked_loop("@load" + signature, _dwords(access, store=False))
            texts[f"store_masked_{access.name}"] = _masked_loop("@store" + signature, _dwords(access, store=True))
            texts |= {f"{verb}_all_{access.name}": _transposed(access, verb) for verb in ("load", "stream", "store")}
    texts["find_outside"], texts["find_entry"] = _FIND_OUTSIDE, FIND_ENTRY
    return texts


# The first lane of a mask whose access is in no allocation, or -1. Starts at a remembered entry of the table of
# allocations and remembers the last one found. The entries are pairs (first address, bytes) in ascending order.
_FIND_OUTSIDE = f"""
define internal i64 @find_outside(i64 %mask, ptr %addresses, i64 %bytes, ptr %context, ptr %remembered) #1 {{
entry:
{field("context", state.ALLOCATIONS, "table", "ptr")}  br label %head
{each_lane(again="found")}  %index = call i64 @find_entry(i64 %address, ptr %context)
  %candidate = getelementptr [2 x i64], ptr %table, i64 %index
  %first = load i64, ptr %candidate, align 8
  %size_field = getelementptr i64, ptr %candidate, i64 1
  %size = load i64, ptr %size_field, align 8
  %offset = sub i64 %address, %first
  %above_first = icmp uge i64 %address, %first
  %end = add i64 %offset, %bytes
  %fits = icmp ule i64 %end, %size
  %no_wrap = icmp uge i64 %end, %offset
  %both = and i1 %fits, %no_wrap
  %good = and i1 %both, %above_first
  br i1 %good, label %found, label %outside
found:
  store ptr %candidate, ptr %remembered, align 8
  br label %head
outside:
  ret i64 %lane
done:
  ret i64 -1
}}
"""
