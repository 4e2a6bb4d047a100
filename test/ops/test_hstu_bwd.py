"""Gradients of HSTU attention: the reference against differences, spans, numbers under all checkers, determinism,
special scores, lengths that nobody can mean, spills and counts, refusals.
"""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launch_orders import in_any_order
from operator_runner import CHIPS, checked
from test_fmha_fwd_edges import Number
from test_hstu_attention import attends

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.attention.backward import hstu_queries_kernel
from ckmlir.ops.attention.backward.hstu_bwd_reference import GatedPairs
from ckmlir.ops.attention.backward.reference import SoftmaxPairs, gradients
from ckmlir.ops.attention.parts.hstu_keys import HstuKeys
from ckmlir.ops.attention.philox import random_bytes
from ckmlir.ops.attention.problem import Place
from ckmlir.ops.comparison import compare
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.request import RequestError
from ckmlir.ops.schedules import BACKWARD
from ckmlir.runtime import check_outputs, open_device, run_operator
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling import Workbench
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.sim.checks import parse_checks
from ckmlir.targets import get_target

HSTU = find_operator("hstu_bwd")
GFX942 = get_target("gfx942")
FULL = pytest.mark.full
Keys = dict[str, Any]
BATCH: Keys = {"h": 2, "sq": 200, "d": 32}
GROUP: Keys = {"mode": "group", "seqlens_q": (150, 0, 200), "h": 2, "hk": 1, "d": 32, "targets": (6, 0, 140)}
MASKS: list[Keys] = [
    {}, {"causal": 0}, {"context": 6}, {"window": 50, "full": 20}, {"window": 5, "context": 70},
    {"causal": 0, "window": 30, "full": 10, "context": 5}, {"causal": 0, "window": 90},
]  # fmt: skip
CASES: list[tuple[str, Keys]] = [
    ("gfx950", {**GROUP, **MASKS[3], "context": 6, "dtype": "bf16", "d": 64}),
    ("gfx90a", {**GROUP, **MASKS[5], "layout": "bshd", "deterministic": 1}),
    ("gfx942", {**BATCH, "sq": 130, "bias": "head", "dbias": 1, "dropout": 0.2, "attn_scale": -0.5}),
    ("gfx950", {**GROUP, "weights": "softmax", "window": 50, "slots_q": (160, 3, 200), "dropout": 0.1}),
    ("gfx942", {"h": 1, "mode": "group", "seqlens_q": (9, 0, 20), "d": 32, "dtype": "f32", "targets": (3, 0, 20)}),
]  # fmt: skip
MORE: list[tuple[str, Keys]] = [
    ("gfx942", {**BATCH, "d": 128}),
    ("gfx942", {**BATCH, "causal": 0, "targets": (17,), "scale": 3}),
    ("gfx90a", {"h": 2, "sq": 130, "bias": "head", "dropout": 0.2, "d": 64, "dtype": "bf16", "seeds": "memory"}),
    ("gfx950", {"h": 1, "b": 2, "sq": 140, "seqlens_q": (140, 33), "d": 256, "q_strides": (38080, 38080, 272)}),
    ("gfx942", {"h": 1, "sq": 330, "d": 128, "context": 70, "targets": (100,), "deterministic": 1}),
    *(("gfx942", {"h": 1, "b": 2, "sq": 32, "d": 64, "targets": (5, 32), "keeps": "queries", **one}) for one in MASKS),
]  # fmt: skip
WIDE = [
    (chip, {**shape, **mask, "dtype": dtype, "d": d, "deterministic": number % 2})
    for number, (chip, shape, mask, dtype, d) in enumerate(
        itertools.product(CHIPS, (BATCH, GROUP), MASKS, ("f16", "bf16", "f32"), (64, 128))
    )
]


def weights_of(problem: Any, q: Any, k: Any, bias: Any, targets: int) -> Any:
    """Weights of SiLU or of a softmax in float64 (b, h, queries, keys), pair by pair, without the code under test."""
    whole = problem.attention
    keys, silu = (next((part for part in whole.parts if part.name == name), None) for name in ("hstu", "silu"))
    found = np.zeros((*q.shape[:3], k.shape[2]))
    for batch, head, row in np.ndindex(q.shape[:3]):
        kept = np.array([attends(keys, whole.sq, targets, row, column) for column in range(whole.sq)])
        scores = whole.scale * (k[batch, head // problem.ratio] @ q[batch, head, row])
        scores = scores if bias is None else scores + bias[0, 0, row]
        if silu is None:
            found[batch, head, row][kept] = np.exp(scores[kept]) / np.exp(scores[kept]).sum()
        else:
            found[batch, head, row][kept] = silu.scale * scores[kept] / (1 + np.exp(-scores[kept]))
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("weights", ["silu", "softmax"])
@pytest.mark.parametrize(("mask", "more"), [
    ({}, {"bias": "one", "dbias": 1}), ({"window": 3, "full": 2, "context": 1}, {"dropout": 0.3}),
    ({"causal": 0, "window": 2, "context": 2}, {}),
])  # fmt: skip
def test_gradients_are_those_of_differences(mask: Keys, more: Keys, weights: str) -> None:
    """The reference is the derivative of sum(dO ∘ O) by Q, K, V and the bias."""
    problem = HSTU.problem(b=2, h=4, hk=2, sq=9, d=8, dv=16, targets=(3, 3), weights=weights, **mask, **more)
    random = np.random.default_rng(3)
    values = {name: random.standard_normal((2, *problem.sizes(name))) for name in ("q", "k", "v", "do")}
    if "bias" in more:
        values["bias"] = random.standard_normal((1, 1, 9, 9))
    factors: Any = 1.0
    if p := more.get("dropout", 0):
        heads = [random_bytes(1, 64 * number, range(9), 9) <= int((1 - p) * 255) for number in range(8)]
        factors = np.reshape(heads, (2, 4, 9, 9)) / (1 - p)

    def result(changed: Keys) -> tuple[Any, Any]:
        found = weights_of(problem, changed["q"], changed["k"], changed.get("bias"), 3)
        return (found * factors) @ changed["v"].repeat(2, axis=1), found

    def loss(changed: Keys) -> float:
        return float((result(changed)[0] * values["do"]).sum())

    arrays = {**values, "num_targets": np.array([3, 3]), "o": result(values)[0]}
    if weights == "softmax":
        scores = problem.attention.scale * values["q"] @ values["k"].repeat(2, axis=1).swapaxes(2, 3)
        own = np.diagonal(scores, axis1=2, axis2=3) + (np.diagonal(values["bias"][0, 0]) if "bias" in values else 0)
        arrays["lse"] = own - np.log(np.diagonal(result(values)[1], axis1=2, axis2=3))
    found = gradients(problem, arrays, GatedPairs if weights == "silu" else SoftmaxPairs)
    for name in (*"qkv", *(["bias"] if "bias" in values else [])):
        for place in map(tuple, random.integers(0, values[name].shape, (6, 4))):
            change = np.zeros_like(values[name])
            change[place] = 1e-5
            ahead, behind = (loss({**values, name: values[name] + sign * change}) for sign in (1, -1))
            slope = (ahead - behind) / 2e-5
            assert found[f"d{name}"][place] == pytest.approx(slope, abs=1e-8, rel=1e-6)


@settings(max_examples=200, deadline=None)
@given(
    causal=st.booleans(), context=st.sampled_from((0, 1, 6, 130, 500)), window=st.sampled_from((0, 1, 30, 200, 900)),
    full=st.sampled_from((0, 1, 70, 300)), targets=st.sampled_from((None, 0, 1, 20, 150, 600)),
    length=st.integers(1, 600), number=st.integers(0, 20),
)  # fmt: skip
def test_spans_take_every_query_once(
    causal: bool, context: int, window: int, full: int, targets: int | None, length: int, number: int
) -> None:
    """Whole blocks of queries, none twice, and all that attend to some key of the block; without a mask only those that
    attend to all of them, and where runs alone are asked, they say it."""
    rows, size, count = 32, 128, min(targets or 0, length)
    first = number % -(-length // size) * size
    keys = HstuKeys(causal, context, window, full if window else 0, None if targets is None else (count,))
    given = SimpleNamespace(
        hstu_context=Number(context), hstu_window=Number(window), hstu_full=Number(full),
        num_targets=SimpleNamespace(scalar=lambda _: Number(count)),
    )  # fmt: skip
    work = cast(Any, SimpleNamespace(first=Number(first), sq=Number(length), batch=Number(0)))
    form = cast(Any, SimpleNamespace(queries=rows, keys=size))
    with pytest.MonkeyPatch.context() as patched:
        for name in ("InRuns", "Keyed", "Behind"):
            patched.setattr(hstu_queries_kernel, name, lambda *given, name=name: name)
        spans = hstu_queries_kernel.hstu_queries(keys.word, given, work, form).spans
    place = Place(0, 0, 0, 0, range(length), length, length)
    kept = keys.kept(cast(Any, None), place, {"num_targets": np.array([count])})[:, first : first + size]
    history = length - count
    limited = max(min(context, history - min(keys.full, history)), 0)
    taken = []
    for span in spans:
        for index in range(int(span.low), int(span.high), rows):
            taken.append(query := int(span.query(Number(index))))
            assert query % rows == 0 and 0 <= query < length
            assert span.masks or kept[query : query + rows].all()
            if cast(Any, span.masks) == ["InRuns"] and first < history:
                assert query >= limited and not (keys.full and query + rows > history - keys.full)
    assert len(taken) == len(set(taken))
    kept[[row for one in taken for row in range(one, min(one + rows, length))]] = False
    assert not kept.any()


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("chip", "keys"), [*CASES, *(pytest.param(*one, marks=FULL) for one in (*MORE, *WIDE))], ids=str
)
def test_numbers(chip: str, keys: Keys) -> None:
    checked("hstu_bwd", chip, keys)


def test_wrong_results_are_out_of_tolerance() -> None:
    """What is lost of inputs or of the derivative shows."""
    problem = HSTU.problem(h=1, sq=70, d=32, targets=(9,), dropout=0.2)
    arrays = HSTU.inputs(problem, GFX942, seed=4)
    reference = HSTU.reference(problem, arrays)
    tolerances = HSTU.tolerances(problem, arrays, reference, GFX942)

    def agrees(found: Keys) -> bool:
        rounded = {name: one.astype(np.float16) for name, one in found.items()}
        return all(compare(name, rounded[name], reference[name], tolerances[name]).ok for name in reference)

    assert agrees(reference)
    for name in ("q", "k", "v", "do"):
        coarse = (arrays[name].astype(np.float32).view(np.int32) & -1 << 18).view(np.float32)
        assert not agrees(gradients(problem, {**arrays, name: coarse}, GatedPairs)), name
    for keys in ({"dropout": 0}, {"seed": 2}, {"causal": 0}, {"attn_scale": 1 / 71}):
        other = HSTU.problem(**{"h": 1, "sq": 70, "d": 32, "targets": (9,), "dropout": 0.2, **keys})
        assert not agrees(HSTU.reference(other, arrays)), keys
    assert not agrees(HSTU.reference(problem, {**arrays, "num_targets": np.array([8], np.int32)}))


def test_the_same_bits_in_any_order() -> None:
    problem = HSTU.problem(h=1, mode="group", seqlens_q=(300, 0, 40), d=32, targets=(20, 0, 3), deterministic=1)
    arrays = HSTU.inputs(problem, GFX942, seed=7)
    executable, runs = Executable(open_device("sim", GFX942, seed=3), HSTU, problem), []
    with in_any_order(seed=5):
        for _ in range(4):
            runs.append({one.name: np.zeros(one.shape, numpy_dtype(one.dtype, GFX942))
                         for one in HSTU.arrays(problem) if one.role == "out"})  # fmt: skip
            executable(**arrays, **runs[-1])
    assert all(one.ok for one in check_outputs(HSTU, problem, arrays, runs[0], GFX942))
    assert all(run[name].tobytes() == runs[0][name].tobytes() for run in runs[1:] for name in runs[0])


@pytest.mark.parametrize("chip", ["gfx942", *(pytest.param(one, marks=FULL) for one in ("gfx90a", "gfx950"))])
def test_gradients_of_special_scores(chip: str) -> None:
    """One query, one key: dV is the weight of a score, dQ the derivative; with a bias of minus infinity neither is."""
    scores = np.array([0, -60000, -100, -1, 1, 20, 100, 7], np.float64)
    ones = np.zeros((1, 8, 1, 32), np.float16)
    ones[..., 0] = 1
    q = ones.copy()
    q[0, :, 0, 0] = scores
    bias = np.zeros((1, 8, 1, 1), np.float16)
    bias[0, -1] = -np.inf
    problem = HSTU.problem(h=8, sq=1, d=32, scale=1, attn_scale=1, bias="head")
    device = SimulatorDevice(get_target(chip), checks=parse_checks("all"))
    given = {"q": q, "k": ones, "v": ones, "do": ones, "bias": bias}
    found = run_operator(HSTU, problem, given, get_target(chip), device).outputs
    with np.errstate(over="ignore"):
        gates = np.where(scores == 7, 0, 1 / (1 + np.exp(-scores)))
    expected = {"dv": scores * gates, "dq": gates + scores * gates * (1 - gates)}
    for name, one in expected.items():
        np.testing.assert_allclose(found[name][0, :, 0, 0].astype(np.float64), one, rtol=2e-3, atol=1e-6)


def test_lengths_in_device_memory_that_nobody_can_mean() -> None:
    """No access outside: more candidates than places, fewer than none, sequences with fewer keys than queries."""
    problem = HSTU.problem(**{**GROUP, "hk": 2, "window": 9, "context": 4})
    arrays = HSTU.inputs(problem, GFX942, seed=3)
    arrays["num_targets"] = np.array([2**31 - 1, 5, -(2**31)], np.int32)
    arrays["seqstart_k"] = np.array([0, 7, 7, 300], np.int32)
    device = SimulatorDevice(GFX942, checks=parse_checks("memory"))
    executable, memories = Executable(device, HSTU, problem), {}
    for array in HSTU.arrays(problem):
        memories[array.name] = device.allocate(array.nbytes)
        device.write(memories[array.name], arrays.get(array.name, np.ones(array.nbytes, np.uint8)))
    executable.launch(memories)


@pytest.mark.parametrize(("chip", "d", "schedule", "runs"), [
    ("gfx950", 32, "phases", False),
    *(pytest.param(*one, True, marks=FULL) for one in itertools.product(CHIPS, (32, 64, 128), BACKWARD)),
])  # fmt: skip
def test_schedules_are_proved(chip: str, d: int, schedule: str, *, runs: bool) -> None:
    """Loops with gaps and without."""
    target = get_target(chip)
    request = {"h": 1, "sq": 300, "window": 60, "full": 9, "context": 3, "targets": (40,), "d": d, "schedule": schedule}
    spec = HSTU.spec(HSTU.problem(**request), target)
    if reasons := HSTU.validate(spec, target):
        assert {one.field for one in reasons} <= {"schedule", "dq_mfma", "block"}  # as those of fmha_bwd
        return
    bench = Workbench.of(HSTU, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()
    if runs:
        checked("hstu_bwd", chip, request)


VALU = {("gfx90a", 64): 217, ("gfx90a", 128): 230, ("gfx942", 64): 225, ("gfx942", 128): 266, ("gfx950", 64): 213,
        ("gfx950", 128): 238}  # fmt: skip
"""Vector instructions of two steps where all places attend to each other, at most."""


TIGHT: list[Keys] = [
    {**MASKS[5], "targets": (20,) * 4}, {**MASKS[3], "targets": (20,) * 4, "dropout": 0.1}, {"bias": "one"}, *MASKS[1:],
]  # fmt: skip


@pytest.mark.parametrize(("chip", "d", "masks"), [
    ("gfx942", 64, TIGHT[:1]), *(pytest.param(*one, TIGHT, marks=FULL) for one in VALU),
])  # fmt: skip
def test_nothing_is_spilled_and_what_a_step_takes(chip: str, d: int, masks: list[Keys]) -> None:
    """SiLU and its derivative take 6 vector instructions a pair, a softmax 3; no kernel keeps registers in lanes or in
    scratch."""
    target, sizes = get_target(chip), {"b": 4, "h": 8, "sq": 2048, "d": d}
    for mask in ({"causal": 0}, *masks):
        spec = HSTU.spec(HSTU.problem(**sizes, **mask), target)
        kernel = compile_kernel(HSTU, spec, target)
        metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
        assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
        if mask == {"causal": 0}:
            assert "woven" in spec.schedule
            assert steady_loop(kernel.code_object, kernel.kernel_name).mix["valu"] <= VALU[chip, d]


@pytest.mark.parametrize(("keys", "words"), [
    ({"full": 3}, "full=3: there is no window that it could take away; leave it out"),
    ({"weights": "softmax", "attn_scale": 1}, "attn_scale=1.0: weights of a softmax have no scale; leave it out"),
    ({"dtype": "fp8"}, "dtype=fp8: expected f16|bf16|f32"),
    ({"keeps": "queries"}, "keeps=queries: sq=200; a workgroup keeps 32 of them"),
    ({"dbias": 1}, "dbias=1: there is no bias; leave it out or name one"),
    ({"persistent": 1}, "persistent"),
])  # fmt: skip
def test_what_is_refused(keys: Keys, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        HSTU.problem(**{**BATCH, **keys})
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_what_runs() -> None:
    """SiLU weights need neither O and LSE nor a kernel for them; flops are those of pairs that attend."""
    problem = HSTU.problem(h=3, sq=64, d=32)
    plan = HSTU.steps(problem, HSTU.spec(problem, GFX942), GFX942)
    assert len(plan) == 3 and [one.name for one in HSTU.arrays(problem)] == ["q", "k", "v", "do", "dq", "dk", "dv"]
    soft = HSTU.problem(h=3, sq=64, d=32, weights="softmax")
    assert len(HSTU.steps(soft, HSTU.spec(soft, GFX942), GFX942)) == 4
    assert HSTU.flops(problem) == 2 * 3 * (64 * 65 // 2) * 5 * 32
