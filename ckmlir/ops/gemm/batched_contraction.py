"""batched_contraction: E[G.., M.., N..] = sum over K.. of A[G.., M.., K..]·B[G.., N.., K..] (CK Tile's 41 and 53).

Up to four dimensions in each of G, M, N and K, at any strides: `a_strides` has one for every dimension of A in this
order, likewise `b_strides`, `c_strides` (of E) and `d0_strides` …; by default tensors are packed. D tensors have E's
shape. With `b_dtype` one of A and B is of fp8 and the other of bf8. What folds into one stride is folded on the host;
other dimensions are merged by the kernel's views.

Arrays: a (G.., M.., K..), b (G.., N.., K..), D tensors that op names and c, that is E, (G.., M.., N..).

Kernel arguments: a, b; m, n, k (products of the lengths); of M, N and K, where several dimensions are left, their
lengths; for every array its run-time strides of rows and columns; the batch's as in `batched_gemm` (i32); D tensors, c;
with an expression alpha and beta (f32). Grid: tiles of E row by row; places of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.arrays import MAXIMUM_ARRAY_BYTES, ArraySpec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.contraction_spec import MOST_DIMENSIONS, ContractionSpec
from ckmlir.ops.contraction.keys import PAIR_KEYS, PLAN_KEYS, batched, expression_keys, read_problem
from ckmlir.ops.contraction.merged import SIDES, merge
from ckmlir.ops.contraction.operator import ContractionOperator
from ckmlir.ops.contraction.problem import Batch, Problem
from ckmlir.ops.contraction.side import REQUESTED
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.list_keys import Numbers
from ckmlir.ops.request import MAXIMUM_SIZE, RequestError
from ckmlir.ops.tensors.arrays import checked_strides
from ckmlir.ops.tensors.values import moved_values
from ckmlir.targets import Target

GROUPS = {"g": "of the batch", "m": "of E that A has", "n": "of E that B has", "k": "of the sums"}
DEFAULTS = {"g": (2,), "m": (4, 64), "n": (4, 64), "k": (2, 64)}
ARRAYS = ("a", "b", *REQUESTED, "c")
RANK = 3 * MOST_DIMENSIONS


class BatchedContraction(ContractionOperator):
    """The operator `batched_contraction`, which the module's docstring describes."""

    name = "batched_contraction"
    keys = (
        *(Numbers(name, DEFAULTS[name], f"dimensions {what}", MOST_DIMENSIONS) for name, what in GROUPS.items()),
        *(key for key in PAIR_KEYS if key.name != "layout"),
        *(Numbers(f"{name}_strides", None, f"of array {name}'s dimensions, in elements", RANK) for name in ARRAYS),
        *PLAN_KEYS,
        *(key for key in expression_keys(None) if key.name not in ("d_kind", "ldd")),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        lengths = {group: values[group] for group in GROUPS}
        sizes = {group: prod(lengths[group]) for group in GROUPS}
        for group, size in sizes.items():
            if size > MAXIMUM_SIZE:
                raise RequestError(f"{group}={'x'.join(map(str, lengths[group]))}: kernels count to {MAXIMUM_SIZE}")
        flat = {**values, **{group: sizes[group] for group in "mnk"}, "layout": "RCR"}
        flat |= {**dict.fromkeys(("lda", "ldb", "ldc", "d_kind", "ldd")), "split_k": 1}
        single = read_problem(flat)
        names = ("a", "b", *(one.name for one in single.side), "c")
        for name in ARRAYS:
            if values[f"{name}_strides"] is not None and name not in names:
                raise RequestError(f"{name}_strides: op={single.op or 'acc'} has no D tensor {name}")
        return _merged(single, lengths, [self._array(single, name, lengths, values) for name in names])

    def _array(
        self, single: Problem, name: str, lengths: Mapping[str, tuple[int, ...]], values: Mapping[str, Any]
    ) -> ArraySpec:
        """A tensor as the user has it."""
        dtype = {array.name: array.dtype for array in single.arrays()}[name]
        groups = ["g", *SIDES.get(name, SIDES["c"])]
        shape = sum((lengths[group] for group in groups), ())
        strides = checked_strides(f"{name}_strides", shape, values[f"{name}_strides"])
        first = len(lengths["g"])
        inner = zip(shape[first:], strides[first:], strict=True)
        reach = (1 + sum((length - 1) * stride for length, stride in inner)) * find_dtype(dtype).bytes
        if 0 not in shape and reach > MAXIMUM_ARRAY_BYTES:
            raise RequestError(
                f"array {name}: the elements of one product span {reach} bytes; kernels address at most "
                f"{MAXIMUM_ARRAY_BYTES}"
            )
        return ArraySpec(name, shape, dtype, "out" if name == "c" else "in", strides)

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name not in problem.operands:
            return moved_values(array, generator)
        if problem.dtype == "i8":
            values: Array = generator.integers(-128, 128, array.shape, dtype=np.int16)
            return values
        values = generator.standard_normal(array.shape, dtype=np.float32)
        return values

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """That of the product of matrices that tensors are with their dimensions joined."""
        found = super().reference(*_flat(problem, arrays))["c"]
        return {"c": found.reshape(problem.arrays()[-1].shape)}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Those of the same product of matrices."""
        flat, joined = _flat(problem, arrays)
        shape = (*flat.batch, flat.m, flat.n)
        found = super().tolerances(flat, joined, {"c": reference["c"].reshape(shape)}, target)["c"]
        atol, free = (
            np.broadcast_to(value, shape).reshape(reference["c"].shape) for value in (found.atol, found.unspecified)
        )
        return {"c": Tolerance(found.rtol, atol, found.reason, free)}

    def kernels(self, target: Target) -> list[ContractionSpec]:
        requests: tuple[dict[str, object], ...] = (
            {"g": (8,), "m": (8, 64), "n": (4, 128), "k": (512,)},
            {"g": (2, 4), "m": (8, 64), "n": (8, 64), "k": (4, 128), "a_strides": _MOVED},
            {"g": (8,), "m": (8, 64), "n": (4, 128), "k": (512,), "op": "gelu(acc + d0) * d1"},
        )
        problems = [self.problem(dtype=dtype, **keys) for keys in requests for dtype in ("f16", "bf16")]
        specs = dict.fromkeys(self.spec(problem, target) for problem in problems)
        return [spec for spec in specs if not self.validate(spec, target)]


_MOVED = (1 << 20, 1 << 18, 128, 4096, 1024, 1)
"""Strides of a tensor (2, 4, 8, 64, 4, 128) that lies as (2, 4, 64, 4, 8, 128): no dimensions of A fold."""


def _merged(single: Problem, lengths: Mapping[str, tuple[int, ...]], arrays: list[ArraySpec]) -> Problem:
    """The product of matrices that tensors are seen as."""
    strides: dict[str, dict[str, tuple[int, ...]]] = {}
    for array in arrays:
        # Of an array without elements strides say nothing: packed ones fold, as far as kernels take them.
        found, known = array.strides, [max(length, 1) for length in array.shape]
        if 0 in array.shape:
            found = checked_strides(f"{array.name}_strides", known, None)
        own, steps = {}, iter(found)
        for group in ("g", *SIDES.get(array.name, SIDES["c"])):
            own[group] = tuple(next(steps) for _ in lengths[group])
        strides[array.name] = own
    merged, batch, order = merge(lengths, strides, arrays)
    batches = tuple((name, Batch(batch.lengths, row)) for name, row in zip(order, batch.strides, strict=True))
    units = {name: (merged.unit(name) or (1, 0))[0] for name in ("a", "b")}
    layout = f"{'CR'[units['a']]}{'RC'[units['b']]}R"
    return replace(single, layout=layout, batch=batch.lengths, batches=batches, merged=merged)


def _flat(problem: Problem, arrays: Mapping[str, Array]) -> tuple[Problem, dict[str, Array]]:
    """The product of packed matrices that a contraction is, and its arrays."""
    flat = replace(
        problem, layout="RCR", merged=None, lda=problem.k, ldb=problem.k, ldc=problem.n,
        side=tuple(replace(one, pitch=problem.n) for one in problem.side), batch=(), batches=(),
    )  # fmt: skip
    flat = batched(flat, (prod(problem.batch),), {})
    shapes = {array.name: array.shape for array in flat.arrays()}
    return flat, {name: np.reshape(values, shapes[name]) for name, values in arrays.items() if name in shapes}


OPERATOR = BatchedContraction()
