"""The shapes of CK Tile's smoke list of attention forward, as requests."""

from __future__ import annotations

from typing import Any

SMOKE: tuple[dict[str, Any], ...] = (
    {"b": 2, "h": 2, "hk": 1, "sq": 55, "sk": 256, "mask": "top_left"},
    {"b": 1, "h": 3, "sq": 100, "sk": 51},
    {"b": 2, "h": 1, "sq": 99, "sk": 256, "mask": "top_left"},
    {"b": 1, "h": 2, "hk": 1, "sq": 1024, "sk": 256, "mask": "bottom_right"},
    {"b": 2, "h": 1, "sq": 3, "sk": 99, "mask": "bottom_right"},
    {"b": 3, "h": 2, "hk": 1, "sq": 200, "sk": 520, "mask": "window:128,30"},
    {"b": 2, "h": 1, "sq": 99, "sk": 32, "mask": "window_bottom_right:4,35"},
    {"b": 1, "h": 2, "hk": 1, "sq": 33, "sk": 0, "mask": "bottom_right"},
    {"b": 1, "h": 2, "hk": 1, "sq": 1, "sk": 32, "seqlens_k": (10,), "mask": "bottom_right"},
)
