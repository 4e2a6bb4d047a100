"""conv_bwd_weight: dw[g, k, f…, c] = sum over n and o… of dy[n, o…, g, k] · x[n, o * strides + f * dilations - pads, g,
c].

The gradient of the weights of `conv_fwd`: a row for each channel of y, a column for each place in the window and
channel of x, sums over images and positions. Those are many and the results few, so workgroups share the sums
(`split_k`, by default as many parts as the chip has room for). By `reduction=workspace` a second kernel adds the parts
in their order, and two runs give the same bits; by `atomic` memory does. A part's pointers move to where it begins, so
that only what it takes of dy and of the images has to be within the reach of 32-bit offsets: of larger arrays there are
as many parts as that needs. Where what a wave loads of a step divides the images of smaller arrays, or some more of
them, sums go along all images at a position before the next one, so that a wave has one position, whose place in the
images no lane has to find. Or they go along units, of neighbouring positions of several images, of which a wave is at
one.

Arrays: dy (n, positions…, g, k), x (n, image…, g, c), D tensors that op names and dw, each (g, k, window…, c), packed.
With `b_dtype` one of dy and x is of fp8 and the other of bf8.

Kernel arguments: dy, x; m, n, k; the numbers of `WindowsSpec.arguments`, or pitches; those of dw and D tensors; the
batch's as in `batched_gemm` where there are several groups (i32); D tensors, dw; then as in `gemm`. Grid: tiles of
channels and columns; groups; parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from msgspec.structs import asdict

from ckmlir.dialect.distribution_builders import QUAD, in_quads
from ckmlir.ops.arrays import MAXIMUM_ARRAY_BYTES
from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.axes import padded
from ckmlir.ops.contraction.block_sizes import LARGE
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.keys import batched, expression_keys, read_problem
from ckmlir.ops.contraction.problem import Batch, Problem
from ckmlir.ops.contraction.residues import CHANNELS
from ckmlir.ops.contraction.windows import BY_PLACE, Windows, WindowsSpec
from ckmlir.ops.convolution.geometry import KEYS, Geometry, read_geometry
from ckmlir.ops.convolution.operator import ConvolutionOperator, ConvolutionProblem, as_shaped
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import Launch, Step
from ckmlir.ops.request import MAXIMUM_SIZE, RequestError
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.spec import Reason
from ckmlir.ops.steps import Workspace
from ckmlir.ops.tensors.sliding import image_steps
from ckmlir.records import replace
from ckmlir.targets import Target

LEAST_SHARE, LEAST_OF_LONG, LEAST_OF_SINGLE = 15, 30, 7
"""Images there are for each that only a unit has: where units have `MOST_OF_SHORT`, where they have more, and where
lanes load single elements, whose place each would look for.

By the model, in shares of the time without units, on gfx942, gfx950 and gfx90a: by 3 x 3 of 28 x 28, 128 to 128, 31
images .96, and on gfx90a 1.01, 30 .98, .96 and 1.03, 28 1.01, 40 1.03; of 14 x 14, 256 to 256, 30 .95, .97 and 1.03; of
7 x 7, 512 to 512, 15 .97, 60 .98. Of 56 x 56, 64 to 64, with units of 32, 31 .96, .97 and .99, 30 1.03, 1.04 and 1.03.
Of 28 x 28, 33 to 64, 30 .77, 28 .80, .93 and .91, 24 1.03 on gfx950, 20 1.02.
"""
MOST_OF_SHORT = 16
"""Images of a unit.

Units of neighbouring positions of several images come before those, and take others' place where all loads of a lane,
four of which are transposed together, are at one position (`QUAD` images), or where lanes of a quad would each look for
positions. By the model with 3 x 3 on gfx942, gfx950 and gfx90a, in shares of the time without: 40 of 28 x 28, 128 to
128, .94, .98 and .99, 4 of 56 x 56, 64 to 64, .92, 1.01 and .93, 24 of 28 x 28, 34 to 128, .84, .75 and .83, 16 of 28 x
28, 5 to 64, .74, .88 and .68, 6 of 28 x 28, 40 to 128, .99; with two images 6, 128 to 128, 1.03, with one 21 1.01. 60
of 28 x 28, 128 to 128, take .97 of what units of 64 images take on gfx942 and .95 on gfx90a, 28 with 5 to 64 channels
.90 and .88, 33 to 64 1.02 and .94.
"""


class ConvBwdWeight(ConvolutionOperator):
    """The operator `conv_bwd_weight`, which the module's docstring describes."""

    name = "conv_bwd_weight"
    names = {"a": "dy", "b": "x", "c": "dw"}
    keys = (*KEYS, *(key for key in expression_keys(None) if key.name not in ("d_kind", "ldd")))

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        shapes = read_geometry(values)
        sizes = {"m": shapes.k, "n": shapes.places * shapes.c, "k": shapes.positions}
        free = dict.fromkeys(("lda", "ldb", "ldc", "ldd", "d_kind"))
        single = read_problem({**values, **sizes, "layout": "CRR", **free})
        weights = shapes.k * single.n
        strides = {"a": shapes.k, "b": shapes.c, **{one.name: weights for one in single.side}, "c": weights}
        batches = tuple((name, Batch((shapes.g,), (stride,))) for name, stride in strides.items())
        longest = self._longest_part(shapes, single)
        fields = {
            **asdict(single), "lda": shapes.g * shapes.k, "ldb": shapes.g * shapes.c, "ldc": single.n,
            "windows": shapes.windows("weight", pointers_move=longest is not None), "longest_part": longest,
        }  # fmt: skip
        if shapes.g > 1:
            fields |= {"batch": (shapes.g,), "batches": batches}
        problem = ConvolutionProblem(**fields, geometry=shapes)
        each = problem.k if longest is None else longest
        return self._within_reach(problem, {"a": each, "b": each, "c": problem.m})

    def proposals(self, problem: Problem, target: Target) -> Iterator[ContractionSpec]:
        """Those of a product; K goes along all images at a position where what waves load of a step divides these, or
        few more, and pointers stay; or along units of neighbouring positions.
        """
        for spec in super().proposals(problem, target):
            own = replace(spec, windows=_seen_by(spec, problem))
            yield replace(own, pad=padded((self._counted(problem, own).lengths,), own.block))

    def mismatches(self, problem: Problem, spec: ContractionSpec, target: Target) -> list[Reason]:
        windows = problem.windows
        if spec.windows.partition(":")[0] not in BY_PLACE or not isinstance(windows, Windows):
            return super().mismatches(problem, spec, target)
        known, reasons = WindowsSpec.parse(spec.windows), []
        if known.part == "places" and not _divides(known.images, windows.images):
            why = f"there are {windows.images} images"
            reasons.append(Reason("windows", spec.windows, why, f"expected a divisor, or {windows.word}"))
        for part, length in zip(known.positions, windows.sliding.positions, strict=False):
            if length % part:
                why = f"there are {length} positions along a dimension"
                reasons.append(Reason("windows", spec.windows, why, f"expected a divisor, or {windows.word}"))
        if problem.longest_part is not None:
            why = "pointers move to the image where a part begins"
            reasons.append(Reason("windows", spec.windows, why, f"expected {windows.word}"))
        alike = replace(spec, windows=replace(known, part="weight", images=1, positions=()).word)
        return reasons + super().mismatches(self._counted(problem, spec), alike, target)

    def launch(self, problem: Problem, spec: ContractionSpec, target: Target) -> Launch:
        return super().launch(self._counted(problem, spec), spec, target)

    def steps(self, problem: Problem, spec: ContractionSpec, target: Target) -> tuple[Step, ...]:
        return super().steps(self._counted(problem, spec), spec, target)

    def workspaces(self, problem: Problem, spec: ContractionSpec, target: Target) -> tuple[Workspace, ...]:
        return super().workspaces(self._counted(problem, spec), spec, target)

    def _counted(self, problem: Problem, spec: ContractionSpec) -> Problem:
        """The problem with images up to whole units, if a kernel counts them in these."""
        windows = problem.windows
        if not spec.windows.startswith("units:") or not isinstance(windows, Windows) or not windows.images:
            return problem
        return replace(problem, k=_in_units(problem.k, windows.images, WindowsSpec.parse(spec.windows).images))

    def _longest_part(self, shapes: Geometry, single: Problem) -> int | None:
        """Positions of which dy, and the images that they are in, are within the reach of 32-bit offsets; None: all.

        Raises:
            RequestError: A step of the loop is not, or the request has fewer parts.
        """
        size, positions = find_dtype(single.stored).bytes, prod(shapes.sliding.positions)
        image = image_steps(shapes.sliding, shapes.g * shapes.c)[0]
        rows, images = (MAXIMUM_ARRAY_BYTES // (size * one) for one in (shapes.g * shapes.k, image))
        if 0 in (single.m, single.n, single.k) or (single.k <= rows and shapes.n <= images):
            return None
        longest = min(rows, max(images - 1, 0) * positions - 1) if shapes.n > images else rows
        least = max(LARGE, (single.block or (0,))[-1])
        if longest < least:
            raise RequestError(
                f"array {'dy' if longest == rows else 'x'}: what {least} positions take of it spans more than "
                f"{MAXIMUM_ARRAY_BYTES} bytes; kernels address at most that"
            )
        parts = ceil_div(single.k, longest // least * least)
        if single.split_k is not None and single.split_k < parts:
            raise RequestError(
                f"split_k={single.split_k}: what a part takes of dy or x spans more than {MAXIMUM_ARRAY_BYTES} bytes; "
                f"expected at least {parts}"
            )
        return longest

    def _flat(self, problem: ConvolutionProblem, arrays: Mapping[str, Array]) -> tuple[Problem, dict[str, Array]]:
        shapes, flat = problem.shapes, problem.plain()
        flat = batched(replace(flat, lda=flat.m, ldb=flat.n), (shapes.g,), {})
        found, _ = shapes.sliding.patches(arrays["x"])
        joined = {"a": np.moveaxis(arrays["dy"], -2, 0), "b": np.moveaxis(found, -2, 0)}
        joined |= {one.name: arrays[one.name] for one in problem.side}
        return flat, as_shaped(flat, joined)

    def _shaped(self, problem: ConvolutionProblem, values: Array) -> Array:
        return values.reshape(problem.shapes.w)

    def _side_shape(self, problem: ConvolutionProblem, kind: str) -> tuple[int, ...]:
        return problem.shapes.w

    def kernels(self, target: Target) -> list[ContractionSpec]:
        requests: tuple[dict[str, object], ...] = (
            {"c": 64, "k": 64}, {"c": 64, "k": 64, "reduction": "atomic", "out": "f32"}, {"c": 32, "k": 64, "g": 2},
            {"n": 128, "c": 128, "k": 128},
            {"c": 3, "k": 64, "window": (7, 7), "strides": (2,), "pads": (3,)},
            {"c": 256, "k": 64, "window": (1,), "pads": (0,)}, {"c": 64, "k": 128, "image": (8, 16, 16)},
        )  # fmt: skip
        problems = [self.problem(**{"n": 32, **keys}, dtype=dtype) for keys in requests for dtype in ("f16", "bf16")]
        specs = dict.fromkeys(self.spec(problem, target) for problem in problems)
        return [spec for spec in specs if not self.validate(spec, target)]


def _seen_by(spec: ContractionSpec, problem: Problem) -> str:
    """How a kernel sees patches, as `ContractionSpec.windows` has it."""
    windows = problem.windows
    if not isinstance(windows, Windows) or problem.longest_part is not None:
        return problem.windows_word
    rows, columns, depth = spec.block
    at_once = max(
        _at_once(count, depth, spec.wave_count, vector)
        for count, vector in zip((rows, columns), spec.align, strict=False)
    )
    if _divides(at_once, windows.images):
        return windows.by_place.word
    neighbours = windows.of_neighbours(at_once) if str(at_once) in CHANNELS else None
    if neighbours is not None and neighbours.images >= QUAD:
        return neighbours.word
    least = LEAST_OF_LONG if at_once > MOST_OF_SHORT else LEAST_SHARE
    if _pays_units(problem.k, windows.images, at_once, LEAST_OF_SINGLE if spec.align[1] == 1 else least):
        return windows.in_units(at_once).word
    share_places = windows.channels % (QUAD * spec.align[1]) == 0  # where lanes of a quad find and check one for all
    return problem.windows_word if neighbours is None or share_places else neighbours.word


def _pays_units(length: int, images: int, unit: int, least: int) -> bool:
    """Whether so many images are counted in units of so many: they have at least so many for each that is added."""
    if not images or str(unit) not in CHANNELS:
        return False
    counted = _in_units(length, images, unit)
    return (counted - length) * least <= length and counted <= MAXIMUM_SIZE


def _in_units(length: int, images: int, unit: int) -> int:
    """A K that counts so many images, with as many more as make whole units."""
    return length // images * ceil_div(images, unit) * unit


@lru_cache(maxsize=1024)
def _at_once(count: int, depth: int, waves: int, vector: int) -> int:
    """A power of two of positions that one wave loads of a step at most, or the whole step where it loads elements one
    by one: their conditions take the scalar registers that a position of its own would need.
    """
    if vector == 1:
        return depth
    last = int(in_quads((count, depth), waves, vector).coordinates()[1, 0].max())
    return min(depth, 1 << last.bit_length())


def _divides(depth: int, images: int) -> bool:
    return images > 0 and images % depth == 0


OPERATOR = ConvBwdWeight()
