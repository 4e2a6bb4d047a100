"""Windows that slide over images of one to three dimensions: geometry, keys, kernel arguments and views.

Images lie channels last: (n, depth, height, width, groups, channels), with as many spatial dimensions as there are.
Window position o and place f inside it meet image position o * stride + f * dilation - left padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from ckmlir.dialect.transforms import MOST_APART, MOST_PLACES
from ckmlir.ops.comparison import Array
from ckmlir.ops.list_keys import Numbers
from ckmlir.ops.request import MAXIMUM_SIZE, Key, RequestError, show
from ckmlir.ops.scalars import gcd, i32
from ckmlir.ops.spec import Algorithm, Reason
from ckmlir.ops.tensors.folding import Folded
from ckmlir.ops.tensors.keys import PerDimension
from ckmlir.ops.tensors.tiling import ArrayFields, TileSpec, array_fields, uncovered_tiles

if TYPE_CHECKING:
    from ckmlir.lang import Scalar, View

MOST_SPATIAL = 3
MOST_COUNTED = int(np.iinfo(np.intp).max)
"""Bytes of an array that NumPy counts."""
LEAST_PAD = -MAXIMUM_SIZE
"""Behind images: windows leave out so many of their last places."""
PARAMETERS = ("image", "window", "stride", "dilation", "left", "right")


class Sliding(Struct, frozen=True):
    """Windows over images; every field has an entry for each spatial dimension, outermost first."""

    image: tuple[int, ...]
    window: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.image)

    @property
    def positions(self) -> tuple[int, ...]:
        """How many positions the window has along every dimension."""
        found = []
        for image, window, stride, dilation, left, right in zip(
            self.image, self.window, self.stride, self.dilation, self.left, self.right, strict=True
        ):
            room = image + left + right - (dilation * (window - 1) + 1)
            found.append(room // stride + 1 if room >= 0 else 0)
        return tuple(found)

    @property
    def padded(self) -> bool:
        """Whether windows reach beyond the image."""
        return any((*self.left, *self.right))

    @property
    def has_few_places(self) -> bool:
        """Whether which places of a window exist is one number (`ckmlir.dialect.transforms.Embed.few`)."""
        return prod(self.window) <= MOST_PLACES and max(self.dilation) <= MOST_APART

    @property
    def few_places(self) -> int:
        """`Embed.few`: in all dimensions, in each of them, or not."""
        in_each = max(self.window) <= MOST_PLACES and max(self.dilation) <= MOST_APART
        return 1 if self.has_few_places else 2 * in_each

    def image_places(self, dim: int) -> Array:
        """[position, place in the window]: image coordinates, also outside the image."""
        positions = np.arange(self.positions[dim])[:, None] * self.stride[dim]
        found: Array = positions + np.arange(self.window[dim]) * self.dilation[dim] - self.left[dim]
        return found

    def patches(self, images: Array) -> tuple[Array, Array]:
        """Of images [n, spatial…, rest…] the elements [n, positions…, window…, rest…], zero outside, and which exist
        [positions…, window…].
        """
        k, rest = self.rank, images.ndim - 1 - self.rank
        if images.size == 0 or 0 in self.positions:
            places = (*self.positions, *self.window)
            everywhere = (images.shape[0], *places, *images.shape[1 + k :])
            return _zeros(everywhere, images.dtype), np.broadcast_to(np.False_, _countable(places, 1))
        index: list[Any] = [slice(None)]
        exists = np.ones((1,) * (2 * k), bool)
        for dim in range(k):
            shape = [1] * (2 * k)
            shape[dim], shape[k + dim] = self.positions[dim], self.window[dim]
            coordinates = self.image_places(dim).reshape(shape)
            exists = exists & (coordinates >= 0) & (coordinates < self.image[dim])
            index.append(np.clip(coordinates, 0, max(self.image[dim] - 1, 0)))
        found = images[tuple(index)]
        return np.where(exists.reshape(*exists.shape, *(1,) * rest), found, np.zeros((), images.dtype)), exists


    def met(self, values: Array) -> Array:
        """Of values [n, positions…, rest…] those [n, spatial…, window…, rest…] that a place of the images meets through
        a place of the window; zero where it meets none.
        """
        k, rest = self.rank, values.ndim - 1 - self.rank
        everywhere = (values.shape[0], *self.image, *self.window, *values.shape[1 + k :])
        if 0 in values.shape or 0 in everywhere:
            return _zeros(everywhere, values.dtype)
        index: list[Any] = [slice(None)]
        exists = np.ones((1,) * (2 * k), bool)
        for dim, (image, window, stride, dilation, left, count) in enumerate(
            zip(self.image, self.window, self.stride, self.dilation, self.left, self.positions, strict=True)
        ):
            shape = [1] * (2 * k)
            shape[dim], shape[k + dim] = image, window
            reach = np.arange(image)[:, None] + left - np.arange(window) * dilation
            at = (reach // stride).reshape(shape)
            exists = exists & (reach % stride == 0).reshape(shape) & (at >= 0) & (at < count)
            index.append(np.clip(at, 0, max(count - 1, 0)))
        return np.where(exists.reshape(*exists.shape, *(1,) * rest), values[tuple(index)], np.zeros((), values.dtype))


def sliding_keys(image: tuple[int, ...], window: tuple[int, ...], pad: int, stride: int) -> tuple[Key, ...]:
    """The keys that describe windows; `image`, `window`, `pad` and `stride` are defaults."""
    key = partial(PerDimension, most=MOST_SPATIAL, of="image")
    return (
        Numbers("image", image, "spatial lengths, 1 to 3", most=MOST_SPATIAL),
        key("window", window, "lengths of the window", minimum=1),
        key("strides", (stride,), "distance of neighbouring positions", minimum=1),
        key("dilations", (1,), "distance of neighbours within the window", minimum=1),
        key("pads", (pad,), "padding before the image"),
        key("right_pads", None, "padding behind the image; below 0: places left out; default: pads", minimum=LEAST_PAD),
    )


def read_sliding(values: Mapping[str, Any]) -> Sliding:
    """The windows of keys that have been read; one number stands for all dimensions. Raises RequestError."""
    rank = len(values["image"])
    found = [values["image"]]
    for key in ("window", "strides", "dilations", "pads", "right_pads"):
        given = values["pads"] if values[key] is None else values[key]
        if len(given) not in (1, rank):
            raise RequestError(f"{key}={show(given)}: expected one number, or one for each of {rank} spatial lengths")
        found.append(given * rank if len(given) == 1 else given)
    return Sliding(*found)


class SlidingSpec(TileSpec):
    """What a kernel over windows depends on, beside its tiles; `x` is the images.

    Attributes:
        spatial: dimensions of an image.
        padded: windows reach beyond the image.
    """

    spatial: int
    padded: Algorithm[bool]

    @property
    def arguments(self) -> tuple[tuple[str, int], ...]:
        return tuple((name, dim) for name, dim in super().arguments if name != "x")

    @property
    def sliding_arguments(self) -> tuple[str, ...]:
        """Names of the kernel's arguments that describe the windows, in order."""
        windows = (f"{name}{dim}" for name in PARAMETERS for dim in range(self.spatial))
        return (*windows, "image_stride", *(f"space_stride{dim}" for dim in range(self.spatial)), "group_stride")


def window_array_fields(folded: Folded, dtypes: Sequence[str], base: int, place: int) -> ArrayFields:
    """`array_fields` where the last array is the images: all its strides are multiples of `place`, the elements of one
    place of an image, and need not be multiples of more.
    """
    fields = array_fields(folded, dtypes, base)
    return {**fields, "aligns": (*fields["aligns"][:-1], gcd(fields["aligns"][-1], place))}


def uncovered_windows(spec: SlidingSpec, sliding: Sliding, folded: Folded, base: int, place: int) -> Iterator[Reason]:
    """Why a kernel does not do these windows; the other arguments are those of `window_array_fields`."""
    if spec.spatial != sliding.rank:
        yield Reason("spatial", spec.spatial, "images have other dimensions", f"expected {sliding.rank}")
    elif sliding.padded and not spec.padded:
        yield Reason("padded", spec.padded, "windows reach beyond the image", "expected 1")
    elif place % spec.aligns[-1]:
        yield Reason("aligns", spec.aligns, f"a place of an image has {place} elements", "expected less")
    else:
        yield from uncovered_tiles(spec, folded, base)


def sliding_scalars(sliding: Sliding, groups: int, channels: int) -> Iterator[np.int32]:
    """The values of `SlidingSpec.sliding_arguments` for packed images."""
    for name in PARAMETERS:
        yield from (i32(number) for number in getattr(sliding, name))
    yield from (i32(step) for step in (*image_steps(sliding, groups * channels), channels))


def check_sliding(sliding: Sliding, groups: int, channels: int) -> None:
    """Raise RequestError for windows and images whose coordinates or distances a kernel does not count."""
    window = [(places - 1) * dilation + 1 for places, dilation in zip(sliding.window, sliding.dilation, strict=True)]
    padded = [sum(lengths) for lengths in zip(sliding.image, sliding.left, sliding.right, strict=True)]
    numbers = {
        "an image with its padding is as long as": max(padded),
        "a window with its dilation is as long as": max(window),
        "the elements of a window number": prod(sliding.window),
        "the elements from one image to the next number": max(image_steps(sliding, groups * channels)),
    }
    for what, number in numbers.items():
        if number > MAXIMUM_SIZE:
            raise RequestError(f"{what} {number}; kernels count to {MAXIMUM_SIZE}")


def index_strides(sliding: Sliding, groups: int, channels: int) -> dict[str, tuple[int, ...]]:
    """Distance of neighbours in packed images along image number, positions, places in the window, groups, channels."""
    image, *steps = image_steps(sliding, groups * channels)
    return {
        "n": (image,),
        "positions": tuple(step * stride for step, stride in zip(steps, sliding.stride, strict=True)),
        "window": tuple(step * dilation for step, dilation in zip(steps, sliding.dilation, strict=True)),
        "g": (channels,),
        "c": (1,),
    }


def image_steps(sliding: Sliding, place: int) -> list[int]:
    """Elements from one packed image to the next, and from one coordinate to the next along each spatial dimension,
    where a place has `place` of them.
    """
    if 0 in sliding.image:
        return [1] * (sliding.rank + 1)  # of no elements: the real ones need not fit a kernel's arguments
    steps = [place]
    for length in reversed(sliding.image):
        steps.insert(0, steps[0] * length)
    return steps


def window_view(
    spec: SlidingSpec, given: Any, n: Scalar, groups: Scalar | int, channels: Scalar, positions: list[Any]
) -> View:
    """The images as a view of (n, positions…, window…, groups, channels)."""
    from ckmlir.lang import view

    k, align = spec.spatial, spec.aligns[spec.place("x")]

    def stride(name: str) -> Scalar:
        found: Scalar = getattr(given, name).multiple_of(align)
        return found

    lengths: list[Scalar | int] = [n, *(getattr(given, f"image{dim}") for dim in range(k)), groups, channels]
    strides: list[Scalar | int] = [
        stride("image_stride"),
        *(stride(f"space_stride{dim}") for dim in range(k)),
        stride("group_stride"),
    ]
    return slide(view(given.x, lengths, [*strides, 1]), given, positions, padded=spec.padded)


def slide(images: View, given: Any, positions: Sequence[Scalar | int], *, padded: bool, few: int = 0) -> View:
    """Images (n, spatial…, rest…) as (n, positions…, window…, rest…); `given` has the numbers named in `PARAMETERS` for
    each spatial dimension. `few`: see `View.embed`; only of padded ones.
    """
    k, rest = len(positions), images.descriptor.rank - 1 - len(positions)
    for dim in reversed(range(k)):
        if padded:
            images = images.pad_left(1 + dim, getattr(given, f"left{dim}"))
            images = images.pad_right(1 + dim, getattr(given, f"right{dim}"))
        window = [positions[dim], getattr(given, f"window{dim}")]
        steps = [getattr(given, f"stride{dim}"), getattr(given, f"dilation{dim}")]
        images = images.embed(1 + dim, window, steps, few=int(few))
    places = range(1, 1 + 2 * k)
    return images.permute(0, *places[::2], *places[1::2], *range(1 + 2 * k, 1 + 2 * k + rest))


def _zeros(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    return np.zeros(_countable(shape, dtype.itemsize), dtype)


def _countable(shape: Sequence[int], bytes_each: int) -> tuple[int, ...]:
    """A shape as NumPy takes it: lengths beside a 0 may come to more than it counts, and are 0 then themselves."""
    beside = prod(length for length in shape if length) * bytes_each
    return (0,) * len(shape) if 0 in shape and beside > MOST_COUNTED else tuple(shape)
