"""Attention backward by workgroups that stay and take whole blocks of keys, with CK Tile's slots of dQ."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS
from test_fmha_bwd_numerics import GROUP, PADDED, assert_same_bits, differentiate, launches
from test_fmha_bwd_shares import FULL, LONG, SHARED

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.plan import FillStep, make_plan
from ckmlir.ops.request import RequestError
from ckmlir.ops.steps import PackOnHost
from ckmlir.runtime import check_outputs, open_device, run_operator
from ckmlir.scheduling import Workbench
from ckmlir.targets import get_target

FMHA, COSTS, CONVERT = map(find_operator, ("fmha_bwd", "fmha_bwd_costs", "fmha_bwd_convert_dq"))
GFX942 = get_target("gfx942")
BLOCKS: dict[str, Any] = {**SHARED, "ranges": "blocks"}
ONE_BLOCK: dict[str, Any] = {"mode": "group", "seqlens_q": (300, 7, 0, 70), "seqlens_k": (20, 90, 33, 0)}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("gfx942", {**LONG, "d": 32, "h": 3, "workgroups": 5, "mask": "top_left"}),
    ("gfx950", {**PADDED, "d": 64, "h": 2, "hk": 1, "workgroups": 2, "pack": "host", "sink": 1, "dtype": "bf16"}),
    ("gfx90a", {"b": 2, "sq": 40, "sk": 300, "d": 40, "dv": 72, "h": 2, "workgroups": 3, "layout": "bshd"}),
]
GRID: list[tuple[str, dict[str, Any]]] = [
    ("gfx942", {**LONG, "d": 64, "h": 2, "hk": 1, "workgroups": 3, "dtype": "bf16", "pack": "host"}),
    ("gfx950", {**ONE_BLOCK, "d": 32, "h": 1, "workgroups": 40}),
    *((chip, {**some, "d": d, "h": 2, "hk": hk, "mask": mask, "workgroups": workgroups, "pack": pack, "dtype": dtype})
      for number, (chip, (dtype, d), mask, some) in enumerate(itertools.product(
          CHIPS, (("f16", 32), ("bf16", 64), ("bf16", 128), ("f32", 40)), ("none", "bottom_right", "window:20,5,40"),
          (LONG, PADDED, {"b": 2, "sq": 80, "sk": 300, "seqlens_k": (140, 300)}, ONE_BLOCK),
      ))
      for hk, workgroups, pack in [(1 + number % 2, (1, 3, 7, 50, None)[number % 5], ("host", "device")[number % 2])]),
]  # fmt: skip


@pytest.mark.parametrize(("chip", "keys"), [*CASES, *(pytest.param(*case, marks=FULL) for case in GRID)])
def test_gradients(chip: str, keys: dict[str, Any]) -> None:
    """Several blocks for a workgroup and several workgroups for a head, one block a head, more workgroups than blocks,
    sequences without queries or keys; under all checkers."""
    differentiate(chip, {**keys, **BLOCKS})


@FULL
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("mask", ["none", "top_left", "window:20,5,40"])
def test_every_part(chip: str, mask: str) -> None:
    """What a request may add."""
    parts = ({"bias": "one", "dbias": 1}, {"alibi": "head"}, {"dropout": 0.3}, {"sink": 1},
             {"bias": "head", "dbias": 1, "dropout": 0.2})  # fmt: skip
    for part in parts:
        differentiate(chip, {**LONG, "d": 32, "h": 2, "mask": mask, "workgroups": 4, **part, **BLOCKS})


@FULL
@pytest.mark.parametrize("chip", CHIPS)
def test_many_tiny_sequences(chip: str) -> None:
    """300 of 0 to 6 queries and 0 to 4 keys, of which each workgroup has several."""
    lengths = {"seqlens_q": tuple(i % 7 for i in range(300)), "seqlens_k": tuple(i % 5 for i in range(300))}
    keys = {"mode": "group", **lengths, "h": 2, "hk": 1, "d": 32, "workgroups": 9, **BLOCKS}
    differentiate(chip, keys, checks="")


@FULL
@pytest.mark.parametrize(("sq", "sk", "b"), [(0, 40, 1), (40, 0, 1), (1, 1, 1), (3, 3, 0)])
def test_sizes_at_the_ends(sq: int, sk: int, b: int) -> None:
    """Without queries dK and dV are zeros, without keys dQ is; one of each works."""
    outputs = differentiate("gfx942", {"b": b, "sq": sq, "sk": sk, "d": 32, "h": 2, "workgroups": 9, **BLOCKS})[2]
    assert all(not array.any() for array in outputs.values()) == (sq * sk * b == 0)


@pytest.mark.parametrize("chip", ["gfx942", *(pytest.param(one, marks=FULL) for one in CHIPS if one != "gfx942")])
def test_the_same_bits_in_any_order(chip: str) -> None:
    """20 launches, workgroups and waves in other orders each time; several workgroups have slots in each head."""
    group = {"mode": "group", "seqlens_q": (40, 0, 3), "seqlens_k": (300, 5, 140)}
    runs = launches(chip, {**group, "d": 32, "h": 2, "hk": 1, "workgroups": 5, **BLOCKS})
    assert_same_bits(runs)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("name", "keys"), [
    ("fmha_bwd_costs", {**LONG, "mask": "top_left"}), ("fmha_bwd_costs", PADDED),
    ("fmha_bwd_costs", {"b": 3, "sq": 0, "sk": 70}), ("fmha_bwd_costs", {"b": 2, "sq": 70, "sk": 0}),
    ("fmha_bwd_costs", {"b": 700, "sq": 150, "sk": 300, "seqlens_k": tuple(range(100)) * 7, "workgroups": 2000}),
    ("fmha_bwd_costs", {"b": 700, "sq": 150, "sk": 300, "seqlens_q": tuple(range(100)) * 7, "workgroups": 70,
                        "mask": "window:40,9,3"}),
    ("fmha_bwd_convert_dq", {**LONG, "d": 40, "workgroups": 3, "alpha": 0.3}),
    ("fmha_bwd_convert_dq", {**LONG, "d": 32, "workgroups": 90, "dtype": "bf16", "layout": "bshd", "mask": "top_left"}),
    ("fmha_bwd_convert_dq", {**PADDED, "d": 96, "workgroups": 2, "block": "32x128"}),
    ("fmha_bwd_convert_dq", {"b": 2, "sq": 33, "sk": 0, "d": 32}),
])  # fmt: skip
def test_first_and_last_step(chip: str, name: str, keys: dict[str, Any]) -> None:
    """What the device packs is what the host does, and the sum of slots, with garbage in those that are not in use."""
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(h=3, ranges="blocks", **keys)
    arrays = operator.inputs(problem, target, seed=3)
    result = run_operator(operator, problem, arrays, target, open_device("sim", target, seed=1, checks="all"))
    assert all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, target))


def test_workspaces_follow_from_upper_bounds() -> None:
    """Other lengths in memory need no others; no dK or dV has parts; nothing is filled but the table of rows."""
    most = {"mode": "group", "d": 128, "h": 8, "sq": 4096, "sk": 4096, "slots_q": (4096,) * 4, "slots_k": (4096,) * 4}
    sizes = []
    for lengths in ((4096, 3072, 2048, 1024), (1, 1, 1, 1), (4096,) * 4):
        plan = make_plan(FMHA, FMHA.problem(**most, seqlens_q=lengths, seqlens_k=lengths, **BLOCKS), GFX942)
        sizes.append({one.name: one.nbytes for one in plan.workspaces})
        assert [one.buffer for one in plan.steps if isinstance(one, FillStep)] == ["written"]
    assert sizes[0] == sizes[1] == sizes[2]
    assert set(sizes[0]) == {"delta", "exponent", "dq_parts", "costs", "written"}
    assert sizes[0]["dq_parts"] == (2 * 8 * 4 * 4096 + 304 * 4096) * 128 * 4
    assert (sizes[0]["costs"], sizes[0]["written"]) == ((4 * 4 + 4) * 4, (2 * 8 * 4 + 304) * 8)


def test_who_packs() -> None:
    """A kernel, or a function on the host, which writes the same numbers."""
    problems = [FMHA.problem(**LONG, d=32, h=2, workgroups=5, pack=pack, **BLOCKS) for pack in ("device", "host")]
    steps = [FMHA.steps(problem, FMHA.spec(problem, GFX942), GFX942) for problem in problems]
    assert [any(isinstance(one, PackOnHost) for one in some) for some in steps] == [False, True]
    (packing,) = (one for one in steps[1] if isinstance(one, PackOnHost))
    lists = problems[1].attention.queries.values() | problems[1].attention.keys.values()
    shares = COSTS.problem(**LONG, h=2, workgroups=5, block="32x128", ranges="blocks")
    packed = np.zeros(4 * shares.numbers, np.uint8)
    packing.function(lists, packed)
    assert (packed.view(np.int32) == COSTS.reference(shares, lists)["costs"]).all()


def test_what_is_refused() -> None:
    """Ranges of workgroups that do not stay, and two parts for which registers are missing."""
    with pytest.raises(RequestError, match=r"ranges=blocks: .*expected persistent=1"):
        FMHA.problem(deterministic=1, ranges="blocks")
    with pytest.raises(RequestError, match=r"d=128: bias, dbias together .* persistent=1 .*expected persistent=0"):
        make_plan(FMHA, FMHA.problem(**BLOCKS, d=128, bias="one", dbias=1), GFX942)


@FULL
@pytest.mark.parametrize(("chip", "mask"), list(itertools.product(CHIPS, ("none", "top_left", "window:20,5"))))
def test_the_kernel_is_proved(chip: str, mask: str) -> None:
    """Loops within the loop over blocks included."""
    target = get_target(chip)
    for keys in ({**GROUP, "d": 64}, {"d": 128}):
        bench = Workbench.of(FMHA, FMHA.spec(FMHA.problem(**keys, mask=mask, **BLOCKS), target), target)
        assert bench.compile(bench.schedule).findings == ()


@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {"mask": "top_left"}), pytest.param("gfx950", {**GROUP, "dtype": "bf16"}, marks=FULL),
    *(pytest.param(chip, {**some, "d": d, "dtype": dtype, "mask": mask}, marks=FULL)
      for chip, d, dtype, mask, some in itertools.product(
          CHIPS, (32, 64, 96, 128, 256), ("f16", "bf16"), ("none", "top_left", "window:128,0", "window:64,0,4"),
          ({}, GROUP))),
])  # fmt: skip
def test_all_registers_are_kept(chip: str, keys: dict[str, Any]) -> None:
    """Without parts none is spilled, of either kind."""
    target = get_target(chip)
    kernel = compile_kernel(FMHA, FMHA.spec(FMHA.problem(**BLOCKS, **keys), target), target)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.sgpr_spill_count, metadata.vgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
