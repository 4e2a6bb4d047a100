"""The walk through classes of places of images, and what a class sees of the arrays: see `residues`."""

from __future__ import annotations

from functools import reduce
from math import gcd
from operator import mul
from types import SimpleNamespace

from ckmlir.dialect.distribution_builders import QUAD
from ckmlir.lang import Scalar, exit_unless, view, workgroup_id
from ckmlir.lang.kernel import Argument
from ckmlir.lang.trace import current
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.loop_kernel import Operand
from ckmlir.ops.contraction.merged_kernel import distance_arguments
from ckmlir.ops.contraction.operands_kernel import Matrix, array
from ckmlir.ops.contraction.parts_kernel import (
    batch_arguments,
    batch_coordinates,
    in_batch,
    in_part,
    part_arguments,
    part_of_k,
    whole_steps,
)  # fmt: skip
from ckmlir.ops.contraction.reciprocals_kernel import divided
from ckmlir.ops.contraction.residues import ResiduesSpec
from ckmlir.ops.contraction.rows_kernel import Array, Rows
from ckmlir.ops.contraction.side import NAMES, SideSpec
from ckmlir.ops.contraction.windows import rank_of
from ckmlir.ops.contraction.windows_kernel import InQuads, patch_rows
from ckmlir.ops.contraction.work_kernel import Body, Work, align_of, block_at, in_order
from ckmlir.targets.cdna import WAVE_SIZE


class Classes:
    """A workgroup for each block of each class, along x, as many for each as the one with the most rows has; for each
    group of channels along y; for each part of K along z, of which classes with short sums have none in the last. The
    class with the longest sums comes first, so that others fill compute units behind it.

    A block begins at a row of an image, to which the pointers move, so that only what it spans has to be within the
    reach of 32 bits.
    """

    def arguments(self, spec: ContractionSpec) -> dict[str, Argument]:
        """See `walks_kernel.Walk`."""
        beside = (*distance_arguments(spec), *batch_arguments(spec), *part_arguments(spec))
        return in_order(spec, ("n", "blocks", "of_blocks", *beside))

    def walk(self, spec: ContractionSpec, given: SimpleNamespace, body: Body) -> None:
        """See `walks_kernel.Walk`."""
        rank, place = rank_of(spec.windows), workgroup_id(0)
        which, place = divided(place, given.blocks, given.of_blocks)
        numbers = which
        own: dict[str, Scalar] = {}
        for dim in reversed(range(rank)):
            classes, first = getattr(given, f"classes{dim}"), numbers
            if dim:
                numbers, first = divided(numbers, classes, getattr(given, f"of_classes{dim}"))
            first = first + getattr(given, f"longest{dim}")
            first = (first < classes).select(first, first - classes)
            own |= {f"{name}{dim}": one for name, one in _class_of(given, dim, first).items()}
        counts = [own[f"count{dim}"] for dim in range(rank)]
        taps = [own[f"taps{dim}"] for dim in range(rank)]
        each, depth = reduce(mul, counts), reduce(mul, taps)
        n, given = given.n.multiple_of(spec.align[2]), whole_steps(spec, given)
        row, column = block_at(spec, place, n)
        rows = given.images * each
        exit_unless(row < rows)
        image = row // each
        seen = SimpleNamespace(**{**vars(given), **own, "images": given.images - image})
        arrays = {}
        coordinates = batch_coordinates(spec, given)
        for name in spec.arrays:
            pointer = in_batch(spec, name, getattr(given, name), given, coordinates)
            side = _moves_with(spec, name)
            for at in _moved_along(side, rank):
                step = getattr(given, f"{side}_step{at}").multiple_of(align_of(spec, name))
                place = image if at == "" else own[f"first{at}"]
                pointer = pointer.offset((place.to("i64") * step.to("i64")).multiple_of(align_of(spec, name)))
            pointer = in_part(spec, pointer, given, workgroup_id(2)) if name in spec.outputs else pointer
            # Of images behind the loop: so few numbers are kept in the loop before.
            arrays[name] = pointer.held() if side == "dx" else pointer
        k = depth * given.channels.multiple_of(spec.align[0])
        if "k" not in spec.pad:
            k = k.multiple_of(spec.block[2])
        sizes = {"m": rows - image * each, "n": n, "k": k}
        body(Work(sizes, arrays, seen, row - image * each, column, *part_of_k(spec, given, workgroup_id(2), k)))


def _moves_with(spec: ContractionSpec, name: str) -> str:
    """Whose images an array has: those of dy, of dx, or none."""
    if name == "a":
        return "dy"
    if name in spec.outputs:
        return "dx"
    side = spec.side[NAMES.index(name)] if name in NAMES else ""
    return "dx" if side and SideSpec.parse(side).kind == "full" else ""


def _moved_along(side: str, rank: int) -> tuple[str | int, ...]:
    """The dimensions along which a block moves an array's pointer: to its image, `""`, and of dx to the first place of
    its class.
    """
    return {"dy": ("",), "dx": ("", *range(rank)), "": ()}[side]


def _class_of(given: SimpleNamespace, dim: int, first: Scalar) -> dict[str, Scalar]:
    """What there is along a dimension for the places first, first + stride, …: how many (`count`), how many places of
    the window they meet (`taps`, from `tap` on, `every` so many), and where in dy the first does (`left` before its
    beginning, or `skip` behind it) through the last of these.
    """

    def number(name: str) -> Scalar:
        found: Scalar = getattr(given, f"{name}{dim}")
        return found

    def more_if(condition: Scalar, name: str) -> Scalar:
        found: Scalar = condition.select(number(name) + 1, number(name))
        return found

    stride, every, step = number("stride"), number("every"), number("spread")
    rest = first + number("lefts_rest")
    is_further = rest >= stride
    position = more_if(is_further, "lefts")
    rest = is_further.select(rest - stride, rest)
    whole, left_over = divided(rest, number("common"), number("of_common"))
    _, tap = divided(whole * number("inverse"), every, number("of_every"))
    is_met = left_over.equals(0) & (tap < number("window"))
    taps = is_met.select(more_if(tap <= number("tops_rest"), "tops"), 0)
    # tap * dilation leaves the same rest by the stride, both being multiples of what they have in common.
    strides, _ = divided(tap * step - whole, every, number("of_every"))
    before = is_met.select(strides, 0) + (taps.maximum(1) - 1) * step
    return {
        "first": first,
        "count": more_if(first < number("counts_rest"), "counts"),
        "tap": is_met.select(tap, 0),
        "taps": taps,
        "before": (before - position).maximum(0),
        "skip": (position - before).maximum(0),
    }


def operands(spec: ContractionSpec, work: Work) -> list[Operand]:
    """A: dy seen through the class's windows; B: the weights of their places, last to first."""
    given, spatial = work.distances, range(rank_of(spec.windows))

    def numbers(name: str) -> list[Scalar]:
        return [getattr(given, f"{name}{dim}") for dim in spatial]

    described = ResiduesSpec.parse(spec.windows)
    known = max(spec.align[0], described.channels)
    channels, taps = given.channels.multiple_of(known), [one.maximum(1) for one in numbers("taps")]
    steps = [getattr(given, f"dy_step{at}").multiple_of(spec.align[0]) for at in ("", *spatial)]
    dy = view(work.arrays["a"], (given.images, *numbers("positions"), channels), (*steps, 1))
    for dim, count in reversed(list(enumerate(numbers("count")))):
        spread, reach = getattr(given, f"spread{dim}"), getattr(given, f"image{dim}")
        dy = dy.pad_left(1 + dim, getattr(given, f"before{dim}")).pad_right(1 + dim, reach)
        dy = dy.offset(1 + dim, getattr(given, f"skip{dim}"), reach)
        dy = dy.embed(1 + dim, (count, taps[dim]), (1, spread), few=int(described.few))
    places = range(1, 1 + 2 * len(spatial))
    dy = dy.permute(0, *places[::2], *places[1::2], 1 + 2 * len(spatial))
    rows = dy.merge(*range(1 + len(spatial))).merge(*range(1, 2 + len(spatial)))

    columns = work.sizes["n"].multiple_of(spec.align[1])
    window_steps = [one.multiple_of(spec.align[1]) for one in numbers("window_step")]
    lengths = (channels, *numbers("window"), columns)
    weights = view(work.arrays["b"], lengths, (given.row_step.multiple_of(spec.align[1]), *window_steps, 1))
    for dim, (tap, every) in enumerate(zip(numbers("tap"), numbers("every"), strict=True)):
        weights = weights.offset(1 + dim, tap, lengths[1 + dim] - tap).embed(1 + dim, (taps[dim],), (every,))
        weights = weights.reverse(1 + dim)
    last = 1 + len(spatial)
    weights = weights.permute(last, *range(1, last), 0).merge(*range(1, 1 + last))
    depth = spec.block[2]
    a = Matrix("a", patch_rows(spec, "a", rows, work.row), depth)
    b: Rows = patch_rows(spec, "b", weights, work.column)
    vector = _vector_of_fours(spec)
    # Single elements of dy have conditions of their own, too many for more beside them, unless these are bits.
    if vector and (spec.align[0] > 1 or described.few):
        b = InQuads(weights, work.column, spec.block[1], waves=spec.wave_count, vector=vector, ragged=True)
    return [a, Matrix("b", b, depth)]


def _vector_of_fours(spec: ContractionSpec) -> int:
    """Weights that a lane loads at a time of which it has four vectors, at four neighbouring places of K, so that lanes
    of a quad divide once for all; 0: there are not enough, or only of vectors that are not whole, and a chip that
    transposes while it reads LDS has whole ones of one place each anyway.
    """
    whole, fours = spec.align[1], spec.block[1] * spec.block[2] // (QUAD * WAVE_SIZE * spec.wave_count)
    if current().target.transposed_elements(8 * spec.in_lds[1].bytes) and fours < whole:
        return 0
    return gcd(whole, fours) if fours else 0


def array_of_class(spec: ContractionSpec, work: Work, name: str) -> Array:
    """The places of a class in the images, or in a D tensor like them, as rows; other D tensors as they are."""
    if not _moves_with(spec, name):
        return array(spec, work, name)
    given, n = work.distances, work.sizes["n"]
    align, spatial = align_of(spec, name), range(rank_of(spec.windows))
    pointer, lengths, steps = work.arrays[name], [given.images], [given.dx_step.multiple_of(align)]
    for dim in spatial:  # from the class's first place on, every so many elements
        step = getattr(given, f"dx_step{dim}").multiple_of(align)
        lengths.append(getattr(given, f"count{dim}"))
        steps.append((getattr(given, f"stride{dim}") * step).multiple_of(align))
    return Array(view(pointer, (*lengths, n), (*steps, 1)).merge(*range(1 + len(spatial))))


CLASSES = Classes()
