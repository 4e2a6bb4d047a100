"""What convolutions and their gradients have in common: geometry, keys, and the shapes of their arrays."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.ops.contraction.depthwise import MOST_CHANNELS, MULTIPLIERS, Depthwise, counts_places
from ckmlir.ops.contraction.keys import PAIR_KEYS, PLAN_KEYS, SPLIT_KEYS
from ckmlir.ops.contraction.windows import Windows
from ckmlir.ops.request import MAXIMUM_SIZE, Choice, Integer, Key, RequestError
from ckmlir.ops.tensors.sliding import Sliding, check_sliding, image_steps, read_sliding, sliding_keys

KEYS: tuple[Key, ...] = (
    Integer("n", 2, "images"),
    Integer("g", 1, "groups of channels", minimum=1),
    Integer("c", 64, "channels of a group in x", minimum=1),
    Integer("k", 64, "channels of a group in y", minimum=1),
    *sliding_keys((28, 28), (3,), pad=1, stride=1),
    Choice("channels", "last", "of images and weights: NHWGC or, turned on their way, NGCHW", ("last", "first")),
    *(key for key in PAIR_KEYS if key.name != "layout"),
    *PLAN_KEYS,
    *SPLIT_KEYS,
)


class Geometry(Struct, frozen=True):
    """A convolution: `n` images of `g` groups of `c` channels become images of `g` groups of `k` channels. Shapes have
    channels last; arrays have them first where `channels_first` says so.
    """

    n: int
    g: int
    c: int
    k: int
    sliding: Sliding
    channels_first: bool = False

    @property
    def positions(self) -> int:
        """Of windows in all images."""
        return self.n * prod(self.sliding.positions)

    @property
    def places(self) -> int:
        """What a window holds: of each channel."""
        return prod(self.sliding.window)

    @property
    def x(self) -> tuple[int, ...]:
        """Shape of the images: (n, spatial…, g, c)."""
        return (self.n, *self.sliding.image, self.g, self.c)

    @property
    def w(self) -> tuple[int, ...]:
        """Shape of the weights: (g, k, window…, c)."""
        return (self.g, self.k, *self.sliding.window, self.c)

    @property
    def y(self) -> tuple[int, ...]:
        """Shape of what windows come to: (n, positions…, g, k)."""
        return (self.n, *self.sliding.positions, self.g, self.k)

    @property
    def is_pointwise(self) -> bool:
        """Whether windows are the images' places themselves, so that images are plain matrices."""
        sliding = self.sliding
        return not sliding.padded and {*sliding.window, *sliding.stride} == {1}

    @property
    def depthwise(self) -> Depthwise | None:
        """How vector arithmetic sees the images; None where groups have channels enough for a product of matrices."""
        many = self.g == 1 or self.c > MOST_CHANNELS or self.k not in MULTIPLIERS
        if many or not counts_places(self.sliding):
            return None
        return Depthwise(self.sliding, self.n, self.g, self.c, self.k)

    @property
    def depthwise_gradient(self) -> Depthwise | None:
        """How vector arithmetic sees dy for the gradient of the images: without strides they are windows over it, whose
        weights are turned, padded by what is left of a window. None where groups have several channels, windows have
        strides or are padded by more than they reach, or there are more places than kernels count.
        """
        sliding, single = self.sliding, self.c == self.k == 1 and self.g > 1
        reach = [by * (length - 1) for by, length in zip(sliding.dilation, sliding.window, strict=True)]
        left, right = (
            tuple(most - pad for most, pad in zip(reach, pads, strict=True)) for pads in (sliding.left, sliding.right)
        )
        if not single or {*sliding.stride} != {1} or min(*left, *right) < 0 or not counts_places(sliding):
            return None
        if not self.n or 0 in (*sliding.image, *sliding.positions):
            return None
        seen = replace(sliding, image=sliding.positions, left=left, right=right)
        padded = (sum(one) for one in zip(seen.image, left, right, strict=True))
        if max(self.n * prod(sliding.image), *padded, *image_steps(seen, self.g)) > MAXIMUM_SIZE:
            return None
        return Depthwise(seen, self.n, self.g, 1, 1, turned=True)

    def windows(self, part: str, *, pointers_move: bool = False) -> Windows | None:
        """How a product sees the images; None for plain matrices, of which pointers do not move to where a part begins.
        """
        if self.is_pointwise and not pointers_move:
            return None
        return Windows(part, self.sliding, self.n, self.c, self.g * self.c)


def read_geometry(values: Mapping[str, Any]) -> Geometry:
    """The convolution of keys that have been read. Raises RequestError for numbers that kernels do not count."""
    first = values["channels"] == "first"
    found = Geometry(values["n"], values["g"], values["c"], values["k"], read_sliding(values), first)
    if found.n and found.positions:
        check_sliding(found.sliding, found.g, found.c)
    numbers = {
        "positions of windows in all images": found.positions,
        "the elements of a window number": found.places * found.c,
        "channels of all groups in x": found.g * found.c,
        "channels of all groups in y": found.g * found.k,
        "the weights of a group number": found.places * found.c * found.k,
    }
    for what, number in numbers.items():
        if number > MAXIMUM_SIZE:
            raise RequestError(f"{what}: {number}; kernels count to {MAXIMUM_SIZE}")
    return found
