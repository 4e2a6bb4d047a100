"""Kernels of Triton, from softmax to GEMM: no finding and the right numbers on each chip, and a finding for each wait
and barrier that is taken out where that makes a difference. `.ci/check-triton` installs Triton and runs these."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from broken import NOP, WAIT, WITHOUT, every, patched
from path_oracle import PathRecorder, violations

from ckmlir.codeobject import CodeObject
from ckmlir.sim import CheckFailure, Simulator
from ckmlir.sim.analysis import check_hazards, check_waits
from ckmlir.sim.checks import Finding

triton_kernels = pytest.importorskip(
    "triton_kernels", reason="Triton is not installed: .ci/check-triton compiles its kernels"
)
KERNELS, compilers = triton_kernels.KERNELS, triton_kernels.compilers
CHIPS = ("gfx90a", "gfx942", "gfx950")
FORMS = [(name, form) for name, forms in KERNELS.items() for form in range(len(forms))]
Array = np.ndarray[Any, Any]
Found = tuple[Finding, ...]


class Work(NamedTuple):
    """A launch: what is given, in the order of arguments, the grid, and what the result is to be."""

    inputs: list[Array]
    result: Array
    numbers: list[int | float]
    grid: tuple[int, int, int]


def half(*shape: int) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float16)


def normalised(x: Array, mean: Array) -> Array:
    centred = x - mean
    found: Array = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return found


def work_of(name: str, form: int) -> Work:
    """A small launch whose sizes are as the kernel is compiled for: multiples of 16; some end within a block."""
    operator, rows, columns = name.split()[0], 3, 4096 if form else 2064
    x, exact = half(rows, columns), half(rows, columns).astype(np.float64)
    strides, each = [columns, columns], (rows, 1, 1)
    if operator == "softmax":
        powers = np.exp(exact - exact.max(-1, keepdims=True))
        many = [columns] if form else [rows, columns]
        return Work([x], powers / powers.sum(-1, keepdims=True), [*strides, *many], each if form else (1, 1, 1))
    if operator in ("layernorm2d", "rmsnorm2d"):
        scale, shift = half(columns), half(columns)
        centre = exact.mean(-1, keepdims=True) if operator == "layernorm2d" else np.zeros((rows, 1))
        wanted = normalised(exact, centre) * scale + (shift if operator == "layernorm2d" else 0)
        return Work([x, scale, shift][: 3 if operator == "layernorm2d" else 2], wanted, [*strides, columns, 1e-5], each)
    if operator == "transpose2d":
        x = half(80, 144)
        return Work([x], x.T, [80, 144, 144, 80], (2, 3, 1))
    if operator == "copy":
        x = half(8192 + 4096)
        return Work([x], x, [x.size], (2, 1, 1))
    a, b = half(144, 208), half(160, 208)
    product = a.astype(np.float64) @ b.astype(np.float64).T
    return Work([a, b], product, [144, 160, 208, 208, 208, 160], (4, 1, 1))


class Compiled(NamedTuple):
    hsaco: bytes
    shared: int
    waves: int


@cache
def compiled(name: str, form: int, arch: str) -> Compiled:
    made = compilers(name, arch)[form]()
    return Compiled(made.asm["hsaco"], made.metadata.shared, made.metadata.num_warps)


def run(hsaco: bytes, one: Compiled, work: Work, arch: str, checks: str, observer: Any = None) -> tuple[Array, Found]:
    """The result of a launch, and what was found."""
    simulator = Simulator(arch, checks=checks)
    simulator.observer = observer
    given = [simulator.upload(array, f"x{number}", read_only=True) for number, array in enumerate(work.inputs)]
    result = simulator.allocate(2 * work.result.size, "y")
    code_object = CodeObject.parse(hsaco)
    kernel = code_object.kernel()
    numbers = [int.from_bytes(struct.pack("<f", n), "little") if isinstance(n, float) else n for n in work.numbers]
    values = [*(memory.address for memory in (*given, result)), *numbers]
    # Two more are pointers to scratch memory that none of these uses.
    values += [0] * (len(kernel.given_arguments) - len(values))
    try:
        simulator.launch(code_object, kernel.name, work.grid, (64 * one.waves, 1, 1), values, one.shared)
        findings = simulator.remarks
    except CheckFailure as failure:
        findings = (*failure.findings, *failure.remarks)
    return result.read(np.float16).reshape(work.result.shape), tuple(findings)


@pytest.mark.parametrize("arch", CHIPS)
@pytest.mark.parametrize(("name", "form"), FORMS)
def test_nothing_is_found_in_kernels_that_are_right(name: str, form: int, arch: str) -> None:
    """Nothing but what the run itself clears: slots of LDS that GEMM's copies on gfx950 go to by turns. They are advice
    where only the code is read."""
    work, one = work_of(name, form), compiled(name, form, arch)
    code_object = CodeObject.parse(one.hsaco)
    assert not [str(one) for one in check_waits(code_object) + check_hazards(code_object) if one.is_fault]
    result, findings = run(one.hsaco, one, work, arch, "all")
    copies = name.startswith("gemm") and arch == "gfx950"
    assert not [str(one) for one in findings if one.grade != "cleared" or not copies]
    assert np.abs(result - work.result).max() <= 4e-3 * max(1.0, np.abs(work.result).max())


BROKEN = [("softmax f16 n4096", 0), ("layernorm2d f16 n4096", 1), ("transpose2d f16", 0), ("gemm f16 128x128x64", 0)]


@pytest.mark.parametrize("arch", CHIPS)
@pytest.mark.parametrize(("name", "form"), BROKEN)
def test_each_wait_that_is_taken_out_is_found(name: str, form: int, arch: str) -> None:
    """Where a second opinion on the recorded path says that something is used too early, and nowhere else."""
    work, one, recorder = work_of(name, form)._replace(grid=(1, 1, 1)), compiled(name, form, arch), PathRecorder()
    run(one.hsaco, one, work, arch, "", recorder)
    assert not list(violations(recorder.rounds))
    missed, early = [], 0
    for wait in every(CodeObject.parse(one.hsaco), "s_waitcnt"):
        first = next(violations(recorder.rounds, {wait.address: WITHOUT}), None)
        _, findings = run(patched(one.hsaco, wait, WAIT), one, work, arch, "wait")
        found = {finding.address for finding in findings if finding.wave is not None and finding.grade == "required"}
        early += first is not None
        if bool(found) != (first is not None):
            missed.append((hex(wait.address), wait.text, first and first.text))
    assert not missed
    assert early


@pytest.mark.parametrize("arch", CHIPS)
@pytest.mark.parametrize(("name", "form"), BROKEN)
def test_each_barrier_that_is_taken_out_is_found(name: str, form: int, arch: str) -> None:
    work, one = work_of(name, form), compiled(name, form, arch)
    missed = []
    for barrier in every(CodeObject.parse(one.hsaco), "s_barrier"):
        _, findings = run(patched(one.hsaco, barrier, NOP), one, work, arch, "race,barrier,initialisation")
        if not any(finding.grade == "required" for finding in findings):
            missed.append(hex(barrier.address))
    assert not missed
