"""The kernel of `sum_parts`: a loop over parts that loads ahead, one expression, one store.

Shares of the parts are rows of one tile, of which each has work-items of its own; they are added behind the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Kernel,
    Pointer,
    Scalar,
    Tile,
    Window,
    cast,
    f32,
    f64,
    full,
    i32,
    kernel,
    load,
    loop,
    reduce,
    stage,
    store,
    view,
    workgroup_id,
)  # fmt: skip
from ckmlir.ops.contraction.contraction_spec import SCALARS, accumulator_names, computing_type
from ckmlir.ops.contraction.sum_parts import SumSpec
from ckmlir.ops.tensors.blocks import Block, Place, kernel_arguments
from ckmlir.ops.tensors.expression import parse
from ckmlir.ops.tensors.tiles import evaluate_tiles
from ckmlir.targets import Target


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
        shared = block.shared(spec.rank - 1 if unit is None else unit)
        names, dtype = spec.arrays[: spec.sums], spec.dtypes[0]
        start = [full(shared.lengths, 0, dtype, shared) for _ in names]
        schedule = Schedule.parse(f"schedule sum_parts 1; ahead load {spec.ahead}")
        with loop(0, given.parts, spec.shares, carry=start, schedule=schedule) as step:
            with stage("load"):
                block.part = step.index
                loaded = [load(block.parts(name, origin), shared) for name in names]
            with stage("add"):
                step.carry(*(total + one for total, one in zip(step.carried, loaded, strict=True)))
        totals, lies = step.results, shared
        if spec.shares > 1:
            totals = [reduce([one], 0, lambda first, second: [first[0] + second[0]])[0] for one in totals]
            lies = shared.reduce(0)
        sums = dict(zip(accumulator_names(spec.sums), totals, strict=True))
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
        self.sums, self.shares = spec.arrays[: spec.sums], spec.shares

    def pointer(self, name: str) -> Pointer:
        """Where an array begins, or of parts the one that is added next."""
        found: Pointer = super().pointer(name)
        if name not in self.sums:
            return found
        distance = self.part.to("i64") * self.given.part_stride.to("i64")
        return found.offset(distance.multiple_of(self.spec.aligns[self.spec.place(name)]))

    def shared(self, contiguous: int) -> Distribution:
        """How a tile of parts lies, which has a dimension of shares before the others if there are several."""
        spec, vector = self.spec, self.spec.vector(self.spec.arrays[0])
        if self.shares == 1:
            return self.distribution(vector, contiguous)
        return coalesced((self.shares, *spec.tile), spec.waves, 1 + contiguous, vector)

    def parts(self, name: str, origin: Mapping[int, Place]) -> Window:
        """The tile of the part that is added next, or of one for each share, as far as there are so many."""
        if self.shares == 1:
            return self.window(name, origin)[0]
        spec, dims = self.spec, range(self.spec.rank)
        step = self.given.part_stride.multiple_of(spec.aligns[spec.place(name)])
        lengths, strides = [self.given.parts - self.part, *self.lengths], [step, *self.strides(name, dims)]
        extents = [self.shares, *spec.tile]
        found = view(self.pointer(name), lengths, strides).pad(*extents)
        return found.window(extents, [0, *(origin[dim] for dim in dims)])


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
