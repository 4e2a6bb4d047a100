"""fmha_bwd: the reference against numerical differentiation, tolerances, what every step computes, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ckmlir.ops import find_operator
from ckmlir.ops.attention.backward.problem import BackwardProblem
from ckmlir.ops.attention.backward.reference import gradients
from ckmlir.ops.attention.philox import random_bytes
from ckmlir.ops.comparison import compare
from ckmlir.ops.plan import KernelStep, make_plan
from ckmlir.ops.request import RequestError
from ckmlir.ops.steps import Fill
from ckmlir.records import replace
from ckmlir.targets import TARGETS, get_target

FMHA = find_operator("fmha_bwd")
GFX942 = get_target("gfx942")


def attention(
    problem: BackwardProblem, q: Any, k: Any, v: Any, bias: Any = None, factors: Any = None, sink: Any = None
) -> tuple[Any, Any]:
    """O and LSE in float64, query by query, without the code under test; all arrays (b, h, s, channels), what weights
    are multiplied with (b, h, queries, keys), logits of heads that join the sums."""
    whole = problem.attention
    o = np.zeros((*q.shape[:3], v.shape[3]))
    lse = np.full(q.shape[:3], -np.inf)
    for batch, head, row in np.ndindex(q.shape[:3]):
        shared = head // problem.ratio
        kept = whole.mask.kept(range(row, row + 1), whole.sq, whole.sk)[0]
        if not kept.any():
            continue
        scores = whole.scale * (k[batch, shared][kept] @ q[batch, head, row])
        if bias is not None:
            scores = scores + bias[0, 0, row][kept]
        lse[batch, head, row] = np.log(np.exp(scores).sum() + (0 if sink is None else np.exp(sink[head])))
        weights = np.exp(scores - lse[batch, head, row])
        if factors is not None:
            weights = weights * factors[batch, head, row][kept]
        o[batch, head, row] = weights @ v[batch, shared][kept]
    return o, lse


@pytest.mark.one_in(4)
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("mask", ["none", "top_left", "bottom_right", "window:1,1", "window_bottom_right:2,-1"])
@pytest.mark.parametrize(("sq", "sk", "bias", "dropout"), [
    (5, 7, "none", 0), (7, 4, "one", 0), (1, 1, "none", 0), (5, 7, "one", 0.3),
])  # fmt: skip
def test_gradients_are_those_of_differences(
    mask: str, sq: int, sk: int, bias: str, dropout: float, layout: str
) -> None:
    """The reference is the derivative of sum(dO ∘ O) by Q, K and V, where O and LSE are the exact ones."""
    problem = FMHA.problem(
        b=2, h=4, hk=2, sq=sq, sk=sk, d=8, dv=16, mask=mask, layout=layout, bias=bias, dropout=dropout,
        dbias=bias != "none", sink=bool(dropout),
    )  # fmt: skip
    factors = None
    if dropout:
        heads = [random_bytes(1, 64 * number, range(sq), sk) <= int((1 - dropout) * 255) for number in range(8)]
        factors = np.reshape(heads, (2, 4, sq, sk)) / (1 - dropout)
    random = np.random.default_rng(3)
    values = {name: random.standard_normal((2, *problem.sizes(name))) for name in ("q", "k", "v", "do")}

    added = random.standard_normal((1, 1, sq, sk)) if bias != "none" else None

    sink = random.standard_normal(4) if dropout else None

    def loss(changed: dict[str, Any], bias: Any = added, logits: Any = sink) -> float:
        o, _ = attention(problem, changed["q"], changed["k"], changed["v"], bias, factors, logits)
        return float((o * values["do"]).sum())

    o, lse = attention(problem, values["q"], values["k"], values["v"], added, factors, sink)
    if sink is not None:  # a query without keys has that logit alone
        lse = np.where(lse == -np.inf, sink[:, None], lse)
    by_head = problem.attention.by_head
    in_memory = {name: by_head(one) for name, one in {**values, "o": o}.items()}
    found = gradients(problem, {**in_memory, "lse": lse, "bias": added, "sink": sink})
    step = 1e-5
    for name in "qkv":
        for place in map(tuple, random.integers(0, values[name].shape, (6, 4))):
            moved = [values[name].copy(), values[name].copy()]
            moved[0][place] += step
            moved[1][place] -= step
            slope = (loss({**values, name: moved[0]}) - loss({**values, name: moved[1]})) / (2 * step)
            assert by_head(found[f"d{name}"])[place] == pytest.approx(slope, abs=1e-8, rel=1e-6)


    for head in range(4 if sink is not None else 0):
        moved_logits = [sink + sign * step * (np.arange(4) == head) for sign in (1, -1)]
        slope = (loss(values, logits=moved_logits[0]) - loss(values, logits=moved_logits[1])) / (2 * step)
        assert found["dsink"][head] == pytest.approx(slope, abs=1e-8, rel=1e-6)
    for place in map(tuple, random.integers(0, (sq, sk), (6, 2)) if added is not None else []):
        change = np.zeros_like(added)
        change[0, 0][place] = step
        slope = (loss(values, added + change) - loss(values, added - change)) / (2 * step)
        assert found["dbias"][0, 0][place] == pytest.approx(slope, abs=1e-8, rel=1e-6)


@pytest.mark.parametrize("mask", ["none", "bottom_right", "window:3,0"])
def test_inputs_belong_together(mask: str) -> None:
    """O and LSE that inputs are made of are those of their Q, K and V, also of queries that attend to nothing."""
    problem = FMHA.problem(b=2, h=2, hk=1, sq=9, sk=5, d=16, dv=8, mask=mask, layout="bshd")
    arrays = FMHA.inputs(problem, GFX942, seed=4)
    by_head = problem.attention.by_head
    o, lse = attention(problem, *(by_head(arrays[name]).astype(np.float64) for name in "qkv"))
    np.testing.assert_allclose(by_head(arrays["o"]).astype(np.float64), o, rtol=2**-11, atol=2**-25)
    np.testing.assert_allclose(arrays["lse"], lse, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("dtype", "dropout", "lost"), [("f16", 0, 18), ("f16", 0.4, 18), ("f32", 0, 13)])
@pytest.mark.parametrize("chip", TARGETS)
def test_the_tolerance_is_tight(chip: str, dtype: str, dropout: float, lost: int) -> None:
    """What is computed with one operand in fewer bits, or a key or query missing, does not pass."""
    problem = FMHA.problem(h=2, hk=1, sq=40, sk=70, d=32, dropout=dropout, dtype=dtype)
    target = get_target(chip)
    arrays = FMHA.inputs(problem, target, seed=4)
    reference = FMHA.reference(problem, arrays)
    tolerances = FMHA.tolerances(problem, arrays, reference, target)
    coarse = {name: array.astype(np.float32) for name, array in arrays.items()}
    wrong = [
        {**coarse, name: (coarse[name].view(np.int32) & -1 << lost).view(np.float32)} for name in ("q", "k", "v", "do")
    ]
    wrong += [{**coarse, "o": 0 * coarse["o"]}, {**coarse, "lse": coarse["lse"] + 0.01}]
    for name, keys in (("k", np.s_[:, :, 69:]), ("do", np.s_[:, :, 39:])):
        missing = {**coarse, name: coarse[name].copy()}
        missing[name][keys] = 0
        wrong.append(missing)
    asked = [(problem, one) for one in wrong]
    if dropout:  # nothing dropped, another share of the same bytes, and other bytes
        asked += [(FMHA.problem(h=2, hk=1, sq=40, sk=70, d=32, **keys), coarse)
                  for keys in ({}, {"dropout": dropout + 1 / 255}, {"dropout": dropout, "seed": 2})]  # fmt: skip
    for changed, one in asked:
        outputs = {name: array.astype(arrays["q"].dtype) for name, array in gradients(changed, one).items()}
        assert not all(compare(name, outputs[name], reference[name], tolerances[name]).ok for name in outputs)
    rounded = {name: array.astype(arrays["q"].dtype) for name, array in reference.items()}
    assert all(compare(name, rounded[name], reference[name], tolerances[name]).ok for name in rounded)


def test_what_is_queued() -> None:
    """Zeros only where something is added or left out; sums of heads only where heads share keys."""

    def steps(**keys: object) -> list[str]:
        problem = FMHA.problem(**keys)
        plan = make_plan(FMHA, problem, GFX942)
        assert {one.name for one in plan.workspaces} >= {"delta", "exponent", "dq_parts"}
        return [one.operator.name if isinstance(one, KernelStep) else f"fill {one.buffer}" for one in plan.steps]

    first, own, add, fill = "fmha_bwd_dot_do_o", "fmha_bwd", "sum_parts", "fill dq_parts"
    assert steps(sq=64) == [first, fill, own, add]
    assert steps(sq=64, deterministic=1) == [first, own, add]
    assert steps(sq=64, deterministic=1, mask="top_left") == [first, fill, own, add]
    assert steps(sq=64, h=4, hk=2) == [first, fill, own, add, add, add]
    assert steps(sq=64, sk=0) == [first, fill, add]
    assert steps(sq=64, bias="head", dbias=1) == [first, fill, own, add]  # the kernel writes all of it
    assert steps(sq=64, bias="one", dbias=1) == [first, fill, own, add, add]
    assert steps(sq=64, sink=1) == [first, fill, own, add, add]
    assert steps(sq=0, sk=64, sink=1)[0] == "fill dsink"
    masked = {"sq": 64, "mask": "top_left", "dbias": 1}
    assert steps(**masked, bias="head") == [first, fill, "fill dbias", own, add]
    assert steps(**masked, bias="one") == [first, fill, "fill dbias_parts", own, add, add]
    packed = {"mode": "group", "seqlens_q": (5, 7), "seqlens_k": (5, 7)}
    assert steps(**packed, deterministic=1) == [first, fill, own, add]  # a short sequence leaves slots
    parts = ["fill dk_parts", "fill dv_parts"]
    assert steps(**packed, h=4, hk=1) == [first, fill, *parts, own, add, add, add]
    assert steps(sq=0, sk=64) == [own]  # dK and dV are zeros
    assert make_plan(FMHA, FMHA.problem(b=0), GFX942).steps == ()
    assert Fill("dq_parts", 0) in FMHA.steps(FMHA.problem(), FMHA.spec(FMHA.problem(), GFX942), GFX942)


@pytest.mark.parametrize("chip", TARGETS)
def test_specifications(chip: str) -> None:
    """Every head has a kernel on every chip, and its JSON gives it back."""
    target = get_target(chip)
    for d in (8, 32, 40, 64, 96, 128, 200, 256):
        for dv in (8, 64, 256):
            problem = FMHA.problem(d=d, dv=dv, dtype="bf16", mask="window:3,4")
            spec = FMHA.spec(problem, target)
            assert FMHA.validate(spec, target) == [] and FMHA.mismatches(problem, spec, target) == []
            assert type(spec).from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"dtype": "fp8"}, "dtype", "not a choice"),
        ({"dtype": "f32", "d": 136, "dv": 200}, "d", "expected d or dv of at most 128, or f16 or bf16"),
        ({"dtype": "f32", "d": 136, "dv": 64, "sink": "shares"}, "d", "at most 128 channels of Q and K"),
        ({"out": "bf16"}, "out", "cannot have this type"),
        ({"d": 20}, "d", "expected a multiple of 8 from 8 to 256"),
        ({"waves": 3}, "waves", "3 is not a power of two"),
        ({"dq_waves": (2, 1)}, "dq_waves", "there are 4 waves"),
        ({"mfma": (32, 32, 7)}, "mfma", "32x32x7"),
        ({"block": (16, 128)}, "mfma", "expected a shape that divides it"),
        ({"block": (32, 512)}, "block", "needs 512 accumulators a work-item"),
        ({"mask": "diagonal"}, "mask", "not a choice"),
        ({"parts": ("softcap",)}, "parts", "not a part of attention"),
        ({"parts": ("dropout",), "block": (64, 128)}, "block", "64x128 elements cannot be drawn for by 64 lanes"),
        ({"parts": ("dropout",), "block": (16, 32)}, "block", "16x32 elements cannot be drawn for"),
        ({"parts": ("dropout",), "block": (32, 32), "waves": 8}, "block", "8 waves are more than draw for 32x32"),
        ({"schedule": "qr"}, "schedule", "not a choice"),
    ],
)
def test_specifications_that_are_refused(changes: dict[str, Any], field: str, words: str) -> None:
    spec = replace(FMHA.spec(FMHA.problem(), GFX942), **changes)
    reasons = FMHA.validate(spec, GFX942)
    assert field in [reason.field for reason in reasons]
    assert any(words in str(reason) for reason in reasons), reasons


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"d": 20}, "d=20: heads of f16 have a multiple of 8 from 8 to 256 channels"),
        ({"dv": 512}, "dv=512: heads of f16 have a multiple of 8"),
        ({"bias": "one", "alibi": "head"}, "it does not go with bias=one"),
        ({"mode": "group"}, "mode=group: it needs seqlens_q"),
        ({"out": "f16"}, "out"),
        ({"dropout": 1}, "dropout=1.0: expected a probability from 0"),
        ({"dropout": 0.1, "randval": 1}, "randval"),
        ({"dbias": 1}, "dbias=1: there is no bias; leave it out or name one"),
        ({"dbias": 1, "bias": "head", "b": 2, "h": 64, "sq": 3000}, "of f32 take 2 GiB or more"),
        ({"dtype": "fp8"}, "dtype=fp8: expected f16|bf16|f32"),
        ({"dtype": "f32", "d": 6}, "d=6: heads of f32 have a multiple of 4 from 4 to 256 channels"),
        ({"h": 6, "hk": 4}, "hk=4: h=6 is not a multiple"),
        ({"scale": -1}, "expected a positive number"),
        ({"do_strides": "65536x32768x100"}, "do_strides=65536x32768x100: 100 elements of f16; expected multiples of 8"),
        ({"dq_strides": "65536x32768x64"}, "dq_strides=65536x32768x64: rows have 128 channels"),
        ({"b": 512, "h": 64, "sq": 1024}, "array q of shape 512x64x1024x128 takes 8589934592 bytes"),
    ],
)
def test_requests_that_are_refused(keys: dict[str, object], words: str) -> None:
    with pytest.raises(RequestError) as error:
        FMHA.problem(**keys)
    assert words in str(error.value)


def test_sums_of_sequences_are_for_sinks() -> None:
    rows = find_operator("fmha_bwd_dot_do_o")
    with pytest.raises(RequestError, match=r"seqlens_q=5,0: it matters to the parts of sink=1 alone; leave it out"):
        rows.problem(seqlens_q=(5, 0))
    with pytest.raises(RequestError, match=r"factor=1.5: expected a number above 0 and at most 1"):
        rows.problem(factor=1.5)
    with pytest.raises(RequestError, match=r"mode=group: it needs seqlens_q, the lengths"):
        rows.problem(mode="group", sink=1)
