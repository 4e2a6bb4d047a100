"""Prefill and decode in one launch: numbers under all checkers, the row of all sequences' blocks, keys that workgroups
share, other lengths in memory, what is refused, kernels without spills.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, named, outcome

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.attention.fmha_fwd_splitkv import splits_of
from ckmlir.ops.request import RequestError
from ckmlir.runtime import run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling import Workbench
from ckmlir.targets import get_target

UNIFIED, PREFILL = find_operator("unified_attention"), find_operator("fmha_batch_prefill")
GFX942 = get_target("gfx942")
Keys = dict[str, Any]

BOTH: Keys = {"h": 6, "hk": 2, "d": 64, "seqlens_q": (1, 0, 70, 3), "seqlens_k": (130, 9, 100, 3)}
DECODE: Keys = {"h": 8, "hk": 1, "d": 64, "seqlens_q": (1, 1, 1, 0, 1), "seqlens_k": (1, 150, 64, 30, 0)}

CASES: list[tuple[str, Keys]] = [
    ("gfx942", {**BOTH, "lse": 1, "sink": 1, "splits": 1}),
    ("gfx950", {**BOTH, "page_size": 64, "dtype": "bf16", "soft_cap": 5, "layout": "bhsd"}),
    ("gfx90a", {**BOTH, "page_size": 1, "mask": "window_bottom_right:50,0,4", "splits": 1}),
    ("gfx950", {**DECODE, "dtype": "fp8"}),
    ("gfx942", {**DECODE, "d": 128, "page_size": 64, "lse": 1, "mask": "window_bottom_right:70,0"}),
    ("gfx90a", {**DECODE, "h": 1, "dtype": "f32", "splits": 1}),
    ("gfx942", {**DECODE, "alibi": "head"}),
    ("gfx950", {**BOTH, "dtype": "fp8", "scales": "page", "out": "fp8", "o_scale": 3}),
    ("gfx942", {**BOTH, "dtype": "fp8", "scales": "block", "scale_keys": 64, "lse": 1, "splits": 1}),
    ("gfx90a", {**DECODE, "sink": 1, "lse": 1, "splits": 3}),
]
WIDE = [
    (chip, {**lengths, "page_size": size, "dtype": dtype, "d": d, "splits": splits, **more})
    for chip in CHIPS
    for lengths in (BOTH, DECODE)
    for size in (1, 16, 64, 1024)
    for dtype in ("f16", "bf16", "fp8", "f32")
    for d in (32, 96, 128, 256)
    for splits in (1, 3)
    for more in ({"lse": 1}, {"mask": "window_bottom_right:40,0", "soft_cap": 5}, {"sink": 1, "layout": "bhsd"})
    if dtype != "fp8" or chip != "gfx90a"
]
WIDE += [(chip, {**lengths, "splits": 128, "soft_cap": 5}) for chip in CHIPS for lengths in (BOTH, DECODE)]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("chip", "keys"), [*CASES, *(pytest.param(*one, marks=pytest.mark.full) for one in WIDE)], ids=named
)
def test_numbers(chip: str, keys: Keys) -> None:
    outcome(UNIFIED, chip, keys)


@pytest.mark.parametrize("h", [1, 3, 16])
@pytest.mark.parametrize("lengths", [(1,), (1, 0, 0, 1), (129, 1, 128, 127, 0, 200), (0, 0), (5, 700, 1, 1, 1)])
def test_every_block_is_somebodys(lengths: tuple[int, ...], h: int) -> None:
    """The row has a place for each block of each sequence; what the workgroup finds, in Python."""
    # One schedule, whether keys are shared or not: so blocks are as high.
    sizes: Keys = {"seqlens_q": lengths, "seqlens_k": lengths, "sq": max(*lengths, 1), "schedule": "qr"}
    problem = UNIFIED.problem(h=h, hk=1, d=64, splits=1, **sizes)
    spec = UNIFIED.spec(problem, GFX942)
    launch = UNIFIED.launch(problem, spec, GFX942)
    assert launch.is_empty == (not any(lengths))
    if launch.is_empty:
        return
    heads, axes, blocks = launch.grid
    assert (heads, axes, spec.packed, spec.order) == (1, 1, h > 1, "joined_falling")
    starts, rows = np.array([0, *itertools.accumulate(lengths)]) * h, spec.block[0]
    begins = starts[:-1] // rows + np.arange(len(lengths))
    found = []
    for place in range(blocks):
        sequence = int((begins <= place).sum()) - 1
        if (place - begins[sequence]) * rows < lengths[sequence] * h:
            found.append((sequence, place - begins[sequence]))
    assert found == [(one, block) for one, length in enumerate(lengths) for block in range(-(-length * h // rows))]
    shared = UNIFIED.problem(h=h, hk=1, d=64, splits=5, **sizes)
    assert UNIFIED.launch(shared, UNIFIED.spec(shared, GFX942), GFX942).grid == (heads, axes, 5 * blocks)
    window = UNIFIED.problem(h=h, hk=1, d=64, splits=5, mask="window_bottom_right:9,0", **sizes)
    assert UNIFIED.launch(window, UNIFIED.spec(window, GFX942), GFX942).grid == (5 * blocks, heads, axes)


@pytest.mark.parametrize(("keys", "expected"), [
    ({"hk": 8, "seqlens_q": (1,), "seqlens_k": (64,)}, 1),  # one block of keys
    ({"hk": 8, "seqlens_q": (1,) * 32, "seqlens_k": (8192,) * 32}, 1),  # 256 workgroups, enough for 304 units
    ({"hk": 8, "seqlens_q": (1,) * 4, "seqlens_k": (8192,) * 4}, 9),  # 32 workgroups
    ({"hk": 8, "seqlens_q": (1, 1, 1, 0), "seqlens_k": (8192, 1, 1, 1)}, 11),  # 24: no more than rows
    ({"hk": 8, "seqlens_q": (4096, 1), "seqlens_k": (4096, 8192)}, 1),  # 257 blocks of 8 heads
    ({"hk": 1, "seqlens_q": (1,), "seqlens_k": (8192,), "mask": "window_bottom_right:127,0"}, 3),  # of so many blocks
])  # fmt: skip
def test_the_rule(keys: Keys, expected: int) -> None:
    """How many share keys, by the rows and sequences of the request, for the 304 compute units of gfx942."""
    problem = UNIFIED.problem(h=64, d=128, **keys)
    assert splits_of(problem, UNIFIED.spec(problem, GFX942), GFX942) == expected
    assert UNIFIED.spec(problem, GFX942).split == (expected > 1)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("splits", [1, 2])
def test_memory_may_hold_other_lengths(splits: int) -> None:
    """One kernel and one launch serve all of as many queries and sequences, rows in front and behind included."""
    keys = {**BOTH, "sq": 74, "sk": 130, "splits": splits}
    arrays = UNIFIED.inputs(UNIFIED.problem(**keys), GFX942, seed=7)
    table = np.arange(arrays["block_table"].size).reshape(arrays["block_table"].shape) % arrays["k"].shape[0]
    given = {"seqstart_q": np.array([5, 6, 60, 61, 70], np.int32), "seqlen_k": np.array([130, 60, 0, 20], np.int32)}
    outcome(UNIFIED, "gfx942", keys, {**given, "block_table": table.astype(np.int32)})


def test_it_is_batch_prefill() -> None:
    """With the same blocks, and rows of one head, bit by bit."""
    keys = {**BOTH, "h": 2, "layout": "bshd", "page_size": 16, "mask": "bottom_right"}
    alone = {**keys, "splits": 1}
    arrays = UNIFIED.inputs(UNIFIED.problem(**keys), GFX942, seed=1)
    found = [
        run_operator(one, one.problem(**asked), arrays, GFX942, SimulatorDevice(GFX942)).outputs["o"]
        for one, asked in ((UNIFIED, alone), (PREFILL, keys))
    ]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(("keys", "text"), [
    ({"mask": "none"}, "mask=none: queries are the last of their sequence"),
    ({"mask": "top_left"}, "expected bottom_right"),
    ({"mask": "window_bottom_right:9,3"}, "mask=window_bottom_right:9,3"),
    ({"page_size": 48}, "page_size"),
    ({"seqlens_q": (1, 2), "seqlens_k": (3,)}, "seqlens_k=3"),
    ({"bias": "head"}, "bias"),
    ({"h": 5, "hk": 2}, "hk=2"),
    ({"splits": 129}, "splits=129"),
])  # fmt: skip
def test_refusals(keys: Keys, text: str) -> None:
    with pytest.raises(RequestError, match=text):
        UNIFIED.problem(**keys)


def test_lists_that_nobody_means() -> None:
    problem = UNIFIED.problem(**BOTH)
    arrays = UNIFIED.inputs(problem, GFX942)
    for name, value in (("block_table", 10**6), ("seqstart_q", 10**6), ("seqlen_k", -1)):
        with pytest.raises(RequestError, match=name):
            UNIFIED.check_inputs(problem, {**arrays, name: np.full_like(arrays[name], value)})


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "keys"), [("gfx90a", BOTH), ("gfx950", DECODE)])
def test_schedules_are_proved(chip: str, keys: Keys) -> None:
    target = get_target(chip)
    bench = Workbench.of(UNIFIED, UNIFIED.spec(UNIFIED.problem(**keys), target), target)
    assert bench.compile(bench.schedule, code=False).findings == ()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("number", [0, *(pytest.param(n, marks=pytest.mark.full) for n in range(1, 40))])
def test_no_spills(chip: str, number: int) -> None:
    target = get_target(chip)
    specs = UNIFIED.kernels(target)
    assert len(specs) <= 40 and any(one.order == "dealt" for one in specs)
    if number < len(specs):
        metadata = compile_kernel(UNIFIED, specs[number], target).code_object.kernel().metadata
        assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0), specs[number].name
        assert metadata.private_segment_size == 0
