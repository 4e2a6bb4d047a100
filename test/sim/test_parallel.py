"""Workgroups in several threads give what they give in one, counts included; and stop together."""

from __future__ import annotations

import numpy as np
import pytest
from llvm_kernels import compile_kernel, elementwise

from ckmlir.compiler import compile_kernel as compile_operator
from ckmlir.ops import find_operator
from ckmlir.runtime import open_device
from ckmlir.runtime.run import run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.sim import LaunchError, SimulationError, Simulator
from ckmlir.targets import get_target

GFX942 = get_target("gfx942")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("jobs", [2, 3, 7])
@pytest.mark.parametrize(("name", "keys"), [
    ("gemm", {"m": 257, "n": 191, "k": 100}),
    ("layernorm2d", {"m": 37, "n": 300}),
    ("fmha_fwd", {"b": 2, "h": 3, "sq": 140, "sk": 70, "d": 32, "mask": "bottom_right"}),
])  # fmt: skip
def test_as_in_one_thread(name: str, keys: dict[str, object], jobs: int) -> None:
    """Bit for bit, and every count but the time."""
    operator = find_operator(name)
    problem = operator.problem(**keys)
    arrays = operator.inputs(problem, GFX942)
    compiled = compile_operator(operator, operator.spec(problem, GFX942), GFX942)
    found = []
    for count in (1, jobs):
        device = open_device("sim", GFX942, seed=3, jobs=count)
        assert isinstance(device, SimulatorDevice)
        outputs = run_operator(operator, problem, arrays, GFX942, device, compiled=compiled).outputs
        assert device.last_statistics
        found.append((outputs, {**vars(device.last_statistics), "seconds": 0}))
    for array, other in zip(found[0][0].values(), found[1][0].values(), strict=True):
        np.testing.assert_array_equal(array, other)
    assert found[0][1] == found[1][1]


def test_more_jobs_than_workgroups() -> None:
    simulator = Simulator("gfx942", jobs=16)
    x = np.arange(128, dtype=np.int32)
    given, output = simulator.upload(x), simulator.allocate(512)
    code_object = compile_kernel(elementwise("  %r = add i32 %x, 5\n", "i32", "i32"))
    assert simulator.launch(code_object, "k", (2, 1, 1), (64, 1, 1), [given, output]).workgroups == 2
    np.testing.assert_array_equal(output.read(np.int32), x + 5)


def test_an_error_in_one_stops_all() -> None:
    """The error is the one of the workgroup that went wrong, and later launches are as ever."""
    simulator = Simulator("gfx942", jobs=4)
    given, output = simulator.upload(np.zeros(64 * 40, np.int32)), simulator.allocate(4 * 64 * 39)
    code_object = compile_kernel(elementwise("  %r = add i32 %x, 5\n", "i32", "i32"))
    with pytest.raises(SimulationError, match=r"past the end of .* workgroup \(39, 0, 0\)"):
        simulator.launch(code_object, "k", (40, 1, 1), (64, 1, 1), [given, output])
    simulator.launch(code_object, "k", (39, 1, 1), (64, 1, 1), [given, output])
    np.testing.assert_array_equal(output.read(np.int32), 5)


def test_atomic_sums_are_whole() -> None:
    """Kernels with atomic updates run in one thread."""
    text = """
declare void @llvm.amdgcn.endpgm()
define amdgpu_kernel void @k(ptr addrspace(1) %sum) {
  %old = atomicrmw add ptr addrspace(1) %sum, i32 1 syncscope("agent") monotonic
  ret void
}
"""
    simulator = Simulator("gfx942", jobs=4)
    total = simulator.upload(np.zeros(1, np.int32))
    simulator.launch(compile_kernel(text), "k", (500, 1, 1), (256, 1, 1), [total])
    assert total.read(np.int32)[0] == 500 * 256


def test_no_jobs_are_refused() -> None:
    with pytest.raises(LaunchError, match="jobs 0: at least 1 is needed"):
        Simulator("gfx942", jobs=0)
