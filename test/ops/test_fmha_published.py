"""Published cases of attention forward: the shapes of CK Tile's smoke list with all head sizes, layouts, biases and
dropout, its splits with and without pages, windows with sink tokens and sinks like its own, new keys in a cache with
rotated positions, and batch prefill over pages. Heads and batches are as many; sequences are as long but for 1024
queries, of which 200 are taken, and those of batch prefill, so that a case runs in seconds. `published_campaign.py`
runs them kernel by kernel.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from operator_runner import CHIPS, named, outcome
from poisoned_pages import poisoned
from published_shapes import SMOKE

from ckmlir.ops import find_operator
from ckmlir.runtime import Device

Keys = dict[str, Any]
Case = tuple[str, str, Keys]

SHAPES = tuple({**shape, "sq": min(shape["sq"], 200)} for shape in SMOKE)
SINKS = ("top_left", "window:2,0,2", "window:1,3,4", "window_bottom_right:-1,1,2", "window_bottom_right:3,0,1")
QUERIES, KEYS = (19, 1, 130, 64, 7, 33, 2), (54, 97, 300, 64, 0, 129, 17)
"""Of up to seven sequences."""

FORWARD: list[Case] = [
    (chip, "fmha_fwd", {**shape, "d": d, "dtype": dtype, "layout": layout, "lse": lse, **bias, "dropout": dropout})
    for chip in CHIPS
    for dtype in ("f16", "bf16")
    for d in (32, 64, 128, 256)
    for layout in ("bhsd", "bshd")
    for lse in (0, 1)
    for bias in ({}, {"bias": "one"}, {"alibi": "head"})
    for dropout in (0.0, 0.2)
    for shape in SHAPES
]
SPLITS: list[Case] = [
    (chip, "fmha_fwd_splitkv", {**shape, "d": d, "dtype": "f16", "lse": 1, "splits": splits, **pages})
    for chip in CHIPS
    for d in (32, 64, 128, 256)
    for splits in (1, 2, 3)
    for pages in ({}, {"page_size": 128})
    for shape in SHAPES
]
SUNK: list[Case] = [
    (chip, "fmha_fwd", {"b": 1, "h": 2, "hk": 1, "sq": 100, "sk": 130, "d": d, "mask": mask, "sink": sink, "lse": 1})
    for chip in CHIPS
    for d in (64, 128)
    for mask in SINKS
    for sink in (0, 1)
]
APPENDED: list[Case] = [
    (chip, "fmha_fwd_appendkv", {
        "b": 3, "h": 3, "sq": sq, "cached": (sk - new,) * 3, "snew": new, "d": d, "rotary": rotary, "rotary_half": half,
        "positions": positions, "dtype": dtype, **cache,
    })
    for chip, dtype in zip(CHIPS, ("bf16", "f16", "bf16"), strict=True)
    for sq in (63, 64, 65)
    for sk in (65, 129)
    for new in (0, 64, sk)
    for d in (32, 64, 128, 256)
    for rotary in sorted({0, 16, 32, d})
    for half in (0, 1)
    for positions in ("each", "first")
    for cache in ({}, {"page_size": 128}, {"cache_batches": 5})
]  # fmt: skip
PREFILL: list[Case] = [
    (chip, "fmha_batch_prefill", {
        "h": 2, "hk": 1, "d": 128, "page_size": size, "kv_layout": layout, "table": table, "mask": mask,
        "soft_cap": cap, "lse": lse, "dtype": dtype, "seqlens_q": QUERIES[:batch], "seqlens_k": KEYS[:batch],
    })
    for chip, dtype in zip(CHIPS, ("f16", "bf16", "f16"), strict=True)
    for size in (1, 16, 1024)
    for layout in ("linear", "vectorised")
    for table in ("sglang", "vllm")
    for mask in ("none", "bottom_right")
    for cap in (0, 30)
    for lse in (0, 1)
    for batch in (1, 3, 4, 7)
    if size > 1 or layout == "linear"
]  # fmt: skip
GRIDS = {"forward": FORWARD, "splits": SPLITS, "sunk": SUNK, "appended": APPENDED, "prefill": PREFILL}
DEFAULT = [Random(8 + number).choice(grid) for number, grid in enumerate(GRIDS.values())]


def run(chip: str, name: str, keys: Keys, device: Device | None = None) -> None:
    """A case, with NaN in every row of a page that no key lies in."""
    paged = "page_size" in keys and name != "fmha_fwd_appendkv"
    outcome(find_operator(name), chip, keys, prepared=poisoned if paged else None, device=device)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("chip", "name", "keys"),
    [one if one in DEFAULT else pytest.param(*one, marks=pytest.mark.full) for grid in GRIDS.values() for one in grid],
    ids=named,
)
def test_numbers(chip: str, name: str, keys: Keys) -> None:
    run(chip, name, keys)
