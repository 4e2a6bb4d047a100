"""conv_fwd: y[n, o…, g, k] = sum over f… and c of x[n, o * strides + f * dilations - pads, g, c] · w[g, k, f…, c].

Convolution of 1-D, 2-D and 3-D images, channels last, in groups, as implicit GEMM (CK Tile's example 20): a row for
each image and position of the window, a column for each channel of y, sums over places in the window and channels of x.
Outside of an image there are zeros. Images are padded differently on both sides by `right_pads`.

Arrays: x (n, image…, g, c), w (g, k, window…, c), D tensors that op names, y (n, positions…, g, k), all packed; with
channels=first x (n, g, c, image…), w (g, k, c, window…) and y (n, g, k, positions…), turned by steps of their own. A D
tensor is as y (`d_kind` full: a residual), a number for each channel (row, (g, k): a bias), for each position (column,
(n, positions…)), or for all (scalar). With `b_dtype` one of x and w is of fp8 and the other of bf8.

Windows of one place without padding and strides make plain matrices of the images, and the kernel is `gemm`'s. Groups
of up to 8 channels that become 1, 2, 4 or 8 are summed by vector arithmetic, many groups at once
(`ckmlir.ops.contraction.depthwise`), unless the request names a part of the plan, such as mfma or split_k. Odd numbers
of channels are filled up first where that saves time by an estimate, others that eight does not divide where many
columns are computed of them (`ckmlir.ops.convolution.filled`).

Kernel arguments: x, w; m, n, k; the numbers of `WindowsSpec.arguments` or `DepthwiseSpec.arguments`, or pitches; those
of y and D tensors; the batch's as in `batched_gemm` where there are several groups (i32); D tensors, y; then as in
`gemm`. Grid: tiles of rows and channels; groups; parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from msgspec.structs import asdict

from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.block_sizes import LARGE
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.depthwise import Depthwise
from ckmlir.ops.contraction.depthwise_plans import MOST_COLUMNS, depthwise_axes
from ckmlir.ops.contraction.keys import batched, expression_keys, read_problem
from ckmlir.ops.contraction.problem import Batch, Problem
from ckmlir.ops.convolution.filled import Filled
from ckmlir.ops.convolution.geometry import KEYS, Geometry, read_geometry
from ckmlir.ops.convolution.operator import ConvolutionOperator, ConvolutionProblem, as_shaped, groups_first
from ckmlir.ops.convolution.vectors import in_vectors, is_open, seen_by
from ckmlir.ops.operator import Launch, Run, Step
from ckmlir.ops.spec import Reason
from ckmlir.ops.steps import Workspace
from ckmlir.records import replace
from ckmlir.targets import Target


class ConvFwd(ConvolutionOperator):
    """Forward convolution as an implicit product of matrices."""

    name = "conv_fwd"
    names = {"a": "x", "b": "w", "c": "y"}
    keys = (*KEYS, *(key for key in expression_keys(None) if key.name != "ldd"))

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        shapes = read_geometry(values)
        single = read_problem({**values, **_sizes(shapes), "layout": "RCR", **_PITCHES, "ldd": None})
        depthwise = shapes.depthwise if is_open(single) else None
        k, rows = single.k, min(single.m, max(LARGE, (single.block or (0,))[0]))
        side = tuple(replace(one, pitch=shapes.g * shapes.k) if one.kind == "full" else one for one in single.side)
        fields = {
            **asdict(single), "lda": shapes.g * shapes.c, "ldb": k, "ldc": shapes.g * shapes.k, "side": side,
            "windows": depthwise or shapes.windows("forward"),
        }  # fmt: skip
        spans = {"a": rows, "b": single.n, "c": rows, **{one.name: rows for one in side if one.kind == "full"}}
        if depthwise is not None:
            fields |= {"n": shapes.g * shapes.k, "split_k": 1}
            spans["b"] = min(shapes.g * shapes.k, MOST_COLUMNS)
        elif shapes.g > 1:
            fields |= {"batch": (shapes.g,), "batches": _batches(shapes, single)}
        problem = self._within_reach(ConvolutionProblem(**fields, geometry=shapes), spans)
        filled = Filled.of(shapes, (problem.held[0].name, problem.held[1].name))
        if filled is None:
            return problem
        length = prod(shapes.sliding.window[:-1]) * filled.row
        multiplied = replace(
            problem, k=length, lda=filled.place, ldb=length, windows=filled.windows, filled=filled
        )  # fmt: skip
        return replace(problem, multiplied=multiplied)

    def proposals(self, problem: Problem, target: Target) -> Iterator[ContractionSpec]:
        problem = _multiplied(problem)
        if not isinstance(problem.windows, Depthwise):
            yield from super().proposals(problem, target)
            return
        yield from in_vectors(self, problem, problem.windows, target)

    def others(self, problem: Problem, target: Target) -> Iterator[ContractionSpec]:
        return super().others(_multiplied(problem), target)

    def axes(self, spec: ContractionSpec, target: Target) -> Mapping[str, Sequence[object]]:
        return depthwise_axes() if spec.is_depthwise else super().axes(spec, target)

    def lengths(self, problem: Problem) -> Sequence[tuple[int, int, int]]:
        return super().lengths(_multiplied(problem))

    def mismatches(self, problem: Problem, spec: ContractionSpec, target: Target) -> list[Reason]:
        return super().mismatches(seen_by(spec, _multiplied(problem)), spec, target)

    def launch(self, problem: Problem, spec: ContractionSpec, target: Target) -> Launch:
        return super().launch(seen_by(spec, _multiplied(problem)), spec, target)

    def steps(self, problem: Problem, spec: ContractionSpec, target: Target) -> tuple[Step, ...]:
        return super().steps(seen_by(spec, _multiplied(problem)), spec, target)

    def workspaces(self, problem: Problem, spec: ContractionSpec, target: Target) -> tuple[Workspace, ...]:
        """Those of any convolution, and filled arrays."""
        own = _multiplied(problem)
        found = super().workspaces(own, spec, target)
        if own.filled is None or self.writes_nothing(own):
            return found
        return (*found, *own.filled.workspaces(self._filled_names(own)))

    def _most_parts(self, problem: Problem, target: Target) -> int:
        return super()._most_parts(_multiplied(problem), target)

    def _called(self, problem: Problem, name: str) -> str:
        return self._filled_names(problem).get(self.names.get(name, name)) or super()._called(problem, name)

    def _filling(self, problem: Problem) -> tuple[Run, ...]:
        filled, names = _multiplied(problem).filled, self._filled_names(problem)
        if filled is None:
            return ()
        return filled.steps({name: super(ConvFwd, self)._called(problem, name) for name in names}, names)

    @staticmethod
    def _filled_names(problem: Problem) -> dict[str, str]:
        """What a launch knows arrays by that are filled."""
        return {name: f"{name}_filled" for name in "xw"} if _multiplied(problem).filled else {}

    def _flat(self, problem: ConvolutionProblem, arrays: Mapping[str, Array]) -> tuple[Problem, dict[str, Array]]:
        shapes, flat = problem.shapes, replace(problem.plain(), n=problem.shapes.k)
        side = tuple(replace(one, pitch=flat.n if one.kind == "full" else 1) for one in flat.side)
        flat = replace(flat, lda=flat.k, ldb=flat.k, ldc=flat.n, side=side)
        alone = {f"{one.name}_batch": (1,) for one in flat.side if one.kind in ("column", "scalar")}
        flat = batched(flat, (shapes.g,), alone)
        found, _ = shapes.sliding.patches(arrays["x"])
        joined = {"a": np.moveaxis(found, -2, 0), "b": arrays["w"], **groups_first(problem, arrays)}
        return flat, as_shaped(flat, joined)

    def _shaped(self, problem: ConvolutionProblem, values: Array) -> Array:
        shapes = problem.shapes
        apart = values.reshape(shapes.g, shapes.n, *shapes.sliding.positions, shapes.k)
        return np.moveaxis(apart, 0, -2)

    def _side_shape(self, problem: ConvolutionProblem, kind: str) -> tuple[int, ...]:
        shapes = problem.shapes
        return {"full": shapes.y, "row": (shapes.g, shapes.k), "column": shapes.y[:-2], "scalar": (1,)}[kind]

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Those of the product of matrices. Depthwise nothing is promised of what is not a finite number there where
        the channel's weights are none: the kernel may leave out taps outside of the image, where the product has zeros
        times what may be infinite.
        """
        found = super().tolerances(problem, arrays, reference, target)
        shapes = self._shapes(problem)
        if not isinstance(problem.windows, Depthwise):
            return found
        finite = np.isfinite(arrays["w"].astype(np.float32)).reshape(shapes.g, shapes.k, -1).all(axis=-1)
        first = self._first(problem)
        spoilt = np.broadcast_to(~finite, shapes.y)
        spoilt = first["y"].to_first(spoilt) if first else spoilt
        one = found["y"]
        return {"y": replace(one, unspecified=one.unspecified | (spoilt & ~np.isfinite(reference["y"])))}

    def kernels(self, target: Target) -> list[ContractionSpec]:
        requests: tuple[dict[str, object], ...] = (
            {"c": 64, "k": 256}, {"c": 64, "k": 256, "op": "relu(acc + d0)", "d_kind": "row"},
            {"c": 32, "k": 64, "g": 2}, {"c": 64, "k": 64, "image": (56, 56)},
            {"c": 3, "k": 64, "window": (7, 7), "strides": (2,), "pads": (3,)},
            {"c": 3, "k": 64, "window": (7, 7), "strides": (2,), "pads": (3,), "image": (224, 224)},
            {"c": 256, "k": 64, "window": (1,), "pads": (0,)},
            {"c": 64, "k": 128, "image": (8, 16, 16), "window": (3,)}, {"g": 128, "c": 1, "k": 1},
            {"g": 128, "c": 1, "k": 1, "image": (29, 29)},  # no strips
        )  # fmt: skip
        problems = [self.problem(**{"n": 32, **keys}, dtype=dtype) for keys in requests for dtype in ("f16", "bf16")]
        specs = dict.fromkeys(self.spec(problem, target) for problem in problems)
        return [spec for spec in specs if not self.validate(spec, target)]


def _multiplied(problem: Problem) -> ConvolutionProblem:
    """The product that the kernel makes."""
    assert isinstance(problem, ConvolutionProblem)
    return problem.multiplied or problem


def _batches(shapes: Geometry, single: Problem) -> tuple[tuple[str, Batch], ...]:
    """How arrays lie in groups."""
    strides = {"a": shapes.c, "b": shapes.k * single.k, "c": shapes.k, "full": shapes.k, "row": shapes.k}
    kinds = {"a": "a", "b": "b", "c": "c", **{one.name: one.kind for one in single.side}}
    return tuple(
        (name, Batch((shapes.g,), (strides[kind],)) if kind in strides else Batch((1,), (0,)))
        for name, kind in kinds.items()
    )


_PITCHES = dict.fromkeys(("lda", "ldb", "ldc"))


def _sizes(shapes: Geometry) -> dict[str, int]:
    """Of the product of matrices."""
    return {"m": shapes.positions, "n": shapes.k, "k": prod(shapes.sliding.window) * shapes.c}


OPERATOR = ConvFwd()
