"""New keys and values behind those of a cache: numbers under all checkers in every kind of cache, what is not written,
and what is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS

from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.runtime import check_outputs, run_operator
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.runtime.strided import to_memory, untouched
from ckmlir.sim.checks import parse_checks
from ckmlir.targets import get_target

APPEND = find_operator("fmha_fwd_appendkv")
GFX942 = get_target("gfx942")
Keys = dict[str, Any]

BASE: Keys = {"b": 2, "h": 2, "hk": 1, "d": 64, "cached": (100, 31), "snew": 3, "sq": 3}
CASES: list[tuple[str, Keys]] = [
    ("gfx942", {**BASE, "rotary": 32, "layout": "bshd"}),
    ("gfx90a", {**BASE, "rotary": 64, "rotary_half": 1, "dtype": "bf16", "positions": "first"}),
    ("gfx950", {**BASE, "rotary": 48, "page_size": 16, "snew": 70, "dtype": "f32", "dv": 20}),
    ("gfx942", {**BASE, "rotary": 16, "rotary_half": 1, "page_size": 64, "snew": 65, "layout": "bshd"}),
    ("gfx950", {**BASE, "page_size": 128, "pages": 9, "dv": 40, "sq": 0}),
    ("gfx90a", {**BASE, "rotary": 32, "cache_batches": 4, "sk": 200, "hk": 2, "h": 4}),
    ("gfx942", {"b": 1, "h": 1, "d": 256, "rotary": 256, "cached": (0,), "snew": 1, "sq": 40, "page_size": 1}),
    ("gfx942", {**BASE, "snew": 0, "rotary": 16}),
]
WIDE = [
    (chip, {**BASE, "snew": snew, "rotary": rotary, "rotary_half": half, "dtype": dtype, "cached": (63, 65), **cache})
    for chip in CHIPS
    for snew in (1, 64, 129)
    for rotary in (0, 16, 32, 64)
    for half in (0, 1)
    for dtype in ("f16", "bf16")
    for cache in ({}, {"page_size": 128}, {"page_size": 16}, {"cache_batches": 3})
]


def run(chip: str, keys: Keys, queries: float = 1) -> dict[str, Any]:
    target = get_target(chip)
    problem = APPEND.problem(**keys)
    arrays = APPEND.inputs(problem, target, seed=7)
    if "q" in arrays:
        arrays["q"] *= arrays["q"].dtype.type(queries)
    device = SimulatorDevice(target, seed=11, checks=parse_checks("all"))
    result = run_operator(APPEND, problem, arrays, target, device)
    comparisons = check_outputs(APPEND, problem, arrays, result.outputs, target)
    assert {one.name for one in comparisons} == set(result.outputs)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    rows = len(problem.cached) * problem.snew * problem.attention.hk
    assert all(one.elements - one.unspecified == rows * channels
               for one, channels in ((one, {"k": problem.attention.d, "v": problem.attention.dv}.get(one.name))
                                     for one in comparisons) if channels)  # fmt: skip
    return dict(result.outputs)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("chip", "keys"),
    [*CASES, *(pytest.param(*one, marks=pytest.mark.full) for one in WIDE)],
    ids=lambda value: value if isinstance(value, str) else ",".join(f"{key}={one}" for key, one in value.items()),
)
def test_numbers(chip: str, keys: Keys) -> None:
    run(chip, keys)


def test_products_that_underflow() -> None:
    """Each is off by half the smallest number, and the sum by one."""
    assert np.any(run("gfx950", {**BASE, "rotary": 64, "dtype": "f32", "sq": 65}, 1e-43)["q_rotated"])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cache", [{}, {"page_size": 16}, {"page_size": 64}, {"cache_batches": 3}], ids=str)
def test_nothing_else_is_written(cache: Keys) -> None:
    """Other rows, gaps between them, and other pages and slots; where tables and lengths are wrong nothing at all."""
    strides = {"k_strides": (1 << 16, 80 * 200, 80), "v_strides": (1 << 16, 80 * 200, 80)}
    problem = APPEND.problem(**BASE, sk=200, rotary=16, **cache, **({} if "page_size" in cache else strides))
    arrays = APPEND.inputs(problem, GFX942, seed=3)
    wrong = {"cached": np.array([-1, 10**6], np.int32)}
    if "block_table" in arrays:
        wrong = {"block_table": np.full_like(arrays["block_table"], 2**31 - 1)}
    if "cache_batch_idx" in arrays:
        wrong = {"cache_batch_idx": np.array([-1, 3], np.int32)}
    for given in (arrays, {**arrays, **wrong}):
        device = SimulatorDevice(GFX942, checks=parse_checks("memory"))
        executable, memories = Executable(device, APPEND, problem), {}
        before = {one.name: untouched(one) for one in APPEND.arrays(problem) if one.role == "out"}
        for one in APPEND.arrays(problem):
            memories[one.name] = device.allocate(one.nbytes)
            device.write(memories[one.name], to_memory(given[one.name], one) if one.role == "in" else before[one.name])
        executable.launch(memories)
        for name in "kv":
            after = np.zeros_like(before[name])
            device.read(after, memories[name])
            changed = int((after.view(np.uint16) != before[name].view(np.uint16)).sum())
            new = 2 * 3 * 64
            assert changed == 0 if given is not arrays else 0.9 * new < changed <= new


def test_the_reference_by_hand() -> None:
    problem = APPEND.problem(**{**BASE, "rotary": 16, "page_size": 16})
    arrays = APPEND.inputs(problem, GFX942, seed=2)
    found = APPEND.reference(problem, arrays)
    for number, start in enumerate(BASE["cached"]):
        for row in range(3):
            at = start + row
            x = arrays["knew"][number, 0, row].astype(np.float64)
            expected = x.copy()
            for pair in range(8):
                cos, sin = (float(arrays[f"rotary_{name}"][at, pair]) for name in ("cos", "sin"))
                left, right = x[2 * pair], x[2 * pair + 1]
                expected[2 * pair : 2 * pair + 2] = left * cos - right * sin, right * cos + left * sin
            page = arrays["block_table"][number, at // 16]
            np.testing.assert_allclose(found["k"][page, 0, at % 16], expected, rtol=1e-12)
            np.testing.assert_array_equal(found["v"][page, 0, at % 16], arrays["vnew"][number, 0, row])


@pytest.mark.parametrize(("keys", "words"), [
    ({"rotary": 24}, "rotary=24: expected a multiple of 16 from 0 to d=128"),
    ({"d": 64, "rotary": 80}, "rotary=80: expected a multiple of 16 from 0 to d=64"),
    ({"sk": 100}, "sk=100: a sequence has 101 keys afterwards; expected at least that"),
    ({"rotary": 16, "most_positions": 100}, "most_positions=100: position 100 is needed; expected at least 101"),
    ({"cached": (1, 2)}, "cached=1,2: 2 numbers for 1 sequences"),
    ({"b": 2, "cache_batches": 1}, "cache_batches=1: the sequences need 2 of their own"),
    ({"b": 2, "page_size": 16, "pages": 3}, "pages=3: the sequences need 14 of their own; expected at least that"),
    ({"page_size": 24}, "page_size=24: expected a power of two"),
])  # fmt: skip
def test_what_is_refused(keys: Keys, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        APPEND.problem(**keys)
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_arrays_that_are_refused() -> None:
    problem = APPEND.problem(**{**BASE, "page_size": 64})
    arrays = APPEND.inputs(problem, GFX942)
    APPEND.check_inputs(problem, arrays)
    with pytest.raises(RequestError, match="array cached: sequence 1 has 101 keys; expected 0 to 100"):
        APPEND.check_inputs(problem, {**arrays, "cached": np.array([0, 101], np.int32)})
    table = arrays["block_table"].copy()
    table[1] = table[0]
    with pytest.raises(RequestError, match="arrays: two new keys would have the same row"):
        APPEND.check_inputs(problem, {**arrays, "block_table": table, "cached": np.array([31, 31], np.int32)})
