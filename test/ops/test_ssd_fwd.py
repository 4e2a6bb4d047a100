"""The forward pass of state space duality: the reference against CK Tile's chunks, numbers under all checkers, how
tight tolerances are, states from one call to the next, strides, what nothing is promised of, and what is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_runner import CHIPS, agree, checked, outcome

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.comparison import Array, compare
from ckmlir.ops.request import RequestError
from ckmlir.ops.schedules import SSD as SCHEDULES
from ckmlir.ops.state_space.problem import Problem
from ckmlir.ops.state_space.ssd_fwd_spec import BLOCKS, STATE_TILES, WAVES, SsdFwdSpec
from ckmlir.records import replace
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.scheduling import Workbench
from ckmlir.targets import get_target

SSD = find_operator("ssd_fwd")
GFX942 = get_target("gfx942")
Keys = dict[str, Any]
ALL: Keys = {"skip": "channel", "gate": 1, "initial": 1}
CASES: list[tuple[str, Keys]] = [
    ("gfx942", {"b": 2, "h": 4, "g": 2, "s": 150, "d": 64, "n": 64}),
    ("gfx950", {"h": 2, "s": 130, "d": 64, "n": 128, "dtype": "bf16", **ALL}),
    ("gfx90a", {"h": 1, "s": 64, "d": 32, "n": 32, "dtype": "f32", "layout": "bhds", **ALL}),
    ("gfx942", {"h": 2, "s": 100, "d": 40, "n": 24, "dtype": "bf16", "layout": "bhds", "skip": "head"}),
    ("gfx950", {"h": 1, "s": 90, "d": 32, "n": 200, "dtype": "f32", "initial": 1}),
    ("gfx90a", {"h": 2, "g": 2, "s": 70, "d": 33, "n": 17, "gate": 1}),
    ("gfx942", {"h": 1, "s": 65, "d": 1, "n": 1, "final": 0}),
    ("gfx950", {"h": 1, "s": 1, "d": 64, "n": 32, **ALL}),
    ("gfx942", {"h": 3, "s": 0, "d": 8, "n": 8, "initial": 1}),
    ("gfx942", {"h": 2, "s": 67, "d": 8, "n": 0, "skip": "head"}),
    ("gfx90a", {"h": 2, "s": 97, "d": 64, "n": 128}),
]
WIDE = [
    (chip, {"h": 2, "s": 97, "d": d, "n": n, "dtype": dtype, "layout": layout, **more})
    for chip in CHIPS
    for dtype in ("f16", "bf16", "f32")
    for layout in ("bshd", "bhds")
    for d, n in ((64, 128), (72, 40), (16, 256))
    for more in ({}, ALL)
]


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("chip", "keys"), CASES)
def test_numbers(chip: str, keys: Keys) -> None:
    checked("ssd_fwd", chip, keys)


@pytest.mark.full
@pytest.mark.parametrize(("chip", "keys"), WIDE)
def test_numbers_of_all_kinds(chip: str, keys: Keys) -> None:
    agree("ssd_fwd", chip, **keys)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_computes_the_same(block: tuple[int, int], schedule: str) -> None:
    """Results do not depend on how places are put in blocks."""
    problem = SSD.problem(h=1, s=131, d=64, n=32)
    spec = replace(SSD.spec(problem, GFX942), block=block, schedule=schedule)
    specs = [one for one in (replace(spec, waves=waves) for waves in WAVES) if not SSD.validate(one, GFX942)]
    assert specs
    arrays = SSD.inputs(problem, GFX942, seed=3)
    result = run_operator(SSD, problem, arrays, GFX942, open_device("sim", GFX942, checks="all"), spec=specs[0])
    assert all(one.ok for one in check_outputs(SSD, problem, arrays, result.outputs, GFX942))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_schedules_are_proved(schedule: str, dtype: str) -> None:
    """A scheduled loop computes for every trip count what the plain one does, without a race."""
    spec = SSD.spec(SSD.problem(n=32, dtype=dtype, schedule=schedule, **ALL), GFX942)
    bench = Workbench.of(SSD, spec, GFX942)
    assert bench.compile(bench.schedule, code=False).findings == ()


def chunked(problem: Problem, arrays: Mapping[str, Array], length: int) -> Array:
    """Y before skip and gate (batch, head, place, channel) as CK Tile's example defines it, chunk by chunk."""
    x, b, c = (problem.by_head(name, arrays[name]) for name in ("x", "b_mat", "c_mat"))
    decay, delta = (problem.steps(arrays[name]) for name in ("delta_a", "delta"))
    y = np.zeros(x.shape)
    for batch in range(problem.b):
        for head in range(problem.h):
            state = np.zeros((problem.n, problem.d))
            for first in range(0, problem.s, length):
                part = batch, head, slice(first, first + length)
                sums, weight = np.cumsum(decay[part]), delta[part]
                intra = np.tril((c[part] @ b[part].T) * np.exp(sums[:, None] - sums)) * weight
                y[part] = np.exp(sums)[:, None] * (c[part] @ state) + intra @ x[part]
                chunk = (b[part] * (np.exp(sums[-1] - sums) * weight)[:, None]).T @ x[part]
                state = chunk + np.exp(sums[-1]) * state
    return y


@settings(max_examples=20, deadline=None)
@given(length=st.integers(1, 40), s=st.integers(1, 50), layout=st.sampled_from(("bshd", "bhds")))
def test_the_reference_is_that_of_chunks(length: int, s: int, layout: str) -> None:
    problem = SSD.problem(b=2, h=4, g=2, s=s, d=3, n=5, layout=layout)
    arrays = SSD.inputs(problem, GFX942, seed=s)
    found = problem.by_head("y", SSD.reference(problem, arrays)["y"])
    np.testing.assert_allclose(found, chunked(problem, arrays, length), rtol=1e-10, atol=1e-12)


def test_skip_and_gate_are_as_defined() -> None:
    problem, plain = (SSD.problem(h=2, s=5, d=3, n=4, **one) for one in ({"skip": "head", "gate": 1}, {}))
    arrays = SSD.inputs(problem, GFX942)
    x, z = (arrays[name].astype(np.float64) for name in "xz")
    y = SSD.reference(plain, arrays)["y"] + arrays["skip"][:, None] * x
    np.testing.assert_allclose(SSD.reference(problem, arrays)["y"], y * z / (1 + np.exp(-z)))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_tolerances_are_tight(dtype: str) -> None:
    """What ten times the error of an operand's rounding comes to does not pass, nor does a place that forgets the
    block before."""
    problem = SSD.problem(h=2, s=150, d=32, n=32, dtype=dtype)
    arrays = SSD.inputs(problem, GFX942, seed=2)
    exact = SSD.reference(problem, arrays)
    tolerances = SSD.tolerances(problem, arrays, exact, GFX942)
    wrong = {"f16": 2.0**-7, "bf16": 2.0**-4, "f32": 2.0**-13}[dtype]
    noise = 1 + wrong * np.random.default_rng(0).choice((-1.0, 1.0), arrays["x"].shape)
    others = SSD.reference(problem, {**arrays, "x": arrays["x"].astype(np.float64) * noise})
    short = SSD.problem(h=2, s=64, d=32, n=32, dtype=dtype)
    tail = SSD.reference(short, {name: one[:, 64:128] for name, one in arrays.items()})["y"]
    forgetful = exact["y"].copy()
    forgetful[:, 64:128] = tail
    for name in exact:
        assert compare(name, exact[name].astype(np.float64), exact[name], tolerances[name]).ok
        assert not compare(name, others[name], exact[name], tolerances[name]).ok
    assert not compare("y", forgetful, exact["y"], tolerances["y"]).ok


def test_a_state_goes_on_where_it_was_left() -> None:
    """Two calls, of which the second begins with the first one's state, are one call of all places."""
    whole = outcome(SSD, "gfx942", {"h": 2, "s": 160, "d": 32, "n": 32})
    first = {name: one[:, :100] for name, one in whole.arrays.items()}
    last = {name: one[:, 100:] for name, one in whole.arrays.items()}
    begun = outcome(SSD, "gfx942", {"h": 2, "s": 100, "d": 32, "n": 32}, first)
    keys = {"h": 2, "s": 60, "d": 32, "n": 32, "initial": 1}
    ended = outcome(SSD, "gfx942", keys, {**last, "initial": begun.outputs["state"]})
    tolerance = SSD.tolerances(whole.problem, whole.arrays, whole.outputs, GFX942)
    both = np.concatenate([begun.outputs["y"], ended.outputs["y"]], axis=1)
    for name, found in (("y", both), ("state", ended.outputs["state"])):
        atol = 2 * np.asarray(tolerance[name].atol)
        exact = whole.outputs[name].astype(np.float64)
        limit = atol + 2 * tolerance[name].rtol * np.abs(exact)
        assert (np.abs(found.astype(np.float64) - exact) <= limit).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("layout", ["bshd", "bhds"])
def test_strides(layout: str) -> None:
    """Heads in front of rows or behind them, with gaps, also of the numbers of places."""
    rows, length = (16, 40) if layout == "bhds" else (40, 16)
    row = length + 24
    by_rows = (4 * rows * row, rows * row, row)
    keys: Keys = {
        "b": 2, "h": 4, "g": 2, "s": 40, "d": 16, "n": 16, "layout": layout, "gate": 1, "x_strides": by_rows,
        "z_strides": (4 * rows * row + 8, row, 4 * row), "y_strides": by_rows, "c_mat_strides": by_rows,
        "b_mat_strides": (2 * rows * row, row, 2 * row), "delta_strides": (2000, 45),
    }  # fmt: skip
    checked("ssd_fwd", "gfx942", keys)


def test_exponents_far_below_and_steps_of_zero() -> None:
    """A place that forgets all before it, and places that count nothing."""
    problem = SSD.problem(h=2, s=140, d=32, n=32)
    arrays = dict(SSD.inputs(problem, GFX942, seed=4))
    decay, delta = arrays["delta_a"].copy(), arrays["delta"].copy()
    decay[:, ::30], decay[:, 5:9], delta[:, 40:60] = -200.0, 0.0, 0.0
    checked("ssd_fwd", "gfx942", {"h": 2, "s": 140, "d": 32, "n": 32}, {"delta_a": decay, "delta": delta})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["x", "b_mat", "c_mat", "delta", "delta_a"])
def test_a_head_that_is_not_finite_leaves_others_alone(name: str) -> None:
    keys: Keys = {"b": 2, "h": 2, "g": 2, "s": 80, "d": 32, "n": 32}
    problem = SSD.problem(**keys)
    values = dict(SSD.inputs(problem, GFX942, seed=5))[name].copy()
    values[0, 70, 1] = np.nan
    found = checked("ssd_fwd", "gfx942", keys, {name: values})
    assert (
        np.isfinite(found["y"][:, :, 0].astype(np.float32)).all()
        and np.isfinite(found["y"][1].astype(np.float32)).all()
    )
    assert np.isnan(found["y"][0, 70:, 1].astype(np.float32)).any()


def test_blocks_grow_with_channels() -> None:
    """The tile of the state is the least that holds it, and a workgroup takes no more channels than there are."""
    for n, tile in ((1, 32), (33, 64), (128, 128), (129, 256)):
        assert SSD.spec(SSD.problem(n=n), GFX942).n_tile == tile
    assert [SSD.spec(SSD.problem(d=d, n=32), GFX942).d_tile for d in (1, 32, 33, 500)] == [16, 32, 64, 64]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keys", [{}, {"skip": "head", "gate": 1}, {"n": 129, "layout": "bhds"}])
def test_the_largest_states_spill_nothing(keys: Keys) -> None:
    """Of f32, whose blocks of 64 LDS of gfx950 has room for, and registers have not."""
    target = get_target("gfx950")
    kernel = compile_kernel(SSD, SSD.spec(SSD.problem(**{"n": 256, "dtype": "f32", **keys}), target), target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.private_segment_size) == (0, 0)


def spec_with(**fields: object) -> SsdFwdSpec:
    return replace(SSD.spec(SSD.problem(), GFX942), **fields)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"n_tile": 48}, "n_tile=48: not a choice"),
        ({"n_tile": 256}, "blocks take 110592 bytes of LDS, and gfx942 has 65536"),
        ({"align": 1}, "loads of 2 bytes ahead of their block take more registers"),
        ({"block": (32, 16)}, "waves=4: they share 32x16 elements of block"),
    ],
)
def test_kernels_that_there_are_not(fields: Keys, words: str) -> None:
    assert words in " | ".join(map(str, SSD.validate(spec_with(**fields), GFX942)))


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"h": 4, "g": 3}, "g=3: h=4 is not a multiple of it"),
        ({"n": STATE_TILES[-1] + 1}, "n=257: expected a whole number from 0 to 256"),
        ({"z_strides": (64, 64, 64)}, "there is no Z; expected gate=1"),
        ({"x_strides": (1 << 20, 64, 64)}, "would share a place"),
        ({"s": 2**27, "d": 16}, "a head of array x reaches over"),
        ({"delta_strides": (10, 1)}, "would share a place"),
    ],
)
def test_what_is_refused(keys: Keys, words: str) -> None:
    with pytest.raises(RequestError, match="ssd_fwd: .*" + words.replace("(", r"\(")):
        SSD.problem(**keys)


@pytest.mark.parametrize(
    ("keys", "words"),
    [({"n": 100}, "a state has n=100 channels"), ({"d": 60}, "are not whole tiles"), ({"d": 68}, "align=8")],
)
def test_kernels_say_what_they_do_not_cover(keys: Keys, words: str) -> None:
    spec = SSD.spec(SSD.problem(n=64, d=64), GFX942)
    assert words in " | ".join(map(str, SSD.mismatches(SSD.problem(**{"n": 64, **keys}), spec, GFX942)))
    assert not SSD.mismatches(SSD.problem(n=64, d=128, s=77, h=6, g=3), spec, GFX942)
