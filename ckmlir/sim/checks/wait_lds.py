"""The wait check on LDS: which accesses are in flight, and who touches their bytes.

Each access to LDS enters the ring of its wave and counter, with the bytes of all lanes. Two kinds of uses come too
early:

- a wave's own use of bytes that its copy from memory has not reached, or that its store from LDS has not read and the
  use overwrites; or that such a store reads before they are written (its other accesses execute in order);
- another wave's use of bytes with an access that was in flight at the last barrier: a write, or a read that the use
  overwrites. That its wave waits later does not help, for nobody knows until the next barrier.

Chunks of LDS, one bit each, tell most accesses apart; only where chunks meet are bytes compared.
"""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.checks import layout
from ckmlir.sim.checks import wait_layout as wait
from ckmlir.sim.checks.layout import Kind
from ckmlir.sim.checks.wait_handlers import NEEDED_COUNT, load
from ckmlir.sim.ir_text import each_lane, field

_V = "<64 x i64>"


def _splat(name: str, scalar: str, type: str = "i64") -> str:
    v = f"<64 x {type}>"
    return (
        f"  %{name}_first = insertelement {v} poison, {type} {scalar}, i64 0\n"
        f"  %{name}_v = shufflevector {v} %{name}_first, {v} poison, <64 x i32> zeroinitializer\n"
    )


def _store(block: str, offset: int, value: str, type: str = "i32") -> str:
    name = f"{block}_{offset}"
    return (
        f"  %{name}_to = getelementptr i8, ptr %{block}, i64 {offset}\n"
        f"  store {type} {value}, ptr %{name}_to, align {4 if type == 'i32' else 8}\n"
    )


def _ring(counter: str) -> str:
    """IR that finds a counter's ring of %waits: %ring, %kept accesses in it of %count ever, and the number %done."""
    return f"""  %counter4 = shl i64 %{counter}, 2
  %done_offset = add i64 %counter4, {wait.DONE}
  %count_offset = add i64 %counter4, {wait.LDS_COUNT}
{load("done", "%done_offset")}{load("count32", "%count_offset")}
  %count = zext i32 %count32 to i64
  %kept = call i64 @llvm.umin.i64(i64 %count, i64 {wait.ENTRIES})
  %ring_offset = mul i64 %{counter}, {wait.ENTRIES * wait.ENTRY_BYTES}
  %ring_place = add i64 %ring_offset, {wait.RING}
  %ring = getelementptr i8, ptr %waits, i64 %ring_place
"""


def _walk_back(entry: str, number: str, chunks: str, flies: str, over: str) -> str:
    """IR of a loop's body: the ring's entry number %k from its end, with its fields, by these names; then to the block
    `flies` while that access is in flight, else to `over`: accesses before it have ended too."""
    return f"""  %k_next = add i64 %k, 1
  %from_start = sub i64 %count, %k_next
  %slot = and i64 %from_start, {wait.ENTRIES - 1}
  %slot_bytes = mul i64 %slot, {wait.ENTRY_BYTES}
  %{entry} = getelementptr i8, ptr %ring, i64 %slot_bytes
{field(entry, wait.ENTRY_NUMBER, number, "i32")}{field(entry, wait.ENTRY_CHUNKS, chunks)}
  %in_flight = icmp ugt i32 %{number}, %done
  br i1 %in_flight, label %{flies}, label %{over}
"""


# Check an access to LDS of `bytes` at the noted address of each lane of the mask, and enter it in the wave's ring.
# Addresses outside of LDS (of flat accesses) do not count.
OBSERVE = f"""
define internal void @wait_lds(i64 %mask, ptr %addresses, ptr %wave, ptr %record, i64 %bytes, i64 %flags) #1 {{
entry:
{field("wave", state.CONTEXT, "context", "ptr")}{field("context", state.LDS_BASE, "lds")}
{field("context", state.LDS_SIZE, "size")}{field("context", state.WAIT_CHUNK_SHIFT, "shift")}
{field("context", state.WAIT_LATE_CHUNKS, "late")}{field("context", state.RECORDS, "records")}
  %waits = getelementptr i8, ptr %wave, i64 {layout.WAITS}
  %all = load {_V}, ptr %addresses, align 64
{_splat("lds", "%lds")}{_splat("size", "%size")}{_splat("shift", "%shift")}
  %less = add i64 %bytes, -1
{_splat("less", "%less")}  %offsets = sub {_V} %all, %lds_v
  %inside = icmp ult {_V} %offsets, %size_v
  %asked = bitcast i64 %mask to <64 x i1>
  %active_v = and <64 x i1> %inside, %asked
  %active = bitcast <64 x i1> %active_v to i64
  %some = icmp ne i64 %active, 0
  br i1 %some, label %touch, label %over
touch:
  %ends = add {_V} %offsets, %less_v
  %first_chunk = lshr {_V} %offsets, %shift_v
  %last_chunk = lshr {_V} %ends, %shift_v
  %first_low = and {_V} %first_chunk, splat (i64 63)
  %last_low = and {_V} %last_chunk, splat (i64 63)
  %first_bit = shl {_V} splat (i64 1), %first_low
  %last_bit = shl {_V} splat (i64 1), %last_low
  %bits = or {_V} %first_bit, %last_bit
  %chosen = select <64 x i1> %active_v, {_V} %bits, {_V} zeroinitializer
  %chunks = call i64 @llvm.vector.reduce.or.v64i64({_V} %chosen)
{field("waits", wait.COPIES, "copies")}  %dangerous = or i64 %late, %copies
  %met = and i64 %dangerous, %chunks
  %meets = icmp ne i64 %met, 0
  %stores_directly = icmp eq i64 %flags, {wait.READS | wait.DIRECT}
  %suspicious = or i1 %meets, %stores_directly
  br i1 %suspicious, label %compare, label %enter
compare:
  call void @wait_lds_compare(ptr %wave, ptr %record, i64 %active, ptr %addresses, i64 %bytes, i64 %flags,
                              i64 %chunks)
  br label %enter
enter:
  %direct = and i64 %flags, {wait.DIRECT}
  %is_direct = icmp ne i64 %direct, 0
  %counter = select i1 %is_direct, i64 {wait.VM}, i64 {wait.LGKM}
  %counter4 = shl i64 %counter, 2
  %issued_offset = add i64 %counter4, {wait.ISSUED}
{load("issued", "%issued_offset")}  %count_offset = add i64 %counter4, {wait.LDS_COUNT}
{load("count", "%count_offset")}  %count_next = add i32 %count, 1
  store i32 %count_next, ptr %count_at, align 4
  %slot32 = and i32 %count, {wait.ENTRIES - 1}
  %slot = zext i32 %slot32 to i64
  %slot_bytes = mul i64 %slot, {wait.ENTRY_BYTES}
  %ring = mul i64 %counter, {wait.ENTRIES * wait.ENTRY_BYTES}
  %ring_place = add i64 %ring, %slot_bytes
  %place = add i64 %ring_place, {wait.RING}
  %entry_at = getelementptr i8, ptr %waits, i64 %place
  %record_bits = ptrtoint ptr %record to i64
  %distance = sub i64 %record_bits, %records
  %number64 = udiv i64 %distance, {state.RECORD_BYTES}
  %number = trunc i64 %number64 to i32
  %bytes32 = trunc i64 %bytes to i32
  %flags32 = trunc i64 %flags to i32
  %counter32 = trunc i64 %counter to i32
{_store("entry_at", wait.ENTRY_NUMBER, "%issued")}{_store("entry_at", wait.ENTRY_COUNTER, "%counter32")}
{_store("entry_at", wait.ENTRY_RECORD, "%number")}{_store("entry_at", wait.ENTRY_SIZE, "%bytes32")}
{_store("entry_at", wait.ENTRY_MASK, "%active", "i64")}{_store("entry_at", wait.ENTRY_CHUNKS, "%chunks", "i64")}
{_store("entry_at", wait.ENTRY_FLAGS, "%flags32")}
  %short = trunc {_V} %offsets to <64 x i32>
  %offsets_at = getelementptr i8, ptr %entry_at, i64 {wait.ENTRY_OFFSETS}
  store <64 x i32> %short, ptr %offsets_at, align 4
  br i1 %is_direct, label %copy, label %over
copy:
  %copies_with = or i64 %copies, %chunks
  store i64 %copies_with, ptr %copies_at, align 8
  br label %over
over:
  ret void
}}
"""

_HITS = "  %found = phi i64 [ 0, %entry ], [ %found_next, %body ]\n"

# The lanes of an access that touch a byte of an earlier one.
OVERLAP = f"""
define internal i64 @wait_lds_overlap(ptr %entry_at, i64 %active, ptr %addresses, i64 %lds, i64 %bytes) #1 {{
entry:
{field("entry_at", wait.ENTRY_SIZE, "their_bytes", "i32")}{field("entry_at", wait.ENTRY_MASK, "their_mask")}
  %offsets_at = getelementptr i8, ptr %entry_at, i64 {wait.ENTRY_OFFSETS}
  %theirs = load <64 x i32>, ptr %offsets_at, align 4
  %bytes32 = trunc i64 %bytes to i32
  %last = add i32 %bytes32, -1
  %span = add i32 %last, %their_bytes
{_splat("span", "%span", "i32")}  br label %head
{each_lane(phis=_HITS, mask="active", again="body")}  %offset = sub i64 %address, %lds
  %offset32 = trunc i64 %offset to i32
  %shifted = add i32 %offset32, %last
{_splat("mine", "%shifted", "i32")}
  %distance = sub <64 x i32> %mine_v, %theirs
  %meets = icmp ult <64 x i32> %distance, %span_v
  %meets_bits = bitcast <64 x i1> %meets to i64
  %real = and i64 %meets_bits, %their_mask
  %hit = icmp ne i64 %real, 0
  %bit = shl i64 1, %lane
  %with = or i64 %found, %bit
  %found_next = select i1 %hit, i64 %with, i64 %found
  br label %head
done:
  ret i64 %found
}}
"""


def _note(kind: int, prefix: str, needed: str, more: str) -> str:
    """Note a finding of lanes %PREFIX_lanes with an access, and forget the access."""
    return f"""  %{prefix}_first = call i64 @llvm.cttz.i64(i64 %{prefix}_lanes, i1 true)
  %{prefix}_slot = getelementptr i64, ptr %addresses, i64 %{prefix}_first
  %{prefix}_address = load i64, ptr %{prefix}_slot, align 8
{field(f"{prefix}_entry", wait.ENTRY_RECORD, f"{prefix}_record", "i32")}
{field(f"{prefix}_entry", wait.ENTRY_COUNTER, f"{prefix}_counter32", "i32")}
  %{prefix}_other = zext i32 %{prefix}_record to i64
  %{prefix}_counter = zext i32 %{prefix}_counter32 to i64
{needed}  %{prefix}_needed_bits = shl i64 %{prefix}_needed, {wait.TAG_NEEDED}
  %{prefix}_tag0 = or i64 %{prefix}_counter, %{prefix}_needed_bits
  %{prefix}_tag = or i64 %{prefix}_tag0, {more}
  call void @note_finding(ptr %wave, ptr %record, i64 {kind}, i64 %{prefix}_lanes, i64 %{prefix}_address,
                          i64 %{prefix}_tag, i64 %{prefix}_other)
{_store(f"{prefix}_entry", wait.ENTRY_MASK, "0", "i64")}"""


_OWN_NEEDED = "  %own_needed = call i64 @needed_count(ptr %waits, i64 %ring_counter, i32 %own_number)\n"
_LATE_TAG = f"""{field("late_entry", wait.ENTRY_NEEDED, "late_needed32", "i32")}
{field("late_entry", wait.ENTRY_BARRIER, "late_barrier32", "i32")}
  %late_needed = zext i32 %late_needed32 to i64
  %late_wave64 = zext i32 %late_wave to i64
  %late_barrier = zext i32 %late_barrier32 to i64
  %late_wave_bits = shl i64 %late_wave64, {wait.TAG_WAVE}
  %late_barrier_bits = shl i64 %late_barrier, {wait.TAG_BARRIER}
  %late_more = or i64 %late_wave_bits, %late_barrier_bits
"""

# Compare an access with the wave's own direct accesses in flight (a store from LDS with its others too) and with what
# other waves had in flight at the last barrier.
COMPARE = f"""
define internal void @wait_lds_compare(ptr %wave, ptr %record, i64 %active, ptr %addresses, i64 %bytes, i64 %flags,
                                       i64 %chunks) #1 {{
entry:
{field("wave", state.CONTEXT, "context", "ptr")}{field("context", state.LDS_BASE, "lds")}
{field("wave", state.WAVE_NUMBER, "self", "i32")}
{field("context", state.WAIT_LATE, "late", "ptr")}{field("context", state.WAIT_LATE_COUNT, "late_count")}
  %waits = getelementptr i8, ptr %wave, i64 {layout.WAITS}
  %is_copy = icmp eq i64 %flags, {wait.WRITES | wait.DIRECT}
  %stores_directly = icmp eq i64 %flags, {wait.READS | wait.DIRECT}
  %writes64 = and i64 %flags, {wait.WRITES}
  %writes = icmp ne i64 %writes64, 0
  br label %own_ring
own_ring:
  %ring_counter = phi i64 [ {wait.VM}, %entry ], [ {wait.LGKM}, %own_direct ]
{_ring("ring_counter")}  br label %own
own:
  %k = phi i64 [ 0, %own_ring ], [ %k_next, %own_next ]
  %copies = phi i64 [ 0, %own_ring ], [ %copies_next, %own_next ]
  %own_over = icmp uge i64 %k, %kept
  br i1 %own_over, label %own_done, label %own_body
own_body:
{_walk_back("own_entry", "own_number", "own_chunks", "own_flies", "own_done")}own_flies:
  %copies_with = or i64 %copies, %own_chunks
  %own_common = and i64 %own_chunks, %chunks
  %own_apart = icmp eq i64 %own_common, 0
{field("own_entry", wait.ENTRY_FLAGS, "own_flags", "i32")}
  %own_writes32 = and i32 %own_flags, {wait.WRITES}
  %own_writes = icmp ne i32 %own_writes32, 0
  %own_conflicts = or i1 %own_writes, %writes
  %own_reads_only = xor i1 %own_conflicts, true
  %both_copies = and i1 %own_writes, %is_copy
  %own_peace = or i1 %own_reads_only, %both_copies
  %own_skip = or i1 %own_apart, %own_peace
  br i1 %own_skip, label %own_next, label %own_compare
own_compare:
  %own_lanes = call i64 @wait_lds_overlap(ptr %own_entry, i64 %active, ptr %addresses, i64 %lds, i64 %bytes)
  %own_clean = icmp eq i64 %own_lanes, 0
  br i1 %own_clean, label %own_next, label %own_note
own_note:
{_note(Kind.EARLY_LDS_COPY, "own", _OWN_NEEDED, "0")}  br label %own_next
own_next:
  %copies_next = phi i64 [ %copies_with, %own_flies ], [ %copies_with, %own_compare ], [ %copies_with, %own_note ]
  br label %own
own_done:
  %own_is_direct = icmp eq i64 %ring_counter, {wait.VM}
  br i1 %own_is_direct, label %own_direct, label %others
own_direct:
{_store("waits", wait.COPIES, "%copies", "i64")}  br i1 %stores_directly, label %own_ring, label %others
others:
  br label %other
other:
  %n = phi i64 [ 0, %others ], [ %n_next, %other_next ]
  %over = icmp uge i64 %n, %late_count
  br i1 %over, label %done_all, label %other_body
other_body:
  %n_next = add i64 %n, 1
  %late_bytes = mul i64 %n, {wait.ENTRY_BYTES}
  %late_entry = getelementptr i8, ptr %late, i64 %late_bytes
{field("late_entry", wait.ENTRY_CHUNKS, "late_chunks")}{field("late_entry", wait.ENTRY_WAVE, "late_wave", "i32")}
{field("late_entry", wait.ENTRY_FLAGS, "late_flags", "i32")}
  %late_writes32 = and i32 %late_flags, {wait.WRITES}
  %late_writes = icmp ne i32 %late_writes32, 0
  %conflicts = or i1 %late_writes, %writes
  %foreign = icmp ne i32 %late_wave, %self
  %late_common = and i64 %late_chunks, %chunks
  %late_near = icmp ne i64 %late_common, 0
  %late_a = and i1 %conflicts, %foreign
  %late_b = and i1 %late_a, %late_near
  br i1 %late_b, label %other_compare, label %other_next
other_compare:
  %late_lanes = call i64 @wait_lds_overlap(ptr %late_entry, i64 %active, ptr %addresses, i64 %lds, i64 %bytes)
  %late_clean = icmp eq i64 %late_lanes, 0
  br i1 %late_clean, label %other_next, label %other_note
other_note:
{_note(Kind.LATE_LDS, "late", _LATE_TAG, "%late_more")}  br label %other_next
other_next:
  br label %other
done_all:
  ret void
}}
"""

# At a barrier: list the accesses of all waves that are in flight, with what would have been enough to wait for.
COLLECT_LATE = f"""
declare i64 @llvm.umin.i64(i64, i64)
{NEEDED_COUNT}
define internal void @collect_late(ptr %context) #1 {{
entry:
{field("context", state.WAVES, "waves", "ptr")}{field("context", state.WAVE_COUNT, "wave_count")}
{field("context", state.WAIT_LATE, "late", "ptr")}{field("context", state.RECORDS, "records")}
  br label %wave_head
wave_head:
  %w = phi i64 [ 0, %entry ], [ %w_next, %ring_done ]
  %counter = phi i64 [ 0, %entry ], [ %counter_next, %ring_done ]
  %n = phi i64 [ 0, %entry ], [ %n_here, %ring_done ]
  %chunks = phi i64 [ 0, %entry ], [ %chunks_here, %ring_done ]
  %wave_over = icmp uge i64 %w, %wave_count
  br i1 %wave_over, label %done_all, label %wave_body
wave_body:
  %wave_offset = mul i64 %w, {state.WAVE_BYTES}
  %wave = getelementptr i8, ptr %waves, i64 %wave_offset
  %waits = getelementptr i8, ptr %wave, i64 {layout.WAITS}
{field("wave", state.RESUME, "resume")}{field("wave", state.STATUS, "status", "i32")}
  %distance = sub i64 %resume, %records
  %after64 = udiv i64 %distance, {state.RECORD_BYTES}
  %after = trunc i64 %after64 to i32
  %at_barrier = icmp eq i32 %status, {state.Status.BARRIER}
  %back = zext i1 %at_barrier to i32
  %barrier = sub i32 %after, %back
{_ring("counter")}  br label %ring_head
ring_head:
  %k = phi i64 [ 0, %wave_body ], [ %k_next, %flies ]
  %n_here = phi i64 [ %n, %wave_body ], [ %n_next, %flies ]
  %chunks_here = phi i64 [ %chunks, %wave_body ], [ %chunks_next, %flies ]
  %ring_over = icmp uge i64 %k, %kept
  br i1 %ring_over, label %ring_done, label %ring_body
ring_body:
{_walk_back("entry_at", "number", "entry_chunks", "flies", "ring_done")}flies:
  %copy_offset = mul i64 %n_here, {wait.ENTRY_BYTES}
  %copy = getelementptr i8, ptr %late, i64 %copy_offset
  call void @llvm.memcpy.p0.p0.i64(ptr %copy, ptr %entry_at, i64 {wait.ENTRY_BYTES}, i1 false)
  %needed = call i64 @needed_count(ptr %waits, i64 %counter, i32 %number)
  %needed32 = trunc i64 %needed to i32
  %wave32 = trunc i64 %w to i32
{_store("copy", wait.ENTRY_NEEDED, "%needed32")}{_store("copy", wait.ENTRY_BARRIER, "%barrier")}
{_store("copy", wait.ENTRY_WAVE, "%wave32")}
  %n_next = add i64 %n_here, 1
  %chunks_next = or i64 %chunks_here, %entry_chunks
  br label %ring_head
ring_done:
  %counter_next = sub i64 1, %counter
  %w_next = add i64 %w, %counter
  br label %wave_head
done_all:
{_store("context", state.WAIT_LATE_COUNT, "%n", "i64")}{_store("context", state.WAIT_LATE_CHUNKS, "%chunks", "i64")}
  ret void
}}
"""

# What a workgroup's wave starts with: all that was issued before is complete. Numbers start again before they wrap.
START_WAITS = f"""
define internal void @start_waits(ptr %wave) #1 {{
entry:
  %waits = getelementptr i8, ptr %wave, i64 {layout.WAITS}
{load("vm", str(wait.ISSUED))}{load("lgkm", str(wait.ISSUED + 4))}
  %both = or i32 %vm, %lgkm
  %many = icmp slt i32 %both, 0
  br i1 %many, label %again, label %go_on
again:
  call void @llvm.memset.p0.i64(ptr %waits, i8 0, i64 {wait.RING}, i1 false)
  ret void
go_on:
{_store("waits", wait.DONE, "%vm")}{_store("waits", wait.DONE + 4, "%lgkm")}
{_store("waits", wait.LDS_COUNT, "0", "i64")}{_store("waits", wait.COPIES, "0", "i64")}
  ret void
}}
"""

SCHEDULED = COLLECT_LATE + START_WAITS
"""What the scheduler calls."""


def helpers() -> dict[str, str]:
    """Functions that checked handlers call, by name."""
    return {"wait_lds": OBSERVE, "wait_lds_compare": COMPARE, "wait_lds_overlap": OVERLAP}
