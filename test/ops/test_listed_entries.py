"""Which entries a list of a routing names: against loops, of lists of anything, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, agree

from ckmlir.ops import find_operator
from ckmlir.ops.comparison import Array
from ckmlir.ops.request import RequestError
from ckmlir.runtime import check_outputs, open_device, run_operator
from ckmlir.targets import get_target

LISTED, SORTING = find_operator("listed_entries"), find_operator("moe_sorting")


def run(chip: str, lists: dict[str, Array], **keys: Any) -> Array:
    """The numbers of entries, under all checkers and compared with the reference."""
    target, problem = get_target(chip), LISTED.problem(**keys)
    arrays = {name: one.astype(np.int32) for name, one in lists.items()}
    result = run_operator(LISTED, problem, arrays, target, open_device("sim", target, checks="all"), guarded=True)
    comparisons = check_outputs(LISTED, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    found: Array = result.outputs["entry_ids"]
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("local", [False, True])
def test_lists_of_a_routing(chip: str, local: bool) -> None:
    """The first five experts of a routing have matrices: of all, or of those whose mask is set."""
    t, k, e, there, unit = 150, 3, 9, 5, 16
    random = np.random.default_rng(4)
    mask = np.array([1, 0, 1, 1, 0, 1, 1, 1, 1]) if local else np.ones(e)
    inputs = {"topk_ids": random.integers(-1, e + 1, (t, k)), "weights": np.ones((t, k)), "mask": mask}
    lists = SORTING.reference(SORTING.problem(t=t, e=e, k=k, unit=unit, local=local), inputs)
    keys = {"t": t, "e": there, "topk": k, "unit": unit}
    short = {one.name: np.resize(lists[one.name], one.shape) for one in LISTED.arrays(LISTED.problem(**keys))[:3]}
    found = run(chip, short, **keys)
    counted = np.flatnonzero(mask)[:there]
    assert found.tolist() == [
        [s + k * n if inputs["topk_ids"][n, s] in counted else -1 for s in range(k)] for n in range(t)
    ]


@pytest.mark.parametrize("total", [2**31 - 1, 49, 16, -16])
def test_lists_of_anything(total: int) -> None:
    """Words that name no entry, units of no expert, totals beyond the list: nothing is read or written outside."""
    keys = {"t": 9, "e": 3, "topk": 2, "unit": 16}
    units = LISTED.problem(**keys).units
    words = np.random.default_rng(5).integers(-(2**31), 2**31, units * 16)
    words[:12] = [8, 9, 1 << 24, 8 | 1 << 24, 2 << 24, -1, 1 << 23, 2**31 - 1, -(2**31), 0x7F000000, 3, 9 | 1 << 24]
    experts = np.resize([2, -1, 2**31 - 1, 3, -(2**31)], units)
    found = run("gfx942", {"sorted_ids": words, "expert_ids": experts, "totals": np.array([total, 0])}, **keys)
    assert found[found >= 0].tolist() == ([1, 6, 16, 17] if total > 0 else [])


@pytest.mark.parametrize(("number", "keys"), list(enumerate([
    {"t": 700, "unit": 128}, {"unit": 1, "topk": 127, "t": 5}, {"e": 5000, "t": 33, "unit": 7}, {"t": 0}, {"topk": 0},
    {"e": 2**31 - 1, "t": 3},  # of which only those that appear are looked at
])))  # fmt: skip
def test_sizes(number: int, keys: dict[str, Any]) -> None:
    agree("listed_entries", CHIPS[number % 3], **keys)


def test_what_a_word_cannot_say() -> None:
    with pytest.raises(RequestError, match="t=16777216: a word has 24 bits for a token"):
        LISTED.problem(t=1 << 24)
    with pytest.raises(RequestError, match="topk=128: a word has a byte for a slot; expected at most 127"):
        LISTED.problem(topk=128)
