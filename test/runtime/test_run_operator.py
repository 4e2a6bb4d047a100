"""Running operators on a device: NumPy stands in for a chip, with kernels that see only bytes and arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ckmlir.ops import find_operator
from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.dtypes import DTYPES, numpy_dtype
from ckmlir.ops.request import RequestError
from ckmlir.runtime import DeviceProperties, KernelFault, check_outputs, open_device, operator_kernels, run_operator
from ckmlir.runtime.device import DeviceError
from ckmlir.runtime.strided import elements, given_bytes, to_memory, touched_gap
from ckmlir.targets import get_target

GFX942 = get_target("gfx942")
GEMM = find_operator("gemm")


@dataclass
class HostMemory:
    content: np.ndarray
    address: int
    size: int


class NumpyDevice:
    """A device whose only kernel is a Python function of the launch's arguments."""

    def __init__(self, kernel: Callable[..., None]) -> None:
        self.kernel, self.live, self.launches = kernel, 0, 0
        self.properties = DeviceProperties("numpy", "gfx942", 1, 64, 65536, 1024)

    def allocate(self, size: int) -> HostMemory:
        self.live += 1
        return HostMemory(np.zeros(size, np.uint8), 4096 * self.live, size)

    def free(self, memory: HostMemory) -> None:
        self.live -= 1

    def write(self, destination: HostMemory, source: np.ndarray, stream: Any = None) -> None:
        destination.content[: source.nbytes] = source.view(np.uint8)

    def read(self, destination: np.ndarray, source: HostMemory, stream: Any = None) -> None:
        destination[...] = source.content[: destination.nbytes]

    def load(self, code_object: bytes) -> bytes:
        return code_object

    def unload(self, module: bytes) -> None:
        pass

    def launch(self, module: bytes, kernel: str, grid: Any, block: Any, arguments: Sequence[Any], **_: Any) -> None:
        self.launches += 1
        self.kernel(grid, block, *arguments)

    def prepare(
        self, module: bytes, kernel: str, grid: Any, block: Any, arguments: Sequence[Any]
    ) -> Callable[..., None]:
        def launch(memories: Sequence[HostMemory], stream: Any = None, size: Any = None) -> None:
            rest = iter(memories)
            self.launch(module, kernel, grid, block, [next(rest) if one is None else one for one in arguments])

        launch.sized = lambda grid, scalars: None  # type: ignore[attr-defined]  # no other size is asked for
        return launch

    def synchronize(self) -> None:
        pass


@pytest.fixture(autouse=True)
def compiler(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A compiler that makes nothing; the names of what it was asked to compile."""
    compiled: list[str] = []

    def compile_kernel(operator: Any, spec: Any, target: Any) -> SimpleNamespace:
        compiled.append(spec.name)
        return SimpleNamespace(hsaco=b"", kernel_name=spec.name, target=target.name)

    monkeypatch.setattr(operator_kernels, "compile_cached", compile_kernel)
    return compiled


def gemm_kernel(rows_of_a: bool, rows_of_b: bool, dtype: Any, out: Any) -> Callable[..., None]:
    """C = A·B from flat memory, by the kernel's own arguments."""

    def kernel(grid, block, a, b, m, n, k, lda, ldb, ldc, c) -> None:
        flat_a, flat_b, flat_c = (memory.content.view(kind) for memory, kind in ((a, dtype), (b, dtype), (c, out)))
        for i in range(m):
            for j in range(n):
                total = 0.0
                for s in range(k):
                    left = flat_a[i * lda + s] if rows_of_a else flat_a[s * lda + i]
                    right = flat_b[s * ldb + j] if rows_of_b else flat_b[j * ldb + s]
                    total += float(left) * float(right)
                flat_c[i * ldc + j] = total

    return kernel


@pytest.mark.parametrize("layout", ["RCR", "RRR", "CRR", "CCR"])
@pytest.mark.parametrize(("dtype", "numpy_dtype"), [("bf16", ml_dtypes.bfloat16), ("fp8", ml_dtypes.float8_e4m3fnuz)])
def test_gemm_with_distant_rows(layout: str, dtype: str, numpy_dtype: Any, compiler: list[str]) -> None:
    problem = GEMM.problem(m=5, n=6, k=7, dtype=dtype, out="f32", layout=layout, lda=9, ldb=11, ldc=8)
    arrays = GEMM.inputs(problem, GFX942, seed=2)
    device = NumpyDevice(gemm_kernel(layout[0] == "R", layout[1] == "R", numpy_dtype, np.float32))
    result = run_operator(GEMM, problem, arrays, GFX942, device)
    assert result.outputs["c"].shape == (5, 6)
    assert [one.ok for one in check_outputs(GEMM, problem, arrays, result.outputs, GFX942)] == [True]
    assert compiler == [GEMM.spec(problem, GFX942).name]
    assert (device.live, device.launches) == (0, 1)


@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])  # the flavours of 8-bit floats
@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_round_trip(chip: str, dtype: str) -> None:
    target = get_target(chip)
    spec = array_spec("x", (2, 3, 5), dtype, "in", pitch=7)
    array = np.arange(30).reshape(2, 3, 5).astype(numpy_dtype(dtype, target))
    memory = to_memory(array, spec)
    assert memory.nbytes == (5 * 7 + 5) * array.itemsize
    np.testing.assert_array_equal(elements(memory, spec, array.dtype), array)
    assert touched_gap(memory, spec, array.dtype) is None
    memory[5 * array.itemsize] = 0
    assert touched_gap(memory, spec, array.dtype) == 5


@pytest.mark.parametrize(
    ("shape", "strides", "dense"),
    [
        ((), (), True), ((7,), (1,), True), ((2, 3), (3, 1), True), ((2, 3), (4, 1), False), ((3, 2), (1, 3), True),
        ((1, 3), (9, 1), True), ((4, 1, 3), (3, 99, 1), True), ((2, 3, 5), (17, 5, 1), False), ((4, 3), (0, 1), True),
        ((4, 3), (2, 1), True), ((3,), (2,), False), ((0, 3), (9, 1), True), ((2, 2), (3, 0), False),
    ],
)  # fmt: skip
def test_arrays_without_gaps(shape: tuple[int, ...], strides: tuple[int, ...], dense: bool) -> None:
    spec = ArraySpec("x", shape, "f16", "in", strides)
    touched = {sum(np.multiply(place, strides).astype(int)) for place in np.ndindex(*shape)}
    assert spec.is_dense is dense is (len(touched) == spec.elements)
    array = np.arange(int(np.prod(shape, dtype=int)), dtype=np.float16).reshape(shape)
    memory = to_memory(array, spec)
    np.testing.assert_array_equal(given_bytes(array, spec), memory)
    assert memory.nbytes == spec.nbytes
    if dense and 0 not in strides and len(touched) == array.size:
        np.testing.assert_array_equal(elements(memory, spec, array.dtype), array)


def test_bytes_that_lie_as_in_device_memory_are_not_copied() -> None:
    array = np.arange(12, dtype=np.float16).reshape(3, 4)
    spec, wide, turned = (ArraySpec("x", (3, 4), "f16", "in", strides) for strides in ((4, 1), (5, 1), (1, 3)))
    assert np.shares_memory(given_bytes(array, spec), array)
    for given, other in ((array, wide), (array, turned), (array.astype(">f2"), spec), (array.T.copy().T, spec)):
        found = given_bytes(given, other)
        assert not np.shares_memory(found, given)
        np.testing.assert_array_equal(elements(found, other, array.dtype), array)


def test_outputs_stay_on_the_device_where_nobody_asks_for_them() -> None:
    problem = GEMM.problem(m=5, n=6, k=7, layout="RRR", out="f32", ldc=8)
    arrays = GEMM.inputs(problem, GFX942)
    device = NumpyDevice(gemm_kernel(True, True, np.float16, np.float32))
    result = run_operator(GEMM, problem, arrays, GFX942, device, reads_outputs=False)
    assert result.outputs == {}
    assert (device.live, device.launches) == (0, 1)


def test_an_element_nobody_wrote_disagrees_and_is_located() -> None:
    problem = GEMM.problem(m=5, n=6, k=7, layout="RRR", out="f32", ldc=8)
    arrays = GEMM.inputs(problem, GFX942)
    correct = gemm_kernel(True, True, np.float16, np.float32)

    def kernel(grid, block, *arguments) -> None:
        correct(grid, block, *arguments)
        arguments[-1].content.view(np.float32)[3 * 8 + 4] = np.nan  # as before the launch

    result = run_operator(GEMM, problem, arrays, GFX942, NumpyDevice(kernel))
    (comparison,) = check_outputs(GEMM, problem, arrays, result.outputs, GFX942)
    assert comparison.mismatches == 1
    assert comparison.worst is not None
    assert comparison.worst.index == (3, 4)
    assert comparison.max_abs_err == np.inf
    assert "worst at [3, 4]: got nan" in str(comparison)


def test_outputs_start_as_nan() -> None:
    problem = GEMM.problem(m=2, n=3, k=4)
    result = run_operator(GEMM, problem, GEMM.inputs(problem, GFX942), GFX942, NumpyDevice(lambda *_: None))
    assert np.isnan(result.outputs["c"]).all()


def test_writing_between_rows_is_a_fault() -> None:
    problem = GEMM.problem(m=5, n=6, k=7, ldc=8)

    def kernel(grid, block, *arguments) -> None:
        arguments[-1].content.view(np.float16)[2 * 8 + 7] = 1

    with pytest.raises(KernelFault, match="between the rows of array c, 23 elements from its start"):
        run_operator(GEMM, problem, GEMM.inputs(problem, GFX942), GFX942, NumpyDevice(kernel))


def test_memory_is_given_back_when_a_kernel_faults() -> None:
    def kernel(*_: Any) -> None:
        raise KernelFault("out of bounds")

    device = NumpyDevice(kernel)
    problem = GEMM.problem(m=2, n=2, k=2)
    with pytest.raises(KernelFault):
        run_operator(GEMM, problem, GEMM.inputs(problem, GFX942), GFX942, device)
    assert device.live == 0


def test_nothing_is_compiled_for_an_empty_launch(compiler: list[str]) -> None:
    problem = GEMM.problem(m=0, n=5, k=3)
    device = NumpyDevice(lambda *_: None)
    result = run_operator(GEMM, problem, GEMM.inputs(problem, GFX942), GFX942, device)
    assert result.outputs["c"].shape == (0, 5)
    assert result.kernel is None
    assert (compiler, device.launches) == ([], 0)


def test_zero_k_is_launched() -> None:
    problem = GEMM.problem(m=3, n=5, k=0)
    arrays = GEMM.inputs(problem, GFX942)
    device = NumpyDevice(gemm_kernel(True, False, np.float16, np.float16))
    result = run_operator(GEMM, problem, arrays, GFX942, device)
    assert not result.outputs["c"].any()
    assert device.launches == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda arrays: arrays.pop("b"), "array b is missing"),
        (lambda arrays: arrays.update(a=arrays["a"].T), r"array a has shape \(7, 5\); these keys ask for \(5, 7\)"),
        (
            lambda arrays: arrays.update(a=arrays["a"].astype(np.float32)),
            "array a has type float32; dtype f16 is float16",
        ),
    ],
)
def test_wrong_arrays_are_refused(change: Callable[[dict[str, np.ndarray]], object], words: str) -> None:
    problem = GEMM.problem(m=5, n=6, k=7)
    arrays = GEMM.inputs(problem, GFX942)
    change(arrays)
    with pytest.raises(RequestError, match=words):
        run_operator(GEMM, problem, arrays, GFX942, NumpyDevice(lambda *_: None))


def test_a_kernel_that_the_chip_cannot_run_is_refused_before_compiling(compiler: list[str]) -> None:
    problem = GEMM.problem(block="512x256x64")
    with pytest.raises(RequestError, match="gemm on gfx942: block=512x256x64: needs 98304 bytes of LDS"):
        run_operator(GEMM, problem, {}, GFX942, NumpyDevice(lambda *_: None))
    assert compiler == []


def test_a_device_that_does_not_exist() -> None:
    with pytest.raises(DeviceError, match=r"expected sim\|hip\|auto"):
        open_device("cuda", GFX942)
