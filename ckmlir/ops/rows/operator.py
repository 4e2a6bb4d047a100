"""Row operators: keys, problems and launches, all read off the table of arrays.

Kernel arguments: the arrays in the table's order; their lengths (i32), each once; the row strides of the strided ones
(i32); the operator's real numbers (f32). Grid: one dimension, blocks of rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import ArraySpec, Launch, Operator, array_spec, ceil_div
from ckmlir.ops.request import MAXIMUM_SIZE, Integer, Key, RequestError
from ckmlir.ops.rows.arrays import RowArray, RowOptions, size_names, strided
from ckmlir.ops.rows.layout import ACCESS_BYTES, REACH, RowSpec, choose_layout, invalid_layout
from ckmlir.ops.spec import Reason
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

C = TypeVar("C", bound=RowOptions)
R = TypeVar("R", bound=RowSpec)

ROOM = 8192
"""What a workgroup's coordinates, which are signed 32-bit integers, may reach beyond the end of rows."""
LENGTHS = (8, 64, 256, 512, 1024, 2048, 4096, 8192, 16384)
"""Row lengths of the kernels that are listed."""


@dataclass(frozen=True)
class RowProblem(Generic[C]):
    """Rows to work on.

    Attributes:
        sizes: lengths by name; "m" rows of "n" elements.
        strides: elements from one row to the next, of every strided array.
        numbers: the operator's real numbers.
        base: bytes of which the address of every array is a multiple.
    """

    options: C
    sizes: dict[str, int]
    strides: dict[str, int]
    numbers: dict[str, float]
    base: int

    @property
    def dtype(self) -> str:
        return self.options.dtype


def stride_key(array: str) -> str:
    """The key of an array's row stride."""
    return {"x": "stride", "y": "ystride"}.get(array, f"{array}_stride")


def _row_stride(array: RowArray, sizes: Mapping[str, int], values: Mapping[str, Any]) -> int:
    """The row stride asked for, else that of packed rows. Raises RequestError for overlapping and for endless rows."""
    key, name = stride_key(array.name), array.sizes[-1]
    least, own = sizes[name], values.get(key)
    if own is not None and own < least:
        raise RequestError(f"{key}={own}: rows have {name}={least} elements; expected at least that")
    if least * find_dtype(array.dtype).bytes >= REACH:
        raise RequestError(f"{name}={least}: a row of {array.name} takes 2 GiB or more; expected less")
    return max(least, 1) if own is None else int(own)


def stride_keys(*arrays: str) -> tuple[Key, ...]:
    """Keys for row strides, and for how arrays are aligned."""
    own = [
        Integer(stride_key(name), None, f"elements from one row of {name} to the next", minimum=1) for name in arrays
    ]
    return (*own, Integer("base", ACCESS_BYTES, "bytes, 1 to 16, that divide the address of every array", minimum=1))


class RowOperator(Operator[RowProblem[C], R], Generic[C, R]):
    """An operator whose arrays are listed by its options."""

    options_type: type[C]
    numbers: ClassVar[tuple[str, ...]] = ()
    """Keys of the real numbers that the kernel takes."""
    whole_rows: ClassVar[bool] = False
    """Rows must fit into registers."""

    @abstractmethod
    def requests(self) -> Iterable[Mapping[str, object]]:
        """Keys of the kernels that are listed, without the lengths of rows."""

    lengths: ClassVar[tuple[int, ...]] = LENGTHS

    def _problem(self, values: Mapping[str, Any]) -> RowProblem[C]:
        choices = self._choices(values)
        options = self.options_type(**{field.name: choices[field.name] for field in fields(self.options_type)})
        for conflict in options.conflicts():
            raise RequestError(str(conflict))
        if values["base"] not in (1, 2, 4, 8, 16):
            raise RequestError(f"base={values['base']}: expected 1|2|4|8|16")
        for name in ("m", "n"):
            if values[name] > MAXIMUM_SIZE - ROOM:
                raise RequestError(f"{name}={values[name]}: expected at most {MAXIMUM_SIZE - ROOM}")
        arrays = options.arrays()
        sizes = {name: values[name] for name in size_names(arrays)}
        strides = {array.name: _row_stride(array, sizes, values) for array in arrays if array.strided}
        for key in self.keys:
            given = key.name.endswith("stride") and values[key.name] is not None
            if given and key.name not in map(stride_key, strides):
                raise RequestError(f"{key.name}={values[key.name]}: these choices have no such array")
        numbers = {name: values[name] for name in self.numbers}
        problem = RowProblem(options, sizes, strides, numbers, values["base"])
        self.arrays(problem)  # refuses what is too large
        return problem

    def _choices(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values of the options by name; operators derive here what a request left open."""
        return values

    def spec(self, problem: RowProblem[C], target: Target) -> R:
        chosen = {field.name: getattr(problem.options, field.name) for field in fields(problem.options)}
        arrays = [array for array in problem.options.arrays() if array.strided]
        layout = choose_layout(
            problem.sizes["m"], problem.sizes["n"], problem.dtype,
            [problem.strides[array.name] for array in arrays if array.sizes[1] == "n"], problem.base,
            row_bytes=max(problem.strides[array.name] * find_dtype(array.dtype).bytes for array in arrays),
            whole=self.whole_rows,
        )  # fmt: skip
        return self.spec_type(**chosen, **layout)

    def validate(self, spec: R, target: Target) -> list[Reason]:
        return invalid_layout(spec, target)

    def kernels(self, target: Target) -> list[R]:
        specs = [
            self.spec(self.problem(**request, m=1024, n=n), target) for request in self.requests() for n in self.lengths
        ]
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]

    def arrays(self, problem: RowProblem[C]) -> tuple[ArraySpec, ...]:
        return tuple(
            array_spec(
                one.name, [problem.sizes[size] for size in one.sizes], one.dtype, one.role,
                problem.strides.get(one.name), limited=not one.strided,
            )
            for one in problem.options.arrays()
        )  # fmt: skip

    def output_names(self, problem: RowProblem[C]) -> list[str]:
        """The names of the outputs, in order."""
        return [array.name for array in problem.options.arrays() if array.role == "out"]

    def _values(self, problem: RowProblem[C], array: ArraySpec, generator: np.random.Generator) -> Array:
        values: Array = generator.standard_normal(array.shape, dtype=np.float32)
        return {"gamma": 1 + values / 4, "beta": values / 4, "smooth": 1 + values / 4}.get(array.name, values + 0.5)

    def launch(self, problem: RowProblem[C], spec: R) -> Launch:
        arrays = problem.options.arrays()
        scalars = [np.int32(problem.sizes[name]) for name in size_names(arrays)]
        scalars += [np.int32(problem.strides[name]) for name in strided(arrays)]
        reals = [np.float32(problem.numbers[name]) for name in self.numbers]
        names = [array.name for array in arrays]
        grid = (ceil_div(problem.sizes["m"], spec.rows), 1, 1)
        return Launch(grid, (spec.wave_count * WAVE_SIZE, 1, 1), (*names, *scalars, *reals))
