"""The kernel of `sum_parts`: a loop over parts that loads ahead, one expression, one store."""

from __future__ import annotations

from typing import Any

from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Kernel,
    Pointer,
    Scalar,
    Tile,
    cast,
    f32,
    f64,
    full,
    i32,
    kernel,
    load,
    loop,
    stage,
    store,
    workgroup_id,
)  # fmt: skip
from ckmlir.ops.contraction.contraction_spec import SCALARS, accumulator_names, computing_type
from ckmlir.ops.contraction.sum_parts import SumSpec
from ckmlir.ops.tensors.blocks import Block, kernel_arguments
from ckmlir.ops.tensors.expression import parse
from ckmlir.ops.tensors.tiles import evaluate_tiles
from ckmlir.targets import Target

SCHEDULE = "schedule sum_parts 1; ahead load 4"
"""Loads of the next parts are on their way while one is added."""


def build(spec: SumSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    computing = computing_type(spec.dtypes[0])
    arguments = {
        **kernel_arguments(spec),
        "parts": i32,
        "part_stride": i32,
        **dict.fromkeys(SCALARS, f64 if computing == "f64" else f32),
    }

    @kernel(spec.name, target=target, waves=spec.waves, arguments=arguments)
    def sum_parts(given: Any) -> None:
        block = _Parts(spec, given)
        origin = block.places(workgroup_id(0), range(spec.rank))
        unit = spec.unit(spec.arrays[0])
        lies = block.distribution(spec.vector(spec.arrays[0]), spec.rank - 1 if unit is None else unit)
        names, dtype = spec.arrays[: spec.sums], spec.dtypes[0]
        start = [full(spec.tile, 0, dtype, lies) for _ in names]
        with loop(0, given.parts, 1, carry=start, schedule=Schedule.parse(SCHEDULE)) as step:
            with stage("load"):
                block.part = step.index
                loaded = [load(block.window(name, origin)[0], lies) for name in names]
            with stage("add"):
                step.carry(*(total + one for total, one in zip(step.carried, loaded, strict=True)))
        sums = dict(zip(accumulator_names(spec.sums), step.results, strict=True))
        sides = spec.arrays[spec.sums : -1]
        variables = {**sums, **{name: block.load(name, origin, lies) for name in sides}}
        window, _ = block.window(spec.arrays[-1], origin)
        store(_value(spec, given, variables), window)

    return sum_parts


class _Parts(Block):
    """The tile of a workgroup; of the parts, that of one."""

    part: Scalar

    def __init__(self, spec: SumSpec, given: Any) -> None:
        super().__init__(spec, given)
        self.sums = spec.arrays[: spec.sums]

    def pointer(self, name: str) -> Pointer:
        """Where an array begins, or of parts the one that is added next."""
        found: Pointer = super().pointer(name)
        if name not in self.sums:
            return found
        distance = self.part.to("i64") * self.given.part_stride.to("i64")
        return found.offset(distance.multiple_of(self.spec.aligns[self.spec.place(name)]))


def _value(spec: SumSpec, given: Any, variables: dict[str, Tile]) -> Tile:
    """What is stored, in C's type."""
    first, out = next(iter(variables.values())), spec.dtypes[-1]
    if not spec.op:
        return cast(first, out)
    expression = parse(spec.op, (*variables, *SCALARS))
    computing = computing_type(spec.dtypes[0])
    wide = {name: cast(tile, computing) for name, tile in variables.items()}
    for name in SCALARS:
        if name in expression.variables:
            wide[name] = full(spec.tile, getattr(given, name), computing, first.type.distribution)
    return cast(evaluate_tiles(expression, wide, computing, first), out)
