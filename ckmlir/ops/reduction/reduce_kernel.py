"""The kernel of a reduction: a work-item follows every register position of its tile through the reduced dimensions,
and lanes and waves fold what is left at the end.
"""

from collections.abc import Sequence
from typing import Any

from ckmlir.lang import (
    Kernel,
    Pointer,
    Scalar,
    Tile,
    atomic_add,
    atomic_max,
    cast,
    f32,
    full,
    i32,
    inside,
    join_axes,
    kernel,
    load,
    loop,
    reduce_max,
    reduce_min,
    reduce_sum,
    store,
    where,
    workgroup_id,
)  # fmt: skip
from ckmlir.ops.reduction.kinds import ATOMIC, KINDS
from ckmlir.ops.reduction.problem import ReduceSpec
from ckmlir.ops.tensors.blocks import Block, Place, kernel_arguments
from ckmlir.ops.tensors.expression import parse
from ckmlir.ops.tensors.tiles import evaluate_tiles
from ckmlir.targets import Target

FOLDS = {"+": reduce_sum, "maximum": reduce_max, "minimum": reduce_min}


def build(spec: ReduceSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments = {**kernel_arguments(spec), "steps": i32, "part_steps": i32, "part_results": i32, "share": f32}

    @kernel(spec.name, target=target, waves=spec.waves, arguments=arguments)
    def reduction(given: Any) -> None:
        block = _Reduction(spec, given)
        if spec.looped:
            lower = workgroup_id(1) * given.part_steps
            with loop(lower, (lower + given.part_steps).minimum(given.steps), 1, carry=block.start()) as step:
                step.carry(*block.step(step.carried, step.index))
            results = step.results
        else:
            results = block.step(None, 0)
        for place, result in enumerate(results):
            block.finish(place, result)

    return reduction


class _Reduction(Block):
    """The results of one workgroup."""

    def __init__(self, spec: ReduceSpec, given: Any) -> None:
        super().__init__(spec, given)
        self.reduction = spec
        self.computing = "i32" if spec.integer else "f32"
        unit = spec.unit("x")
        self.lies = self.distribution(spec.vector("x"), spec.rank - 1 if unit is None else unit)
        self.kept = self.places(workgroup_id(0), range(spec.kept))
        self.ragged = any(spec.multiples[dim] != spec.tile[dim] for dim in spec.reduced_dims)

    def start(self) -> list[Tile]:
        """What changes nothing, for every output."""
        return [full(self.spec.tile, self.identity(kind), self.computing, self.lies) for kind in self.reduction.kinds]

    def identity(self, kind: str) -> float:
        """What changes nothing in a reduction."""
        return KINDS[kind].integer_identity if self.reduction.integer else KINDS[kind].identity

    def step(self, so_far: Sequence[Tile] | None, index: Scalar | int) -> list[Tile]:
        """One more tile of the reduced dimensions combined with what has been, for every output."""
        whole: dict[int, Place] = dict.fromkeys(self.reduction.reduced_dims, 0)
        reduced = whole if isinstance(index, int) else self.places(index, self.reduction.reduced_dims)
        window, _ = self.window("x", {**self.kept, **reduced})
        x = cast(load(window, self.lies), self.computing)
        exists = inside(window, self.lies) if self.ragged else None
        found = []
        for place, (name, before) in enumerate(zip(self.reduction.kinds, self.reduction.before, strict=True)):
            kind = KINDS[name]
            element = self.value(kind.before, self.value(before, x))
            if exists is not None:
                element = where(exists, element, self.identity(name))
            found.append(element if so_far is None else _combined(kind.combine, so_far[place], element))
        return found

    def value(self, text: str, tile: Tile) -> Tile:
        """An expression of `a` on a tile."""
        return evaluate_tiles(parse(text, ("a",)), {"a": tile}, self.computing, tile)

    def finish(self, place: int, result: Tile) -> None:
        """Fold an output's tile and write what is left."""
        spec, kind = self.reduction, KINDS[self.reduction.kinds[place]]
        for _ in spec.reduced_dims[1:]:  # one dimension, so that waves exchange their results once
            result = join_axes(result, spec.kept)
        result = FOLDS[kind.combine](result, spec.kept)
        if kind.combine != "+" and not spec.integer:
            result = _combined(kind.combine, result, self.identity(spec.kinds[place]))  # not NaN, whatever the length
        name = spec.arrays[1 + place]
        if spec.stores != "partial":
            if kind.divides:
                result = result * self.given.share
            result = self.value(spec.after[place], result)
        window, _ = self.window(name, self.kept)
        if spec.stores == "atomic":
            update = atomic_add if ATOMIC[spec.kinds[place]] == "add" else atomic_max
            update(cast(result, spec.dtypes[1 + place]), window)
        else:
            store(cast(result, spec.dtypes[1 + place]), window)

    def pointer(self, name: str) -> Pointer:
        """Partial results of a part lie behind those of the parts before it."""
        found: Pointer = super().pointer(name)
        if self.reduction.stores != "partial" or name == "x":
            return found
        return found.offset(workgroup_id(1) * self.given.part_results)


def _combined(combine: str, left: Tile, right: Tile | float) -> Tile:
    found: Tile = left + right if combine == "+" else getattr(left, combine)(right)
    return found
