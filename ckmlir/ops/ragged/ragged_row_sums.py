"""ragged_row_sums: the sum of every row, where rows have different lengths that only device memory knows.

Row r has the elements offsets[r] up to, not including, offsets[r + 1] of `values`; `total` is an upper bound of the
last offset. The work is cut into tiles
(`ragged_tiles`), one a workgroup; the sums of a row's tiles meet by atomic addition, so that they start as zeros. The
table of tiles is a workspace of the operator: `pack=host` packs it by a function on the host, `pack=device` by the
kernel of ragged_tiles, which fills the same bytes.

It is the smallest operator with every kind of step, and an example for those that have some.

Arrays: values (total) f32, offsets (rows + 1) i32, sums (rows) f32. Kernel arguments: values, the table, sums; rows and
total (i32). Grid: the slots of the table.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.inner import inner_problem
from ckmlir.ops.operator import Launch, Operator, Run, Step
from ckmlir.ops.precision import OVERFLOW, sum_error
from ckmlir.ops.ragged.ragged_tiles import FIELDS, ROWS, TILE, made_offsets, pack_table
from ckmlir.ops.ragged.ragged_tiles import OPERATOR as TILES
from ckmlir.ops.ragged.ragged_tiles import Problem as Tiles
from ckmlir.ops.request import Choice
from ckmlir.ops.scalars import i32
from ckmlir.ops.spec import Algorithm, Reason, Spec, not_powers_of_two
from ckmlir.ops.steps import OWN_KERNEL, Fill, PackOnHost, Workspace
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE


class Problem(Struct, frozen=True):
    """Rows to sum up; `pack` says where the table of tiles is made."""

    tiles: Tiles
    pack: str


class RaggedRowSumsSpec(Spec):
    """What the kernel's code depends on."""

    tile: Algorithm[int]

    @property
    def name(self) -> str:
        return f"ragged_row_sums_{self.tile}"


class RaggedRowSums(Operator[Problem, RaggedRowSumsSpec]):
    """The operator `ragged_row_sums`, which the module's docstring describes."""

    name = "ragged_row_sums"
    spec_type = RaggedRowSumsSpec
    keys = (
        *ROWS,
        Choice("pack", "host", "where the table of tiles is made", ("host", "device")),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        tiles = inner_problem(TILES, {}, **{key.name: values[key.name] for key in ROWS})
        problem = Problem(tiles, values["pack"])
        self.arrays(problem)  # refuses what is too large
        return problem

    def spec(self, problem: Problem, target: Target) -> RaggedRowSumsSpec:
        return RaggedRowSumsSpec(problem.tiles.tile)

    def validate(self, spec: RaggedRowSumsSpec, target: Target) -> list[Reason]:
        return list(not_powers_of_two(spec, "tile"))

    def kernels(self, target: Target) -> list[RaggedRowSumsSpec]:
        return [RaggedRowSumsSpec(TILE)]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return (
            array_spec("values", (problem.tiles.total,), "f32", "in"),
            array_spec("offsets", (problem.tiles.rows + 1,), "i32", "in"),
            array_spec("sums", (problem.tiles.rows,), "f32", "out"),
        )

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name == "offsets":
            return made_offsets(problem.tiles, generator)
        return generator.standard_normal(array.shape, dtype=np.float32)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {"sums": _row_sums(arrays["values"].astype(np.float64), arrays["offsets"])}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Within a tile only log2 of its length and the lane's own elements follow each other (`sum_error`)."""
        offsets = arrays["offsets"]
        steps = np.diff(offsets) // problem.tiles.tile + 2 + problem.tiles.tile // WAVE_SIZE + 6
        values = arrays["values"].astype(np.float64)
        sizes = _row_sums(np.nan_to_num(np.abs(values), posinf=0), offsets)
        free = (sizes >= OVERFLOW) & ~np.isnan(_row_sums(np.where(np.isnan(values), np.nan, 0.0), offsets))
        reason = "f32 sums of lanes, then of lanes together, then of tiles in any order"
        return {"sums": Tolerance(0.0, sum_error(steps, sizes), reason, free)}

    def launch(self, problem: Problem, spec: RaggedRowSumsSpec, target: Target) -> Launch:
        scalars = i32(problem.tiles.rows), i32(problem.tiles.total)
        return Launch((problem.tiles.slots, 1, 1), (WAVE_SIZE, 1, 1), ("values", "table", "sums", *scalars))

    def workspaces(self, problem: Problem, spec: RaggedRowSumsSpec, target: Target) -> tuple[Workspace, ...]:
        return (Workspace("table", problem.tiles.slots * FIELDS * 4),)

    def steps(self, problem: Problem, spec: RaggedRowSumsSpec, target: Target) -> tuple[Step, ...]:
        if problem.pack == "device":
            arrays = {"offsets": "offsets", "table": "table"}
            return (Fill("sums", 0), Fill("table", 0), Run(TILES, problem.tiles, arrays), OWN_KERNEL)
        pack = PackOnHost("table", ("offsets",), functools.partial(_pack, problem.tiles.tile))
        return (Fill("sums", 0), pack, OWN_KERNEL)


def _pack(tile: int, arrays: Mapping[str, Array], packed: Array) -> None:
    pack_table(arrays["offsets"], tile, packed.view(np.int32).reshape(-1, FIELDS))


def _row_sums(values: Array, offsets: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.array([values[start:end].sum() for start, end in itertools.pairwise(offsets)], np.float64)


OPERATOR = RaggedRowSums()
