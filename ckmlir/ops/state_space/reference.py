"""The recurrence of `ssd_fwd` in NumPy and float64, place by place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ckmlir.ops.comparison import Array
from ckmlir.ops.state_space.problem import Problem


def recurrence(problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Y in memory's order, and the last state where it is asked for."""
    x, c = (problem.by_head(name, arrays[name]) for name in ("x", "c_mat"))
    y, last = np.zeros(x.shape), first_state(problem, arrays)
    with np.errstate(invalid="ignore", over="ignore"):
        for place, last in states(problem, arrays):
            y[:, :, place] = np.einsum("bhdn,bhn->bhd", last, c[:, :, place])
        if problem.skip != "none":
            y = y + problem.factors(arrays) * x
        if problem.gate:
            y = y * silu(problem.by_head("z", arrays["z"]))
    return {"y": problem.from_heads(y), **({"state": last} if problem.final else {})}


def states(problem: Problem, arrays: Mapping[str, Array]) -> Iterator[tuple[int, Array]]:
    """Every place with the state (batch, head, d, n) behind it."""
    x, b_mat = (problem.by_head(name, arrays[name]) for name in ("x", "b_mat"))
    decay, delta = (problem.steps(arrays[name]) for name in ("delta_a", "delta"))
    state = first_state(problem, arrays)
    for place in range(problem.s):
        added = (delta[:, :, place, None] * x[:, :, place])[..., None] * b_mat[:, :, place, None]
        state = np.exp(decay[:, :, place])[..., None, None] * state + added
        yield place, state


def first_state(problem: Problem, arrays: Mapping[str, Array]) -> Array:
    """The state (batch, head, d, n) before the first place."""
    if problem.initial:
        return arrays["initial"].astype(np.float64)
    return np.zeros(problem.state_shape)


def silu(z: Array) -> Array:
    """z / (1 + exp(-z))."""
    with np.errstate(over="ignore"):
        found: Array = z / (1 + np.exp(-z))
    return found
