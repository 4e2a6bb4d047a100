"""Where tensor operators read and write: bytes moved, misaligned bases, arrays of more than 2^31 elements."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from ckmlir.codeobject import CodeObject
from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.runtime import open_device
from ckmlir.runtime.run import run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.sim import memory as sim_memory
from ckmlir.sim.memory import DeviceMemory
from ckmlir.sim.simulator import Simulator
from ckmlir.targets import get_target

CHIPS = ("gfx90a", "gfx942", "gfx950")
ONE_PASS: list[tuple[str, dict[str, object]]] = [
    ("transpose2d", {"m": 256, "n": 512}),
    ("transpose2d", {"m": 250, "n": 333, "dtype": "f32"}),
    ("batched_transpose", {"c": 64, "h": 16, "w": 16}),
    ("permute", {"shape": (9, 33, 40), "perm": (0, 2, 1)}),
    ("copy", {"m": 100, "n": 1000}),
    ("copy", {"m": 64, "n": 256, "through": "direct"}),
    ("elementwise", {"op": "a * b + c", "shape": (100, 520)}),
    ("elementwise", {"op": "gelu(a)", "shape": (99, 77), "dtype": "f32"}),
    ("cast", {"shape": (64, 1000), "dtype": "f32", "out": "bf16"}),
    ("reduce", {"shape": (64, 4096), "ops": "sum,max,sumsq"}),
    ("reduce", {"shape": (1024, 256), "dims": (0,)}),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "keys"), ONE_PASS)
def test_every_byte_moves_once(name: str, keys: dict[str, object]) -> None:
    """One pass over memory: within 2 % of the bytes that the arrays have."""
    operator, target = find_operator(name), get_target("gfx942")
    problem = operator.problem(**keys)
    device = open_device("sim", target)
    assert isinstance(device, SimulatorDevice)
    run_operator(operator, problem, operator.inputs(problem, target), target, device)
    counted = device.last_statistics
    assert counted is not None
    for role, moved in (("in", counted.bytes_read), ("out", counted.bytes_written)):
        least = sum(array.nbytes for array in operator.arrays(problem) if array.role == role)
        assert least <= moved <= 1.02 * least, (role, moved, least)


def launch_at(simulator: Simulator, chip: str, name: str, keys: dict[str, object], addresses: dict[str, int]) -> None:
    """Launch an operator on arrays at given addresses."""
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(**keys)
    spec = operator.spec(problem, target)
    assert operator.validate(spec, target) == []
    kernel = compile_kernel(operator, spec, target)
    launch = operator.launch(problem, spec, target)
    arguments = [addresses[one] if isinstance(one, str) else one for one in launch.arguments]
    simulator.launch(CodeObject.parse(kernel.hsaco), kernel.kernel_name, launch.grid, launch.block, arguments)


MISALIGNED: list[tuple[str, dict[str, object], int]] = [
    (name, keys, align)
    for name, keys in (
        ("copy", {"m": 9, "n": 256}),
        ("transpose2d", {"m": 64, "n": 128}),
        ("elementwise", {"op": "a + b", "shape": (16, 64)}),
        ("reduce", {"shape": (8, 512)}),
        ("cast", {"shape": (8, 512), "dtype": "f16", "out": "f32"}),
    )
    for align in (2, 4, 8)
    if not (name == "cast" and align == 2)
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "keys", "align"), MISALIGNED)
def test_misaligned_bases_give_the_same(name: str, keys: dict[str, object], align: int) -> None:
    """Arrays that start at an odd multiple of `align` bytes: narrower accesses, equal results."""
    operator, target = find_operator(name), get_target("gfx942")
    problem = operator.problem(**keys)
    arrays = operator.inputs(problem, target, seed=3)
    wanted = run_operator(operator, problem, arrays, target, open_device("sim", target)).outputs
    simulator = Simulator(target="gfx942")
    memories = {array.name: simulator.allocate(array.nbytes + align) for array in operator.arrays(problem)}
    for array_name, values in arrays.items():
        memories[array_name].write(values, offset=align)
    addresses = {array_name: memory.address + align for array_name, memory in memories.items()}
    launch_at(simulator, "gfx942", name, {**keys, "align": align}, addresses)
    for array in operator.arrays(problem):
        if array.role == "out":
            dtype = numpy_dtype(array.dtype, target)
            found = memories[array.name].read(np.dtype(f"u{dtype.itemsize}"), array.shape, offset=align)
            np.testing.assert_array_equal(found, wanted[array.name].view(found.dtype))


def reserved(monkeypatch: pytest.MonkeyPatch, simulator: Simulator, array: ArraySpec) -> DeviceMemory:
    """An array's address range, without memory where nothing is written."""

    def bytes_of(size: int) -> np.ndarray:
        area = mmap.mmap(-1, size + 256, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # MAP_NORESERVE
        return np.frombuffer(area, np.uint8)[:size]

    with monkeypatch.context() as patched:
        patched.setattr(sim_memory, "aligned_bytes", bytes_of)
        return DeviceMemory(simulator._table, array.nbytes, None, array.name)


def elements(memory: DeviceMemory, array: ArraySpec, dtype: np.dtype) -> np.ndarray:
    strides = tuple(stride * dtype.itemsize for stride in array.strides)
    return np.lib.stride_tricks.as_strided(memory._bytes.view(dtype), array.shape, strides)


FAR: list[tuple[str, dict[str, object]]] = [
    ("permute", {"shape": (3, 4, 64), "perm": (1, 0, 2), "strides": (2**30, 2**28, 1), "dtype": "f32"}),
    ("permute", {"shape": (5, 33, 40), "perm": (0, 2, 1), "strides": (2**30 + 8, 40, 1), "dtype": "f16"}),
    ("permute", {"shape": (4, 100), "perm": (0, 1), "ystrides": (2**30, 1), "dtype": "f32"}),
    ("transpose2d", {"m": 5, "n": 70, "stride": 2**31 - 1, "dtype": "i8", "align": 1}),
    ("copy", {"m": 4, "n": 100, "stride": 2**30, "ystride": 2**30 + 2**20, "dtype": "f32"}),
    ("cast", {"shape": (4, 100), "strides": (2**30, 1), "ystrides": (2**30, 1), "dtype": "f32", "out": "f16"}),
    ("elementwise", {"op": "a + b", "shape": (3, 2, 50), "a_strides": (2**30, 2**29, 1), "dtype": "f32"}),
    ("reduce", {"shape": (4, 500), "strides": (2**30, 1), "dtype": "f32"}),
]


@pytest.mark.parametrize("chip", ["gfx942"])
@pytest.mark.parametrize(("name", "keys"), FAR)
def test_arrays_of_more_than_two_to_the_31_elements(
    chip: str, name: str, keys: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that lie gigabytes apart, in reserved address space: 64-bit bases, and nothing between the rows is touched
    (the simulator would fault beyond the array)."""
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(**keys)
    arrays = {array.name: array for array in operator.arrays(problem)}
    assert max(array.elements for array in arrays.values()) > 2**31
    simulator = Simulator(target=chip)
    memories = {array.name: reserved(monkeypatch, simulator, array) for array in arrays.values()}
    given = operator.inputs(problem, target, seed=5)
    for array_name, values in given.items():
        elements(memories[array_name], arrays[array_name], values.dtype)[...] = values
    launch_at(simulator, chip, name, keys, {one: memory.address for one, memory in memories.items()})
    for array_name, wanted in operator.expected(problem, given, target).items():
        array = arrays[array_name]
        dtype = numpy_dtype(array.dtype, target)
        found = elements(memories[array_name], array, dtype).astype(np.float64)
        np.testing.assert_allclose(found, wanted.astype(np.float64), rtol=2e-3, atol=1e-4)


def test_more_bytes_apart_than_a_workgroup_reaches_is_refused() -> None:
    """A result whose elements lie too far apart for one base address is a request to reduce in two steps."""
    with pytest.raises(ValueError, match="reduce some of the dimensions first"):
        find_operator("reduce").problem(shape=(4, 4), strides=(2**30, 1), dims=(0,), dtype="f32")
