"""Outputs that share memory with what a kernel reads, where who writes first changes what others have yet to read; and
with each other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import combinations
from typing import Any

import numpy as np

from ckmlir.nn.given import Given
from ckmlir.ops.dtypes import find_dtype
from ckmlir.runtime.arguments import as_host_array
from ckmlir.runtime.device import DeviceError

MOST_WORK = 10_000
"""Steps after which nobody looks further for an element that two arrays share, each of which has gaps."""


def check_apart(
    inputs: Mapping[str, Given], outputs: Mapping[str, Given | None], in_place: Mapping[str, Collection[str]]
) -> None:
    """Raise DeviceError for an output that shares memory of the device with an input.

    Args:
        in_place: of outputs, the inputs whose place they may take exactly: who writes an element, or a row, has read it
            before. D tensors of products are among them anyhow.
    """
    from ckmlir.ops.contraction.side import NAMES  # nothing of operators is imported before one is called

    for written, out in outputs.items():
        if out is None or not out.address:  # what lies on the host is copied
            continue
        for name, one in inputs.items():
            if _share(one, out) and not (_same_place(one, out) and name in (*in_place.get(written, ()), *NAMES)):
                what = f"{out.what} shares memory with {one.what}, which is read while it is written"
                raise DeviceError(f"{what}; expected another array, or a copy of {one.what}")


def check_distinct(outputs: Iterable[Given | None]) -> None:
    """Raise DeviceError for two outputs that share memory, of the host too."""
    for one, other in combinations([one for one in outputs if one is not None], 2):
        if _share(one, other):
            what = f"{other.what} shares memory with {one.what}, and both are written"
            raise DeviceError(f"{what}; expected another array")


def _same_place(one: Given, other: Given) -> bool:
    return (one.address, one.shape, one.strides, one.dtype) == (other.address, other.shape, other.strides, other.dtype)


class _Place:
    """Where an array lies, for NumPy to work with; nobody reads its elements."""

    def __init__(self, array: Given) -> None:
        size = find_dtype(array.dtype).bytes
        self.__array_interface__ = {
            "version": 3, "typestr": f"|V{size}", "shape": array.shape, "data": (array.address, True),
            "strides": tuple(stride * size for stride in array.strides),
        }  # fmt: skip


def _place_of(array: Given) -> np.ndarray[Any, Any]:
    if array.address:
        return np.asarray(_Place(array))
    return array.array if isinstance(array.array, np.ndarray) else as_host_array(array.array)


def _share(one: Given, other: Given) -> bool:
    """Whether two arrays of one memory have an element in common, as far as that is found with little work."""
    if bool(one.address) is not bool(other.address) or 0 in one.shape or 0 in other.shape:
        return False
    first, second = (_place_of(array) for array in (one, other))
    if not np.may_share_memory(first, second):
        return False
    try:
        return bool(np.shares_memory(first, second, max_work=MOST_WORK))  # type: ignore[arg-type]  # any number, it says
    except np.exceptions.TooHardError:
        return False
