"""Attention over listed blocks of keys: numbers under all checkers, lists that nobody can mean on host and device,
blocks that are not listed and hold NaN, skipped blocks, and what is refused.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, checked

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.ops.schedules import ATTENTION
from ckmlir.runtime import run_operator
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling import Workbench
from ckmlir.sim.analysis import check_hazards
from ckmlir.sim.checks import parse_checks
from ckmlir.targets import get_target

SPARSE = find_operator("sparse_attention")
GFX942 = get_target("gfx942")
Keys = dict[str, Any]
FEW: Keys = {"h": 2, "hk": 1, "sq": 200, "sk": 300, "d": 32, "block_k": 64, "lse": 1}
GROUP: Keys = {"mode": "group", "seqlens_q": (3, 0, 200), "seqlens_k": (150, 50, 200), "h": 2, "d": 32, "lse": 1}
CASES: list[tuple[str, Keys]] = [
    ("gfx942", {**FEW, "lists": "list", "entries": 3}),
    ("gfx950", {**FEW, "lists": "map", "dtype": "bf16", "mask": "bottom_right", "layout": "bshd"}),
    ("gfx90a", {**FEW, "lists": "deltas", "block_q": 64, "block_k": 32, "mask": "window:100,20", "bias": "head"}),
    ("gfx942", {**FEW, "dtype": "fp8", "sparsity": 0.3, "sink": 1, "soft_cap": 5}),
    ("gfx950", {**FEW, "sparsity": 0, "pv_threshold": 4}),
    ("gfx90a", {**GROUP, "lists": "list", "sparsity": 0.7, "block_k": 64}),
    ("gfx942", {"h": 1, "sq": 70, "sk": 100, "d": 224, "block_q": 64, "v_layout": "columns"}),
    ("gfx950", {"h": 1, "sq": 70, "sk": 128, "d": 256, "block_q": 64, "k_strides": (65536, 272, 272)}),
    ("gfx942", {"h": 1, "sq": 100, "sk": 0, "d": 32, "lse": 1}),
    ("gfx90a", {"h": 1, "sq": 1, "sk": 1, "d": 32, "lse": 1}),
    ("gfx942", {**FEW, "alibi": "head", "v_layout": "columns", "mask": "window:30,0,70"}),
]
WIDE = [
    (chip, {**shape, "lists": lists, "block_q": queries, "block_k": keys, "d": d, "dtype": dtype, "mask": mask})
    for chip in CHIPS
    for shape in (FEW, GROUP)
    for lists in ("list", "map", "deltas")
    for queries, keys in ((64, 64), (128, 32), (256, 128))
    for d in (64, 160)
    for dtype in ("f16", "bf16", "fp8", "f32")
    for mask in ("none", "top_left")
    if dtype != "fp8" or chip != "gfx90a"
]


def run(chip: str, keys: Keys, more: dict[str, Any] | None = None) -> dict[str, Any]:
    """Outputs, which agree with the reference under all checkers."""
    return checked("sparse_attention", chip, keys, more)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("chip", "keys"), [*CASES, *(pytest.param(*one, marks=pytest.mark.full) for one in WIDE)], ids=str
)
def test_numbers(chip: str, keys: Keys) -> None:
    outputs = run(chip, keys)
    if keys.get("sparsity") == 0.7:
        assert outputs["o"].any()


def test_blocks_without_keys_are_zeros() -> None:
    outputs = run("gfx942", {**FEW, "sparsity": 1})
    assert not outputs["o"].any() and (outputs["lse"] == -np.inf).all()


def test_the_three_forms_are_one() -> None:
    """The same bits, whichever says which blocks; and what is not listed never counts, NaN included."""
    problem = SPARSE.problem(**FEW, lists="list")
    arrays = SPARSE.inputs(problem, GFX942, seed=7)
    lists, counts = arrays["block_list"], arrays["block_counts"]
    lists[..., 2:] = np.where(lists[..., 2:] == 4, -7, lists[..., 2:])  # the last block is nobody's
    counts[:] = (lists >= 0).sum(-1)
    for name in "kv":
        arrays[name][:, :, 256:] = np.nan
    chosen = np.zeros((*counts.shape, 5), np.int8)
    for place in np.ndindex(counts.shape):
        chosen[place][lists[place][: counts[place]]] = 1
    given = {"list": arrays, "deltas": {"block_deltas": np.diff(lists, prepend=np.int32(0)), "block_counts": counts},
             "map": {"block_map": chosen}}  # fmt: skip
    found = {}
    for form, more in given.items():
        both = {**arrays, **more}
        result = run_operator(
            SPARSE, SPARSE.problem(**FEW, lists=form), both, GFX942, SimulatorDevice(GFX942, checks=parse_checks("all"))
        )
        found[form] = result.outputs["o"].view(np.int16)
    np.testing.assert_array_equal(found["list"], found["deltas"])
    np.testing.assert_array_equal(found["list"], found["map"])
    finite = {**arrays, **{name: np.nan_to_num(arrays[name]) for name in "kv"}}
    expected = SPARSE.reference(problem, finite)["o"]
    np.testing.assert_allclose(found["list"].view(np.float16), expected, atol=4e-3)


@pytest.mark.parametrize("keys", [256, 300])
@pytest.mark.parametrize("chip", ["gfx942", pytest.param("gfx90a", marks=pytest.mark.full), "gfx950"])
def test_lists_in_device_memory_that_nobody_can_mean(chip: str, keys: int) -> None:
    """No access outside, whatever they hold; blocks that do not exist count for nothing, repeated ones again, and any
    order will do."""
    target = get_target(chip)
    problem = SPARSE.problem(h=1, b=6, sq=3, sk=keys, d=32, block_k=64, lists="list", entries=4)
    arrays = SPARSE.inputs(problem, target, seed=3)
    far, least = 2**31 - 1, -(2**31)
    lists = [[2, 0, 3, 1], [1, 1, 3, 3], [5, -1, far, 0], [least, 1 << 26, -64, 64], [0, 1, 2, 3], [9, 9, 9, 9]]
    arrays["block_list"] = np.array(lists, np.int32).reshape(6, 1, 1, 4)
    arrays["block_counts"] = np.array([4, 3, far, 4, least, 10**6], np.int32).reshape(6, 1, 1)
    device = SimulatorDevice(target, checks=parse_checks("memory"))
    executable, memories = Executable(device, SPARSE, problem), {}
    for array in SPARSE.arrays(problem):
        memories[array.name] = device.allocate(array.nbytes)
        device.write(memories[array.name], arrays.get(array.name, np.ones(array.nbytes, np.uint8)))
    executable.launch(memories)
    o = np.ones(problem.shape("o"), np.float16)
    device.read(o, memories["o"])
    q, k, v = (arrays[name][:, 0].astype(np.float64) for name in "qkv")
    for number, blocks in enumerate([[0, 1, 2, 3], [1, 1, 3], [0], [], [], []]):
        rows = np.array([row for one in blocks for row in range(64 * one, min(64 * one + 64, keys))], np.int64)
        weights = np.exp(q[number] @ k[number, rows].T / math.sqrt(32))
        expected = weights @ v[number, rows] / np.maximum(weights.sum(1, keepdims=True), 1e-30)
        np.testing.assert_allclose(o[number, 0], expected, atol=4e-3)


def test_references_by_hand() -> None:
    keys = {"h": 4, "hk": 2, "sq": 130, "sk": 200, "d": 32, "mask": "bottom_right", "block_q": 64, "block_k": 32}
    problem = SPARSE.problem(**keys, lists="map")
    arrays = SPARSE.inputs(problem, GFX942, seed=5)
    found = SPARSE.reference(problem, arrays)["o"]
    for head in range(4):
        places = {"q": head, "k": head // 2, "v": head // 2}
        q, k, v = (arrays[name][0, place].astype(np.float64) for name, place in places.items())
        for row in range(0, 130, 7):
            seen = [key for key in range(200) if arrays["block_map"][0, head, row // 64, key // 32] and key <= row + 70]
            weights = np.exp(k[seen] @ q[row] / math.sqrt(32))
            expected = weights @ v[seen] / weights.sum() if seen else np.zeros(32)
            np.testing.assert_allclose(found[0, head, row], expected, rtol=1e-9)


def test_skipping_is_seen_and_bounded() -> None:
    """Scores that fall from block to block: all but the first are skipped, as results show, within the tolerance."""
    keys = {"h": 1, "sq": 64, "sk": 256, "d": 32, "block_q": 64, "block_k": 64, "sparsity": 0, "scale": 1}
    arrays = {"q": np.ones((1, 1, 64, 32), np.float16), "k": np.zeros((1, 1, 256, 32), np.float16)}
    arrays["k"][0, 0, :64, 0] = 10 * math.log(2) + 0.25  # a little more than ten powers of two above the others
    whole = run("gfx942", keys, arrays)["o"].astype(np.float64)
    kept = run("gfx942", {**keys, "pv_threshold": 11}, arrays)["o"].astype(np.float64)
    skipped = run("gfx942", {**keys, "pv_threshold": 10}, arrays)["o"].astype(np.float64)
    np.testing.assert_array_equal(whole, kept)
    v = SPARSE.inputs(SPARSE.problem(**keys), GFX942, seed=7)["v"].astype(np.float64)[0, 0]
    np.testing.assert_allclose(skipped[0, 0], np.broadcast_to(v[:64].mean(0), (64, 32)), atol=1e-3)
    assert np.abs(whole - skipped).max() > 0


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "schedule", "keys"), [
    ("gfx942", "qr", 64), ("gfx950", "qr_woven_async", 128), ("gfx90a", "qr_async_ping_pong", 64),
    *(pytest.param(chip, schedule, keys, marks=pytest.mark.full)
      for chip in CHIPS for schedule in ATTENTION for keys in (32, 64, 128)),
])  # fmt: skip
def test_schedules_are_proved(chip: str, schedule: str, keys: int) -> None:
    target, request = get_target(chip), {"h": 1, "sq": 300, "sk": 500, "d": 64, "block_q": 256, "block_k": keys}
    spec = SPARSE.spec(SPARSE.problem(**request, schedule=schedule), target)
    if reasons := SPARSE.validate(spec, target):
        assert "transpose" in str(reasons) or "lists are of blocks of 32 keys" in str(reasons)
        return
    bench = Workbench.of(SPARSE, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()
    run(chip, {**request, "schedule": schedule})


@pytest.mark.parametrize(("keys", "words"), [
    ({"block_k": 48}, "block_k=48: expected a power of two"),
    ({"block_k": 16}, "block_k=16: expected a power of two from 32 to 1073741824"),
    ({"block_q": 32}, "block_q=32: expected a power of two from 64 to 1073741824"),
    ({"sparsity": 1.5}, "sparsity=1.5: expected a share, from 0 to 1"),
    ({"lists": "list", "entries": 6}, "entries=6: expected at most 5, the blocks of keys"),
    ({"entries": 2}, "entries=2: a map has an element for each block of keys; leave it out"),
    ({"pv_threshold": 0}, "pv_threshold=0: expected a finite number that f32 can hold, 1 or more"),
    ({"pv_threshold": 2000}, "pv_threshold=2000.0: expected at most 1000 powers of two"),
    ({"lists": "heads"}, "lists=heads: expected map|deltas|list"),
])  # fmt: skip
def test_what_is_refused(keys: Keys, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        SPARSE.problem(**{**FEW, **keys})
    assert words in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(("keys", "words"), [
    ({"edge": "qr", "mask": "top_left"}, "any block of a list may be one that the mask cuts; expected none"),
    ({"schedule": "qr_async_ping_pong", "block_q": 64}, "lists are of blocks of 64 queries; expected a part of them"),
])  # fmt: skip
def test_kernels_that_are_refused(keys: Keys, words: str) -> None:
    spec = SPARSE.spec(SPARSE.problem(**{**FEW, **keys}), GFX942)
    assert any(words in str(reason) for reason in SPARSE.validate(spec, GFX942))


@pytest.mark.parametrize(("form", "blocks", "words"), [
    ("list", (0, 5), "array block_list: block 1 of head 1 of sequence 0 has block 5 of the keys behind block 0; "
                     "expected 1 to 4"),
    ("list", (-1, 2), "has block -1 of the keys; expected 0 to 4"),
    ("list", (3, 3), "has block 3 of the keys behind block 3; expected 4 to 4"),
    ("list", (4, 1), "has block 1 of the keys behind block 4; expected no more"),
    ("deltas", (2, -1), "array block_deltas: block 1 of head 1 of sequence 0 has block 1 of the keys behind block 2"),
    ("deltas", (2, 0), "has block 2 of the keys behind block 2"),
])  # fmt: skip
def test_lists_that_are_refused(form: str, blocks: tuple[int, int], words: str) -> None:
    problem = SPARSE.problem(**FEW, lists=form)
    arrays = SPARSE.inputs(problem, GFX942)
    SPARSE.check_inputs(problem, arrays)
    arrays[f"block_{form}"][0, 1, 1, :2], arrays["block_counts"][0, 1, 1] = blocks, 2
    with pytest.raises(RequestError) as refused:
        SPARSE.check_inputs(problem, arrays)
    assert words in str(refused.value)
    arrays["block_counts"][0, 1, 1] = 0  # nobody reads them
    SPARSE.check_inputs(problem, arrays)
    arrays["block_counts"][0, 0, 0] = 6
    with pytest.raises(RequestError, match=r"array block_counts: block 0 of head 0 .* has 6 blocks; expected 0 to 5"):
        SPARSE.check_inputs(problem, arrays)


def test_maps_that_are_refused() -> None:
    problem = SPARSE.problem(**GROUP, block_k=64)
    arrays = SPARSE.inputs(problem, GFX942)
    SPARSE.check_inputs(problem, arrays)
    arrays["block_map"][1, 0, 0, 3] = 1  # of a sequence without queries
    SPARSE.check_inputs(problem, arrays)
    arrays["block_map"][0, 1, 0, 3] = 1
    with pytest.raises(RequestError, match="array block_map: block 0 of head 1 of sequence 0 has block 3 of the keys"):
        SPARSE.check_inputs(problem, arrays)


def test_what_a_product_reads_late_is_not_overwritten_behind_a_branch() -> None:
    """A matrix instruction that does not sum in place reads C for 7 wait states; the way around rescaling has 5, and 20
    where the kernel is compiled once more (`lowering/forgotten_states.py`).
    """
    target = get_target("gfx90a")
    keys: Keys = {"b": 3, "h": 4, "sq": 127, "d": 64, "dtype": "bf16", "seqlens_k": (65, 65, 191), "alibi": "batch"}
    spec = SPARSE.spec(SPARSE.problem(**keys, schedule="qr_woven"), target)
    kernel = compile_kernel(SPARSE, spec, target)
    assert not check_hazards(kernel.code_object, kernel.kernel_name)
