"""mhc: the coefficients that mix the streams of manifold-constrained hyper-connections, from rows of all streams.

A row x has n streams of c channels; phi makes a sum s of it for each of n + n + n² coefficients, and r is
sqrt(sum(x²) / (n c) + eps). What coefficients are made of both says `ckmlir.ops.mhc.mixing`.

Arrays: x (m, n c); phi (n c, 2 n + n²), with `layout=RCR` its transpose; alpha (3) and bias (2 n + n²) f32 with
form=paper; y (m, 2 n + n²) f32: pre, post, res row by row. The channels of a stream are neighbours.

The first kernel multiplies, and adds the squares of the rows that it has at hand, each workgroup a part of K; what a
part comes to lies in a workspace. `mhc_coefficients` adds the parts in a fixed order and makes coefficients.

Kernel arguments: x, phi; m, columns of a part's sums, n c; distances of rows of x, phi and the sums, length of a part,
elements from one part to the next (i32); the workspace. Grid: blocks row by row; 1; parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import asdict, replace

from ckmlir import records
from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.axes import padded
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.keys import PLAN_KEYS, SPLIT_KEYS, check_sizes, read_problem
from ckmlir.ops.contraction.operator import ContractionOperator
from ckmlir.ops.contraction.parts import part_length, parts_of
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.validity import SQUARED
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.mhc import mixing as mixing_of
from ckmlir.ops.mhc.kinds import MOST_STREAMS
from ckmlir.ops.mhc.mhc_coefficients import OPERATOR as COEFFICIENTS
from ckmlir.ops.mhc.mhc_coefficients import CoefficientsProblem, number_arrays, row_stride
from ckmlir.ops.mhc.mixing import KEYS, Mixing, RowPitch
from ckmlir.ops.operator import Launch, Run, Step
from ckmlir.ops.precision import UNIT, order_decides
from ckmlir.ops.request import Choice, Integer, RequestError
from ckmlir.ops.spec import Reason
from ckmlir.ops.steps import OWN_KERNEL
from ckmlir.targets import Target

NAMES = {"a": "x", "b": "phi"}
"""What the product's matrices are called."""
PARTIAL = "partial"
"""What becomes of sums (`ckmlir.ops.contraction.sinks_kernel`)."""
LEAST_DEPTH = 8
"""Squares of a row that lanes add side by side, at least: those along K of a matrix instruction."""
OWN_FIELDS = ("mixing", "ystride")


class MhcProblem(Problem, frozen=True):
    """The product, whose C has a column of sums of squares behind those of phi, and what is made of it."""

    mixing: Mixing | None = None
    ystride: int = 0

    @property
    def mixed(self) -> Mixing:
        """How coefficients are made."""
        assert self.mixing is not None
        return self.mixing

    @property
    def beside(self) -> int:
        """Columns of C behind those of phi, which fill its rows up to whole vectors."""
        return self.n - self.mixed.columns

    @property
    def b_shape(self) -> tuple[int, int]:
        return (self.k, self.mixed.columns) if self.layout[1] == "R" else (self.mixed.columns, self.k)

    @property
    def both_lengths(self) -> tuple[tuple[int, int, int], ...]:
        """Those of the product with C's columns, and with phi's."""
        return self.lengths, (self.m, self.mixed.columns, self.k)

    def plain(self) -> Problem:
        """The product alone."""
        fields = {name: value for name, value in asdict(self).items() if name not in OWN_FIELDS}
        return replace(Problem(**fields), n=self.mixed.columns, ldc=self.mixed.columns)


class Mhc(ContractionOperator):
    """The operator `mhc`, which the module's docstring describes."""

    name = "mhc"
    keys = (
        Integer("m", 256, "rows"),
        Integer("c", 1280, "channels of a stream"),
        Integer("streams", 4, "n", minimum=1, maximum=MOST_STREAMS),
        Choice("dtype", "bf16", "of x and phi", SQUARED),
        Choice("layout", "RCR", "of x, phi, y: RRR phi (n c, 2 n + n²), RCR its transpose", ("RCR", "RRR")),
        *KEYS,
        RowPitch("lda", None, "elements from one row of x to the next", minimum=1, lengths=("c", "streams")),
        RowPitch("ldb", None, "elements from one row of phi to the next", minimum=1, lengths=("c", "streams")),
        RowPitch("ystride", None, "elements from one row of y to the next", minimum=1),
        *PLAN_KEYS,
        SPLIT_KEYS[0],
    )

    def _problem(self, values: Mapping[str, Any]) -> MhcProblem:
        mixing = Mixing.read(values)
        sizes = {"n": mixing.columns, "k": values["streams"] * values["c"], "out": "f32", "ldc": None}
        _check_rows(values, mixing.columns)
        plain = read_problem({**values, **sizes})
        n = find_dtype("f32").whole_vectors(mixing.columns + 1)
        check_sizes(replace(plain, n=n, ldc=n, split_k=2))  # one part of sums goes through memory, too
        return MhcProblem(**{**asdict(plain), "n": n, "ldc": n}, mixing=mixing, ystride=row_stride(values, mixing))

    def lengths(self, problem: Problem) -> Sequence[tuple[int, int, int]]:
        return _own(problem).both_lengths

    def proposals(self, problem: Problem, target: Target) -> Iterator[ContractionSpec]:
        """Those of any product, which leave sums in a workspace, be it one part."""
        from ckmlir.ops.contraction.choosing import ways

        plans = dict.fromkeys(plan for plan, _ in ways(problem, target))
        return (self._with_squares(_own(problem), self.planned(problem, plan, PARTIAL, target)) for plan in plans)

    def _with_squares(self, problem: MhcProblem, spec: ContractionSpec) -> ContractionSpec:
        return records.replace(spec, beside=problem.beside, pad=padded(problem.both_lengths, spec.block))

    def mismatches(self, problem: Problem, spec: ContractionSpec, target: Target) -> list[Reason]:
        own = _own(problem)
        if spec.beside != own.beside or spec.sink != PARTIAL:
            return [Reason("beside", spec.beside, "the kernel has other columns", f"expected {own.beside}, in parts")]
        columns = own.mixed.columns
        if columns % spec.block[1] and "n" not in spec.pad:
            why = f"{columns} columns of phi are no multiple of the block's"
            return [Reason("pad", spec.pad, why, "expected n among the letters")]
        return super().mismatches(replace(own, split_k=None, reduction=None), spec, target)

    def chosen(self, problem: Problem, spec: ContractionSpec) -> dict[str, object]:
        return {name: value for name, value in super().chosen(problem, spec).items() if name != "reduction"}

    def kernels(self, target: Target) -> list[ContractionSpec]:
        problems = [
            self.problem(m=m, c=c, dtype=dtype, layout=layout)
            for dtype in SQUARED
            for layout in ("RCR", "RRR")
            for m, c in ((16, 1280), (1024, 1280), (8192, 4096))
        ]
        specs = dict.fromkeys(self.spec(problem, target) for problem in problems)
        return [spec for spec in specs if not self.validate(spec, target)]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        own = _own(problem)
        x, phi, _ = (replace(array, name=NAMES.get(array.name, array.name)) for array in own.arrays())
        y = array_spec("y", (own.m, own.mixed.columns), "f32", "out", own.ystride)
        return (x, phi, *number_arrays(own.mixed), y)

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        """Phi such that sums are about as large as norms."""
        own = _own(problem)
        values: Array = generator.standard_normal(array.shape, dtype=np.float32)
        if array.name == "phi":
            values /= np.sqrt(np.float32(max(own.k, 1)))
            return values
        return values if array.name == "x" else own.mixed.values(array.name, values)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Of sums in float64."""
        own = _own(problem)
        return {"y": mixing_of.coefficients(own.mixed, *_summed(own, arrays), arrays)}

    def expected(self, problem: Problem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        return self.reference(problem, arrays)

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Sums are as far off as those of any product. A lane adds at most one in `LEAST_DEPTH` squares of a row one
        after another, whichever part they are of; a few additions join lanes and parts. Then `mixing.tolerance`.

        Nothing is promised of rows whose squares pass f32's range.
        """
        own = _own(problem)
        if not own.m:
            return {"y": Tolerance(0.0, 0.0, "nothing to compare")}
        sums, squares = _summed(own, arrays)
        found = self._tolerance(own.plain(), {"a": arrays["x"], "b": arrays["phi"]}, sums, target)
        off = found.atol + found.rtol * np.abs(sums)
        steps = own.k // LEAST_DEPTH + 64
        with np.errstate(over="ignore"):
            beyond = order_decides(np.square(arrays["x"].astype(np.float64)), 1)[:, None]
        unknown = np.asarray(found.unspecified) | beyond
        return {"y": mixing_of.tolerance(own.mixed, sums, off, squares, steps * UNIT, arrays, unknown)}

    def _added(self, problem: Problem, target: Target) -> int:
        return 1

    def launch(self, problem: Problem, spec: ContractionSpec, target: Target) -> Launch:
        found = super().launch(problem, spec, target)
        return replace(
            found, arguments=tuple(NAMES.get(one, one) if isinstance(one, str) else one for one in found.arguments)
        )

    def steps(self, problem: Problem, spec: ContractionSpec, target: Target) -> tuple[Step, ...]:
        if self.writes_nothing(problem):
            return (OWN_KERNEL,)
        own, parted = _own(problem), problem.parted()
        parts = parts_of(problem, part_length(problem, spec, target))
        second = CoefficientsProblem(
            parts, own.m, own.k, own.mixed, parted.ldc, parted.part_outputs, own.ystride
        )  # fmt: skip
        return (OWN_KERNEL, Run(COEFFICIENTS, second, {}))


def _check_rows(values: Mapping[str, Any], columns: int) -> None:
    """Refuse matrices whose rows overlap, or that are too large, by the names that they have here. Raises
    RequestError.
    """
    k = values["streams"] * values["c"]
    shapes = {"a": (values["m"], k), "b": (k, columns) if values["layout"][1] == "R" else (columns, k)}
    for operand, name in NAMES.items():
        (_, row), key = shapes[operand], f"ld{operand}"
        if values[key] is not None and values[key] < row:
            raise RequestError(f"{key}={values[key]}: rows of array {name} have {row} elements; expected at least that")
        array_spec(name, shapes[operand], values["dtype"], "in", values[key])  # refuses what is too large


def _own(problem: Problem) -> MhcProblem:
    assert isinstance(problem, MhcProblem)
    return problem


def _summed(problem: MhcProblem, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
    """The sums, and the mean squares of rows."""
    x, phi = (arrays[name].astype(np.float64) for name in ("x", "phi"))
    with np.errstate(all="ignore"):
        sums: Array = x @ (phi if problem.layout[1] == "R" else phi.T)
        return sums, np.square(x).sum(axis=1) / max(problem.k, 1)


OPERATOR = Mhc()
