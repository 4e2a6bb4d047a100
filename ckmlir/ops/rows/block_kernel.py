"""The rows of one workgroup in tile code: arrays as views, folds over whole rows, stores.

The same code serves rows that stay in registers and rows that stream through them: `held` values are computed once or
again for every pass, a `fold` is one reduction or a loop that carries one partial result for every register position,
and `each` runs its body once or for every part of a row. A part is named by its first column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from ckmlir.dialect.distribution_builders import rows
from ckmlir.lang import (
    Kernel,
    Scalar,
    Tile,
    View,
    cast,
    coordinates,
    f32,
    full,
    i32,
    kernel,
    load,
    loop,
    ptr,
    reduce,
    store,
    view,
    where,
    workgroup_id,
)  # fmt: skip
from ckmlir.lang.kernel import PointerArgument, ScalarArgument
from ckmlir.ops.rows.arrays import size_names, strided
from ckmlir.ops.rows.layout import RowSpec
from ckmlir.targets import Target

Column = Scalar | int
Part = Callable[[Column], Tile]
"""A tile of every part of the rows, from the part's first column."""
Combiner = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]
"""An associative, commutative function of two tuples of scalars, or of tiles element by element."""


class RowBlock:
    """The rows of one workgroup."""

    def __init__(self, spec: RowSpec, given: Any) -> None:
        self.spec = spec
        self.given = given
        self.distribution = rows(spec.rows, spec.length, spec.wave_count, spec.vector, spec.row_waves)
        self.m: Scalar = given.m if spec.pad_m else given.m.multiple_of(spec.rows)
        self.n: Scalar = given.n.multiple_of(spec.align if spec.pad_n else spec.length)
        self.first = workgroup_id(0) * spec.rows
        self._arrays = {array.name: array for array in spec.arrays()}

    @property
    def inverse_n(self) -> Scalar:
        """What makes a mean of a sum over a row; means of no elements are 0."""
        inverse: Scalar = 1.0 / self.n.maximum(1).to("f32")
        return inverse

    # -- arrays

    def size(self, name: str) -> Scalar:
        """A length by its name, with what is known of its divisors."""
        if name in ("m", "n"):
            return self.m if name == "m" else self.n
        other: Scalar = getattr(self.given, name)
        return other.multiple_of(self.spec.align_of(name))

    def rows_of(self, name: str) -> View:
        """An array of rows as a view, padded to whole blocks where they need not be whole."""
        array = self._arrays[name]
        stride = self.size(array.sizes[1])
        if array.strided:
            stride = getattr(self.given, f"{name}_stride").multiple_of(self.spec.align_of(array.sizes[1]))
        lengths = [self.size(size) for size in array.sizes]
        everything = view(getattr(self.given, name), lengths, (stride, 1))
        whole = array.sizes == ("m", "n") and not (self.spec.pad_m or self.spec.pad_n)
        return everything if whole else everything.pad(self.spec.rows, self.spec.length)

    def at(self, first: Scalar) -> RowBlock:
        """As many rows from another one on."""
        found = copy(self)
        found.first = first
        return found

    def loaded(self, name: str, column: Column) -> Tile:
        """A part of an array's rows, in its element type."""
        window = self.rows_of(name).window((self.spec.rows, self.spec.length), (self.first, column))
        return load(window, self.distribution)

    def load(self, name: str, column: Column) -> Tile:
        """A part of an array's rows, in f32."""
        return cast(self.loaded(name, column), "f32")

    def store(self, tile: Tile, name: str, column: Column) -> None:
        """Write a part of an array's rows, converted to its element type."""
        window = self.rows_of(name).window((self.spec.rows, self.spec.length), (self.first, column))
        store(cast(tile, self._arrays[name].dtype), window)

    def channels(self, name: str, column: Column) -> Any:
        """A part of an array of one element for every column, in f32, repeated for every row."""
        everything = view(getattr(self.given, name), (self.n,), (1,))
        if self.spec.pad_n:
            everything = everything.pad(self.spec.length)
        return cast(load(everything.window((self.spec.length,), (column,))), "f32")[None, :]

    def row_values(self, name: str) -> Tile:
        """An array of one element for every row, in f32."""
        return cast(load(self._row_values(name).window((self.spec.rows,), (self.first,))), "f32")

    def store_row_values(self, tile: Tile, name: str) -> None:
        """Write an array of one element for every row."""
        store(cast(tile, self._arrays[name].dtype), self._row_values(name).window((self.spec.rows,), (self.first,)))

    def _row_values(self, name: str) -> View:
        everything = view(getattr(self.given, name), (self.m,), (1,))
        return everything.pad(self.spec.rows) if self.spec.pad_m else everything

    # -- whole rows

    def inside(self, tile: Tile, column: Column, other: float) -> Tile:
        """A part with another number in place of what lies behind the end of the rows."""
        if not self.spec.pad_n:
            return tile
        return where(coordinates(tile, 1) + column < self.n, tile, other)

    def full(self, number: float, dtype: str = "f32") -> Tile:
        """A part of equal elements."""
        return full((self.spec.rows, self.spec.length), number, dtype, self.distribution)

    def held(self, make: Part) -> Part:
        """What `make` computes, kept where rows stay in registers; where they stream, computed in every pass."""
        if self.spec.streamed:
            return make
        kept: list[Tile] = []

        def part(column: Column) -> Tile:
            if not kept:
                kept.append(make(column))
            return kept[0]

        return part

    def fold(
        self,
        values: Callable[[Column], Sequence[Tile]],
        identities: Sequence[float],
        combine: Combiner,
        dtype: str = "f32",
    ) -> list[Tile]:
        """Fold every row; `values` is asked once for every part, and may store what it computes on the way."""
        if not self.spec.streamed:
            return reduce(values(0), 1, combine)
        with loop(0, self.n, self.spec.length, carry=[self.full(number, dtype) for number in identities]) as step:
            step.carry(*combine(step.carried, values(step.index)))
        return reduce(step.results, 1, combine)

    def sum(self, values: Part, dtype: str = "f32") -> Tile:
        """The sum of every row of values of this dtype; what lies behind its end must be zero."""
        return self.fold(lambda column: [values(column)], [0.0], lambda a, b: [a[0] + b[0]], dtype)[0]

    def each(self, body: Callable[[Column], None]) -> None:
        """Run the body for every part of the rows."""
        if not self.spec.streamed:
            body(0)
            return
        with loop(0, self.n, self.spec.length) as step:
            body(step.index)


def row_kernel(
    spec: RowSpec,
    target: Target,
    body: Callable[[RowBlock], None],
    numbers: Sequence[str] = (),
    counts: Sequence[str] = (),
) -> Kernel:
    """Trace a row operator's kernel; the arguments follow from the specification's arrays (see `rows/operator.py`), but
    for real numbers and whole ones."""
    arrays = spec.arrays()
    arguments: dict[str, PointerArgument | ScalarArgument] = {
        **{array.name: ptr(array.dtype, spec.base_of(array)) for array in arrays},
        **dict.fromkeys(size_names(arrays), i32),
        **{f"{name}_stride": i32 for name in strided(arrays)},
        **dict.fromkeys(numbers, f32),
        **dict.fromkeys(counts, i32),
    }

    @kernel(spec.name, target=target, waves=spec.wave_count, arguments=arguments)
    def row_operator(given: Any) -> None:
        body(RowBlock(spec, given))

    return row_operator
