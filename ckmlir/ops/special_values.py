"""Input values that are seldom thought of: NaN, infinities, denormals, the ends of a type, and whole rows, slices and
arrays of one of them, sometimes with another beside."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import Operator
from ckmlir.ops.request import RequestError
from ckmlir.ops.shared_places import from_shared_places
from ckmlir.targets import Target

KINDS = ("ordinary", "special", "huge", "tiny")
"""What `special_values` makes: what was given; single elements, rows and slices that are special; all multiplied by
HUGE, or by TINY."""
HUGE, TINY = 2.0**66, 2.0**-100
Powers = tuple[tuple[int, int], tuple[int, int]]
"""Those of HUGE by which an operator's first two arrays of floats are multiplied, and each two that follow."""
ALL: Powers = ((1, 1), (1, 1))
FEWER: tuple[Powers, ...] = (((1, -1), (1, -1)), ((1, -1), (0, 0)))
"""Whose products f32 holds: one of two that are multiplied, such as A and B, or Q and K, and then V; or no others,
where V is multiplied as well."""
SPECIAL = (
    *[np.nan] * 4, np.inf, -np.inf, 0.0, -0.0, 2.0**-149, -(2.0**-140), 2.0**-126, 2.0**-20, 65504.0, -3e38, 1e20, 1.0,
)  # fmt: skip
ROWS, SINGLE = 8, 24
"""One row, and one element, in so many are special."""
SLICES, WHOLE, BESIDE = (0, 1, 1, 2, 3), 0.6, 0.25
"""How many slices of an array are special; how often one takes all of a dimension, and has one element of another
value."""


def special_inputs(
    kind: str, operator: Operator[Any, Any], problem: Any, target: Target, seed: int
) -> dict[str, Array]:
    """An operator's inputs with other values of a kind. Arrays of which it takes no such values, such as scales of a
    stated range, stay as they are.

    Products of two huge values are beyond f32. Where nothing would be promised of any output for that, other arrays
    are huge, the first of `FEWER` with which something is.
    """
    specs = {array.name: array for array in operator.arrays(problem)}
    ordinary = operator.inputs(problem, target, seed)

    def taken(powers: Powers) -> dict[str, Array]:
        found = dict(ordinary)
        for name, array in special_values(kind, specs, ordinary, seed, powers).items():
            with contextlib.suppress(RequestError):
                operator.check_inputs(problem, {**ordinary, name: array})
                found[name] = array
        return found

    found = taken(ALL)
    for powers in FEWER if kind == "huge" else ():
        if _promises(operator, problem, found, target):
            break
        found = taken(powers)
    return found


def _promises(operator: Operator[Any, Any], problem: Any, arrays: Mapping[str, Array], target: Target) -> bool:
    """Whether something is promised of an element of an output."""
    reference = operator.expected(problem, arrays, target)
    tolerances = operator.tolerances(problem, arrays, reference, target)
    return not all(np.all(tolerances[name].unspecified) for name in reference)


def special_values(
    kind: str, specs: Mapping[str, ArraySpec], arrays: Mapping[str, Array], seed: int, powers: Powers = ALL
) -> dict[str, Array]:
    """Input arrays with other values of a kind, made from the seed; integers and packed elements stay as they are.

    Args:
        powers: of HUGE, that huge values are multiplied by.
    """
    changed = dict(arrays)
    floats = [name for name in arrays if not _stays(specs[name].dtype)]
    for place, name in enumerate(floats):
        huge = HUGE ** powers[place > 1][place % 2]
        changed[name] = _changed(kind, arrays[name], {"huge": huge, "tiny": TINY}.get(kind, 1.0), seed)
    return {name: from_shared_places(array, specs[name].strides) for name, array in changed.items()}


def _stays(dtype: str) -> bool:
    kind = find_dtype(dtype)
    return kind.is_integer or kind.packing is not None


def _changed(kind: str, array: Array, factor: float, seed: int) -> Array:
    if kind == "ordinary" or not array.size:
        return array
    wide = array.astype(np.float64, order="C") * factor
    if kind == "special":
        generator = np.random.default_rng([seed, array.size])
        _put_special(wide, generator)
        wide = np.where(array == 0, 0.0, wide)  # zeros that an operator makes fill up or mask
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        changed: Array = wide.astype(np.float32).astype(array.dtype)
    return changed


def _put_special(values: Array, generator: np.random.Generator) -> None:
    """Single elements first, then rows and slices, which stay whole."""
    single = generator.integers(0, SINGLE, values.shape) == 0
    values[single] = generator.choice(SPECIAL, int(single.sum()))
    rows = values.reshape(-1, values.shape[-1])
    whole = np.flatnonzero(generator.integers(0, ROWS, len(rows)) == 0)
    rows[whole] = generator.choice(SPECIAL, (len(whole), 1))
    whole = whole[generator.random(len(whole)) < BESIDE]
    rows[whole, generator.integers(0, rows.shape[1], len(whole))] = generator.choice(SPECIAL, len(whole))
    for _ in range(generator.choice(SLICES)):
        part = values[_drawn_slice(values.shape, generator)]
        part[...] = generator.choice(SPECIAL)
        if generator.random() < BESIDE:
            part[tuple(generator.integers(0, part.shape))] = generator.choice(SPECIAL)


def _drawn_slice(shape: Sequence[int], generator: np.random.Generator) -> tuple[slice, ...]:
    """Of every dimension all places, or a few that follow each other."""
    found = []
    for length in shape:
        start = int(generator.integers(0, length))
        few = slice(start, start + int(generator.integers(1, 4)))
        found.append(slice(None) if generator.random() < WHOLE else few)
    return tuple(found)
