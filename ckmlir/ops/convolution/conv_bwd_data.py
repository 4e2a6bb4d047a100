"""conv_bwd_data: dx[n, h…, g, c] = sum over k and all o…, f… that meet h… of dy[n, o…, g, k] · w[g, k, f…, c].

The gradient of the images of `conv_fwd`. With strides, the places of an image that meet the same places of the window
are a class, and each class is a convolution with stride 1 of its own (`ckmlir.ops.contraction.residues`): all of them
are one launch, and every element of dx is stored once. Places that no window meets are zero. Where blocks are few and
sums long, workgroups share the sums (`split_k`, `reduction`), as those of any product.

Arrays: dy (n, positions…, g, k), w (g, k, window…, c), D tensors that op names, dx (n, image…, g, c), all packed. A D
tensor is as dx (`d_kind` full), a number for each channel (row, (g, c)), or one for all (scalar). With `b_dtype`
one of dy and w is of fp8 and the other of bf8.

Windows of one place without padding and strides make plain matrices of the images, and the kernel is `gemm`'s. With
groups of single channels, and without strides, it is `conv_fwd`'s of dy by turned weights, with its arguments
(`Geometry.depthwise_gradient`).

Kernel arguments: dy, w; n; blocks of the class that has the most rows, and their reciprocal; the numbers
of `ResiduesSpec.arguments`; the distances of dx and D tensors, and the batch's, as in `batched_gemm` (i32); D tensors,
dx; then as in `gemm`. Grid: blocks of every class; groups; parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from msgspec.structs import asdict

from ckmlir.ops.arrays import MAXIMUM_ARRAY_BYTES
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.block_sizes import LARGE
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.depthwise import Depthwise
from ckmlir.ops.contraction.depthwise_plans import MOST_COLUMNS, depthwise_axes
from ckmlir.ops.contraction.keys import batched, expression_keys, read_problem
from ckmlir.ops.contraction.operator import real_type
from ckmlir.ops.contraction.problem import Batch, Problem
from ckmlir.ops.contraction.reciprocals import reciprocal
from ckmlir.ops.contraction.residues import Residues
from ckmlir.ops.contraction.side import MOST
from ckmlir.ops.convolution.geometry import KEYS, Geometry, read_geometry
from ckmlir.ops.convolution.operator import (
    ConvolutionOperator,
    ConvolutionProblem,
    as_shaped,
    groups_first,
    of_convolution,
)
from ckmlir.ops.convolution.vectors import in_vectors, is_open, seen_by
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.list_keys import Words
from ckmlir.ops.operator import Launch, Step
from ckmlir.ops.request import MAXIMUM_SIZE, RequestError
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Reason, unlike
from ckmlir.records import replace
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

KINDS = ("full", "row", "scalar")
LARGEST_STRIDE = 1 << 15
"""Kernels multiply two numbers below a stride."""
LEAST_BLOCK = 16
"""Rows and columns that a block has at least."""


class ConvBwdData(ConvolutionOperator):
    """The gradient of the images, class by class of places with the same remainders by the strides."""

    name = "conv_bwd_data"
    names = {"a": "dy", "b": "w", "c": "dx"}
    keys = (
        *KEYS,
        *(key for key in expression_keys(None) if key.name not in ("d_kind", "ldd")),
        Words("d_kind", None, "of each D tensor: as dx, one row, one number; by default full", KINDS, MOST),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        shapes = read_geometry(values)
        depthwise = self._depthwise(shapes, values)
        if depthwise is not None:
            return depthwise
        windows = None if shapes.is_pointwise else _residues(shapes)
        rows = windows.most_rows if windows else shapes.positions
        # K is what one place of the window has: how many places there are depends on the class.
        sizes = {"m": rows, "n": shapes.c, "k": shapes.k}
        single = read_problem({**values, **sizes, "layout": "RRR", **dict.fromkeys(("lda", "ldb", "ldc", "ldd"))})
        weights = shapes.k * shapes.places * shapes.c
        strides = {"a": shapes.k, "b": weights, "c": shapes.c, "full": shapes.c, "row": shapes.c}
        kinds = {"a": "a", "b": "b", **{one.name: one.kind for one in single.side}, "c": "c"}
        batches = tuple(
            (name, Batch((shapes.g,), (strides[kind],)) if kind in strides else Batch((1,), (0,)))
            for name, kind in kinds.items()
        )
        pitch = shapes.g * shapes.c
        side = tuple(replace(one, pitch=pitch) if one.kind == "full" else one for one in single.side)
        fields = {
            **asdict(single), "lda": shapes.g * shapes.k, "ldb": shapes.places * shapes.c, "ldc": pitch, "side": side,
            "windows": windows,
        }  # fmt: skip
        if shapes.g > 1:
            fields |= {"batch": (shapes.g,), "batches": batches}
        return self._checked(_with_parts_in_reach(ConvolutionProblem(**fields, geometry=shapes)))

    def _depthwise(self, shapes: Geometry, values: Mapping[str, Any]) -> ConvolutionProblem | None:
        """Of groups of single channels without strides a forward convolution of dy by turned weights, which vector
        arithmetic multiplies; None for others, and where the request says how products are made.
        """
        windows, pitch = shapes.depthwise_gradient, shapes.g
        if windows is None:
            return None
        sizes = {"m": shapes.n * prod(shapes.sliding.image), "n": 1, "k": shapes.places}
        single = read_problem({**values, **sizes, "layout": "RCR", **dict.fromkeys(("lda", "ldb", "ldc", "ldd"))})
        if not is_open(single):
            return None
        side = tuple(replace(one, pitch=pitch) if one.kind == "full" else one for one in single.side)
        fields = {
            **asdict(single), "n": pitch, "lda": pitch, "ldb": single.k, "ldc": pitch, "side": side, "windows": windows,
            "split_k": 1,
        }  # fmt: skip
        rows = min(single.m, LARGE)
        spans = {"a": rows, "b": MOST_COLUMNS, "c": rows, **{one.name: rows for one in side if one.kind == "full"}}
        return self._within_reach(ConvolutionProblem(**fields, geometry=shapes), spans)

    def _checked(self, problem: ConvolutionProblem) -> ConvolutionProblem:
        """The problem, if kernels count its strides, and what a workgroup spans is within the reach of 32 bits."""
        rows = min(problem.m, max(LARGE, (problem.block or (0,))[0]))
        spans = {"a": rows, "b": problem.k, "c": rows, **{one.name: rows for one in problem.side if one.kind == "full"}}
        windows = problem.windows
        if not isinstance(windows, Residues) or self.writes_nothing(problem):
            return self._within_reach(problem, spans)
        stride = max(windows.sliding.stride)
        if stride > LARGEST_STRIDE:
            raise RequestError(f"strides: {stride} is among them; kernels count strides up to {LARGEST_STRIDE}")
        blocks = ceil_div(windows.most_rows, LEAST_BLOCK) * ceil_div(problem.n, LEAST_BLOCK) * windows.classes
        for what, number in (("places in all images", windows.most_rows), ("workgroups, at most", blocks)):
            if number > MAXIMUM_SIZE:
                raise RequestError(f"{what}: {number}; kernels count to {MAXIMUM_SIZE}")
        lengths = zip(windows.sliding.image, windows.sliding.stride, strict=True)
        least = prod(max(length // one, 1) for length, one in lengths)
        images = min(rows // least + 2, windows.images)
        reach = {"a": windows.dy_image // problem.lda, "c": windows.dx_image // problem.ldc}
        wide = {name: images * reach["a" if name == "a" else "c"] for name in spans if name != "b"}
        return self._within_reach(replace(problem, windows=None), {**spans, **wide}) and problem

    def proposals(self, problem: Problem, target: Target) -> Iterator[ContractionSpec]:
        """Those of a product; classes differ in their rows, of which no block divides all."""
        if isinstance(problem.windows, Depthwise):
            yield from in_vectors(self, of_convolution(problem), problem.windows, target)
            return
        for spec in super().proposals(problem, target):
            if problem.windows is None:
                yield spec
            else:
                pad = "".join(letter for letter in "mnk" if letter == "m" or letter in spec.pad)
                yield replace(spec, walk="classes", pad=pad)

    def mismatches(self, problem: Problem, spec: ContractionSpec, target: Target) -> list[Reason]:
        if not isinstance(problem.windows, Residues):
            return super().mismatches(seen_by(spec, of_convolution(problem)), spec, target)
        reasons = list(unlike(spec, walk="classes"))
        if "m" not in spec.pad:
            reasons.append(Reason("pad", spec.pad, "no block divides the rows of all classes", "expected m among them"))
        return reasons + super().mismatches(problem, replace(spec, walk="grid"), target)

    def launch(self, problem: Problem, spec: ContractionSpec, target: Target) -> Launch:
        windows = problem.windows
        if not isinstance(windows, Residues) or self.writes_nothing(problem):
            return super().launch(seen_by(spec, of_convolution(problem)), spec, target)
        across = ceil_div(problem.n, spec.block[1])
        blocks = ceil_div(windows.most_rows, spec.block[0]) * across
        parts, own, lies = self._shared(problem, spec, target)
        strides = (stride for name in own.names for stride in own.batch_of(name).strides)
        integers = (own.n, blocks, reciprocal(blocks), *own.distances(), *own.batch[1:], *strides, *lies)
        numbers = (problem.alpha, problem.beta) if spec.op else ()
        names = [self._called(problem, name) for name in own.names]
        arguments = (*spec.in_order(names, map(i32, integers)), *map(real_type(problem), numbers))
        shape = (across, blocks // across, windows.classes, *reversed(problem.batch), *([parts] if lies else []))
        grid = (blocks * windows.classes, prod(problem.batch), parts)
        return Launch(grid, (spec.wave_count * WAVE_SIZE, 1, 1), arguments, shape)

    def axes(self, spec: ContractionSpec, target: Target) -> Mapping[str, Sequence[object]]:
        return depthwise_axes() if spec.is_depthwise else super().axes(spec, target)

    def steps(self, problem: Problem, spec: ContractionSpec, target: Target) -> tuple[Step, ...]:
        return super().steps(seen_by(spec, of_convolution(problem)), spec, target)

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Those of the product of matrices. Nothing is promised of what is not a finite number there: the kernel leaves
        out taps that an element has none of, where the product has zeros times what may be infinite.
        """
        ((name, found),) = super().tolerances(problem, arrays, reference, target).items()
        return {name: replace(found, unspecified=found.unspecified | ~np.isfinite(reference[name]))}

    def flops(self, problem: Problem) -> int:
        """Those of the convolution whose gradient it is."""
        shapes = self._shapes(problem)
        return 2 * shapes.positions * shapes.g * shapes.k * shapes.places * shapes.c

    def _flat(self, problem: ConvolutionProblem, arrays: Mapping[str, Array]) -> tuple[Problem, dict[str, Array]]:
        """For every place of an image all places of the window, of which those that do not meet it are zero."""
        shapes, flat = problem.shapes, problem.plain()
        m, k = shapes.n * prod(shapes.sliding.image), shapes.places * shapes.k
        side = tuple(replace(one, pitch=shapes.c if one.kind == "full" else 1) for one in flat.side)
        flat = replace(flat, m=m, n=shapes.c, k=k, layout="RRR", lda=k, ldb=shapes.c, ldc=shapes.c, side=side)
        alone = {f"{one.name}_batch": (1,) for one in flat.side if one.kind == "scalar"}
        flat = batched(flat, (shapes.g,), alone)
        met = shapes.sliding.met(arrays["dy"])
        # (n, image…, window…, g, k) and (g, k, window…, c), K being (window…, k)
        joined = {"a": np.moveaxis(met, -2, 0), "b": np.moveaxis(arrays["w"], 1, -2), **groups_first(problem, arrays)}
        return flat, as_shaped(flat, joined)

    def _shaped(self, problem: ConvolutionProblem, values: Array) -> Array:
        shapes = problem.shapes
        return np.moveaxis(values.reshape(shapes.g, shapes.n, *shapes.sliding.image, shapes.c), 0, -2)

    def _side_shape(self, problem: ConvolutionProblem, kind: str) -> tuple[int, ...]:
        shapes = problem.shapes
        return {"full": shapes.x, "row": (shapes.g, shapes.c), "scalar": (1,)}[kind]

    def kernels(self, target: Target) -> list[ContractionSpec]:
        requests: tuple[dict[str, object], ...] = (
            {"c": 64, "k": 256}, {"c": 256, "k": 64, "strides": (2,)}, {"c": 32, "k": 64, "g": 2},
            {"c": 64, "k": 64, "image": (56, 56)},
            {"c": 3, "k": 64, "window": (7, 7), "strides": (2,), "pads": (3,)}, {"c": 3, "k": 5},
            {"c": 256, "k": 64, "window": (1,), "pads": (0,)}, {"c": 64, "k": 128, "image": (8, 16, 16)},
            {"g": 128, "c": 1, "k": 1},
        )  # fmt: skip
        problems = [self.problem(**{"n": 32, **keys}, dtype=dtype) for keys in requests for dtype in ("f16", "bf16")]
        specs = dict.fromkeys(self.spec(problem, target) for problem in problems)
        return [spec for spec in specs if not self.validate(spec, target)]


def _with_parts_in_reach(problem: ConvolutionProblem) -> ConvolutionProblem:
    """The problem, whose sums are whole where those of a part would be beyond the reach of 32-bit offsets.

    Raises:
        RequestError: The request asks for such parts.
    """
    parted = problem.parted()
    reach = parted.part_outputs * find_dtype(parted.out).bytes
    if reach <= MAXIMUM_ARRAY_BYTES or problem.split_k == 1 or problem.reduction == "atomic":
        return problem
    if problem.split_k is not None:
        raise RequestError(
            f"split_k={problem.split_k}: a part's sums take {reach} bytes; kernels address at most "
            f"{MAXIMUM_ARRAY_BYTES}: expected split_k=1, or reduction=atomic"
        )
    return replace(problem, split_k=1)


def _residues(shapes: Geometry) -> Residues:
    """Where there is one position at most, it is met without strides."""
    sliding = shapes.sliding
    strides = tuple(
        stride if length > 1 else 1 for stride, length in zip(sliding.stride, sliding.positions, strict=True)
    )
    same = replace(sliding, stride=strides)
    return Residues(same, sliding.positions, shapes.n, shapes.k, shapes.g * shapes.k, shapes.c, shapes.g * shapes.c)


OPERATOR = ConvBwdData()
