"""Entries sorted by expert: the reference against loops, the kernels against CK's and other published lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_runner import CHIPS, agree

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.comparison import Array
from ckmlir.ops.request import RequestError
from ckmlir.runtime import check_outputs, open_device, run_operator
from ckmlir.targets import get_target

SORTING = find_operator("moe_sorting")
LIST = [
    (80, 17, 4), (175, 64, 8), (65, 8, 2), (1, 25, 5), (31, 19, 15), (81, 37, 7), (23, 1, 1), (127, 99, 19),
    (71, 11, 11), (333, 99, 13), (11, 256, 5), (64, 455, 8), (777, 802, 99), (4097, 906, 51),
    *((600, e, k) for e in (32, 256, 40, 385) for k in range(5, 9)),
]  # fmt: skip
"""(tokens, experts, experts of a token)."""
FEW = {(80, 17, 4), (1, 25, 5), (11, 256, 5), (64, 455, 8), (600, 385, 8)}
OPTIONS: list[dict[str, Any]] = [
    {}, {"unit": 1, "phases": "many"}, {"unit": 16, "local": 1}, {"unit": 128, "phases": "many", "local": 1},
    {"unit": 7, "width": 33, "entry_ids": 1}, {"phases": "one", "width": 1, "dtype": "f32"},
    {"phases": "many", "local": 1, "entry_ids": 1, "most": 3},
]  # fmt: skip


def brute(ids: Array, weights: Array, experts: int, unit: int, enabled: Array) -> tuple[list[Any], ...]:
    """Words, weights, experts of units, and places taken, by loops."""
    tokens, k = ids.shape
    words: list[int] = []
    scales: list[float] = []
    units: list[int] = []
    local = 0
    for expert in range(experts):
        if not enabled[expert]:
            continue
        own = [(t, s) for t in range(tokens) for s in range(k) if ids[t, s] == expert]
        while len(own) % unit:
            own.append((tokens, k))
        words += [t | s << 24 for t, s in own]
        scales += [weights[t, s] if t < tokens else 0.0 for t, s in own]
        units += [local] * (len(own) // unit)
        local += 1
    return words, scales, units, [len(words), tokens]


def run(keys: dict[str, Any], arrays: dict[str, Array], chip: str, checks: str = "all") -> dict[str, Array]:
    """The outputs of a request for given inputs, compared with the reference."""
    target = get_target(chip)
    problem = SORTING.problem(**keys)
    device = open_device("sim", target, checks=checks) if checks else open_device("sim", target)
    result = run_operator(SORTING, problem, arrays, target, device)
    comparisons = check_outputs(SORTING, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    return result.outputs


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 6), st.integers(0, 4), st.integers(1, 5), st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_the_reference(t: int, k: int, e: int, unit: int, local: bool, seed: int) -> None:
    """With ids that are no experts, and tokens that name one several times."""
    random = np.random.default_rng(seed)
    most = seed % 3 if local and seed % 2 else None
    problem = SORTING.problem(t=t, k=k, e=e, unit=unit, local=local, most=most, entry_ids=1)
    mask = random.integers(0, 2, e) if local else np.ones(e, int)
    given_mask = mask.copy()
    mask[np.flatnonzero(mask)[most:] if most is not None else []] = 0
    arrays = {"topk_ids": random.integers(-2, e + 2, (t, k)), "weights": random.random((t, k)), "mask": given_mask}
    found = SORTING.reference(problem, arrays)
    words, scales, units, totals = brute(arrays["topk_ids"], arrays["weights"], e, unit, mask)
    assert found["totals"].tolist() == totals
    assert found["sorted_ids"][: totals[0]].tolist() == words
    assert found["sorted_weights"][: totals[0]].tolist() == scales
    assert found["expert_ids"][: len(units)].tolist() == units
    appear = {(word & 0xFFFFFF, word >> 24) for word in words} - {(t, k)}
    assert found["entry_ids"].tolist() == [[s + k * n if (n, s) in appear else -1 for s in range(k)] for n in range(t)]
    assert len(found["sorted_ids"]) >= totals[0] and len(found["expert_ids"]) >= len(units)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("phases", ["one", "many"])
@pytest.mark.parametrize("masked", [False, True])
def test_an_example_by_hand(phases: str, masked: bool) -> None:
    """Three tokens, four experts, units of two."""
    arrays = {
        "topk_ids": np.array([[2, 0], [2, 3], [0, 2]], np.int32),
        "weights": np.arange(1, 7, dtype=np.float32).reshape(3, 2),
        "mask": np.array([1, 0, 0, 1], np.int32),
    }
    keys = {"t": 3, "k": 2, "e": 4, "unit": 2, "local": int(masked), "phases": phases}
    given = arrays if masked else {name: arrays[name] for name in ("topk_ids", "weights")}
    found = run(keys, given, "gfx942")
    words = [0x01000000, 2, 0x01000001, 0x02000003]
    if not masked:
        words[2:2] = [0, 1, 0x01000002, 0x02000003]
    assert found["totals"].tolist() == [len(words), 3]
    assert found["sorted_ids"][: len(words)].tolist() == words
    assert found["expert_ids"][: len(words) // 2].tolist() == ([0, 1] if masked else [0, 2, 2, 3])
    weights = [2, 5, 4, 0] if masked else [2, 5, 1, 3, 6, 0, 4, 0]
    assert found["sorted_weights"][: len(words)].tolist() == weights


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        pytest.param(sizes, options, marks=[] if sizes in FEW and number % 3 == place % 3 else [pytest.mark.full])
        for place, sizes in enumerate(LIST)
        for number, options in enumerate(OPTIONS)
    ],
)
def test_lists(sizes: tuple[int, int, int], options: dict[str, Any]) -> None:
    """Exact in every unit, alone and in phases, with and without a mask, and a buffer of zeros beside."""
    t, e, k = sizes
    if options.get("phases") == "one" and t * k > 20_000:
        options = {**options, "phases": "many"}
    agree("moe_sorting", CHIPS[(t + len(options)) % 3], t=t, e=e, k=k, **options)


@pytest.mark.full
@pytest.mark.parametrize(("e", "k", "local"), [(385, 8, 0), (1024, 4, 1), (4096, 2, 0)])
def test_many_tokens(e: int, k: int, local: int) -> None:
    agree("moe_sorting", "gfx942", t=163840, e=e, k=k, local=local)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "phases"), [("gfx90a", "many"), ("gfx942", "one"), ("gfx950", "many")])
def test_any_ids(chip: str, phases: str) -> None:
    """Numbers that are no experts appear nowhere, repeated ones as often as they are named; nothing is written beside,
    and all tokens may choose one expert."""
    random = np.random.default_rng(3)
    anywhere = random.integers(-3, 40, (61, 9)).astype(np.int32)
    anywhere[::7, 3] = [2**31 - 1, -(2**31), 37, 1 << 24, 5 + (1 << 24), -1, 37 + (1 << 8), 5, 5]
    for ids in (anywhere, np.full((61, 9), 36, np.int32), np.full((61, 9), -1, np.int32)):
        arrays = {"topk_ids": ids, "weights": random.random(ids.shape, np.float32)}
        found = run({"t": 61, "k": 9, "e": 37, "unit": 8, "phases": phases}, arrays, chip)
        words, *_, totals = brute(ids, arrays["weights"], 37, 8, np.ones(37))
        assert found["totals"].tolist() == totals
        assert found["sorted_ids"][: totals[0]].tolist() == words


@pytest.mark.one_in(6)
@pytest.mark.parametrize("phases", ["one", "many"])
@pytest.mark.parametrize(("t", "k", "width"), [(0, 4, 0), (5, 0, 3), (0, 0, 0), (1, 1, 1), (0, 4, 64)])
def test_nothing_to_sort(t: int, k: int, width: int, phases: str) -> None:
    """The totals are there in any case, and the buffer is."""
    problem = SORTING.problem(t=t, k=k, width=width, phases=phases, unit=3)
    target = get_target("gfx950")
    arrays = SORTING.inputs(problem, target)
    found = run({"t": t, "k": k, "width": width, "phases": phases, "unit": 3}, arrays, "gfx950")
    assert found["totals"][1] == t
    assert not width or not found["buffer"].any()


@pytest.mark.one_in(6)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("keys", [
    {"e": 256}, {"e": 1024, "phases": "many", "local": 1}, {"e": 4096, "phases": "many", "local": 1, "entry_ids": 1},
])  # fmt: skip
def test_no_spills(chip: str, keys: dict[str, Any]) -> None:
    target = get_target(chip)
    spec = SORTING.spec(SORTING.problem(**keys), target)
    metadata = compile_kernel(SORTING, spec, target).code_object.kernel().metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"t": 1 << 24}, "t=16777216: a word has 24 bits for a token"),
        ({"k": 128}, "k=128: a word has a byte for a slot"),
        ({"e": 4097}, "e=4097: expected at most 4096 experts"),
        ({"e": 0}, "e=0"),
        ({"unit": 0}, "unit=0"),
        ({"phases": "two"}, "phases=two: expected one|many"),
        ({"t": 1 << 23, "k": 100, "unit": 32}, "takes 3355443200 bytes"),
    ],
)
def test_requests_that_are_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as error:
        SORTING.problem(**keys)
    assert words in str(error.value)


def test_a_unit_of_any_size_without_entries() -> None:
    """Padding is counted by what is missing, not by the unit."""
    agree("moe_sorting", "gfx90a", k=0, unit=(1 << 31) - 1)
