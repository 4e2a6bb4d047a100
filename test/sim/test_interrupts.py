"""Launches answer an interrupt within half a second, whatever watches them, and give up kernels that do not end."""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from llvm_kernels import GLOBAL_ID, compile_kernel

from ckmlir.codeobject import CodeObject
from ckmlir.errors import CkmlirError
from ckmlir.runtime.device import KernelFault
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.sim import CheckFailure, LaunchError, SimulationError, Simulator
from ckmlir.sim.debugging import Debugger, Tracer
from ckmlir.sim.limits import PATIENCE, SECONDS, default_patience
from ckmlir.sim.timing.recording import record
from ckmlir.targets import get_target
from ckmlir.tools import cli, opt

ENDLESS = """define amdgpu_kernel void @k(ptr addrspace(1) %p) {
  br label %l
l:
  store volatile i32 1, ptr addrspace(1) %p
  br label %l
}
"""
IDLE = """define amdgpu_kernel void @k() {
  br label %l
l:
  call void @llvm.amdgcn.s.sleep(i32 0)
  br label %l
}
declare void @llvm.amdgcn.s.sleep(i32)
"""
SHORT = """define amdgpu_kernel void @k(ptr addrspace(1) %p) {
  store volatile i32 1, ptr addrspace(1) %p
  ret void
}
"""
LONG = f"""define amdgpu_kernel void @k(ptr addrspace(1) %p) {{
{GLOBAL_ID}
  %a = getelementptr i32, ptr addrspace(1) %p, i32 %id
  br label %l
l:
  %i = phi i32 [ 0, %0 ], [ %j, %l ]
  store volatile i32 %i, ptr addrspace(1) %a
  %j = add i32 %i, 1
  %more = icmp ult i32 %j, 300000
  br i1 %more, label %l, label %e
e:
  ret void
}}
"""
CHECKS = ("memory", "initialisation", "race", "barrier", "wait", "hazard")


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Interrupts arrive: a shell starts what runs in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted_after(seconds: float, action: Callable[[], Any]) -> float:
    """How long an action goes on after an interrupt that comes while it runs."""
    sent = []

    def interrupt() -> None:
        sent.append(time.perf_counter())
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    timer = threading.Timer(seconds, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        try:
            action()
            pytest.fail("it came to an end")
        finally:
            timer.cancel()
            ended = time.perf_counter()
    return ended - sent[0]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("options", "grid"),
    [({}, 1), ({"jobs": 4}, 8), ({"checks": CHECKS}, 1), *(({"checks": [name]}, 1) for name in CHECKS)],
    ids=str,
)
def test_a_launch_is_interrupted(options: dict[str, Any], grid: int) -> None:
    simulator = Simulator("gfx942", **options)
    memory = simulator.upload(np.zeros(64 * grid, np.int32))
    launch = simulator.launch
    code = compile_kernel(ENDLESS)
    assert interrupted_after(0.3, lambda: launch(code, "k", (grid, 1, 1), (64, 1, 1), [memory])) < 0.5
    if not options.get("checks"):  # a launch behind it is as ever
        launch(compile_kernel(SHORT), "k", (grid, 1, 1), (64, 1, 1), [memory])
        assert memory.read(np.int32)[0] == 1


def test_nothing_goes_on_after_an_interrupt() -> None:
    """Not even in other threads: memory may be given back."""
    simulator = Simulator("gfx942", jobs=4)
    memory, code = simulator.allocate(4), compile_kernel(ENDLESS)
    assert interrupted_after(0.3, lambda: simulator.launch(code, "k", (8, 1, 1), (64, 1, 1), [memory])) < 0.5
    memory.write(np.array([7], np.int32))
    time.sleep(0.05)
    assert memory.read(np.int32)[0] == 7


def test_a_copy_of_the_process_launches_too() -> None:
    simulator = Simulator("gfx942")
    memory, code = simulator.upload(np.zeros(1, np.int32)), compile_kernel(SHORT)
    simulator.launch(code, "k", arguments=[memory])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_launched, (code.data,)).get(timeout=60) == 1


def _launched(code: bytes) -> int:
    simulator = Simulator("gfx942")
    memory = simulator.upload(np.zeros(1, np.int32))
    simulator.launch(CodeObject.parse(code), "k", arguments=[memory])
    return int(memory.read(np.int32)[0])


def test_between_workgroups_too() -> None:
    """Kernels without branches, but very many workgroups."""
    simulator = Simulator("gfx942")
    memory = simulator.allocate(4)
    code = compile_kernel(SHORT)
    assert (
        interrupted_after(0.3, lambda: simulator.launch(code, "k", (1 << 20, 1 << 12, 1), (64, 1, 1), [memory])) < 0.5
    )


def test_with_a_trace_and_a_debugger() -> None:
    simulator = Simulator("gfx942")
    memory, code = simulator.allocate(4), compile_kernel(ENDLESS)
    lines: list[object] = []
    tracer = Tracer("global_store*", np.int32, output=lines.append)
    launch = simulator.launch
    assert interrupted_after(0.3, lambda: launch(code, "k", arguments=[memory], observer=tracer)) < 0.5
    with Debugger(simulator, code, "k", arguments=[memory]) as debugger:
        assert interrupted_after(0.3, debugger.run) < 0.5


def test_recordings_too() -> None:
    simulator = Simulator("gfx942")
    code = compile_kernel(IDLE)
    begin = (simulator, code, "k", (1, 1, 1), (64, 1, 1), ())
    assert interrupted_after(0.1, lambda: record(*begin, workgroups=[0], most_steps=1 << 27)) < 0.5


def test_a_device_forgets_what_was_to_follow() -> None:
    device = SimulatorDevice(get_target("gfx942"))
    memory, stream = device.allocate(4), device.create_stream()
    endless, short = (device.load(compile_kernel(text).data) for text in (ENDLESS, SHORT))
    for module in (endless, endless, short):
        device.launch(module, "k", (1, 1, 1), (64, 1, 1), [memory], stream=stream)
    event = device.create_event()
    event.record(stream)
    assert interrupted_after(0.3, stream.synchronize) < 0.5
    stream.synchronize()
    assert event.is_reached()
    device.close()


def test_commands_say_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ckmlir.tools.list.find_operator", interrupted)
    assert cli.main(["list", "gemm"]) == 130
    assert capsys.readouterr().err == "ckmlir: interrupted\n"
    monkeypatch.setattr(opt, "_run", interrupted)
    assert opt.main([]) == 130
    assert capsys.readouterr().err == "ckmlir-opt: interrupted\n"


# -- kernels that do not end -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_kernel_that_does_not_end_is_given_up(jobs: int) -> None:
    simulator = Simulator("gfx942", patience=0.3, jobs=jobs)
    begin = time.perf_counter()
    with pytest.raises(SimulationError) as caught:
        simulator.launch(compile_kernel(ENDLESS), "k", (3, 1, 1), arguments=[simulator.allocate(4)])
    assert time.perf_counter() - begin < 20
    ways = ("Simulator(patience=…)", f"{PATIENCE}=… allows more seconds")
    for words in ("one workgroup took more than 0.3 s", "workgroup (0, 0, 0)", *ways):
        assert words in str(caught.value)


def test_checks_report_it() -> None:
    simulator = Simulator("gfx942", patience=0.3, checks=["barrier"])
    with pytest.raises(CheckFailure) as caught:
        simulator.launch(compile_kernel(ENDLESS), "k", arguments=[simulator.allocate(4)])
    assert any("one workgroup took more than 0.3 s" in one.message for one in caught.value.findings)


def test_many_workgroups_may_take_longer_together() -> None:
    """Patience is for one workgroup: a fifth of what the launch takes, however fast the machine, stops none of 100."""
    kernel = compile_kernel(LONG)

    def seconds(patience: float) -> float:
        simulator = Simulator("gfx942", patience=patience)
        memory = simulator.allocate(4 * 64 * 100)
        return simulator.launch(kernel, "k", (100, 1, 1), arguments=[memory]).seconds

    patience = seconds(float("inf")) / 5
    assert seconds(patience) > patience, "the second launch was five times as fast: the test proves nothing"


def test_patience_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PATIENCE, raising=False)
    assert default_patience() == SECONDS <= 30
    monkeypatch.setenv(PATIENCE, "inf")
    assert default_patience() == float("inf")
    monkeypatch.setenv(PATIENCE, "0.2")
    device = SimulatorDevice(get_target("gfx942"))
    with pytest.raises(KernelFault, match=r"one workgroup took more than 0\.2 s"):
        device.launch(device.load(compile_kernel(ENDLESS).data), "k", (1, 1, 1), (64, 1, 1), [device.allocate(4)])
    for wrong in ("0", "-1", "soon", "nan"):
        monkeypatch.setenv(PATIENCE, wrong)
        with pytest.raises(CkmlirError, match=f"{PATIENCE}={wrong}: expected seconds above 0, or inf"):
            Simulator("gfx942")
    with pytest.raises(LaunchError, match="patience 0"):
        Simulator("gfx942", patience=0)
