"""argsort: the numbers of each row's elements in the order of their values.

    indices[i, r] = the place in row i of the element that comes r-th

Equal elements keep their order, also where the largest come first. NaN is larger than all numbers, -0 equals 0. A
row is sorted by a bitonic network in one workgroup, ties by place.

Arrays: x (m, n), indices (m, n) i32. Kernel arguments: these, then n, k, the stride of x, and the binary logarithm of n
rounded up (i32). Grid: the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.indexed.rows import WAVES, read_stride, some_values
from ckmlir.ops.operator import Launch, Operator
from ckmlir.ops.request import Choice, Integer, Pitch, RequestError
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Algorithm, Reason, Spec, not_a_choice
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

DTYPES = ("f32", "f16", "bf16", "i32")
ORDERS = ("ascending", "descending")
THREADS = WAVES * WAVE_SIZE
LONGEST = 4096
"""Elements of a row: 16 of each thread."""


class Problem(Struct, frozen=True):
    """m rows of n elements, of which the first k in order are wanted; the stride in elements from row to row."""

    m: int
    n: int
    k: int
    order: str
    dtype: str
    stride: int


class SortSpec(Spec):
    """What the kernel's code depends on.

    Attributes:
        each: elements of a thread, a power of two.
        values: whether elements are wanted besides their places.
    """

    dtype: str
    order: str
    each: Algorithm[int]
    values: bool

    @property
    def name(self) -> str:
        return "_".join(["topk" if self.values else "argsort", self.dtype, self.order, str(self.each * THREADS)])


class RowSort(Operator[Problem, SortSpec]):
    """What argsort and topk have in common."""

    values = False
    spec_type = SortSpec

    def read(self, values: Mapping[str, Any], k: int) -> Problem:
        """The problem of keys. Raises RequestError for rows that are too long."""
        if values["n"] > LONGEST:
            raise RequestError(f"n={values['n']}: expected at most {LONGEST}, which a workgroup holds")
        stride = read_stride(values, "stride")
        return Problem(values["m"], values["n"], k, values["order"], values["dtype"], stride)

    def spec(self, problem: Problem, target: Target) -> SortSpec:
        each = 1 << (max(ceil_div(problem.n, THREADS), 1) - 1).bit_length()
        return SortSpec(problem.dtype, problem.order, each, self.values)

    def validate(self, spec: SortSpec, target: Target) -> list[Reason]:
        return list(_invalid(spec))

    def kernels(self, target: Target) -> list[SortSpec]:
        requests: list[dict[str, object]] = [{"n": LONGEST}]
        requests += [{"dtype": dtype} for dtype in DTYPES]
        return [self.spec(self.problem(**request), target) for request in requests]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        shape = problem.m, problem.k
        return (
            array_spec("x", (problem.m, problem.n), problem.dtype, "in", problem.stride),
            *([array_spec("y", shape, problem.dtype, "out")] if self.values else ()),
            array_spec("indices", shape, "i32", "out"),
        )

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        """Some elements are equal."""
        found = some_values(problem.dtype, array.shape, generator)
        return np.where(generator.random(array.shape) < 0.3, np.round(found), found)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        x = arrays["x"].astype(np.int64 if problem.dtype == "i32" else np.float64)
        if problem.order == "ascending":
            order = np.argsort(x, axis=1, kind="stable")
        else:  # of the row read backwards, backwards: what is equal keeps its order
            order = problem.n - 1 - np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1]
        first = order[:, : problem.k]
        return {"y": np.take_along_axis(x, first, 1), "indices": first} if self.values else {"indices": first}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        return {name: Tolerance(0.0, 0.0, "nothing is computed") for name in reference}

    def launch(self, problem: Problem, spec: SortSpec, target: Target) -> Launch:
        names = [array.name for array in self.arrays(problem)]
        merges = max(problem.n - 1, 0).bit_length()
        scalars = map(i32, (problem.n, problem.k, problem.stride, merges))
        return Launch((problem.m if problem.k else 0, 1, 1), (THREADS, 1, 1), (*names, *scalars))


class Argsort(RowSort):
    """The operator `argsort`, which the module's docstring describes."""

    name = "argsort"
    keys = (
        Integer("m", 256, "rows"),
        Integer("n", 256, "elements of a row"),
        Choice("order", "ascending", "of values", ORDERS),
        Choice("dtype", "f32", "of x", DTYPES),
        Pitch("stride", None, "of the rows of x, in elements; by default n"),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        return self.read(values, values["n"])


def _invalid(spec: SortSpec) -> Iterator[Reason]:
    yield from not_a_choice(spec, dtype=DTYPES, order=ORDERS, each=(1, 2, 4, 8, 16))


OPERATOR = Argsort()
