"""ragged_tiles: how rows of different lengths are cut into tiles, as a table in device memory.

Row r has the elements offsets[r] up to, not including, offsets[r + 1]; offsets[0] is 0, the last is at most the total,
and what it leaves of the table keeps what it held. Tile boundaries are the
multiples of the tile length and the ends of rows. The table has an entry (row, first element, end, 0) for each tile,
and entries of zeros, which say "nothing", in between: the tiles of row r stand from slot offsets[r] // tile + r on,
which leaves room for the most tiles that the rows before can have, so that every row finds its place without the
others. The number of slots, total // tile + rows, follows from the total length and the number of rows alone.

Arrays: offsets (rows + 1) i32, table (total // tile + rows, 4) i32. Kernel arguments: offsets, table. Grid: the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.list_keys import Series
from ckmlir.ops.operator import Launch, Operator
from ckmlir.ops.request import Integer, PowerOfTwo, RequestError, show
from ckmlir.ops.spec import Algorithm, Reason, Spec, not_powers_of_two
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

TILE = 256
FIELDS = 4

ROWS = (
    Integer("rows", None, "rows, by default as many as lengths has, or 16", minimum=1),
    Integer("total", None, "elements of all rows at most; by default the sum of lengths, or 4096"),
    Series("lengths", None, "of every row, for the inputs that are made; by default random"),
)
"""The keys of rows of different lengths."""


class Problem(Struct, frozen=True):
    """Rows of `total` elements together, cut into tiles of at most `tile`.

    Attributes:
        lengths: of every row, for the inputs that are made; None: random ones. No kernel depends on them.
    """

    rows: int
    total: int
    tile: int
    lengths: tuple[int, ...] | None = None

    @property
    def slots(self) -> int:
        """Entries of the table."""
        return self.total // self.tile + self.rows


class RaggedTilesSpec(Spec):
    """What the kernel's code depends on."""

    tile: Algorithm[int]

    @property
    def name(self) -> str:
        return f"ragged_tiles_{self.tile}"


class RaggedTiles(Operator[Problem, RaggedTilesSpec]):
    """The operator `ragged_tiles`, which the module's docstring describes."""

    name = "ragged_tiles"
    spec_type = RaggedTilesSpec
    keys = (
        *ROWS,
        PowerOfTwo("tile", TILE, "most elements of a tile, a power of two", minimum=1),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        problem = Problem(*read_rows(values), values["tile"], values["lengths"])
        if problem.tile & (problem.tile - 1):
            raise RequestError(f"tile={problem.tile}: expected a power of two")
        self.arrays(problem)  # refuses what is too large
        return problem

    def spec(self, problem: Problem, target: Target) -> RaggedTilesSpec:
        return RaggedTilesSpec(problem.tile)

    def validate(self, spec: RaggedTilesSpec, target: Target) -> list[Reason]:
        return list(not_powers_of_two(spec, "tile"))

    def kernels(self, target: Target) -> list[RaggedTilesSpec]:
        return [RaggedTilesSpec(TILE)]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return (
            array_spec("offsets", (problem.rows + 1,), "i32", "in"),
            array_spec("table", (problem.slots, FIELDS), "i32", "out"),
        )

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        return made_offsets(problem, generator)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        table = np.zeros((problem.slots, FIELDS), np.int32)
        pack_table(arrays["offsets"], problem.tile, table)
        return {"table": table}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        written = int(arrays["offsets"][-1]) // problem.tile + problem.rows
        free = np.broadcast_to((np.arange(problem.slots) >= written)[:, None], (problem.slots, FIELDS))
        return {"table": Tolerance(0.0, 0.0, "integers are exact", free)}

    def launch(self, problem: Problem, spec: RaggedTilesSpec, target: Target) -> Launch:
        return Launch((problem.rows, 1, 1), (WAVE_SIZE, 1, 1), ("offsets", "table"))


def read_rows(values: Mapping[str, Any]) -> tuple[int, int]:
    """How many rows there are, and the elements of all of them. Raises RequestError where the keys do not agree."""
    lengths = values["lengths"]
    rows = len(lengths or ()) if values["rows"] is None else values["rows"]
    if lengths is not None and len(lengths) != rows:
        raise RequestError(f"lengths={show(','.join(map(str, lengths)))}: {len(lengths)} of them for rows={rows}")
    total = (4096 if lengths is None else sum(lengths)) if values["total"] is None else values["total"]
    if lengths is not None and sum(lengths) > total:
        raise RequestError(f"total={total}: the rows have {sum(lengths)} elements; expected at least that")
    return rows or 16, total


def made_offsets(problem: Problem, generator: np.random.Generator) -> Array:
    """Where rows begin, and the end of the last: of the lengths asked for, or of random ones, some of them empty, that
    take the whole total."""
    if problem.lengths is not None:
        return np.concatenate([[0], np.cumsum(problem.lengths)]).astype(np.int32)
    inner = np.sort(generator.integers(0, problem.total + 1, problem.rows - 1))
    return np.concatenate([[0], inner, [problem.total]]).astype(np.int32)


def pack_table(offsets: Array, tile: int, table: Array) -> None:
    """Write the tiles into a table (slots, 4) of zeros, on the host."""
    for row, (begin, end) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        starts = np.arange(begin // tile, -(-end // tile)) * tile if begin < end else np.empty(0, np.int64)
        entries = table[begin // tile + row :][: len(starts)]
        entries[:, 0] = row
        entries[:, 1] = np.maximum(starts, begin)
        entries[:, 2] = np.minimum(starts + tile, end)


OPERATOR = RaggedTiles()
