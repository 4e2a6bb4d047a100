"""Which block of which product a workgroup computes, and which part of its sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace

from ckmlir.lang import Pointer, Scalar, workgroup_id
from ckmlir.ops.contraction.contraction_spec import ContractionSpec


def block_of_grid(spec: ContractionSpec, n: Scalar) -> tuple[Scalar, Scalar]:
    """First row and column of this workgroup's block; blocks are numbered row by row along x."""
    bm, bn, _ = spec.block
    tiles_n = (n + (bn - 1)) // bn
    return workgroup_id(0) // tiles_n * bm, workgroup_id(0) % tiles_n * bn


def batch_coordinates(spec: ContractionSpec, given: SimpleNamespace) -> list[Scalar]:
    """This workgroup's place in each dimension of the batch, which is numbered along y, the last the fastest."""
    place = workgroup_id(1)
    found: list[Scalar] = []
    for dim in reversed(range(1, spec.batch)):
        length = getattr(given, f"batch{dim}")
        found.insert(0, place % length)
        place = place // length
    return [place, *found] if spec.batch else []


def in_batch(name: str, pointer: Pointer, given: SimpleNamespace, coordinates: Sequence[Scalar], align: int) -> Pointer:
    """Where an array of this workgroup's product begins."""
    for dim, coordinate in enumerate(coordinates):
        stride = getattr(given, f"{name}_batch{dim}")
        pointer = pointer.offset((coordinate.to("i64") * stride.to("i64")).multiple_of(align))
    return pointer


def batch_arguments(spec: ContractionSpec, names: Sequence[str]) -> list[str]:
    """Kernel arguments that say how arrays lie in the batch."""
    lengths = [f"batch{dim}" for dim in range(1, spec.batch)]
    return [*lengths, *(f"{name}_batch{dim}" for name in names for dim in range(spec.batch))]


def part_of_k(spec: ContractionSpec, given: SimpleNamespace, k: Scalar) -> tuple[Scalar | int, Scalar]:
    """The range of K that this workgroup sums: all of it, or its part of `part_k`; parts are numbered along z."""
    if spec.sink == "store":
        return 0, k
    depth = spec.block[2]
    begin = (workgroup_id(2) * given.part_k).multiple_of(depth)
    return begin, (begin + given.part_k).minimum(k).multiple_of(math.gcd(depth, k.multiple))


def in_part(spec: ContractionSpec, pointer: Pointer, given: SimpleNamespace) -> Pointer:
    """Where an output of this workgroup's part begins: partial sums lie behind those of the parts before it."""
    if spec.sink != "partial":
        return pointer
    distance = workgroup_id(2).to("i64") * given.part_outputs.to("i64")
    return pointer.offset(distance.multiple_of(spec.align[2]))


def part_arguments(spec: ContractionSpec) -> list[str]:
    """Kernel arguments that say how parts lie."""
    return {"store": [], "atomic": ["part_k"], "partial": ["part_k", "part_outputs"]}[spec.sink]
