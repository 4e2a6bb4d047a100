"""Layers of experts whose rows and matrices have scales of groups: against loops, routings, steps, refusals."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from operator_runner import CHIPS
from test_fused_moe import FUSED, GFX942, LIMITED, run
from test_moe_gemm_scales import able, decoded

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.plan import KernelStep, make_plan
from ckmlir.ops.request import RequestError
from ckmlir.scheduling.workbench import Workbench
from ckmlir.targets import get_target

MX = {"a_scale": "mx", "b_scale": "mx"}
REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("fused_moe", {"t": 17, "hidden": 96, "inter": 64, "dtype": "fp4", "bias": "bf16", "op": LIMITED}),
    ("moe_layer", {"t": 9, "hidden": 72, "inter": 40, "dtype": "fp6", "e": 5, "local": 3, "out": "bf16"}),
    ("fused_moe", {"t": 17, "hidden": 64, "inter": 130, "dtype": "fp8", **MX, "local": 5, "bias": "f32"}),
    ("fused_moe", {"t": 9, "hidden": 160, "inter": 200, "dtype": "fp8", "a_scale": "1x128", "b_scale": "128x128"}),
    ("moe_layer", {"t": 20, "hidden": 80, "inter": 72, "dtype": "fp8", "b_dtype": "fp4", **MX, "reduction": "atomic",
                   "out": "f32"}),
    ("fused_moe", {"t": 9, "hidden": 70, "inter": 90, "dtype": "bf8", **MX, "op": "gelu(acc)", "local": 3}),
    ("fused_moe", {"t": 17, "hidden": 72, "inter": 40, "dtype": "bf8", "bias": "f16", "local": 5}),
    ("fused_moe", {"t": 9, "hidden": 96, "inter": 136, "dtype": "i8", "a_scale": "1x64", "b_scale": "1x32"}),
    ("fused_moe", {"t": 9, "hidden": 96, "inter": 136, "dtype": "fp8", "b_dtype": "i4", "a_scale": "1x128",
                   "b_scale": "1x64", "reduction": "rounded"}),
    ("moe_layer", {"t": 5, "hidden": 64, "inter": 128, "dtype": "fp4", "shuffled": 16}),
    ("moe_layer", {"t": 70, "hidden": 128, "inter": 160, "dtype": "bf6", "e": 2, "unit": 64}),
    ("fused_moe", {"t": 9, "hidden": 65, "inter": 33, "dtype": "bf8", "b_dtype": "fp8"}),
    ("fused_moe", {"t": 0, "hidden": 64, "inter": 32, "dtype": "fp4"}),
    ("fused_moe", {"t": 3, "hidden": 64, "inter": 0, "dtype": "fp4"}),
    ("moe_layer", {"t": 3, "hidden": 0, "inter": 32, "dtype": "fp8", **MX}),
    ("fused_moe", {"t": 9, "hidden": 96, "inter": 136, "dtype": "i8", "b_dtype": "i4", "a_scale": "1x64",
                   "b_scale": "1x64", "zeros": 1}),
)  # fmt: skip
FEW = {("gfx950", 0), ("gfx90a", 1), ("gfx942", 2), ("gfx942", 6), ("gfx950", 12), ("gfx90a", 13), ("gfx942", 14),
       ("gfx950", 15)}


@pytest.mark.one_in(7)
@pytest.mark.parametrize(("chip", "number"), [
    pytest.param(chip, number, marks=[] if (chip, number) in FEW else [pytest.mark.full])
    for chip, number in itertools.product(CHIPS, range(len(REQUESTS)))
    if able(chip, REQUESTS[number][1])
])  # fmt: skip
def test_layers(chip: str, number: int) -> None:
    """Types, scales, biases, one matrix, local experts, fragment order, ways to sum, under all checkers and guarded."""
    name, keys = REQUESTS[number]
    run(name, chip, **keys)


def quantised(h: Any, keys: dict[str, Any]) -> Any:
    """A row as groups of its type times their scales, in float64."""
    length = 32 if keys["a_scale"] == "mx" else 64
    most, kind = {"fp4": (6, ml_dtypes.float4_e2m1fn), "fp8": (448, ml_dtypes.float8_e4m3fn)}[keys["dtype"]]
    found = np.zeros_like(h)
    for begin in range(0, len(h), length):
        group = h[begin : begin + length]
        scale = np.abs(group).max() / most
        if length == 32:
            scale = 2.0 ** (np.floor(np.log2(np.abs(group).max())) - np.floor(np.log2(most)))
        found[begin : begin + length] = np.clip(group / scale, -most, most).astype(kind).astype(np.float64) * scale
    return found


@pytest.mark.parametrize("keys", [
    {"dtype": "fp4", **MX, "bias": "bf16"}, {"dtype": "fp8", "b_dtype": "fp4", **MX},
    {"dtype": "fp8", "a_scale": "1x64", "b_scale": "1x64"},
], ids=str)  # fmt: skip
def test_the_reference(keys: dict[str, Any]) -> None:
    """Against loops: groups along rows of x and the matrices, biases, rows between that are quantised by groups."""
    problem = FUSED.problem(t=6, e=3, topk=2, hidden=70, inter=98, out="f32", **keys)
    arrays = FUSED.inputs(problem, get_target("gfx950"))
    group, of_b = 32 if keys["a_scale"] == "mx" else 64, keys.get("b_dtype", keys["dtype"])
    wide = {}
    for name in ("x", "gate", "up", "down"):
        own = decoded(arrays[name], keys["dtype"] if name == "x" else of_b)
        scales = np.repeat(arrays[f"{name}_scale"].astype(np.float64), group, axis=-1)
        wide[name] = own * scales[..., : own.shape[-1]]
    y = np.zeros((6, 70))
    for token, slot in np.ndindex(6, 2):
        expert = int(arrays["topk_ids"][token, slot])
        bias = {
            name: arrays[f"{name}_bias"][expert].astype(np.float64) if "bias" in keys else 0.0
            for name in ("gate", "up", "down")
        }
        gate = wide["gate"][expert] @ wide["x"][token] + bias["gate"]
        h = gate / (1 + np.exp(-gate)) * (wide["up"][expert] @ wide["x"][token] + bias["up"])
        sums = wide["down"][expert] @ quantised(h, keys) + bias["down"]
        y[token] += arrays["weights"].astype(np.float64)[token, slot] * sums
    np.testing.assert_allclose(FUSED.reference(problem, arrays)["y"], y, rtol=1e-5, atol=1e-6)


FIRST = ("gfx950", "anything", 3)


@pytest.mark.parametrize(("chip", "choice", "keys"), [
    pytest.param(chip, choice, keys, marks=[] if (chip, choice, len(keys)) == FIRST else [pytest.mark.full])
    for chip, choice in itertools.product(("gfx942", "gfx950"), ("one", "anything", "none"))
    for keys in ({"dtype": "fp4"}, {"dtype": "fp8", "a_scale": "1x128", "b_scale": "1x128"})
])  # fmt: skip
def test_any_routing(chip: str, choice: str, keys: dict[str, Any]) -> None:
    """All tokens to one expert, ids of no expert and repeated ones, none at all: rows that nothing wrote are not read.
    """
    ids = {
        "one": np.full((19, 3), 4),
        "anything": np.random.default_rng(1).choice([-(2**31), -1, 0, 2, 2, 6, 2**31 - 1], (19, 3)),
        "none": np.full((19, 3), -1),
    }[choice].astype(np.int32)
    given = {"t": 19, "e": 6, "topk": 3, "hidden": 64, "inter": 48, "unit": 16, "out": "f32", **keys}
    found = run("fused_moe", chip, {"topk_ids": ids}, **given)
    assert choice != "none" or not found["y"].any()


def test_steps() -> None:
    """Rows between the products are quantised by a step, which a front that gives each slot an expert tells no ids."""
    for name, asks in (("fused_moe", True), ("moe_layer", False)):
        operator = find_operator(name)
        plan = make_plan(operator, operator.problem(dtype="fp8", **MX), GFX942)
        assert all(isinstance(step, KernelStep) for step in plan.steps)
        step = next(step for step in plan.kernels if step.operator.name == "quantize_blocks")
        assert step.problem.row_ids == asks
        assert [space.name for space in plan.workspaces if space.name.startswith("quantised")] == [
            "quantised", "quantised_scale",
        ]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "unit", "keys"), [
    pytest.param(chip, unit, keys, marks=[] if (unit, keys["dtype"]) == (16, "fp4") else [pytest.mark.full])
    for chip, unit in itertools.product(CHIPS, (16, 64, 128))
    for keys in (
        {"dtype": "fp4"}, {"dtype": "fp8", **MX}, {"dtype": "fp8", "b_dtype": "fp4", **MX}, {"dtype": "bf8"},
        {"dtype": "fp8", "a_scale": "1x128", "b_scale": "128x128"},
    )
    if able(chip, keys)
])  # fmt: skip
def test_products_are_proved_and_spill_nothing(chip: str, unit: int, keys: dict[str, Any]) -> None:
    """Both, with limits and biases."""
    target = get_target(chip)
    problem = FUSED.problem(t=64, hidden=512, inter=512, unit=unit, bias="bf16", op=LIMITED, **keys)
    for step in make_plan(FUSED, problem, target).kernels:
        if step.is_own or step.operator.name == "moe_gemm":
            bench = Workbench.of(step.operator, step.spec, target)
            assert bench.compile(bench.schedule, code=False).findings == ()
            found = compile_kernel(step.operator, step.spec, target).code_object.kernel().metadata
            assert (found.vgpr_spill_count, found.sgpr_spill_count) == (0, 0), step.spec.name


@pytest.mark.parametrize(
    ("name", "keys", "words"),
    [
        ("fused_moe", {"dtype": "fp8", "a_scale": "mx"}, "b_scale: A and B have scales, or none has"),
        ("fused_moe", {"dtype": "fp8", "a_scale": "mx", "b_scale": "1x32"}, "powers of two are of both or none"),
        ("moe_layer", {"dtype": "fp4", "a_scale": "1x32", "b_scale": "1x32"}, "dtype=fp4: expected fp8|bf8|i8 with"),
        ("fused_moe", {"dtype": "fp6", "inter": 66}, "inter=66: rows of array inter are whole bytes"),
        ("fused_moe", {"dtype": "fp6", "hidden": 66}, "hidden=66: rows of array x are whole bytes"),
        ("moe_layer", {"dtype": "i8", **MX}, "dtype=i8: expected fp8|bf8|fp4"),
        ("fused_moe", {"dtype": "fp6", "shuffled": 16}, "shuffled: a lane's 16 bytes in fragment order hold some"),
        ("fused_moe", {"dtype": "fp4", "between": "lds"}, "dtype=fp4: rows between the products are quantised"),
    ],
)
def test_requests_that_do_not_fit(name: str, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as refused:
        find_operator(name).problem(**keys)
    assert words in str(refused.value) and str(refused.value).startswith(f"{name}: ")
    assert "expected" in str(refused.value)
