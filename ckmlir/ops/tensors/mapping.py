"""y[i] = f(a[i], b[i], …) over an index space of any rank, for arrays of any strides.

What element-wise operators and those that only move elements have in common: they say which arrays there are, how
those lie in the index space, and what the expression is. The index space is folded, cut into tiles, and one kernel does
the rest (`mapping_spec.py` says what it depends on, `mapping_kernel.py` what it does).

Kernel arguments: the inputs, the output; lengths and numbers of tiles of the folded dimensions, then the run-time
strides (i32). Grid: one dimension, tiles.
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import NOTHING, Launch, Operator
from ckmlir.ops.packing import pack_values
from ckmlir.ops.request import PowerOfTwo, RequestError
from ckmlir.ops.spec import Reason, not_a_choice, unlike
from ckmlir.ops.tensors.arrays import Operand
from ckmlir.ops.tensors.expression import check_integers, evaluate_exactly, parse
from ckmlir.ops.tensors.folding import Folded, fold
from ckmlir.ops.tensors.mapping_spec import COPIED_BYTES, MapSpec, is_integer, transposes_itself
from ckmlir.ops.tensors.rounding import expression_error, output_tolerance, saturated
from ckmlir.ops.tensors.tiling import (
    array_fields,
    check_tiles,
    choose_tile,
    invalid_tiles,
    launch_scalars,
    tile_counts,
    tile_fields,
    uncovered_tiles,
)  # fmt: skip
from ckmlir.ops.tensors.values import moved_values
from ckmlir.records import replace
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

if TYPE_CHECKING:
    from ckmlir.lang import Kernel

TRANSPOSED_BY_READS = 64
"""Side of a tile that LDS reads transpose."""
STAGING = ("none", "registers", "direct")
ALIGN = PowerOfTwo("align", 16, "bytes that divide the addresses of all arrays", minimum=1)
"""The key for misaligned arrays: kernels then access narrower vectors."""


class MapProblem(Struct, frozen=True, dict=True):
    """A mapping to compute.

    Attributes:
        lengths: of the index space.
        inputs, output: the arrays and how they lie in it.
        expression: over the inputs' names; integers where all arrays hold integers, else f32.
        align: bytes that divide all base addresses.
        staging: whether all inputs go through LDS (registers), straight into it (direct), or only those that must
            (none).
    """

    lengths: tuple[int, ...]
    inputs: tuple[Operand, ...]
    output: Operand
    expression: str
    align: int = 16
    staging: str = "none"

    @cached_property
    def folded(self) -> Folded:
        """The index space with the output's strides, then the inputs'."""
        return fold(self.lengths, [operand.index_strides for operand in (self.output, *self.inputs)])


def _reads_transpose(dtypes: Sequence[str], target: Target | None) -> bool:
    return target is not None and target.has("lds_transpose_read") and transposes_itself(dtypes)


def _output_last(folded: Folded) -> Folded:
    """With the arrays in the order of specifications."""
    return Folded(folded.lengths, (*folded.strides[1:], folded.strides[0]), folded.groups)


class MapOperator(Operator[MapProblem, MapSpec]):
    """An operator that is a mapping."""

    spec_type = MapSpec

    def check(self, problem: MapProblem) -> MapProblem:
        """The problem, if its expression fits its types and its tensors can be addressed."""
        arrays = (*problem.inputs, problem.output)
        self._check_packed(problem)
        if problem.expression and is_integer([array.dtype for array in arrays]):
            check_integers(parse(problem.expression, tuple(array.name for array in problem.inputs)))
        if problem.align & (problem.align - 1):
            raise RequestError(f"align={problem.align}: expected a power of two")
        for array in arrays:
            size = find_dtype(array.dtype).bytes
            if problem.align % size:
                raise RequestError(
                    f"align={problem.align}: elements of {array.name} have {size} bytes; expected a multiple"
                )
        names = [array.name for array in (problem.output, *problem.inputs)]
        check_tiles(problem.folded, self._tile(problem), names)
        return problem

    @staticmethod
    def _check_packed(problem: MapProblem) -> None:
        """Raise RequestError for packed elements that do not fill bytes, or rows of them that repeat."""
        for array in (*problem.inputs, problem.output):
            if find_dtype(array.dtype).packing is None:
                continue
            array.array("in")
            if any(step == 0 and length > 1 for step, length in zip(array.strides, array.shape, strict=True)):
                raise RequestError(
                    f"array {array.name}: rows of {array.dtype} do not repeat; expected strides above 0"
                )

    def _tile(self, problem: MapProblem, target: Target | None = None) -> tuple[int, ...]:
        dtypes = [array.dtype for array in (problem.output, *problem.inputs)]
        tile = choose_tile(problem.folded, dtypes, side=TRANSPOSED_BY_READS if _reads_transpose(dtypes, target) else 0)
        if problem.staging != "direct":
            return tile
        unit = max((dim for row in problem.folded.strides for dim, step in enumerate(row) if step == 1), default=-1)
        least = WAVE_SIZE * COPIED_BYTES // min(find_dtype(dtype).bytes for dtype in dtypes)
        extents = list(tile)
        extents[unit] *= max(least // prod(tile), 1)  # a wave copies whole rows of a tile, or a part of one
        return tuple(extents)

    def spec(self, problem: MapProblem, target: Target) -> MapSpec:
        arrays = (*problem.inputs, problem.output)
        dtypes = [array.dtype for array in arrays]
        folded, ordered = problem.folded, _output_last(problem.folded)
        spec = MapSpec(
            arrays=tuple(array.name for array in arrays),
            dtypes=tuple(dtypes),
            operator=self.name,
            expression=problem.expression,
            staging=problem.staging,
            **array_fields(ordered, dtypes, problem.align),
            **tile_fields(folded, self._tile(problem, target)),
        )
        if problem.staging == "direct":
            return replace(spec, waves=spec.copying_waves)
        return spec if _reads_transpose(dtypes, target) else replace(spec, waves=spec.transposing_waves)

    def mismatches(self, problem: MapProblem, spec: MapSpec, target: Target) -> list[Reason]:
        arrays = (*problem.inputs, problem.output)
        different = unlike(
            spec, arrays=tuple(array.name for array in arrays), dtypes=tuple(array.dtype for array in arrays),
            operator=self.name, expression=problem.expression, staging=problem.staging,
        )  # fmt: skip
        return list(different) or list(uncovered_tiles(spec, _output_last(problem.folded), problem.align))

    def validate(self, spec: MapSpec, target: Target) -> list[Reason]:
        reasons = [*invalid_tiles(spec, target), *not_a_choice(spec, operator=(self.name,), staging=STAGING)]
        return reasons or list(self._staged(spec))

    def _staged(self, spec: MapSpec) -> list[Reason]:
        if spec.staging == "direct":
            for name, dtype in zip(spec.arrays[:-1], spec.dtypes, strict=False):
                if spec.vector(name) * find_dtype(dtype).bytes < COPIED_BYTES or spec.unit(name) != spec.last:
                    why = f"array {name} has no aligned pieces of 4 bytes along rows of the output"
                    return [Reason("staging", spec.staging, why, "expected none or registers")]
        return []

    def kernels(self, target: Target) -> list[MapSpec]:
        found: dict[str, MapSpec] = {}
        for keys in self.examples():
            spec = self.spec(self.problem(**keys), target)
            if not self.validate(spec, target):
                found[spec.name] = spec
        return list(found.values())

    @abstractmethod
    def examples(self) -> Sequence[Mapping[str, object]]:
        """Keys of default problems, for `kernels`."""

    def build(self, spec: MapSpec, target: Target) -> Kernel:
        kernel: Kernel = importlib.import_module("ckmlir.ops.tensors.mapping_kernel").build(spec, target)
        return kernel

    def arrays(self, problem: MapProblem) -> tuple[ArraySpec, ...]:
        inputs = (operand.array("in", problem.align) for operand in problem.inputs)
        return (*inputs, problem.output.array("out", problem.align))

    def _values(self, problem: MapProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        return moved_values(array, generator)

    def _variables(self, problem: MapProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The inputs by the coordinates of the index space, in int32 (which wraps) or float64."""
        integer = is_integer([array.dtype for array in (*problem.inputs, problem.output)])
        number = np.int32 if integer else np.float64
        return {
            operand.name: operand.in_index_space(arrays[operand.name], problem.lengths).astype(number)
            for operand in problem.inputs
        }

    def reference(self, problem: MapProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The output in float64, or exactly for integers, before it is rounded or saturated."""
        variables = self._variables(problem, arrays)
        if not problem.expression:
            (value,) = variables.values()
        else:
            integer = is_integer([array.dtype for array in (*problem.inputs, problem.output)])
            parsed = parse(problem.expression, tuple(variables))
            value = np.asarray(evaluate_exactly(parsed, variables, integer=integer))
        value = np.broadcast_to(value, problem.lengths)
        return {problem.output.name: problem.output.from_index_space(value)}

    def expected(self, problem: MapProblem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        output = problem.output
        found = self.reference(problem, arrays)[output.name]
        if find_dtype(output.dtype).packing is not None:
            return {output.name: pack_values(found.astype(np.float32), output.dtype)}
        return {output.name: saturated(found, output.dtype, target) if problem.expression else found}

    def tolerances(
        self, problem: MapProblem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """None for elements that only move; else the bound of `rounding.py` for the expression."""
        output = problem.output
        if not problem.expression:
            return {output.name: Tolerance(0.0, 0.0, "elements move unchanged")}
        variables = self._variables(problem, arrays)
        if is_integer([operand.dtype for operand in (*problem.inputs, output)]):
            return {output.name: Tolerance(0.0, 0.0, "integers are exact")}
        error = expression_error(parse(problem.expression, tuple(variables)), variables)
        shaped = output.from_index_space(np.broadcast_to(error, problem.lengths))
        return {output.name: output_tolerance(shaped, output.dtype, f"{problem.expression} in f32", target)}

    def launch(self, problem: MapProblem, spec: MapSpec, target: Target) -> Launch:
        folded = problem.folded
        if self.writes_nothing(problem):
            return NOTHING
        names = [*(operand.name for operand in problem.inputs), problem.output.name]
        strides = dict(zip([problem.output.name, *(item.name for item in problem.inputs)], folded.strides, strict=True))
        counts = tile_counts(folded.lengths, spec.tile)
        scalars = launch_scalars(spec, folded.lengths, counts, strides)
        return Launch((prod(counts), 1, 1), (spec.waves * WAVE_SIZE, 1, 1), (*names, *scalars))
