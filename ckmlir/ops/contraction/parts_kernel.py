"""What a workgroup's place in the grid says: its part of K, and its product of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from ckmlir.lang import Pointer, Scalar, workgroup_id
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.work_kernel import align_of


def part_of_k(
    spec: ContractionSpec, given: SimpleNamespace, part: Scalar | None, k: Scalar
) -> tuple[Scalar | int, Scalar]:
    """The range of K that a workgroup sums: all of it, or a part of `part_k`."""
    if spec.sink == "store" or part is None:
        return 0, k
    length = whole_steps(spec, given).part_k
    begin = part * length
    return begin, (begin + length).minimum(k)


def whole_steps(spec: ContractionSpec, given: SimpleNamespace) -> SimpleNamespace:
    """The arguments, with what is promised of `part_k`. Kernels that may end early promise it before: only where a
    promise is made whatever they do is it kept with the argument.
    """
    if spec.sink == "store":
        return given
    return SimpleNamespace(**{**vars(given), "part_k": given.part_k.multiple_of(spec.block[2])})


def in_part(spec: ContractionSpec, pointer: Pointer, given: SimpleNamespace, part: Scalar | None) -> Pointer:
    """Where an output of a part begins: partial sums lie behind those of the parts before it."""
    if spec.sink != "partial" or part is None:
        return pointer
    distance = part.to("i64") * given.part_outputs.to("i64")
    return pointer.offset(distance.multiple_of(spec.align[2]))


def part_arguments(spec: ContractionSpec) -> list[str]:
    """Kernel arguments that say how parts lie."""
    return {"store": [], "atomic": ["part_k"], "partial": ["part_k", "part_outputs"]}[spec.sink]


def batch_coordinates(spec: ContractionSpec, given: SimpleNamespace) -> list[Scalar]:
    """This workgroup's place in each dimension of the batch, which is numbered along y, the last the fastest."""
    place = workgroup_id(1)
    found: list[Scalar] = []
    for dim in reversed(range(1, spec.batch)):
        length = getattr(given, f"batch{dim}")
        found.insert(0, place % length)
        place = place // length
    return [place, *found] if spec.batch else []


def in_batch(
    spec: ContractionSpec, name: str, pointer: Pointer, given: SimpleNamespace, coordinates: Sequence[Scalar]
) -> Pointer:
    """Where an array of this workgroup's product begins."""
    for dim, coordinate in enumerate(coordinates):
        stride = getattr(given, f"{name}_batch{dim}")
        pointer = pointer.offset((coordinate.to("i64") * stride.to("i64")).multiple_of(align_of(spec, name)))
    return pointer


def batch_arguments(spec: ContractionSpec) -> list[str]:
    """Kernel arguments that say how arrays lie in the batch."""
    lengths = [f"batch{dim}" for dim in range(1, spec.batch)]
    return [*lengths, *(f"{name}_batch{dim}" for name in spec.arrays for dim in range(spec.batch))]
