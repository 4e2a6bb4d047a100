"""More blocks than the third axis of a grid takes: they are launched along the first one."""

from __future__ import annotations

from typing import Any

import pytest
from operator_runner import outcome

from ckmlir.ops import find_operator
from ckmlir.ops.attention import orders
from ckmlir.ops.request import RequestError
from ckmlir.records import replace
from ckmlir.targets import get_target

TARGET = get_target("gfx942")
BLOCK, MOST = 128, 65535
Case = tuple[str, dict[str, Any], str, str]
CASES: list[Case] = [
    ("fmha_fwd", {"sq": MOST * BLOCK, "sk": 64, "mask": "top_left"}, "falling", ""),
    ("fmha_fwd", {"sq": MOST * BLOCK + 1, "sk": 64, "mask": "top_left"}, "rising", "falling"),
    ("fmha_bwd", {"sq": 64, "sk": MOST * BLOCK, "mask": "top_left"}, "across", ""),
    ("fmha_bwd", {"sq": 64, "sk": MOST * BLOCK + 1, "mask": "top_left"}, "rising", "across"),
    ("hstu_attention", {"sq": MOST * BLOCK + 1}, "rising", "falling"),
    ("hstu_bwd", {"sq": MOST * BLOCK + 1}, "rising", "across"),
    ("unified_attention", {"seqlens_q": (MOST * BLOCK,), "seqlens_k": (MOST * BLOCK,), "hk": 1}, "joined",
     "joined_falling"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "keys", "order", "refused"), CASES)
def test_blocks_of_a_long_sequence(name: str, keys: dict[str, Any], order: str, refused: str) -> None:
    """The heaviest first while the third axis takes them; kernels of that order are none of a longer sequence."""
    operator = find_operator(name)
    problem = operator.problem(h=1, d=32, **keys)
    spec = operator.spec(problem, TARGET)
    grid = operator.launch(problem, spec, TARGET).grid
    assert (spec.order, max(grid[1:]) <= MOST) == (order, True)
    assert not operator.mismatches(problem, spec, TARGET)
    if refused:
        (reason,) = operator.mismatches(problem, replace(spec, order=refused), TARGET)
        assert "HIP launches no grid of 1x1x655" in str(reason)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "keys"), [
    ("fmha_fwd", {"sq": 300, "sk": 200, "mask": "bottom_right"}),
    ("fmha_bwd", {"sq": 70, "sk": 300, "mask": "top_left"}),
    pytest.param("hstu_attention", {"sq": 300}, marks=pytest.mark.full),
    pytest.param("unified_attention", {"seqlens_q": (300, 20), "seqlens_k": (300, 50), "hk": 1, "splits": 1},
                 marks=pytest.mark.full),
])  # fmt: skip
def test_results_of_the_other_order(name: str, keys: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A causal mask over blocks that begin with the first one."""
    monkeypatch.setattr(orders, "MOST_FURTHER", 1)
    operator = find_operator(name)
    keys = {"h": 1, "d": 32, **keys}
    if "seqlens_q" not in keys:
        assert operator.spec(operator.problem(**keys), TARGET).order == "rising"
    outcome(operator, "gfx942", keys)


@pytest.mark.parametrize(("keys", "words"), [
    ({"b": MOST + 1, "sq": 1}, "b=65536: a launch takes at most 65535 sequences"),
    ({"h": MOST + 1, "sq": 1}, "h=65536: a launch takes at most 65535 heads"),
])  # fmt: skip
def test_more_sequences_or_heads_are_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        find_operator("fmha_fwd").problem(**keys)
