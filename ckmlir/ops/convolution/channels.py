"""Channels first: images as (n, g, c, spatial…), as PyTorch has them, and weights as (g, k, c, window…).

Kernels have channels last (CK Tile's NHWGC and GKYXC). What lies the other way (NGCHW and GKCYX) is turned on its way
in, and back on its way out, by `permute`, through workspaces of its own size. Arrays whose bytes are the same either
way are taken as they are: of one channel, or of one place.
"""

from __future__ import annotations

from math import prod

import numpy as np
from msgspec import Struct

from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.layout.permute import OPERATOR as PERMUTE
from ckmlir.ops.operator import Run
from ckmlir.ops.steps import Workspace


class ChannelsFirst(Struct, frozen=True):
    """An array that has channels first.

    Attributes:
        last: its shape with channels last, as the kernel takes it.
        leading: dimensions before the spatial ones: 1 of images, which end with groups and channels; 2 of weights,
            which end with channels alone.
    """

    name: str
    last: tuple[int, ...]
    leading: int
    dtype: str

    @property
    def turned(self) -> str:
        """What the kernel knows the array by."""
        return self.name if self._is_either else f"{self.name}_channels_last"

    @property
    def shape(self) -> tuple[int, ...]:
        """With channels first."""
        ends = self._ends
        return (*ends[0], *ends[2], *ends[1])

    @property
    def workspaces(self) -> tuple[Workspace, ...]:
        """The same with channels last."""
        if self._is_either:
            return ()
        return (Workspace(self.turned, prod(self.last) * find_dtype(self.dtype).bytes),)

    def on_the_way_in(self) -> tuple[Run, ...]:
        """Turns the array's channels to the end."""
        rows, places, channels = map(prod, self._ends)
        return self._steps((rows, channels, places), self.name, self.turned)

    def on_the_way_out(self) -> tuple[Run, ...]:
        """Turns the array's channels to the beginning."""
        rows, places, channels = map(prod, self._ends)
        return self._steps((rows, places, channels), self.turned, self.name)

    def to_last(self, values: Array) -> Array:
        """Values with channels last."""
        return np.moveaxis(values, self._channels(self.leading), self._channels(-self._trailing))

    def to_first(self, values: Array) -> Array:
        """Values with channels first."""
        return np.moveaxis(values, self._channels(-self._trailing), self._channels(self.leading))

    @property
    def _trailing(self) -> int:
        return 3 - self.leading

    @property
    def _ends(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Lengths before the spatial ones, of these, and behind them."""
        return self.last[: self.leading], self.last[self.leading : -self._trailing], self.last[-self._trailing :]

    @property
    def _is_either(self) -> bool:
        _, places, channels = map(prod, self._ends)
        return 1 in (places, channels) or 0 in self.last

    def _channels(self, first: int) -> tuple[int, ...]:
        return tuple(range(first, first + self._trailing))

    def _steps(self, shape: tuple[int, int, int], source: str, target: str) -> tuple[Run, ...]:
        if self._is_either:
            return ()
        problem = PERMUTE.problem(shape=shape, perm=(0, 2, 1), dtype=self.dtype)
        return (Run(PERMUTE, problem, {"x": source, "y": target}),)
