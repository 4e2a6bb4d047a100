"""The dimension along which functions of rows work: the last, or another, brought behind the others and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ckmlir.nn.given import Given
from ckmlir.nn.outputs import Outputs
from ckmlir.nn.tensors import permute
from ckmlir.ops.request import show, whole
from ckmlir.runtime.device import DeviceError


def is_last(dim: int, x: Given) -> bool:
    """Whether it is the last dimension. Raises DeviceError for one that does not exist."""
    if not x.shape:
        raise DeviceError("x: a number has no rows; expected at least one dimension")
    if whole(dim) is None or not -x.ndim <= dim < x.ndim:
        raise DeviceError(f"dim={show(dim)}: expected one of {x.ndim} dimensions, from {-x.ndim} to {x.ndim - 1}")
    return dim % x.ndim == x.ndim - 1


def along(
    dim: int,
    function: Callable[..., Any],
    x: Any,
    outputs: Outputs,
    *,
    beside: Mapping[str, Any] | None = None,
    stream: object = None,
    **options: Any,
) -> Any:
    """What a function of rows makes of x along another dimension than the last, by copies of x and of the results.

    Args:
        outputs: where results go.
        beside: other arguments of x's shape, or None.
        options: arguments that stay as they are.
    """
    rank = len(x.shape)
    ahead = [place for place in range(rank) if place != dim % rank] + [dim % rank]
    back = [ahead.index(place) for place in range(rank)]
    others = {name: _turned(one, None, ahead, stream) for name, one in (beside or {}).items() if one is not None}
    found = function(_turned(x, None, ahead, stream), **others, **options, stream=stream)
    several = found if isinstance(found, tuple) else (found,)
    turned = [_turned(*one, back, stream) for one in zip(several, outputs.arrays.values(), strict=True)]
    return tuple(turned) if len(turned) > 1 else turned[0]


def _turned(array: Any, out: Any, order: Sequence[int], stream: object) -> Any:
    """A packed copy with the dimensions in another order, or `out` with its elements."""
    if not all(isinstance(one, np.ndarray) for one in (array, out) if one is not None):
        return permute(array, order, out=out, stream=stream)
    if out is None:
        return np.ascontiguousarray(array.transpose(order))
    out[...] = array.transpose(order)
    return out
