"""The ragged_row_sums kernel: a workgroup of one wave sums one tile and adds it to its row."""

from typing import Any

from ckmlir.dialect.distribution_builders import rows
from ckmlir.lang import Kernel, atomic_add, i32, kernel, load, ptr, reduce_sum, view, workgroup_id
from ckmlir.ops.ragged.ragged_row_sums import RaggedRowSumsSpec
from ckmlir.ops.ragged.ragged_tiles import FIELDS
from ckmlir.targets import Target


def build(spec: RaggedRowSumsSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {
        "values": ptr("f32"),
        "table": ptr("i32"),
        "sums": ptr("f32"),
        "rows": i32,
        "total": i32,
    }
    tile = (1, spec.tile)

    @kernel(spec.name, target=target, waves=1, arguments=arguments)
    def ragged_row_sums(given: Any) -> None:
        row, start, end = (given.table.scalar(workgroup_id(0) * FIELDS + field) for field in range(3))
        # What the table says is kept within the arrays: it comes from offsets that nobody has checked.
        values = view(given.values, (1, end.minimum(given.total)), (spec.tile, 1)).pad(*tile)
        elements = load(values.window(tile, (0, start.maximum(0))), rows(*tile, waves=1, vector=1))
        sums = view(given.sums, (given.rows,), (1,))
        atomic_add(reduce_sum(elements, 1), sums.window((1,), (row.maximum(0).minimum(given.rows - 1),)))

    return ragged_row_sums
