"""The handlers of the wait check's records: events are counted, waits complete them, registers in flight are not to be
touched. The operands of a key say for each slot which counter and how many registers: "0x4" is vmcnt, four registers;
the slot has the place of the first one's stamp."""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.builder import Value
from ckmlir.sim.checks import layout
from ckmlir.sim.checks import wait_layout as wait
from ckmlir.sim.checks.wait_layout import LGKM, VM
from ckmlir.sim.element import U32
from ckmlir.sim.handler import PROTOTYPE, SKIP, HandlerBuilder, HandlerKey
from ckmlir.sim.ir_text import field

PREFIX = "wait_"
ISSUE, REACH, CHECK = "wait_issue", "wait_reach", "wait_check"
TO_ZERO, COUNTED = 1, 2
"""How a record of s_waitcnt waits for a counter; 0 is not at all."""


def emit_wait(key: HandlerKey, name: str) -> tuple[str, set[str]]:
    """The text of a handler and the declarations it needs."""
    b = HandlerBuilder(key, 0)
    {ISSUE: _issue, REACH: _reach, CHECK: _check}[key.mnemonic](_Waits(b))
    b.next()
    start = SKIP if key.modifier("skips") else ""
    body = "\n".join(b.text.lines)
    return f"define i32 @{name}({PROTOTYPE}) #0 {{\nentry:\n{start}{body}\n}}\n", b.text.declarations


def run_of(operand: str) -> tuple[int, int]:
    """Counter and number of registers of an operand of a key."""
    counter, count = operand.split("x")
    return int(counter), int(count)


class _Waits:
    """What is known of the wave, as the builder's values."""

    def __init__(self, b: HandlerBuilder) -> None:
        self.b = b
        for slot in range(len(b.key.operands)):
            b.slot(slot)
        self.base = b.pointer("%wave", layout.WAITS)

    def load(self, offset: int) -> Value:
        return Value(self.b, U32, self.b.assign(f"load i32, ptr {self.b.pointer(self.base, offset)}, align 4"))

    def store(self, offset: int, value: Value) -> None:
        self.b.emit(f"store i32 {value.handle}, ptr {self.b.pointer(self.base, offset)}, align 4")

    def issued(self, counter: int) -> Value:
        return self.load(wait.ISSUED + 4 * counter)

    def done(self, counter: int) -> Value:
        return self.load(wait.DONE + 4 * counter)

    def complete(self, counter: int, number: Value) -> None:
        self.store(wait.DONE + 4 * counter, number)

    def none_in_flight(self, counter: int, *kinds: str) -> Value:
        """Whether no event of these kinds is in flight."""
        done = self.done(counter)
        found = self.b.true()
        for kind in kinds:
            found = found & (self.load(wait.LAST[counter, kind]) <= done)
        return found

    def in_order(self, counter: int) -> Value:
        """Whether the events in flight complete as they issued: scalar loads and flat accesses never do, and events of
        two kinds have no order among each other (CDNA3 ISA, section 4.4)."""
        if counter == VM:
            return self.none_in_flight(VM, "FLAT")
        one_kind = self.none_in_flight(LGKM, "LDS") | self.none_in_flight(LGKM, "MESSAGE")
        return self.none_in_flight(LGKM, "SMEM", "FLAT") & one_kind

    def only(self, counter: int, kind: str) -> Value:
        """Whether all events in flight are of one kind, which completes in order."""
        others = [other for at, other in wait.LAST if at == counter and other != kind]
        return self.none_in_flight(counter, *others)


def _reach(waits: _Waits) -> None:
    """s_waitcnt. Slots: the counts."""
    b = waits.b
    for counter, name in ((VM, "vm"), (LGKM, "lgkm")):
        if b.key.modifier(name) == TO_ZERO:
            waits.complete(counter, waits.issued(counter))
        elif b.key.modifier(name) == COUNTED:
            done, issued = waits.done(counter), waits.issued(counter)
            count = Value(b, U32, b.assign(f"trunc i64 {b.slot(counter)} to i32"))
            enough = waits.in_order(counter) & (issued >= count)
            reached = b.select(enough, issued - count, done)
            waits.complete(counter, reached.maximum(done))


def _issue(waits: _Waits) -> None:
    """An instruction that counts. Modifiers: the kind of its event by counter; operands: registers that it writes."""
    b = waits.b
    numbers: dict[int, Value] = {}
    for counter, name in ((VM, "vm"), (LGKM, "lgkm")):
        code = b.key.modifier(name)
        if not code:
            continue
        number = numbers[counter] = waits.issued(counter) + 1
        waits.store(wait.ISSUED + 4 * counter, number)
        if last := wait.LAST.get((counter, KIND_NAMES[code])):
            waits.store(last, number)
        # What the counter cannot hold is complete, or the instruction would have had to wait to issue.
        overflow = (number > wait.MOST[counter]) & waits.in_order(counter)
        held = b.select(overflow, number - wait.MOST[counter], b.u32(0))
        waits.complete(counter, waits.done(counter).maximum(held))
    record = _record_number(b) if b.key.operands else ""
    for slot, operand in enumerate(b.key.operands):
        counter, count = run_of(operand)
        place = b.assign(f"getelementptr i8, ptr {waits.base}, i64 {b.slot(slot)}")
        lanes = HandlerBuilder(b.key, count, b.text)
        for word, offset in ((str(numbers[counter].handle), 0), (record, wait.WRITERS - wait.STAMPS)):
            filled = lanes.splat(U32, word)
            b.emit(f"store {lanes.typed(filled)}, ptr {b.pointer(place, offset)}, align 4")


KIND_NAMES = ("", "VMEM", "FLAT", "LDS", "SMEM", "MESSAGE")
"""Kinds of events by their code in a key."""


def _record_number(b: HandlerBuilder) -> str:
    here = b.assign("ptrtoint ptr %record to i64")
    distance = b.assign(f"sub i64 {here}, {b.context_field(state.RECORDS)}")
    return b.assign(f"trunc i64 {b.assign(f'lshr i64 {distance}, 6')} to i32")


def _check(waits: _Waits) -> None:
    """Registers that an instruction is about to touch. With modifier "behind" (the code of a kind) they are those that
    its own result overwrites, which may be in flight when the result comes back behind them."""
    b = waits.b
    total, done = b.false(), {counter: waits.done(counter).handle for counter in (VM, LGKM)}
    for slot, operand in enumerate(b.key.operands):
        counter, count = run_of(operand)
        lanes = HandlerBuilder(b.key, count, b.text)
        place = b.assign(f"getelementptr i8, ptr {waits.base}, i64 {b.slot(slot)}")
        stamps = Value(lanes, U32, b.assign(f"load {lanes.spelled(U32)}, ptr {place}, align 4"))
        early = stamps > lanes.splat(U32, done[counter])
        bits = b.assign(f"bitcast {lanes.typed(early)} to i{count}")
        total = total | Value(b, total.type, b.assign(f"icmp ne i{count} {bits}, 0"))
    found, join = b.new_label("early"), b.new_label("clean")
    b.emit(f"br i1 {total.handle}, label %{found}, label %{join}")
    b.label(found)
    behind = KIND_NAMES[b.key.modifier("behind")]
    for slot, operand in enumerate(b.key.operands):
        counter, count = run_of(operand)
        length = b.assign(f"select i1 {waits.only(counter, behind).handle}, i64 0, i64 {count}") if behind else count
        b.emit(
            f"call void @note_early_registers(ptr %wave, ptr %record, i64 {counter}, i64 {b.slot(slot)}, i64 {length})"
        )
    b.emit(f"br label %{join}")
    b.label(join)


def load(name: str, offset: str, base: str = "waits", type: str = "i32") -> str:
    """IR that loads %NAME from a computed place of a block."""
    return (
        f"  %{name}_at = getelementptr i8, ptr %{base}, i64 {offset}\n"
        f"  %{name} = load {type}, ptr %{name}_at, align {4 if type == 'i32' else 8}\n"
    )


def _last(counter: int, kind: str, name: str) -> str:
    """%NAME: whether no event of the kind is in flight."""
    return load(f"{name}_last", str(wait.LAST[counter, kind])) + f"  %{name} = icmp ule i32 %{name}_last, %done\n"


# How many younger events an event of a counter may have at the s_waitcnt that completes it: the age of the event when
# the counter is in order, else 0.
NEEDED_COUNT = f"""
define internal i64 @needed_count(ptr %waits, i64 %counter, i32 %number) #1 {{
entry:
  %counter4 = shl i64 %counter, 2
  %done_offset = add i64 %counter4, {wait.DONE}
  %issued_offset = add i64 %counter4, {wait.ISSUED}
{load("done", "%done_offset")}{load("issued", "%issued_offset")}
  %is_vm = icmp eq i64 %counter, {VM}
  br i1 %is_vm, label %vm, label %lgkm
vm:
{_last(VM, "FLAT", "no_flat")}  br label %decide
lgkm:
{_last(LGKM, "SMEM", "no_smem")}{_last(LGKM, "FLAT", "no_lgkm_flat")}
{_last(LGKM, "LDS", "no_lds")}{_last(LGKM, "MESSAGE", "no_message")}
  %one_kind = or i1 %no_lds, %no_message
  %all_ordered = and i1 %no_smem, %no_lgkm_flat
  %ordered_lgkm = and i1 %one_kind, %all_ordered
  br label %decide
decide:
  %ordered = phi i1 [ %no_flat, %vm ], [ %ordered_lgkm, %lgkm ]
  %younger = sub i32 %issued, %number
  %needed = select i1 %ordered, i32 %younger, i32 0
  %wide = zext i32 %needed to i64
  ret i64 %wide
}}
"""

# Note the registers of a run that are in flight, those of one access as one finding, and forget them: each access that
# is not waited for is reported where it is used first.
NOTE_EARLY_REGISTERS = f"""
define internal void @note_early_registers(ptr %wave, ptr %record, i64 %counter, i64 %place, i64 %length) #1 {{
entry:
  %waits = getelementptr i8, ptr %wave, i64 {layout.WAITS}
{field("wave", state.EXEC, "exec")}
  %counter4 = shl i64 %counter, 2
  %done_offset = add i64 %counter4, {wait.DONE}
{load("done", "%done_offset")}
  %counter_array = mul i64 %counter, {4 * wait.REGISTERS}
  %array = add i64 %counter_array, {wait.STAMPS}
  %stamps = getelementptr i8, ptr %waits, i64 %array
  %into_array = sub i64 %place, %array
  %start = lshr i64 %into_array, 2
  %end = add i64 %start, %length
  br label %head
head:
  %k = phi i64 [ %start, %entry ], [ %k_next, %body ], [ %k_next, %forgotten ]
  %at_end = icmp uge i64 %k, %end
  br i1 %at_end, label %over, label %body
body:
  %k_next = add i64 %k, 1
  %stamp_at = getelementptr i32, ptr %stamps, i64 %k
  %stamp = load i32, ptr %stamp_at, align 4
  %early = icmp ugt i32 %stamp, %done
  br i1 %early, label %extend, label %head
extend:
  %last = phi i64 [ %k, %body ], [ %after, %same ]
  %after = add i64 %last, 1
  %more = icmp ult i64 %after, %end
  br i1 %more, label %same, label %note
same:
  %after_at = getelementptr i32, ptr %stamps, i64 %after
  %after_stamp = load i32, ptr %after_at, align 4
  %is_same = icmp eq i32 %after_stamp, %stamp
  br i1 %is_same, label %extend, label %note
note:
  %count = sub i64 %after, %k
  %needed = call i64 @needed_count(ptr %waits, i64 %counter, i32 %stamp)
  %needed_bits = shl i64 %needed, {wait.TAG_NEEDED}
  %first_bits = shl i64 %k, {wait.TAG_FIRST}
  %count_bits = shl i64 %count, {wait.TAG_COUNT}
  %tag0 = or i64 %counter, %needed_bits
  %tag1 = or i64 %tag0, %first_bits
  %tag = or i64 %tag1, %count_bits
  %writer_at = getelementptr i8, ptr %stamp_at, i64 {wait.WRITERS - wait.STAMPS}
  %writer = load i32, ptr %writer_at, align 4
  %other = zext i32 %writer to i64
  %is_vector = icmp ult i64 %k, 512
  %lanes = select i1 %is_vector, i64 %exec, i64 0
  call void @note_finding(ptr %wave, ptr %record, i64 {layout.Kind.EARLY_REGISTER}, i64 %lanes, i64 0, i64 %tag,
                          i64 %other)
  br label %forget
forget:
  %r = phi i64 [ 0, %note ], [ %r_next, %forget ]
  %r_at = getelementptr i32, ptr %stamps, i64 %r
  %r_stamp = load i32, ptr %r_at, align 4
  %r_same = icmp eq i32 %r_stamp, %stamp
  %r_kept = select i1 %r_same, i32 0, i32 %r_stamp
  store i32 %r_kept, ptr %r_at, align 4
  %r_next = add i64 %r, 1
  %r_more = icmp ult i64 %r_next, {wait.REGISTERS}
  br i1 %r_more, label %forget, label %forgotten
forgotten:
  br label %head
over:
  ret void
}}
"""


def helpers() -> dict[str, str]:
    """Functions that the handlers call, by name."""
    return {"needed_count": NEEDED_COUNT, "note_early_registers": NOTE_EARLY_REGISTERS}
