"""Gradients of attention on the simulator: masks, grouped heads, layouts, sizes at the ends, determinism."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from launch_orders import in_any_order
from operator_runner import CHIPS

from ckmlir.ops import find_operator
from ckmlir.ops.attention.backward.reference import gradients
from ckmlir.ops.attention.reference import attention
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.runtime import check_outputs, open_device, run_operator
from ckmlir.runtime.executable import Executable
from ckmlir.targets import get_target

FMHA = find_operator("fmha_bwd")


def differentiate(chip: str, keys: dict[str, Any], *, checks: str = "all", factor: float = 1.0, seed: int = 11) -> Any:
    """Run a request and compare; with a factor, V and dO (and so O) are multiplied. The problem, inputs, outputs.

    Rows of no sequence alone are not compared.
    """
    target = get_target(chip)
    problem = FMHA.problem(**keys)
    arrays = FMHA.inputs(problem, target, seed=7)
    for name in ("v", "o", "do"):
        arrays[name] = (arrays[name].astype(np.float32) * factor).astype(arrays[name].dtype)
    result = run_operator(FMHA, problem, arrays, target, open_device("sim", target, seed=seed, checks=checks))
    comparisons = check_outputs(FMHA, problem, arrays, result.outputs, target)
    more = [name for name, key in (("dbias", "dbias"), ("dsink", "sink")) if keys.get(key)]
    assert [one.name for one in comparisons] == ["dq", "dk", "dv", *more]
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    for one in comparisons[:3]:
        rows = problem.attention.queries if one.name == "dq" else problem.attention.keys
        whole = problem.attention
        unused = whole.array_batches * rows.total - sum(rows.of(arrays, one)[1] for one in range(whole.b))
        heads, _, channels = problem.sizes(one.name)
        assert one.unspecified == unused * heads * channels
    assert not any(one.unspecified for one in comparisons[3:])
    return problem, arrays, result.outputs


def launches(chip: str, keys: dict[str, Any], count: int = 20) -> list[dict[str, Any]]:
    """Gradients by each of several launches of one executable, whose workgroups and waves run in orders of their own;
    those of the first are right."""
    target, problem = get_target(chip), FMHA.problem(**keys)
    arrays = FMHA.inputs(problem, target, seed=7)
    executable = Executable(open_device("sim", target, seed=3), FMHA, problem)
    outputs = [one for one in FMHA.arrays(problem) if one.role == "out"]
    runs = []
    with in_any_order(seed=5):
        for _ in range(count):
            runs.append({one.name: np.zeros(one.shape, numpy_dtype(one.dtype, target)) for one in outputs})
            executable(**arrays, **runs[-1])
    executable.close()
    comparisons = check_outputs(FMHA, problem, arrays, runs[0], target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    return runs


def assert_same_bits(runs: list[dict[str, Any]]) -> None:
    """Of every array in all runs."""
    for other in runs[1:]:
        for name, array in runs[0].items():
            assert array.tobytes() == other[name].tobytes(), name


GROUP = {"mode": "group", "seqlens_q": (70, 0, 3, 40), "seqlens_k": (40, 5, 0, 135)}
PADDED = {**GROUP, "slots_q": (80, 0, 3, 41), "slots_k": (48, 5, 9, 136)}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("gfx942", {"sq": 72, "sk": 200, "d": 128, "h": 4, "hk": 2, "mask": "top_left", "layout": "bshd"}),
    ("gfx942", {**GROUP, "d": 32, "h": 2, "mask": "bottom_right", "deterministic": 1}),
    ("gfx950", {"sq": 40, "sk": 70, "d": 256, "h": 1, "deterministic": 1}),
    ("gfx950", {**PADDED, "d": 32, "h": 2, "hk": 1, "alibi": "head", "sink": 1}),
    ("gfx90a", {"sq": 33, "sk": 150, "d": 40, "dv": 72, "h": 1, "dtype": "bf16"}),
    ("gfx942", {"sq": 40, "sk": 150, "d": 64, "h": 2, "hk": 1, "dtype": "f32", "mask": "top_left"}),
    ("gfx90a", {"sq": 70, "sk": 133, "d": 32, "h": 2, "bias": "batch", "dbias": 1, "b": 2,
                "mask": "window:10,3,40"}),
    ("gfx950", {"sq": 37, "sk": 71, "d": 32, "h": 3, "bias": "sequence", "dbias": 1, "b": 2, "mask": "top_left"}),
    ("gfx950", {**GROUP, "d": 64, "h": 2, "hk": 1, "dropout": 0.3, "seeds": "memory", "mask": "top_left"}),
    ("gfx942", {"sq": 37, "sk": 71, "d": 32, "h": 2, "b": 2, "dropout": 0.3, "bias": "one", "dbias": 1,
                "layout": "bshd"}),
    ("gfx90a", {"sq": 20, "sk": 70, "d": 32, "dv": 256, "h": 1, "b": 2, "dropout": 0.6, "deterministic": 1}),
]
MORE: list[tuple[str, dict[str, Any]]] = [
    ("gfx942", {"sq": 33, "sk": 140, "d": 96, "dv": 64, "dtype": "bf16", "h": 1}),
    ("gfx950", {"sq": 65, "sk": 130, "d": 32, "mask": "window:20,5", "dtype": "bf16", "b": 2}),
    ("gfx950", {"sq": 130, "sk": 65, "d": 64, "h": 1, "mask": "bottom_right", "deterministic": 1}),
    ("gfx90a", {"sq": 100, "sk": 70, "d": 64, "h": 2, "hk": 1, "mask": "bottom_right"}),
    ("gfx90a", {"sq": 70, "sk": 140, "d": 32, "h": 3, "alibi": "head", "mask": "bottom_right"}),
    ("gfx90a", {"sq": 33, "sk": 70, "d": 256, "dv": 128, "h": 1, "dtype": "f32", "bias": "one", "dbias": 1}),
    ("gfx950", {**PADDED, "d": 100, "dv": 36, "h": 1, "dtype": "f32", "deterministic": 1, "sink": 1}),
    ("gfx950", {"sq": 33, "sk": 70, "d": 4, "dv": 256, "h": 1, "dtype": "f32", "dropout": 0.3}),
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("chip", "keys"), [*CASES, *(pytest.param(*case, marks=pytest.mark.full) for case in MORE)])
def test_gradients(chip: str, keys: dict[str, Any]) -> None:
    """Every mask, layout and sink, grouped heads, d and dv apart, under all checkers."""
    differentiate(chip, keys)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("chip", ["gfx942"])
@pytest.mark.parametrize(("sq", "sk"), [(0, 40), (40, 0), (1, 1)])
def test_sizes_at_the_ends(chip: str, sq: int, sk: int) -> None:
    """Without queries dK and dV are zeros, without keys dQ is; one of each works."""
    _, _, outputs = differentiate(chip, {"sq": sq, "sk": sk, "d": 32, "h": 2, "hk": 1, "sink": 1})
    assert all(not array.any() for array in outputs.values()) == (sq * sk == 0)


@pytest.mark.full
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("dtype", "d"), [
    *itertools.product(("f16", "bf16"), (32, 64, 96, 128, 256)), *(("f32", d) for d in (32, 64, 96, 128)),
])  # fmt: skip
def test_every_mask_and_length(chip: str, dtype: str, d: int) -> None:
    """Lengths around the blocks, far more queries than keys and far more keys than queries, with every mask."""
    masks = ("none", "top_left", "bottom_right", "window:20,5", "window_bottom_right:0,-1")
    lengths = ((1, 64), (2, 130), (63, 65), (113, 203), (300, 33), (33, 300))
    for number, (mask, (sq, sk)) in enumerate(itertools.product(masks, lengths)):
        keys = {"sq": sq, "sk": sk, "d": d, "dtype": dtype, "mask": mask, "deterministic": number % 2}
        differentiate(chip, {**keys, "h": 2, "hk": 1 + number % 2, "layout": ("bhsd", "bshd")[number // 2 % 2]})


@pytest.mark.full
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("ratio", [1, 2, 3, 8])
@pytest.mark.parametrize(("d", "dv"), [(64, 64), (32, 128), (128, 64), (8, 256)])
def test_heads(chip: str, ratio: int, d: int, dv: int) -> None:
    """Heads that share keys, and values of other widths than keys."""
    for hk, mask in ((1, "none"), (2, "top_left")):
        differentiate(chip, {"b": 2, "h": ratio * hk, "hk": hk, "sq": 66, "sk": 131, "d": d, "dv": dv, "mask": mask})


@pytest.mark.full
@pytest.mark.parametrize("bias", ["one", pytest.param("head", marks=pytest.mark.full)])
def test_a_bias_that_heads_share(bias: str) -> None:
    """Its gradient has the same bits in any order of workgroups, and is zero where nothing attends."""
    keys = {**PADDED, "d": 32, "h": 2, "mask": "top_left", "bias": bias, "bias_stride": 140, "dbias": 1}
    problem, arrays, outputs = differentiate("gfx942", keys, checks="", seed=0)
    whole = problem.attention
    start, queries = whole.queries.of(arrays, 3)
    assert not outputs["dbias"][..., start + queries :, :].any()  # rows of no sequence
    assert not outputs["dbias"][..., start : start + queries, queries:].any()  # keys behind the diagonal
    again = differentiate("gfx942", keys, checks="", seed=1)[2]
    np.testing.assert_array_equal(outputs["dbias"], again["dbias"])


def test_no_batches_leave_zeros() -> None:
    """The gradients of a bias and of sinks have elements without any batch, or queries."""
    cases: list[dict[str, Any]] = [{"b": 0, "sq": 8, "bias": bias, "dbias": 1, "sink": 1} for bias in ("one", "batch")]
    for keys in (*cases, {"sq": 0, "sk": 40, "sink": 1, "b": 2}):
        _, _, outputs = differentiate("gfx942", {"h": 2, "d": 32, **keys})
        assert not any(array.any() for array in outputs.values())
        assert outputs["dsink"].size


def test_a_sink_that_is_not_there() -> None:
    """With a logit of minus infinity the gradient is 0, also where queries attend to nothing; the other head has its
    own."""
    target = get_target("gfx942")
    problem = FMHA.problem(sq=70, sk=8, d=32, h=2, mask="bottom_right", sink=1)
    arrays = FMHA.inputs(problem, target, seed=7)
    arrays["sink"][0] = -np.inf
    for name, array in attention(problem.attention, arrays).items():
        arrays[name] = array.astype(arrays[name].dtype)
    assert (arrays["lse"][0, 0] == -np.inf).any()
    outputs = run_operator(FMHA, problem, arrays, target, open_device("sim", target)).outputs
    assert outputs["dsink"][0] == 0
    assert outputs["dsink"][1] != 0
    assert all(one.ok for one in check_outputs(FMHA, problem, arrays, outputs, target))


def test_sequences_without_queries_have_zeros() -> None:
    """dK and dV of a sequence that no query attends to, and dQ of one without keys, packed and in slots."""
    for keys in (GROUP, PADDED):
        problem, arrays, outputs = differentiate("gfx942", {**keys, "d": 32, "h": 1}, checks="")
        for name, rows, number in (("dk", problem.attention.keys, 1), ("dq", problem.attention.queries, 2)):
            start, length = rows.of(arrays, number)
            assert length and not outputs[name][0, :, start : start + length].any()


@pytest.mark.full
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_every_part_and_mode(chip: str, dtype: str) -> None:
    """Parts and kinds of sequences with every mask."""
    if dtype == "f32":
        for mask, d in itertools.product(("none", "window_bottom_right:9,3,20"), (32, 64, 128)):
            for part in ({"bias": "one", "dbias": 1, "dropout": 0.2}, {"alibi": "head", "sink": 1, "dropout": 0.1}):
                differentiate(chip, {**PADDED, "d": d, "h": 2, "dtype": dtype, "mask": mask, **part})
        return
    masks = ("none", "top_left", "bottom_right", "window:20,5", "window_bottom_right:9,3,20")
    batches = {"b": 2, "sq": 80, "sk": 150, "seqlens_q": (70, 9), "seqlens_k": (140, 0)}
    for mask, some, d in itertools.product(masks, (GROUP, PADDED, batches), (32, 128)):
        differentiate(chip, {**some, "d": d, "h": 2, "hk": 1, "mask": mask, "deterministic": d == 32})
    for mask, d in itertools.product(masks, (32, 128, 256)):
        differentiate(chip, {**PADDED, "d": d, "h": 2, "hk": 1, "mask": mask, "dropout": 0.2, "alibi": "head"})
        differentiate(chip, {**(PADDED, batches)[d == 32], "d": d, "h": 2, "mask": mask, "sink": 1, "dropout": 0.1})
    for mask, bias, some in itertools.product(masks, ("one", "head"), (GROUP, PADDED, batches)):
        dropout = 0.3 if bias == "one" else 0
        differentiate(chip, {**some, "d": 32, "h": 2, "bias": bias, "dbias": 1, "mask": mask, "dropout": dropout})
    for mask, part in itertools.product(masks, ({"alibi": "batch"}, {"bias": "one"}, {"bias": "head"})):
        differentiate(chip, {"b": 2, "sq": 70, "sk": 136, "d": 64, "h": 2, "mask": mask, **part})
        if part["alibi" if "alibi" in part else "bias"] != "batch":
            differentiate(chip, {**PADDED, "d": 32, "h": 2, "mask": mask, **part})


@pytest.mark.full
@pytest.mark.parametrize("chip", CHIPS)
def test_many_short_sequences_and_long_ones(chip: str) -> None:
    """More workgroups than compute units, and loops of many turns."""
    differentiate(chip, {"b": 300, "h": 1, "sq": 5, "sk": 3, "d": 32}, checks="")
    differentiate(chip, {"h": 1, "sq": 1023, "sk": 65, "d": 64, "mask": "top_left"}, checks="")
    differentiate(chip, {"h": 1, "sq": 65, "sk": 1024, "d": 128, "deterministic": 1}, checks="")


@pytest.mark.parametrize("factor", [7.0])
def test_larger_values_do_not_overflow(factor: float) -> None:
    """Gradients grow as dO does; nothing on the way is larger than it has to be."""
    differentiate("gfx942", {"sq": 64, "sk": 64, "d": 64, "h": 1}, checks="", factor=factor)


@pytest.mark.parametrize(("dtype", "d", "least"), [
    ("f16", 64, 1e-2), *(pytest.param(*case, marks=pytest.mark.full) for case in (
        ("bf16", 64, 1e-2), ("f16", 256, 1e-2), ("bf16", 256, 3.2e-2))),
])  # fmt: skip
def test_errors_are_those_of_16_bits(dtype: str, d: int, least: float) -> None:
    """CK Tile's tolerances, and FlashAttention's: at most twice the error of gradients in 16-bit arithmetic."""
    keys = {"sq": 96, "sk": 128, "d": d, "h": 1, "dtype": dtype}
    problem, arrays, outputs = differentiate("gfx942", keys, checks="")
    exact = gradients(problem, arrays)
    kind = numpy_dtype(dtype, get_target("gfx942"))

    def rounded(array: Any) -> Any:
        return array.astype(kind).astype(np.float64)

    q, k, v, o, do = (arrays[name][0, 0].astype(np.float64) for name in ("q", "k", "v", "o", "do"))
    scale = problem.attention.scale
    p = rounded(np.exp(rounded(scale * rounded(q @ k.T)) - arrays["lse"][0, 0].astype(np.float64)[:, None]))
    ds = rounded(p * (rounded(do @ v.T) - rounded((do * o).sum(1, keepdims=True))))
    coarse = {"dq": scale * ds @ k, "dk": scale * ds.T @ q, "dv": p.T @ do}
    for name, array in outputs.items():
        error = np.abs(array[0, 0].astype(np.float64) - exact[name][0, 0]).max()
        assert error <= 2 * np.abs(rounded(coarse[name]) - exact[name][0, 0]).max() + 1e-5
        assert error <= least * (1 + np.abs(exact[name]).max())


@pytest.mark.parametrize(("dtype", "d"), [
    ("f16", 64), ("bf16", 64), *(pytest.param(dtype, 128, marks=pytest.mark.full) for dtype in ("f16", "bf16")),
])  # fmt: skip
def test_a_single_key_by_the_o_that_is_given(dtype: str, d: int) -> None:
    """With O as it is, dQ and dK would be 0. CK Tile's reference takes O as the kernel has it, rounded, and so does
    this one: its tolerance, 1e-2 with 1e-2 of the number, holds."""
    problem, arrays, outputs = differentiate("gfx942", {"sq": 96, "sk": 1, "d": d, "dropout": 0.6, "dtype": dtype})
    found = gradients(problem, arrays)
    assert np.abs(found["dk"]).max() > 1e-2
    for name, array in outputs.items():
        np.testing.assert_allclose(array.astype(np.float64), found[name], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("chip", ["gfx942", *(pytest.param(one, marks=pytest.mark.full) for one in CHIPS[::2])])
def test_the_same_bits_in_any_order(chip: str) -> None:
    """With deterministic=1 workgroups and waves in other orders give the same bits; by atomics those of dQ differ."""
    keys = {"sq": 40, "sk": 300, "d": 32, "h": 2, "hk": 1, "mask": "window:-1,250"}
    assert_same_bits(launches(chip, {**keys, "deterministic": 1, "sink": 1}))
    added = [one["dq"].tobytes() for one in launches(chip, {**keys, "dtype": "f32"}, count=5)]
    assert len(set(added)) > 1


@pytest.mark.parametrize(("chip", "heads"), [
    ("gfx942", 64), *(pytest.param(*case, marks=pytest.mark.full) for case in itertools.product(CHIPS, (128, 256))),
])  # fmt: skip
def test_what_forward_drops_backward_drops(chip: str, heads: int) -> None:
    """With equal weights, and values and dO that are unit vectors, O shows what the forward kernel kept and dV what the
    backward kernel did: one is the other's transpose, bit for bit."""
    target, device = get_target(chip), open_device("sim", get_target(chip))
    keys = {"b": 2, "h": 2, "sq": heads, "sk": heads, "d": 8, "dv": heads, "dropout": 0.4}
    keys |= {"seed": 2**63 + 7, "offset": 2**32 - 70}
    unit = np.broadcast_to(np.eye(heads, dtype=np.float16), (2, 2, heads, heads)).copy()
    nothing = np.zeros((2, 2, heads, 8), np.float16)
    forward = find_operator("fmha_fwd")
    problem = forward.problem(**keys, lse=1)
    inputs = {"q": nothing, "k": nothing, "v": unit}
    found = run_operator(forward, problem, inputs, target, device).outputs
    o, arrays = found["o"], {**inputs, **found, "do": unit}
    assert 0.3 < (o == 0).mean() < 0.5
    result = run_operator(FMHA, FMHA.problem(**keys), arrays, target, device)
    np.testing.assert_array_equal(result.outputs["dv"], o.transpose(0, 1, 3, 2))


def test_arrays_with_gaps_and_transposed_gradients() -> None:
    """dO with heads behind rows where the others have them before, and rows with gaps; between rows nothing is
    written (`run_operator` compares what lies there)."""
    sq, sk, h, d = 37, 70, 2, 64
    strides = {
        "do_strides": (sq * h * d + 64, d, h * d),
        "k_strides": (2 * sk * h * 96, 2 * sk * 96, 96),
        "dk_strides": (sk * h * 80, 80, h * 80),
        "dq_strides": (sq * h * d + 32, sq * d + 16, d),
        "dv_strides": (sk * h * d, d, h * d),
    }
    differentiate("gfx942", {"b": 2, "h": h, "sq": sq, "sk": sk, "d": d, **strides})


@pytest.mark.parametrize(("chip", "dtype"), [
    ("gfx942", "bf16"),
    *(pytest.param(*case, marks=pytest.mark.full) for case in itertools.product(CHIPS, ("bf16", "f32"))),
])  # fmt: skip
def test_weights_that_are_denormal(chip: str, dtype: str) -> None:
    """Exponentials have no denormal numbers: such a weight counts as zero, though gradients made of it would not be
    denormal. Gradients may lack what such weights add, and no more."""
    target = get_target(chip)
    problem = FMHA.problem(h=1, sq=3, sk=5, d=32, dtype=dtype, keeps="keys")
    arrays = FMHA.inputs(problem, target, seed=7)
    arrays["q"][:], arrays["k"][:] = 0.0, 0.0
    arrays["q"][..., 0], arrays["k"][..., 1, 0] = 32, -15.8125
    for name in ("v", "do"):
        arrays[name] = (arrays[name].astype(np.float32) * 256).astype(arrays[name].dtype)
    for name, array in attention(problem.attention, arrays).items():
        arrays[name] = array.astype(arrays[name].dtype)
    exact = abs(gradients(problem, arrays)["dk"][0, 0, 1, 0])
    outputs = run_operator(FMHA, problem, arrays, target, open_device("sim", target)).outputs
    assert outputs["dk"][0, 0, 1, 0] == 0 and exact > 1e-34
    assert all(one.ok for one in check_outputs(FMHA, problem, arrays, outputs, target))
    outputs["dk"][0, 0, 1, 0] = 1e-31
    assert not all(one.ok for one in check_outputs(FMHA, problem, arrays, outputs, target))


@pytest.mark.parametrize("dtype", ["f16", pytest.param("bf16", marks=pytest.mark.full)])
def test_keys_beyond_the_end_do_not_overflow(dtype: str) -> None:
    """With very negative scores the exponential of a key that does not exist, whose score is 0, would be infinite."""
    target = get_target("gfx942")
    problem = FMHA.problem(h=1, sq=40, sk=70, d=64, dtype=dtype)
    arrays = FMHA.inputs(problem, target, seed=7)
    arrays["q"] = (arrays["q"].astype(np.float32) / 16 - 12).astype(arrays["q"].dtype)
    arrays["k"] = (arrays["k"].astype(np.float32) / 16 + 1).astype(arrays["k"].dtype)
    for name, array in attention(problem.attention, arrays).items():
        arrays[name] = array.astype(arrays[name].dtype)
    assert arrays["lse"].max() < -88  # its exponential is beyond f32
    result = run_operator(FMHA, problem, arrays, target, open_device("sim", target))
    comparisons = check_outputs(FMHA, problem, arrays, result.outputs, target)
    assert all(one.ok and not one.unspecified for one in comparisons), "; ".join(map(str, comparisons))
