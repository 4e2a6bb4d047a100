"""How long the workgroups of a launch are: all alike, or by where they stand in the grid, as under a causal mask.

Length is the number of instructions that the waves of a workgroup execute. A few workgroups are run and counted,
without recording: the corners of the grid and some places at random. Where these agree, all are taken to be alike.
Otherwise more are counted along the axes that matter, and between those lengths are interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ckmlir.sim.memory import DeviceMemory
from ckmlir.sim.parallel import watch

if TYPE_CHECKING:
    from ckmlir.codeobject import CodeObject
    from ckmlir.sim.launch import Dimensions, KernelArgument
    from ckmlir.sim.runner import Runner

ALIKE: Final = 0.02
"""Workgroups whose lengths differ by less than this share of the longest are alike: ragged edges, skipped stores."""

MOST_COUNTED: Final = 64
RANDOM_PLACES: Final = 3

Counts = Callable[[Sequence[int]], list[int]]
"""From numbers of workgroups to their lengths."""


class Lengths(Struct, frozen=True):
    """Lengths of the workgroups of a launch.

    Attributes:
        shape: Of the grid, fastest axis first.
        places: For each axis the coordinates at which workgroups were counted, ascending; one where lengths do not
            depend on the axis.
        counted: f64, an axis for each of the grid's: the lengths there.
    """

    shape: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]
    counted: npt.NDArray[np.float64]

    def of(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """The lengths of workgroups, linear between those counted."""
        coordinates = np.unravel_index(numbers, self.shape, order="F")
        found = np.zeros(len(numbers))
        weights, indices = [], []
        for places, at in zip(self.places, coordinates):
            upper = np.clip(np.searchsorted(places, at), 1, max(1, len(places) - 1))
            known = np.array(places if len(places) > 1 else (*places, places[0] + 1), np.float64)
            share = np.clip((at - known[upper - 1]) / (known[upper] - known[upper - 1]), 0.0, 1.0)
            one = len(places) == 1
            indices.append((upper - 1, upper - 1 if one else upper))
            weights.append((1.0 - share, share))
        for corner in product((0, 1), repeat=len(self.shape)):
            weight = math.prod((weights[axis][side] for axis, side in enumerate(corner)), start=np.ones(len(numbers)))
            found += weight * self.counted[tuple(indices[axis][side] for axis, side in enumerate(corner))]
        return found

    def all(self) -> npt.NDArray[np.float64]:
        """The lengths of all workgroups of the launch, by number."""
        return self.of(np.arange(math.prod(self.shape), dtype=np.int64))


def survey(shape: Sequence[int], count: Counts) -> Lengths | None:
    """The lengths of a launch's workgroups; None where they are alike.

    Args:
        shape: Of the grid as the kernel sees it, fastest axis first.
        count: Called with workgroups that were not counted before.
    """
    shape = tuple(shape)
    known: dict[int, int] = {}

    def at(*places: Sequence[int]) -> list[int]:
        numbers = [int(np.ravel_multi_index(tuple(place), shape, order="F")) for place in places]
        if new := [number for number in dict.fromkeys(numbers) if number not in known]:
            known.update(zip(new, count(new), strict=True))
        return [known[number] for number in numbers]

    first, last = (0,) * len(shape), tuple(extent - 1 for extent in shape)
    ends = [tuple(last[axis] if axis == one else 0 for axis in range(len(shape))) for one in range(len(shape))]
    generator = np.random.default_rng(0)
    scattered = [tuple(int(generator.integers(extent)) for extent in shape) for _ in range(RANDOM_PLACES)]
    found = at(first, *ends, last, *scattered)
    if _alike(found):
        return None
    matters = [not _alike(at(first, end)) for end in ends]
    lengths = _on_grid(shape, matters, at)
    expected = lengths.of(np.array([np.ravel_multi_index(place, shape, order="F") for place in (last, *scattered)]))
    if not all(_alike(pair) for pair in zip(expected, at(last, *scattered))):  # axes that matter only together
        lengths = _on_grid(shape, [extent > 1 for extent in shape], at)
    return lengths


def _alike(lengths: Sequence[float]) -> bool:
    return max(lengths) - min(lengths) <= ALIKE * max(lengths)


def _on_grid(shape: tuple[int, ...], matters: Sequence[bool], at: Callable[..., list[int]]) -> Lengths:
    """Count on a grid of places along the axes that matter."""
    share = MOST_COUNTED ** (1 / max(1, sum(matters)))
    places = tuple(
        _spread(extent, max(4, int(share + 1e-9))) if wanted else (0,) for extent, wanted in zip(shape, matters)
    )
    counted = np.array(at(*product(*places)), np.float64).reshape([len(one) for one in places])
    return Lengths(shape, places, counted)


def _spread(extent: int, most: int) -> tuple[int, ...]:
    """Coordinates over an axis: both ends and their neighbours, which may be edges, and some between."""
    if extent <= most:
        return tuple(range(extent))
    inner = np.linspace(1, extent - 2, most - 2).round().astype(int).tolist()
    return (0, *inner, extent - 1)


class CountsWorkgroups(Protocol):
    """What counting asks of a simulator."""

    def counting_runner(
        self,
        code_object: CodeObject,
        kernel: str | None,
        grid: Dimensions,
        block: Dimensions,
        arguments: Sequence[KernelArgument],
        dynamic_lds: int,
    ) -> Runner:
        """A runner that runs workgroups without checks."""


def count_workgroups(
    simulator: CountsWorkgroups,
    code_object: CodeObject,
    kernel: str | None,
    grid: Dimensions,
    block: Dimensions,
    arguments: Sequence[KernelArgument],
    dynamic_lds: int,
    numbers: Sequence[int],
    *,
    in_order: bool = False,
) -> list[int]:
    """Run some workgroups of a launch, each alone, and count what they execute; arguments and errors as `record`.

    Memory that the kernel updates atomically is as it was before: it may say what is left to do. `in_order`: all
    workgroups up to the last of these run, and all memory is as it was before.
    """
    with simulator.counting_runner(code_object, kernel, grid, block, arguments, dynamic_lds) as runner:
        if in_order:
            runner.keep_order()
        changes = in_order or runner.program.updates_memory
        changed = [one for one in arguments if isinstance(one, DeviceMemory)] if changes else []
        before = [one.read() for one in changed]

        def restore() -> None:
            for memory, contents in zip(changed, before):
                memory.write(contents)

        counted, behind = {}, 0
        for number in sorted(set(numbers)):
            if in_order:
                watch([runner], [[(behind, number)]])
            done = runner.executed
            watch([runner], [[(number, number + 1)]])
            counted[number], behind = runner.executed - done, number + 1
            if not in_order:
                restore()
        restore()
        return [counted[number] for number in numbers]
