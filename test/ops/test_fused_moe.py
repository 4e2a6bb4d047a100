"""Layers of experts: the reference against loops, numbers, routings of any kind, the steps and what they read."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from operator_runner import CHIPS

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.comparison import Array
from ckmlir.ops.moe.layer_problem import LISTS
from ckmlir.ops.packing import unpack_values
from ckmlir.ops.plan import FillStep, KernelStep, make_plan
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.scheduling.workbench import Workbench
from ckmlir.targets import get_target

FUSED, LAYER = find_operator("fused_moe"), find_operator("moe_layer")
GFX942 = get_target("gfx942")
REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("fused_moe", {"t": 17, "hidden": 72, "inter": 40}),
    ("fused_moe", {"t": 33, "hidden": 64, "inter": 96, "dtype": "bf16", "reduction": "atomic", "out": "f32"}),
    ("fused_moe", {"t": 9, "hidden": 66, "inter": 33, "dtype": "f32", "op": "gelu(acc)", "local": 3}),
    ("fused_moe", {"t": 40, "hidden": 128, "inter": 64, "e": 2, "unit": 64, "dtype": "bf16", "local": 1}),
    ("moe_layer", {"t": 3, "hidden": 80, "inter": 64, "e": 17, "topk": 5, "renormalize": 1}),
    ("moe_layer", {"t": 17, "hidden": 96, "inter": 65, "dtype": "bf16", "logits": "f32", "activation": "sigmoid"}),
    ("moe_layer", {"t": 1, "hidden": 64, "inter": 128, "shuffled": 16, "reduction": "atomic"}),
    ("fused_moe", {"t": 17, "hidden": 72, "inter": 40, "dtype": "i8", "local": 5, "out": "bf16"}),
    ("fused_moe", {"t": 5, "hidden": 64, "inter": 130, "dtype": "fp8", "op": "gelu(acc)", "shuffled": 16}),
    ("moe_layer", {"t": 20, "hidden": 80, "inter": 64, "dtype": "fp8", "reduction": "atomic", "out": "f32"}),
    ("fused_moe", {"t": 21, "hidden": 72, "inter": 40, "between": "lds", "op": "silu(gate) * up + 1 / (1 + up)"}),
    ("moe_layer", {"t": 33, "hidden": 264, "inter": 300, "e": 5, "dtype": "bf16", "unit": 64, "between": "lds"}),
    ("fused_moe", {"t": 9, "hidden": 66, "inter": 33, "dtype": "f32", "op": "gelu(acc)", "local": 3, "between": "lds"}),
    ("fused_moe", {"t": 90, "hidden": 128, "inter": 130, "e": 2, "topk": 3, "out": "f32", "between": "lds"}),
    ("fused_moe", {"t": 5, "hidden": 64, "inter": 130, "shuffled": 32}),
    ("fused_moe", {"t": 9, "hidden": 72, "inter": 40, "dtype": "i8", "local": 5, "out": "bf16", "bias": "bf16"}),
    ("fused_moe", {"t": 5, "hidden": 64, "inter": 130, "dtype": "fp8", "op": "gelu(acc)", "shuffled": 16,
                   "bias": "f32"}),
    ("moe_layer", {"t": 9, "hidden": 80, "inter": 97, "dtype": "fp8", "bias": "f16", "reduction": "atomic",
                   "out": "f32"}),
)  # fmt: skip
FEW = {("gfx942", 0), ("gfx950", 1), ("gfx90a", 2), ("gfx942", 4), ("gfx950", 6), ("gfx90a", 7), ("gfx942", 8),
       ("gfx90a", 10), ("gfx942", 11), ("gfx950", 12), ("gfx950", 14), ("gfx90a", 15)}  # fmt: skip
MXFP4: dict[str, Any] = {"dtype": "bf16", "b_dtype": "fp4"}
LIMITED = "minimum(gate, 7) * sigmoid(1.702 * minimum(gate, 7)) * (clamp(up, -7, 7) + 1)"
"""An activation with limits, as gpt-oss has it."""
CONVERTED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("moe_layer", {"t": 9, "hidden": 72, "inter": 40, **MXFP4, "dtype": "f16", "bias": "f32", "e": 5, "local": 3}),
    ("fused_moe", {"t": 17, "hidden": 96, "inter": 64, **MXFP4, "bias": "bf16", "op": LIMITED}),
    ("fused_moe", {"t": 9, "hidden": 66, "inter": 34, "b_dtype": "i4", "b_scale": "1x32", "op": "gelu(acc)",
                   "shuffled": 16, "reduction": "atomic", "out": "f32"}),
    ("fused_moe", {"t": 9, "hidden": 80, "inter": 130, "dtype": "bf16", "b_dtype": "u4", "b_scale": "128x128",
                   "reduction": "rounded", "op": "silu(acc)", "bias": "bf16"}),
    ("moe_layer", {"t": 70, "hidden": 128, "inter": 160, **MXFP4, "b_scale": "1x64", "e": 2, "unit": 64}),
    ("fused_moe", {"t": 9, "hidden": 65, "inter": 33, "bias": "f16", "reduction": "atomic", "out": "f32"}),
    ("fused_moe", {"t": 17, "hidden": 96, "inter": 64, **MXFP4, "bias": "bf16", "op": LIMITED, "between": "lds"}),
    ("fused_moe", {"t": 9, "hidden": 80, "inter": 300, "dtype": "bf16", "b_dtype": "u4", "b_scale": "128x128",
                   "op": "silu(acc)", "bias": "bf16", "between": "lds"}),
    ("moe_layer", {"t": 21, "hidden": 72, "inter": 140, "bias": "f32", "e": 5, "local": 3, "between": "lds"}),
    ("fused_moe", {"t": 70, "hidden": 264, "inter": 322, **MXFP4, "b_scale": "1x64", "e": 2, "unit": 64,
                   "bias": "f32", "between": "lds"}),
    ("fused_moe", {"t": 9, "hidden": 66, "inter": 34, "b_dtype": "i4", "b_scale": "1x32", "op": "gelu(acc)",
                   "out": "f32", "between": "lds"}),
    ("fused_moe", {"t": 0, "hidden": 66, "inter": 34, **MXFP4, "bias": "f32", "between": "lds"}),
    ("moe_layer", {"t": 9, "hidden": 136, "inter": 264, "b_dtype": "i4", "b_scale": "1x128", "scale": "f16"}),
    ("fused_moe", {"t": 9, "hidden": 136, "inter": 264, **MXFP4, "b_scale": "1x32", "scale": "f16", "between": "lds"}),
    ("moe_layer", {"t": 9, "hidden": 72, "inter": 40, "b_dtype": "u4", "b_scale": "1x32", "scale": "f16", "zeros": 1,
                   "bias": "f16"}),
)  # fmt: skip
"""Matrices of 4 bits, and biases."""
FEW_CONVERTED = {("gfx90a", 0), ("gfx950", 1), ("gfx942", 2), ("gfx942", 6), ("gfx950", 7), ("gfx90a", 8),
                 ("gfx942", 11), ("gfx90a", 12), ("gfx950", 13), ("gfx942", 14)}  # fmt: skip


PUBLISHED: tuple[dict[str, Any], ...] = (
    {"hidden": 448, "inter": 64, "e": 257, "topk": 9, "dtype": "bf16"},
    {"hidden": 128, "inter": 448, "e": 8, "topk": 2, "renormalize": 1},
)
"""aiter's layer of 257 experts, (7168, 256), with 448 channels and 64 between; Mixtral's, (4096, 14336), by 32."""


def run(name: str, chip: str, given: dict[str, Array] | None = None, **keys: Any) -> dict[str, Array]:
    """Run a request under all checkers, between guard bytes, and compare; with some arrays `given`."""
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(**keys)
    arrays = {**operator.inputs(problem, target, seed=3), **(given or {})}
    result = run_operator(operator, problem, arrays, target, open_device("sim", target, checks="all"), guarded=True)
    comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    return result.outputs


def by_loops(arrays: dict[str, Array], matrices: dict[int, int]) -> Array:
    """silu(x·gate) * (x·up) · down, token by token; `matrices` has where an expert's are."""
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    y = np.zeros_like(wide["x"])
    for token, slot in np.ndindex(arrays["topk_ids"].shape):
        at = matrices.get(int(arrays["topk_ids"][token, slot]))
        if at is not None:
            gate, up = wide["gate"][at] @ wide["x"][token], wide["up"][at] @ wide["x"][token]
            inter = (gate / (1 + np.exp(-gate)) * up).astype(np.float32).astype(np.float64)
            y[token] += wide["weights"][token, slot] * (wide["down"][at] @ inter)
    return y


@pytest.mark.parametrize("local", [None, 2])
def test_the_reference(local: int | None) -> None:
    """With ids that are no experts and, of local experts, one more behind the mask than there are matrices."""
    problem = FUSED.problem(t=6, e=5, topk=3, hidden=7, inter=4, dtype="f32", local=local)
    arrays = FUSED.inputs(problem, GFX942)
    arrays["topk_ids"] = np.random.default_rng(1).integers(-1, 7, (6, 3)).astype(np.int32)
    matrices = {expert: expert for expert in range(5)}
    if local:
        arrays["mask"] = np.array([0, 1, 0, 7, 1], np.int32)
        matrices = {1: 0, 3: 1}
    found = FUSED.reference(problem, arrays)["y"]
    np.testing.assert_allclose(found, by_loops(arrays, matrices), rtol=1e-6, atol=1e-6)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("chip", "number"), [
    pytest.param(chip, number, marks=[] if (chip, number) in FEW else [pytest.mark.full])
    for chip, number in itertools.product(CHIPS, range(len(REQUESTS)))
    if chip != "gfx90a" or REQUESTS[number][1].get("dtype") != "fp8"
])  # fmt: skip
def test_layers(chip: str, number: int) -> None:
    """Types, activations, local experts, preshuffled matrices, both ways to sum, under all checkers and guarded."""
    name, keys = REQUESTS[number]
    run(name, chip, **keys)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("chip", "number"), [
    pytest.param(chip, number, marks=[] if (chip, number) in FEW_CONVERTED else [pytest.mark.full])
    for chip, number in itertools.product(CHIPS, range(len(CONVERTED)))
])  # fmt: skip
def test_layers_of_converted_matrices(chip: str, number: int) -> None:
    """Types, groups, biases, an activation with limits, one matrix, local experts, fragment order, ways to sum."""
    name, keys = CONVERTED[number]
    run(name, chip, **keys)


@pytest.mark.parametrize("bias", [None, "bf16"])
def test_the_reference_in_eight_bits(bias: str | None) -> None:
    """Against loops: scales of tokens, rows of matrices, columns of an expert, and of each entry's row; and biases."""
    problem = FUSED.problem(t=6, e=3, topk=2, hidden=9, inter=5, dtype="fp8", out="f32", bias=bias)
    arrays = FUSED.inputs(problem, get_target("gfx950"))
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    y = np.zeros((6, 9))
    for token, slot in np.ndindex(6, 2):
        expert = int(arrays["topk_ids"][token, slot])
        sums = {name: wide[name][expert] @ wide["x"][token] * wide["x_scale"][token] for name in ("gate", "up")}
        added = {name: wide[f"{name}_bias"][expert] if bias else 0.0 for name in ("gate", "up", "down")}
        gate, up = (sums[name] * wide[f"{name}_scale"][expert] + added[name] for name in ("gate", "up"))
        inter = (gate / (1 + np.exp(-gate)) * up * wide["smooth"][expert]).astype(np.float32).astype(np.float64)
        scale = np.abs(inter).max() / 448
        sum_ = wide["down"][expert] @ (inter / scale).astype(arrays["x"].dtype).astype(np.float64) * scale
        y[token] += wide["weights"][token, slot] * (sum_ * wide["down_scale"][expert] + added["down"])
    np.testing.assert_allclose(FUSED.reference(problem, arrays)["y"], y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("keys", [
    {**MXFP4, "bias": "bf16"}, {"dtype": "bf16", "b_dtype": "i4", "b_scale": "1x64", "op": "silu(acc)"},
    {"dtype": "bf16", "bias": "f32"},
], ids=str)  # fmt: skip
def test_the_reference_with_scales_of_groups_and_biases(keys: dict[str, Any]) -> None:
    """Against loops: groups along rows of gate, up and down, and what is added before the activation and the weight."""
    problem = FUSED.problem(t=6, e=3, topk=2, hidden=70, inter=36, out="f32", **keys)
    arrays = FUSED.inputs(problem, get_target("gfx950"))
    wide = {name: array.astype(np.float64) for name, array in arrays.items() if name != "topk_ids"}
    gated = "op" not in keys
    for name in ("gate", "up", "down") if gated else ("gate", "down"):
        if "b_dtype" in keys:
            codes, group = unpack_values(arrays[name], keys["b_dtype"]), 32 if gated else 64
            own = codes * np.repeat(wide[f"{name}_scale"], group, axis=2)[..., : codes.shape[2]]
            wide[name] = own.astype(ml_dtypes.bfloat16).astype(np.float64)
    y = np.zeros((6, 70))
    for token, slot in np.ndindex(6, 2):
        expert = int(arrays["topk_ids"][token, slot])
        bias = {name: wide[f"{name}_bias"][expert] if "bias" in keys else 0.0 for name in ("gate", "up", "down")}
        gate = wide["gate"][expert] @ wide["x"][token] + bias["gate"]
        h = gate / (1 + np.exp(-gate)) * (wide["up"][expert] @ wide["x"][token] + bias["up"] if gated else 1)
        h = h.astype(ml_dtypes.bfloat16).astype(np.float64)
        y[token] += wide["weights"][token, slot] * (wide["down"][expert] @ h + bias["down"])
    np.testing.assert_allclose(FUSED.reference(problem, arrays)["y"], y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("tokens", "choice"), [
    pytest.param(tokens, choice, marks=[] if (tokens, choice) == (3, "anything") else [pytest.mark.full])
    for tokens, choice in itertools.product((1, 3, 17, 70), ("one", "anything", "none"))
])  # fmt: skip
def test_any_routing(tokens: int, choice: str) -> None:
    """All tokens to one expert, ids of no expert and repeated ones, none at all."""
    random = np.random.default_rng(tokens)
    ids = {
        "one": np.full((tokens, 3), 4),
        "anything": random.choice([-(2**31), -1, 0, 2, 2, 6, 2**31 - 1], (tokens, 3)),
        "none": np.full((tokens, 3), -1),
    }[choice].astype(np.int32)
    keys = {"t": tokens, "e": 6, "topk": 3, "hidden": 64, "inter": 48, "unit": 16, "out": "f32"}
    for between in ("memory", "lds"):
        found = run("fused_moe", CHIPS[tokens % 3], {"topk_ids": ids}, **keys, between=between)
        assert choice != "none" or not found["y"].any()


@pytest.mark.full
@pytest.mark.parametrize(("place", "tokens"), list(enumerate((1, 3, 5, 16, 32, 64, 128, 256, 1024))))
@pytest.mark.parametrize("layer", range(len(PUBLISHED)))
def test_published_layers(layer: int, place: int, tokens: int) -> None:
    run("moe_layer", CHIPS[(place + layer) % 3], t=tokens, **PUBLISHED[layer])


def test_nothing_is_read_back() -> None:
    """Fills and kernels alone, whose grids follow from the request."""
    plan = make_plan(LAYER, LAYER.problem(t=64), GFX942)
    assert all(isinstance(step, (FillStep, KernelStep)) for step in plan.steps)
    names = [step.operator.name for step in plan.kernels]
    assert names == ["topk_softmax", "moe_sorting", "moe_layer", "moe_gemm", "embedding_bag"]
    assert [step.is_own for step in plan.kernels] == [False, False, True, False, False]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keys", [{"dtype": "f16"}, {"dtype": "i8"}], ids=str)
def test_no_zeros_where_entries_may_be_left_out(keys: dict[str, Any]) -> None:
    """What follows products reads what they have written, and nothing else. What finds the routing itself gives each
    slot an expert, whatever the logits are.
    """
    for operator, local in itertools.product((FUSED, LAYER), (None, 2)):
        plan = make_plan(operator, operator.problem(**keys, local=local), GFX942)
        assert all(isinstance(step, KernelStep) for step in plan.steps)
    given = {"t": 5, "e": 6, "topk": 3, "hidden": 67, "inter": 40, **keys}
    logits = np.full((5, 6), np.nan, np.float32)
    logits[1:3] = [[-np.inf] * 6, [np.inf, np.nan, 1, np.inf, -np.inf, np.nan]]
    run("moe_layer", "gfx942", {"logits": logits}, **given, logits="f32")


@pytest.mark.full
@pytest.mark.parametrize("keys", [{"reduction": "rounded"}, {"dtype": "i8"}, {"between": "lds"}], ids=str)
def test_a_mask_that_names_more_experts_than_have_matrices(keys: dict[str, Any]) -> None:
    """Those behind the last count as none: their entries are neither written nor read."""
    ids = np.arange(21, dtype=np.int32).reshape(7, 3) % 6
    mask = np.array([0, 1, 1, 0, 1, 1], np.int32)
    given = {"t": 7, "e": 6, "topk": 3, "hidden": 64, "inter": 48, "unit": 16, "local": 2, **keys}
    y = run("fused_moe", "gfx950", {"topk_ids": ids, "mask": mask}, **given)["y"]
    fewer = run("fused_moe", "gfx950", {"topk_ids": ids, "mask": mask * (np.arange(6) < 3)}, **given)["y"]
    assert keys == {"between": "lds"} or (y == fewer).all()  # there memory adds in no fixed order


def test_sums_behind_the_last_token_read_nothing() -> None:
    """Row 0 of the entries is one that no expert here makes, and is undefined; gfx950 rounds two sums at once."""
    logits, mask = np.array([[1, 0, 2], [2, 0, 1]], np.float32), np.array([0, 1, 0], np.int32)
    given = {"t": 2, "e": 3, "topk": 3, "hidden": 1, "inter": 31, "unit": 16, "local": 3, "dtype": "f32", "out": "bf16"}
    run("moe_layer", "gfx950", {"logits": logits, "mask": mask}, **given)


def test_one_kernel_for_both_products() -> None:
    """What is between them is in no workspace; sums are, where y is not of their type."""
    plan = make_plan(FUSED, FUSED.problem(t=64, between="lds"), GFX942)
    assert [step.operator.name for step in plan.kernels] == ["moe_sorting", "fused_moe", "sum_parts"]
    assert {space.name for space in plan.workspaces} == {*LISTS, "sums"} - {"entry_ids"}
    plan = make_plan(FUSED, FUSED.problem(t=64, between="lds", out="f32"), GFX942)
    assert [step.operator.name for step in plan.kernels] == ["moe_sorting", "fused_moe"]
    assert {space.name for space in plan.workspaces} == set(LISTS) - {"entry_ids"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "unit"), [
    pytest.param(chip, unit, marks=[] if unit == 16 else [pytest.mark.full])
    for chip, unit in itertools.product(CHIPS, (16, 32, 64, 128))
])  # fmt: skip
def test_one_kernel_for_both_products_of_converted_matrices(chip: str, unit: int) -> None:
    """Its loops are proved, and it spills nothing, with limits and biases."""
    target = get_target(chip)
    keys = {"t": 64, "hidden": 512, "inter": 512, "unit": unit, "bias": "bf16", "op": LIMITED, "between": "lds"}
    spec = FUSED.spec(FUSED.problem(**MXFP4, **keys), target)
    bench = Workbench.of(FUSED, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()
    found = compile_kernel(FUSED, spec, target).code_object.kernel().metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count) == (0, 0), spec.name


@pytest.mark.parametrize("keys", [{}, {"between": "lds", "reduction": "atomic", "hidden": 17, "out": "f16"}], ids=str)
def test_nothing_between_the_products(keys: dict[str, Any]) -> None:
    """With inter=0 the layer gives zeros, but NaN where a weight is NaN; also where one kernel would add in f32."""
    weights = np.ones((3, 2), np.float32)
    weights[1, 0] = np.nan
    found = run("fused_moe", "gfx942", {"weights": weights}, **{"t": 3, "hidden": 64, "inter": 0, **keys})["y"]
    np.testing.assert_array_equal(np.isnan(found).all(axis=1), [False, True, False])


def test_units_follow_the_rows_of_an_expert() -> None:
    for entries, unit in ((8, 16), (17 * 8, 32), (33 * 8, 64), (500 * 8, 128)):
        assert FUSED.problem(t=entries, topk=1, e=8).first.unit == unit
        assert FUSED.problem(t=entries, topk=1, e=8, shuffled=32).first.unit == max(unit, 32)


HIGH = {"t": 161, "e": 1, "topk": 1, "hidden": 384 * 128, "inter": 72}
"""Two units of 160, so 384 blocks of down: three for two of gfx950's compute units. Rows between the products begin
within cache lines, so that the matrices go through LDS."""
PAST = {"t": 161, "e": 1, "topk": 1, "hidden": 256, "inter": 128}
"""Two units of 96, whose matrices go past LDS."""


@pytest.mark.parametrize(
    ("chip", "keys", "unit"),
    [
        ("gfx950", {}, 160),
        ("gfx950", {"reduction": "atomic", "out": "f32"}, 160),
        ("gfx942", {}, 128),
        ("gfx90a", {}, 128),
        ("gfx950", {"unit": 128}, 128),
        ("gfx950", {"hidden": 383 * 128}, 160),
        ("gfx950", {"hidden": 382 * 128}, 128),
        ("gfx950", {"inter": 32}, 128),
        ("gfx950", {"dtype": "f32"}, 128),
        ("gfx950", {"dtype": "fp8"}, 128),
        ("gfx950", {"shuffled": 16}, 128),
        ("gfx950", {"between": "lds"}, 128),
        ("gfx950", PAST, 96),
        ("gfx950", {**PAST, "dtype": "fp8"}, 96),
        ("gfx950", {**PAST, "reduction": "atomic", "out": "f32"}, 96),
        ("gfx950", {**PAST, "op": "silu(acc)"}, 96),
        ("gfx950", {**PAST, "unit": 128}, 128),
        ("gfx950", {**PAST, "hidden": 200}, 128),
        ("gfx950", {**PAST, "inter": 32}, 128),
        ("gfx950", {**PAST, "dtype": "f32"}, 128),
        ("gfx950", {**PAST, "shuffled": 16}, 128),
        ("gfx950", {**PAST, "between": "lds"}, 128),
        ("gfx942", PAST, 128),
    ],
    ids=str,
)
def test_units_of_a_chip(chip: str, keys: dict[str, Any], unit: int) -> None:
    """Of a layer that names none: where matrices go past LDS, and where a chip copies whole vectors to LDS, for as many
    blocks as it needs."""
    problem, target = FUSED.problem(**{**HIGH, **keys}), get_target(chip)
    spec = FUSED.spec(problem, target)
    assert not FUSED.mismatches(problem, spec, target)
    assert unit % spec.block[0] == 0
    assert (spec.block[0] == unit) >= (unit in (96, 160))
    sizes = {one.name: one.nbytes for one in FUSED.workspaces(problem, spec, target)}
    assert sizes["sorted_ids"] == 4 * 2 * unit


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keys", [{**HIGH, "dtype": "bf16"}, PAST, {**PAST, "dtype": "fp8"}], ids=str)
def test_layers_in_units_of_a_chip(keys: dict[str, Any]) -> None:
    run("fused_moe", "gfx950", **keys)


@pytest.mark.parametrize(
    ("name", "keys", "words"),
    [
        ("fused_moe", {"unit": 24}, "unit=24: "),
        ("fused_moe", {"op": "acc + up", "bias": "f32", "dtype": "i8"}, "op=acc + up: it names acc and gate or up"),
        ("fused_moe", {"topk": 200}, "expected at most 127"),
        ("fused_moe", {"e": 5000}, "e=5000: expected at most 4096 experts"),
        ("fused_moe", {"local": 9}, "local=9: there are e=8 experts; expected at most that"),
        ("fused_moe", {"between": "lds", "dtype": "fp8"}, "expected f16|bf16|f32, or between=memory"),
        ("fused_moe", {"between": "lds", "shuffled": 16}, "between=lds takes plain matrices"),
        ("fused_moe", {"between": "lds", "b_dtype": "i4", "b_scale": "1x32", "zeros": 1}, "between=lds takes no zero"),
        ("fused_moe", {"zeros": 1}, "zeros: of integers of 4 bits, not of f16; expected b_dtype=i4, or u4"),
        ("moe_layer", {"between": "lds", "reduction": "workspace"}, "with between=lds memory adds the sums"),
        ("fused_moe", {**MXFP4, "dtype": "f32"}, "dtype=f32: expected fp8|bf8|fp4|fp6|bf6 with a_scale=mx, or f16"),
        ("moe_layer", {**MXFP4, "inter": 33}, "inter=33: rows of array down are whole bytes, which 2 elements of fp4"),
        ("fused_moe", {"b_scale": "mx"}, "b_scale=mx: of matrices of 4 bits; expected b_dtype="),
        ("fused_moe", {"b_dtype": "i4"}, "b_dtype=i4 has scales of groups that are numbers; expected 1x32"),
        ("moe_layer", {"e": 4, "topk": 5}, "moe_layer: topk=5: there are e=4 experts; expected at most that"),
        ("fused_moe", {"t": 2**23, "hidden": 1024}, "kernels address at most 2147483647"),
    ],
)
def test_requests_that_do_not_fit(name: str, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as refused:
        find_operator(name).problem(**keys)
    assert words in str(refused.value) and str(refused.value).startswith(f"{name}: ")
