"""An attention to compute, as its keys describe it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, alignment
from ckmlir.ops.attention.head_strides import by_head
from ckmlir.ops.attention.masks import Mask
from ckmlir.ops.attention.sequences import Rows
from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import Argument
from ckmlir.ops.packing import elements

LEAST_SCALE, MOST_SCALE = 2.0**-50, 2.0**50
"""Of elements, in memory: products of two and their quotients are far from f32's ends."""


class Place(Struct, frozen=True):
    """Some queries of a head, and the keys of their sequence.

    Attributes:
        number: the sequence's; head: of Q.
        batch: the sequence's place along the arrays' batches; row: of its first query there.
        rows: the queries, counted within the sequence.
        queries, keys: how many the sequence has.
    """

    number: int
    head: int
    batch: int
    row: int
    rows: range
    queries: int
    keys: int

    @property
    def memory_rows(self) -> slice:
        """The queries' rows in the arrays."""
        return slice(self.row + self.rows.start, self.row + self.rows.stop)


class Wanted(Protocol):
    """A part as a problem has it; see `part.Part`."""

    @property
    def word(self) -> str:
        """What the kernel's code depends on."""

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        """Its arrays."""

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        """Its arguments."""

    def scales(self, problem: Problem, name: str, place: Place, arrays: Mapping[str, Array]) -> Array | float:
        """What the elements of a place's q, k or v stand for themselves times of."""

    def arguments(self, problem: Problem) -> tuple[Argument, ...]:
        """What the kernel is given."""

    def values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        """Values of an input array."""

    def together(self, problem: Problem, generator: np.random.Generator) -> Mapping[str, Array]:
        """Values of input arrays that have to agree with each other, by name."""

    def check(self, problem: Problem, arrays: Mapping[str, Array]) -> None:
        """Raise RequestError for arrays that nobody can mean."""


class Origin(Wanted, Protocol):
    """Where K and V lie; see `source.Source`."""

    @property
    def limited(self) -> bool:
        """Whether kernels address K and V by offsets of 32 bits from their start."""

    def settled(self, problem: Problem) -> Origin:
        """The same, once the strides of K and V are known. Raises RequestError."""

    def layout(self, problem: Problem) -> str:
        """The order of heads and rows of K and V in memory."""

    def extent(self, problem: Problem) -> tuple[int, int]:
        """Batches of K and V, and rows of each."""

    def array(self, problem: Problem, name: str) -> ArraySpec:
        """K or V as it lies in memory."""

    def places(self, problem: Problem, number: int, arrays: Mapping[str, Array], keys: range) -> tuple[Array, Array]:
        """The batch and the row of each of some keys of a sequence."""

    def rows(self, problem: Problem, place: Place, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
        """K and V (keys, channels) that a place's queries may attend to."""


class Problem(Struct, frozen=True):
    """An attention to compute."""

    b: int
    """Sequences; in group mode the arrays have one batch."""
    h: int
    hk: int
    queries: Rows
    keys: Rows
    source: Origin
    d: int
    dv: int
    dtype: str
    out: str
    mask: Mask
    layout: str
    v_layout: str
    lse: bool
    scale: float
    q_scale: float
    k_scale: float
    v_scale: float
    schedule: str | None
    edge: str | None
    parts: tuple[Wanted, ...] = ()
    v_dtype: str = ""
    """Type of V, and of the weights that it is multiplied with; none: that of Q and K."""
    stored: str = ""
    """Packed type of Q, K and V in memory, which become `dtype`; none: they are that."""
    q_strides: tuple[int, int, int] = (0, 0, 0)
    """Elements from one batch, one head and one row to the next; so for the other arrays."""
    k_strides: tuple[int, int, int] = (0, 0, 0)
    v_strides: tuple[int, int, int] = (0, 0, 0)
    """Rows are channels where V is in columns."""
    o_strides: tuple[int, int, int] = (0, 0, 0)

    @property
    def sq(self) -> int:
        """The most queries of a sequence."""
        return self.queries.longest

    @property
    def sk(self) -> int:
        """The most keys of a sequence."""
        return self.keys.longest

    @property
    def grouped(self) -> bool:
        """Whether sequences follow each other along the arrays' rows."""
        return bool(self.queries.slots)

    @property
    def array_batches(self) -> int:
        """Batches of Q, O and LSE."""
        return 1 if self.grouped else self.b

    @property
    def score_scale(self) -> float:
        """What the products of stored queries and keys are multiplied with."""
        return self.scale * self.q_scale * self.k_scale

    def rows(self, side: str) -> int:
        """Rows of a batch of Q and O ("q"), or of K and V ("k")."""
        return self.queries.total if side == "q" else self.source.extent(self)[1]

    def batches(self, name: str) -> int:
        """Batches of q, k, v or o."""
        return self.source.extent(self)[0] if name in "kv" else self.array_batches

    def dtype_of(self, name: str) -> str:
        """The type of q, k and v as they are multiplied, or of o."""
        return self.out if name == "o" else (self.v_dtype or self.dtype) if name == "v" else self.dtype

    def held_as(self, name: str) -> str:
        """The type of q, k, v or o in memory."""
        return self.stored or self.dtype_of(name) if name != "o" else self.out

    def array(self, name: str) -> ArraySpec:
        """Q, K, V or O as it lies in memory in rows."""
        dtype, role = self.held_as(name), "out" if name == "o" else "in"
        batch, head, row = self.strides(name)
        middle = (head, row) if self.layout_of(name) == "bhsd" else (row, head)
        return ArraySpec(name, self.shape(name), dtype, role, (batch, *middle, 1))

    def shape(self, name: str) -> tuple[int, int, int, int]:
        """The shape of q, k, v or o in memory."""
        heads, sequence, channels = self.sizes(name)
        b = self.batches(name)
        found = (heads, sequence) if self.layout_of(name) == "bhsd" else (sequence, heads)
        return (b, *found, channels)

    @property
    def column(self) -> int:
        """The length of a channel of V in columns, in what memory counts."""
        return find_dtype(self.held_as("v")).packed_length(self.sk)

    @property
    def known_columns(self) -> int:
        """What a kernel may know to divide that; 0 for V in rows."""
        if self.v_layout == "rows":
            return 0
        return 1 if self.keys.lengths else alignment(find_dtype(self.held_as("v")).bytes, self.column)

    def layout_of(self, name: str) -> str:
        """The order of heads and rows of q, k, v or o in memory."""
        return self.source.layout(self) if name in "kv" else self.layout

    def sizes(self, name: str) -> tuple[int, int, int]:
        """Heads, rows and channels of q, k, v or o, of packed ones bytes; of V in columns, rows and columns change
        places."""
        heads, rows = (self.h, self.rows("q")) if name in "qo" else (self.hk, self.rows("k"))
        channels, size = self.d if name in "qk" else self.dv, find_dtype(self.held_as(name)).packed_length
        if name == "v" and self.v_layout == "columns":
            return heads, channels, size(rows)
        return heads, rows, size(channels)

    def strides(self, name: str) -> tuple[int, int, int]:
        """Of q, k, v or o along batches, heads and rows."""
        found: tuple[int, int, int] = getattr(self, f"{name}_strides")
        return found

    def by_head(self, array: Array) -> Array:
        """A view of q, k, v or o with the axes (batch, head, sequence, channel) as the array has them."""
        return by_head(self.layout, array)

    def values_by_head(self, array: Array) -> Array:
        """V with the axes (batch, head, key, channel): a view, but of columns whose keys share bytes."""
        if self.v_layout == "rows":
            return self.by_head(array)
        columns: Array = self.by_head(elements(array, self.held_as("v"))).transpose(0, 1, 3, 2)
        return columns

    def places(self, arrays: Mapping[str, Array], most: int | None = None) -> Iterator[Place]:
        """Every head of every sequence, or at most so many queries of each at a time."""
        for number in range(self.b if self.rows("q") else 0):
            row, queries = self.queries.of(arrays, number)
            _, keys = self.keys.of(arrays, number)
            step = max(queries if most is None else most, 1)
            for head in range(self.h if queries else 0):
                for start in range(0, queries, step):
                    rows = range(start, min(start + step, queries))
                    yield Place(number, head, 0 if self.grouped else number, row, rows, queries, keys)

    def queries_of(self, place: Place, arrays: Mapping[str, Array]) -> Array:
        """The place's rows of Q (queries, channels) as they stand for, in float64."""
        rows = self.by_head(arrays["q"])[place.batch, place.head, place.memory_rows]
        return elements(rows, self.held_as("q")).astype(np.float64) * self._scales("q", place, arrays)

    def value_sizes(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The arrays with the magnitudes of V's elements in its place."""
        return {**arrays, "v": np.abs(elements(arrays["v"], self.held_as("v")).astype(np.float32))}

    def keys_of(self, place: Place, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
        """The rows of K and of V (keys, channels) that a place's queries may attend to, so too."""
        k, v = (one.astype(np.float64) for one in self.source.rows(self, place, arrays))
        return k * self._scales("k", place, arrays), v * self._scales("v", place, arrays)

    def _scales(self, name: str, place: Place, arrays: Mapping[str, Array]) -> Array | float:
        found: Array | float = 1.0
        for part in self.parts:
            found = found * part.scales(self, name, place, arrays)
        return found
