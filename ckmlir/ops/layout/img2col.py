"""img2col: the patches of images as rows of a matrix, as implicit convolutions read them.

y[g, (n, positions…), (window…, c)] = x[n, positions * strides + window * dilations - pads, g, c], zero outside the
image; images of one, two or three spatial dimensions, padded differently on both sides.

Arrays: x (n, image…, g, c), y (g, n * positions, window * c), packed.

Kernel arguments: y, x; lengths and numbers of tiles of (g, n, positions…, window…, c), strides of y, then those of
`SlidingSpec.sliding_arguments` (i32). Grid: one dimension, tiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.digests import digest_of
from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import TENSOR_TYPES, find_dtype
from ckmlir.ops.operator import NOTHING, Launch, Operator
from ckmlir.ops.request import Choice, Integer
from ckmlir.ops.spec import Reason, by, unlike
from ckmlir.ops.tensors.arrays import packed
from ckmlir.ops.tensors.folding import Folded
from ckmlir.ops.tensors.mapping import ALIGN
from ckmlir.ops.tensors.sliding import (
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
    BYTES_OF_THREAD,
    THREADS,
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

MOST_OF_THREAD = 16
"""Elements of a work-item: each may need a test of its own, whose result lives in scalar registers."""


class Problem(Struct, frozen=True, dict=True):
    """Patches to lay out."""

    n: int
    g: int
    c: int
    sliding: Sliding
    dtype: str
    align: int

    @cached_property
    def folded(self) -> Folded:
        """The index space (g, n, positions…, window…, c) with the strides of y and x."""
        steps = index_strides(self.sliding, self.g, self.c)
        lengths = (self.g, self.n, *self.sliding.positions, *self.sliding.window, self.c)
        x = (*steps["g"], *steps["n"], *steps["positions"], *steps["window"], *steps["c"])
        return Folded(lengths, (packed(lengths), x), (0,) * len(lengths))


class Img2colSpec(SlidingSpec):
    """What an img2col kernel depends on."""

    @property
    def name(self) -> str:
        digest = digest_of(self.to_json(), 10)
        return f"img2col_{self.dtypes[0]}_{self.spatial}d_tile{by(self.tile)}_{digest}"


class Img2col(Operator[Problem, Img2colSpec]):
    """The operator `img2col`, which the module's docstring describes."""

    name = "img2col"
    spec_type = Img2colSpec
    keys = (
        Integer("n", 2, "images"),
        Integer("g", 1, "groups of channels", minimum=1),
        Integer("c", 32, "channels of a group", minimum=1),
        *sliding_keys((28, 28), (3, 3), pad=1, stride=1),
        Choice("dtype", "f16", "element type", TENSOR_TYPES),
        ALIGN,
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        same = {key: values[key] for key in ("n", "g", "c", "dtype", "align")}
        problem = Problem(sliding=read_sliding(values), **same)
        if not problem.folded.is_empty:
            check_sliding(problem.sliding, problem.g, problem.c)
            check_tiles(problem.folded, _tile(problem), ("y", "x"))
        return problem

    def spec(self, problem: Problem, target: Target) -> Img2colSpec:
        dtypes = (problem.dtype, problem.dtype)
        folded = problem.folded
        return Img2colSpec(
            arrays=("y", "x"),
            dtypes=dtypes,
            spatial=problem.sliding.rank,
            padded=problem.sliding.padded,
            **window_array_fields(folded, dtypes, problem.align, problem.g * problem.c),
            **tile_fields(folded, _tile(problem)),
        )

    def mismatches(self, problem: Problem, spec: Img2colSpec, target: Target) -> list[Reason]:
        dtypes = (problem.dtype, problem.dtype)
        different = list(unlike(spec, arrays=("y", "x"), dtypes=dtypes))
        return different or list(
            uncovered_windows(spec, problem.sliding, problem.folded, problem.align, problem.g * problem.c)
        )

    def validate(self, spec: Img2colSpec, target: Target) -> list[Reason]:
        return list(invalid_tiles(spec, target))

    def kernels(self, target: Target) -> list[Img2colSpec]:
        images = {(64,): 3, (28, 28): 3, (8, 16, 16): 3}
        specs = [
            self.spec(self.problem(image=image, window=(window,), c=c, dtype=dtype), target)
            for image, window in images.items()
            for c in (1, 4, 32, 64)
            for dtype in TENSOR_TYPES
        ]
        return list({spec.name: spec for spec in specs if not self.validate(spec, target)}.values())

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        x = (problem.n, *problem.sliding.image, problem.g, problem.c)
        rows, row = prod(problem.sliding.positions), prod(problem.sliding.window)
        y = (problem.g, problem.n * rows, row * problem.c)
        return (
            ArraySpec("x", x, problem.dtype, "in", packed(x), problem.align),
            ArraySpec("y", y, problem.dtype, "out", packed(y), problem.align),
        )

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        return moved_values(array, generator)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The elements themselves."""
        patches, _ = problem.sliding.patches(arrays["x"])
        (y,) = (array for array in self.arrays(problem) if array.name == "y")
        return {"y": np.moveaxis(patches, -2, 0).reshape(y.shape)}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        return {"y": Tolerance(0.0, 0.0, "elements move unchanged")}

    def launch(self, problem: Problem, spec: Img2colSpec, target: Target) -> Launch:
        folded = problem.folded
        if self.writes_nothing(problem):
            return NOTHING
        counts = tile_counts(folded.lengths, spec.tile)
        scalars = launch_scalars(spec, folded.lengths, counts, {"y": folded.strides[0]})
        windows = sliding_scalars(problem.sliding, problem.g, problem.c)
        return Launch((prod(counts), 1, 1), (spec.waves * WAVE_SIZE, 1, 1), ("y", "x", *scalars, *windows))


def _tile(problem: Problem) -> tuple[int, ...]:
    most = THREADS * min(MOST_OF_THREAD, BYTES_OF_THREAD // find_dtype(problem.dtype).bytes)
    return choose_tile(problem.folded, (problem.dtype, problem.dtype), elements=most)


OPERATOR = Img2col()
