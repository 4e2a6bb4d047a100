"""No false alarm on code that works: our kernels, LLVM's code for OpenCL C, the committed code objects; and no crash on
damaged code."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from opencl_kernels import SOURCES, compiled, needs_clang

from ckmlir.codeobject import CodeObject, CodeObjectError
from ckmlir.compiler import compile_kernel
from ckmlir.ops import OPERATORS, find_operator
from ckmlir.sim.analysis import check_hazards, check_waits
from ckmlir.sim.checks import Finding
from ckmlir.targets import get_target

CHIPS = ("gfx90a", "gfx942", "gfx950")
COMMITTED = sorted((Path(__file__).parent.parent / "codeobject" / "data").glob("kernels_*"))
_PART = 160
"""One kernel in so many of those that `ckmlir list --arch` names is checked by default."""


def findings(code_object: CodeObject) -> list[Finding]:
    return [
        finding
        for kernel in code_object.kernels
        for check in (check_waits, check_hazards)
        for finding in check(code_object, kernel)
    ]


def check_listed(chip: str, first: int, step: int) -> int:
    """Check every step-th kernel that `ckmlir list --arch` names for a chip; returns how many."""
    target = get_target(chip)
    listed = [(operator, spec) for operator in map(find_operator, OPERATORS) for spec in operator.kernels(target)]
    chosen = listed[first::step]
    for operator, spec in chosen:
        assert findings(compile_kernel(operator, spec, target).code_object) == [], spec.name
    return len(chosen)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("chip", CHIPS)
def test_some_of_our_kernels_are_clean(chip: str) -> None:
    assert check_listed(chip, 7, _PART) >= 4


@pytest.mark.full
@pytest.mark.parametrize("chip", CHIPS)
def test_all_our_kernels_are_clean(chip: str) -> None:
    assert check_listed(chip, 0, 1) > 150


@pytest.mark.parametrize("file", COMMITTED, ids=lambda file: file.name)
def test_committed_code_objects_are_clean(file: Path) -> None:
    assert findings(CodeObject.parse(file)) == []


@pytest.mark.one_in(4)
@needs_clang
@pytest.mark.parametrize("level", (0, 1, 3))
@pytest.mark.parametrize("chip", CHIPS)
def test_code_of_another_compiler_is_clean(chip: str, level: int) -> None:
    """Without optimisation gfx90a's code keeps some function addresses in scratch memory: those are "not proven"."""
    unproven: set[str] = set()
    for source in sorted(SOURCES.glob("*.cl")):
        for finding in findings(compiled(source.stem, chip, level)):
            assert level == 0 and finding.message.startswith("not proven: s_swappc_b64"), (source.stem, str(finding))
            unproven.add(finding.kernel)
    assert unproven <= ({"histogram", "flat_pointers", "matrices"} if (chip, level) == ("gfx90a", 0) else set())


@needs_clang
def test_calls_are_followed() -> None:
    """Functions that the kernel calls are part of its proof, with and without optimisation."""
    from ckmlir.sim.analysis.control_flow import control_flow

    for level in (0, 3):
        code_object = compiled("dataflow", "gfx942", level)
        flow = control_flow(code_object, code_object.kernel("calls"))
        address, size = code_object.image.symbols["series"]
        inside = [start for start in flow.blocks if address <= start < address + size]
        assert len(inside) > 3 and not flow.unresolved


def test_damaged_code_ends_in_findings_or_an_error() -> None:
    rng = random.Random(3)
    originals = [file.read_bytes() for file in COMMITTED]
    checked = 0
    for _ in range(150):
        data = bytearray(rng.choice(originals))
        for _ in range(rng.choice((1, 4, 40))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            code_object = CodeObject.parse(bytes(data))
            found = findings(code_object)
        except (CodeObjectError, ValueError):
            continue
        checked += 1
        assert all(str(finding) for finding in found)
    assert checked > 30


def test_random_words_are_checked_without_a_crash() -> None:
    from decode_words import random_instruction

    from ckmlir.sim.analysis.control_flow import control_flow_of_code
    from ckmlir.sim.analysis.hazards import HazardAnalysis
    from ckmlir.sim.analysis.waits import WaitAnalysis
    from ckmlir.sim.decode.opcodes import opcode_table

    rng = random.Random(5)
    for round in range(60):
        target = CHIPS[round % 3]
        rows = list(opcode_table(target).values())
        code = b"".join(random_instruction(rng.choice(rows), rng) for _ in range(200))
        flow = control_flow_of_code(code, 0, target)
        assert list(WaitAnalysis(flow).missing()) is not None and list(HazardAnalysis(flow).hazards()) is not None
