"""mhc_coefficients: coefficients of hyper-connections from partial sums, the second step of `mhc`.

Parts of a row's sums are added in a fixed order, its norm is taken of the sum of squares behind them, and coefficients
are made of both as `ckmlir.ops.mhc.mixing` says.

Arrays: acc_parts (parts, m, 2 n + n² + 1) f32 in rows of whole vectors: sums, then the sum of `length` squares;
alpha (3) and bias (2 n + n²) f32 with form=paper; y (m, 2 n + n²) f32: pre, post, res.

Kernel arguments: the arrays; m, parts, elements from one part to the next, between rows of acc_parts and of y, length
(i32); eps (f32); iterations (i32) and sinkhorn_eps (f32), or alpha_pre, alpha_post, alpha_res and bias (f32). Grid: one
dimension, rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ALIGNMENT, ArraySpec, array_spec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.mhc import mixing as mixing_of
from ckmlir.ops.mhc.kinds import FORMS, MOST_STREAMS
from ckmlir.ops.mhc.mixing import KEYS, Mixing, RowPitch
from ckmlir.ops.operator import NOTHING, Launch, Operator
from ckmlir.ops.precision import UNIT, order_decides
from ckmlir.ops.request import MAXIMUM_SIZE, Integer, RequestError
from ckmlir.ops.scalars import ceil_div, f32, gcd, i32
from ckmlir.ops.spec import Algorithm, Reason, Spec, not_a_choice, unlike
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

F32 = find_dtype("f32")
VECTOR = ALIGNMENT // F32.bytes


class CoefficientsProblem(Struct, frozen=True):
    """Sums to make coefficients of.

    Attributes:
        length: squares that a row's sum has.
        pitch, part_stride, ystride: elements between rows of a part, between parts, and between rows of y.
    """

    parts: int
    m: int
    length: int
    mixing: Mixing
    pitch: int
    part_stride: int
    ystride: int


class CoefficientsSpec(Spec):
    """What the kernel depends on.

    Attributes:
        align: elements that divide the distance of rows of y (a power of two, at most 4).
    """

    streams: int
    form: str
    align: Algorithm[int]

    @property
    def name(self) -> str:
        return f"mhc_coefficients_{self.form}_{self.streams}_align{self.align}"

    @property
    def side(self) -> int:
        """Streams that a tile has, a power of two."""
        return 1 << (self.streams - 1).bit_length()

    @property
    def rows(self) -> int:
        """Of a workgroup, which is a wave: a lane has a row of the matrix `res` of one of them."""
        return WAVE_SIZE // self.side


class MhcCoefficients(Operator[CoefficientsProblem, CoefficientsSpec]):
    """The operator `mhc_coefficients`, which the module's docstring describes."""

    name = "mhc_coefficients"
    spec_type = CoefficientsSpec
    keys = (
        Integer("parts", 4, "that are added", minimum=1),
        Integer("m", 256, "rows"),
        Integer("streams", 4, "n", minimum=1, maximum=MOST_STREAMS),
        Integer("length", 4096, "squares that a row's sum has"),
        *KEYS,
        RowPitch("ystride", None, "elements from one row of y to the next", minimum=1),
    )

    def _problem(self, values: Mapping[str, Any]) -> CoefficientsProblem:
        mixing = Mixing.read(values)
        pitch = F32.whole_vectors(mixing.columns + 1)
        if values["m"] * pitch > MAXIMUM_SIZE:
            raise RequestError(
                f"m={values['m']}: a part has {values['m'] * pitch} sums; kernels count to {MAXIMUM_SIZE}"
            )
        distances = (pitch, values["m"] * pitch, row_stride(values, mixing))
        return CoefficientsProblem(values["parts"], values["m"], values["length"], mixing, *distances)

    def spec(self, problem: CoefficientsProblem, target: Target) -> CoefficientsSpec:
        return CoefficientsSpec(
            streams=problem.mixing.streams, form=problem.mixing.form, align=gcd(VECTOR, problem.ystride)
        )  # fmt: skip

    def mismatches(self, problem: CoefficientsProblem, spec: CoefficientsSpec, target: Target) -> list[Reason]:
        reasons = list(unlike(spec, streams=problem.mixing.streams, form=problem.mixing.form))
        if problem.ystride % spec.align:
            why = f"rows of y are {problem.ystride} elements apart"
            reasons.append(Reason("align", spec.align, why, "expected a number that divides them"))
        return reasons

    def validate(self, spec: CoefficientsSpec, target: Target) -> list[Reason]:
        return list(not_a_choice(spec, streams=range(1, MOST_STREAMS + 1), form=FORMS, align=(1, 2, 4)))

    def kernels(self, target: Target) -> list[CoefficientsSpec]:
        return [self.spec(self.problem(form=form, streams=n), target) for form in FORMS for n in (2, 4)]

    def arrays(self, problem: CoefficientsProblem) -> tuple[ArraySpec, ...]:
        columns, shape = problem.mixing.columns, (problem.parts, problem.m, problem.mixing.columns + 1)
        sums = ArraySpec("acc_parts", shape, "f32", "in", (problem.part_stride, problem.pitch, 1))
        return (
            sums,
            *number_arrays(problem.mixing),
            array_spec("y", (problem.m, columns), "f32", "out", problem.ystride),
        )

    def _values(self, problem: CoefficientsProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        values: Array = generator.standard_normal(array.shape, dtype=np.float32)
        if array.name != "acc_parts":
            return problem.mixing.values(array.name, values)
        values[..., -1] = (values[..., -1] ** 2 + 1) * problem.length / problem.parts
        return values

    def reference(self, problem: CoefficientsProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Of the sums in float64."""
        return {"y": mixing_of.coefficients(problem.mixing, *_summed(problem, arrays), arrays)}

    def tolerances(
        self,
        problem: CoefficientsProblem,
        arrays: Mapping[str, Array],
        reference: Mapping[str, Array],
        target: Target,
    ) -> dict[str, Tolerance]:
        """P parts take P - 1 additions in f32; then as `mixing.tolerance` says.

        Nothing is promised of sums of which a part passes f32's range, nor of rows whose sum of squares does.
        """
        sums, squares = _summed(problem, arrays)
        lost = order_decides(arrays["acc_parts"].astype(np.float64), 0)
        sizes = np.abs(arrays["acc_parts"][..., :-1].astype(np.float64)).sum(axis=0)
        relative = (problem.parts + 4) * UNIT
        off, unknown = problem.parts * UNIT * sizes, lost[:, :-1] | lost[:, -1:]
        return {"y": mixing_of.tolerance(problem.mixing, sums, off, squares, relative, arrays, unknown)}

    def launch(self, problem: CoefficientsProblem, spec: CoefficientsSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        mixing = problem.mixing
        names = [array.name for array in self.arrays(problem)]
        sizes = (problem.m, problem.parts, problem.part_stride, problem.pitch, problem.ystride, problem.length)
        own = (i32(mixing.iterations), f32(mixing.sinkhorn_eps)) if mixing.has_arrays else map(f32, mixing.numbers)
        grid = (ceil_div(problem.m, spec.rows), 1, 1)
        return Launch(grid, (WAVE_SIZE, 1, 1), (*names, *map(i32, sizes), f32(mixing.eps), *own))


def number_arrays(mixing: Mixing) -> tuple[ArraySpec, ...]:
    """The arrays alpha and bias, where there are such."""
    given = (("alpha", 3), ("bias", mixing.columns)) if mixing.has_arrays else ()
    return tuple(array_spec(name, (length,), "f32", "in") for name, length in given)


def row_stride(values: Mapping[str, Any], mixing: Mixing) -> int:
    """Elements from one row of y to the next. Raises RequestError for overlapping rows."""
    found: int | None = values["ystride"]
    if found is not None and found < mixing.columns:
        raise RequestError(f"ystride={found}: rows of y have {mixing.columns} elements; expected at least that")
    return mixing.columns if found is None else found


def _summed(problem: CoefficientsProblem, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
    """The sums of all parts, and the mean squares."""
    with np.errstate(invalid="ignore"):
        total: Array = arrays["acc_parts"].astype(np.float64).sum(axis=0)
    return total[:, :-1], total[:, -1] / max(problem.length, 1)


OPERATOR = MhcCoefficients()
