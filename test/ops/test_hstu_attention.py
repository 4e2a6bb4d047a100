"""HSTU attention: masks against their definition, spans, numbers under all checkers, SiLU weights of special scores,
lengths in device memory that nobody can mean, and what is refused.
"""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_runner import CHIPS, checked
from test_fmha_fwd_edges import Number

from ckmlir.ops import find_operator
from ckmlir.ops.attention.hstu_reference import silu
from ckmlir.ops.attention.loop.hstu_keys_kernel import reached
from ckmlir.ops.attention.parts.hstu_keys import HstuKeys
from ckmlir.ops.attention.problem import Place
from ckmlir.ops.request import RequestError
from ckmlir.ops.schedules import ATTENTION
from ckmlir.runtime import run_operator
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.run import check_outputs
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling import Workbench
from ckmlir.sim.checks import parse_checks
from ckmlir.targets import get_target

HSTU = find_operator("hstu_attention")
GFX942 = get_target("gfx942")
Keys = dict[str, Any]
BATCH: Keys = {"h": 2, "sq": 200, "d": 32}
GROUP: Keys = {"mode": "group", "seqlens_q": (150, 0, 200), "h": 2, "hk": 1, "d": 32, "targets": (6, 0, 140)}
MASKS: list[Keys] = [
    {}, {"causal": 0}, {"context": 6}, {"window": 50, "full": 20}, {"window": 5, "context": 70},
    {"causal": 0, "window": 30, "full": 10, "context": 5}, {"causal": 0, "window": 90},
]  # fmt: skip
CASES: list[tuple[str, Keys]] = [
    ("gfx942", BATCH),
    ("gfx950", {**GROUP, **MASKS[3], "context": 6, "dtype": "bf16", "d": 64}),
    ("gfx90a", {**GROUP, **MASKS[5], "layout": "bshd"}),
    ("gfx942", {**BATCH, "causal": 0, "targets": (17,), "scale": 3, "attn_scale": -0.5}),
    ("gfx950", {**GROUP, "weights": "softmax", "lse": 1, "window": 50, "slots_q": (160, 3, 200)}),
    ("gfx90a", {**BATCH, "sq": 130, "bias": "head", "dropout": 0.2, "randval": 1, "d": 64, "dtype": "bf16"}),
    ("gfx942", {"h": 1, "sq": 1, "d": 32, "dtype": "f32"}),
    ("gfx950", {"h": 1, "b": 2, "sq": 140, "seqlens_q": (140, 33), "d": 256, "q_strides": (38080, 38080, 272)}),
]
WIDE = [
    (chip, {**shape, **mask, "dtype": dtype, "d": d})
    for chip in CHIPS
    for shape in (BATCH, GROUP)
    for mask in MASKS
    for dtype in ("f16", "bf16", "f32")
    for d in (64, 128)
]


def attends(keys: HstuKeys, length: int, targets: int, row: int, column: int) -> bool:
    """CK Tile's definition: the context has the number of its last place, candidates one behind the history's."""
    history = length - targets
    full = min(keys.full, history)
    context = min(keys.context, history - full)
    last = history - (context - 1 if context else 0)
    one, other = (min(max(place - context + 1, 0) if context else place, last) for place in (row, column))
    if context and one == 0 and other < last:
        return True
    distance = one - other if keys.causal else abs(one - other)
    near = not keys.window or distance <= keys.window or (full > 0 and one >= last - full)
    return (row == column or (one > other if keys.causal else one != other)) and near


SEEN = st.builds(
    HstuKeys, st.booleans(), st.integers(0, 12), st.sampled_from((0, 1, 3, 9, 40)), st.integers(0, 9), st.none()
)


@settings(max_examples=200, deadline=None)
@given(keys=SEEN, length=st.integers(1, 24), targets=st.integers(0, 24))
def test_masks_are_as_defined(keys: HstuKeys, length: int, targets: int) -> None:
    targets = min(targets, length)
    keys = HstuKeys(keys.causal, keys.context, keys.window, keys.full if keys.window else 0, (targets,))
    place = Place(0, 0, 0, 0, range(length), length, length)
    found = keys.kept(cast(Any, None), place, {"num_targets": np.array([targets])})
    expected = [[attends(keys, length, targets, *pair) for pair in itertools.product([row], range(length))]
                for row in range(length)]  # fmt: skip
    np.testing.assert_array_equal(found, expected)
    assert keys.pairs(length, targets) == found.sum()


@settings(max_examples=150, deadline=None)
@given(
    causal=st.booleans(), context=st.sampled_from((0, 1, 6, 130, 500)), window=st.sampled_from((0, 1, 30, 200, 900)),
    full=st.sampled_from((0, 1, 70, 300)), targets=st.sampled_from((0, 1, 20, 150, 600)), length=st.integers(1, 600),
    number=st.integers(0, 20),
)  # fmt: skip
def test_spans_take_every_key(
    causal: bool, context: int, window: int, full: int, targets: int, length: int, number: int
) -> None:
    """All keys that some place of the block attends to, in whole blocks; without the mask only those that all do."""
    queries, size, targets = 128, 64, min(targets, length)
    first = number % -(-length // queries) * queries
    keys = HstuKeys(causal, context, window, full if window else 0, (targets,))
    given = SimpleNamespace(
        hstu_context=Number(context), hstu_window=Number(window), hstu_full=Number(full),
        num_targets=SimpleNamespace(scalar=lambda _: Number(targets)),
    )  # fmt: skip
    work = cast(Any, SimpleNamespace(first=Number(first), sk=Number(length), batch=Number(0)))
    form = cast(Any, SimpleNamespace(queries=queries, keys=size))
    reach = reached(keys.word.split("_")[1:], given, work, form)
    rows = range(first, min(first + queries, length))
    kept = keys.kept(cast(Any, None), Place(0, 0, 0, 0, rows, length, length), {"num_targets": np.array([targets])})
    low, high, begin, end = (int(one) for one in (*reach.some, *reach.every))
    assert low % size == 0 and low >= 0 and high <= length
    assert begin % size == end % size == 0 and low <= begin and end <= max(high, low)
    assert kept[:, begin:end].all()
    assert not kept[:, :low].any() and not kept[:, high:].any()


def run(chip: str, keys: Keys, more: dict[str, Any] | None = None) -> dict[str, Any]:
    """Outputs, which agree with the reference under all checkers."""
    return checked("hstu_attention", chip, keys, more)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("chip", "keys"), [*CASES, *(pytest.param(*one, marks=pytest.mark.full) for one in WIDE)], ids=str
)
def test_numbers(chip: str, keys: Keys) -> None:
    run(chip, keys)


def test_references_by_hand() -> None:
    problem = HSTU.problem(**{**GROUP, "window": 30, "full": 4, "context": 3, "scale": 0.7})
    arrays = HSTU.inputs(problem, GFX942, seed=5)
    found, keys = HSTU.reference(problem, arrays)["o"], problem.parts[0]
    for head, row in itertools.product(range(2), (0, 2, 3, 60, 199, 59, 61)):
        places = [150 + other for other in range(200) if attends(keys, 200, 140, row, other)]
        scores = 0.7 * arrays["k"][0, 0, places].astype(np.float64) @ arrays["q"][0, head, 150 + row].astype(np.float64)
        weights = scores / (1 + np.exp(-scores)) / 200
        expected = weights @ arrays["v"][0, 0, places].astype(np.float64)
        np.testing.assert_allclose(found[0, head, 150 + row], expected, rtol=1e-6)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_weights_of_special_scores(chip: str) -> None:
    """One query, one key: the weight of a score, which is exact here, is O."""
    scores = np.array([0, -np.inf, -60000, -100, -1, 1, 100, 60000, np.nan], np.float16)
    ones = np.zeros((1, 9, 1, 32), np.float16)
    ones[..., 0] = 1
    q = ones.copy()
    q[0, :, 0, 0] = scores
    keys = {"h": 9, "sq": 1, "d": 32, "scale": 1, "dtype": "f16"}
    result = run_operator(
        HSTU, HSTU.problem(**keys), {"q": q, "k": ones, "v": ones}, get_target(chip),
        SimulatorDevice(get_target(chip), checks=parse_checks("all")),
    )  # fmt: skip
    found, expected = result.outputs["o"][0, :, 0, 0].astype(np.float64), silu(scores.astype(np.float64))
    assert np.isnan(found[-1]) and expected[1] == 0
    assert np.isinf(found[-2])  # 60000 / ln 2 is no f16
    np.testing.assert_allclose(found[:-2], expected[:-2], rtol=2e-3, atol=1e-6)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "dtype", "tiny"), [("gfx942", "f32", {"k": 1e-44}), ("gfx90a", "f16", {"v": 1e-5})])
def test_denormals_are_within_the_bound(chip: str, dtype: str, tiny: dict[str, float]) -> None:
    """Scores with few digits, as denormals have, and values that gfx90a takes for zero."""
    target = get_target(chip)
    problem = HSTU.problem(dtype=dtype, h=1, sq=80, d=64, causal=0, attn_scale=1.0)
    arrays = {name: np.ones_like(array) for name, array in HSTU.inputs(problem, target, 0).items()}
    arrays["q"] *= np.linspace(1, 9, 80)[:, None].astype(arrays["q"].dtype)
    for name, size in tiny.items():
        arrays[name][...] = size
    found = run_operator(HSTU, problem, arrays, target, SimulatorDevice(target))
    (comparison,) = check_outputs(HSTU, problem, arrays, found.outputs, target)
    assert comparison.ok, str(comparison)


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
    o = np.ones(problem.shape("o"), np.float16)
    device.read(o, memories["o"])
    assert np.isfinite(o).all()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "schedule", "edge"), [
    ("gfx942", "qr", "qr"), ("gfx950", "qr_woven_async", "none"), ("gfx90a", "qr_async_ping_pong", "none"),
    *(pytest.param(chip, schedule, edge, marks=pytest.mark.full)
      for chip in CHIPS for schedule in ATTENTION for edge in ("none", "qr")),
])  # fmt: skip
def test_schedules_are_proved(chip: str, schedule: str, edge: str) -> None:
    """With one loop, and with one of its own for blocks of keys that the mask cuts."""
    target = get_target(chip)
    candidates = {} if "woven" in schedule else {"targets": (40,)}
    request = {"h": 1, "sq": 500, "window": 300, "d": 64, "schedule": schedule, "edge": edge, **candidates}
    spec = HSTU.spec(HSTU.problem(**request), target)
    if reasons := HSTU.validate(spec, target):
        assert "transpose" in str(reasons)
        return
    bench = Workbench.of(HSTU, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()
    run(chip, request)


@pytest.mark.parametrize(
    ("chip", "schedule"), [("gfx90a", "qr_woven"), ("gfx942", "qr_woven"), ("gfx950", "qr_woven_async")]
)
def test_candidates_are_not_woven(chip: str, schedule: str) -> None:
    """They would keep six scalar registers and more in lanes, and with 128 channels up to 64 vector ones in scratch."""
    target = get_target(chip)
    problem = HSTU.problem(h=32, sq=4096, d=64, targets=(20,), schedule=schedule)
    (reason,) = HSTU.validate(HSTU.spec(problem, target), target)
    assert reason.field == "schedule" and "candidates compare each key twice" in reason.why
    assert not HSTU.validate(HSTU.spec(HSTU.problem(h=32, sq=4096, d=64, window=9, schedule=schedule), target), target)


@pytest.mark.parametrize(("keys", "words"), [
    ({"full": 3}, "full=3: there is no window that it could take away; leave it out"),
    ({"targets": (1, 2)}, "targets=1,2: 2 numbers for 1 sequences; expected one each"),
    ({"targets": (201,)}, "targets=201: 201 candidates, but sequence 0 has 200 places; expected at most that"),
    ({"lse": 1}, "lse=1: SiLU weights have no sum of exponentials; expected weights=softmax"),
    ({"weights": "softmax", "attn_scale": 1}, "attn_scale=1.0: weights of a softmax have no scale; leave it out"),
    ({"dtype": "fp8"}, "dtype=fp8: expected f16|bf16|f32"),
    ({"window": -1}, "window=-1: expected a whole number from 0"),
    ({"mode": "group", "seqlens_q": None}, "mode=group: it needs seqlens_q, the"),
])  # fmt: skip
def test_what_is_refused(keys: Keys, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        HSTU.problem(**{**BATCH, **keys})
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_arrays_that_are_refused() -> None:
    problem = HSTU.problem(**GROUP)
    arrays = HSTU.inputs(problem, GFX942)
    HSTU.check_inputs(problem, arrays)
    with pytest.raises(RequestError, match="array num_targets: sequence 1 has 1 candidates; expected 0 to 0"):
        HSTU.check_inputs(problem, {**arrays, "num_targets": np.array([6, 1, 140], np.int32)})
    starts = np.array([0, 149, 149, 349], np.int32)
    with pytest.raises(RequestError, match="array seqstart_k: sequence 0 has 150 queries and 149 keys; expected as"):
        HSTU.check_inputs(problem, {**arrays, "seqstart_k": starts})


def test_pairs_count() -> None:
    problem = HSTU.problem(h=3, sq=64, d=32)
    assert HSTU.flops(problem) == 2 * 3 * (64 * 65 // 2) * 64
    assert math.isclose(problem.parts[1].scale, 1 / 64)
