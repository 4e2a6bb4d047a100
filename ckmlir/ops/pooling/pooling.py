"""pooling: the maximum or the average of every window of images, channels last (NHWC, NDHWC; also NWC).

`op=max` may also give the index of the maximum, the first of equal ones: its element's number in the packed images, 0
where a window meets nothing but -infinity. Without `propagate_nan` a NaN is passed over, with it the first one is the
result. `op=average` divides by the elements of the window, those of the padding included (as zeros) or not (`count`),
or only those of so much padding behind the image (`counted_pads`). A window without elements gives -infinity, or NaN
for an average that counts none. Averages add in f32; where the magnitudes of their terms add up to more than it holds,
nothing is promised.

Arrays: x (n, image…, c), y (n, positions…, c), index (i32, like y) with `index`; packed.

Kernel arguments: y, index, x; lengths and numbers of tiles of (n, positions…, c), strides of y and index, those of
`SlidingSpec.sliding_arguments`, counted padding behind the image where that is less (i32 for each dimension), places in
a window (i32), 1 / their number (f32). Grid: one dimension, tiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property, reduce
from math import prod
from operator import gt
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.digests import digest_of
from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import NOTHING, Argument, Launch, Operator
from ckmlir.ops.precision import in_f32, order_decides
from ckmlir.ops.request import Choice, Flag, Integer, RequestError, show
from ckmlir.ops.scalars import f32, i32
from ckmlir.ops.spec import Reason, by, not_a_choice, unlike
from ckmlir.ops.tensors.arrays import packed
from ckmlir.ops.tensors.folding import Folded
from ckmlir.ops.tensors.keys import PerDimension
from ckmlir.ops.tensors.mapping import ALIGN
from ckmlir.ops.tensors.rounding import output_tolerance, saturated
from ckmlir.ops.tensors.sliding import (
    MOST_SPATIAL,
    Sliding,
    SlidingSpec,
    check_sliding,
    index_strides,
    read_sliding,
    sliding_keys,
    sliding_scalars,
    uncovered_windows,
    window_array_fields,
)  # fmt: skip
from ckmlir.ops.tensors.tiling import (
    check_tiles,
    choose_tile,
    invalid_tiles,
    launch_scalars,
    tile_counts,
    tile_fields,
)
from ckmlir.ops.tensors.values import moved_values
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

TYPES = ("f16", "bf16", "f32", "fp8", "bf8")
OPS = ("max", "average")
COUNTS = ("padding", "elements")
SOME = "some"
"""What a kernel counts where that is padding, but not all behind the image."""
TILE = 2048
"""Elements of a workgroup."""


class Problem(Struct, frozen=True, dict=True):
    """A pooling to compute."""

    n: int
    c: int
    sliding: Sliding
    op: str
    index: bool
    propagate_nan: bool
    count: str
    counted: tuple[int, ...]
    dtype: str
    align: int

    @property
    def counts(self) -> str:
        """What a kernel divides by."""
        return SOME if self.count == "padding" and self.counted != self.sliding.right else self.count

    @property
    def shape(self) -> tuple[int, ...]:
        """Of y."""
        return (self.n, *self.sliding.positions, self.c)

    @cached_property
    def folded(self) -> Folded:
        """The index space (n, positions…, c) with the strides of y and x."""
        steps = index_strides(self.sliding, 1, self.c)
        x = (*steps["n"], *steps["positions"], *steps["c"])
        return Folded(self.shape, (packed(self.shape), x), (0,) * len(self.shape))


class PoolingSpec(SlidingSpec):
    """What a pooling kernel depends on; arrays are y, index where there is one, and x."""

    op: str
    propagate_nan: bool
    count: str

    @property
    def counting_arguments(self) -> tuple[str, ...]:
        """Names of the kernel's arguments that say how much padding counts."""
        return tuple(f"counted{dim}" for dim in range(self.spatial)) if self.count == SOME else ()

    @property
    def name(self) -> str:
        digest = digest_of(self.to_json(), 10)
        words = ["pooling", self.op, self.dtypes[0], f"{self.spatial}d", *["index"] * self.index]
        return "_".join([*words, f"tile{by(self.tile)}", digest])

    @property
    def index(self) -> bool:
        return "index" in self.arrays


class Pooling(Operator[Problem, PoolingSpec]):
    """The operator `pooling`, which the module's docstring describes."""

    name = "pooling"
    spec_type = PoolingSpec
    keys = (
        Integer("n", 2, "images"),
        Integer("c", 32, "channels", minimum=1),
        *sliding_keys((30, 30), (2,), pad=1, stride=2),
        Choice("op", "max", "what is computed", OPS),
        Flag("index", False, "also write where the maximum is"),
        Flag("propagate_nan", False, "a NaN is larger than everything"),
        Choice("count", "padding", "what an average divides by: the window's elements with padding or without", COUNTS),
        PerDimension("counted_pads", None, "padding behind the image that an average counts; default: all",
                     most=MOST_SPATIAL, of="image"),
        Choice("dtype", "f16", "of x and y", TYPES),
        ALIGN,
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        same = {key: values[key] for key in ("n", "c", "op", "index", "propagate_nan", "count", "dtype", "align")}
        sliding = read_sliding(values)
        problem = Problem(sliding=sliding, counted=_counted(values, sliding), **same)
        if problem.op == "average" and (problem.index or problem.propagate_nan):
            key = "index" if problem.index else "propagate_nan"
            raise RequestError(f"{key}=1: op=average has no maximum; expected op=max")
        if problem.op == "max" and problem.count != "padding":
            raise RequestError(f"count={problem.count}: op=max counts nothing; expected op=average")
        if not problem.folded.is_empty:
            check_sliding(problem.sliding, 1, problem.c)
            check_tiles(problem.folded, _tile(problem), ("y", "x"))
        if problem.index and problem.n * prod(problem.sliding.image) * problem.c >= 2**31:
            raise RequestError("index=1: the images have 2^31 elements or more, which no i32 numbers")
        return problem

    def spec(self, problem: Problem, target: Target) -> PoolingSpec:
        arrays, dtypes, folded = _by_array(problem)
        return PoolingSpec(
            arrays=arrays,
            dtypes=dtypes,
            spatial=problem.sliding.rank,
            padded=problem.sliding.padded,
            op=problem.op,
            propagate_nan=problem.propagate_nan,
            count=problem.counts,
            **window_array_fields(folded, dtypes, problem.align, problem.c),
            **tile_fields(folded, _tile(problem)),
        )

    def mismatches(self, problem: Problem, spec: PoolingSpec, target: Target) -> list[Reason]:
        arrays, dtypes, folded = _by_array(problem)
        different = list(unlike(
            spec, arrays=arrays, dtypes=dtypes, op=problem.op, propagate_nan=problem.propagate_nan, count=problem.counts
        ))  # fmt: skip
        return different or list(uncovered_windows(spec, problem.sliding, folded, problem.align, problem.c))

    def validate(self, spec: PoolingSpec, target: Target) -> list[Reason]:
        return [*invalid_tiles(spec, target), *not_a_choice(spec, op=OPS, count=(*COUNTS, SOME))]

    def kernels(self, target: Target) -> list[PoolingSpec]:
        options: list[dict[str, object]] = [
            {"op": "max"},
            {"op": "max", "index": True},
            {"op": "average"},
            {"op": "average", "count": "elements"},
            {"op": "average", "counted_pads": 0},
        ]
        specs = [
            self.spec(self.problem(image=image, dtype=dtype, **option), target)
            for image in ((30, 30), (30, 30, 30))
            for dtype in TYPES
            for option in options
        ]
        return list({spec.name: spec for spec in specs if not self.validate(spec, target)}.values())

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        x = (problem.n, *problem.sliding.image, problem.c)
        y = problem.shape
        index = [ArraySpec("index", y, "i32", "out", packed(y), problem.align)] if problem.index else []
        return (
            ArraySpec("x", x, problem.dtype, "in", packed(x), problem.align),
            ArraySpec("y", y, problem.dtype, "out", packed(y), problem.align),
            *index,
        )

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        return moved_values(array, generator)

    def _windows(self, problem: Problem, x: Array) -> tuple[Array, Array]:
        """([n, positions…, c, places], which exist [positions…, 1, places])."""
        k = problem.sliding.rank
        patches, exists = problem.sliding.patches(x)
        places = prod(problem.sliding.window)
        patches = np.moveaxis(patches, -1, 1 + k).reshape(*problem.shape, places)
        return patches, exists.reshape(*problem.sliding.positions, 1, places)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs in float64, and indices."""
        if 0 in problem.shape:
            return {name: np.zeros(problem.shape) for name in ("y", *["index"] * problem.index)}
        values, exists = self._windows(problem, arrays["x"].astype(np.float64))
        with np.errstate(all="ignore"):
            if problem.op == "average":
                total = in_f32(np.where(exists, values, 0.0).sum(axis=-1))
                return {"y": total / self._divisors(problem, exists)}
            usable = np.where(exists, values, -math.inf)
            ranked = np.where(np.isnan(usable), math.inf if problem.propagate_nan else -math.inf, usable)
            if problem.propagate_nan:
                ranked = np.where(np.isnan(usable), math.inf, np.minimum(usable, np.finfo(np.float64).max))
            first = np.argmax(ranked, axis=-1)
            best = np.take_along_axis(usable, first[..., None], axis=-1)[..., 0]
            y = np.where(np.isnan(best) & (not problem.propagate_nan), -math.inf, best)
        if not problem.index:
            return {"y": y}
        numbers = np.arange(arrays["x"].size).reshape(arrays["x"].shape)
        found, _ = self._windows(problem, numbers)
        index = np.take_along_axis(found, first[..., None], axis=-1)[..., 0]
        return {"y": y, "index": np.where(np.isneginf(y), 0, index)}

    def _divisors(self, problem: Problem, exists: Array) -> Array:
        sliding = problem.sliding
        if problem.count == "padding":
            near = (
                (sliding.image_places(dim) < length + counted).sum(axis=1)
                for dim, (length, counted) in enumerate(zip(sliding.image, problem.counted, strict=True))
            )
            places: Array = reduce(np.multiply.outer, near).astype(np.float64)[..., None]
            return places
        found: Array = exists.sum(axis=-1).astype(np.float64)
        return found

    def expected(self, problem: Problem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        found = self.reference(problem, arrays)
        return {
            name: saturated(value, "i32" if name == "index" else problem.dtype, target) for name, value in found.items()
        }

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Maxima are exact; an average goes through one f32 addition for every element, each rounding at most the sum
        of magnitudes, and two roundings of its division.
        """
        exact = Tolerance(0.0, 0.0, "one of the elements")
        if problem.op == "max" or 0 in problem.shape:
            return dict.fromkeys(reference, exact)
        values, exists = self._windows(problem, arrays["x"].astype(np.float64))
        places = prod(problem.sliding.window)
        u = find_dtype("f32").unit_roundoff
        with np.errstate(all="ignore"):
            size = np.where(exists & np.isfinite(values), np.abs(values), 0.0).sum(axis=-1)
            error = np.nan_to_num((places + 3) * u * size / self._divisors(problem, exists))
            error = np.where(order_decides(np.where(exists, values, 0.0), -1), np.inf, error)
        return {"y": output_tolerance(error, problem.dtype, f"{places} f32 additions and a division", target)}

    def launch(self, problem: Problem, spec: PoolingSpec, target: Target) -> Launch:
        folded = problem.folded
        if self.writes_nothing(problem):
            return NOTHING
        counts = tile_counts(folded.lengths, spec.tile)
        scalars = launch_scalars(spec, folded.lengths, counts, dict.fromkeys(("y", "index"), folded.strides[0]))
        windows = sliding_scalars(problem.sliding, 1, problem.c)
        places = prod(problem.sliding.window)
        counted = [i32(pad) for pad in problem.counted if spec.counting_arguments]
        arguments: tuple[Argument, ...] = (*spec.arrays, *scalars, *windows, *counted, i32(places), f32(1 / places))
        return Launch((prod(counts), 1, 1), (spec.waves * WAVE_SIZE, 1, 1), arguments)


def _counted(values: Mapping[str, Any], sliding: Sliding) -> tuple[int, ...]:
    """How much padding behind the image counts, along each dimension. Raises RequestError for more than there is."""
    given = values["counted_pads"]
    if given is None:
        return sliding.right
    found: tuple[int, ...] = given * sliding.rank if len(given) == 1 else given
    if (values["op"], values["count"]) != ("average", "padding"):
        raise RequestError(f"counted_pads={show(given)}: expected op=average with count=padding")
    if len(found) != sliding.rank or any(map(gt, found, sliding.right)):
        raise RequestError(f"counted_pads={show(given)}: expected at most right_pads={by(sliding.right)}")
    return found


def _tile(problem: Problem) -> tuple[int, ...]:
    _, dtypes, folded = _by_array(problem)
    return choose_tile(folded, dtypes, elements=TILE)


def _by_array(problem: Problem) -> tuple[tuple[str, ...], tuple[str, ...], Folded]:
    """Names and element types of the arrays, and the index space with their strides."""
    y, x = problem.folded.strides
    arrays = ("y", "index", "x") if problem.index else ("y", "x")
    dtypes = tuple({"index": "i32"}.get(name, problem.dtype) for name in arrays)
    strides = tuple(x if name == "x" else y for name in arrays)
    return arrays, dtypes, Folded(problem.folded.lengths, strides, problem.folded.groups)


OPERATOR = Pooling()
