"""Places of images in classes: those whose distance to the first is the same multiple of the strides and some rest.

In the gradient of a convolution's images a place h meets the position o through the place f of the window where
h + pad = o * stride + f * dilation, so only if f * dilation leaves the rest of h + pad. All h of a class have the same
rest, so they meet the same places of the window, every (stride / common)-th from one on, with common =
gcd(stride, dilation); and neighbours of a class meet neighbouring positions. So a class is a convolution of its own,
with stride 1, dilation / common, the class's places of the window in the other direction, and a lattice of the images
for result: every place is written once, and nothing is added up in memory.

Source of the decomposition: CK's backward data by implicit GEMM, whose kernels are launched for each such class
(transform_conv_bwd_data_to_gemm); here classes are part of the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from operator import floordiv, mod

from msgspec import Struct

from ckmlir.ops.contraction.reciprocals import reciprocal
from ckmlir.ops.tensors.sliding import MOST_SPATIAL, Sliding

GEOMETRY = (
    "image", "positions", "window", "stride", "common", "inverse", "every", "spread", "window_step", "longest",
    "classes", "counts", "counts_rest", "lefts", "lefts_rest", "tops", "tops_rest", "of_classes", "of_common",
    "of_every",
)  # fmt: skip
"""Numbers of each spatial dimension that kernels take. `longest`: the first place of the class without a rest, which
meets the most places of the window, if there is such a place. `counts`, `lefts` and `tops`, each with a rest: the image
and the padding on the left in strides, and the last place of the window in `every`. `of_…`: see
`reciprocals.reciprocal`.

So kernels divide by nothing that is known before the launch. A division is some forty scalar instructions, and a block
of a class that meets nothing has little else to do.
"""


MOST_CHANNELS = 128
CHANNELS = tuple(str(1 << place) for place in range(MOST_CHANNELS.bit_length()))


def known_channels(channels: int) -> int:
    """What kernels know to divide a number of channels."""
    return gcd(channels, MOST_CHANNELS)


class ResiduesSpec(Struct, frozen=True):
    """What a kernel knows of classes: the spatial dimensions, what divides the channels of dy, and whether windows have
    no more places than `View.embed` calls few.
    """

    rank: int
    channels: int
    few: bool = False

    @property
    def word(self) -> str:
        """As `ContractionSpec.windows` has it."""
        return f"data:{self.rank}{':few' * self.few}:{self.channels}"

    @staticmethod
    def parse(text: str) -> ResiduesSpec:
        """The inverse of `word`. Raises ValueError for other texts."""
        rank, _, rest = text.removeprefix("data:").partition(":")
        few, channels = rest.startswith("few:"), rest.removeprefix("few:")
        if rank not in map(str, range(1, MOST_SPATIAL + 1)) or channels not in CHANNELS:
            raise ValueError(text)
        return ResiduesSpec(int(rank), int(channels), few)

    def arguments(self) -> list[str]:
        """Kernel arguments in place of the distances of the matrices' rows."""
        spatial = range(self.rank)
        geometry = [f"{name}{dim}" for name in GEOMETRY for dim in spatial]
        steps = [f"{side}_step{at}" for side in ("dy", "dx") for at in ("", *spatial)]
        return ["images", "channels", *geometry, *steps, "row_step"]


class Residues(Struct, frozen=True):
    """Classes of a problem.

    Attributes:
        sliding: with strides that classes have; `positions` are there of windows.
        images: how many there are.
        channels, place: of a group, and of all, in what windows come to (dy).
        columns, lattice: of a group, and of all, in the images (dx).
    """

    sliding: Sliding
    positions: tuple[int, ...]
    images: int
    channels: int
    place: int
    columns: int
    lattice: int

    @property
    def word(self) -> str:
        """As `ContractionSpec.windows` has it."""
        known = known_channels(self.channels)
        return ResiduesSpec(self.sliding.rank, known, self.sliding.has_few_places).word

    @property
    def dy_image(self) -> int:
        """Elements from one image of dy to the next."""
        return _packed((1, *self.positions), self.place)[0]

    @property
    def dx_image(self) -> int:
        """Elements from one image of dx to the next."""
        return _packed((1, *self.sliding.image), self.lattice)[0]

    @property
    def classes(self) -> int:
        """Classes that have a place."""
        return prod(map(min, self.sliding.stride, self.sliding.image))

    @property
    def most_rows(self) -> int:
        """Places of the class that has the most, in all images."""
        lengths = zip(self.sliding.image, self.sliding.stride, strict=True)
        return self.images * prod(-(-length // stride) for length, stride in lengths)

    @property
    def most_places(self) -> int:
        """Places of the window that the class with the most meets."""
        sliding = self.sliding
        every = (stride // gcd(stride, step) for stride, step in zip(sliding.stride, sliding.dilation, strict=True))
        return prod(-(-places // one) for places, one in zip(sliding.window, every, strict=True))

    @property
    def even_classes(self) -> int:
        """As many as would have all places of the window if each had as many as the class that meets the most."""
        return min(-(-prod(self.sliding.window) // self.most_places), self.classes)

    @property
    def _longest(self) -> tuple[int, ...]:
        """See `GEOMETRY`; 0 where an image is shorter than that."""
        sliding = self.sliding
        first = (-left % stride for left, stride in zip(sliding.left, sliding.stride, strict=True))
        return tuple(one if one < length else 0 for one, length in zip(first, sliding.image, strict=True))

    @property
    def image(self) -> str:
        """Which operand the patches are."""
        return "a"

    def arguments(self, pitches: Sequence[int]) -> tuple[int, ...]:
        """The numbers of `ResiduesSpec.arguments`."""
        sliding = self.sliding
        common = tuple(map(gcd, sliding.stride, sliding.dilation))
        every, spread = (tuple(map(floordiv, numbers, common)) for numbers in (sliding.stride, sliding.dilation))
        inverse = tuple(pow(one, -1, step) for one, step in zip(spread, every, strict=True))
        classes = tuple(map(min, sliding.stride, sliding.image))
        geometry = (
            sliding.image, self.positions, sliding.window, sliding.stride, common, inverse, every, spread,
            _packed(sliding.window, self.columns), self._longest, classes, *_divided(sliding.image, sliding.stride),
            *_divided(sliding.left, sliding.stride), *_divided([length - 1 for length in sliding.window], every),
            *(tuple(map(reciprocal, lengths)) for lengths in (classes, common, every)),
        )  # fmt: skip
        positions = _packed((1, *self.positions), self.place)
        images = _packed((1, *sliding.image), self.lattice)
        numbers = [number for one in geometry for number in one]
        row = prod(sliding.window) * self.columns
        return (self.images, self.channels, *numbers, *positions, *images, row)


def _divided(numbers: Sequence[int], by: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Quotients and rests."""
    return tuple(map(floordiv, numbers, by)), tuple(map(mod, numbers, by))


def _packed(lengths: Sequence[int], least: int) -> tuple[int, ...]:
    """Distances of neighbours along each dimension, where those along the last are `least` apart; as if there were an
    element.
    """
    return tuple(least * prod(max(one, 1) for one in lengths[dim + 1 :]) for dim in range(len(lengths)))
