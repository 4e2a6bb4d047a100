"""The ragged_tiles kernel: a workgroup of one wave writes the slots of one row, 64 at a time."""

from typing import Any

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import (
    Kernel,
    coordinates,
    full,
    kernel,
    loop,
    maximum,
    minimum,
    ptr,
    store,
    view,
    where,
    workgroup_id,
)
from ckmlir.ops.ragged.ragged_tiles import FIELDS, RaggedTilesSpec
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

SHAPE = (WAVE_SIZE, FIELDS)


def build(spec: RaggedTilesSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""

    @kernel(spec.name, target=target, waves=1, arguments={"offsets": ptr("i32"), "table": ptr("i32")})
    def ragged_tiles(given: Any) -> None:
        row = workgroup_id(0)
        begin, end = given.offsets.scalar(row), given.offsets.scalar(row + 1)
        first_slot, next_slot = begin // spec.tile + row, end // spec.tile + row + 1
        zeros = full(SHAPE, 0, "i32", coalesced(SHAPE, 1, 1, FIELDS))
        slot, field = coordinates(zeros, 0), coordinates(zeros, 1)
        with loop(first_slot, next_slot, WAVE_SIZE) as step:
            part = slot + (step.index - row)
            start, stop = maximum(part * spec.tile, begin), minimum((part + 1) * spec.tile, end)
            entry = where(field.equals(0), row, where(field.equals(1), start, where(field.equals(2), stop, 0)))
            slots = view(given.table, (next_slot, FIELDS), (FIELDS, 1)).pad(*SHAPE)
            store(where(start < stop, entry, 0), slots.window(SHAPE, (step.index, 0)))

    return ragged_tiles
