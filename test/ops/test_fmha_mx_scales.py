"""fp8 and fp4 attention with a power of two for every 32 elements, which gfx950's matrix instructions apply: numbers
under all checkers, the reference against plain loops, special scales, what a step takes, and what is refused.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from operator_runner import named, outcome

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.ops.schedules import ATTENTION
from ckmlir.runtime import check_outputs
from ckmlir.scheduling import Workbench
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.targets import get_target

FMHA, SPLIT = find_operator("fmha_fwd"), find_operator("fmha_fwd_splitkv")
GFX950 = get_target("gfx950")
Keys = dict[str, Any]

MX: Keys = {"dtype": "fp8", "scales": "mx", "lse": 1}
FP4: Keys = {"dtype": "fp4"}
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
"""Magnitudes by code (OCP Microscaling Formats, 5.3.3)."""
BATCH: Keys = {**MX, "b": 2, "h": 4, "hk": 2, "sq": 70, "sk": 100}
GROUP: Keys = {**MX, "mode": "group", "seqlens_q": (70, 0, 30), "seqlens_k": (100, 50, 0)}
SLOTS: Keys = {**GROUP, "slots_q": (80, 10, 30), "slots_k": (104, 70, 5), "layout": "bshd", "hk": 1}
REFUSED = {
    128: {"qr_async_trload_ping_pong", "qr_woven", "qr_woven_async", "qr_woven_async_far"},
    256: {"qr_async_trload_ping_pong", "qr_woven", "qr_woven_async", "qr_woven_async_far",
          "qr_async_ping_pong", "qr_woven_bytes", "qr_woven_deep", "qr_woven_async_deep"},
}
"""By channels, schedules for elements of 16 bits, or that need more registers than there are."""
CASES: list[tuple[Any, Keys]] = [
    (FMHA, {**BATCH, "d": 80, "dv": 48, "mask": "top_left"}),
    (FMHA, {**SLOTS, "d": 128, "out": "fp8"}),
    (SPLIT, {**BATCH, "sq": 3, "sk": 300, "d": 64, "splits": 3}),
    (FMHA, {**GROUP, **FP4, "d": 96, "dv": 64}),
    (FMHA, {**BATCH, **FP4, "d": 64, "v_layout": "columns", "seqlens_k": (99, 62), "mask": "top_left"}),
]
WIDE = [
    (FMHA, {**shape, **more, "d": d})
    for shape in (BATCH, GROUP, SLOTS)
    for more in ({}, {"mask": "bottom_right"}, {"bias": "head"}, {"sink": 1, "soft_cap": 5}, {"alibi": "head"},
                 {"dropout": 0.3}, {"mask": "window:20,5,9", "out": "f32"})
    for d in (16, 32, 96, 128, 256)
] + [
    (operator, {**shape, **FP4, **more, "d": d})
    for operator, shape in ((FMHA, BATCH), (FMHA, SLOTS), (SPLIT, {**BATCH, "splits": 2}))
    for more in ({}, {"mask": "top_left"}, {"bias": "one"}, {"dropout": 0.3}, {"out": "fp8"}, {"out": "f32"})
    for d in (32, 128, 256)
    if operator is FMHA or not more
] + [
    (FMHA, {**BATCH, "sq": sq, "sk": sk, "d": 64}) for sq in (0, 1, 127, 129) for sk in (0, 1, 31, 33, 64, 257)
] + [
    (FMHA, {**BATCH, "d": 256, "v_layout": "columns"}),
] + [
    (operator, {**BATCH, **FP4, **more, "d": d, "v_layout": "columns", "layout": layout})
    for operator, more in (
        (FMHA, {"sk": 256}), (FMHA, {"sk": 62, "bias": "one", "dropout": 0.3}), (SPLIT, {"splits": 2}),
    )
    for d in (32, 128, 256) for layout in ("bhsd", "bshd")
] + [
    (FMHA, {**BATCH, "sq": 300, "d": d, "schedule": schedule}) for d in (128, 256)
    for schedule in ATTENTION if schedule not in REFUSED[d]
]  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("operator", "keys"), [*CASES, *(pytest.param(*one, marks=pytest.mark.full) for one in WIDE)], ids=named
)
def test_numbers(operator: Any, keys: Keys) -> None:
    outcome(operator, "gfx950", keys)


@pytest.mark.parametrize("d", REFUSED)
def test_schedules_are_refused(d: int) -> None:
    for schedule in ATTENTION:
        problem = FMHA.problem(**BATCH, d=d, schedule=schedule)
        assert bool(FMHA.validate(FMHA.spec(problem, GFX950), GFX950)) == (schedule in REFUSED[d]), schedule


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["q_scales", "k_scales", "v_scales"])
def test_a_scale_of_a_neighbour_does_not_pass(name: str) -> None:
    """With all scales of an array moved by one place, results of the right ones are wrong."""
    problem = FMHA.problem(**BATCH, d=64)
    arrays = FMHA.inputs(problem, GFX950, seed=7)
    right = FMHA.reference(problem, arrays)
    for axis in range(4):
        moved = {**arrays, name: np.roll(arrays[name], 1, axis)}
        assert not all(one.ok for one in check_outputs(FMHA, problem, moved, right, GFX950)), axis


@pytest.mark.full
def test_scales_from_end_to_end() -> None:
    """2^-127 and 2^100 of some blocks, and NaN of a query's: that query is NaN, all others are what they were."""
    keys = {**BATCH, "d": 64, "sq": 40, "sk": 70}
    problem = FMHA.problem(**keys)
    arrays = FMHA.inputs(problem, GFX950, seed=7)
    given = {name: arrays[name].copy() for name in ("q_scales", "k_scales", "v_scales")}
    given["k_scales"][0, 0, 5, 1], given["v_scales"][0, 1, 2] = 2.0**-127, 2.0**-127
    given["v_scales"][1, 0, 0, :8] = 2.0**100
    given["q_scales"][1, 3, 7, 0] = math.nan
    outputs = outcome(FMHA, "gfx950", keys, given).outputs
    lost = np.isnan(outputs["lse"])
    assert lost[1, 3, 7] and lost.sum() == 1
    assert np.isnan(outputs["o"][1, 3, 7].astype(np.float32)).all()


@pytest.mark.parametrize("keys", [
    {"b": 2, "sq": 5, "sk": 40, "d": 48, "dv": 32},
    {"mode": "group", "seqlens_q": (4, 0, 7), "seqlens_k": (5, 3, 33), "d": 32, "dv": 16},
    {"mode": "group", "seqlens_q": (4, 7), "seqlens_k": (5, 2), "slots_q": (4, 9), "slots_k": (37, 2), "d": 32},
    {"b": 2, "sq": 5, "sk": 40, "d": 64, "dv": 32, "dtype": "fp4"},
    {"b": 2, "sq": 5, "sk": 40, "d": 64, "dv": 32, "dtype": "fp4", "v_layout": "columns"},
])  # fmt: skip
def test_the_reference_is_what_the_scales_say(keys: Keys) -> None:
    """By loops over queries and keys, with the scales as codes."""
    problem = FMHA.problem(**{**MX, **keys}, h=4, hk=2)
    arrays = FMHA.inputs(problem, GFX950, seed=1)
    outputs, grouped = FMHA.reference(problem, arrays), "mode" in keys

    def factors(name: str, *place: int) -> Any:
        codes = arrays[f"{name}_scales"].view(np.uint8)[place[1:] if grouped else place].astype(int)
        return np.ldexp(1.0, codes - 127)

    def row(name: str, *place: int) -> Any:
        found = arrays[name][place]
        if "dtype" not in keys:
            return found.astype(np.float64)
        codes = np.stack([found & 15, found >> 4], axis=-1).reshape(-1)
        return np.where(codes & 8, -1.0, 1.0) * E2M1[codes & 7]

    def column(batch: int, head: int, key: int) -> Any:
        codes = arrays["v"][batch, head, :, key // 2] >> (4 * (key % 2))
        return np.where(codes & 8, -1.0, 1.0) * E2M1[codes & 7]

    columns = "v_layout" in keys
    for number in range(problem.b):
        batch = 0 if grouped else number
        (first, queries), (start, count) = problem.queries.of(arrays, number), problem.keys.of(arrays, number)
        block = int(arrays["scale_start_k"][number]) if grouped else 0
        for head in range(4):
            for i in range(queries):
                total, sums = 0.0, np.zeros(problem.dv)
                query = row("q", batch, head, first + i)
                query *= np.repeat(factors("q", number, head, first + i), 32)[: problem.d]
                for j in range(count):
                    key = row("k", batch, head // 2, start + j)
                    value = column(batch, head // 2, j) if columns else row("v", batch, head // 2, start + j)
                    key *= np.repeat(factors("k", number, head // 2, start + j), 32)[: problem.d]
                    weight = math.exp(query @ key / math.sqrt(problem.d))
                    total += weight
                    sums += weight * value * factors("v", number, head // 2, block + j // 32)
                found = outputs["o"][batch, head, first + i]
                np.testing.assert_allclose(found, sums / total if total else sums, rtol=1e-9, atol=1e-12)


@pytest.mark.full
def test_what_elements_of_four_bits_take() -> None:
    """Two conversions for two of them, and nothing that limits them: at most 70 vector instructions a step more than
    fp8 with such scales, for 64 elements a lane."""
    found = []
    for dtype in ("fp8", "fp4"):
        problem = FMHA.problem(b=8, h=16, sq=1024, sk=1024, d=128, dtype=dtype, scales="mx")
        kernel = compile_kernel(FMHA, FMHA.spec(problem, GFX950), GFX950)
        mix = steady_loop(kernel.code_object, kernel.kernel_name).mix
        found.append(8 * mix["valu"] / mix["mfma"])
    assert found[1] <= found[0] + 70, found


@pytest.mark.full
@pytest.mark.parametrize("d", [128, 256])
def test_what_a_step_takes(d: int) -> None:
    """Matrix instructions that scale, two steps at most side by side, and at most 60 vector instructions more than
    with one scale; nothing is spilled; all proved."""
    found = {}
    for scales in ("tensor", "mx"):
        problem = FMHA.problem(b=8, h=16, sq=1024, sk=1024, d=d, dtype="fp8", scales=scales)
        spec = FMHA.spec(problem, GFX950)
        kernel = compile_kernel(FMHA, spec, GFX950)
        metadata = kernel.code_object.kernel().metadata
        assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)
        mix = steady_loop(kernel.code_object, kernel.kernel_name).mix
        found[scales] = (mix["valu"] + mix["vmov"]) / mix["mfma"]
        assert mix["mfma"] % (d // 16) == 0
    assert found["mx"] <= found["tensor"] + 60 / (d // 16)
    bench = Workbench.of(FMHA, spec, GFX950)
    assert bench.compile(bench.schedule, code=False).findings == ()


@pytest.mark.parametrize(("operator", "keys", "words"), [
    (FMHA, {"scales": "mx"}, "scales=mx: only fp8 is scaled, not f16"),
    (FMHA, FP4, "dtype=fp4: its elements have a scale for every 32 of them; expected scales=mx"),
    (FMHA, {**MX, **FP4, "d": 48}, "d=48: heads of fp4 have a multiple of 32 from 32 to 256 channels"),
    (FMHA, {**MX, **FP4, "v_layout": "columns", "sk": 33},
     "v_layout=columns: 2 keys of fp4 share a byte, and there are 33; expected a multiple of 2 for sk"),
    (find_operator("sparse_attention"), FP4, "dtype=fp4: expected f16|bf16|fp8|f32"),
    (SPLIT, {"dtype": "fp8", "scales": "mx", "page_size": 16}, "scales=mx: K and V do not lie in rows"),
    (find_operator("fmha_fwd_pagedkv"), {"dtype": "fp8", "scales": "mx"}, "scales=mx: expected tensor|head|block|page"),
])  # fmt: skip
def test_refused(operator: Any, keys: Keys, words: str) -> None:
    with pytest.raises(RequestError, match=re.escape(words)):
        operator.problem(**keys)


def test_chips_without_such_instructions_are_named() -> None:
    problem, target = FMHA.problem(**MX), get_target("gfx942")
    reasons = FMHA.validate(FMHA.spec(problem, target), target)
    expected = "scales=mx: gfx942 has no matrix instructions that scale blocks of fp8; they start with gfx950"
    assert str(reasons[0]) == expected


def test_packed_elements_are_not_copied_to_lds() -> None:
    reasons = FMHA.validate(FMHA.spec(FMHA.problem(**MX | FP4, schedule="qr_async"), GFX950), GFX950)
    assert "elements of fp4 become fp8 between memory and LDS, which copies do not do; expected qr" in str(reasons[0])


def test_blocks_of_keys_that_are_not_there_are_refused() -> None:
    problem = FMHA.problem(**GROUP)
    arrays = FMHA.inputs(problem, GFX950, seed=1)
    arrays["scale_start_k"][1] = 6
    with pytest.raises(RequestError, match="array scale_start_k: sequence 1 has 2 blocks from 6 on; expected blocks"):
        FMHA.check_inputs(problem, arrays)
