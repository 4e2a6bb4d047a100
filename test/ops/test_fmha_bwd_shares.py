"""Attention backward by workgroups that stay: gradients, the same bits in any order, workspaces, what finds shares."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from operator_runner import CHIPS
from test_fmha_bwd_numerics import GROUP, PADDED, assert_same_bits, differentiate, launches

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.attention.backward.steps import shares_of
from ckmlir.ops.plan import make_plan
from ckmlir.ops.request import RequestError
from ckmlir.runtime import check_outputs, open_device, run_operator
from ckmlir.runtime.recording import record_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.sim.decode.decoder import disassemble
from ckmlir.targets import get_target

FMHA, COSTS, CONVERT = map(find_operator, ("fmha_bwd", "fmha_bwd_costs", "fmha_bwd_convert_dq"))
GFX942 = get_target("gfx942")
FULL = pytest.mark.full
SHARED: dict[str, Any] = {"deterministic": 1, "persistent": 1}
PROLOGUE = 256
"""Bytes in front of a kernel's own code, which firmware passes over that has put arguments into registers."""
LONG = {"mode": "group", "seqlens_q": (70, 0, 130, 40), "seqlens_k": (400, 300, 1, 260)}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("gfx942", {**LONG, "d": 32, "h": 3, "workgroups": 5, "mask": "top_left"}),
    ("gfx950", {**PADDED, "d": 64, "h": 2, "hk": 1, "workgroups": 2, "pack": "host", "sink": 1}),
    ("gfx90a", {"b": 2, "sq": 40, "sk": 300, "d": 40, "dv": 72, "h": 2, "dtype": "bf16", "workgroups": 3}),
    ("gfx942", {"sq": 700, "sk": 200, "d": 32, "dv": 64, "h": 2, "workgroups": 3}),  # all begin within blocks
]
TALL: dict[str, Any] = {"mode": "group", "seqlens_q": (1500, 3, 3, 3, 3, 3), "seqlens_k": (100, 9, 9, 9, 9, 9)}
"""A block of keys that costs as much as all others several times, beside so many that ranges are short."""
CUT: list[tuple[str, dict[str, Any]]] = [
    (chip, {**some, "h": 2, "d": d, "dv": dv, "dtype": dtype, "mask": mask, "workgroups": workgroups})
    for chip in CHIPS
    for some in ({"b": 2, "sq": 700, "sk": 200, "layout": "bshd"}, {"sq": 900, "sk": 300, "hk": 1},
                 {"mode": "group", "seqlens_q": (600, 0, 500), "seqlens_k": (140, 9, 70), "slots_k": (150, 9, 80)})
    for d, dv, dtype in ((64, 40, "f16"), (128, 128, "bf16"), (32, 64, "f32"))
    for mask in ("none", "top_left")
    for workgroups in (3, 7)
]  # fmt: skip
"""With queries enough that workgroups begin within blocks of keys."""
SINGLES: list[tuple[str, dict[str, Any]]] = [
    (chip, {**some, "d": d, "h": 2, "mask": mask, "workgroups": 3, "dtype": "f32"})
    for chip, d, mask, some in itertools.product(
        CHIPS, (32, 64, 100, 128), ("top_left", "window:20,5"), (LONG, {"b": 2, "sq": 80, "sk": 300}),
    )
]  # fmt: skip
MORE: list[tuple[str, dict[str, Any]]] = [
    (chip, {**some, "d": d, "h": 2, "hk": hk, "mask": mask, "workgroups": workgroups, "pack": pack})
    for number, (chip, d, mask, some) in enumerate(itertools.product(
        CHIPS, (32, 64, 96, 128, 256), ("none", "top_left", "bottom_right", "window:20,5"),
        (LONG, PADDED, {"b": 2, "sq": 80, "sk": 300, "seqlens_k": (140, 300)}),
    ))
    for hk, workgroups, pack in [(1 + number % 2, (1, 3, 7, None)[number % 4], ("host", "device")[number % 2])]
]  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("chip", "keys"), [*CASES, *(pytest.param(*case, marks=FULL) for case in MORE + SINGLES + CUT)]
)
def test_gradients(chip: str, keys: dict[str, Any]) -> None:
    """More blocks of keys than workgroups, so that these take several and share heads; under all checkers."""
    differentiate(chip, {**keys, **SHARED})


@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {"d": 32}), *(pytest.param(chip, {"d": 64, "dv": 40, "mask": "top_left", "dtype": dtype}, marks=FULL)
                             for chip in CHIPS for dtype in ("f16", "bf16", "f32")),
])  # fmt: skip
def test_a_block_in_many_pieces(chip: str, keys: dict[str, Any]) -> None:
    """Ranges are as long as each other, so a block that is longer lies in several, and its dK and dV have as many
    pieces."""
    problem = differentiate(chip, {**TALL, **keys, "h": 1, "workgroups": 6, **SHARED})[0]
    target = get_target(chip)
    shares = shares_of(problem, FMHA.spec(problem, target), target)
    _, longest, *_, length = shares.costs(shares.values()).tolist()
    inside = (longest - 1) // length  # ranges that begin within the first block: two where leaving it is worth most
    assert inside >= 2 and [one[1:] for one in shares.cut(shares.values())] == [(0, 0, 0)] * inside


@FULL
@pytest.mark.parametrize("chip", CHIPS)
def test_every_part(chip: str) -> None:
    """What a request may add, with several blocks for each workgroup."""
    parts = ({"bias": "one", "dbias": 1}, {"alibi": "head"}, {"dropout": 0.3}, {"sink": 1},
             {"bias": "head", "dbias": 1, "dropout": 0.2})  # fmt: skip
    for part, mask in itertools.product(parts, ("none", "top_left", "window:20,5,40")):
        differentiate(chip, {**LONG, "d": 32, "h": 2, "mask": mask, "workgroups": 4, **part, **SHARED})
    differentiate(chip, {"b": 300, "h": 1, "sq": 5, "sk": 3, "d": 32, **SHARED}, checks="")
    differentiate(chip, {"h": 1, "sq": 1023, "sk": 65, "d": 64, "workgroups": 7, **SHARED}, checks="")


@pytest.mark.parametrize(("sq", "sk", "b"), [
    (0, 40, 1), *(pytest.param(*sizes, marks=FULL) for sizes in ((40, 0, 1), (1, 1, 1), (3, 3, 0)))
])  # fmt: skip
def test_sizes_at_the_ends(sq: int, sk: int, b: int) -> None:
    """Without queries dK and dV are zeros, without keys dQ is; one of each works, and more workgroups than work."""
    keys = {"b": b, "sq": sq, "sk": sk, "d": 32, "h": 2, "workgroups": 9, **SHARED}
    outputs = differentiate("gfx942", keys)[2]
    assert all(not array.any() for array in outputs.values()) == (sq * sk * b == 0)


def test_sequences_without_queries_have_zeros() -> None:
    """dK and dV of a sequence that no query attends to, and dQ of one without keys."""
    problem, arrays, outputs = differentiate(
        "gfx942", {**GROUP, "d": 32, "h": 1, "workgroups": 2, **SHARED}, checks=""
    )
    for name, rows, number in (("dk", problem.attention.keys, 1), ("dv", problem.attention.keys, 1),
                               ("dq", problem.attention.queries, 2)):  # fmt: skip
        start, length = rows.of(arrays, number)
        assert length and not outputs[name][0, :, start : start + length].any()


@pytest.mark.parametrize("chip", ["gfx942", *(pytest.param(one, marks=FULL) for one in CHIPS if one != "gfx942")])
def test_the_same_bits_in_any_order(chip: str) -> None:
    """20 launches, workgroups and waves in other orders each time, for the gradients of all arrays."""
    group = {"mode": "group", "seqlens_q": (40, 0, 3), "seqlens_k": (300, 5, 140)}
    keys = {**group, "d": 32, "h": 2, "hk": 1, "mask": "window:-1,250", "workgroups": 4, **SHARED}
    assert_same_bits(launches(chip, keys))


def test_workspaces_follow_from_upper_bounds() -> None:
    """Other lengths in memory need no others; they are fewer bytes than a slot for each block of keys; and nothing is
    filled before."""
    most = {"mode": "group", "d": 128, "h": 8, "sq": 4096, "sk": 4096, "slots_q": (4096,) * 4, "slots_k": (4096,) * 4}
    sizes = []
    for lengths in ((4096, 3072, 2048, 1024), (1, 1, 1, 1), (4096,) * 4):
        problem = FMHA.problem(**most, seqlens_q=lengths, seqlens_k=lengths, **SHARED)
        plan = make_plan(FMHA, problem, GFX942)
        sizes.append({one.name: one.nbytes for one in plan.workspaces})
        assert not any(str(step).startswith("fill dq_parts") for step in plan.steps)
    assert sizes[0] == sizes[1] == sizes[2]
    slots = FMHA.problem(**most, seqlens_q=lengths, seqlens_k=lengths, deterministic=1)
    by_block = {one.name: one.nbytes for one in make_plan(FMHA, slots, GFX942).workspaces}
    assert sizes[0]["dq_parts"] < 0.4 * by_block["dq_parts"]
    assert sizes[0]["costs"] == 6 * 4


@pytest.mark.parametrize(("lengths", "heads", "kept"), [
    ((4096, 3072, 2048, 1024), 8, 8), ((4096, 3072, 2048, 1024), 8, 2), (tuple(range(16, 257, 2)) * 2, 8, 8),
])  # fmt: skip
def test_less_workspace_than_a_slot_for_each_block_of_keys(lengths: tuple[int, ...], heads: int, kept: int) -> None:
    """All of it, long sequences, heads that share keys, many short sequences."""
    asked = {"mode": "group", "seqlens_q": lengths, "seqlens_k": lengths, "h": heads, "hk": kept, "d": 128}
    shares, slots = (
        sum(one.nbytes for one in make_plan(FMHA, FMHA.problem(**asked, **kind), GFX942).workspaces)
        for kind in (SHARED, {"deterministic": 1})
    )
    assert shares < 0.8 * slots


def test_what_is_refused() -> None:
    """Keys that only shares have, and what leaves them too few registers."""
    problem = FMHA.problem(**SHARED, d=128, bias="one", dbias=1)
    with pytest.raises(RequestError, match=r"d=128: bias, dbias together .* persistent=1 .*expected persistent=0"):
        make_plan(FMHA, problem, GFX942)
    with pytest.raises(RequestError, match=r"d=176: .*f32 leave persistent=1 too few registers; expected persistent=0"):
        make_plan(FMHA, FMHA.problem(**SHARED, d=176, dv=64, dtype="f32"), GFX942)
    with pytest.raises(RequestError, match=r"persistent=1: .*expected deterministic=1"):
        FMHA.problem(persistent=1)
    with pytest.raises(RequestError, match=r"workgroups=3: .*expected persistent=1"):
        FMHA.problem(workgroups=3, deterministic=1)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("name", "keys"), [
    ("fmha_bwd_costs", LONG), ("fmha_bwd_costs", PADDED), ("fmha_bwd_costs", {"b": 3, "sq": 0, "sk": 70}),
    ("fmha_bwd_costs", {"b": 700, "sq": 5, "sk": 3, "seqlens_k": tuple(range(4)) * 175}),
    ("fmha_bwd_convert_dq", {**LONG, "d": 40, "workgroups": 3, "alpha": 0.3}),
    ("fmha_bwd_convert_dq", {**LONG, "d": 32, "workgroups": 90, "dtype": "bf16", "layout": "bshd"}),
    ("fmha_bwd_convert_dq", {**PADDED, "d": 96, "workgroups": 2, "block": "16x64"}),
    ("fmha_bwd_convert_dq", {"b": 2, "sq": 33, "sk": 0, "d": 32}),
    ("fmha_bwd_join", {"mode": "group", "seqlens_q": (600, 0, 500), "seqlens_k": (140, 9, 70), "d": 40}),
    ("fmha_bwd_join", {"b": 2, "sq": 700, "sk": 200, "d": 96, "workgroups": 7, "dtype": "bf16", "layout": "bshd"}),
    ("fmha_bwd_join", {"sq": 900, "sk": 150, "d": 36, "dtype": "f32", "block": "16x64", "mask": "window:300,90"}),
    ("fmha_bwd_join", {"b": 2, "sq": 33, "sk": 0, "d": 32}),
    ("fmha_bwd_join", {**TALL, "d": 40, "block": "32x128", "workgroups": 18}),
    ("fmha_bwd_join", {**TALL, "d": 96, "workgroups": 18, "dtype": "f32", "layout": "bshd"}),
    ("fmha_bwd_join", {"mode": "group", "seqlens_q": (700, 1, 0) * 40, "seqlens_k": (20, 1, 70) * 40, "d": 32,
                       "workgroups": 50}),
])  # fmt: skip
def test_first_and_last_step(chip: str, name: str, keys: dict[str, Any]) -> None:
    """Where shares begin, and the sum of slots, with garbage in those that are not in use."""
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(h=3, **keys)
    arrays = operator.inputs(problem, target, seed=3)
    result = run_operator(operator, problem, arrays, target, open_device("sim", target, seed=1, checks="all"))
    assert all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, target))


def test_costs_of_other_lengths_are_refused() -> None:
    """On the host, before anything runs."""
    problem = CONVERT.problem(**LONG)
    arrays = CONVERT.inputs(problem, GFX942)
    with pytest.raises(RequestError, match="array costs: it does not belong to these lengths"):
        CONVERT.check_inputs(problem, {**arrays, "costs": arrays["costs"] + 1})


@pytest.mark.full
@pytest.mark.parametrize("chip", ["gfx942", *(pytest.param(one, marks=FULL) for one in CHIPS if one != "gfx942")])
def test_a_share_is_found_with_few_waits(chip: str) -> None:
    """Before the first keys are asked for: what follows from lengths of queries waits for those of keys at once, and
    where a workgroup ends is not looked for."""
    lengths = {"mode": "group", "seqlens_q": (2048, 512), "seqlens_k": (2048, 512)}
    spec = FMHA.spec(FMHA.problem(**SHARED, **lengths, mask="top_left"), get_target(chip))
    compiled = compile_kernel(FMHA, spec, get_target(chip))
    code = disassemble(compiled.code_object, compiled.kernel_name)
    names = [one.mnemonic for one in code if one.address >= code[0].address + PROLOGUE]
    before = names[: names.index("buffer_load_dwordx4")]
    waits = [one for one, after in itertools.pairwise(_memory(before)) if (one, after) == ("s_load", "s_waitcnt")]
    assert len(waits) <= 15  # 21 where each side was read by itself and both ends of a share were looked for


@pytest.mark.full
def test_a_block_that_a_share_begins_within_is_found_once() -> None:
    """The second workgroup begins within the second block of keys, of which it knows all when it has found where."""
    problem = FMHA.problem(sq=4096, sk=512, h=1, b=1, workgroups=3, **SHARED)
    (piece, *_) = shares_of(problem, FMHA.spec(problem, GFX942), GFX942).work({}, 1)
    assert (piece.place, piece.steps.start > 0) == (1, True)
    trace = record_operator(FMHA, problem, GFX942, workgroups=[1])
    names = [trace.program[one].mnemonic for one in trace.steps[: trace.wave_first[1]]["instruction"].tolist()]
    assert names.index("buffer_load_dwordx4") < 780  # 816 where its first turn finds it again


def _memory(names: list[str]) -> list[str]:
    """Scalar loads, by that word alone, and waits, in order."""
    kinds = ("s_load" if one.startswith("s_load") else one for one in names)
    return [one for one in kinds if one in ("s_load", "s_waitcnt")]


@pytest.mark.full
@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
def test_staying_costs_the_steady_loop_nothing(chip: str) -> None:
    """What is kept for the next block of keys is out of the way, and the rest is read again: no registers of lanes, no
    scratch."""
    for more in ({}, {"mask": "top_left"}):
        spec = FMHA.spec(FMHA.problem(**SHARED, **more), get_target(chip))
        names = [one.mnemonic for one in _kept(chip, spec)]
        assert not any("lane" in name for name in names)


@pytest.mark.full
@pytest.mark.parametrize(("chip", "mask"), [
    ("gfx942", "top_left"), *(pytest.param(*case, marks=FULL) for case in itertools.product(
        CHIPS[1:], ("none", "top_left", "window:128,0", "window:64,0,4")))
])  # fmt: skip
def test_few_channels_keep_all_registers(chip: str, mask: str) -> None:
    """With 32 channels 14 scalar registers of a mask were in lanes where packed arithmetic took two for each number."""
    target = get_target(chip)
    for dtype in ("f16", "bf16"):
        _kept(chip, FMHA.spec(FMHA.problem(**SHARED | {"d": 32, "dtype": dtype, "mask": mask}), target))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {"d": 64, "bias": "one", "dbias": 1}), ("gfx950", {"d": 256, "bias": "one", "dbias": 1}),
])  # fmt: skip
def test_two_parts_keep_all_registers(chip: str, keys: dict[str, Any]) -> None:
    """Under a causal mask a turn has two steady loops: 24 scalar registers were in lanes, of what the second needs."""
    _kept(chip, FMHA.spec(FMHA.problem(**SHARED, **keys, mask="top_left"), get_target(chip)))


@FULL
@pytest.mark.parametrize("chip", CHIPS)
def test_listed_kernels_that_stay_keep_all_registers(chip: str) -> None:
    """Of f16 and bf16, batches and groups, under masks and without."""
    listed = [spec for spec in FMHA.kernels(get_target(chip)) if spec.sink == "shares"]
    assert len(listed) > 20
    for spec in listed:
        _kept(chip, spec)


def _kept(chip: str, spec: Any) -> Any:
    """The steady loop of a kernel that spills no register of either kind."""
    kernel = compile_kernel(FMHA, spec, get_target(chip))
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.sgpr_spill_count, metadata.vgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    return steady_loop(kernel.code_object, kernel.kernel_name).instructions
