"""Attention masks: which keys a query attends to.

| text | query i attends to key j when |
|---|---|
| `none` | always |
| `window:L,R` | i - L <= j <= i + R |
| `window_bottom_right:L,R` | the same with i + (keys - queries) for i: the last query is aligned with the last key |
| `top_left` | j <= i (causal), the window -1,0 |
| `bottom_right` | j <= i + (keys - queries), the bottom-right window -1,0 |
| `window:L,R,S`, `window_bottom_right:L,R,S` | the window has it, or j < S and j is not right of it (sink tokens) |
| `generic:Y,X` | i - Y < j < i + X, the window Y-1,X-1: CK Tile's generic mask |
| `xformers:W`, `xformers_bottom_right:W` | the window W/2,W-1-W/2, rounded down; W <= 0: causal (CK Tile's xt, xb) |

A negative L or R is unbounded, written -1.

Kernels take a mask as a coordinate (y, x): query i attends to keys max(0, i - y + 1) to min(i + x, keys) - 1 (CK Tile's
generic attention mask).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ckmlir.ops.request import MAXIMUM_SIZE, Key, RequestError, show

if TYPE_CHECKING:
    from random import Random

UNBOUNDED = -1

_NAMED = {
    "none": (UNBOUNDED, UNBOUNDED, False),
    "top_left": (UNBOUNDED, 0, False),
    "bottom_right": (UNBOUNDED, 0, True),
}
_NUMBER = r"([+-]?\d{1,20})"
_WINDOW = re.compile(rf"(window|window_bottom_right):{_NUMBER},{_NUMBER}(?:,{_NUMBER})?")
_GENERIC = re.compile(rf"generic:{_NUMBER},{_NUMBER}")
_XFORMERS = re.compile(rf"(xformers|xformers_bottom_right):{_NUMBER}")


class Mask(Struct, frozen=True):
    """A window around the diagonal: `left` and `right` neighbours, -1 for all; the diagonal ends in the bottom right
    corner with `bottom_right`, else it starts in the top left one. The first `sink` keys are kept too, as far as
    `right` allows."""

    left: int
    right: int
    bottom_right: bool
    sink: int = 0

    @staticmethod
    def parse(text: str) -> Mask:
        """Read the text form. Raises RequestError for anything else."""
        if text in _NAMED:
            return Mask(*_NAMED[text])
        if match := _WINDOW.fullmatch(text):
            left, right = (max(int(match[group]), UNBOUNDED) for group in (2, 3))
            sink = int(match[4] or 0)
            if sink < 0:
                raise RequestError(f"mask={show(text)}: S is a number of keys; expected 0 or more")
            found = Mask(left, right, match[1] == "window_bottom_right", sink if left != UNBOUNDED else 0)
        elif match := _GENERIC.fullmatch(text):
            y, x = int(match[1]), int(match[2])
            if min(y, x) < 1:
                raise RequestError(f"mask={show(text)}: expected Y and X from 1, so that a query has its own key")
            found = Mask(y - 1, x - 1, False)
        elif match := _XFORMERS.fullmatch(text):
            width = int(match[2])
            sides = (width // 2, width - 1 - width // 2) if width > 0 else (UNBOUNDED, 0)
            found = Mask(*sides, match[1] == "xformers_bottom_right")
        else:
            raise RequestError(f"mask={show(text)}: expected {FORM}")
        if max(found.left, found.right, found.sink) > MAXIMUM_SIZE:
            raise RequestError(f"mask={show(text)}: numbers are at most {MAXIMUM_SIZE}, and -1 is unbounded")
        return found

    def __str__(self) -> str:
        for name, fields in _NAMED.items():
            if (self.left, self.right, self.bottom_right) == fields:
                return name
        sink = f",{self.sink}" if self.sink else ""
        return f"window{'_bottom_right' * self.bottom_right}:{self.left},{self.right}{sink}"

    @property
    def kind(self) -> str:
        """What a kernel has to test: "none", "causal" (an upper bound only), "window" (both bounds) or "sinks"."""
        if self.left == UNBOUNDED:
            return "none" if self.right == UNBOUNDED else "causal"
        return "sinks" if self.sink else "window"

    @property
    def is_causal(self) -> bool:
        """Whether a query attends to all keys up to the diagonal."""
        return (self.left, self.right) == (UNBOUNDED, 0)

    def coordinates(self, queries: int, keys: int) -> tuple[int, int]:
        """The mask coordinate (y, x) for so many queries and keys, both within signed 32 bits."""
        return self._coordinates(queries, keys, keys - queries if self.bottom_right else 0)

    def cornerless(self, queries: int, keys: int) -> tuple[int, int]:
        """The coordinate of sequences of at most so many queries and keys, from which that of each is found: y less and
        x plus its keys less its queries with `bottom_right`; y only where it bounds."""
        y, x = self._coordinates(queries, keys, 0)
        return y, queries + keys if self.right == UNBOUNDED else x

    def _coordinates(self, queries: int, keys: int, shift: int) -> tuple[int, int]:
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
            kept |= np.arange(keys)[None, :] < self.sink
        if self.right != UNBOUNDED:
            kept &= distance <= self.right
        return kept

    def reach(self, queries: int, keys: int) -> int:
        """The most keys that a query attends to, but for sink tokens."""
        y, x = self.coordinates(queries, keys)
        return max(min(keys, y + x - 1), 0)

    def pairs(self, queries: int, keys: int) -> int:
        """Queries and keys that attend to each other."""
        y, x = self.coordinates(queries, keys)
        rows = np.arange(queries)
        first, end = np.maximum(rows - y + 1, 0), np.minimum(rows + x, keys)
        sinks = np.clip(np.minimum(first, end), 0, self.sink)
        return int((np.maximum(end - first, 0) + sinks).sum())


FORM = (
    "none|top_left|bottom_right|window:L,R[,S]|window_bottom_right:L,R[,S]|generic:Y,X|xformers:W|xformers_bottom_right:W"
)


class MaskKey(Key, frozen=True):
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
        sink = random.choice(("", "", ",0", ",1", ",70", f",{random.randrange(300)}"))
        windows = (f"{kind}:{left},{right}{sink}", f"generic:{max(left, 1)},{max(right, 1)}", f"xformers:{left}")
        return kind if kind in _NAMED else random.choice((windows[0], *windows))
