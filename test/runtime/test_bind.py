"""A new size is not a new kernel: executables bound to other problems, kernels loaded once, launches that wait."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from counted_calls import counted_calls

from ckmlir.ops import OPERATORS, find_operator
from ckmlir.ops.operator import Launch
from ckmlir.ops.request import RequestError
from ckmlir.records import replace
from ckmlir.runtime import Device, DeviceError, check_outputs, open_device, run_operator
from ckmlir.runtime.compile_cache import compile_cached
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.recent import MOST, Recent
from ckmlir.targets import get_target

GFX942 = get_target("gfx942")
GEMM, REDUCE = find_operator("gemm"), find_operator("reduce")


@pytest.fixture(params=["sim", "hip"])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    if request.param == "hip":
        request.getfixturevalue("driver")
    device = open_device(request.param, GFX942, seed=3)
    yield device
    device.close()


def expect(executable: Executable, operator: Any, seed: int = 0) -> None:
    """Its results are right."""
    problem = executable.problem
    inputs = operator.inputs(problem, GFX942, seed)
    outputs = {
        array.name: np.zeros(array.shape, np.float16) for array in executable.arrays.values() if array.role == "out"
    }
    executable(**inputs, **outputs)
    assert all(one.ok for one in check_outputs(operator, problem, inputs, outputs, GFX942))


def test_other_sizes_load_nothing(device: Device, request: pytest.FixtureRequest) -> None:
    """Sizes that the kernel covers, in any order of closing; the last that is closed unloads it."""
    first = Executable(device, GEMM, GEMM.problem(m=70, n=50, k=40, block="64x64x32"))
    sizes = [(m, n, 40) for m, n in ((70, 90), (1, 2), (129, 200), (0, 10))]
    others = [first.bind(GEMM.problem(m=m, n=n, k=k, block="64x64x32", ldb=40, ldc=202)) for m, n, k in sizes]
    for one in (*others, first):
        expect(one, GEMM)
    if request.node.callspec.params["device"] == "hip":
        driver = request.getfixturevalue("driver")
        assert driver.calls["hipModuleLoadData"] == 1
        for one in (first, *others):
            assert driver.live()["modules"] == 1
            one.close()
            one.close()
        assert "modules" not in driver.live()


def test_two_executables_of_one_specification_load_it_once(driver: Any) -> None:
    device = open_device("hip", GFX942)
    one, other = (
        Executable(device, GEMM, GEMM.problem(m=size, n=64, k=64, block="64x64x64")) for size in (64, 128)
    )
    assert one.spec == other.spec and driver.calls["hipModuleLoadData"] == 1
    one.close()
    expect(other, GEMM)
    other.close()
    assert "modules" not in driver.live()
    Executable(device, GEMM, GEMM.problem(m=64, n=64, k=64)).close()
    assert driver.calls["hipModuleLoadData"] == 2


def test_every_kernel_of_several_is_loaded_once(device: Device) -> None:
    first = Executable(device, REDUCE, REDUCE.problem(shape=(2, 30_000), split=3))
    expect(first, REDUCE)
    other = first.bind(REDUCE.problem(shape=(2, 90_000), split=3))
    expect(other, REDUCE)
    assert other.loaded is first.loaded
    first.close()
    expect(other, REDUCE, seed=1)
    other.close()


def test_problems_that_the_specification_does_not_cover(device: Device) -> None:
    first = Executable(device, GEMM, GEMM.problem(m=64, n=64, k=64, block="64x64x32"))
    with pytest.raises(
        RequestError, match=r"gemm: kernel gemm_f16.*dtype=f16: the kernel is another one; expected bf16"
    ):
        first.bind(GEMM.problem(m=64, n=64, k=64, block="64x64x32", dtype="bf16"))
    with pytest.raises(RequestError, match="pad"):
        first.bind(GEMM.problem(m=65, n=64, k=64, block="64x64x32"))
    expect(first, GEMM)
    first.close()


def test_a_compiled_kernel_of_another_specification_is_refused(device: Device) -> None:
    small, large = GEMM.problem(m=64, n=64, k=64), GEMM.problem(m=64, n=64, k=64, block="64x64x32", dtype="bf16")
    compiled = compile_cached(GEMM, GEMM.spec(large, GFX942), GFX942)
    with pytest.raises(RequestError, match=r"the compiled kernel is gemm_bf16.* the problem takes gemm_f16"):
        Executable(device, GEMM, small, compiled=compiled)
    with pytest.raises(RequestError, match="the compiled kernel is gemm_bf16"):
        run_operator(GEMM, small, GEMM.inputs(small, GFX942), GFX942, device, compiled=compiled)
    gfx950 = get_target("gfx950")
    other_chip = compile_cached(GEMM, GEMM.spec(large, gfx950), gfx950)
    with pytest.raises(RequestError, match=r"for gfx950; the problem takes .* for gfx942"):
        Executable(device, GEMM, large, compiled=other_chip)
    wrong: dict[str, Any] = {"compiled": compiled.hsaco}
    with pytest.raises(RequestError, match="a compiled kernel is what compile_kernel gives, not of bytes"):
        Executable(device, GEMM, large, **wrong)


def test_what_is_no_problem_or_operator_is_refused(device: Device) -> None:
    problem, other = GEMM.problem(m=64, n=64, k=64), find_operator("softmax").problem(m=4, n=8)
    executable = Executable(device, GEMM, problem)
    for wrong in (None, other):
        with pytest.raises(RequestError, match=r"gemm: a problem is what find_operator\('gemm'\)\.problem"):
            executable.bind(wrong)
        with pytest.raises(RequestError, match=r"gemm: a problem is what find_operator\('gemm'\)\.problem"):
            Executable(device, GEMM, wrong)
    executable.close()
    name: Any = "gemm"
    with pytest.raises(RequestError, match=r"an operator is what find_operator\('gemm'\) gives, got 'gemm'"):
        Executable(device, name, problem)
    name = "sim"
    with pytest.raises(RequestError, match=r"a device is what open_device\('sim', 'gfx942'\) gives, got 'sim'"):
        Executable(name, GEMM, problem)


@pytest.mark.one_in(2)
def test_a_specification_of_the_users(device: Device) -> None:
    """Any that is valid and covers the problem."""
    problem = GEMM.problem(m=64, n=64, k=64)
    spec = replace(GEMM.spec(problem, GFX942), pad="mnk")
    executable = Executable(device, GEMM, problem, spec=spec)
    assert executable.spec == spec and executable.kernel is not None and executable.kernel.kernel_name == spec.name
    expect(executable, GEMM)
    with pytest.raises(RequestError, match="dtype"):
        Executable(device, GEMM, problem, spec=replace(spec, dtype="bf16", out="bf16"))


@pytest.mark.parametrize("units", [1, 38])
def test_launches_know_the_compute_units_of_the_device(units: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which may have fewer than the product has; workgroups that wait for each other must all find a place there."""
    operator, device = find_operator("copy"), open_device("sim", GFX942)
    properties = msgspec.structs.replace(device.properties, compute_units=units)
    monkeypatch.setattr(type(device), "properties", property(lambda _: properties))
    asked: list[int] = []
    launch = type(operator).launch

    def resident(self: Any, problem: Any, spec: Any, target: Any) -> Launch:
        asked.append(target.compute_units)
        return msgspec.structs.replace(launch(self, problem, spec, target), resident=True)

    monkeypatch.setattr(type(operator), "launch", resident)
    Executable(device, operator, operator.problem(m=16, n=16))
    assert asked == [units]
    with pytest.raises(DeviceError, match=f"wait for each other, and the {units} compute units .* hold"):
        Executable(device, operator, operator.problem(m=100_000, n=64))


def test_binding_calls_as_few_functions_as_a_launch(driver: Any) -> None:
    """Sizes that were bound before are looked up. About 78, 51 and 31 with Python 3.11."""
    device = open_device("hip", GFX942)
    problems = [GEMM.problem(m=256 * number, n=256, k=64, block="128x128x64") for number in range(1, 3 + MOST)]
    first = Executable(device, GEMM, problems[0])
    memories = {array.name: device.allocate(array.nbytes) for array in GEMM.arrays(problems[0])}
    driver.runs_kernels = False

    def bind(problem: Any) -> int:
        return counted_calls(lambda: first.bind(problem).close())

    first.launch(memories)
    launching = counted_calls(lambda: first.launch(memories))
    bind(problems[1])
    binding, again = max(map(bind, problems[2:])), max(map(bind, problems[2:]))
    device.synchronize()
    first.close()
    device.close()
    assert 0 < again < binding < launching


def test_problems_that_differ_by_a_sign_alone_are_told_apart() -> None:
    """Zeros of both signs are equal; what was bound for one is not taken for the other. The oldest are forgotten."""
    recent: Recent[int] = Recent(most=2)
    made = itertools.count()

    def number(problem: Any) -> int:
        return recent.get(problem, lambda _: next(made))

    gemms = [GEMM.problem(op="0.5*acc*alpha", alpha=alpha) for alpha in (0.0, -0.0)]
    rows = [find_operator("softmax").problem(m=1, n=8, scale=scale) for scale in (1.0, 2.0)]
    assert gemms[0] == gemms[1]
    assert [number(one) for one in (*gemms, *gemms)] == [0, 1, 0, 1]
    assert [number(one) for one in (*rows, *rows, gemms[1])] == [2, 3, 2, 3, 4]
    recent.hash_by(lambda problem: 1)  # told apart all the same
    assert [number(one) for one in (*rows, *rows)] == [5, 6, 5, 6]


def test_threads_that_remember_at_once() -> None:
    recent: Recent[int] = Recent(most=5)
    problems = [GEMM.problem(m=m) for m in range(1, 40)]
    failed: list[BaseException] = []

    def look(first: int) -> None:
        try:
            for turn in range(200):
                for place in range(first, first + 39, 3):
                    problem = problems[(place + turn) % len(problems)]
                    assert recent.get(problem, lambda one: one.m) == problem.m
        except BaseException as error:
            failed.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=look, args=(first,)) for first in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        sys.setswitchinterval(before)
    assert not failed


@pytest.mark.parametrize("name", list(OPERATORS))
def test_every_problem_can_be_remembered(name: str) -> None:
    """Two problems of equal requests are one."""
    recent: Recent[int] = Recent()
    assert [recent.get(find_operator(name).problem(), lambda _, one=one: one) for one in (1, 2)] == [1, 1]
