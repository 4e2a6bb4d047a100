"""Views through random compositions of transforms, their windows moved by loops, against the same steps in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_runner import CHIPS, compile_traced

from ckmlir.lang import Kernel, Scalar, View, i32, kernel, load, loop, ptr, store, view, workgroup_id
from ckmlir.targets import get_target

NOTHING = -1
"""In place of an element's number: a padding, which reads as zero."""
STEPS, GROUPS = 3, 2
BEYOND = 128
"""How far a window may reach beyond a view."""
Change = Callable[[View], View]


@dataclass
class Case:
    """A view as the user writes it, and the numbers of the elements that it shows."""

    numbers: np.ndarray
    """At every index of the view, the element's place in memory."""
    changes: list[Callable[[View, Amounts], View]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    """Of the kernel's run-time arguments."""

    def amount(self, number: int, dynamic: bool) -> int | str:
        """A number known when the kernel is traced, or the name of the argument that holds it."""
        if not dynamic:
            return number
        self.values.append(number)
        return f"a{len(self.values) - 1}"

    def change(self, text: str, change: Callable[[View, Amounts], View], numbers: np.ndarray) -> None:
        self.texts.append(text)
        self.changes.append(change)
        self.numbers = numbers

    def __repr__(self) -> str:
        return f"{'; '.join(self.texts)} with {self.values}"


class Amounts:
    """Finds what a case's amounts are while the kernel is traced."""

    def __init__(self, arguments: dict[str, Scalar]) -> None:
        self.arguments = arguments

    def __call__(self, amount: int | str) -> Any:
        return self.arguments[amount] if isinstance(amount, str) else amount


def beside(numbers: np.ndarray, dim: int, left: int, right: int) -> np.ndarray:
    widths = [(left, right) if one == dim else (0, 0) for one in range(numbers.ndim)]
    return np.pad(numbers, widths, constant_values=NOTHING)


def draw_change(draw: st.DrawFn, case: Case) -> None:
    """One more transform."""
    lengths, rank = case.numbers.shape, case.numbers.ndim
    dim = draw(st.integers(0, rank - 1))
    length, dynamic = lengths[dim], draw(st.booleans())
    kinds = ["pad_left", "pad_right", "slice", "permute", "reverse"]
    kinds += ["merge"] * 2 * (rank > 1) + ["unmerge", "embed"] * (rank < 4 and length > 1) + ["freeze"] * (rank > 3)
    kind = draw(st.sampled_from(kinds))
    if kind in ("pad_left", "pad_right"):
        number = draw(st.integers(1, 5))
        amount = case.amount(number, dynamic)
        left = kind == "pad_left"
        case.change(
            f"{kind}({dim}, {amount})",
            lambda below, at: getattr(below, kind)(dim, at(amount)),
            beside(case.numbers, dim, number * left, number * (not left)),
        )
    elif kind == "slice":
        begin = draw(st.integers(0, length - 1))
        end = draw(st.integers(begin + 1, length))
        bounds = case.amount(begin, dynamic), case.amount(end, dynamic)
        case.change(
            f"slice({dim}, {bounds[0]}, {bounds[1]})",
            lambda below, at: below.slice(dim, at(bounds[0]), at(bounds[1])),
            case.numbers.take(range(begin, end), dim),
        )
    elif kind == "reverse":
        case.change(f"reverse({dim})", lambda below, at: below.reverse(dim), np.flip(case.numbers, dim))
    elif kind == "permute":
        order = draw(st.permutations(range(rank)))
        case.change(f"permute{(*order,)}", lambda below, at: below.permute(*order), case.numbers.transpose(order))
    elif kind == "merge":
        first = draw(st.integers(0, rank - 2))
        shape = (*lengths[:first], lengths[first] * lengths[first + 1], *lengths[first + 2 :])
        case.change(
            f"merge({first}, {first + 1})",
            lambda below, at: below.merge(first, first + 1),
            case.numbers.reshape(shape),
        )
    elif kind == "unmerge":
        inner = draw(st.sampled_from([one for one in range(1, length + 1) if length % one == 0]))
        parts = case.amount(length // inner, dynamic), case.amount(inner, dynamic)
        case.change(
            f"unmerge({dim}, {parts})",
            lambda below, at: below.unmerge(dim, [at(part) for part in parts]),
            case.numbers.reshape(*lengths[:dim], length // inner, inner, *lengths[dim + 1 :]),
        )
    elif kind == "embed":
        strides = draw(st.integers(1, 2)), draw(st.integers(1, 2))
        window = draw(st.integers(1, min(3, (length - 1) // strides[1] + 1)))
        places = (length - 1 - (window - 1) * strides[1]) // strides[0] + 1
        sizes = case.amount(places, dynamic), case.amount(window, dynamic)
        index = np.add.outer(np.arange(places) * strides[0], np.arange(window) * strides[1])
        case.change(
            f"embed({dim}, {sizes}, {strides})",
            lambda below, at: below.embed(dim, [at(size) for size in sizes], strides),
            case.numbers.take(index, dim),
        )
    else:
        index = draw(st.integers(0, length - 1))
        place = case.amount(index, dynamic)
        case.change(
            f"freeze({dim}, {place})",
            lambda below, at: below.freeze(dim, at(place)),
            case.numbers.take(index, dim),
        )


WINDOWS = {1: [(64,), (16,)], 2: [(8, 16), (64, 1), (1, 64), (4, 4)], 3: [(4, 4, 8), (2, 32, 1)], 4: [(2, 4, 4, 4)]}
MOVES = ("origin", "moved", "slice", "pad_left", "freeze")


@dataclass
class Walk:
    """How the windows of a view move: the tile's lengths, where it starts, and what the loop does to it."""

    lengths: tuple[int, ...]
    origin: tuple[int, ...]
    stride: tuple[int, ...]
    """Added to the origin for each workgroup."""
    move: str
    dim: int
    by: int
    end: int
    """The length of the view's dimension that the loop moves along."""

    def window(self, of: View, index: Scalar) -> Any:
        group = workgroup_id(0)
        start: list[Any] = [first + group * step if step else first for first, step in zip(self.origin, self.stride)]
        distance = index * self.by
        lengths = list(self.lengths)
        if self.move == "origin":
            start[self.dim] = start[self.dim] + distance
        elif self.move == "slice":
            of = of.slice(self.dim, distance, self.end)
        elif self.move == "pad_left":
            of = of.pad_left(self.dim, distance)
        elif self.move == "freeze":
            of = of.freeze(self.dim, distance)
            del start[self.dim], lengths[self.dim]
        for dim in range(len(lengths)):
            of = of.pad_right(dim, BEYOND)  # not to a multiple of the tile: windows start anywhere
        window = of.window(lengths, start)
        return (
            window.moved(*(distance if one == self.dim else 0 for one in range(len(lengths))))
            if (self.move == "moved")
            else window
        )

    def shown(self, numbers: np.ndarray, group: int, index: int) -> np.ndarray:
        """The same of the array of numbers."""
        start = [first + group * step for first, step in zip(self.origin, self.stride)]
        distance, lengths = index * self.by, list(self.lengths)
        if self.move in ("origin", "moved"):
            start[self.dim] += distance
        elif self.move == "slice":
            numbers = numbers.take(range(distance, numbers.shape[self.dim]), self.dim)
        elif self.move == "pad_left":
            numbers = beside(numbers, self.dim, distance, 0)
        else:
            numbers = numbers.take(distance, self.dim)
            del start[self.dim], lengths[self.dim]
        for dim, (first, length) in enumerate(zip(start, lengths)):
            numbers = beside(numbers, dim, 0, first + length).take(range(first, first + length), dim)
        return numbers


@st.composite
def cases(draw: st.DrawFn) -> tuple[Case, Walk]:
    rank = draw(st.integers(1, 3))
    lengths = tuple(draw(st.integers(1, 9) | st.sampled_from([4, 8, 16])) for _ in range(rank))
    pitch = draw(st.sampled_from([1, 1, 4]))
    rounded = -(-lengths[-1] // pitch) * pitch  # rows that begin aligned make wide accesses possible
    numbers = np.arange(int(np.prod(lengths[:-1])) * rounded).reshape(*lengths[:-1], rounded)[..., : lengths[-1]]
    case = Case(numbers)
    strides = [numbers.strides[dim] // numbers.itemsize for dim in range(rank)]
    sizes = [case.amount(length, draw(st.booleans())) for length in lengths]
    case.texts.append(f"view({sizes}, {strides})")
    case.changes.append(lambda below, at: view(below.pointer, [at(size) for size in sizes], strides))
    for _ in range(draw(st.integers(0, 5))):
        draw_change(draw, case)
    shown = case.numbers.shape
    move = draw(st.sampled_from([one for one in MOVES if one != "freeze" or len(shown) > 1]))
    dim = draw(st.integers(0, len(shown) - 1))
    if move in ("slice", "freeze"):
        by = draw(st.integers(0, max(0, (shown[dim] - 1) // (STEPS - 1))))
    else:
        by = draw(st.integers(0, 5))
    window = draw(st.sampled_from(WINDOWS[len(shown)]))
    if move == "freeze":  # the tile that is left keeps as many elements
        rest = draw(st.sampled_from(WINDOWS[len(shown) - 1]))
        window = (*rest[:dim], 1, *rest[dim:])
    origin = tuple(draw(st.sampled_from([0, 0, 0, 1, 3, 4])) for _ in shown)
    stride = tuple(draw(st.sampled_from([0, 0, 1, 4])) for _ in shown)
    return case, Walk(window, origin, stride, move, dim, by, shown[dim])


def build(case: Case, walk: Walk, chip: str) -> Kernel:
    """y[group, step] = the window, for every workgroup and step of a loop."""
    names = [f"a{number}" for number in range(len(case.values))]
    tile = [length for dim, length in enumerate(walk.lengths) if walk.move != "freeze" or dim != walk.dim]
    size = int(np.prod(tile))

    @kernel("walk", target=get_target(chip), waves=1, arguments={
        "x": ptr("f32"), "y": ptr("f32"), "steps": i32, **dict.fromkeys(names, i32)})  # fmt: skip
    def traced(given: Any) -> None:
        at = Amounts({name: getattr(given, name) for name in names})
        seen = view(given.x, (1,), (1,))
        for change in case.changes:
            seen = change(seen, at)
        strides = [int(np.prod(tile[dim + 1 :])) for dim in range(len(tile))]
        out = view(given.y, (GROUPS, given.steps, *tile), (STEPS * size, size, *strides)).freeze(0, workgroup_id(0))
        with loop(0, given.steps, 1) as step:
            found = load(walk.window(seen, step.index))
            store(found, out.freeze(0, step.index).window(tile, [0] * len(tile)))

    return traced


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(cases(), st.sampled_from(CHIPS))
def test_windows_show_what_the_transforms_say(drawn: tuple[Case, Walk], chip: str) -> None:
    """Every element comes from where NumPy has it; what a padding adds, and what lies beyond, is zero."""
    case, walk = drawn
    x = 1.0 + np.arange(max(int(case.numbers.max(initial=0)) + 1, 1), dtype=np.float32)
    wanted = np.stack(
        [np.stack([walk.shown(case.numbers, group, step) for step in range(STEPS)]) for group in range(GROUPS)]
    )
    expected = np.where(wanted == NOTHING, 0, x[np.maximum(wanted, 0)])
    compiled = compile_traced(build(case, walk, chip))
    _, result = compiled.run(x, np.full(wanted.shape, -1, np.float32), STEPS, *case.values, grid=(GROUPS, 1, 1))
    np.testing.assert_array_equal(result, expected, f"{case}; {walk} on {chip}")
