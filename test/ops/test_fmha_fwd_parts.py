"""What requests add to attention: bias, ALiBi, soft cap, sink logit, sink tokens, dropout, sequences of any lengths, V
in columns. Each against the reference under all checkers, the references against plain loops, and what is refused.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from operator_runner import CHIPS, named, outcome

from ckmlir.ops import find_operator
from ckmlir.ops.attention.philox import philox
from ckmlir.ops.request import RequestError
from ckmlir.ops.schedules import ATTENTION
from ckmlir.runtime import check_outputs, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.runtime.strided import untouched
from ckmlir.scheduling import Workbench
from ckmlir.sim.checks import parse_checks
from ckmlir.targets import get_target
from ckmlir.tools import cli

FMHA = find_operator("fmha_fwd")
GFX942 = get_target("gfx942")
Keys = dict[str, Any]

GROUP: Keys = {"mode": "group", "seqlens_q": (70, 0, 130), "seqlens_k": (100, 50, 20), "d": 32, "lse": 1}
SLOTS: Keys = {**GROUP, "slots_q": (80, 10, 130), "slots_k": (104, 50, 33), "layout": "bshd"}
LENGTHS: Keys = {"seqlens_q": (70, 0, 130), "seqlens_k": (0, 50, 20), "d": 32, "lse": 1}
BATCH: Keys = {"h": 2, "hk": 1, "sq": 70, "sk": 135, "d": 32, "lse": 1}
CASES: list[tuple[str, Keys]] = [
    ("gfx950", {**BATCH, "soft_cap": 5, "dtype": "bf16"}),
    ("gfx942", {**BATCH, "alibi": "head", "mask": "window_bottom_right:40,10"}),
    ("gfx90a", {**BATCH, "alibi": "batch", "mask": "top_left", "b": 2}),
    ("gfx942", {**BATCH, "bias": "one", "bias_stride": 160}),
    ("gfx90a", {"h": 2, "sq": 128, "sk": 192, "bias": "head", "bias_stride": 200, "dtype": "bf16"}),  # whole blocks
    ("gfx950", {**BATCH, "bias": "batch", "b": 2, "sk": 136, "schedule": "qr_async_ping_pong"}),
    ("gfx90a", {**BATCH, "bias": "sequence", "b": 3, "mask": "top_left"}),
    ("gfx942", {**BATCH, "sink": 1, "dtype": "fp8"}),
    ("gfx950", {"sk": 1, "alibi": "head", "sink": 1, "dtype": "fp8"}),  # weights below half of fp8's least number
    ("gfx90a", {**BATCH, "sink": 1, "mask": "window:20,5,70", "alibi": "head"}),
    ("gfx950", {**BATCH, "dropout": 0.3, "randval": 1, "mask": "bottom_right"}),
    ("gfx942", {**GROUP, "dropout": 0.1, "seeds": "memory", "randval": 1, "soft_cap": 3}),
    ("gfx942", {**SLOTS, "mask": "bottom_right", "bias": "head", "dtype": "bf16"}),
    ("gfx90a", {**LENGTHS, "mask": "window_bottom_right:9,-1,3", "alibi": "head"}),
    ("gfx950", {**BATCH, "v_layout": "columns", "sk": 136, "schedule": "qr_async_trload"}),
    ("gfx942", {**BATCH, "v_layout": "columns", "mask": "xformers:11"}),
    ("gfx942", {**BATCH, "v_layout": "columns", "sk": 144, "schedule": "qr_async_trload", "dtype": "fp8"}),
    ("gfx90a", {**BATCH, "dtype": "f32", "sink": 1}),
]
WIDE = [
    (chip, {**shape, **part, "dtype": dtype, "d": d})
    for chip in CHIPS
    for shape in (BATCH, GROUP, SLOTS, LENGTHS)
    for part in (
        {}, {"soft_cap": 5}, {"alibi": "head"}, {"bias": "head"}, {"sink": 1}, {"dropout": 0.2, "randval": 1},
        {"sink": 1, "dropout": 0.5, "alibi": "head", "mask": "window:30,0,4"},
    )
    for dtype in ("f16", "bf16", "f32", "fp8")
    for d in (64, 128)
]  # fmt: skip
HEADS = [
    (chip, {**BATCH, "d": d, "dv": dv, "dtype": dtype})
    for chip in CHIPS
    for d, dv in ((80, 80), (96, 96), (160, 160), (192, 192), (192, 128), (256, 256))
    for dtype in ("f16", "bf16", "f32", "fp8")
]


@pytest.mark.one_in(16)
@pytest.mark.parametrize(
    ("chip", "keys"),
    [*CASES, ("gfx942", HEADS[0][1]), *(pytest.param(*one, marks=pytest.mark.full) for one in (*HEADS, *WIDE))],
    ids=named,
)
def test_parts(chip: str, keys: Keys) -> None:
    if keys.get("dtype") == "fp8" and chip == "gfx90a":
        pytest.skip("gfx90a has no fp8")
    outcome(FMHA, chip, keys)


def test_a_logit_under_a_soft_cap() -> None:
    """Queries without keys have the logit as LSE, which loses and gains the cap on its way through the loop."""
    outcome(FMHA, "gfx942", {**LENGTHS, "soft_cap": 30, "sink": 1})


PROVED: list[Keys] = [
    {"bias": "head", "sk": 200}, {"alibi": "head", "soft_cap": None, "dropout": 0.1}, {"sink": 1, "soft_cap": 5},
    {"mask": "window_bottom_right:9,3,4"}, {"v_layout": "columns"}, GROUP, {**SLOTS, "mask": "bottom_right"},
    {"dtype": "f32"},
]  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("chip", "keys", "schedule"), [
    *zip(("gfx90a", "gfx942", "gfx950") * 3, PROVED, ("qr",) * len(PROVED), strict=False),
    *(pytest.param(chip, keys, schedule, marks=pytest.mark.full)
      for chip in CHIPS for keys in PROVED for schedule in ATTENTION),
])  # fmt: skip
def test_schedules_are_proved(chip: str, keys: Keys, schedule: str) -> None:
    """For every number of steps, also where lengths come from memory."""
    target = get_target(chip)
    problem = FMHA.problem(**{"h": 1, "d": 32, **keys}, schedule=schedule)
    spec = FMHA.spec(problem, target)
    if FMHA.validate(spec, target):
        pytest.skip("this chip does not take the schedule")
    bench = Workbench.of(FMHA, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()


# -- references, by loops over queries and keys


def slow_attention(problem: Any, arrays: dict[str, Any], number: int, head: int, keys: Keys) -> list[tuple[Any, float]]:
    """O and LSE of each query of a sequence, by the definitions of the parts; layout bhsd."""
    starts, lengths = {}, {}
    for side, longest in (("q", problem.sq), ("k", problem.sk)):
        start = int(arrays[f"seqstart_{side}"][number]) if f"seqstart_{side}" in arrays else 0
        ends = arrays[f"seqstart_{side}"][number + 1] - start if f"seqstart_{side}" in arrays else longest
        starts[side] = start
        lengths[side] = int(arrays[f"seqlen_{side}"][number]) if f"seqlen_{side}" in arrays else int(ends)
    batch = 0 if "mode" in keys else number
    shared, found = head // (problem.h // problem.hk), []
    for i in range(lengths["q"]):
        query = arrays["q"][batch, head, starts["q"] + i].astype(np.float64)
        total = math.exp(arrays["sink"][head]) if "sink" in keys else 0.0
        sums = np.zeros(problem.dv)
        for j in range(lengths["k"]):
            distance = j - i - (lengths["k"] - lengths["q"]) * problem.mask.bottom_right
            left, right = problem.mask.left, problem.mask.right
            if (right >= 0 and distance > right) or (left >= 0 and distance < -left and j >= problem.mask.sink):
                continue
            score = problem.scale * float(query @ arrays["k"][batch, shared, starts["k"] + j].astype(np.float64))
            if "soft_cap" in keys:
                score = keys["soft_cap"] * math.tanh(score / keys["soft_cap"])
            if "bias" in keys:
                score += float(arrays["bias"][0, head, starts["q"] + i, j])
            if "alibi" in keys:
                apart = abs(i + lengths["k"] - lengths["q"] - j) if str(problem.mask) == "none" else -j
                score -= float(arrays["slopes"][head]) * apart
            total += math.exp(score)
            value = arrays["v"][batch, shared]
            value = value[:, starts["k"] + j] if problem.v_layout == "columns" else value[starts["k"] + j]
            sums += math.exp(score) * value.astype(np.float64)
        found.append((sums / total if total else sums, math.log(total) if total else -math.inf))
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shape", [
    {"b": 2, "sq": 5, "sk": 9}, {"mode": "group", "seqlens_q": (4, 0, 7), "seqlens_k": (5, 3, 2)},
    {"seqlens_q": (4, 0, 7), "seqlens_k": (5, 3, 2)}, {"b": 1, "sq": 3, "sk": 0},
    {"mode": "group", "seqlens_q": (4, 7), "seqlens_k": (5, 2), "slots_q": (4, 9), "slots_k": (7, 2)},
])  # fmt: skip
@pytest.mark.parametrize("part", [
    {}, {"soft_cap": 2.0}, {"bias": "head"}, {"alibi": "head"}, {"alibi": "head", "mask": "top_left"}, {"sink": 1},
    {"mask": "window_bottom_right:1,1,2"}, {"v_layout": "columns"},
])  # fmt: skip
def test_the_reference_is_what_the_parts_say(shape: Keys, part: Keys) -> None:
    keys = {**shape, **part}
    if "v_layout" in keys and "mode" in keys:
        pytest.skip("V in columns has no group mode")
    problem = FMHA.problem(h=4, hk=2, d=8, dv=16, lse=1, **keys)
    arrays = FMHA.inputs(problem, GFX942, seed=1)
    outputs = FMHA.reference(problem, arrays)
    for number in range(problem.b):
        row = int(arrays["seqstart_q"][number]) if "mode" in keys else 0
        for head in range(problem.h):
            for i, (o, lse) in enumerate(slow_attention(problem, arrays, number, head, keys)):
                own = (head, row + i) if "mode" in keys else (number, head, i)
                found = outputs["o"][0 if "mode" in keys else number, head, row + i]
                np.testing.assert_allclose(found, o, rtol=1e-10, atol=1e-12)
                np.testing.assert_allclose(outputs["lse"][own], lse, rtol=1e-10, atol=1e-12)


# -- dropout


def plain_philox(counter: list[int], seed: int) -> list[int]:
    """Seven rounds of Philox 4x32 in Python's integers."""
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(7):
        first, second = counter[0] * 0xD2511F53, counter[2] * 0xCD9E8D57
        counter = [
            (second >> 32) ^ counter[1] ^ key[0], second & 0xFFFFFFFF, (first >> 32) ^ counter[3] ^ key[1],
            first & 0xFFFFFFFF,
        ]  # fmt: skip
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def test_philox_is_the_published_one() -> None:
    """Known answers of the authors' library (Random123, kat_vectors: philox4x32 7)."""
    for word, answer in (
        (0, "5f6fb709 0d893f64 4f121f81 4f730a48"),
        (0xFFFFFFFF, "5207ddc2 45165e59 4d8ee751 8c52f662"),
    ):
        counter = [np.array([word], np.uint64)] * 4
        found = [int(one[0]) for one in philox(counter, word | word << 32)]
        assert found == [int(one, 16) for one in answer.split()] == plain_philox([word] * 4, word | word << 32)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("offset", "seeds"), [(2**32 - 40, "memory"), (2**40 + 2**32 - 70, "value")])
def test_stored_random_numbers(offset: int, seeds: str) -> None:
    """Bit for bit what a plain Philox gives, also where the counter's lower word wraps; and the share that is kept."""
    seed = 2**63 + 12345
    given = {} if seeds == "memory" else {"seed": seed, "offset": offset}
    problem = FMHA.problem(h=2, sq=40, sk=71, d=32, dropout=0.25, randval=1, seeds=seeds, **given)
    arrays = FMHA.inputs(problem, GFX942, seed=1)
    if seeds == "memory":
        for name, number in (("seed", seed), ("offset", offset)):
            arrays[f"drop_{name}"] = np.array([number & 0xFFFFFFFF, number >> 32], np.uint32).view(np.int32)
    result = run_operator(FMHA, problem, arrays, GFX942, SimulatorDevice(GFX942))
    assert all(one.ok for one in check_outputs(FMHA, problem, arrays, result.outputs, GFX942))
    stored = result.outputs["randval"].view(np.uint8)
    for head, row, key in [(0, 0, 0), (1, 39, 70), (0, 33, 31), (1, 5, 36), (0, 17, 44)]:
        lane = row % 32 + 32 * (key // 4 % 2)
        start = offset + 64 * head + lane
        words = plain_philox([start & 0xFFFFFFFF, start >> 32, row // 32, key // 32], seed)
        assert stored[0, head, row, key] == words[key // 8 % 4] >> 8 * (key % 4) & 255
    share, draws = (int(0.75 * 255) + 1) / 256, stored.size
    assert abs((stored <= int(0.75 * 255)).mean() - share) < 4 * math.sqrt(share * (1 - share) / draws)


def test_dropout_depends_on_its_seed() -> None:
    """Seeds, offsets, heads and batches draw other bytes; the same request the same."""
    kept = []
    for keys in ({}, {"seed": 2}, {"offset": 1}, {}):
        problem = FMHA.problem(b=2, h=2, sq=64, sk=64, d=8, dropout=0.5, randval=1, **keys)
        kept.append(FMHA.reference(problem, FMHA.inputs(problem, GFX942))["randval"])
    assert (kept[0] == kept[3]).all()
    parts = [kept[0][0, 0], kept[0][0, 1], kept[0][1, 0], kept[1][0, 0], kept[2][0, 0]]
    assert all((one == other).mean() < 0.1 for place, one in enumerate(parts) for other in parts[:place])


# -- lengths


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keys", [SLOTS, LENGTHS])
def test_rows_behind_a_sequence_are_not_written(keys: Keys) -> None:
    problem, arrays, outputs = outcome(FMHA, "gfx942", keys)
    (spec,) = (one for one in FMHA.arrays(problem) if one.name == "o")
    before = untouched(spec).view(np.float16).reshape(problem.shape("o"))
    found, before = (problem.by_head(one).view(np.uint16) for one in (outputs["o"], before))
    behind = np.ones(found.shape[::2], np.bool_)  # (batch, row)
    for place in problem.places(arrays):
        behind[place.batch, place.memory_rows] = False
    assert behind.any()
    same = (found == before).all(axis=(1, 3))
    np.testing.assert_array_equal(same, behind)


def test_one_kernel_serves_all_lengths() -> None:
    """Lengths and strides are no part of the specification, and memory may hold others than the request's."""
    problem = FMHA.problem(**SLOTS)
    spec = FMHA.spec(problem, GFX942)
    other = FMHA.problem(**{**SLOTS, "seqlens_q": (1, 2, 3), "seqlens_k": (104, 0, 1), "sq": 130})
    assert FMHA.spec(other, GFX942) == spec and FMHA.mismatches(other, spec, GFX942) == []
    assert FMHA.mismatches(replace(other, queries=replace(other.queries, longest=3)), spec, GFX942) == []
    plain = FMHA.problem(**{**SLOTS, "mode": "batch", "slots_q": None, "slots_k": None})
    assert "sequences" in {reason.field for reason in FMHA.mismatches(plain, spec, GFX942)}
    arrays = FMHA.inputs(problem, GFX942, seed=1)
    arrays["seqstart_q"][:] = 3, 20, 20, 219
    arrays["seqlen_q"][:] = 17, 0, 100
    result = run_operator(FMHA, problem, arrays, GFX942, SimulatorDevice(GFX942, checks=parse_checks("all")))
    assert all(one.ok for one in check_outputs(FMHA, problem, arrays, result.outputs, GFX942))


@pytest.mark.parametrize(("name", "values", "words"), [
    ("seqstart_q", [0, 80, 70, 220], "array seqstart_q: 70 follows 80; expected numbers that do not fall"),
    ("seqstart_k", [0, 104, 154, 188], "array seqstart_k: it has rows 0 to 188; expected rows from 0 to 187"),
    ("seqstart_k", [-8, 104, 154, 187], "array seqstart_k: it has rows -8 to 187"),
    ("seqlen_q", [70, 11, 130], "array seqlen_q: sequence 1 has 11 rows; expected 0 to 10"),
    ("seqlen_k", [-1, 1, 1], "array seqlen_k: sequence 0 has -1 rows; expected 0 to 100"),
])  # fmt: skip
def test_arrays_that_no_sequences_have(
    name: str, values: list[int], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, before anything runs."""
    file = tmp_path / "given.npy"
    np.save(file, np.array(values, np.int32))
    text = [f"{key}={','.join(map(str, one)) if isinstance(one, tuple) else one}" for key, one in SLOTS.items()]
    assert cli.main(["run", "fmha_fwd", *text, "--arch", "gfx942", "--input", f"{name}={file}"]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


@pytest.mark.parametrize(("keys", "words"), [
    ({"mode": "group"}, "mode=group: it needs seqlens_q and seqlens_k"),
    ({"mode": "group", "seqlens_q": "5"}, "seqlens_q=5: it needs seqlens_k"),
    ({"mode": "group", "seqlens_q": "5,6", "seqlens_k": "5"}, "seqlens_k=5: 1 numbers for 2 sequences"),
    ({"mode": "group", "seqlens_q": "5", "seqlens_k": "5", "b": 2}, "seqlens_q=5: 1 numbers for 2 sequences"),
    ({"mode": "group", "seqlens_q": "5", "seqlens_k": "5", "slots_q": "4"}, "slots_q=4: 4 rows do not hold"),
    ({"mode": "group", "seqlens_q": "5", "seqlens_k": "5", "slots_k": "5,5"}, "slots_k=5,5: 2 numbers for 1"),
    ({"mode": "group", "seqlens_q": "5", "seqlens_k": "5", "sq": 4}, "sq=4: a sequence has 5"),
    ({"mode": "group", "seqlens_q": "5", "seqlens_k": "5", "v_layout": "columns"}, "v_layout=columns: in group"),
    ({"mode": "group", "seqlens_q": "5", "seqlens_k": "5", "bias": "batch"}, "bias=batch: in group mode"),
    ({"mode": "group", "seqlens_q": "5", "seqlens_k": "5", "bias": "sequence"}, "bias=sequence: in group mode"),
    ({"mode": "group", "seqlens_q": "2147483647,1", "seqlens_k": "5,5"}, "more than 2147483647 rows together"),
    ({"seqlens_q": "5,-1"}, "seqlens_q=5,-1: -1 is among them"),
    ({"seqlens_q": "5", "sq": 4}, "seqlens_q=5: a sequence of 5; expected at most sq=4"),
    ({"slots_q": "5"}, "slots_q=5: only mode=group has slots"),
    ({"soft_cap": 30, "bias": "one"}, "soft_cap=30.0: it does not go with bias=one"),
    ({"soft_cap": 30, "alibi": "head"}, "soft_cap=30.0: it does not go with alibi=head"),
    ({"alibi": "head", "bias": "head"}, "alibi=head: it does not go with bias=head"),
    ({"soft_cap": 1e6}, "soft_cap=1000000.0: expected a number from"),
    ({"soft_cap": -1}, "soft_cap=-1: expected a finite number"),
    ({"bias_stride": 300}, "bias_stride=300: there is no bias"),
    ({"bias": "one", "bias_stride": 255}, "bias_stride=255: rows have 256 elements"),
    ({"bias": "one", "bias_stride": 2**31 - 1}, "which is 2 GiB or more"),
    ({"dropout": 1}, "dropout=1.0: expected a probability from 0"),
    ({"seed": 2**64}, "seed=18446744073709551616: expected a whole number from 0 to 18446744073709551615"),
    ({"dropout": 0.1, "seeds": "memory", "seed": 3}, "seed=3: seeds=memory takes it from array drop_seed"),
    ({"seed": 3}, "seed=3: nothing is dropped"),
    ({"seeds": "memory"}, "seeds=memory: nothing is dropped"),
    ({"mask": "window:1,2,-3"}, "S is a number of keys"),
    ({"mask": "generic:0,5"}, "expected Y and X from 1"),
    ({"mask": "xformers:"}, "mask=xformers:: expected none|"),
])  # fmt: skip
def test_requests_that_are_refused(keys: Keys, words: str) -> None:
    with pytest.raises(RequestError, match=re.escape(words)) as caught:
        FMHA.problem(**keys)
    assert "\n" not in str(caught.value)
