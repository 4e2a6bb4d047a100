"""A recurrence to compute, as its keys describe it, and the keys of strides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import MAXIMUM_ARRAY_BYTES, ArraySpec, alignment, require_reachable
from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.list_keys import Lengths
from ckmlir.ops.request import MAXIMUM_SIZE, RequestError
from ckmlir.ops.scalars import gcd
from ckmlir.ops.spec import by
from ckmlir.ops.tensors.arrays import checked_strides, packed

if TYPE_CHECKING:
    from random import Random

LAYOUTS = ("bshd", "bhds")
"""Order of the dimensions in memory: channels contiguous, as Mamba has them, or places, as CK Tile's example."""
SKIPS = ("none", "head", "channel")
HEADS_AND_CHANNELS = {"x": ("h", "d"), "z": ("h", "d"), "y": ("h", "d"), "b_mat": ("g", "n"), "c_mat": ("g", "n")}
"""By array: the keys of its heads, or groups, and channels."""
STEPS = ("delta_a", "delta")
"""Arrays with a number for each place of a head."""
MOST_ROWS = 256
"""Of a block, in any layout: channels of a state."""


class StateStrides(Lengths, frozen=True):
    """Elements from one batch, head and row of `array` to the next, of steps from one batch and row: rows are places,
    with layout=bhds channels, and of steps heads."""

    array: str = "x"

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        """Heads behind rows or in front of them, with gaps or without."""

        def size(name: str) -> int:
            found = request.get(name) or 1
            assert isinstance(found, int)
            return found

        columns, gap = request.get("layout") == "bhds", random.choice((0, 0, 1, 8))
        if self.array == "delta":
            rows, length = (size("h"), size("s")) if columns else (size("s"), size("h"))
            return tuple(min(one, MAXIMUM_SIZE) for one in ((length + gap) * rows + gap, length + gap))
        heads, channels = (size(name) for name in HEADS_AND_CHANNELS[self.array])
        rows, length = (channels, size("s")) if columns else (size("s"), channels)
        row = length + gap
        head, row = (row * rows, row) if random.random() < 0.5 else (row, row * heads)
        return tuple(min(one, MAXIMUM_SIZE) for one in (rows * heads * (length + gap) + gap, head, row))


class Problem(Struct, frozen=True):
    """A recurrence over s places for each of b batches of h heads; heads share g groups of B and C.

    Attributes:
        d, n: channels of X, and of B and C: a head's state is (d, n).
        skip: whether X is added to Y, times a number for each head or channel.
        gate: whether Y is multiplied with silu(Z); initial: there is a state to begin with; final: the last is written.
        schedule: of the loop; None leaves it open.
    """

    b: int
    h: int
    g: int
    s: int
    d: int
    n: int
    dtype: str
    layout: str
    skip: str
    gate: bool
    initial: bool
    final: bool
    schedule: str | None
    x_strides: tuple[int, int, int] = (0, 0, 0)
    """Elements from one batch, head and row to the next; so for the other arrays."""
    z_strides: tuple[int, int, int] = (0, 0, 0)
    y_strides: tuple[int, int, int] = (0, 0, 0)
    b_mat_strides: tuple[int, int, int] = (0, 0, 0)
    c_mat_strides: tuple[int, int, int] = (0, 0, 0)
    delta_strides: tuple[int, int] = (0, 0)
    """Of both arrays of steps: from one batch and row to the next."""

    @property
    def columns(self) -> bool:
        """Whether places are contiguous."""
        return self.layout == "bhds"

    @property
    def names(self) -> tuple[str, ...]:
        """The arrays of heads, or groups, and channels."""
        return ("x", "b_mat", "c_mat", *["z"] * self.gate, "y")

    def sizes(self, name: str) -> tuple[int, int]:
        """Heads and channels of one of them."""
        heads, channels = (getattr(self, key) for key in HEADS_AND_CHANNELS[name])
        return heads, channels

    def strides(self, name: str) -> tuple[int, int, int]:
        """Along batches, heads and rows."""
        found: tuple[int, int, int] = getattr(self, f"{name}_strides")
        return found

    def shape(self, name: str) -> tuple[int, int, int, int]:
        """In memory."""
        heads, channels = self.sizes(name)
        return (self.b, heads, channels, self.s) if self.columns else (self.b, self.s, heads, channels)

    @property
    def steps_shape(self) -> tuple[int, int, int]:
        """Of steps in memory."""
        return (self.b, self.h, self.s) if self.columns else (self.b, self.s, self.h)

    @property
    def state_shape(self) -> tuple[int, int, int, int]:
        return (self.b, self.h, self.d, self.n)

    @property
    def align(self) -> int:
        """The widest vector of the dtype, in elements, that rows and states are made of and begin at multiples of."""
        numbers = [self.n, self.s if self.columns else self.d]
        numbers += [stride for name in self.names for stride in self.strides(name)]
        return gcd(alignment(find_dtype(self.dtype).bytes), *numbers)

    def arrays(self) -> tuple[ArraySpec, ...]:
        """In the order of the kernel's arguments."""
        found = {name: self._array(name) for name in self.names}
        batch, row = self.delta_strides
        steps = [ArraySpec(name, self.steps_shape, "f32", "in", (batch, row, 1), 4) for name in STEPS]
        states = {"initial": "in", "state": "out"}
        first, last = (
            ArraySpec(name, self.state_shape, "f32", role, packed(self.state_shape)) for name, role in states.items()
        )
        size = {"head": (self.h,), "channel": (self.h, self.d)}.get(self.skip)
        skip = [] if size is None else [ArraySpec("skip", size, "f32", "in", packed(size), 4)]
        inputs = [found["x"], *steps, found["b_mat"], found["c_mat"], *skip, *([found["z"]] if self.gate else [])]
        return (*inputs, *[first] * self.initial, found["y"], *[last] * self.final)

    def _array(self, name: str) -> ArraySpec:
        batch, head, row = self.strides(name)
        middle = (head, row) if self.columns else (row, head)
        role = "out" if name == "y" else "in"
        return ArraySpec(name, self.shape(name), self.dtype, role, (batch, *middle, 1))

    def by_head(self, name: str, array: Array) -> Array:
        """The array, or one with a number for each element, as (batch, head, place, channel), in float64; that of a
        group for each of its heads."""
        found: Array = np.asarray(array, np.float64)
        found = found.transpose(0, 1, 3, 2) if self.columns else found.transpose(0, 2, 1, 3)
        return np.repeat(found, self.h // self.g, axis=1) if name in ("b_mat", "c_mat") else found

    def from_heads(self, found: Array) -> Array:
        """What has the axes (batch, head, place, channel) as memory has it."""
        moved: Array = found.transpose(0, 1, 3, 2) if self.columns else found.transpose(0, 2, 1, 3)
        return moved

    def steps(self, array: Array) -> Array:
        """The array of steps as (batch, head, place), in float64."""
        found: Array = np.asarray(array, np.float64)
        return found if self.columns else found.transpose(0, 2, 1)

    def factors(self, arrays: Mapping[str, Array]) -> Array:
        """What X is added to Y times of, as (batch, head, place, channel)."""
        if self.skip == "none":
            return np.zeros((1, 1, 1, 1))
        found: Array = arrays["skip"].astype(np.float64).reshape(1, self.h, 1, 1 if self.skip == "head" else self.d)
        return found


def packed_strides(problem: Problem, name: str) -> tuple[int, int, int]:
    """Strides (batch, head, row) of an array without gaps."""
    batch, first, second, _ = packed(problem.shape(name))
    return (batch, first, second) if problem.columns else (batch, second, first)


def check_strides(problem: Problem) -> None:
    """Refuse elements that share a place, and heads that offsets of 32 bits do not reach. Raises RequestError."""
    for array in problem.arrays():
        if array.name not in problem.names:
            continue
        key, given = f"{array.name}_strides", problem.strides(array.name)
        checked_strides(key, array.shape, array.strides)
        row, (_, channels) = given[2], problem.sizes(array.name)
        rows, length = (channels, problem.s) if problem.columns else (problem.s, channels)
        if 0 in array.shape:
            continue
        require_reachable(f"{key}={by(given)}: row", row, MOST_ROWS, array)
        reach = ((rows - 1) * row + length) * find_dtype(array.dtype).bytes
        if reach > MAXIMUM_ARRAY_BYTES:
            what = f"a head of array {array.name} reaches over {reach} bytes"
            raise RequestError(f"{what}; kernels address at most {MAXIMUM_ARRAY_BYTES} from its start")
    checked_strides("delta_strides", problem.steps_shape, (*problem.delta_strides, 1))
    rows = problem.h if problem.columns else problem.s
    if problem.delta_strides[1] * max(rows, MOST_ROWS) * 4 > MAXIMUM_ARRAY_BYTES and 0 not in problem.steps_shape:
        raise RequestError(f"delta_strides={by(problem.delta_strides)}: kernels address {MAXIMUM_ARRAY_BYTES} bytes")
    if problem.s > MAXIMUM_SIZE - MOST_ROWS:
        raise RequestError(f"s={problem.s}: kernels count places to {MAXIMUM_SIZE - MOST_ROWS}")
