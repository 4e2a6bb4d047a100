"""Outputs that share memory with what a kernel reads: who writes first changes what others have yet to read."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ckmlir.nn.given import Given
from ckmlir.ops.dtypes import find_dtype
from ckmlir.runtime.device import DeviceError

MOST_WORK = 10_000
"""Steps after which nobody looks further for an element that two arrays share, each of which has gaps."""


def check_apart(inputs: Mapping[str, Given], outputs: Mapping[str, Given | None], in_place: Collection[str]) -> None:
    """Raise DeviceError for an output that shares memory of the device with an input.

    Args:
        in_place: inputs whose place an output may take exactly: who writes an element, or a row, has read it before. D
            tensors of products are among them anyhow.
    """
    from ckmlir.ops.contraction.side import NAMES  # nothing of operators is imported before one is called

    for out in outputs.values():
        if out is None or not out.address:  # what lies on the host is copied
            continue
        for name, one in inputs.items():
            if _share(one, out) and not (_same_place(one, out) and name in (*in_place, *NAMES)):
                what = f"{out.what} shares memory with {one.what}, which is read while it is written"
                raise DeviceError(f"{what}; expected another array, or a copy of {one.what}")


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


def _share(one: Given, other: Given) -> bool:
    """Whether two arrays have an element in common, as far as that is found with little work."""
    if not one.address or 0 in one.shape or 0 in other.shape:
        return False
    first, second = (np.asarray(_Place(array)) for array in (one, other))
    if not np.may_share_memory(first, second):
        return False
    try:
        return bool(np.shares_memory(first, second, max_work=MOST_WORK))  # type: ignore[arg-type]  # any number, it says
    except np.exceptions.TooHardError:
        return False
