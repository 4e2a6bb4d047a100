"""Attention backward of few queries, which a workgroup keeps in registers: gradients, the same bits in any order, when
it is chosen, how keys are shared."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS
from test_fmha_bwd_numerics import GROUP, assert_same_bits, differentiate, launches

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.attention.backward.sums import keys_of_a_workgroup, slots
from ckmlir.ops.plan import KernelStep, make_plan
from ckmlir.ops.request import RequestError
from ckmlir.ops.schedules import BACKWARD_KEYS
from ckmlir.records import replace
from ckmlir.runtime import check_outputs, open_device, run_operator
from ckmlir.scheduling import Workbench
from ckmlir.targets import get_target

FMHA = find_operator("fmha_bwd")
GFX942 = get_target("gfx942")
FULL = pytest.mark.full
SHORT = {"mode": "group", "seqlens_q": (7, 0, 3, 30), "seqlens_k": (140, 5, 0, 235)}
PADDED = {**SHORT, "slots_q": (8, 0, 3, 31), "slots_k": (148, 5, 9, 236)}
MASKS = ("none", "top_left", "bottom_right", "window:20,5", "window_bottom_right:9,3", "window_bottom_right:9,3,20")
CASES: list[tuple[str, dict[str, Any]]] = [
    ("gfx942", {"sq": 20, "sk": 200, "d": 64, "h": 2, "hk": 1, "mask": "bottom_right", "layout": "bshd"}),
    ("gfx950", {**PADDED, "d": 32, "dv": 40, "h": 1, "mask": "window_bottom_right:9,3", "alibi": "head", "sink": 1}),
    ("gfx90a", {"sq": 9, "sk": 130, "d": 64, "h": 2, "bias": "one", "dbias": 1, "dropout": 0.3, "dtype": "bf16"}),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "keys"), [*CASES[:2], *(pytest.param(*case, marks=FULL) for case in CASES[2:])])
def test_gradients(chip: str, keys: dict[str, Any]) -> None:
    """Masks, parts, sequences without queries or keys, heads that share keys, under all checkers."""
    differentiate(chip, {**keys, "keeps": "queries"})


@FULL
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("dtype", "d", "dv"), [
    *itertools.product(("f16", "bf16"), (32, 64, 96, 128), (32, 128)), ("f16", 256, 256), ("bf16", 40, 200),
    *itertools.product(("f32",), (32, 64), (32, 64)), ("f32", 128, 100),
])  # fmt: skip
def test_every_mask_and_length(chip: str, dtype: str, d: int, dv: int) -> None:
    """Every mask, with lengths around blocks of rows and of keys."""
    most = FMHA.problem(sq=1, d=d, dv=dv, dtype=dtype).most_kept
    for number, (mask, sq) in enumerate(itertools.product(MASKS, (1, 2, 15, 16, 17, 31, 32))):
        if sq <= most:
            keys = {"sq": sq, "sk": (1, 63, 64, 65, 300)[number % 5], "d": d, "dv": dv, "dtype": dtype, "mask": mask}
            differentiate(chip, {**keys, "h": 2, "hk": 1 + number % 2, "keeps": "queries"})


@FULL
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("d", [32, 128])
def test_every_part_and_mode(chip: str, d: int) -> None:
    """Parts and kinds of sequences with every mask."""
    parts = ({}, {"bias": "one", "dbias": 1, "dropout": 0.3}, {"alibi": "head", "dropout": 0.1, "sink": 1})
    for mask, part, some in itertools.product(MASKS, parts, (SHORT, PADDED, {"b": 2, "sq": 30, "seqlens_k": (140, 0)})):
        differentiate(chip, {**some, "d": d, "h": 2, "mask": mask, **part, "keeps": "queries"})
    differentiate(chip, {"b": 300, "h": 1, "sq": 5, "sk": 3, "d": d}, checks="")
    differentiate(chip, {"h": 1, "sq": 3, "sk": 5000, "d": d, "mask": "window_bottom_right:200,0"}, checks="")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("sq", "sk"), [(0, 40), (1, 1), pytest.param(32, 0, marks=FULL)])
def test_sizes_at_the_ends(sq: int, sk: int) -> None:
    """Without queries dK and dV are zeros, without keys dQ is; one of each works."""
    _, _, outputs = differentiate("gfx942", {"sq": sq, "sk": sk, "d": 32, "h": 1, "keeps": "queries"}, checks="")
    assert all(not array.any() for array in outputs.values()) == (sq * sk == 0)


def test_the_same_bits_in_any_order() -> None:
    """Nothing is added by atomics, whatever the request says of that."""
    assert_same_bits(launches("gfx942", {"sq": 12, "sk": 300, "d": 32, "h": 1}, count=5))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keys", [
    {"sq": 0, "sk": 40}, {"mode": "group", "seqlens_q": (0, 7), "seqlens_k": (40, 70)},
])  # fmt: skip
def test_keys_that_no_query_meets_have_no_gradients(keys: dict[str, Any]) -> None:
    """Also where V is NaN, which zeros in the place of queries would not make zeros of."""
    problem = FMHA.problem(**keys, d=32, h=1, keeps="queries")
    arrays = FMHA.inputs(problem, GFX942, seed=7)
    arrays["v"][:, :, :40] = np.nan
    found = run_operator(FMHA, problem, arrays, GFX942, open_device("sim", GFX942, checks="all")).outputs
    assert not any(found[name][:, :, :40].any() for name in ("dk", "dv"))
    assert all(one.ok for one in check_outputs(FMHA, problem, arrays, found, GFX942))


def test_when_queries_are_kept() -> None:
    """Where all queries of the longest sequence are one block; a request, a schedule or shares decide otherwise."""

    def kept(**keys: object) -> bool:
        return FMHA.spec(FMHA.problem(**keys), GFX942).sink == "kept"

    assert kept(sq=1) and kept(sq=32) and not kept(sq=33)
    assert kept(sq=16, dv=256) and not kept(sq=17, d=256)
    assert kept(sq=32, d=64, dtype="f32") and kept(sq=16, dtype="f32") and not kept(sq=17, dtype="f32")
    assert not kept(sq=1, dv=136, dtype="f32")
    assert kept(**SHORT) and not kept(**GROUP)
    assert not kept(sq=5, keeps="keys") and not kept(sq=5, schedule="phases")
    assert not kept(sq=5, deterministic=1, persistent=1)
    assert FMHA.spec(FMHA.problem(sq=16), GFX942).block == (16, 64)
    long = FMHA.spec(FMHA.problem(sq=17), GFX942)
    assert long.block == (32, 64)
    short = FMHA.spec(FMHA.problem(sq=16), GFX942)
    assert FMHA.mismatches(FMHA.problem(sq=16), long, GFX942) == []
    assert "up to 17 queries" in str(FMHA.mismatches(FMHA.problem(sq=17), short, GFX942)[0])


@pytest.mark.parametrize(("keys", "words"), [
    ({"sq": 40}, "keeps=queries: sq=40; a workgroup keeps 32 of them"),
    ({"sq": 4, "persistent": 1, "deterministic": 1}, "keeps=queries: with persistent=1"),
    ({"sq": 4, "dtype": "f32", "dv": 256}, "a workgroup keeps none of them"),
])  # fmt: skip
def test_requests_that_are_refused(keys: dict[str, object], words: str) -> None:
    with pytest.raises(RequestError) as error:
        FMHA.problem(**keys, keeps="queries")
    assert words in str(error.value)
    assert "expected keeps=keys" in str(error.value)


def test_schedules_of_the_other_loop_are_refused() -> None:
    spec = FMHA.spec(FMHA.problem(sq=5), GFX942)
    assert "the loop is one over keys" in str(FMHA.validate(replace(spec, schedule="phases"), GFX942)[0])
    spec = FMHA.spec(FMHA.problem(sq=500), GFX942)
    assert "the loop is one over queries" in str(FMHA.validate(replace(spec, schedule="keys"), GFX942)[0])


@pytest.mark.parametrize(("heads", "sk"), [(1, 10), (1, 4000), (64, 8192), (700, 640), (3, 0)])
def test_every_key_is_taken_once(heads: int, sk: int) -> None:
    """Workgroups of a head take whole blocks, all together; a slot for each, and no more rounds than one by one."""
    problem = FMHA.problem(sq=5, sk=sk, h=heads)
    spec = FMHA.spec(problem, GFX942)
    taken, count = keys_of_a_workgroup(problem, spec, GFX942), slots(problem, spec, GFX942)
    assert taken % spec.block[1] == 0
    assert (count - 1) * taken < max(sk, 1) <= count * taken
    launch = FMHA.launch(problem, spec, GFX942)
    assert launch.grid == (count if sk else 0, heads, 1)
    steps = make_plan(FMHA, problem, GFX942).steps
    names = [one.operator.name for one in steps if isinstance(one, KernelStep)]
    assert names == ["fmha_bwd_dot_do_o", *["fmha_bwd"] * bool(sk), "sum_parts"]
    assert all(isinstance(one, KernelStep) for one in steps) == bool(sk)  # nothing is cleared


@pytest.mark.parametrize(("chip", "dtype", "d", "rows", "mask", "schedule"), [
    ("gfx942", "f16", 32, 16, "top_left", "keys"),
    *(pytest.param(*case, marks=FULL) for case in itertools.product(
        CHIPS, ("f16", "f32"), (32, 64, 128), (16, 32), MASKS, BACKWARD_KEYS)),
    *(pytest.param(*case, marks=FULL) for case in itertools.product(
        CHIPS, ("f16",), (256,), (16,), MASKS, BACKWARD_KEYS)),
])  # fmt: skip
def test_every_schedule_is_proved(chip: str, dtype: str, d: int, rows: int, mask: str, schedule: str) -> None:
    """And the default's kernel keeps all its registers."""
    if dtype == "f32" and (d, rows) == (128, 32):
        return
    target = get_target(chip)
    keys = {"sq": rows, "sk": 140, "d": d, "h": 1, "mask": mask, "schedule": schedule, "dtype": dtype}
    spec = FMHA.spec(FMHA.problem(**keys), target)
    assert spec.block[0] == rows
    bench = Workbench.of(FMHA, spec, target)
    assert bench.compile(bench.schedule).findings == ()
    if schedule == "keys":
        kernel = compile_kernel(FMHA, spec, target)
        metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
        assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
