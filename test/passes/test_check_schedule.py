"""The schedule checker accepts what the passes make of every operator, and refuses it once anything in it is broken."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pytest
from schedule_mutations import EXPECTED, MUTATIONS

import ckmlir.passes.proof
from ckmlir.dialect.build import string
from ckmlir.dialect.context import shared_context
from ckmlir.mlir import ir
from ckmlir.ops import find_operator
from ckmlir.passes.check_schedule import check_module
from ckmlir.passes.pipeline import PIPELINE, run_pipeline
from ckmlir.passes.walk import functions, operations
from ckmlir.targets import get_target

NAMES = [str(step.run) for step in PIPELINE]
FRAGMENTS = PIPELINE[: NAMES.index("ck-pipeline-loops")]
SCHEDULING = PIPELINE[NAMES.index("ck-pipeline-loops") : NAMES.index("ck-lower-fragments")]
SMALL = {"m": 128, "n": 128, "k": 128, "block": "64x64x32"}


@lru_cache(maxsize=8)
def texts(operator: str, arch: str, applied: str | None = None, **keys: object) -> tuple[str, str]:
    """A kernel's fragments, and what the scheduling passes make of them; `applied` replaces its loops' schedule."""
    found = find_operator(operator)
    target = get_target(arch)
    problem = found.problem(**keys)
    kernel = found.build(found.spec(problem, target), target)
    with kernel.module.context:
        run_pipeline(kernel.module, FRAGMENTS, dump_on_failure=False)
        if applied is not None:
            for function in functions(kernel.module):
                for op in operations(function):
                    if op.name == "scf.for":
                        op.attributes["ck.schedule"] = string(applied)
        before = str(kernel.module)
        run_pipeline(kernel.module, SCHEDULING, dump_on_failure=False)
        return before, str(kernel.module)


def findings(before: str, after: str, change: Callable[[list[ir.Operation]], None] | None = None) -> list[str]:
    """What the checker says, after a change to the operations of the scheduled kernel."""
    with shared_context():
        reference, module = ir.Module.parse(before), ir.Module.parse(after)
        if change is not None:
            change(kernel_operations(module))
            assert module.operation.verify()
        return [finding.check for finding in check_module(module, reference)]


def kernel_operations(module: ir.Module) -> list[ir.Operation]:
    return list(operations(next(functions(module))))


GEMMS = [
    ("gemm", arch, {**SMALL, **keys, "schedule": schedule})
    for schedule in ("unpipelined", "single_buffer", "prefetch")
    for arch, keys in (("gfx90a", {}), ("gfx942", {"layout": "CRR"}), ("gfx950", {"dtype": "fp8"}))
]
OTHERS = [
    ("gemm", "gfx942", {}),
    ("fmha_fwd", "gfx942", {"mask": "top_left"}),
    ("fmha_fwd", "gfx950", {"schedule": "unpipelined"}),
    ("moe_gemm", "gfx942", {"unit": 64, "block": "64x64x64", "schedule": "async"}),
    ("layernorm2d", "gfx90a", {}),
    ("layernorm2d", "gfx942", {"n": 65536}),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("operator", "arch", "keys"), [*GEMMS, *OTHERS])
def test_what_the_passes_make_is_proved(operator: str, arch: str, keys: dict[str, object]) -> None:
    assert findings(*texts(operator, arch, **keys)) == []


def test_a_last_step_in_parts_is_proved() -> None:
    """What takes its results stands before the rest of it, so before the loop is left."""
    keys: dict[str, object] = {**SMALL, "mfma": "16x16x32", "epilogue": "direct", "schedule": "async_wide_last"}
    assert findings(*texts("gemm", "gfx950", **keys)) == []


# -- mutations: every one of them must be refused

SUBJECTS = [
    ("gemm", "gfx942", {**SMALL, "schedule": "single_buffer"}),
    ("gemm", "gfx950", {**SMALL, "schedule": "async"}),
    ("gemm", "gfx950", {**SMALL, "schedule": "async_wide_carried"}),  # its slots are carried
    # Its last step is in four parts.
    ("gemm", "gfx950", {**SMALL, "mfma": "16x16x32", "epilogue": "direct", "schedule": "async_wide_last"}),
    ("fmha_fwd", "gfx950", {"d": 64}),
    ("moe_gemm", "gfx950", {"unit": 64, "block": "64x64x64", "schedule": "async_double"}),
]


MOST = 4


@pytest.mark.one_in(12)
@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize(
    ("operator", "arch", "keys"), SUBJECTS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_broken_schedules_are_refused(operator: str, arch: str, keys: dict[str, object], mutation: str) -> None:
    before, after = texts(operator, arch, **keys)
    with shared_context():
        scheduled = ir.Module.parse(after)  # owns the operations
        changes = list(MUTATIONS[mutation](kernel_operations(scheduled)))
    if not changes:
        pytest.skip("nothing of the kind in this kernel")
    every = max(1, len(changes) // MOST)
    for change in changes[::every]:
        found = findings(before, after, change)
        assert found, "a broken schedule was accepted"
        assert EXPECTED.get(mutation, set(found)) & set(found)


# -- edits of the text, which leave no trace of what was there


def without_fences(text: str) -> str:
    """No fence, and nothing that says where any was asked for."""
    text = re.sub(r'\n[^\n]*"ck.sched_barrier"\([^\n]*', "", text)
    return re.sub(r'ck\.(pinned|fences = "[^"]*")(, )?', "", text).replace(", }", "}")


ASKING = [
    ("gemm", "gfx942", {**SMALL, "schedule": "single_buffer"}, "which the schedule pins"),
    ("gemm", "gfx950", {**SMALL, "schedule": "hot_loop"}, "asks for 1 fence a step; 0 stand in"),
    ("fmha_bwd", "gfx942", {}, "no fence stands before 'ck.mfma'"),
    ("fmha_fwd", "gfx950", {"dtype": "fp8", "schedule": "qr_async_pinned"}, "asks for 4 fences a step; 0 stand in"),
]


@pytest.mark.parametrize(("operator", "arch", "keys", "message"), ASKING)
def test_the_fences_are_those_that_the_unscheduled_loop_asks_for(
    operator: str, arch: str, keys: dict[str, object], message: str
) -> None:
    before, after = texts(operator, arch, **keys)
    assert not refused(before, after)
    assert "ck.sched_barrier" in after
    assert any(message in one for one in refused(before, without_fences(after)))


EDITS = [
    (r"ck\.lds_bytes = \d+", "ck.lds_bytes = 65552", "reserves 65552 bytes of LDS (ck.lds_bytes); gfx942 has 65536"),
    (r"ck\.lds_bytes = \d+", "ck.lds_bytes = 4096", "reserves 4096 bytes of LDS (ck.lds_bytes); its tensors take"),
    (r'name = "b", offset = (\d+)', r'name = "b", offset = \g<1>4', "so its offset is a multiple of 16"),
    (r"ck\.waves = 4", "ck.waves = 0", "ck.waves = 0: a workgroup has 1 to 16 waves"),
    (r"ck\.waves = 4", "ck.waves = 2", "ck.waves = 2: the unscheduled kernel has 4, and a schedule changes none"),
    (r"ck\.waves = 4", "ck.waves = 8", "ck.waves = 8: the unscheduled kernel has 4, and a schedule changes none"),
]


@pytest.mark.parametrize(("pattern", "other", "message"), EDITS)
def test_edits_of_lds_and_waves_are_refused(pattern: str, other: str, message: str) -> None:
    before, after = texts("gemm", "gfx942", **SMALL, schedule="single_buffer")
    edited, count = re.subn(pattern, other, after)
    assert count == 1
    assert any(message in one for one in refused(before, edited))
    if "unscheduled" in message:  # without a reference the distributions tell
        assert any("has a distribution over 4 waves; the workgroup has" in one for one in refused("", edited))


def refused(before: str, after: str) -> list[str]:
    """What the checker says of a text."""
    with shared_context():
        return [str(one) for one in check_module(ir.Module.parse(after), ir.Module.parse(before) if before else None)]


# -- schedules that the pass refuses, applied nevertheless

ILLEGAL = [
    "schedule too_few_buffers 1; ahead load 2, to_lds 1; buffers 1",
    "schedule buffer_dropped 1; ahead load 3, to_lds 2; buffers 2",
    "schedule further_ahead 1; ahead load 2, to_lds 2; buffers 2",
    "schedule clusters_swapped 1; step from_lds, to_lds",
    "schedule reads_ahead 1; ahead from_lds 1",
]
LEGAL = [
    "schedule prefetch 1; ahead load 2, to_lds 1; buffers 2",
    "schedule three 1; ahead load 3, to_lds 2; buffers 3",
    "schedule more_than_needed 1; ahead load 2, to_lds 1; buffers 4",
    "schedule late_load 1; ahead load 1; step to_lds, load",
]


@pytest.mark.parametrize("schedule", ILLEGAL)
@pytest.mark.usefixtures("credulous")
def test_illegal_schedules_are_refused(schedule: str) -> None:
    assert "dependence" in findings(*texts("gemm", "gfx942", schedule, **SMALL))


@pytest.mark.parametrize("schedule", LEGAL)
@pytest.mark.usefixtures("credulous")
def test_legal_schedules_are_accepted(schedule: str) -> None:
    assert findings(*texts("gemm", "gfx942", schedule, **SMALL)) == []


def test_the_proof_shares_no_code_with_what_it_judges() -> None:
    judged = {
        "pipeline_loops", "loop_expansion", "step_order", "allocate_lds", "lds_layouts", "lds_traffic",
        "insert_barriers", "place_sched_barriers", "bank_conflicts", "choose_paths", "loop_body", "step_policies",
        "step_markers", "wave_groups", "pending_accesses",
    }  # fmt: skip
    package = Path(ckmlir.passes.proof.__file__).parent
    for file in [*package.glob("*.py"), package.parent / "check_schedule.py"]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                parts = node.module.split(".")
                assert not judged & set(parts), f"{file.name}: {node.module}"
                assert "scheduling" not in parts
