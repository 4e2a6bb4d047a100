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
from dataclasses import dataclass
from typing import Any

import numpy as np

from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.operator import ArraySpec, Launch, Operator, array_spec
from ckmlir.ops.request import Integer, RequestError
from ckmlir.ops.spec import Reason, Spec, not_powers_of_two
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

TILE = 256
FIELDS = 4


@dataclass(frozen=True)
class Problem:
    """Rows of `total` elements together, cut into tiles of at most `tile`."""

    rows: int
    total: int
    tile: int

    @property
    def slots(self) -> int:
        """Entries of the table."""
        return self.total // self.tile + self.rows


@dataclass(frozen=True)
class RaggedTilesSpec(Spec):
    """What the kernel's code depends on."""

    tile: int

    @property
    def name(self) -> str:
        return f"ragged_tiles_{self.tile}"


class RaggedTiles(Operator[Problem, RaggedTilesSpec]):
    """See the module's text."""

    name = "ragged_tiles"
    summary = "the table of tiles of rows of different lengths"
    spec_type = RaggedTilesSpec
    keys = (
        Integer("rows", 16, "rows", minimum=1),
        Integer("total", 4096, "elements of all rows"),
        Integer("tile", TILE, "most elements of a tile, a power of two", minimum=1),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        problem = Problem(values["rows"], values["total"], values["tile"])
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
        return random_offsets(problem.rows, problem.total, generator)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        table = np.zeros((problem.slots, FIELDS), np.int32)
        pack_table(arrays["offsets"], problem.tile, table)
        return {"table": table}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        return {"table": Tolerance(0.0, 0.0, "integers are exact")}

    def launch(self, problem: Problem, spec: RaggedTilesSpec) -> Launch:
        return Launch((problem.rows, 1, 1), (WAVE_SIZE, 1, 1), ("offsets", "table"))


def random_offsets(rows: int, total: int, generator: np.random.Generator) -> Array:
    """Where rows of random lengths begin, and at last the total; some rows are empty."""
    inner = np.sort(generator.integers(0, total + 1, rows - 1))
    return np.concatenate([[0], inner, [total]]).astype(np.int32)


def pack_table(offsets: Array, tile: int, table: Array) -> None:
    """Write the tiles into a table (slots, 4) of zeros, on the host."""
    for row, (begin, end) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        starts = np.arange(begin // tile, -(-end // tile)) * tile if begin < end else np.empty(0, np.int64)
        entries = table[begin // tile + row :][: len(starts)]
        entries[:, 0] = row
        entries[:, 1] = np.maximum(starts, begin)
        entries[:, 2] = np.minimum(starts + tile, end)


OPERATOR = RaggedTiles()
