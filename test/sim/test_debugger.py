"""The debugger and the trace: stops, steps, values, findings, and that a launch computes the same under them."""

from __future__ import annotations

import io
import threading
from typing import Any

import numpy as np
import pytest
from llvm_kernels import compile_kernel, elementwise

from ckmlir.codeobject import CodeObject
from ckmlir.sim import CheckFailure, DeviceMemory, SimulationError, Simulator
from ckmlir.sim.debugging import Debugger, TraceEvent, Tracer

ADD = elementwise("  %r = fadd float %x, 3.0", "float", "float")
LOOP = """
define amdgpu_kernel void @loop(ptr addrspace(1) %out, i32 %n) #0 {
entry:
  %tid = call i32 @llvm.amdgcn.workitem.id.x()
  br label %body
body:
  %i = phi i32 [ 0, %entry ], [ %i_next, %body ]
  %sum = phi i32 [ %tid, %entry ], [ %sum_next, %body ]
  %square = mul i32 %sum, %sum
  %sum_next = add i32 %square, %i
  %i_next = add i32 %i, 1
  %more = icmp ult i32 %i_next, %n
  br i1 %more, label %body, label %done
done:
  %at = getelementptr i32, ptr addrspace(1) %out, i32 %tid
  store i32 %sum_next, ptr addrspace(1) %at
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,256" }
"""
EXCHANGE = """
@buffer = internal addrspace(3) global [128 x i32] poison
define amdgpu_kernel void @exchange(ptr addrspace(1) %out) #0 {
  %tid = call i32 @llvm.amdgcn.workitem.id.x()
  %mine = getelementptr i32, ptr addrspace(3) @buffer, i32 %tid
  %value = mul i32 %tid, 7
  store i32 %value, ptr addrspace(3) %mine
  call void @llvm.amdgcn.s.barrier()
  %other = xor i32 %tid, 64
  %theirs = getelementptr i32, ptr addrspace(3) @buffer, i32 %other
  %read = load i32, ptr addrspace(3) %theirs
  %at = getelementptr i32, ptr addrspace(1) %out, i32 %tid
  store i32 %read, ptr addrspace(1) %at
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="128,128" }
"""
X = np.arange(128, dtype=np.float32)


def add_debugger(checks: frozenset[str] = frozenset(), n: int = 128) -> tuple[Debugger, DeviceMemory]:
    simulator = Simulator(checks=checks)
    x, y = simulator.upload(X), simulator.allocate(X.nbytes)
    return Debugger(simulator, compile_kernel(ADD), None, (2, 1, 1), (64, 1, 1), arguments_of(simulator, x, y, n)), y


def arguments_of(simulator: Simulator, x: DeviceMemory, y: DeviceMemory, n: int) -> list[Any]:
    names = [item.size for item in compile_kernel(ADD).kernel().arguments if not item.is_hidden]
    return [n, x, y] if names[0] == 4 else [x, y]


def loop_kernel() -> CodeObject:
    found: CodeObject = compile_kernel(LOOP)
    return found


def test_a_breakpoint_shows_operands_before_the_instruction_and_a_step_its_result() -> None:
    debugger, y = add_debugger()
    with debugger:
        assert debugger.break_at("v_add_f32*") == 1
        for group in range(2):
            stop = debugger.run()
            assert stop is not None and stop.reason == "breakpoint"
            assert (stop.workgroup, stop.wave) == ((group, 0, 0), 0) and stop.instruction.startswith("v_add_f32")
            (result,) = debugger.wave.instruction.destinations
            source = next(one for one in debugger.wave.instruction.sources if one.kind == "v")
            expected = X[64 * group :][:64]
            np.testing.assert_array_equal(debugger.register(source.text, np.float32), expected)
            after = debugger.step()
            assert after is not None and after.reason == "step" and after.address > stop.address
            np.testing.assert_array_equal(debugger.register(result.text, np.float32), expected + 3)
        assert debugger.run() is None
    np.testing.assert_array_equal(y.read(np.float32), X + 3)


@pytest.mark.parametrize("checks", [(), ("memory", "initialisation", "race", "barrier")])
def test_stepping_visits_every_instruction_once_in_the_order_of_execution(checks: tuple[str, ...]) -> None:
    simulator = Simulator(checks=checks)
    out = simulator.allocate(256)
    plain = simulator.launch(loop_kernel(), arguments=[out, 5])
    expected = out.read(np.uint32)
    out.write(np.zeros(64, np.uint32))
    visits: dict[int, int] = {}
    with Debugger(simulator, loop_kernel(), arguments=[out, 5]) as debugger:
        while stop := debugger.step():
            visits[stop.address] = visits.get(stop.address, 0) + 1
    start = loop_kernel().kernel().address
    assert visits == {address - start: count for address, count in plain.profile.items()}
    assert max(visits.values()) == 5
    assert debugger.statistics is not None and debugger.statistics.profile == plain.profile
    np.testing.assert_array_equal(out.read(np.uint32), expected)


def test_lds_and_waves_are_seen_at_a_barrier() -> None:
    simulator = Simulator()
    out = simulator.allocate(512)
    with Debugger(simulator, compile_kernel(EXCHANGE), block=(128, 1, 1), arguments=[out]) as debugger:
        debugger.break_at("ds_read_b32*")
        waves = []
        while stop := debugger.run():
            waves.append(stop.wave)
            np.testing.assert_array_equal(debugger.lds(np.uint32), 7 * np.arange(128))
            assert debugger.lds(np.uint32, 8, 2).tolist() == [14, 21]
    assert sorted(waves) == [0, 1]
    np.testing.assert_array_equal(out.read(np.uint32), 7 * (np.arange(128) ^ 64))


def test_registers_have_the_shape_of_their_type() -> None:
    debugger, _ = add_debugger()
    with debugger:
        debugger.step()
        np.testing.assert_array_equal(debugger.register("v0") & 0x3FF, np.arange(64))
        assert debugger.register("v0", np.float16).shape == (64, 2)
        assert debugger.register("v[0:3]").shape == (4, 64)
        assert debugger.register("v[0:3]", np.float64).shape == (2, 64)
        pair = debugger.register("a[2:3]")
        np.testing.assert_array_equal(
            debugger.register("a[2:3]", np.uint64), pair[0] | pair[1].astype(np.uint64) << np.uint64(32)
        )
        assert debugger.register("s[0:3]", np.uint64).shape == (2,)
        assert debugger.register("exec", np.uint64).tolist() == [2**64 - 1]
        assert debugger.register("scc").tolist() == [0]
        for name, dtype in (("v256", "u4"), ("s102", "u4"), ("v[3:1]", "u4"), ("w1", "u4"), ("v0", "f8"), ("s0", "u8")):
            with pytest.raises(ValueError, match=name.split("[")[0]):
                debugger.register(name, dtype)


def test_places_that_a_kernel_does_not_have_are_refused() -> None:
    debugger, _ = add_debugger()
    for place, message in (("v_mfma*", "v_mfma"), (2, "offset 0x2"), ("kernel.py:3", "names no file")):
        with pytest.raises(ValueError, match=message):
            debugger.break_at(place)
    with pytest.raises(ValueError, match="no wave stands still"):
        debugger.register("v0")


def test_a_finding_stops_after_its_instruction() -> None:
    simulator = Simulator(checks=("memory",))
    out = simulator.upload(np.zeros(64, np.uint32), read_only=True)
    with Debugger(simulator, loop_kernel(), arguments=[out, 2]) as debugger:
        debugger.break_at_finding()
        stop = debugger.run()
        assert stop is not None and stop.reason == "finding" and "read-only" in stop.message
        assert stop.instruction.startswith("global_store")
        with pytest.raises(CheckFailure, match="read-only"):
            debugger.run()
    with pytest.raises(ValueError, match="over"):
        debugger.step()


def test_an_access_out_of_bounds_stops_as_an_error_and_is_raised_when_going_on() -> None:
    simulator = Simulator()
    out = simulator.allocate(64)
    with Debugger(simulator, loop_kernel(), arguments=[out, 2]) as debugger:
        debugger.break_at_finding()
        stop = debugger.run()
        assert stop is not None and stop.reason == "error" and "outside of all allocations" in stop.message
        assert stop.instruction.startswith("global_store")
        with pytest.raises(SimulationError, match="outside of all allocations"):
            debugger.run()


def test_a_launch_that_is_given_up_ends_its_thread_and_the_simulator_goes_on() -> None:
    simulator = Simulator()
    out = simulator.allocate(256)
    threads = threading.active_count()
    with Debugger(simulator, loop_kernel(), arguments=[out, 100]) as debugger:
        debugger.break_at("s_cbranch*")
        debugger.run()
    assert threading.active_count() == threads
    simulator.launch(loop_kernel(), arguments=[out, 1])
    np.testing.assert_array_equal(out.read(np.uint32), np.arange(64) ** 2)


def test_a_trace_has_values_before_and_after_and_changes_nothing() -> None:
    simulator, events = Simulator(), list[TraceEvent]()
    out = simulator.allocate(512)
    tracer = Tracer("ds_*", np.int32, events.append, waves=[1])
    simulator.observer = tracer
    simulator.launch(compile_kernel(EXCHANGE), block=(128, 1, 1), arguments=[out])
    np.testing.assert_array_equal(out.read(np.uint32), 7 * (np.arange(128) ^ 64))
    assert [event.wave for event in events] == [1, 1] and tracer.seen == 2 and tracer.dropped == 0
    write, read = events
    np.testing.assert_array_equal(write.sources[1][1], 7 * np.arange(64, 128))
    np.testing.assert_array_equal(read.results[0][1], 7 * np.arange(64))
    assert write.exec == 2**64 - 1


def test_results_are_those_of_the_instruction_alone() -> None:
    """The register of the product is that of the sum, which is written before the next product."""
    simulator, events = Simulator(), list[TraceEvent]()
    out = simulator.allocate(256)
    simulator.observer = Tracer("v_mul_lo_u32*", output=events.append)
    simulator.launch(loop_kernel(), arguments=[out, 4])
    assert len(events) == 4
    for before, event in enumerate(events):
        (_, first), (_, second) = event.sources
        np.testing.assert_array_equal(event.results[0][1], first * second)
        if before:
            np.testing.assert_array_equal(first, events[before - 1].results[0][1] + np.uint32(before - 1))


def test_what_was_not_chosen_is_not_traced_after_a_wave_has_stopped() -> None:
    simulator, events = Simulator(), list[TraceEvent]()
    out = simulator.allocate(512)
    simulator.observer = Tracer("s_barrier", output=events.append)
    simulator.launch(compile_kernel(EXCHANGE), block=(128, 1, 1), arguments=[out])
    assert [event.instruction for event in events] == ["s_barrier"] * 2


def test_a_trace_is_bounded_and_says_what_it_dropped() -> None:
    simulator, text = Simulator(), io.StringIO()
    out = simulator.allocate(256)
    simulator.observer = tracer = Tracer("s_cbranch*", output=text, limit=3)
    simulator.launch(loop_kernel(), arguments=[out, 50])
    assert text.getvalue().count("s_cbranch") == 3 == tracer.seen and tracer.dropped == 47


def test_what_an_output_raises_ends_the_launch() -> None:
    def fail(event: TraceEvent) -> None:
        raise KeyError(event.instruction)

    simulator = Simulator()
    out = simulator.allocate(256)
    simulator.observer = Tracer("s_cbranch*", output=fail)
    with pytest.raises(KeyError, match="s_cbranch"):
        simulator.launch(loop_kernel(), arguments=[out, 3])
