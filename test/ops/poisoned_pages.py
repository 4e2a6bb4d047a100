"""Inputs of attention over pages with NaN wherever no key lies."""

from __future__ import annotations

from typing import Any

import numpy as np


def poisoned(problem: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    """The arrays with NaN in all rows of K and V that no key lies in; those of sources without pages as they are."""
    source = problem.source
    if not source.word.startswith(("pages", "lists")):
        return arrays
    unused = np.ones((source.pool, source.size), np.bool_)
    for number in range(problem.b):
        length = problem.keys.of(arrays, number)[1]
        for place, page in enumerate(source.used(problem, arrays, number)):
            unused[page, : length - place * source.size] = False
    found = dict(arrays)
    for name in "kv":
        found[name] = arrays[name].copy()
        if not source.vector:
            problem.by_head(found[name]).swapaxes(1, 2)[unused] = np.nan
        elif name == "k":  # (pages, heads, vectors, keys, x)
            found[name].transpose(0, 3, 1, 2, 4)[unused] = np.nan
        else:  # (pages, heads, keys / x, channels, x)
            shape = (source.pool, source.size // source.vector, source.vector)
            found[name].transpose(0, 2, 4, 1, 3)[unused.reshape(shape)] = np.nan
    return found
