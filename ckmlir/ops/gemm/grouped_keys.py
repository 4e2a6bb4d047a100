"""Keys of products of different sizes: numbers of each product, where their matrices lie, and how they are launched."""

from __future__ import annotations

from collections.abc import Sequence

from ckmlir.ops.contraction.contraction_spec import SCALARS
from ckmlir.ops.contraction.grouped import ForEach, PitchForEach, PlaceForEach, RealForEach
from ckmlir.ops.request import Choice, Flag, Integer, Key

EACH = (
    ForEach("m", None, "rows of each C, or one number for all; by default 64, 128, …, of 4 products if no key says"),
    ForEach("n", (256,), "columns of each C"),
    ForEach("k", (128,), "length of each product's sums; 0 gives zeros"),
    PitchForEach("lda", None, "elements from one row of each a to the next", 1, of=("m", "k")),
    PitchForEach("ldb", None, "elements from one row of each b to the next", 1, of=("n", "k")),
    PitchForEach("ldc", None, "elements from one row of each c to the next", 1, of=("n",)),
    ForEach("split_k", (1,), "parts of each product's sums, computed by workgroups of their own", 1),
)
NUMBERS = tuple(RealForEach(name, (1.0,), "a number of each product that op may name") for name in SCALARS)
"""Those of expressions."""


def place_keys(names: Sequence[str]) -> tuple[Key, ...]:
    """The keys of arrays that hold matrices of all products."""
    return tuple(
        key
        for name in names
        for key in (
            PlaceForEach(
                f"{name}_at", None, f"elements of one array {name} at which each {name} begins; by default {name}_0, …"
            ),
            Integer(f"{name}_size", None, "elements of that array; by default as far as the products reach"),
        )
    )


PLACES = place_keys("abc")
TABLES = ("host", "device")
LAUNCH_KEYS = (
    Flag("persistent", None, "whether workgroups stay and take block after block; by default where that is faster"),
    Choice("table", "host", "where the table of products comes from: packed on the host, or an input", TABLES),
)
