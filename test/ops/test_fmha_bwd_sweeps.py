"""Attention backward over the products of what requests vary: windows with grouped heads and widths, lengths around
blocks and far from each other, orders of workgroups, sizes of values, strides of dO; by atomics, slots and shares."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from operator_runner import CHIPS
from test_fmha_bwd_numerics import GROUP, PADDED, assert_same_bits, differentiate, launches

pytestmark = pytest.mark.full
STAYING: dict[str, Any] = {"deterministic": 1, "persistent": 1, "workgroups": 3}
SUMS: tuple[dict[str, Any], ...] = ({}, {"deterministic": 1}, STAYING, {**STAYING, "ranges": "blocks"})
"""dQ by atomics, by a slot for each block of keys, and by shares of workgroups that stay, of steps or whole blocks."""
MASKS = ("none", "top_left", "bottom_right", "window:20,5", "window_bottom_right:0,-1", "window:-1,30")


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("ratio", range(1, 9))
def test_masks_heads_and_widths(chip: str, ratio: int) -> None:
    """Every mask with every number of heads that share keys; d and dv, and how dQ is summed, by turns."""
    widths = itertools.cycle(((64, 64), (32, 128), (128, 64), (40, 72)))
    for number, (mask, (d, dv)) in enumerate(zip(MASKS, widths, strict=False)):
        keys = {"h": ratio, "hk": 1, "sq": 66, "sk": 131, "d": d, "dv": dv, "mask": mask}
        differentiate(chip, {**keys, **SUMS[(number + ratio) % len(SUMS)]})


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("sums", SUMS)
@pytest.mark.parametrize(("sq", "sk"), [(1, 1), (2, 1), (1, 2), (63, 64), (64, 63), (65, 65), (203, 113), (113, 203)])
def test_lengths_around_blocks(chip: str, sums: dict[str, Any], sq: int, sk: int) -> None:
    """One more and one fewer than a block has, with every mask."""
    for mask in MASKS:
        differentiate(chip, {"h": 2, "hk": 1, "sq": sq, "sk": sk, "d": 64, "mask": mask, **sums})


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("sums", SUMS)
@pytest.mark.parametrize(("sq", "sk"), [(1023, 1024), (1024, 1023), (1024, 2), (2, 1024), (1500, 17), (17, 1500)])
def test_long_sequences(chip: str, sums: dict[str, Any], sq: int, sk: int) -> None:
    """Many steps and many blocks of keys, under the masks that leave some of them out."""
    for mask in ("none", "bottom_right", "window:100,5"):
        differentiate(chip, {"h": 1, "sq": sq, "sk": sk, "d": 32, "mask": mask, **sums}, checks="")


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("sums", SUMS)
def test_many_tiny_sequences(chip: str, sums: dict[str, Any]) -> None:
    """A group of 300 sequences of 0 to 6 queries and 0 to 4 keys."""
    lengths = {"seqlens_q": tuple(i % 7 for i in range(300)), "seqlens_k": tuple(i % 5 for i in range(300))}
    differentiate(chip, {"mode": "group", **lengths, "h": 2, "hk": 1, "d": 32, "mask": "top_left", **sums}, checks="")


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("sums", SUMS[1:])
@pytest.mark.parametrize("some", [GROUP, PADDED, {"sq": 70, "sk": 300}])
def test_twenty_orders_of_workgroups(chip: str, sums: dict[str, Any], some: dict[str, Any]) -> None:
    """The same bits from 20 launches, whose workgroups and waves run in orders of their own."""
    assert_same_bits(launches(chip, {**some, "d": 32, "h": 2, "hk": 1, "mask": "bottom_right", **sums}))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize(("sums", "factor"), list(itertools.product(SUMS, (2.0, 5.0, 7.0))))
def test_larger_values(chip: str, dtype: str, sums: dict[str, Any], factor: float) -> None:
    """V, O and dO that are multiplied do not overflow on the way."""
    keys = {"sq": 70, "sk": 140, "d": 64, "h": 1, "dtype": dtype, **sums}
    differentiate(chip, keys, checks="", factor=factor)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("sums", SUMS)
@pytest.mark.parametrize(("batch", "head", "row"), [(0, 0, 64), (16, 64, 128), (0, 72, 0)])
def test_strides_of_the_gradient(chip: str, dtype: str, sums: dict[str, Any], batch: int, head: int, row: int) -> None:
    """dO with heads before or behind rows, and with gaps between batches, heads or rows."""
    sq, h, d = 37, 2, 64
    if row == 64:  # rows within heads, without gaps
        strides = (h * sq * d + batch, sq * d, d)
    else:  # heads within rows
        wide = head or d
        strides = (sq * (h * wide + row) + batch, wide, h * wide + row)
    keys = {"b": 2, "h": h, "sq": sq, "sk": 70, "d": d, "dtype": dtype, "do_strides": strides}
    differentiate(chip, {**keys, **sums})
