"""The strict mode of waits: copies from memory to LDS that may land in any order (`copy_order`)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ckmlir.codeobject import CodeObject
from ckmlir.compiler import compile_scheduled
from ckmlir.lowering.assembler import assemble
from ckmlir.ops import find_operator
from ckmlir.runtime import FindingsFault, check_outputs, open_device, run_operator
from ckmlir.runtime.compile_cache import compile_cached
from ckmlir.scheduling import Workbench
from ckmlir.sim.analysis import check_copy_order, check_waits
from ckmlir.sim.checks import parse_checks
from ckmlir.targets import get_target
from ckmlir.tools.cli import main

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "foreign" / "doubled.s"
COPIES = """  s_mov_b32 m0, 0
  buffer_load_dword v1, s[0:3], 0 offen lds
  s_mov_b32 m0, 0x1000
  buffer_load_dword v1, s[0:3], 0 offen lds
  s_waitcnt vmcnt({count})
  s_barrier
  ds_read_b32 v3, v2
  s_waitcnt lgkmcnt(0)
  s_endpgm
"""


def copies(count: int) -> CodeObject:
    """A kernel with two copies to LDS, of which `count` may be in flight at the barrier."""
    text = EXAMPLE.read_text()
    body = text.index("doubled:\n") + len("doubled:\n")
    end = text.index("s_endpgm") + len("s_endpgm\n")
    return CodeObject.parse(assemble(text[:body] + COPIES.format(count=count) + text[end:], "gfx942").hsaco)


def test_only_a_wait_for_all_copies_is_enough() -> None:
    assert check_copy_order(copies(0)) == []
    known, strict = check_waits(copies(1)), check_copy_order(copies(1))
    (finding,) = strict
    assert finding.checker == "copy_order" and finding.is_fault and "s_waitcnt vmcnt(0)" in finding.message
    # The older copy is what the strict mode adds; the younger one is in flight anyway.
    assert not {access for one in known for access in one.earlier} & set(finding.earlier)


@pytest.mark.parametrize("schedule, relies", [("async", True), ("async_double", False)])
def test_schedules_say_whether_they_rely_on_the_order(schedule: str, relies: bool) -> None:
    gemm, target = find_operator("gemm"), get_target("gfx950")
    problem = gemm.problem(m=64, n=64, k=256, block="64x64x64", schedule=schedule)
    compiled = compile_cached(gemm, gemm.spec(problem, target), target)
    assert bool(check_copy_order(compiled.code_object)) == relies and check_waits(compiled.code_object) == []
    device = open_device("sim", target, checks=parse_checks("all,copy_order"))
    if not relies:
        run_operator(gemm, problem, gemm.inputs(problem, target), target, device, compiled=compiled)
        return
    with pytest.raises(FindingsFault) as caught:  # a run does not clear it
        run_operator(gemm, problem, gemm.inputs(problem, target), target, device, compiled=compiled)
    assert {one.checker for one in caught.value.findings} == {"copy_order"}


def test_it_is_on_request(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "copy_order" not in parse_checks("all")
    file = tmp_path / "copies.hsaco"
    file.write_bytes(copies(0).data)
    assert main(["check", str(file), "--check", "wait,copy_order", "--format", "json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert kernel["checked"] == ["decode", "wait", "copy_order"]


@pytest.mark.parametrize(
    ("name", "keys", "schedule"),
    [
        ("gemm", {"m": 64, "n": 64, "k": 256, "block": "64x64x64"}, "async"),
        ("gemm", {"m": 64, "n": 64, "k": 256, "block": "64x64x64"}, "async_wide"),
        ("fmha_fwd", {"b": 1, "h": 1, "sq": 128, "sk": 256, "d": 64}, "qr_async_pinned"),
    ],
)
def test_schedules_that_drain_do_not(name: str, keys: dict[str, object], schedule: str) -> None:
    """`waits drain` makes a variant of any schedule that needs no order, with the same numbers."""
    operator, target = find_operator(name), get_target("gfx950")
    problem = operator.problem(**keys, schedule=schedule)
    spec = operator.spec(problem, target)
    own = Workbench.of(operator, spec, target).schedule
    assert check_copy_order(compile_scheduled(operator, spec, target, own).code_object)
    drained = compile_scheduled(operator, spec, target, replace(own, waits="drain"))
    assert check_copy_order(drained.code_object) == []
    device = open_device("sim", target, checks=parse_checks("all,copy_order"))
    inputs = operator.inputs(problem, target)
    result = run_operator(operator, problem, inputs, target, device, compiled=drained)
    assert all(one.ok for one in check_outputs(operator, problem, inputs, result.outputs, target))
