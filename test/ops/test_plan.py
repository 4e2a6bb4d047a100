"""Plans: the steps that operators declare, with names resolved and kernels specified; nothing is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from ckmlir.ops import OPERATORS, find_operator
from ckmlir.ops.operator import Launch, Run, Step
from ckmlir.ops.plan import FillStep, KernelStep, PackStep, make_plan
from ckmlir.ops.request import RequestError
from ckmlir.ops.steps import OWN_KERNEL, Fill, PackOnHost, Workspace
from ckmlir.targets import TARGETS, get_target

GFX942 = get_target("gfx942")
SUMS, REDUCE = find_operator("ragged_row_sums"), find_operator("reduce")


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("chip", TARGETS)
def test_an_operator_without_steps_of_its_own_queues_its_kernel(name: str, chip: str) -> None:
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem()
    spec = operator.spec(problem, target)
    if reasons := operator.validate(spec, target):
        assert ("fp8" in str(reasons[0]) or "sparse" in str(reasons[0])) and chip == "gfx90a", reasons
        pytest.skip(f"the chip lacks it: {reasons[0]}")
    plan = make_plan(operator, problem, target)
    (own,) = [step for step in plan.kernels if step.is_own]
    assert (own.operator, own.problem, own.spec) == (operator, problem, spec)
    assert own.launch == operator.launch(problem, spec, target)
    if type(operator).steps is find_operator("gemm").__class__.steps:
        assert plan.steps == (own,) and plan.workspaces == ()


def test_split_reductions_are_a_kernel_of_parts_and_one_for_each_output() -> None:
    problem = REDUCE.problem(shape=(3, 50_000), split=7, ops="sum,mean,sumsq", dtype="f16")
    plan = make_plan(REDUCE, problem, GFX942)
    first, *others = plan.kernels
    assert plan.steps == plan.kernels and first.is_own and not any(step.is_own for step in others)
    assert first.spec == REDUCE.spec(problem, GFX942) and first.spec.stores == "partial"
    assert first.arrays == ("x", "y_sum_parts", "y_mean_parts", "y_sumsq_parts")
    assert [step.arrays for step in others] == [(f"y_{kind}_parts", f"y_{kind}") for kind in ("sum", "mean", "sumsq")]
    assert [workspace.nbytes for workspace in plan.workspaces] == [7 * 3 * 4] * 3
    assert all(not REDUCE.validate(step.spec, GFX942) for step in plan.kernels)


def test_atomic_reductions_fill_their_outputs_before() -> None:
    plan = make_plan(REDUCE, REDUCE.problem(shape=(3, 5000), split=2, atomic=1, ops="max", out="f32"), GFX942)
    assert [step.operator.name for step in plan.kernels] == ["elementwise", "reduce"]
    assert [step.is_own for step in plan.kernels] == [False, True]


@pytest.mark.parametrize("pack", ["host", "device"])
def test_fills_and_packing(pack: str) -> None:
    plan = make_plan(SUMS, SUMS.problem(rows=5, total=1000, pack=pack), GFX942)
    kinds = [type(step) for step in plan.steps]
    if pack == "host":
        assert kinds == [FillStep, PackStep, KernelStep]
        assert str(plan.steps[1]) == "pack table on the host from offsets"
    else:
        assert kinds == [FillStep, FillStep, KernelStep, KernelStep]
        assert plan.kernels[0].arrays == ("offsets", "table")
    assert str(plan.steps[0]) == "fill sums with 0, 20 bytes"
    assert str(plan.steps[-1]) == "kernel ragged_row_sums_256 on values, table, sums: 8x1x1 workgroups of 64x1x1"


class Outer(type(SUMS)):  # type: ignore[misc]  # the class of an operator is known by its instance
    """Runs ragged_row_sums twice, which has a workspace and a function on the host, and a kernel of its own between."""

    name = "outer"

    def workspaces(self, problem: Any, spec: Any, target: Any) -> tuple[Workspace, ...]:
        return (Workspace("ragged_row_sums.table", 64), Workspace("again", 4 * problem.tiles.rows))

    def steps(self, problem: Any, spec: Any, target: Any) -> tuple[Step, ...]:
        return (Run(SUMS, problem, {}), OWN_KERNEL, Run(SUMS, problem, {"sums": "again"}))

    def launch(self, problem: Any, spec: Any, target: Any) -> Launch:
        launch = super().launch(problem, spec, target)
        return replace(launch, arguments=("values", "again", "sums", *launch.arguments[3:]))


def test_operators_in_operators_keep_their_names_apart() -> None:
    """Workspaces of a nested operator get names of their own; what its function on the host sees keeps its names."""
    outer = Outer()
    plan = make_plan(outer, outer.problem(rows=4, total=100), GFX942)
    names = [workspace.name for workspace in plan.workspaces]
    assert names == ["ragged_row_sums.table", "again", "ragged_row_sums.table2", "ragged_row_sums.table3"]
    assert [step.arrays for step in plan.kernels] == [
        ("values", "ragged_row_sums.table2", "sums"),
        ("values", "again", "sums"),
        ("values", "ragged_row_sums.table3", "again"),
    ]
    fills = [(step.buffer, step.nbytes) for step in plan.steps if isinstance(step, FillStep)]
    assert fills == [("sums", 16), ("again", 16)]
    packs = [step for step in plan.steps if isinstance(step, PackStep)]
    assert [(one.workspace, [(spec.name, name) for spec, name in one.inputs]) for one in packs] == [
        ("ragged_row_sums.table2", [("offsets", "offsets")]),
        ("ragged_row_sums.table3", [("offsets", "offsets")]),
    ]
    assert [step.is_own for step in plan.kernels] == [False, True, False]


@pytest.mark.parametrize("step", [Fill("other", 0), PackOnHost("other", (), lambda arrays, packed: None)])
def test_steps_that_name_what_is_not_there(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(SUMS), "steps", lambda *_: (step, OWN_KERNEL))
    with pytest.raises(ValueError, match="ragged_row_sums: a step names other; there are values, offsets, sums, table"):
        make_plan(SUMS, SUMS.problem(), GFX942)


def test_a_byte_that_is_none() -> None:
    with pytest.raises(ValueError, match="sums cannot be filled with 256"):
        Fill("sums", 256)


def test_a_chip_that_cannot_run_a_nested_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    gemm = find_operator("gemm")
    problem = gemm.problem(m=64, n=64, k=64, dtype="fp8")
    monkeypatch.setattr(type(SUMS), "steps", lambda *_: (Run(gemm, problem, {}), OWN_KERNEL))
    with pytest.raises(RequestError, match=r"^ragged_row_sums on gfx90a: dtype=fp8: "):
        make_plan(SUMS, SUMS.problem(), get_target("gfx90a"))


@pytest.mark.parametrize(("name", "keys", "workgroups"), [
    ("batched_gemm", {"batch": (65537,), "m": 1, "n": 12, "k": 20}, "1x65537x1 workgroups of"),
    ("predict_blocks", {"b": 16385, "h": 152, "sq": 2}, "1x2490520x1 workgroups of"),  # a step's
    ("mhc_post", {"m": 2**30, "c": 2, "streams": 8}, "1073741824x1x1 workgroups of 64 work-items"),
])  # fmt: skip
def test_what_no_launch_takes_is_refused_before_anything_is_compiled(
    name: str, keys: dict[str, Any], workgroups: str
) -> None:
    operator = find_operator(name)
    with pytest.raises(RequestError, match=f"^{name} on gfx942: {workgroups}"):
        make_plan(operator, operator.problem(**keys), GFX942)


def test_inputs_that_agree_are_made_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def together(self: Any, problem: Any, generator: np.random.Generator) -> Mapping[str, np.ndarray]:
        return {"offsets": np.arange(problem.tiles.rows + 1)}

    monkeypatch.setattr(type(SUMS), "_together", together)
    problem = SUMS.problem(rows=5, total=1000)
    arrays = SUMS.inputs(problem, GFX942, 3)
    assert arrays["offsets"].dtype == np.int32 and arrays["offsets"].tolist() == [0, 1, 2, 3, 4, 5]
    monkeypatch.undo()
    np.testing.assert_array_equal(arrays["values"], SUMS.inputs(problem, GFX942, 3)["values"])
