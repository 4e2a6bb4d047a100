"""Shares of keys by what sequences cost: how many each has, that each block's are there once and none is much longer
than others, numbers under all checkers, other lengths in memory, what is refused, kernels without spills.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, named, outcome

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.operator import Run
from ckmlir.ops.request import RequestError
from ckmlir.scheduling import Workbench
from ckmlir.targets import get_target

SHARES, UNIFIED, COMBINE = map(find_operator, ("fmha_fwd_shares", "unified_attention", "fmha_fwd_splitkv_combine"))
GFX942 = get_target("gfx942")
Keys = dict[str, Any]

SKEWED: Keys = {"h": 8, "hk": 1, "d": 64, "seqlens_q": (1, 1, 0, 1, 1), "seqlens_k": (70, 1500, 9, 0, 130)}
BOTH: Keys = {"h": 6, "hk": 2, "d": 64, "seqlens_q": (1, 0, 70, 3), "seqlens_k": (600, 9, 100, 3)}


@pytest.mark.parametrize("seed", range(40))
def test_every_share_is_somebodys(seed: int) -> None:
    """The grid has a place for each share, and none is longer than one and a half means of all workgroups, or of the
    most shares."""
    random = Random(seed)
    count = random.randrange(1, 40)
    queries = tuple(random.choice((0, 1, 1, 1, 3, 40)) for _ in range(count))
    keys = tuple(random.choice((0, 1, 64, 500, 3000, 60000)) for _ in range(count))
    lengths: Keys = {"seqlens_q": queries, "seqlens_k": keys}
    problem = UNIFIED.problem(h=16, hk=2, d=64, **lengths, balanced=1, splits=random.choice((0, 9)))
    spec = UNIFIED.spec(problem, GFX942)
    if not spec.split:
        return
    first = next(step for step in UNIFIED.steps(problem, spec, GFX942) if isinstance(step, Run))
    found = first.problem.found({**problem.queries.values(), **problem.keys.values()})
    counts, begins = found["counts"], found["begins"]
    places, _, _ = UNIFIED.grid(problem, spec, GFX942)
    assert counts.min() >= 1 and counts.max() <= first.problem.most and begins[-1] <= places
    rows, columns = spec.block
    blocks = [-(-one * 8 // rows) for one in queries]
    assert np.array_equal(np.diff(begins), blocks * counts)
    steps = [max(-(-one // columns), 1) for one in keys]
    total = sum(block * step for block, step in zip(blocks, steps, strict=True))
    longest = max(-(-step // int(count)) for step, count in zip(steps, counts, strict=True))
    assert longest <= 1.5 * max(-(-total // first.problem.workgroups), -(-max(steps) // first.problem.most)) + 1


def test_the_long_sequence_alone_is_cut() -> None:
    """Among 63 short ones; where all are as long, and many enough, none is."""
    def counts(keys: tuple[int, ...]) -> list[int]:
        problem = UNIFIED.problem(h=32, hk=8, seqlens_q=(1,) * 64, seqlens_k=keys, balanced=1)
        step = UNIFIED.steps(problem, UNIFIED.spec(problem, GFX942), GFX942)[0]
        found: list[int] = step.problem.found({**problem.queries.values(), **problem.keys.values()})["counts"].tolist()
        return found

    assert counts((512,) * 63 + (32768,)) == [1] * 63 + [37]
    assert counts((4096,) * 64) == [1] * 64


@pytest.mark.one_in(20)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("keys", [
    {"mode": "group", "seqlens_q": (1, 1, 0, 300, 1), "seqlens_k": (5000, 70, 0, 900, 0), "together": 8},
    {"b": 700, "sq": 5, "sk": 300, "dearest": 3, "workgroups": 90, "seqlens_k": tuple(range(7)) * 100},
    {"b": 3, "sq": 0, "sk": 70, "block_q": 128, "block_k": 32, "most": 1},
    {"b": 256, "sq": 1, "sk": 64, "workgroups": 1},
], ids=str)  # fmt: skip
def test_the_first_step(chip: str, keys: Keys) -> None:
    outcome(SHARES, chip, keys)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("keys", [
    {"seqlens_q": (3, 0), "sq": 9, "dv": 32, "lse": 1, "splits": 5},
    {"mode": "group", "seqlens_q": (3, 0, 70), "splits": 7, "layout": "bshd"},
], ids=str)  # fmt: skip
def test_the_last_step(chip: str, keys: Keys) -> None:
    """Parts behind those that a sequence has are not read."""
    problem = COMBINE.problem(**keys, counted=1)
    arrays = COMBINE.inputs(problem, get_target(chip), seed=0)
    behind = np.arange(problem.splits)[:, None] >= arrays["counts"]
    lse = arrays["lse_parts"]
    for number, sequence in enumerate(behind.T):
        start, length = problem.queries.of(arrays, number)
        rows = lse[:, number] if problem.batches else lse
        rows[sequence, :, start : start + length] = np.nan
    outcome(COMBINE, chip, {**keys, "counted": 1}, {"lse_parts": lse})


CASES: list[tuple[str, Keys]] = [
    ("gfx942", {**SKEWED, "lse": 1}),
    ("gfx950", {**SKEWED, "dtype": "fp8", "page_size": 64}),
    ("gfx90a", {**SKEWED, "mask": "window_bottom_right:300,0,4", "sink": 1, "dtype": "bf16"}),
    ("gfx950", {**BOTH, "lse": 1, "soft_cap": 5, "splits": 3, "layout": "bhsd"}),
    ("gfx942", {**BOTH, "dtype": "f32", "page_size": 1, "alibi": "head"}),
    ("gfx90a", {**BOTH, "h": 2, "page_size": 1024, "d": 128, "schedule": "qr"}),
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("chip", "keys"), CASES, ids=named)
def test_numbers(chip: str, keys: Keys) -> None:
    outcome(UNIFIED, chip, {**keys, "balanced": 1})


@pytest.mark.full
def test_memory_may_hold_other_lengths() -> None:
    """One kernel and one launch serve all of as many queries and sequences."""
    keys = {**SKEWED, "sk": 1500, "sq": 4, "balanced": 1}
    arrays = UNIFIED.inputs(UNIFIED.problem(**keys), GFX942, seed=7)
    table = np.arange(arrays["block_table"].size).reshape(arrays["block_table"].shape) % arrays["k"].shape[0]
    starts, lengths = np.array([0, 1, 1, 1, 2, 4], np.int32), np.array([1400, 9, 0, 70, 333], np.int32)
    given = {"seqstart_q": starts, "seqlen_k": lengths}
    outcome(UNIFIED, "gfx942", keys, {**given, "block_table": table.astype(np.int32)})


def test_rows_that_fill_the_device_are_not_shared() -> None:
    problem = UNIFIED.problem(h=32, hk=8, seqlens_q=(4096, 1), seqlens_k=(4096, 9000), balanced=1)
    spec = UNIFIED.spec(problem, GFX942)
    assert not spec.split and spec.order == "joined_falling"


def test_a_kernel_of_other_shares_does_not_fit() -> None:
    balanced, even = (UNIFIED.problem(**SKEWED, splits=4, balanced=one) for one in (1, 0))
    for one, other, expected in ((balanced, even, "dealt"), (even, balanced, "joined_falling")):
        (reason,) = UNIFIED.mismatches(one, UNIFIED.spec(other, GFX942), GFX942)
        assert reason.field == "order" and expected in reason.right


@pytest.mark.parametrize(("keys", "text"), [
    ({"block_k": 48}, "block_k=48: expected a power of two"),
    ({"most": 129}, "most=129"),
    ({"b": 1 << 20, "sq": 1 << 10, "sk": 1 << 20, "block_q": 1}, "are too much to be shared"),
])  # fmt: skip
def test_refusals(keys: Keys, text: str) -> None:
    with pytest.raises(RequestError, match=text):
        SHARES.problem(**keys)


def test_counts_that_no_parts_have_are_refused() -> None:
    problem = COMBINE.problem(counted=1)
    arrays = COMBINE.inputs(problem, GFX942)
    for wrong in (0, 5):
        with pytest.raises(RequestError, match=r"array counts: sequence 0 has \d parts; expected 1 to 4"):
            COMBINE.check_inputs(problem, {**arrays, "counts": np.full_like(arrays["counts"], wrong)})


CAPPED: Keys = {"d": 128, "soft_cap": 30}


@pytest.mark.full
@pytest.mark.parametrize(("chip", "more"), [
    *((chip, more) for chip in CHIPS for more in ({}, {"d": 128}, {"mask": "window_bottom_right:90,0,4"})),
    *((chip, CAPPED) for chip in CHIPS),
], ids=named)  # fmt: skip
def test_proved_and_without_spills(chip: str, more: Keys) -> None:
    target = get_target(chip)
    spec = UNIFIED.spec(UNIFIED.problem(**{**SKEWED, **more, "balanced": 1}), target)
    bench = Workbench.of(UNIFIED, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()
    metadata = compile_kernel(UNIFIED, spec, target).code_object.kernel().metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
