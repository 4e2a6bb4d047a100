"""Blocks of keys that every query attends to, and those that a mask cuts: which are which, in which loop they are
taken, and in which order blocks of queries are dealt out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from checked_runs import compiled, usual_way
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.codeobject import CodeObject
from ckmlir.ops import find_operator
from ckmlir.ops.attention.loop.block_rows_kernel import OneHead
from ckmlir.ops.attention.loop.spans_kernel import spans_of
from ckmlir.ops.attention.loop.work_kernel import Work
from ckmlir.ops.attention.masks import Mask
from ckmlir.ops.attention.orders import ORDERS
from ckmlir.ops.schedules import EDGE
from ckmlir.runtime import check_outputs, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling import Workbench
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.sim.checks import parse_checks
from ckmlir.targets import get_target

FMHA = find_operator("fmha_fwd")
Keys = dict[str, Any]


@dataclass(frozen=True)
class Number:
    """A scalar whose value is known."""

    value: int

    def __int__(self) -> int:
        return self.value

    def minimum(self, other: Any) -> Number:
        return Number(min(self.value, int(other)))

    def maximum(self, other: Any) -> Number:
        return Number(max(self.value, int(other)))

    def equals(self, other: Any) -> Number:
        return Number(int(self.value == int(other)))

    def select(self, if_true: Any, if_false: Any) -> Number:
        return Number(int(if_true if self.value else if_false))


def _counted(name: str) -> Callable[[Number, Any], Number]:
    return lambda self, other: Number(int(getattr(self.value, name)(int(other))))


for _name in ("add", "radd", "sub", "rsub", "mul", "floordiv", "mod", "lt"):
    setattr(Number, f"__{_name}__", _counted(f"__{_name}__"))


MASKS = st.one_of(
    st.sampled_from(("none", "top_left", "bottom_right")),
    st.builds(
        "{}:{},{}{}".format,
        st.sampled_from(("window", "window_bottom_right")),
        st.integers(-1, 300),
        st.integers(-1, 200),
        st.sampled_from(("", ",1", ",70", ",200")),
    ),
)


@settings(max_examples=80, deadline=None)
@given(text=MASKS, sq=st.integers(1, 400), sk=st.integers(0, 600), number=st.integers(0, 20), apart=st.booleans())
def test_spans_take_every_key_once(text: str, sq: int, sk: int, number: int, apart: bool) -> None:
    """Whole blocks of keys, none twice, and all that some query of the block attends to; without the mask only those
    that every query attends to.
    """
    queries, keys = 128, 64
    mask, first = Mask.parse(text), number % -(-sq // queries) * queries
    spec = SimpleNamespace(
        mask=mask.kind,
        pad_sk=True,
        varied=False,
        cuts=True,
        loops={"schedule": "main"} | ({"edge": "edge"} if apart else {}),
        branches=False,
    )
    y, x = map(Number, mask.coordinates(sq, sk))
    given = SimpleNamespace(mask_y=y, mask_x=x, mask_sink=Number(mask.sink))
    work = cast(Work, SimpleNamespace(first=Number(first), rows=OneHead(cast(Any, 0)), sk=Number(sk), sq=Number(sq)))
    form = cast(Any, SimpleNamespace(queries=queries, keys=keys))
    found = spans_of(cast(Any, spec), given, work, form, [], lambda reach: reach)
    assert [schedule for _, schedule in found] == ["main", "edge"][: 1 + apart]
    taken: list[int] = []
    rows = range(first, min(first + queries, sq))
    kept = mask.kept(rows, sq, sk)
    for span, _ in found:
        for index in range(int(span.low), int(span.high), keys):
            key = int(span.key(Number(index)))
            assert key % keys == 0 and key >= 0
            taken += range(key, key + keys)
            if not span.scores:
                assert key + keys <= sk and kept[:, key : key + keys].all()
    assert len(taken) == len(set(taken))
    assert set(np.flatnonzero(kept.any(0))) <= set(taken)


@pytest.mark.parametrize("name", ORDERS)
def test_orders(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block of a sequence is dealt out once; `across` begins with the first ones of all heads, `falling` with the
    last ones."""
    order, found = ORDERS[name], []
    grid = order.grid(3, 4, 2)
    for z, y, x in np.ndindex(*reversed(grid)):
        monkeypatch.setattr("ckmlir.lang.workgroup_id", lambda axis, at=(x, y, z): Number(at[axis]))
        place, head, batch = order.turn()
        if int(place) * 128 < 300:
            found.append((int(order.first(place, 128, Number(300))), int(head), int(batch)))
    assert sorted(found) == [(first, head, batch) for first in (0, 128, 256) for head in range(4) for batch in range(2)]
    firsts = {
        "rising": [0, 128, 256] * 8,
        "across": [0] * 8 + [128] * 8 + [256] * 8,
        "falling": [256] * 8 + [128] * 8 + [0] * 8,
    }
    assert [first for first, *_ in found] == firsts[name]


BATCH: Keys = {"h": 2, "hk": 1, "sq": 150, "sk": 330, "d": 32, "lse": 1}
GROUP: Keys = {"mode": "group", "seqlens_q": (140, 0, 30), "seqlens_k": (270, 50, 0), "h": 1, "d": 32, "lse": 1}
RUNS: list[tuple[str, Keys]] = [
    ("gfx942", {**BATCH, "mask": "bottom_right", "edge": "qr"}),
    ("gfx950", {**BATCH, "mask": "top_left", "sq": 260, "schedule": "qr_async_ping_pong", "edge": "qr_async_trload"}),
    ("gfx90a", {**BATCH, "edge": "qr_async", "soft_cap": 5}),
    ("gfx942", {**BATCH, "mask": "window_bottom_right:250,9", "edge": "qr_fenced", "alibi": "head"}),
    ("gfx950", {**BATCH, "mask": "window_bottom_right:200,3,70", "edge": "qr", "dtype": "bf16"}),
    ("gfx942", {**GROUP, "mask": "bottom_right", "edge": "qr", "dropout": 0.2, "randval": 1}),
    ("gfx950", {**BATCH, "d": 64, "mask": "bottom_right", "schedule": "qr_woven_async", "edge": "qr_async_trload"}),
    ("gfx942", {**GROUP, "d": 64, "schedule": "qr_woven", "edge": "qr_fenced", "bias": "one"}),
]
SPLIT: Keys = {**BATCH, "mask": "window_bottom_right:200,3,70", "edge": "qr", "splits": 3}
WIDE = [
    (chip, {**shape, **mask, "d": d, "schedule": schedule, "edge": edge})
    for chip in ("gfx90a", "gfx942", "gfx950")
    for shape in ({**BATCH, "sq": 300}, GROUP, {**BATCH, "sk": 63}, {**BATCH, "sq": 1})
    for mask in ({}, {"mask": "bottom_right"}, {"mask": "window:100,70"}, {"mask": "window_bottom_right:300,0,5"})
    for d in (64, 128)
    for schedule in ("qr", "qr_woven", "qr_woven_async")
    for edge in EDGE
]


def ids(value: Any) -> str:
    return value if isinstance(value, str) else ",".join(f"{key}={one}" for key, one in value.items())


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("chip", "keys"), [*RUNS, ("gfx942", SPLIT), *(pytest.param(*one, marks=pytest.mark.full) for one in WIDE)], ids=ids
)
def test_edges_apart(chip: str, keys: Keys) -> None:
    """O and LSE agree with the reference, and all checkers are content."""
    target, operator = get_target(chip), find_operator("fmha_fwd_splitkv" if "splits" in keys else "fmha_fwd")
    problem = operator.problem(**keys)
    spec = operator.spec(problem, target)
    if operator.validate(spec, target):
        pytest.skip("this chip does not take the schedules")
    assert spec.edge == keys["edge"] and spec.order == ("falling" if spec.mask == "causal" else "rising")
    arrays = operator.inputs(problem, target, seed=7)
    device = SimulatorDevice(target, seed=11, checks=parse_checks("all"))
    result = run_operator(operator, problem, arrays, target, device)
    comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))


PROVED = [one for one in WIDE if one[1]["d"] == 64 and one[1] | {"sq": 300} == one[1]]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("chip", "keys"),
    [RUNS[0], RUNS[4], RUNS[6], *(pytest.param(*one, marks=pytest.mark.full) for one in PROVED)],
    ids=ids,
)
def test_both_loops_are_proved(chip: str, keys: Keys) -> None:
    """For every number of steps of each; schedules that are tried are tried on the main one."""
    target = get_target(chip)
    spec = FMHA.spec(FMHA.problem(**keys), target)
    if FMHA.validate(spec, target):
        pytest.skip("this chip does not take the schedules")
    bench = Workbench.of(FMHA, spec, target)
    assert bench.schedule.name == spec.schedule
    assert bench.compile(bench.schedule, code=False).findings == ()


def test_the_main_loop_has_no_mask() -> None:
    """Vector instructions of 64 matrix instructions, as many as without a mask where blocks that it cuts are apart; and
    nothing is spilled.
    """
    keys = (("h", 16), ("b", 2), ("sq", 4096), ("dtype", "bf16"), ("mask", "top_left"), ("edge", "qr_async_trload"))
    kernel = compiled("fmha_fwd", keys, "gfx950").kernel
    found = CodeObject.parse(kernel.hsaco)
    names = [one.mnemonic for one in usual_way(steady_loop(found, kernel.kernel_name).instructions)]
    matrix = sum(name.startswith("v_mfma") for name in names)
    vector = (sum(name.startswith("v_") for name in names) - matrix) * 64 / matrix
    assert 240 < vector <= 280
    assert sum(name.startswith("v_cmp") for name in names) * 64 / matrix <= 60
    assert found.kernel(kernel.kernel_name).metadata.vgpr_spill_count == 0


@pytest.mark.parametrize(("chip", "d", "mask", "more"), [
    ("gfx950", 128, "top_left", 5),
    *(pytest.param(*one, marks=pytest.mark.full)
      for one in (
          ("gfx950", 128, "window:1024,0", 10), ("gfx950", 64, "top_left", 12), ("gfx942", 64, "top_left", 4),
      )),
])  # fmt: skip
def test_masks_are_branched_around(chip: str, d: int, mask: str, more: int) -> None:
    """Where waves branch around masks and rescaling, steps (of 64 matrix instructions) have as many vector instructions
    as without a mask, but for a difference and a comparison for each side that a step may cut, and one for where it
    lies; nothing is spilled."""
    keys = (("h", 16), ("b", 2), ("sq", 4096), ("dtype", "bf16"), ("d", d))
    vector = []
    for masked in ((), (("mask", mask),)):
        kernel = compiled("fmha_fwd", keys + masked, chip).kernel
        found = CodeObject.parse(kernel.hsaco)
        metadata = found.kernel(kernel.kernel_name).metadata
        assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)
        names = [one.mnemonic for one in usual_way(steady_loop(found, kernel.kernel_name).instructions)]
        matrix = sum(name.startswith("v_mfma") for name in names)
        vector.append((sum(name.startswith("v_") for name in names) - matrix) * 64 / matrix)
    assert vector[1] <= vector[0] + more


@pytest.mark.parametrize(("keys", "why"), [
    ({"sk": 128, "edge": "qr"}, "edge=qr: without a mask no block of keys is cut"),
    ({"mask": "top_left", "edge": "qr_async_trload"}, "edge=qr_async_trload: V goes to LDS as it lies in memory"),
    ({"mask": "top_left", "edge": "qr_fenced", "dtype": "fp8"}, "edge=qr_fenced: it makes weights 2 at a time"),
])  # fmt: skip
def test_edges_are_refused(keys: Keys, why: str) -> None:
    target = get_target("gfx942")
    (reason, *_) = FMHA.validate(FMHA.spec(FMHA.problem(**keys), target), target)
    assert str(reason).startswith(why)


@pytest.mark.parametrize(("name", "mask", "order"), [
    ("fmha_fwd", "none", "rising"), ("fmha_fwd", "bottom_right", "falling"), ("fmha_fwd_splitkv", "top_left", "rising"),
    ("fmha_bwd", "none", "rising"), ("fmha_bwd", "top_left", "across"),
])  # fmt: skip
def test_the_longest_begin(name: str, mask: str, order: str) -> None:
    """Under a causal mask; workgroups that share keys stay beside each other."""
    target, operator = get_target("gfx942"), find_operator(name)
    problem = operator.problem(b=2, h=3, sq=1024, d=64, mask=mask, **({"splits": 4} if "splitkv" in name else {}))
    spec = operator.spec(problem, target)
    blocks = 1024 // spec.block[name == "fmha_bwd"]
    grid = (blocks, 3, 2) if order == "rising" else (3, 2, blocks)
    shares = 4 if "splitkv" in name else 1
    assert spec.order == order and operator.launch(problem, spec, target).grid == (grid[0] * shares, *grid[1:])
