"""Which schedule attention takes where none is named, by chip, type, channels, mask and number of workgroups."""

from __future__ import annotations

from typing import Any

import pytest

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.targets import get_target

FMHA = find_operator("fmha_fwd")
MANY = {"b": 1, "h": 16, "sq": 4096, "d": 128}
TURNS, AHEAD = "qr_async_ping_pong", "qr_two_ahead"


@pytest.mark.parametrize(("chip", "keys", "schedule"), [
    ("gfx90a", MANY, "qr_woven"),
    ("gfx942", MANY, "qr_woven"),
    ("gfx950", MANY, "qr_woven_async"),
    ("gfx942", {**MANY, "dtype": "bf16", "sk": 4001}, "qr_woven"),
    ("gfx950", {**MANY, "dtype": "bf16", "sk": 4001}, "qr_woven_async"),
    ("gfx942", {**MANY, "sk": 4001, "d": 64}, "qr_woven"),
    ("gfx942", {**MANY, "sk": 64}, TURNS),
    ("gfx942", {**MANY, "sk": 128}, "qr_woven"),
    ("gfx950", {**MANY, "sk": 127}, "qr"),  # a short loop has a short prologue
    ("gfx950", {**MANY, "sk": 0}, "qr"),
    ("gfx942", {**MANY, "dtype": "fp8"}, "qr_woven_bytes"),
    ("gfx950", {**MANY, "dtype": "fp8"}, "qr_woven_async_deep"),
    ("gfx950", {**MANY, "dtype": "fp8", "d": 96}, "qr_woven_deep"),
    ("gfx950", {**MANY, "dtype": "fp8", "d": 96, "sk": 512}, "qr"),
    ("gfx950", {**MANY, "dtype": "fp8", "d": 64, "sk": 4001}, "qr_woven_async_deep"),
    ("gfx950", {**MANY, "dtype": "fp8", "d": 32, "sk": 1000}, "qr_woven_async_deep"),
    ("gfx950", {**MANY, "dtype": "fp8", "d": 256}, "qr"),
    ("gfx950", {**MANY, "dtype": "fp8", "d": 64, "mask": "top_left"}, "qr_woven_async_deep"),
    ("gfx950", {**MANY, "dtype": "fp8", "sk": 2001}, "qr_woven_async_deep"),
    ("gfx942", {**MANY, "dtype": "fp8", "sk": 511}, "qr"),
    ("gfx942", {**MANY, "dtype": "fp8", "d": 64}, "qr"),
    ("gfx942", {**MANY, "dtype": "fp8", "mask": "top_left"}, "qr_woven_bytes"),
    ("gfx942", {**MANY, "dtype": "fp8", "mask": "window:1024,0"}, "qr"),
    ("gfx942", {**MANY, "dtype": "fp8", "sq": 1024}, "qr_woven_bytes"),  # fewer workgroups than compute units
    ("gfx950", {**MANY, "d": 64}, "qr_woven_async"),
    ("gfx950", {**MANY, "d": 64, "sk": 192}, "qr_woven_async_far"),
    ("gfx942", {**MANY, "d": 256}, "qr_woven"),
    ("gfx950", {**MANY, "d": 256}, "qr_woven_async"),
    ("gfx950", {**MANY, "d": 256, "sk": 1000}, "qr_woven_async"),
    ("gfx950", {**MANY, "d": 192, "mask": "window:600,0"}, "qr_woven_async"),
    ("gfx942", {**MANY, "d": 128, "dv": 64}, "qr_woven"),
    ("gfx950", {**MANY, "d": 192, "dv": 128}, "qr_woven_async"),
    ("gfx950", {**MANY, "d": 128, "dv": 96}, "qr_woven"),  # copies do not fill rows of 96
    ("gfx942", {**MANY, "mask": "top_left"}, "qr_woven"),
    ("gfx942", {**MANY, "h": 20, "mask": "top_left"}, "qr_woven"),
    ("gfx90a", {**MANY, "mask": "top_left"}, "qr_woven"),
    ("gfx90a", {**MANY, "h": 6, "mask": "top_left"}, "qr_woven"),
    ("gfx950", {**MANY, "mask": "top_left"}, "qr_woven_async"),
    ("gfx942", {**MANY, "mask": "top_left", "sq": 4000, "sk": 4001}, "qr_woven"),
    ("gfx950", {**MANY, "mask": "top_left", "d": 64}, "qr_woven_async"),
    ("gfx942", {**MANY, "mask": "top_left", "d": 64}, "qr_woven"),
    ("gfx950", {**MANY, "mask": "window:600,0"}, "qr_woven_async"),
    ("gfx950", {**MANY, "mask": "window:128,0"}, "qr"),
    ("gfx950", {**MANY, "mask": "window:255,0", "d": 64}, "qr_woven_async"),
    ("gfx950", {**MANY, "mask": "window:255,0,4", "d": 64}, "qr_woven_async_far"),
    ("gfx950", {**MANY, "mask": "window:254,0"}, "qr"),
    ("gfx942", {**MANY, "mask": "window:600,0"}, "qr_woven"),
    ("gfx942", {**MANY, "mask": "window:126,0"}, AHEAD),
    ("gfx942", {**MANY, "sq": 100, "sk": 4096}, "qr_woven"),  # 16 workgroups
    ("gfx942", {**MANY, "schedule": "qr"}, "qr"),
    ("gfx950", {**MANY, "schedule": TURNS}, TURNS),
])  # fmt: skip
def test_choice(chip: str, keys: dict[str, Any], schedule: str) -> None:
    target = get_target(chip)
    problem = FMHA.problem(**keys)
    spec = FMHA.spec(problem, target)
    assert spec.schedule == schedule and FMHA.validate(spec, target) == []
    chosen = FMHA.chosen(problem, spec)
    assert chosen.pop("edge") == spec.edge
    assert chosen == ({} if "schedule" in keys else {"schedule": schedule})


BYTES = {**MANY, "sk": 4096, "d": 64, "dtype": "fp8"}
LONG: list[tuple[str, dict[str, Any], int]] = [
    ("gfx942", BYTES, 128),
    ("gfx950", {**BYTES, "schedule": "qr"}, 128),
    ("gfx950", {**BYTES, "sk": 4001, "mask": "bottom_right", "lse": 1}, 128),
    ("gfx942", {**BYTES, "alibi": "head"}, 128),
    ("gfx950", {**BYTES, "soft_cap": 30}, 128),
    ("gfx90a", {**MANY, "d": 32}, 128),
    ("gfx942", {**MANY, "d": 32, "dtype": "bf16", "mask": "top_left"}, 128),
    ("gfx950", {**BYTES, "mode": "group", "seqlens_q": (4096, 100), "seqlens_k": (4096, 4001)}, 128),
    ("gfx950", {**BYTES, "sk": 192}, 64),  # whose second block would be half empty
    ("gfx950", {**BYTES, "soft_cap": 30, "mask": "top_left"}, 64),  # 259 registers
    ("gfx90a", {**MANY, "d": 32, "mask": "window:300,10"}, 64),  # spilled three scalar registers
    ("gfx942", {**BYTES, "mask": "window:500,0,4"}, 64),  # eight
    ("gfx942", {**BYTES, "dropout": 0.2}, 64),
    ("gfx942", {**BYTES, "d": 96}, 64),
    ("gfx950", {**MANY, "d": 64, "schedule": "qr"}, 64),
]
"""Requests of attention forward, and the keys of a step."""


@pytest.mark.parametrize(("chip", "keys", "block"), LONG)
def test_steps_of_short_rows_take_more_keys(chip: str, keys: dict[str, Any], block: int) -> None:
    spec = FMHA.spec(FMHA.problem(**{**keys, "b": 2, "schedule": "qr"}), get_target(chip))
    assert (spec.schedule, spec.block) == ("qr", (128, block))


HALVES = {**MANY, "sk": 4096, "d": 64}
WOVEN_LONG: list[tuple[dict[str, Any], tuple[int, int], str]] = [
    ({}, (256, 128), "qr_woven_async"),
    ({"dtype": "bf16", "sk": 4001, "lse": 1}, (256, 128), "qr_woven_async"),
    ({"mask": "bottom_right"}, (128, 128), "qr_woven_async"),  # four waves
    ({"dtype": "bf16", "mask": "bottom_right", "sq": 4001, "sk": 4001, "lse": 1}, (128, 128), "qr_woven_async"),
    ({"mask": "window:300,10", "sq": 4001, "sk": 4001, "lse": 1}, (128, 128), "qr_woven_async"),
    ({"d": 48, "schedule": "qr_woven_async", "edge": "none"}, (256, 128), "qr_woven_async"),
    ({"mode": "group", "seqlens_q": (4001, 4000), "seqlens_k": (4001, 4000), "mask": "bottom_right", "lse": 1},
     (128, 128), "qr_woven_async"),
    ({"dtype": "fp8", "sk": 4001, "lse": 1}, (128, 128), "qr_woven_async_deep"),
    ({"dtype": "fp8", "d": 32, "schedule": "qr_woven_deep"}, (256, 128), "qr_woven_deep"),
    ({"sk": 192}, (256, 64), "qr_woven_async_far"),
    ({"alibi": "head"}, (256, 64), "qr_woven_async_far"),
    ({"mask": "window:600,0,4"}, (128, 64), "qr_woven_async_far"),
    ({"mask": "top_left", "schedule": "qr_woven_async", "edge": "qr_async"}, (128, 64), "qr_woven_async"),
]  # fmt: skip
"""Requests of 64 channels, or 32, on gfx950, their blocks and schedules."""


@pytest.mark.parametrize(("keys", "block", "schedule"), WOVEN_LONG)
def test_woven_steps_of_short_rows_take_more_keys(
    keys: dict[str, Any], block: tuple[int, int], schedule: str
) -> None:
    """A copy to LDS arrives within a step of 128 keys, so that two buffers are enough, not four."""
    spec = FMHA.spec(FMHA.problem(**{**HALVES, "b": 2, **keys}), get_target("gfx950"))
    assert (spec.block, spec.schedule) == (block, schedule)
    assert FMHA.validate(spec, get_target("gfx950")) == []


@pytest.mark.parametrize(("name", "block"), [
    ("fmha_fwd_pagedkv", 128), ("fmha_batch_prefill", 128), ("fmha_fwd_splitkv", 128), ("sparse_attention", 64),
])  # fmt: skip
def test_a_long_block_lies_in_one_page(name: str, block: int) -> None:
    operator, target = find_operator(name), get_target("gfx950")
    keys = {"h": 16, "sq": 4096, "sk": 4096, "d": 64, "dtype": "fp8"}
    for size in (64, 128) if block > 64 else (0,):
        own = {"page_size": size} if size else {}
        assert operator.spec(operator.problem(**keys, **own), target).block[1] == (block if size >= block else 64)


@pytest.mark.one_in(16)
@pytest.mark.parametrize(("chip", "keys"), [
    *((chip, keys) for chip, keys, block in LONG if block == 128),
    *(("gfx950", {**HALVES, **keys}) for keys, block, _ in WOVEN_LONG if block[1] == 128),
])  # fmt: skip
def test_long_steps_leave_registers_for_two_waves(chip: str, keys: dict[str, Any]) -> None:
    target = get_target(chip)
    spec = FMHA.spec(FMHA.problem(**{**keys, "b": 2}), target)
    metadata = compile_kernel(FMHA, spec, target).code_object.kernel().metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    assert metadata.vgpr_count <= 256


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
def test_a_long_step_rescales_its_sums_once(chip: str) -> None:
    """16 packed multiplications of O, and one decay, for 128 keys; loads of V bring two keys of a channel, or gfx950
    turns it while it reads LDS."""
    target = get_target(chip)
    kernel = compile_kernel(FMHA, FMHA.spec(FMHA.problem(**BYTES, schedule="qr"), target), target)
    loop = steady_loop(kernel.code_object, kernel.kernel_name)
    names = [one.mnemonic for one in loop.instructions]
    assert (names.count("v_exp_f32"), names.count("v_pk_mul_f32"), names.count("s_barrier")) == (64 + 1, 16, 2)
    assert loop.mix["valu"] <= {"gfx942": 264, "gfx950": 249}[chip]


PAGES = {"b": 1, "h": 16, "sq": 4096, "sk": 4096, "d": 128}
BESIDE: list[tuple[str, str, dict[str, Any], str, int]] = [
    ("fmha_fwd", "gfx950", {**MANY, "soft_cap": 30}, "qr_woven_async", 256),
    ("fmha_fwd", "gfx942", {**MANY, "soft_cap": 30}, "qr_woven", 128),  # 256 leave too few registers
    ("fmha_fwd", "gfx942", {**MANY, "soft_cap": 30, "dtype": "bf16"}, "qr_woven", 256),  # without largest scores not
    ("fmha_fwd", "gfx942", {**MANY, "alibi": "head", "sink": 1}, "qr_woven", 128),
    ("fmha_fwd", "gfx950", {**MANY, "bias": "head", "mask": "top_left", "d": 64}, "qr_woven_async_far", 128),
    ("fmha_fwd", "gfx950", {**MANY, "sink": 1, "mask": "window:600,0"}, "qr_woven_async", 128),
    ("fmha_fwd", "gfx950", {**MANY, "sink": 1, "mask": "window:600,0,4"}, "qr_woven_async", 128),
    ("fmha_fwd", "gfx950", {**MANY, "dropout": 0.2}, "qr_woven_async", 128),
    ("fmha_fwd", "gfx942", {**MANY, "dropout": 0.2, "d": 64}, "qr", 128),
    ("fmha_fwd_pagedkv", "gfx942", {**PAGES, "page_size": 128}, "qr_woven", 256),
    ("fmha_fwd_pagedkv", "gfx950", {**PAGES, "page_size": 64, "alibi": "head"}, "qr_woven_async", 128),
    ("fmha_fwd_pagedkv", "gfx950", {**PAGES, "page_size": 16}, "qr_woven", 256),
    ("fmha_fwd_pagedkv", "gfx942", {**PAGES, "page_size": 1}, "qr_woven", 256),
    ("fmha_fwd_pagedkv", "gfx942", {**PAGES, "page_size": 16, "pages": 49152}, "qr_woven", 128),  # 3 GiB
    ("fmha_fwd_pagedkv", "gfx90a", {**PAGES, "page_size": 16}, "qr_woven", 128),
    ("fmha_fwd_pagedkv", "gfx90a", {**PAGES, "page_size": 32, "dtype": "bf16"}, "qr_woven", 128),
    ("fmha_fwd_pagedkv", "gfx942", {**PAGES, "page_size": 1, "dtype": "bf16"}, "qr_woven", 256),
    ("fmha_fwd_pagedkv", "gfx942", {**PAGES, "page_size": 16, "d": 64}, "qr_woven", 256),
    ("fmha_fwd_pagedkv", "gfx950", {**PAGES, "page_size": 16, "mask": "bottom_right"}, "qr_woven", 128),
    ("fmha_fwd_pagedkv", "gfx90a", {**PAGES, "page_size": 16, "soft_cap": 30}, "qr_woven", 128),
    ("fmha_fwd_splitkv", "gfx942", {**PAGES, "page_size": 64, "splits": 2}, AHEAD, 128),
    ("fmha_fwd_pagedkv", "gfx942", {**PAGES, "page_size": 16, "mask": "bottom_right"}, "qr_woven", 128),
    ("fmha_fwd", "gfx90a", {**MANY, "mask": "window:600,0,4"}, "qr_woven", 128),
    ("fmha_fwd", "gfx942", {**MANY, "mask": "generic:1,1", "v_layout": "columns"}, "qr", 128),  # spilled a register
    ("fmha_fwd", "gfx942", {**MANY, "mask": "window:600,0", "soft_cap": 1}, "qr_woven", 128),
]
"""Operators, chips and requests with a schedule and the height of a block."""


@pytest.mark.parametrize(("name", "chip", "keys", "schedule", "rows"), BESIDE)
def test_choice_beside_parts_and_pages(name: str, chip: str, keys: dict[str, Any], schedule: str, rows: int) -> None:
    """Parts, and K and V in pages, weave as the plain softmax does, in blocks of half as many rows where others leave
    too few registers."""
    operator, target = find_operator(name), get_target(chip)
    spec = operator.spec(operator.problem(**keys), target)
    assert (spec.schedule, spec.block[0]) == (schedule, rows) and operator.validate(spec, target) == []


@pytest.mark.one_in(20)
@pytest.mark.parametrize(("name", "chip", "keys"), [one[:3] for one in BESIDE])
def test_what_weaves_beside_them_spills_nothing(name: str, chip: str, keys: dict[str, Any]) -> None:
    operator, target = find_operator(name), get_target(chip)
    kernel = compile_kernel(operator, operator.spec(operator.problem(**keys), target), target)
    metadata = kernel.code_object.kernel().metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)


GROUP = {"mode": "group", "seqlens_q": (4096, 4096), "seqlens_k": (4096, 4096), "h": 16, "d": 128}


@pytest.mark.parametrize(("chip", "keys", "edge"), [
    ("gfx950", {**MANY, "mask": "top_left"}, "none"),  # waves branch around the mask
    ("gfx950", {**MANY, "mask": "window:600,0,4"}, "none"),
    ("gfx950", {**MANY, "mask": "window:600,0,4", "d": 64}, "qr_async_trload"),
    ("gfx950", {**MANY, "mask": "window:600,0,4", "d": 64, "sink": 1}, "none"),
    ("gfx950", {**MANY, "mask": "window:128,0"}, "none"),
    ("gfx950", MANY, "none"),
    ("gfx950", {**MANY, "sk": 4001}, "none"),
    ("gfx950", {**GROUP, "mask": "bottom_right"}, "none"),
    ("gfx942", {**MANY, "mask": "top_left"}, "none"),
    ("gfx942", {**MANY, "mask": "top_left", "d": 64}, "none"),
    ("gfx942", {**MANY, "mask": "window:1100,0,4", "d": 64}, "none"),
    ("gfx942", {**MANY, "mask": "top_left", "dtype": "fp8"}, "none"),
    ("gfx950", {**MANY, "mask": "top_left", "dtype": "fp8", "d": 64, "sk": 500}, "qr"),
    ("gfx942", {**MANY, "mask": "top_left", "dtype": "fp8", "d": 64}, "none"),
    ("gfx942", {**MANY, "mask": "top_left", "sq": 256}, "none"),  # not woven
    ("gfx942", {**MANY, "mask": "top_left", "edge": "qr_async"}, "qr_async"),
])  # fmt: skip
def test_edges(chip: str, keys: dict[str, Any], edge: str) -> None:
    """The schedule of a second loop, over blocks of keys that the mask cuts."""
    target = get_target(chip)
    problem = FMHA.problem(**keys)
    spec = FMHA.spec(problem, target)
    assert spec.edge == edge and FMHA.validate(spec, target) == []
    assert FMHA.mismatches(problem, spec, target) == []


@pytest.mark.parametrize("channels", [0, 264, 5000])
def test_channels_that_no_tile_has(channels: int) -> None:
    """The choice leaves their refusal to the checks."""
    target = get_target("gfx942")
    try:
        problem = FMHA.problem(**{**MANY, "d": channels})
    except RequestError as refusal:
        assert f"d={channels}" in str(refusal)
        return
    (reason, *_) = FMHA.validate(FMHA.spec(problem, target), target)
    assert reason.field == "d"


@pytest.mark.parametrize("keys", [{"bias": "one"}, {"dropout": 0.5}, {"dtype": "fp8", "scales": "block"}, {"hk": 1}])
def test_no_queries_are_no_reason_to_refuse(keys: dict[str, object]) -> None:
    """Also with parts that work for blocks of one head."""
    target = get_target("gfx950")
    assert not FMHA.validate(FMHA.spec(FMHA.problem(sq=0, sk=200, **keys), target), target)
