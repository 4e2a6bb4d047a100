"""Row operators: keys, problems and launches, all read off the table of arrays.

Kernel arguments: the arrays in the table's order; their lengths (i32), each once; the row strides of the strided ones
(i32); the operator's real numbers (f32). Grid: one dimension, blocks of rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import NOTHING, Launch, Operator
from ckmlir.ops.request import MAXIMUM_SIZE, Key, Pitch, PowerOfTwo, RequestError
from ckmlir.ops.rows.arrays import RowArray, RowOptions, size_names, strided
from ckmlir.ops.rows.layout import MAXIMUM_ELEMENTS, REACH, RowSpec, choose_layout, invalid_layout, uncovered_rows
from ckmlir.ops.scalars import ceil_div, f32, i32
from ckmlir.ops.spec import Reason, unlike
from ckmlir.records import field_names
from ckmlir.targets import Target
from ckmlir.targets.cdna import ACCESS_BYTES, WAVE_SIZE

C = TypeVar("C", bound=RowOptions)
R = TypeVar("R", bound=RowSpec)

ROOM = 8192
"""What a workgroup's coordinates, which are signed 32-bit integers, may reach beyond the end of rows."""
LENGTHS = (8, 64, 256, 512, 1024, 2048, 4096, 8192, 16384)
"""Row lengths of the kernels that are listed."""


class RowProblem(Struct, Generic[C], frozen=True, dict=True):
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

    def __hash__(self) -> int:
        numbers = (*self.sizes.values(), *self.strides.values(), *self.numbers.values())
        return hash((self.options, self.base, numbers))

    @cached_property
    def table(self) -> tuple[RowArray, ...]:
        """The table of arrays."""
        return self.options.arrays()

    @cached_property
    def arrays(self) -> tuple[ArraySpec, ...]:
        """The same with their sizes. Raises RequestError for one that is too large."""
        return tuple(
            array_spec(
                one.name, [self.sizes[size] for size in one.sizes], one.dtype, one.role, self.strides.get(one.name),
                limited=not one.strided,
                align=max(self.base, find_dtype(one.dtype).bytes),
            )
            for one in self.table
        )  # fmt: skip

    @property
    def dtype(self) -> str:
        return self.options.dtype

    @property
    def row_bytes(self) -> int:
        """The largest distance of neighbouring rows of any array, in bytes."""
        return max(self.strides[one.name] * find_dtype(one.dtype).bytes for one in self.table if one.strided)


def stride_key(array: str) -> str:
    """The key of an array's row stride."""
    return {"x": "stride", "y": "ystride"}.get(array, f"{array}_stride")


def _rows(problem: RowProblem[Any]) -> tuple[int, int, list[int], int, int]:
    """Rows, their length, the distances of rows of that length, what divides addresses, and the largest distance of any
    rows in bytes."""
    arrays = [array for array in problem.table if array.strided]
    strides = [problem.strides[array.name] for array in arrays if array.sizes[1] == "n"]
    return problem.sizes["m"], problem.sizes["n"], strides, problem.base, problem.row_bytes


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
        Pitch(stride_key(name), None, f"elements from one row of {name} to the next", minimum=1) for name in arrays
    ]
    return (*own, PowerOfTwo("base", ACCESS_BYTES, "bytes, 1 to 16, that divide the address of every array", minimum=1))


class RowOperator(Operator[RowProblem[C], R], Generic[C, R]):
    """An operator whose arrays are listed by its options."""

    options_type: type[C]
    numbers: ClassVar[tuple[str, ...]] = ()
    """Keys of the real numbers that the kernel takes."""
    whole_rows: ClassVar[bool] = False
    """Rows must fit into registers."""
    elements: ClassVar[int] = MAXIMUM_ELEMENTS
    """Elements of a row that a work-item holds, at most."""

    @abstractmethod
    def requests(self) -> Iterable[Mapping[str, object]]:
        """Keys of the kernels that are listed, without the lengths of rows."""

    lengths: ClassVar[tuple[int, ...]] = LENGTHS

    def _problem(self, values: Mapping[str, Any]) -> RowProblem[C]:
        options = self._options(values)
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
                raise RequestError(f"{key.name}={values[key.name]}: {self._absent(key.name, values)}")
        numbers = {name: values[name] for name in self.numbers}
        problem = RowProblem(options, sizes, strides, numbers, values["base"])
        self.arrays(problem)  # refuses what is too large
        return problem

    def _options(self, values: Mapping[str, Any]) -> C:
        choices = self._choices(values)
        return self.options_type(**{name: choices[name] for name in field_names(self.options_type) or ()})

    def _absent(self, key: str, values: Mapping[str, Any]) -> str:
        """Says which array a stride belongs to that the request does not have, and a choice that would bring it."""
        for own in self.keys:
            for value in own.choices_of_all:
                options = self._options({**values, own.name: value})
                found = [array.name for array in options.arrays() if array.strided and stride_key(array.name) == key]
                if found and not options.conflicts():
                    return f"there is no array {found[0]}; expected {own.name}={own.text(value)} with it, or nothing"
        return "these choices have no such array"

    def _choices(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values of the options by name; operators derive here what a request left open."""
        return values

    def spec(self, problem: RowProblem[C], target: Target) -> R:
        m, n, strides, base, row_bytes = _rows(problem)
        layout = choose_layout(
            m, n, problem.dtype, strides, base, row_bytes=row_bytes, whole=self.whole_rows, elements=self.elements
        )
        return self.spec_type(**vars(problem.options), **layout)

    def mismatches(self, problem: RowProblem[C], spec: R, target: Target) -> list[Reason]:
        return list(unlike(spec, **vars(problem.options))) or list(uncovered_rows(spec, *_rows(problem)))

    def validate(self, spec: R, target: Target) -> list[Reason]:
        return invalid_layout(spec, target)

    def kernels(self, target: Target) -> list[R]:
        specs = [
            self.spec(self.problem(**request, m=1024, n=n), target) for request in self.requests() for n in self.lengths
        ]
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]

    def arrays(self, problem: RowProblem[C]) -> tuple[ArraySpec, ...]:
        return problem.arrays

    def output_names(self, problem: RowProblem[C]) -> list[str]:
        """The names of the outputs, in order."""
        return [array.name for array in problem.table if array.role == "out"]

    def _values(self, problem: RowProblem[C], array: ArraySpec, generator: np.random.Generator) -> Array:
        values: Array = generator.standard_normal(array.shape, dtype=np.float32)
        return {"gamma": 1 + values / 4, "beta": values / 4, "smooth": 1 + values / 4}.get(array.name, values + 0.5)

    def launch(self, problem: RowProblem[C], spec: R, target: Target) -> Launch:
        return NOTHING if self.writes_nothing(problem) else self._launched(spec, problem.table, problem)

    def _launched(self, spec: R, arrays: Sequence[RowArray], problem: RowProblem[C]) -> Launch:
        """The launch of a kernel that takes these arrays, over blocks of rows."""
        scalars = [i32(problem.sizes[name]) for name in size_names(arrays)]
        scalars += [i32(problem.strides[name]) for name in strided(arrays)]
        reals = [f32(problem.numbers[name]) for name in self.numbers]
        names = [array.name for array in arrays]
        grid = (ceil_div(problem.sizes["m"], spec.rows), 1, 1)
        return Launch(grid, (spec.wave_count * WAVE_SIZE, 1, 1), (*names, *scalars, *reals))
