"""The walk through blocks of rows that have one of several matrices B: the experts of a routing."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from ckmlir.lang import Scalar, Tile, exit_unless, i32, load, ptr, together, view, where, workgroup_id
from ckmlir.lang.kernel import Argument
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.merged_kernel import distance_arguments
from ckmlir.ops.contraction.reciprocals_kernel import divided
from ckmlir.ops.contraction.rows_kernel import Told
from ckmlir.ops.contraction.scaling import ScaleSpec, of_matrices
from ckmlir.ops.contraction.side import NAMES, SideSpec
from ckmlir.ops.contraction.work_kernel import Body, Work, align_of, element_types, known_sizes
from ckmlir.ops.moe.routing import DIVISORS, LISTS, in_order
from ckmlir.ops.moe.routing_kernel import entry_of, token_and_slot

Words = Callable[[Scalar, int], Tile]


class Experts:
    """A workgroup for each block of the places that a routing may take, along x. Those behind the places taken have
    nothing to do; nor have those of a unit whose expert is none.

    A place is a row of the block: an entry of the routing, or padding. Arrays of `ContractionSpec.rows` have the row
    of an entry's token, or one for each entry; the others one for each place. Matrices B with their scales, and D
    tensors that are rows or numbers, are those of the unit's expert.
    """

    def arguments(self, spec: ContractionSpec) -> dict[str, Argument]:
        """See `Walk`."""
        lists, divisors = ([(name, kind) for name in names] for names, kind in ((LISTS, ptr("i32")), (DIVISORS, i32)))
        arrays = [(name, ptr(dtype)) for name, dtype in element_types(spec).items()]
        strides = ("b_stride", *scale_stride(spec), *(f"{name}_stride" for name in spec.matrices_behind))
        integers = ("n", "k", *distance_arguments(spec), *strides, "places", "tokens", "slots", "experts")
        return dict(in_order(lists, divisors, arrays, ((name, i32) for name in integers)))

    def walk(self, spec: ContractionSpec, given: SimpleNamespace, body: Body) -> None:
        """See `Walk`."""
        down, across = divided(workgroup_id(0), given.across, given.of_across)
        row, column = down * spec.block[0], across * spec.block[1]
        unit, _ = divided(down, given.blocks, given.of_blocks)
        places = ((unit + 1) * given.blocks * spec.block[0]).multiple_of(spec.block[0])
        sizes = known_sizes(spec, _sizes(given, places))
        # Units behind those taken are in the list: both numbers are loaded at once, one is thrown away, and with them
        # the words that A's rows wait for.
        words = _words(given, places)
        total, expert = given.totals.scalar(0), given.expert_ids.scalar(unit)
        of_a = [words(row, spec.block[0])] if "a" in spec.listed else []
        together(total, expert, *of_a)
        taken = total.minimum(given.places)
        exit_unless((places <= taken) & (expert >= 0) & (expert < given.experts))
        arrays = {name: getattr(given, name) for name in spec.arrays}
        for name, stride in _strides(spec, given).items():
            distance = expert.to("i64") * stride.to("i64")
            arrays[name] = arrays[name].offset(distance.multiple_of(align_of(spec, name)))
        of_block = {"a": lambda *_: of_a[0]}
        listed = {name: _told(word, given, of_block.get(name, words)) for name, word in spec.listed.items()}
        body(Work(sizes, arrays, given, row, column, 0, sizes["k"], listed=listed))


def _sizes(given: SimpleNamespace, places: Scalar) -> SimpleNamespace:
    """Of a product of so many places."""
    return SimpleNamespace(m=places, n=given.n, k=given.k)


def _strides(spec: ContractionSpec, given: SimpleNamespace) -> dict[str, Scalar]:
    """Of arrays that are an expert's own the elements from one expert's to the next's."""
    sides = zip(NAMES, map(SideSpec.parse, spec.side), strict=False)
    own = {name: getattr(given, f"ld_{name}") for name, side in sides if side.kind in ("row", "scalar")}
    own |= {name: getattr(given, f"ld_{name}") for name in spec.bias_behind}
    behind = {name: getattr(given, f"{name}_stride") for name in spec.matrices_behind}
    scaling = of_matrices(map(ScaleSpec.parse, spec.scaling))
    of_b = [name for one in scaling for name in (one.name, *one.zero_names)]
    scales = {name: getattr(given, stride) for name in of_b for stride in scale_stride(spec)}
    return {**dict.fromkeys(spec.tensors[1:], given.b_stride), **scales, **own, **behind}


def scale_stride(spec: ContractionSpec) -> tuple[str, ...]:
    """The argument that leads from the scales of one expert's matrix to those of the next's, where there are any."""
    return ("scale_stride",) * bool(spec.scaling)


def _words(given: SimpleNamespace, places: Scalar) -> Words:
    """Words of the list, of so many places from one on."""
    ids = view(given.sorted_ids, (places,), (1,))
    return lambda row, count: load(ids.pad(count).window((count,), (row,)))


def _told(word: str, given: SimpleNamespace, words: Words) -> Told:
    """What tells rows of tokens, or of entries; see `ckmlir.ops.moe.routing` for the words of the list."""

    def of_token(row: Scalar, count: int) -> Tile:
        token, slot = token_and_slot(words(row, count))
        return where(slot < given.slots, token, -1)  # a token that is none is behind the array's last row

    def of_entry(row: Scalar, count: int) -> Tile:
        return entry_of(words(row, count), given.tokens, given.slots)

    known: dict[str, tuple[Scalar, Callable[[Scalar, int], Tile]]] = {
        "token": (given.tokens, of_token),
        "entry": (given.tokens * given.slots, of_entry),
    }
    return Told(*known[word])
