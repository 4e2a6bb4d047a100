"""Streams of rows, mixed by coefficients of hyper-connections: what `mhc_input` and `mhc_post` have in common.

Kernel arguments: x, coefficients, f where there is one, y; m, c, tiles of a row, distances of rows of each array (i32).
Grid: one dimension, tiles of c, those of a row next to each other.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec, alignment, array_spec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.mhc.kinds import MOST_STREAMS, coefficients_of
from ckmlir.ops.mhc.mixing import RowPitch
from ckmlir.ops.operator import NOTHING, Launch, Operator
from ckmlir.ops.precision import DENORMAL, UNIT, order_decides
from ckmlir.ops.request import MAXIMUM_SIZE, Choice, Integer, RequestError
from ckmlir.ops.rows.arrays import FLOATS
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Algorithm, Reason, Spec, not_a_choice, unlike
from ckmlir.ops.tensors.rounding import output_tolerance
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

if TYPE_CHECKING:
    from ckmlir.lang import Kernel

WAVES = (4, 2, 1)
"""Of a workgroup, the best first."""
KEYS = (
    Integer("m", 256, "rows"),
    Integer("c", 1280, "channels of a stream"),
    Integer("streams", 4, "n", minimum=1, maximum=MOST_STREAMS),
    Choice("dtype", "bf16", "of x and y, which are mixed in f32", FLOATS),
    RowPitch("stride", None, "elements from one row of x to the next", minimum=1, lengths=("c", "streams")),
    RowPitch("coefficients_stride", None, "elements from one row of coefficients to the next", minimum=1),
)


class StreamsProblem(Struct, frozen=True):
    """Rows of n streams of c channels; strides in elements from row to row, that of f None where there is none."""

    m: int
    c: int
    streams: int
    dtype: str
    stride: int
    coefficients_stride: int
    fstride: int | None
    ystride: int

    @property
    def strides(self) -> tuple[int, ...]:
        """Of the arrays, in the order of the kernel's arguments."""
        of_f = () if self.fstride is None else (self.fstride,)
        return (self.stride, self.coefficients_stride, *of_f, self.ystride)

    @property
    def align(self) -> int:
        """Elements that divide channels, and distances of their rows."""
        of_f = () if self.fstride is None else (self.fstride,)
        return alignment(find_dtype(self.dtype).bytes, self.c, self.stride, self.ystride, *of_f)


class StreamsSpec(Spec):
    """What the kernel depends on.

    Attributes:
        operator: for the name.
        mixes: whether all streams are made of all, and f; else one is, for the layer.
        align: elements that divide channels, and distances of their rows, up to 16 bytes.
    """

    operator: str
    dtype: str
    streams: int
    mixes: bool
    align: Algorithm[int]
    waves: Algorithm[int]

    @property
    def name(self) -> str:
        return f"{self.operator}_{self.dtype}_{self.streams}_align{self.align}_waves{self.waves}"

    @property
    def columns(self) -> int:
        """Channels of a tile: a vector of each lane."""
        return self.waves * WAVE_SIZE * self.align

    @property
    def arrays(self) -> tuple[str, ...]:
        """In the order of the kernel's arguments."""
        return ("x", "coefficients", "f", "y") if self.mixes else ("x", "coefficients", "y")


class StreamsOperator(Operator[StreamsProblem, StreamsSpec]):
    """An operator that mixes streams."""

    spec_type = StreamsSpec
    mixes: ClassVar[bool]

    def _problem(self, values: Mapping[str, Any]) -> StreamsProblem:
        whole = values["streams"] * values["c"]
        lengths = {
            "stride": whole, "coefficients_stride": coefficients_of(values["streams"]),
            "fstride": values["c"], "ystride": whole if self.mixes else values["c"],
        }  # fmt: skip
        if not self.mixes:
            del lengths["fstride"]
        if whole > MAXIMUM_SIZE:
            raise RequestError(f"c={values['c']}: a row has {whole} elements; kernels count to {MAXIMUM_SIZE}")
        strides: dict[str, Any] = {"fstride": None}
        for name, least in lengths.items():
            given = values[name]
            if given is not None and given < least:
                raise RequestError(f"{name}={given}: a row has {least} elements; expected at least that")
            strides[name] = max(least, 1) if given is None else given
        problem = StreamsProblem(values["m"], values["c"], values["streams"], values["dtype"], **strides)
        self.arrays(problem)  # refuses what is too large
        if problem.m * ceil_div(problem.c, WAVE_SIZE * problem.align) > MAXIMUM_SIZE:
            raise RequestError(f"m={problem.m}: a launch has at most {MAXIMUM_SIZE} tiles of rows; expected fewer")
        return problem

    def spec(self, problem: StreamsProblem, target: Target) -> StreamsSpec:
        """As many waves as leave the fewest lanes without channels."""
        align = problem.align

        def wasted(waves: int) -> int:
            return -problem.c % (waves * WAVE_SIZE * align)

        return StreamsSpec(
            operator=self.name, dtype=problem.dtype, streams=problem.streams, mixes=self.mixes, align=align,
            waves=min(WAVES, key=wasted),
        )  # fmt: skip

    def mismatches(self, problem: StreamsProblem, spec: StreamsSpec, target: Target) -> list[Reason]:
        reasons = list(unlike(spec, operator=self.name, dtype=problem.dtype, streams=problem.streams, mixes=self.mixes))
        if problem.align % spec.align:
            why = f"rows are aligned to {problem.align} elements"
            reasons.append(Reason("align", spec.align, why, f"expected at most {problem.align}"))
        return reasons

    def validate(self, spec: StreamsSpec, target: Target) -> list[Reason]:
        return self._wrong(spec) or self._too_wide(spec)

    def _wrong(self, spec: StreamsSpec) -> list[Reason]:
        streams = range(1, MOST_STREAMS + 1)
        choices = not_a_choice(
            spec, operator=(self.name,), mixes=(self.mixes,), dtype=FLOATS, streams=streams, waves=WAVES
        )
        return list(choices)

    def _too_wide(self, spec: StreamsSpec) -> list[Reason]:
        most = find_dtype(spec.dtype).widest
        if spec.align > 0 and most % spec.align == 0:
            return []
        return [Reason("align", spec.align, "accesses are vectors of up to 16 bytes", f"expected a divisor of {most}")]

    def axes(self, spec: StreamsSpec, target: Target) -> dict[str, tuple[object, ...]]:
        return {"waves": WAVES}

    def kernels(self, target: Target) -> list[StreamsSpec]:
        problems = [self.problem(dtype=dtype, c=c) for dtype in FLOATS for c in (1280, 7168)]
        return list(dict.fromkeys(self.spec(problem, target) for problem in problems))

    def build(self, spec: StreamsSpec, target: Target) -> Kernel:
        kernel: Kernel = importlib.import_module("ckmlir.ops.mhc.streams_kernel").build(spec, target)
        return kernel

    def arrays(self, problem: StreamsProblem) -> tuple[ArraySpec, ...]:
        m, c, n, dtype = problem.m, problem.c, problem.streams, problem.dtype
        weights = (m, coefficients_of(n))
        return (
            _rows("x", (m, n * c), dtype, "in", problem.stride),
            _rows("coefficients", weights, "f32", "in", problem.coefficients_stride),
            *(() if problem.fstride is None else (_rows("f", (m, c), dtype, "in", problem.fstride),)),
            _rows("y", self._shape(problem), dtype, "out", problem.ystride),
        )

    def _shape(self, problem: StreamsProblem) -> tuple[int, int]:
        """Of y."""
        return problem.m, problem.c * (problem.streams if self.mixes else 1)

    def _values(self, problem: StreamsProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        values: Array = generator.standard_normal(array.shape, dtype=np.float32)
        return values

    def _terms(self, problem: StreamsProblem, arrays: Mapping[str, Array]) -> Array:
        """What is added up (m, streams of y, terms, c), in float64."""
        n, m = problem.streams, problem.m
        x = arrays["x"].astype(np.float64).reshape(m, 1, n, problem.c)
        weights = arrays["coefficients"].astype(np.float64)
        with np.errstate(all="ignore"):
            if not self.mixes:
                found: Array = weights[:, None, :n, None] * x
                return found
            mixed = weights[:, 2 * n :].reshape(m, n, n, 1) * x
            added = weights[:, n : 2 * n, None, None] * arrays["f"].astype(np.float64)[:, None, None]
            return np.concatenate([mixed, added], axis=2)

    def reference(self, problem: StreamsProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """In float64."""
        with np.errstate(all="ignore"):
            return {"y": self._terms(problem, arrays).sum(axis=2).reshape(self._shape(problem))}

    def tolerances(
        self, problem: StreamsProblem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """T products are rounded once each, if that, be it to denormals, and their sum T - 1 times, in f32; then the
        result in its type.
        """
        terms = self._terms(problem, arrays)
        sizes = np.where(np.isfinite(terms), np.abs(terms), 0.0).sum(axis=2)
        error = terms.shape[2] * (UNIT * sizes + DENORMAL)
        found = output_tolerance(
            error.reshape(self._shape(problem)), problem.dtype, f"{terms.shape[2]} products added in f32", target
        )
        free = found.unspecified | order_decides(terms, 2).reshape(self._shape(problem))
        return {"y": replace(found, unspecified=free)}

    def launch(self, problem: StreamsProblem, spec: StreamsSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        tiles = ceil_div(problem.c, spec.columns)
        scalars = map(i32, (problem.m, problem.c, tiles, *problem.strides))
        block = (spec.waves * WAVE_SIZE, 1, 1)
        return Launch((tiles * problem.m, 1, 1), block, (*spec.arrays, *scalars), (tiles, problem.m))


def _rows(name: str, shape: tuple[int, int], dtype: str, role: str, stride: int) -> ArraySpec:
    """An array whose rows kernels address one by one."""
    return array_spec(name, shape, dtype, role, stride, limited=False)
