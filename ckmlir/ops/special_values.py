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
2^66, or by 2^-100."""
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
    """
    specs = {array.name: array for array in operator.arrays(problem)}
    ordinary = operator.inputs(problem, target, seed)
    found = dict(ordinary)
    for name, array in special_values(kind, specs, ordinary, seed).items():
        with contextlib.suppress(RequestError):
            operator.check_inputs(problem, {**ordinary, name: array})
            found[name] = array
    return found


def special_values(
    kind: str, specs: Mapping[str, ArraySpec], arrays: Mapping[str, Array], seed: int
) -> dict[str, Array]:
    """Input arrays with other values of a kind, made from the seed; integers and packed elements stay as they are."""
    changed = {
        name: array if _stays(specs[name].dtype) else _changed(kind, array, seed) for name, array in arrays.items()
    }
    return {name: from_shared_places(array, specs[name].strides) for name, array in changed.items()}


def _stays(dtype: str) -> bool:
    kind = find_dtype(dtype)
    return kind.is_integer or kind.packing is not None


def _changed(kind: str, array: Array, seed: int) -> Array:
    if kind == "ordinary" or not array.size:
        return array
    wide = array.astype(np.float64, order="C")
    if kind != "special":
        wide *= 2.0**66 if kind == "huge" else 2.0**-100
    else:
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
