"""Any launch can be timed: the door that needs no operator."""

import numpy as np
import pytest
from llvm_kernels import compile_kernel, elementwise

from ckmlir.errors import CkmlirError
from ckmlir.sim import Simulator
from ckmlir.sim.timing.measure import measure
from ckmlir.sim.timing.parameters import load

KERNEL = elementwise("  %r = add i32 %x, 3", "i32", "i32")


def test_a_launch_of_a_code_object_is_timed() -> None:
    simulator = Simulator()
    x, out = simulator.upload(np.arange(64 * 512, dtype=np.int32)), simulator.allocate(4 * 64 * 512)
    given = (compile_kernel(KERNEL), None, (512, 1, 1), (64, 1, 1), [x, out])
    found = simulator.time(*given)
    assert found.grid.workgroups == 512 and found.grid.cycles >= found.timeline.cycles > 0
    assert measure(simulator, *given).timeline.cycles == found.timeline.cycles
    slower = simulator.time(*given, parameters=load("gfx942", overrides=["memory.hbm.latency=5000"]))
    assert slower.timeline.cycles > found.timeline.cycles + 3000


def test_a_shape_has_as_many_workgroups_as_the_grid() -> None:
    simulator = Simulator()
    x, out = simulator.allocate(4096), simulator.allocate(4096)
    with pytest.raises(CkmlirError, match="shape"):
        simulator.time(compile_kernel(KERNEL), None, (16, 1, 1), (64, 1, 1), [x, out], shape=(3, 5))
