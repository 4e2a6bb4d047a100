"""The race check's histories of memory: lines of groups against a model that keeps the history of every byte, what a
launch takes of memory, and atomic loads as compilers make them."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assembled_kernels import assembled
from assembly import words_of
from hypothesis import given, settings
from hypothesis import strategies as st
from llvm_kernels import compile_kernel

from ckmlir.sim import CheckFailure, Finding, Simulator, state
from ckmlir.sim.checks import layout, race_memory, race_table, recording
from ckmlir.sim.checks.layout import Use
from ckmlir.sim.checks.monitor import Monitor
from ckmlir.sim.checks.variants import is_atomic_load, is_atomic_store
from ckmlir.sim.decode import decode
from ckmlir.sim.errors import SimulationError
from ckmlir.sim.ir_text import FIND_ENTRY
from ckmlir.sim.library import HandlerLibrary, compile_object
from ckmlir.sim.memory import MemoryTable, aligned_bytes

BYTES = 300
RECORDS = 1 << 20  # an address that stands for the first record
START = "s_load_dwordx2 s[2:3], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\n"
NAMES = {
    Use.READ: "read", Use.WRITE: "write", Use.ATOMIC: "atomic", Use.ATOMIC_READ: "atomic_read",
    Use.ATOMIC_WRITE: "atomic_write",
}  # fmt: skip
ATOMIC_WRITES = (Use.ATOMIC, Use.ATOMIC_WRITE)
ATTRIBUTES = "attributes #1 = { nounwind noinline }\n"
DECLARATIONS = """
declare i64 @llvm.cttz.i64(i64, i1 immarg)
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.umax.i64(i64, i64)
"""


@cache
def library() -> HandlerLibrary:
    """The compiled checks; the code lives as long as this."""
    wrappers = "".join(
        f"define void @check_{name}(i64 %m, ptr %a, ptr %w, ptr %r, i64 %n) {{\n"
        f"  call void @{race_memory.memory_helper(use)}(i64 %m, ptr %a, ptr %w, ptr %r, i64 %n)\n  ret void\n}}\n"
        for use, name in NAMES.items()
    )
    text = DECLARATIONS + ATTRIBUTES + FIND_ENTRY + recording.NOTE_FINDING + "".join(race_memory.helpers().values())
    made = HandlerLibrary(None)
    made._link(compile_object(text + wrappers, made.processor), [f"check_{name}" for name in NAMES.values()])
    return made


@cache
def functions() -> dict[int, Any]:
    """The compiled check of each use as a function of (lanes, addresses, wave, record, bytes of a lane)."""
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_uint64, *[ctypes.c_void_p] * 3, ctypes.c_uint64)
    return {use: prototype(library()._addresses[f"check_{name}"]) for use, name in NAMES.items()}


class Compiled:
    """A launch's worth of memory for the compiled check, without a launch."""

    def __init__(self) -> None:
        self.memory = aligned_bytes(BYTES)
        self.start = int(self.memory.ctypes.data)
        table = MemoryTable()
        table.add(self.start, BYTES, "p")
        self.monitor = Monitor(frozenset(["race"]), table, {})
        self.rows = table.update()
        self.context = np.zeros(state.CONTEXT_BYTES // 8, np.uint64)
        self.wave = np.zeros(state.VGPR // 8, np.uint64)
        self.wave[state.CONTEXT // 8] = self.context.ctypes.data
        fields = {state.ALLOCATIONS: int(self.rows.ctypes.data), state.ALLOCATION_COUNT: 1, state.RECORDS: RECORDS}
        for offset, value in {**fields, **self.monitor.context_fields()}.items():
            self.context[offset // 8] = value
        self.addresses = np.zeros(64, np.uint64)

    def access(self, use: int, turn: tuple[int, int, int], record: int, lanes: dict[int, int], bytes: int) -> Any:
        """What is reported of an access of lanes to offsets: (lanes, first byte, turn, record, kind) of each finding.
        `turn` is this turn, the first of the round, and the first of the workgroup."""
        for offset, value in zip((state.TURN, state.ROUND_START, state.GROUP_START), turn):
            self.context[offset // 8] = value
        self.context[state.FINDING_COUNT // 8] = 0
        reported = set()
        for lane, place in lanes.items():
            self.addresses[lane] = self.start + place
        mask = sum(1 << lane for lane in lanes)
        address = RECORDS + state.RECORD_BYTES * record
        functions()[use](mask, self.addresses.ctypes.data, self.wave.ctypes.data, address, bytes)
        for row in self.monitor._rows[: int(self.context[state.FINDING_COUNT // 8])].tolist():
            reported |= {(row[layout.KIND // 8], lane) for lane in range(64) if row[layout.LANES // 8] >> lane & 1}
        return reported

    @property
    def groups(self) -> int:
        return self.monitor.lines.groups


@dataclass
class Byte:
    """The history of one byte, as the module says it is kept."""

    writer: int = 0
    atomic: bool = False
    readers: dict[int, list[int]] = field(default_factory=lambda: {Use.READ: [0, 0], Use.ATOMIC_READ: [0, 0]})

    def conflict(self, use: int, turn: tuple[int, int, int]) -> int | None:
        """The kind of a conflict with an access."""

        def unordered(other: int) -> bool:
            return other not in (0, turn[0]) and not turn[2] <= other < turn[1]

        if unordered(self.writer) and not (self.atomic and use in (*ATOMIC_WRITES, Use.ATOMIC_READ)):
            one_atomic = self.atomic or use in (*ATOMIC_WRITES, Use.ATOMIC_READ)
            return layout.Kind.RACE_WITH_WRITE + layout.OF_ATOMIC * one_atomic
        kinds = {Use.WRITE: (Use.READ, Use.ATOMIC_READ), **dict.fromkeys(ATOMIC_WRITES, (Use.READ,))}.get(use, ())
        for kind in kinds:
            if any(unordered(one) for one in self.readers[kind]):
                one_atomic = use in ATOMIC_WRITES or kind == Use.ATOMIC_READ
                return layout.Kind.RACE_WITH_READ + layout.OF_ATOMIC * one_atomic
        return None

    def enter(self, use: int, turn: tuple[int, int, int]) -> None:
        if use in (Use.WRITE, *ATOMIC_WRITES):
            self.writer, self.atomic = turn[0], use in ATOMIC_WRITES
            return
        last, second = self.readers[use]
        if last != turn[0]:
            keeps = last == 0 or 0 < second < turn[2]
            self.readers[use] = [turn[0], second if keeps else last]


USES = st.sampled_from(list(NAMES))
PLACES = st.one_of(  # lanes and their bytes: neighbours, strided, or anywhere
    st.tuples(st.integers(0, 200), st.integers(1, 24), st.just(1)),
    st.tuples(st.integers(0, 100), st.integers(1, 8), st.integers(2, 5)),
)
STEPS = st.tuples(st.sampled_from(("turn", "turn", "round", "group", "stay", "stay")), USES, PLACES,
                  st.sampled_from((1, 2, 4, 8, 12, 16)), st.booleans())  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, min_size=2, max_size=30))
def test_lines_report_what_a_history_for_every_byte_does(steps: list[Any]) -> None:
    compiled, model = Compiled(), [Byte() for _ in range(BYTES)]
    turn = round = group = 1
    for number, (advance, use, (first, count, stride), bytes, backwards) in enumerate(steps):
        if advance != "stay":
            turn += 1
        round = turn if advance in ("round", "group") else round
        group = turn if advance == "group" else group
        now = turn, round, group
        lanes = {lane: first + lane * stride * bytes for lane in range(count)}
        lanes = {lane: place for lane, place in lanes.items() if place + bytes <= BYTES}
        if backwards:
            lanes = dict(zip(lanes, reversed(lanes.values())))
        expected = set()
        for lane, place in lanes.items():
            found = [model[k].conflict(use, now) for k in range(place, place + bytes)]
            kinds = [kind for kind in found if kind is not None]
            expected |= {(lane, bool(kinds))}
        reported = compiled.access(use, now, number, lanes, bytes)
        assert {(lane, any(lane == one for _, one in reported)) for lane in lanes} == expected
        for lane, place in lanes.items():
            kinds = {model[k].conflict(use, now) for k in range(place, place + bytes)}
            assert {kind for kind, one in reported if one == lane} <= kinds
        for place in lanes.values():
            for k in range(place, place + bytes):
                model[k].enter(use, now)
    assert not compiled.monitor.lines.missing()


@pytest.mark.parametrize("use", [Use.READ, Use.ATOMIC_READ])
def test_a_read_of_an_earlier_workgroup_is_kept_behind_those_of_this_one(use: int) -> None:
    """Barriers order a write behind the reads of its own workgroup, whichever wave made them."""
    for others in (True, False):
        compiled = Compiled()
        if others:
            compiled.access(use, (1, 1, 1), 1, {0: 8}, 4)
        for turn in (2, 3, 4):
            assert compiled.access(use, (turn, turn, 2), 2, {0: 8}, 4) == set()
        found = compiled.access(Use.WRITE, (5, 5, 2), 3, {0: 8}, 4)
        kind = layout.Kind.RACE_WITH_READ + layout.OF_ATOMIC * (use == Use.ATOMIC_READ)
        assert found == ({(kind, 0)} if others else set())


def test_groups_of_equal_history_become_one_again() -> None:
    compiled = Compiled()
    for start in range(0, 64, 4):
        compiled.access(Use.WRITE, (1, 1, 1), 1, {0: start}, 4)
    assert compiled.groups == 0  # sixteen writes of one turn and instruction are one history
    for turn in range(2, 18):
        compiled.access(Use.WRITE, (turn, 1, 1), 1, {0: 4 * (turn - 2)}, 4)
    assert compiled.groups == 15  # sixteen turns are sixteen
    for turn in range(18, 50):
        compiled.access(Use.WRITE, (turn, 1, 1), 1, {lane: 4 * lane for lane in range(16)}, 4)
        compiled.access(Use.WRITE, (turn, 1, 1), 2, {0: 60}, 4)
    assert compiled.groups == 15  # room is used again


def test_a_table_without_room_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never silently less: it is made as large as it can become, so this takes a system that refuses."""
    whole = race_table._reserved

    def refuse(size: int) -> Any:
        if size > 4 * race_table.GROUP_BYTES:
            raise OSError
        return whole(size)

    monkeypatch.setattr(race_table, "_reserved", refuse)
    text = "v_lshlrev_b32_e32 v1, 1, v0\nglobal_store_byte v1, v0, s[2:3]"
    simulator = Simulator(checks=["race"])
    memory = simulator.upload(np.zeros(4096, np.uint8), "p")
    code = assembled(START + text + "\nglobal_store_byte v1, v0, s[2:3] offset:1", "gfx942")
    simulator.launch(code, "k", (1, 1, 1), (64, 1, 1), [memory])  # two histories a line: four lines, three groups
    spread = (
        START
        + "v_lshlrev_b32_e32 v1, 6, v0\n"
        + "".join(f"global_store_byte v1, v0, s[2:3] offset:{k}\n" for k in range(4))
    )
    with pytest.raises(SimulationError, match="race check"):
        simulator.launch(assembled(spread, "gfx942"), "k", (1, 1, 1), (64, 1, 1), [memory])


# -- what it costs ---------------------------------------------------------------------------------------------------

FILL = """
define amdgpu_kernel void @fill(ptr addrspace(1) %p) #0 {
  %tid = call i32 @llvm.amdgcn.workitem.id.x()
  %wg = call i32 @llvm.amdgcn.workgroup.id.x()
  %base = mul i32 %wg, 1024
  %i = add i32 %base, %tid
  br label %loop
loop:
  %k = phi i32 [ 0, %0 ], [ %k_next, %loop ]
  %step = mul i32 %k, 256
  %n = add i32 %i, %step
  %a = getelementptr <4 x i32>, ptr addrspace(1) %p, i32 %n
  %v = insertelement <4 x i32> zeroinitializer, i32 %n, i64 0
  store <4 x i32> %v, ptr addrspace(1) %a
  %k_next = add i32 %k, 1
  %more = icmp ult i32 %k_next, 4
  br i1 %more, label %loop, label %done
done:
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="256,256" "uniform-work-group-size"="true" }
"""
LAUNCH = """
import sys
from peak_memory import peak_memory
from ckmlir.codeobject import CodeObject
from ckmlir.sim import Simulator
path, size, checks = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(",")
simulator = Simulator(checks=checks)
memory = simulator.allocate(size, "p")
simulator.launch(CodeObject.parse(path), "fill", (size // (1 << 14), 1, 1), (256, 1, 1), [memory])
print(peak_memory())
"""


def test_a_kernel_that_writes_256_megabytes_takes_less_than_300_more(tmp_path: Path) -> None:
    """Of the whole process: Python, NumPy, LLVM, and what the checks keep."""
    path, size = tmp_path / "fill.hsaco", 256 << 20
    path.write_bytes(compile_kernel(FILL).data)
    modules = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    script = f"import sys\nsys.path[:0] = {modules!r}\n{LAUNCH}"
    command = [sys.executable, "-c", script, str(path), str(size), "memory,race,barrier,wait,hazard"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert int(done.stdout) - size < 300 << 20


# -- atomic loads ----------------------------------------------------------------------------------------------------

LOADS = {
    "load i32, ptr addrspace(1) %p": (),
    "load i32, ptr addrspace(1) %p, !nontemporal !{i32 1}": (),
    'load atomic i32, ptr addrspace(1) %p syncscope("wavefront") monotonic, align 4': (),
    'load atomic i32, ptr addrspace(1) %p syncscope("workgroup") monotonic, align 4': ("gfx942", "gfx950"),
    'load atomic i32, ptr addrspace(1) %p syncscope("agent") monotonic, align 4': ("gfx90a", "gfx942", "gfx950"),
    'load atomic i32, ptr addrspace(1) %p syncscope("agent") acquire, align 4': ("gfx90a", "gfx942", "gfx950"),
    "load atomic i32, ptr addrspace(1) %p seq_cst, align 4": ("gfx90a", "gfx942", "gfx950"),
    'load atomic i32, ptr %flat syncscope("agent") monotonic, align 4': ("gfx90a", "gfx942", "gfx950"),
    "load volatile i32, ptr addrspace(1) %p": ("gfx90a", "gfx942", "gfx950"),
}
"""Loads, and the chips on which what LLVM makes of them counts as atomic."""


def loading(load: str, before: str, type: str = "i32") -> str:
    """A kernel that loads from %p and stores the value to %q; work-item 0 does something `before`."""
    return f"""
define amdgpu_kernel void @k(ptr addrspace(1) %p, ptr addrspace(1) %q) #0 {{
  %tid = call i32 @llvm.amdgcn.workitem.id.x()
  %wg = call i32 @llvm.amdgcn.workgroup.id.x()
  %base = mul i32 %wg, 64
  %id = add i32 %base, %tid
  %flat = addrspacecast ptr addrspace(1) %p to ptr
{before}  %v = {load}
  %a = getelementptr {type}, ptr addrspace(1) %q, i32 %id
  store {type} %v, ptr addrspace(1) %a
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="1,64" "uniform-work-group-size"="true" }}
"""


ADD = '  %old = atomicrmw add ptr addrspace(1) %p, i32 1 syncscope("agent") monotonic\n'
WIDE_ADD = '  %old = atomicrmw add ptr addrspace(1) %p, i64 1 syncscope("agent") monotonic\n'
STORE = "  store i32 %id, ptr addrspace(1) %p\n"


DATA = (
    "  %d = getelementptr i32, ptr addrspace(1) %p, i32 64\n"
    "  %old = load i32, ptr addrspace(1) %d\n  %new = add i32 %old, %seen\n  store i32 %new, ptr addrspace(1) %d\n"
)
"""A read and a write of what a flag may guard."""


def races(text: str, target: str, grid: int = 3, faults: bool = True) -> list[Finding]:
    """What the race check finds: faults, or what is advice."""
    simulator = Simulator(checks=["race"])
    memory = [simulator.upload(np.zeros(4096, np.uint32), name) for name in "pq"]
    try:
        simulator.launch(compile_kernel(text, target), "k", (grid, 1, 1), (64, 1, 1), memory)
    except CheckFailure as failure:
        return list(failure.findings if faults else failure.remarks)
    return [] if faults else list(simulator.remarks)


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_atomic_loads_do_not_race_with_atomic_updates_and_plain_ones_do(target: str) -> None:
    for load, chips in LOADS.items():
        found = races(loading(load, ADD), target)
        assert bool(found) == (target not in chips), load
        assert all(one.allocation == "p" for one in found)
        assert races(loading(load, STORE), target), load  # a plain write conflicts with any load
        assert races(loading(load, ""), target) == [], load
    wide = 'load atomic i64, ptr addrspace(1) %p syncscope("agent") monotonic, align 8'
    assert races(loading(wide, WIDE_ADD, "i64"), target) == []


AGENT_LOAD = 'load atomic i32, ptr addrspace(1) %p syncscope("agent") acquire, align 4'
FLAG = '  store atomic i32 %id, ptr addrspace(1) %p syncscope("agent") release, align 4\n'


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_atomic_stores_do_not_race_with_atomic_loads_and_with_plain_ones_do(target: str) -> None:
    assert races(loading(AGENT_LOAD, FLAG), target) == []
    assert races(
        loading(AGENT_LOAD, FLAG.replace("store atomic", "store volatile").split(" syncscope")[0] + "\n"), target
    )
    assert races(loading(AGENT_LOAD, FLAG.replace("agent", "workgroup")), target)
    plain = "  %seen = load i32, ptr addrspace(1) %p\n" + FLAG.replace("%id", "%seen")
    assert races(loading(AGENT_LOAD, plain), target)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_data_behind_a_flag_that_is_stored_is_ordered_by_it(target: str) -> None:
    """Each workgroup looks at the flag, then reads and writes the data, and stores the flag; without the look, or where
    the store is a plain one, the data race."""
    look = f"  %seen = {AGENT_LOAD}\n"
    last = "load i32, ptr addrspace(1) %d"
    assert races(loading(last, look + DATA + FLAG), target) == []
    assert races(loading(last, DATA.replace("%seen", "1") + FLAG), target)
    found = races(loading(last, look + DATA + STORE), target)
    assert {one.memory_address for one in found} == {0}  # the flag is what is wrong


OWN_FLAG = "  %own = getelementptr i32, ptr addrspace(1) %p, i32 %wg\n" + FLAG.replace("%p", "%own")
"""A place for each workgroup; the first one's is what all look at."""
WIDE = "store <4 x i32> <i32 1, i32 1, i32 1, i32 1>, ptr addrspace(1) %own, align 4\n"


@pytest.mark.parametrize(("target", "scope"), [("gfx90a", 'syncscope("agent") '), ("gfx90a", ""), ("gfx942", "")])
def test_stores_that_may_be_atomic_are_advice_beside_atomic_accesses(target: str, scope: str) -> None:
    flag = OWN_FLAG.replace('syncscope("agent") ', scope)
    assert races(loading(AGENT_LOAD, flag), target) == []
    [found] = races(loading(AGENT_LOAD, flag), target, faults=False)
    assert "right if the store is an atomic one" in found.message
    place = flag.partition("store")[0]
    assert races(loading(AGENT_LOAD, place + WIDE), target)  # of 16 bytes none is atomic
    plain = "  %x = load i32, ptr addrspace(1) %p\n  store i32 %x, ptr addrspace(1) %q\n"
    assert races(loading(AGENT_LOAD, plain + flag), target)  # nor is this load


@pytest.mark.parametrize(("target", "scope"), [("gfx90a", 'syncscope("agent") '), ("gfx90a", ""), ("gfx942", "")])
def test_data_behind_a_flag_that_may_be_atomic_are_advice(target: str, scope: str) -> None:
    look, flag = f"  %seen = {AGENT_LOAD}\n", FLAG.replace('syncscope("agent") ', scope)
    last = "load i32, ptr addrspace(1) %d"
    assert races(loading(last, look + DATA + flag), target) == []
    remarks = races(loading(last, look + DATA + flag), target, faults=False)
    assert any("ordered by atomic accesses alone" in one.message for one in remarks)
    assert races(loading(last, DATA.replace("%seen", "1") + flag), target)


def test_one_load_that_meets_a_flag_and_a_wide_store_is_advice_and_a_fault() -> None:
    """Lane 0 looks at the first workgroup's flag, lane 1 at what the next one stored by 16 bytes."""
    before = """  %first = mul i32 %wg, 512
  %flag = getelementptr i32, ptr addrspace(1) %p, i32 %first
  store atomic i32 1, ptr addrspace(1) %flag syncscope("agent") release, align 4
  %data = getelementptr i32, ptr addrspace(1) %flag, i32 64
  store <4 x i32> <i32 1, i32 1, i32 1, i32 1>, ptr addrspace(1) %data, align 16
  %low = and i32 %tid, 1
  %place = mul i32 %low, 576
  %each = getelementptr i32, ptr addrspace(1) %p, i32 %place
"""
    text = loading(AGENT_LOAD.replace("%p", "%each"), before)
    faults, remarks = (
        [one for one in races(text, "gfx90a", faults=faults) if "global_load_dword " in one.instruction]
        for faults in (True, False)
    )
    assert len(faults) == 1 and "global_store_dwordx4" in faults[0].message
    assert any("right if the store is an atomic one" in one.message for one in remarks)


def test_plain_loads_between_atomic_ones_are_remembered() -> None:
    """Workgroup 0 loads plainly, the next atomically, the last adds: that conflicts with the first only."""
    agent = 'load atomic i32, ptr addrspace(1) %p syncscope("agent") monotonic, align 4'
    steps = """  %first = icmp eq i32 %wg, 0
  %last = icmp eq i32 %wg, 3
  br i1 %first, label %plain, label %other
plain:
  %x = load i32, ptr addrspace(1) %p
  store i32 %x, ptr addrspace(1) %q
  ret void
other:
  br i1 %last, label %adds, label %reads
adds:
  %old = atomicrmw add ptr addrspace(1) %p, i32 1 syncscope("agent") monotonic
  ret void
reads:
"""
    [found] = races(loading(agent, steps), "gfx942", grid=4)
    assert "global_atomic_add" in found.instruction and "sc1" not in found.message
    assert "a read by another workgroup, global_load_dword v" in found.message
    assert races(loading(agent, steps.replace("%wg, 0", "%wg, 9")), "gfx942", grid=4) == []


@pytest.mark.parametrize(
    ("target", "text", "atomic"),
    [
        ("gfx90a", "global_load_dword v4, v1, s[2:3] glc", True),
        ("gfx90a", "global_load_dword v4, v1, s[2:3] scc", False),
        ("gfx90a", "global_load_dword v4, v1, s[2:3] glc slc", False),
        ("gfx942", "global_load_dwordx2 v[4:5], v1, s[2:3] sc1", True),
        ("gfx942", "global_load_dwordx4 v[4:7], v1, s[2:3] sc1", False),
        ("gfx942", "global_load_lds_dword v1, s[2:3] sc1", False),
        ("gfx950", "buffer_load_dword v1, v0, s[4:7], 0 offen sc0", True),
        ("gfx90a", "global_store_dword v1, v4, s[2:3] glc", False),
        ("gfx942", "global_store_dword v1, v4, s[2:3] sc1", True),
        ("gfx942", "global_store_dword v1, v4, s[2:3] sc0", False),
        ("gfx942", "global_store_dword v1, v4, s[2:3] nt", False),
        ("gfx942", "global_store_dwordx4 v1, v[4:7], s[2:3] sc1", False),
        ("gfx942", "global_store_dword v1, v4, s[2:3] sc0 sc1", False),
        ("gfx950", "buffer_store_short v1, v0, s[4:7], 0 offen sc1", True),
    ],
)
def test_which_accesses_are_atomic(target: str, text: str, atomic: bool) -> None:
    asked = is_atomic_store if "_store_" in text else is_atomic_load
    assert asked(decode(words_of(text, target).ljust(8, b"\0"), 0, target)) == atomic


def test_a_load_that_is_not_aligned_is_not_atomic() -> None:
    for offset, expected in ((0, 0), (4, 0), (2, 1)):
        text = f"""v_mov_b32_e32 v1, {offset}
v_mov_b32_e32 v2, 4
v_mov_b32_e32 v3, 1
global_atomic_add v2, v3, s[2:3]
global_load_dword v4, v1, s[2:3] sc1
s_waitcnt vmcnt(0)"""
        simulator = Simulator(checks=["race"])
        memory = simulator.upload(np.zeros(4096, np.uint8), "p")
        found = 0
        try:
            simulator.launch(assembled(START + text, "gfx942"), "k", (2, 1, 1), (1, 1, 1), [memory])
        except CheckFailure as failure:
            found = len(failure.findings)
        assert bool(found) == bool(expected), offset
