"""Attention backward by workgroups that take a head each: gradients, the same bits in any order, which requests do."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS
from test_fmha_bwd_numerics import GROUP, PADDED, assert_same_bits, differentiate, launches

from ckmlir.compiler import compile_kernel
from ckmlir.lowering import codeobject
from ckmlir.lowering.metadata_note import spilled_registers
from ckmlir.ops import find_operator
from ckmlir.ops.attention.backward import heads_kernel
from ckmlir.ops.attention.backward import problem as backward
from ckmlir.ops.attention.backward.fmha_bwd_turns import turns_of
from ckmlir.ops.attention.reference import attention
from ckmlir.ops.plan import make_plan
from ckmlir.ops.request import RequestError
from ckmlir.runtime import check_outputs, open_device, run_operator
from ckmlir.scheduling import Workbench
from ckmlir.sim.decode.decoder import disassemble
from ckmlir.targets import get_target

FMHA, TURNS = map(find_operator, ("fmha_bwd", "fmha_bwd_turns"))
GFX942 = get_target("gfx942")
FULL = pytest.mark.full
STAYING: dict[str, Any] = {"deterministic": 1, "persistent": 1}
SHORT: dict[str, Any] = {"mode": "group", "seqlens_q": (256, 40) * 64, "seqlens_k": (256, 40) * 64, "h": 8}
SOME: dict[str, Any] = {"mode": "group", "seqlens_q": (70, 0, 130, 40), "seqlens_k": (250, 200, 1, 130)}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("gfx942", {**SOME, "seqlens_k": (500, 300, 1, 260), "d": 32, "h": 2, "mask": "top_left"}),
    ("gfx950", {**PADDED, "d": 64, "h": 2, "hk": 1, "mask": "window:20,5", "pack": "host", "sink": 1}),
    ("gfx90a", {"b": 2, "sq": 80, "sk": 300, "d": 40, "dv": 72, "dtype": "bf16", "mask": "bottom_right"}),
    ("gfx942", {"b": 2, "sq": 140, "sk": 30, "seqlens_q": (9, 140), "d": 32, "h": 1, "dtype": "f32"}),
]
MORE: list[tuple[str, dict[str, Any]]] = [
    (chip, {**some, "d": d, "h": 2, "hk": 1 + number % 2, "mask": mask, "pack": ("host", "device")[number // 2 % 2]})
    for number, (chip, d, mask, some) in enumerate(itertools.product(
        CHIPS, (32, 64, 96, 128, 256), ("none", "top_left", "bottom_right", "window:20,5,40"),
        (SOME, PADDED, {"b": 2, "sq": 80, "sk": 250, "seqlens_k": (140, 250)}),
    ))
]  # fmt: skip
PARTS: tuple[dict[str, Any], ...] = (
    {}, {"bias": "head", "dbias": 1}, {"alibi": "head"}, {"dropout": 0.3}, {"bias": "one", "dropout": 0.2, "sink": 1},
)  # fmt: skip


@pytest.fixture
def few() -> Iterator[None]:
    """A few heads are many enough."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backward, "MANY_HEADS", 1)
        yield


def sink_of(**keys: Any) -> str:
    """What becomes of parts of dQ."""
    sink: str = FMHA.spec(FMHA.problem(**keys, **STAYING), GFX942).sink
    return sink


@pytest.mark.usefixtures("few")
@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "keys"), [*CASES, *(pytest.param(*case, marks=FULL) for case in MORE)])
def test_gradients(chip: str, keys: dict[str, Any]) -> None:
    """Sequences without queries or keys, rows that no key reaches, rows of no sequence; under all checkers."""
    assert sink_of(**keys) == "heads"
    differentiate(chip, {**keys, **STAYING})


@pytest.mark.one_in(2)
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("sq", "sk"), [(0, 40), (40, 0), (1, 1)])
def test_sizes_at_the_ends(sq: int, sk: int) -> None:
    """Without queries dK and dV are zeros, without keys dQ is; one of each works."""
    outputs = differentiate("gfx942", {"sq": sq, "sk": sk, "d": 32, "h": 2, "b": 2, **STAYING})[2]
    assert all(not array.any() for array in outputs.values()) == (sq * sk == 0)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("chip", ["gfx942", *(pytest.param(one, marks=FULL) for one in CHIPS if one != "gfx942")])
def test_the_same_bits_in_any_order(chip: str) -> None:
    """20 launches, workgroups and waves in other orders each time, for the gradients of all arrays."""
    keys = {**GROUP, "seqlens_k": (300, 5, 0, 135), "d": 32, "h": 2, "hk": 1, "mask": "window:-1,250"}
    assert_same_bits(launches(chip, {**keys, **STAYING}))


@pytest.mark.usefixtures("few")
def test_rows_in_front_of_sequences_and_behind_them() -> None:
    """Where sequences begin is in memory: they may leave rows of the arrays out, of which nothing is promised; no
    undefined value is stored there."""
    problem = FMHA.problem(mode="group", seqlens_q=(50, 70), seqlens_k=(50, 70), d=32, h=2, **STAYING)
    arrays = FMHA.inputs(problem, GFX942, seed=7)
    for side in "qk":
        arrays[f"seqstart_{side}"] = np.array([37, 60, 85], np.int32)
    for name, array in attention(problem.attention, arrays).items():
        arrays[name] = array.astype(arrays[name].dtype)
    device = open_device("sim", GFX942, seed=3, checks="all")
    outputs = run_operator(FMHA, problem, arrays, GFX942, device).outputs
    assert all(one.ok for one in check_outputs(FMHA, problem, arrays, outputs, GFX942))


def test_which_requests_take_heads() -> None:
    """Many short sequences, unless the request says how many workgroups there are; by bounds, not by lengths."""
    assert sink_of(**SHORT) == sink_of(b=128, h=8, sq=320, sk=512) == "heads"
    longer = {"sq": 4096, "sk": 4096, "slots_q": (256,) * 128, "slots_k": (256,) * 128}
    assert sink_of(**SHORT, **longer) == "shares"
    for other in ({"workgroups": 304}, {"h": 4}, {"sq": 352}, {"sk": 640}, {"d": 256}):
        assert sink_of(**{**SHORT, **other}) == "shares", other


@pytest.mark.full
def test_many_heads() -> None:
    """More of them than compute units, of few rows."""
    lengths = {"seqlens_q": tuple(i % 7 for i in range(128)), "seqlens_k": tuple(i % 5 for i in range(128))}
    keys = {"mode": "group", **lengths, "h": 8, "hk": 4, "d": 32, "mask": "top_left"}
    assert sink_of(**keys) == "heads"
    differentiate("gfx942", {**keys, **STAYING}, checks="")


def test_workspaces_are_those_of_atomics() -> None:
    """dQ in f32 once, and which sequence has which turn; nothing is filled before, and nothing joined behind."""
    plans = [make_plan(FMHA, FMHA.problem(**SHORT, d=128, **one), GFX942) for one in ({}, STAYING)]
    atomic, own = ({one.name: one.nbytes for one in plan.workspaces} for plan in plans)
    assert own == {**atomic, "costs": 130 * 4, "turns": 128 * 4}
    names = [str(step).split()[0] for step in plans[1].steps]
    assert not any(one.startswith(("fill", "fmha_bwd_join")) for one in names)


def grid_of_registers() -> Iterator[Any]:
    """Chips, types, channels and masks."""
    masks = ("none", "top_left", "window:64,0", "window:64,0,4")
    for case in itertools.product(CHIPS, ("f16", "bf16", "f32"), (32, 64, 96, 128, 256), masks):
        yield pytest.param(*case, marks=FULL)


@pytest.mark.full
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("chip", "dtype", "d", "mask"), [("gfx942", "f16", 64, "top_left"), *grid_of_registers()])
def test_registers(chip: str, dtype: str, d: int, mask: str) -> None:
    """Nothing is spilled with any part that is not refused: beside dropout 3 to 11 scalar registers were, for what is
    known of the head."""
    target = get_target(chip)
    for part in PARTS if d != 128 or chip == "gfx950" else PARTS[:1]:
        spec = FMHA.spec(FMHA.problem(**SOME, d=d, dtype=dtype, mask=mask, **part, **STAYING), target)
        if FMHA.validate(spec, target):
            continue
        assert spec.sink == "heads"
        kernel = compile_kernel(FMHA, spec, target)
        metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
        counts = metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size
        assert counts == (0, 0, 0), part


@pytest.mark.full
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("chip", "keys", "tries"), [
    ("gfx950", {"d": 32, "dtype": "f32", "bias": "head", "dbias": 1}, 2),
    pytest.param("gfx950", {"d": 256, "dtype": "bf16", "dropout": 0.3}, 2, marks=FULL),
    pytest.param("gfx90a", {"d": 64, "bias": "head", "dbias": 1}, 2, marks=FULL),
    pytest.param("gfx90a", {"d": 256, "dtype": "bf16", **PARTS[-1]}, 3, marks=FULL),
    pytest.param("gfx950", {"d": 32, "dtype": "bf16", **PARTS[-1]}, 3, marks=FULL),
])  # fmt: skip
def test_llvm_does_less_where_scalar_registers_would_be_in_lanes(
    chip: str, keys: dict[str, Any], tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its output tells that it has too few of them, and the kernel is compiled again, its assembly likewise, until
    none is left.
    """
    target = get_target(chip)
    problem = FMHA.problem(**SOME, **keys, mask="top_left", **STAYING)
    spec, choices, spilled = FMHA.spec(problem, target), codeobject.FEWER_SCALARS, []
    for tried in range(1, tries + 1):
        with monkeypatch.context() as patch:
            patch.setitem(codeobject.FEWER, "scalars", choices[: tried - 1])
            kernel = compile_kernel(FMHA, spec, target, keep=("asm", "obj"))
        assembly, made = kernel.artifacts["asm"], kernel.artifacts["obj"]
        assert isinstance(assembly, str) and isinstance(made, bytes)
        metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
        counts = metadata.vgpr_spill_count, metadata.sgpr_spill_count
        assert counts == spilled_registers(made) == spilled_registers(assembly.encode())
        spilled.append(metadata.sgpr_spill_count)
    assert spilled[-1] == 0 < spilled[-2]
    assert spilled == sorted(spilled, reverse=True)


@pytest.mark.full
@pytest.mark.usefixtures("few")
def test_a_head_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where registers are left for what is known of it, so that turns need not ask memory; not beside parts."""

    def loads(**keys: Any) -> int:
        kernel = compile_kernel(FMHA, FMHA.spec(FMHA.problem(**SOME, d=128, **keys, **STAYING), GFX942), GFX942)
        code = disassemble(kernel.code_object, kernel.kernel_name)
        return sum(one.mnemonic.startswith("s_load") for one in code)

    before = [loads(), loads(alibi="head")]
    monkeypatch.setattr(heads_kernel, "MOST_AGAIN", 128)
    after = [loads(), loads(alibi="head")]
    assert before[0] < after[0] and before[1] == after[1]


@pytest.mark.usefixtures("few")
@pytest.mark.full
@pytest.mark.parametrize(("chip", "mask"), list(itertools.product(CHIPS, ("none", "top_left", "window:20,5"))))
def test_the_kernel_is_proved(chip: str, mask: str) -> None:
    """Loops within the loop over blocks included."""
    target = get_target(chip)
    bench = Workbench.of(FMHA, FMHA.spec(FMHA.problem(**SOME, d=64, mask=mask, **STAYING), target), target)
    assert bench.compile(bench.schedule).findings == ()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("count", [1, 63, 64, 65, 300])
def test_turns(count: int) -> None:
    """The dearest first, of equal ones that in front, against a sort of pairs."""
    random = Random(count)
    each = [random.choice((0, 3, random.randint(0, 40))) for _ in range(count)]
    costs = np.cumsum([random.randint(0, 9), *each, 0]).astype(np.int32)
    costs[-1] = 7  # how long shares are; not looked at
    expected = sorted(range(count), key=lambda one: (-each[one], one))
    assert turns_of(costs).tolist() == expected
    problem = TURNS.problem(b=count)
    found = run_operator(TURNS, problem, {"costs": costs}, GFX942, open_device("sim", GFX942, checks="all")).outputs
    assert found["turns"].tolist() == expected


def test_costs_that_fall() -> None:
    """They belong to no lengths."""
    problem = TURNS.problem(b=2)
    with pytest.raises(RequestError, match="array costs: numbers fall"):
        TURNS.check_inputs(problem, {"costs": np.array([0, 5, 3, 1], np.int32)})
