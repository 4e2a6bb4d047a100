"""What kernels of products may consist of, as data, and what of a kernel follows from that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from ckmlir.ops.contraction.contraction_spec import EPILOGUES, ContractionSpec
from ckmlir.ops.contraction.slices import slices_of
from ckmlir.ops.contraction.wishes import elements_in
from ckmlir.ops.remembered import Remembered
from ckmlir.ops.schedules import GEMM as SCHEDULES
from ckmlir.targets import Target

SIDES, DEPTHS = (16, 32, 64, 128, 256), (32, 64, 128, 256)
"""Rows and columns of blocks, and bytes of their depth, that are worth trying."""
LARGE_SIDES, LARGE_DEPTHS = (96, 128, 192, 224, 256), (64, 128)
"""Those of large blocks, which need not be powers of two: other numbers of them may leave fewer compute units idle."""
UNIT_SIDES = ((96, 64), (160, 64), (160, 128), (160, 256))
"""Those of blocks as high as units of 96 and 160 places of experts."""
LONGEST = 1 << 16
"""More rows, columns or depth than any chip's registers and LDS hold of a block."""
WAVES = ((1, 1), (1, 2), (2, 1), (2, 2), (1, 4), (4, 1), (2, 4), (4, 2))
"""Along m and n: up to two waves a SIMD."""


def axes_of(spec: ContractionSpec, target: Target) -> dict[str, Sequence[object]]:
    """The values by field for products of a signature; not all combinations make sense."""
    of_units = ((*sides, depth) for sides, depth in product(UNIT_SIDES, LARGE_DEPTHS))
    large = product(LARGE_SIDES, LARGE_SIDES, LARGE_DEPTHS)
    sizes = dict.fromkeys((*product(SIDES, SIDES, DEPTHS), *large, *of_units))
    blocks = tuple((rows, columns, elements_in(depth, spec.dtype)) for rows, columns, depth in sizes)
    shapes = dict.fromkeys((one.m, one.n, one.k) for one in target.mfmas(*spec.multiplied, sparse=bool(spec.sparse)))
    return {
        "block": blocks, "waves": WAVES, "mfma": tuple(shapes), "epilogue": EPILOGUES, "schedule": tuple(SCHEDULES),
    }  # fmt: skip


def padded(lengths: Sequence[tuple[int, int, int]], block: tuple[int, int, int]) -> str:
    """The letters of m, n and k of which a product has a length that the block does not divide."""
    return "".join(letter for place, letter in enumerate("mnk") if any(one[place] % block[place] for one in lengths))


def varying(
    spec: ContractionSpec, lengths: Sequence[tuple[int, int, int]]
) -> Callable[[Mapping[str, Any]], ContractionSpec]:
    """What gives a kernel with other fields of the algorithm, and what follows from them (`Operator.varying`).

    Blocks of other lengths have other sizes beside them, and go through LDS in other slices. Only what followed from
    the block before does so: other padding, or slices, were named.
    """
    ways: dict[str, Callable[[ContractionSpec], object]] = {
        "pad": Remembered[ContractionSpec, str](lambda one: padded(lengths, one.block)), "slices": slices_of,
    }  # fmt: skip
    follows = {name: of for name, of in ways.items() if of(spec) == getattr(spec, name)}

    def varied(fields: Mapping[str, Any]) -> ContractionSpec:
        found = spec.with_fields(fields)
        lengths_of_tiles = found.block + found.waves + found.mfma
        if found.schedule not in SCHEDULES or min(lengths_of_tiles) < 1 or max(lengths_of_tiles) > LONGEST:
            return found  # which is refused when it is validated
        own = {name: of(found) for name, of in follows.items() if name not in fields}
        changed = {name: value for name, value in own.items() if value != getattr(found, name)}
        return found.with_fields(changed) if changed else found

    return varied
