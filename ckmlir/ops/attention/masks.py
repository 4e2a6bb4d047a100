"""Attention masks: which keys a query attends to.

| text | query i attends to key j when |
|---|---|
| `none` | always |
| `window:L,R` | i - L <= j <= i + R |
| `window_bottom_right:L,R` | the same with i + (keys - queries) for i: the last query is aligned with the last key |
| `top_left` | j <= i (causal), the window -1,0 |
| `bottom_right` | j <= i + (keys - queries), the bottom-right window -1,0 |

A negative L or R is unbounded, written -1.

Kernels take a mask as a coordinate (y, x): query i attends to keys max(0, i - y + 1) to min(i + x, keys) - 1 (CK Tile's
generic attention mask).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt

from ckmlir.ops.request import MAXIMUM_SIZE, Key, RequestError, show

UNBOUNDED = -1

_NAMED = {
    "none": (UNBOUNDED, UNBOUNDED, False),
    "top_left": (UNBOUNDED, 0, False),
    "bottom_right": (UNBOUNDED, 0, True),
}
_WINDOW = re.compile(r"(window|window_bottom_right):([+-]?\d{1,20}),([+-]?\d{1,20})")


@dataclass(frozen=True)
class Mask:
    """A window around the diagonal: `left` and `right` neighbours, -1 for all; the diagonal ends in the bottom right
    corner with `bottom_right`, else it starts in the top left one."""

    left: int
    right: int
    bottom_right: bool

    @staticmethod
    def parse(text: str) -> Mask:
        """Read the text form. Raises RequestError for anything else."""
        if text in _NAMED:
            return Mask(*_NAMED[text])
        match = _WINDOW.fullmatch(text)
        if match is None:
            raise RequestError(f"mask={show(text)}: expected {FORM}")
        left, right = (max(int(match[group]), UNBOUNDED) for group in (2, 3))
        if max(left, right) > MAXIMUM_SIZE:
            raise RequestError(f"mask={show(text)}: L and R are at most {MAXIMUM_SIZE}; -1 is unbounded")
        return Mask(left, right, match[1] == "window_bottom_right")

    def __str__(self) -> str:
        for name, fields in _NAMED.items():
            if (self.left, self.right, self.bottom_right) == fields:
                return name
        return f"window{'_bottom_right' * self.bottom_right}:{self.left},{self.right}"

    @property
    def kind(self) -> str:
        """What a kernel has to test: "none", "causal" (an upper bound only) or "window" (both bounds)."""
        if self.left == UNBOUNDED:
            return "none" if self.right == UNBOUNDED else "causal"
        return "window"

    def coordinates(self, queries: int, keys: int) -> tuple[int, int]:
        """The mask coordinate (y, x) for so many queries and keys, both within signed 32 bits."""
        shift = keys - queries if self.bottom_right else 0
        y = queries if self.left == UNBOUNDED else self.left + 1 - shift
        x = keys if self.right == UNBOUNDED else self.right + 1 + shift
        # No query is further than `queries + keys` from any key, so bounds beyond that change nothing.
        far = queries + keys
        return min(y, far), min(x, far)

    def kept(self, rows: range, queries: int, keys: int) -> npt.NDArray[np.bool_]:
        """Whether each query of `rows` attends to each key: shape (len(rows), keys)."""
        shift = keys - queries if self.bottom_right else 0
        distance = np.arange(keys)[None, :] - (np.asarray(rows)[:, None] + shift)
        kept = np.ones(distance.shape, np.bool_)
        if self.left != UNBOUNDED:
            kept &= distance >= -self.left
        if self.right != UNBOUNDED:
            kept &= distance <= self.right
        return kept

    def pairs(self, queries: int, keys: int) -> int:
        """How many pairs of query and key there are of which the query attends to the key."""
        y, x = self.coordinates(queries, keys)
        numbers = np.arange(queries)
        first, end = np.maximum(numbers - y + 1, 0), np.minimum(numbers + x, keys)
        return int(np.maximum(end - first, 0).sum())


FORM = "none|top_left|bottom_right|window:L,R|window_bottom_right:L,R"


@dataclass(frozen=True)
class MaskKey(Key):
    """A key whose value is a mask."""

    @property
    def form(self) -> str:
        return FORM

    def read(self, value: object) -> Mask:
        if isinstance(value, Mask):
            return Mask.parse(str(value))
        if not isinstance(value, str):
            raise self.refuse(value)
        return Mask.parse(value)

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        kind = random.choice((*_NAMED, "window", "window_bottom_right"))
        left, right = (random.choice((UNBOUNDED, 0, 1, 17, random.randrange(300), MAXIMUM_SIZE)) for _ in range(2))
        return kind if kind in _NAMED else f"{kind}:{left},{right}"
