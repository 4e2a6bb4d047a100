"""nonzero: the columns of each row of a matrix whose elements are not zero, in order, and how many there are.

Arrays: x (m, n), y (m, n) i32, counts (m) i32. Behind a row's count y has -1. -0 is zero, NaN is not.
Kernel arguments: these, then n and the stride of x (i32). Grid: rows, each of one wave that walks along it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.indexed.rows import DTYPES, read_stride
from ckmlir.ops.operator import NOTHING, Launch, Operator
from ckmlir.ops.request import Choice, Integer, Pitch
from ckmlir.ops.scalars import gcd, i32
from ckmlir.ops.spec import Algorithm, Reason, Spec, not_a_choice
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

VECTOR = 4
"""Elements of a lane at a time."""


class Problem(Struct, frozen=True):
    """A matrix whose rows lie `stride` elements apart."""

    m: int
    n: int
    dtype: str
    stride: int


class NonzeroSpec(Spec):
    """What the kernel's code depends on; `align`: what divides the columns and the stride, in elements."""

    dtype: str
    align: Algorithm[int]

    @property
    def name(self) -> str:
        return f"nonzero_{self.dtype}_align{self.align}"


class Nonzero(Operator[Problem, NonzeroSpec]):
    """The operator `nonzero`, which the module's docstring describes."""

    name = "nonzero"
    spec_type = NonzeroSpec
    keys = (
        Integer("m", 256, "rows"),
        Integer("n", 1024, "columns"),
        Choice("dtype", "i8", "of x", DTYPES),
        Pitch("stride", None, "of the rows of x, in elements; by default n"),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        return Problem(values["m"], values["n"], values["dtype"], read_stride(values, "stride"))

    def spec(self, problem: Problem, target: Target) -> NonzeroSpec:
        return NonzeroSpec(problem.dtype, gcd(VECTOR, problem.n, problem.stride))

    def validate(self, spec: NonzeroSpec, target: Target) -> list[Reason]:
        return list(_invalid(spec))

    def kernels(self, target: Target) -> list[NonzeroSpec]:
        return [self.spec(self.problem(dtype=dtype, n=n), target) for dtype in DTYPES for n in (1024, 1001)]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return (
            array_spec("x", (problem.m, problem.n), problem.dtype, "in", problem.stride),
            array_spec("y", (problem.m, problem.n), "i32", "out"),
            array_spec("counts", (problem.m,), "i32", "out"),
        )

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        """Half of them zeros; rows of zeros, and without any."""
        share = generator.choice([0.0, 0.5, 0.5, 1.0], (problem.m, 1))
        return np.where(generator.random(array.shape) < share, 0, generator.choice([-3, 1, 100], array.shape))

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        set_ = arrays["x"] != 0
        counts = set_.sum(axis=1, dtype=np.int64)
        order = np.argsort(~set_, axis=1, kind="stable")
        return {"y": np.where(np.arange(problem.n) < counts[:, None], order, -1), "counts": counts}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        return dict.fromkeys(reference, Tolerance(0.0, 0.0, "integers are exact"))

    def launch(self, problem: Problem, spec: NonzeroSpec, target: Target) -> Launch:
        if not problem.m:
            return NOTHING
        arguments = ("x", "y", "counts", i32(problem.n), i32(problem.stride))
        return Launch((problem.m, 1, 1), (WAVE_SIZE, 1, 1), arguments)


def _invalid(spec: NonzeroSpec) -> Iterator[Reason]:
    yield from not_a_choice(spec, dtype=DTYPES, align=(1, 2, VECTOR))


OPERATOR = Nonzero()
