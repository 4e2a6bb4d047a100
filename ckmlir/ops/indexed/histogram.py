"""histogram: how often each number from 0 to bins - 1 occurs in a vector, or in each of its parts.

    counts[p, b] = how many x[i] are b, for i from p · part up to (p + 1) · part

Numbers outside of the bins count nowhere. Without `part` there is one: the whole vector.

Arrays: x (n) i32, counts (parts, bins) i32. Kernel arguments: x, counts, n, part (i32). Grid: the parts. A workgroup
counts in LDS, a piece at a time, and adds up pieces in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.operator import Launch, Operator
from ckmlir.ops.request import MAXIMUM_SIZE, Integer, RequestError
from ckmlir.ops.scalars import ceil_div, gcd, i32
from ckmlir.ops.spec import Algorithm, Reason, Spec
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

WAVES = 4
EACH = 4
"""Elements of a thread at a time, where a part has more than one for each."""
MOST_BINS = 4096
"""A quarter of the smallest LDS, and 16 registers of each of 256 threads."""


class Problem(Struct, frozen=True):
    """n numbers in parts of `part`; None: one part."""

    n: int
    part: int | None
    bins: int

    @property
    def parts(self) -> int:
        """Histograms."""
        return 1 if self.part is None else ceil_div(self.n, self.part)

    @property
    def length(self) -> int:
        """Elements of a part."""
        return max(self.n, 1) if self.part is None else self.part


class HistogramSpec(Spec):
    """What the kernel's code depends on.

    Attributes:
        each: elements of a thread at a time.
        align: what is known to divide the length of a part.
    """

    bins: int
    each: Algorithm[int]
    align: Algorithm[int]

    @property
    def name(self) -> str:
        return f"histogram_{self.bins}_each{self.each}_align{self.align}"


class Histogram(Operator[Problem, HistogramSpec]):
    """The operator `histogram`, which the module's docstring describes."""

    name = "histogram"
    spec_type = HistogramSpec
    keys = (
        Integer("n", 4096, "elements of x"),
        Integer("part", None, "elements of each part; by default x is one", minimum=1),
        Integer("bins", 256, "numbers that are counted", minimum=1),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        problem = Problem(values["n"], values["part"], values["bins"])
        if problem.bins > MOST_BINS:
            raise RequestError(f"bins={problem.bins}: expected at most {MOST_BINS}, which a workgroup holds in LDS")
        self.arrays(problem)  # refuses what is too large
        return problem

    def spec(self, problem: Problem, target: Target) -> HistogramSpec:
        each = EACH if problem.length > WAVES * WAVE_SIZE else 1
        whole = problem.parts <= 1 and problem.length <= MAXIMUM_SIZE - each  # its length is rounded up, see launch
        return HistogramSpec(problem.bins, each, each if whole else gcd(each, problem.length))

    def validate(self, spec: HistogramSpec, target: Target) -> list[Reason]:
        return list(_invalid(spec))

    def kernels(self, target: Target) -> list[HistogramSpec]:
        requests: list[dict[str, object]] = [{}, {"part": 256}, {"part": 1000}, {"bins": 64}]
        return [self.spec(self.problem(**request), target) for request in requests]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return (
            array_spec("x", (problem.n,), "i32", "in"),
            array_spec("counts", (problem.parts, problem.bins), "i32", "out"),
        )

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        return generator.integers(-2, problem.bins + 2, array.shape)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        x, counts = arrays["x"], np.zeros((problem.parts, problem.bins), np.int64)
        places = np.flatnonzero((x >= 0) & (x < problem.bins))
        np.add.at(counts, (places // problem.length, x[places]), 1)
        return {"counts": counts}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        return {"counts": Tolerance(0.0, 0.0, "integers are exact")}

    def launch(self, problem: Problem, spec: HistogramSpec, target: Target) -> Launch:
        length = ceil_div(problem.length, spec.align) * spec.align  # of the only part: it ends with x
        scalars = i32(problem.n), i32(length)
        return Launch((problem.parts, 1, 1), (WAVES * WAVE_SIZE, 1, 1), ("x", "counts", *scalars))


def _invalid(spec: HistogramSpec) -> Iterator[Reason]:
    if not 1 <= spec.bins <= MOST_BINS:
        yield Reason("bins", spec.bins, "a workgroup holds them in LDS", f"expected 1 to {MOST_BINS}")
    if spec.each not in (1, EACH):
        yield Reason("each", spec.each, "threads take one element or a vector", f"expected 1 or {EACH}")
    if spec.align < 1 or spec.each % max(spec.align, 1):
        yield Reason("align", spec.align, "accesses are no longer than a thread's part", "expected a divisor of each")


OPERATOR = Histogram()
