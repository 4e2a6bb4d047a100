"""Images of channels: how they lie in memory, as an index space, and the keys that say so.

Channels last, an image is rows of c channels, one for each place: arrays have the shape (n hw, c). Channels first, the
places of a channel are neighbours: arrays have the shape (n, c, hw). One stride may be chosen for each array: from one
place to the next, or from one image to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array
from ckmlir.ops.request import MAXIMUM_SIZE, Choice, Flag, Integer, Key, Pitch, RequestError
from ckmlir.ops.rows.arrays import FLOATS
from ckmlir.ops.tensors.arrays import Operand
from ckmlir.ops.tensors.mapping import ALIGN

LAYOUTS = ("nhwc", "nchw")
ACTIVATIONS = {"none": "{0}", "relu": "where({0} < 0, 0, {0})"}
"""As expressions of what is activated; NaN stays, which it would not in a maximum."""


class Images(Struct, frozen=True):
    """Images of one operator, whose arrays differ in their types and strides alone.

    Attributes:
        n, c, hw: images, channels of each, places of each channel.
        align: bytes that divide all base addresses.
    """

    layout: str
    n: int
    c: int
    hw: int
    align: int

    @property
    def last(self) -> bool:
        """Whether channels come last."""
        return self.layout == "nhwc"

    @property
    def count(self) -> int:
        """Elements of a channel."""
        return self.n * self.hw

    @property
    def shape(self) -> tuple[int, ...]:
        """Of an array of images; the second dimension is that of channels."""
        return (self.count, self.c) if self.last else (self.n, self.c, self.hw)

    @property
    def row(self) -> int:
        """Elements that lie side by side."""
        return self.c if self.last else self.c * self.hw

    def images(self, name: str, dtype: str, pitch: int) -> Operand:
        """An array of images, `pitch` elements from one row to the next."""
        strides = (pitch, 1) if self.last else (pitch, max(self.hw, 1), 1)  # a stride of 0 would say that it repeats
        return Operand(name, dtype, self.shape, strides, tuple(range(len(self.shape))))

    def channels(self, name: str, dtype: str) -> Operand:
        """An array with an element for every channel."""
        return Operand(name, dtype, (self.c,), (1,), tuple(0 if dim == 1 else -1 for dim in range(len(self.shape))))

    def array(self, operand: Operand, role: str) -> ArraySpec:
        """An operand as kernels take it."""
        return operand.array(role, self.align)

    def by_channel(self, array: Array) -> Array:
        """An array of images as (c, elements of a channel), in float64."""
        found: Array = np.moveaxis(np.asarray(array), 1, 0).reshape(self.c, self.count).astype(np.float64)
        return found

    def repeated(self, values: Array) -> Array:
        """A number for every channel (c) for all places, as images are indexed."""
        shape = (1, self.c) if self.last else (1, self.c, 1)
        return np.broadcast_to(values.reshape(shape), self.shape)


def image_keys(*strided: str, dtype: str = "of x") -> tuple[Key, ...]:
    """The keys of images, and of the strides of some arrays."""
    own = [
        Pitch(stride_key(name), None, f"elements from one row of {name} to the next", minimum=1, of=("c",))
        for name in strided
    ]
    return (
        Choice("layout", "nhwc", "channels last: arrays (n hw, c), or first: (n, c, hw)", LAYOUTS),
        Integer("n", 8, "images"),
        Integer("c", 64, "channels"),
        Integer("hw", 196, "places of an image"),
        Choice("dtype", "f16", dtype, FLOATS),
        *own,
        ALIGN,
    )


ACTIVATION = Choice("activation", "none", "of the result, fused: none or relu", tuple(ACTIVATIONS))
RESIDUAL = Flag("residual", False, "a tensor of x's shape and type is added before the activation")
PARAMS = Choice("params", None, "of gamma and beta; default: dtype", FLOATS)


def stride_key(array: str) -> str:
    """The key of an array's stride."""
    return {"x": "stride", "y": "ystride"}.get(array, f"{array}_stride")


def read_images(values: Mapping[str, Any]) -> Images:
    """The images of a request. Raises RequestError for more of them than kernels count."""
    found = Images(values["layout"], values["n"], values["c"], values["hw"], values["align"])
    if found.count > MAXIMUM_SIZE:
        raise RequestError(
            f"n={found.n}, hw={found.hw}: a channel has {found.count} elements; kernels count to {MAXIMUM_SIZE}"
        )
    return found


def pitch_of(images: Images, values: Mapping[str, Any], array: str) -> int:
    """The stride asked for, else that of packed rows. Raises RequestError for rows that overlap, or too far apart."""
    key = stride_key(array)
    own: int | None = values[key]
    if own is not None and own < images.row:
        what = f"rows have c={images.c} elements" if images.last else f"images have c hw={images.row} elements"
        raise RequestError(f"{key}={own}: {what}; expected at least that")
    found = max(images.row, 1) if own is None else own
    if found > MAXIMUM_SIZE:
        raise RequestError(f"{key}={found}: kernels take at most {MAXIMUM_SIZE}")
    return found


def activated(text: str, activation: str) -> str:
    """An expression with an activation behind it."""
    return ACTIVATIONS[activation].format(f"({text})")
