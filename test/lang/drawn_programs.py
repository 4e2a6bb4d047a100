"""Programs of the language that nobody wrote: drawn from a seed, traced, and computed by NumPy.

A program is a list of steps. Each takes tiles by number and makes one. Tiles are of i32, whose arithmetic wraps alike
on both sides; other element types are what they pass through on their way to other threads. How every tile lies is
drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ckmlir import lang as ck
from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import Kernel, Pointer, Scalar, Tile, Window
from ckmlir.targets import Target

Array = np.ndarray[Any, Any]
SMALL = 0x3F
"""Numbers that all element types hold."""
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "&": lambda a, b: a & b,
    "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One operation.

    Attributes:
        name: of its methods, here in NumPy and in the language.
        sources: numbers of the tiles that it takes.
        result: number of the tile that it makes, -1 for none.
        lies: how that lies.
        body: steps of a loop, or of a branch.
    """

    name: str
    sources: tuple[int, ...]
    result: int
    lies: Distribution
    data: dict[str, Any] = field(default_factory=dict)
    body: tuple[Step, ...] = ()


@dataclass
class Program:
    """Steps, and the arrays that they read and write."""

    waves: int
    steps: list[Step]
    arrays: list[Array]

    def computed(self) -> list[Array]:
        """The arrays afterwards, by NumPy."""
        run = Computed([array.copy() for array in self.arrays])
        with np.errstate(over="ignore"):
            run.take(self.steps)
        return run.arrays

    def traced(self, target: Target) -> Kernel:
        """A kernel whose arguments are the arrays, and `turns`: how often loops go round."""
        names = [f"p{number}" for number in range(len(self.arrays))]
        arguments = {name: ck.ptr("i32") for name in names}

        def body(**given: Any) -> None:
            Traced([given[name] for name in names], given["turns"], self.arrays).take(self.steps)

        scope: dict[str, Any] = {"body": body}
        listed = ", ".join((*names, "turns"))
        exec(f"def drawn({listed}):\n    body({', '.join(f'{name}={name}' for name in (*names, 'turns'))})", scope)
        made: Kernel = ck.kernel("drawn", target=target, waves=self.waves, arguments={**arguments, "turns": ck.i32})(
            scope["drawn"]
        )
        return made


TURNS = 3
"""How often loops go round."""


class Run:
    """Steps one after the other; `tiles` has what they made, `kept` what lies in LDS for several of them."""

    def __init__(self) -> None:
        self.tiles: dict[int, Any] = {}
        self.kept: dict[int, Any] = {}
        self.turn: Any = 0

    def take(self, steps: Sequence[Step]) -> None:
        """Carry them out."""
        for step in steps:
            found = getattr(self, step.name)(step, *(self.tiles[number] for number in step.sources))
            if step.result >= 0:
                self.tiles[step.result] = found


class Computed(Run):
    """Steps by NumPy."""

    def __init__(self, arrays: list[Array]) -> None:
        super().__init__()
        self.arrays = arrays

    def load(self, step: Step) -> Array:
        """A window, which a loop may move on; zeros outside."""
        array, found = self.arrays[step.data["array"]], np.zeros(step.lies.lengths, np.int32)
        first = step.data["first"] + self.turn * step.data["moved"]
        part = array[first:]
        shared = tuple(slice(0, min(lengths)) for lengths in zip(part.shape, found.shape, strict=True))
        found[shared] = part[shared]
        return found

    def store(self, step: Step, tile: Array) -> None:
        """What fits into an array."""
        array = self.arrays[step.data["array"]]
        array[...] = tile[tuple(slice(0, length) for length in array.shape)]

    def binary(self, step: Step, left: Array, right: Array) -> Array:
        """Element by element."""
        found: Array = BINARY[step.data["symbol"]](left, right)
        return found

    def choose(self, step: Step, left: Array, right: Array) -> Array:
        """The larger where it is odd."""
        return np.where((left < right) & (right & 1 == 1), right, left + step.data["number"])

    def spread(self, step: Step, tile: Array) -> Array:
        """Less the sum or the maximum along an axis."""
        axis = step.data["axis"]
        whole = tile.sum(axis, np.int32) if step.data["kind"] == "sum" else tile.max(axis)
        found: Array = tile - np.expand_dims(whole, axis)
        return found

    def scan(self, step: Step, tile: Array) -> Array:
        """Sums up to each element."""
        found: Array = tile.cumsum(step.data["axis"], np.int32)
        return found - tile if step.data["exclusive"] else found

    def permute(self, step: Step, tile: Array) -> Array:
        """Dimensions in another order."""
        found: Array = tile.transpose(step.data["order"])
        return found

    def piece(self, step: Step, tile: Array) -> Array:
        """A part of an axis, twice over."""
        start, length = step.data["start"], step.data["length"]
        found: Array = tile.take(range(start, start + length), step.data["axis"]) * 2
        return found

    def moved(self, step: Step, tile: Array) -> Array:
        """Small numbers, in other threads."""
        found: Array = tile & SMALL
        return found

    def by_index(self, step: Step, tile: Array, indices: Array) -> Array:
        """Places of an axis by number, zeros outside."""
        axis = step.data["axis"]
        inside = (indices >= 0) & (indices < tile.shape[axis])
        found = (tile & SMALL).take(np.where(inside, indices, 0), axis)
        return np.where(np.expand_dims(inside, [dim for dim in range(tile.ndim) if dim != axis]), found, 0)

    def update(self, step: Step, tile: Array, added: Array, indices: Array) -> Array:
        """Sums at places of an axis by number."""
        found: Array = tile.copy()
        axis = step.data["axis"]
        rows, more = np.moveaxis(found, axis, 0), np.moveaxis(added, axis, 0)
        for number, index in enumerate(indices):
            if 0 <= index < len(rows):
                rows[index] += more[number]
        return found

    def keep(self, step: Step, tile: Array) -> None:
        """A tile that lies in LDS from here on."""
        self.kept[step.data["held"]] = tile.copy()

    def change(self, step: Step, added: Array, indices: Array) -> None:
        """Sums at places of an axis of what is kept."""
        held = self.kept[step.data["held"]]
        held[...] = self.update(step, held, added, indices)

    def kept_tile(self, step: Step) -> Array:
        """What is kept by now."""
        found: Array = self.kept[step.data["held"]].copy()
        return found

    def indices(self, step: Step, tile: Array) -> Array:
        """Numbers from -1 on."""
        found: Array = (tile & 0xFFFF) % step.data["count"] - 1
        return found

    def loop(self, step: Step, tile: Array) -> Array:
        """The body again and again, by the tile that it carries."""
        outer = self.turn
        for self.turn in range(TURNS):
            self.tiles[step.data["carried"]] = tile
            self.take(step.body)
            tile = self.tiles[step.data["ends"]]
        self.turn = outer
        return tile

    def branch(self, step: Step, tile: Array) -> Array:
        """The body, if the largest element is large."""
        if tile.max() <= step.data["bound"]:
            return tile
        self.take(step.body)
        found: Array = self.tiles[step.data["ends"]]
        return found


class Traced(Run):
    """The same steps in the language."""

    def __init__(self, pointers: list[Pointer], turns: Scalar, arrays: list[Array]) -> None:
        super().__init__()
        self.pointers, self.turns, self.arrays = pointers, turns, arrays

    def _window(self, step: Step, first: Any) -> Window:
        """Of an array, padded far enough for all turns of a loop."""
        shape, lengths = self.arrays[step.data["array"]].shape, step.lies.lengths
        strides = [int(np.prod(shape[dim + 1 :])) for dim in range(len(shape))]
        whole = ck.view(self.pointers[step.data["array"]], shape, strides).pad(*lengths).pad_right(0, 8 * lengths[0])
        return whole.window(lengths, (first, *[0] * (len(lengths) - 1)))

    def load(self, step: Step) -> Tile:
        """With its distribution, or one that is found and then moved."""
        first = step.data["first"] + self.turn * step.data["moved"] if step.data["moved"] else step.data["first"]
        window = self._window(step, first)
        return ck.redistribute(ck.load(window), step.lies) if step.data["open"] else ck.load(window, step.lies)

    def store(self, step: Step, tile: Tile) -> None:
        """What fits into an array."""
        ck.store(tile, self._window(step, 0))

    def binary(self, step: Step, left: Tile, right: Tile) -> Tile:
        """Element by element."""
        found: Tile = BINARY[step.data["symbol"]](left, right)
        return found

    def choose(self, step: Step, left: Tile, right: Tile) -> Tile:
        """The larger where it is odd."""
        return ck.where((left < right) & ((right & 1) == 1), right, left + step.data["number"])

    def spread(self, step: Step, tile: Tile) -> Tile:
        """Less the sum or the maximum along an axis."""
        axis = step.data["axis"]
        whole = (ck.reduce_sum if step.data["kind"] == "sum" else ck.reduce_max)(tile, axis)
        found: Tile = tile - whole[tuple(None if dim == axis else slice(None) for dim in range(len(tile.lengths)))]
        return found

    def scan(self, step: Step, tile: Tile) -> Tile:
        """Sums up to each element."""
        return ck.scan_sum(tile, step.data["axis"], exclusive=step.data["exclusive"])

    def permute(self, step: Step, tile: Tile) -> Tile:
        """Dimensions in another order."""
        return ck.permute_axes(tile, *step.data["order"])

    def piece(self, step: Step, tile: Tile) -> Tile:
        """A part of an axis, twice over."""
        found: Tile = ck.slice_tile(tile, step.data["axis"], step.data["start"], step.data["length"]) * 2
        return found

    def moved(self, step: Step, tile: Tile) -> Tile:
        """Small numbers of another type, in other threads."""
        small = ck.cast(tile & SMALL, step.data["dtype"])
        there = ck.to_lds(small).read(step.lies) if step.data["lds"] else ck.redistribute(small, step.lies)
        return ck.cast(there, "i32")

    def by_index(self, step: Step, tile: Tile, indices: Tile) -> Tile:
        """Places of an axis by number, zeros outside."""
        held = ck.to_lds(ck.cast(tile & SMALL, step.data["dtype"]))
        return ck.cast(held.gather(indices, step.data["axis"], step.lies), "i32")

    def update(self, step: Step, tile: Tile, added: Tile, indices: Tile) -> Tile:
        """Sums at places of an axis by number."""
        held = ck.to_lds(tile)
        held.scatter_add(added, indices, step.data["axis"])
        return held.read(step.lies)

    def keep(self, step: Step, tile: Tile) -> None:
        """A tile that lies in LDS from here on."""
        self.kept[step.data["held"]] = ck.to_lds(tile)

    def change(self, step: Step, added: Tile, indices: Tile) -> None:
        """Sums at places of an axis of what is kept."""
        self.kept[step.data["held"]].scatter_add(added, indices, step.data["axis"])

    def kept_tile(self, step: Step) -> Tile:
        """What is kept by now."""
        found: Tile = self.kept[step.data["held"]].read(step.lies)
        return found

    def indices(self, step: Step, tile: Tile) -> Tile:
        """Numbers from -1 on."""
        found: Tile = (tile & 0xFFFF) % step.data["count"] - 1
        return found

    def loop(self, step: Step, tile: Tile) -> Tile:
        """The body again and again, by the tile that it carries."""
        with ck.loop(0, self.turns, 1, carry=[tile]) as loop:
            outer, self.turn = self.turn, loop.index
            (self.tiles[step.data["carried"]],) = loop.carried
            self.take(step.body)
            loop.carry(self.tiles[step.data["ends"]])
            self.turn = outer
        found: Tile = loop.results[0]
        return found

    def branch(self, step: Step, tile: Tile) -> Tile:
        """The body, if the largest element is large."""
        largest = ck.reduce_max(ck.stretch(ck.reduce_max(tile, 1), 0, 1), 1)
        with ck.when(ck.uniform(largest) > step.data["bound"], otherwise=[tile]) as taken:
            self.take(step.body)
            taken.give(self.tiles[step.data["ends"]])
        found: Tile = taken.results[0]
        return found
