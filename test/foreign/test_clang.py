"""Kernels that clang makes of OpenCL C: a finding for each wait and barrier that is taken out where that makes a
difference on the path of a run, which a second opinion follows. Needs clang 22 and its linker."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from broken import NOP, WAIT, WITHOUT, every, patched
from opencl_kernels import compiled, needs_clang
from path_oracle import PathRecorder, collides, violations

from ckmlir.codeobject import CodeObject
from ckmlir.sim import CheckFailure, Simulator
from ckmlir.sim.checks import Finding

pytestmark = needs_clang


class Launch(NamedTuple):
    """A workgroup of 256, the shapes of what it reads and writes in 32 bits, and numbers."""

    source: str
    read: tuple[int, ...]
    written: tuple[int, ...]
    numbers: tuple[int, ...]


LAUNCHES = {
    "softmax": Launch("rows", (1, 300), (1, 300), (300,)),
    "row_sum": Launch("rows", (1, 300), (1,), (300,)),
    "transpose": Launch("layout", (16, 16), (16, 16), (16, 16)),
    "sunk": Launch("sunk", (256,), (256,), (0,)),
}
RIGHT = ("softmax", "row_sum", "transpose")
EACH = [
    pytest.param(name, chip, level, id=f"{name}-{chip}-O{level}")
    for name in RIGHT for level in (1, 3) for chip in ("gfx90a", "gfx942", "gfx950")
]  # fmt: skip


def found(data: bytes, name: str, chip: str, checks: str, observer: Any = None) -> tuple[Finding, ...]:
    """What the checkers say of a launch."""
    one, simulator = LAUNCHES[name], Simulator(chip, checks=checks)
    simulator.observer = observer
    x = simulator.upload(np.random.default_rng(1).standard_normal(one.read, np.float32), "x", read_only=True)
    y = simulator.allocate(4 * int(np.prod(one.written)), "y")
    try:
        simulator.launch(CodeObject.parse(data), name, (1, 1, 1), (256, 1, 1), [x, y, *one.numbers])
    except CheckFailure as failure:
        return failure.findings
    return ()


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("name", "chip", "level"), EACH)
def test_each_wait_and_barrier_that_is_taken_out_is_found(name: str, chip: str, level: int) -> None:
    code_object, recorder = compiled(LAUNCHES[name].source, chip, level), PathRecorder()
    data = bytes(code_object.data)
    assert not found(data, name, chip, "all") and not found(data, name, chip, "", recorder)
    assert not list(violations(recorder.rounds)) and not collides(recorder, 0)
    wrong, needed = [], []
    for wait in every(code_object, "s_waitcnt", name):
        expected = any(True for _ in violations(recorder.rounds, {wait.address: WITHOUT}))
        findings = found(patched(data, wait, WAIT), name, chip, "wait")
        if any(one.wave is not None for one in findings) != expected:
            wrong.append((hex(wait.address), wait.text, expected))
        needed += [wait.text] * expected
    for barrier in every(code_object, "s_barrier", name):
        expected = collides(recorder, barrier.address)
        if bool(found(patched(data, barrier, NOP), name, chip, "race")) != expected:
            wrong.append((hex(barrier.address), barrier.text, expected))
        needed += [barrier.text] * expected
    assert not wrong
    assert "s_barrier" in needed and len(set(needed)) > 1


@pytest.mark.parametrize("options", [(), ("-mllvm", "-disable-machine-sink")], ids=["as-it-is", "without-sinking"])
def test_a_read_that_the_compiler_moves_below_its_barrier_is_found(options: tuple[str, ...]) -> None:
    """LLVM 22 sinks reads of LDS into the branch that needs them, past the barrier between; later ones do not."""
    code_object = compiled("sunk", "gfx942", 2, options)
    names = ("s_barrier", "ds_read_b32")
    barriers, reads = (sorted(one.address for one in every(code_object, name, "sunk")) for name in names)
    is_sunk = barriers[1] < reads[0]
    findings = found(bytes(code_object.data), "sunk", "gfx942", "all")
    assert {one.checker for one in findings} == ({"race"} if is_sunk else set())
    assert not (options and is_sunk)
