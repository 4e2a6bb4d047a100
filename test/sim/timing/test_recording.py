"""A recording says what a plain run executes: every instruction in order, active lanes, addresses."""

import itertools
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from assembly import assemble
from hypothesis import given, settings
from hypothesis import strategies as st
from llvm_kernels import GLOBAL_ID, compile_kernel, elementwise

from ckmlir.sim import Simulator
from ckmlir.sim.checks.layout import Use
from ckmlir.sim.decode.decoder import decode_all
from ckmlir.sim.library import HandlerLibrary
from ckmlir.sim.step_recording import ACCESS_ROW, run_starts
from ckmlir.sim.timing.access_patterns import ACCESS, lanes_of, set_lanes
from ckmlir.sim.timing.placement import Places, place_accesses
from ckmlir.sim.timing.recording import NO_ADDRESS, AccessKind, RecordingError, Trace, record

LOOP = """
define amdgpu_kernel void @k(ptr addrspace(1) %out, i32 %n) #0 {
  %tid = call i32 @llvm.amdgcn.workitem.id.x()
  br label %loop
loop:
  %i = phi i32 [ 0, %0 ], [ %next, %loop ]
  %x = phi i32 [ 1, %0 ], [ %y, %loop ]
  %y = mul i32 %x, %tid
  %next = add i32 %i, 1
  call void @llvm.amdgcn.s.barrier()
  %more = icmp ult i32 %next, %n
  br i1 %more, label %loop, label %done
done:
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %tid
  store i32 %y, ptr addrspace(1) %p
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,256" }
"""
HALF = f"""
define amdgpu_kernel void @k(ptr addrspace(1) %out) #0 {{
{GLOBAL_ID}
  %small = icmp ult i32 %tid, 16
  br i1 %small, label %write, label %done
write:
  %p = getelementptr i64, ptr addrspace(1) %out, i32 %id
  store i64 7, ptr addrspace(1) %p
  br label %done
done:
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="1,64" }}
"""


def record_loop(simulator: Simulator, **options: object) -> Trace:
    out = simulator.allocate(4 * 256)
    arguments = [out, np.uint32(5)]
    return record(simulator, compile_kernel(LOOP), None, (3, 1, 1), (256, 1, 1), arguments, **options)


@pytest.mark.parametrize("seed", [0, 1])
def test_steps_are_those_of_a_plain_run_in_program_order(seed: int) -> None:
    simulator = Simulator(seed=seed)
    trace = record_loop(simulator, workgroups=[0, 2])
    plain = simulator.launch(
        compile_kernel(LOOP), None, (2, 1, 1), (256, 1, 1), [simulator.allocate(1024), np.uint32(5)]
    )
    start = simulator.program(compile_kernel(LOOP)).kernel.address
    executed = Counter(trace.program[step].address + start for step in trace.steps["instruction"].tolist())
    assert executed == plain.profile
    assert trace.groups.tolist() == [0] * 4 + [2] * 4 and trace.workgroups == (0, 2)
    orders = {tuple(trace.steps_of(wave)["instruction"].tolist()) for wave in range(trace.waves)}
    assert len(orders) == 1, "all waves take the same path"
    (order,) = orders
    falls = sum(second != first + 1 for first, second in itertools.pairwise(order))
    assert falls == 4, "four jumps back"
    assert trace.program[order[-1]].mnemonic == "s_endpgm"


def test_inactive_lanes_have_no_address() -> None:
    simulator = Simulator()
    out = simulator.allocate(8 * 64)
    trace = record(simulator, compile_kernel(HALF), arguments=[out])
    (step,) = (one for one in trace.steps if trace.program[one["instruction"]].mnemonic.startswith("global_store"))
    assert (step["lanes"], step["accesses"]) == (16, 1)
    row, access = trace.addresses[step["access"]], trace.accesses[step["access"]]
    assert (row[16:] == NO_ADDRESS).all() and (np.diff(row[:16].astype(np.int64)) == 8).all()
    assert (access["bytes"], access["kind"], access["store"]) == (8, AccessKind.MEMORY, 1)


def test_a_load_of_arguments_is_a_scalar_access() -> None:
    simulator = Simulator()
    trace = record(simulator, compile_kernel(HALF), arguments=[simulator.allocate(512)])
    scalar = trace.accesses["kind"] == AccessKind.SCALAR
    assert scalar.sum() >= 1
    assert (trace.addresses[scalar][:, 1:] == NO_ADDRESS).all() and (trace.addresses[scalar][:, 0] != NO_ADDRESS).all()


def test_addresses_do_not_depend_on_the_process() -> None:
    code = (
        "import sys; sys.path.insert(0, 'test/sim')\n"
        "import numpy as np, hashlib\n"
        "from llvm_kernels import compile_kernel, elementwise\n"
        "from ckmlir.sim import Simulator\n"
        "from ckmlir.sim.timing.recording import record\n"
        "junk = [bytearray(n) for n in np.random.default_rng().integers(1, 1 << 20, 50)]\n"
        "s = Simulator()\n"
        "x, y = s.upload(np.arange(64, dtype=np.int32)), s.allocate(256)\n"
        "k = compile_kernel(elementwise('  %r = add i32 %x, 3', 'i32', 'i32'))\n"
        "t = record(s, k, arguments=[x, y])\n"
        "print(hashlib.sha256(t.addresses.tobytes() + t.steps.tobytes()).hexdigest())"
    )
    root = Path(__file__).parents[3]
    digests = {
        subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(digests) == 1


def test_what_is_recorded_and_its_helpers_declare_a_function_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A maximum asks whether any lane has a NaN, as the recording of an access asks whether any lane differs."""
    fresh = HandlerLibrary(None)
    monkeypatch.setattr("ckmlir.sim.simulator.library", lambda: fresh)
    simulator = Simulator()
    kernel = compile_kernel(elementwise("  %r = call float @llvm.maxnum.f32(float %x, float 1.0)", "float", "float"))
    x, out = simulator.upload(np.array([np.nan, *range(63)], np.float32)), simulator.allocate(256)
    record(simulator, kernel, arguments=[x, out])
    np.testing.assert_array_equal(out.read(np.float32), [1, 1, *range(1, 63)])


def test_recording_changes_no_result() -> None:
    simulator = Simulator()
    kernel = compile_kernel(elementwise("  %r = add i32 %x, 3", "i32", "i32"))
    x = simulator.upload(np.arange(128, dtype=np.int32))
    out = simulator.upload(np.full(128, -1, np.int32))
    record(simulator, kernel, None, (2, 1, 1), (64, 1, 1), [x, out], workgroups=[1])
    expected = np.full(128, -1, np.int32)
    expected[64:] = np.arange(64, 128) + 3
    np.testing.assert_array_equal(out.read(np.int32), expected)


def test_too_much_is_an_error_that_says_so() -> None:
    with pytest.raises(RecordingError, match=r"full after (4\d|50) instructions .* of 0 of 1 workgroups"):
        record_loop(Simulator(), most_steps=50)


@pytest.mark.parametrize("workgroups", [[3], [-1], []])
def test_there_has_to_be_such_a_workgroup(workgroups: list[int]) -> None:
    with pytest.raises(RecordingError, match=r"workgroup"):
        record_loop(Simulator(), workgroups=workgroups)


def starts(text: str) -> list[int]:
    return run_starts(decode_all(assemble(text, "gfx942"), 0, "gfx942"))


def test_runs_begin_where_branches_go_and_after_what_ends_them() -> None:
    text = """
        s_nop 0
      back:
        v_mov_b32_e32 v1, v2
        s_waitcnt lgkmcnt(0)
        s_barrier
        v_mov_b32_e32 v1, v2
        s_mov_b64 exec, s[4:5]
        v_mov_b32_e32 v1, v2
        s_cbranch_scc1 back
        s_nop 0
        s_endpgm
    """
    assert starts(text) == [0, 1, 4, 6, 8]


def test_where_jumps_may_go_anywhere_every_instruction_begins_a_run() -> None:
    assert starts("s_nop 0\ns_nop 0\ns_setpc_b64 s[30:31]\ns_endpgm") == [0, 1, 2, 3]


def test_accesses_over_two_allocations_are_placed_lane_by_lane() -> None:
    """Lanes 0 to 3 hit LDS, 4 to 7 memory, 8 to 11 nothing; the host has LDS behind memory."""
    places = Places(*(np.array(one, np.uint64) for one in ([1000, 2000], [1100, 2064], [1 << 32, 0])), lds=1)
    lanes = [2000, 2004, 2008, 2012, 1000, 1004, 1008, 1012, 0, 500, 1100, 3000]
    addresses = np.full((3, 64), NO_ADDRESS, np.uint64)
    addresses[0, :12], addresses[1, :4], addresses[2, 5:9] = lanes, lanes[:4], lanes[4:8]
    raw = np.zeros(3, ACCESS_ROW)
    raw["bytes"], raw["use"] = 4, [Use.READ, Use.WRITE, Use.READ]
    patterns = set_lanes(raw, addresses)
    accesses, patterns = place_accesses(raw, patterns, places, np.zeros(1, np.bool_))
    placed = np.full((3, 64), NO_ADDRESS, np.uint64)
    placed[0, :8] = [0, 4, 8, 12, *(4 * lane + (1 << 32) for lane in range(4))]
    placed[1, :4], placed[2, 5:9] = placed[0, :4], placed[0, 4:8]
    np.testing.assert_array_equal(lanes_of(accesses, patterns), placed)
    assert accesses["kind"].tolist() == [AccessKind.LDS, AccessKind.LDS, AccessKind.MEMORY]
    assert accesses["store"].tolist() == [0, 1, 0] and len(patterns) == 3


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2**40), min_size=64, max_size=64), max_size=4), st.integers(0, 2**64 - 1))
def test_lanes_that_are_set_are_there(rows: list[list[int]], active: int) -> None:
    is_active = np.array([active >> lane & 1 for lane in range(64)], np.bool_)
    addresses = np.where(is_active, np.array(rows, np.uint64).reshape(-1, 64), np.uint64(NO_ADDRESS))
    accesses = np.zeros(len(rows), ACCESS)
    patterns = set_lanes(accesses, addresses)
    np.testing.assert_array_equal(lanes_of(accesses, patterns), addresses)
