"""A code object says which workgroup its kernel needs, and whatever launches it refuses another."""

import numpy as np
import pytest

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.runtime import open_device
from ckmlir.runtime.device import DeviceError
from ckmlir.sim.errors import LaunchError
from ckmlir.sim.simulator import Simulator
from ckmlir.targets import TARGETS, get_target

WRONG = [(64, 1, 1), (128, 2, 1), (1, 256, 1), (128, 1, 1)]
"""Smaller ones, and one of the right number of work-items in another shape."""


def compiled(chip: str) -> CompiledKernel:
    layernorm, target = find_operator("layernorm2d"), get_target(chip)
    return compile_kernel(layernorm, layernorm.spec(layernorm.problem(m=4, n=2048), target), target)


@pytest.mark.parametrize("chip", TARGETS)
def test_the_size_is_in_the_code_object(chip: str) -> None:
    kernel = compiled(chip)
    metadata = kernel.code_object.kernels[kernel.kernel_name].metadata
    assert metadata.required_workgroup_size == (metadata.max_flat_workgroup_size, 1, 1)


@pytest.mark.parametrize("block", WRONG)
def test_the_simulator_refuses_another(block: tuple[int, int, int]) -> None:
    kernel = compiled("gfx942")
    with pytest.raises(LaunchError, match=r"requires block \(256, 1, 1\), not"):
        Simulator("gfx942").launch(kernel.code_object, kernel.kernel_name, (4, 1, 1), block, [])


@pytest.mark.parametrize("block", WRONG)
def test_a_device_refuses_another(block: tuple[int, int, int]) -> None:
    kernel = compiled("gfx942")
    device = open_device("sim", get_target("gfx942"))
    module = device.load(kernel.hsaco)
    with pytest.raises(DeviceError, match=r"the kernel requires \(256, 1, 1\)"):
        device.launch(module, kernel.kernel_name, (4, 1, 1), block, [np.int32(4)])
