"""What a call gives back: arrays that were given for it, `out=`, and new ones beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from ckmlir.nn.array import Array
from ckmlir.nn.given import Given, align_of
from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.dtypes import TENSOR_TYPES
from ckmlir.runtime.arguments import as_host_array
from ckmlir.runtime.device import DeviceError, Stream


class Outputs(Struct, frozen=True):
    """The results of a call, in their order, by the operator's names.

    Attributes:
        given: what kernels write; None where it is to be made.
        arrays: as they were given, or None.
        shapes: that results have.
    """

    given: dict[str, Given | None]
    arrays: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]

    def seen_as(self, **shapes: tuple[int, ...]) -> Outputs:
        """The same results, which kernels write in other shapes: with a dimension of one element, for example."""
        given = {name: one and one.reshaped(*shapes.get(name, one.shape)) for name, one in self.given.items()}
        return msgspec.structs.replace(self, given=given)

    def of(self, found: Mapping[str, Given]) -> Any:
        """The result, or several: what was given, or what the operator made, in the result's shape."""
        results = self.each(found)
        return tuple(results) if len(results) > 1 else results[0]

    def each(self, found: Mapping[str, Given]) -> list[Any]:
        """The results as a list."""
        return [
            found[name].reshaped(*self.shapes[name]).array if array is None else array
            for name, array in self.arrays.items()
        ]


def as_listed(out: Any, count: int) -> Sequence[Any]:
    """What was given for so many results: an array alone is for the first. Raises DeviceError for a tuple of others."""
    if not isinstance(out, (tuple, list)):
        return [out, *[None] * (count - 1)]
    if len(out) != count:
        raise DeviceError(f"out: {len(out)} arrays; expected {count}, one for each result, or None where one is made")
    return out


def require_copy(out: Given, array: ArraySpec, is_kept: bool) -> None:
    """Raise DeviceError for an output that does not lie as the kernel writes it, where no copy of a result goes there.

    Args:
        is_kept: parts of it keep what they hold.
    """
    if is_kept:
        raise DeviceError(
            f"{out.what}: a view with strides {out.strides} that begins {out.address % array.align} bytes behind a "
            f"multiple of {array.align}; the kernel writes to strides {array.strides}; make a contiguous copy first"
        )
    if out.address and out.dtype not in TENSOR_TYPES:
        what = f"elements are {out.dtype}, which are not copied to strides {out.strides}"
        raise DeviceError(f"{out.what}: {what}; expected an array without gaps")


def permutation(x: Given, order: Sequence[int], out: Given | None) -> dict[str, object]:
    """The keys of a copy of x with its dimensions in another order, in `out` where that is given."""
    both = [one for one in (x, out) if one is not None]
    keys: dict[str, object] = {
        "shape": x.shape, "perm": tuple(order), "dtype": x.dtype, "strides": x.strides,
        "align": align_of(both, x.dtype),
    }  # fmt: skip
    return keys if out is None or not out.is_told else keys | {"ystrides": out.strides}


def put_on_host(made: Given, out: Given, stream: Stream | None) -> None:
    """Copy a result to an array of the host."""
    source = made.array.numpy(stream) if isinstance(made.array, Array) else as_host_array(made.array)
    place = out.array if isinstance(out.array, np.ndarray) else as_host_array(out.array)
    place[...] = source.reshape(place.shape)
