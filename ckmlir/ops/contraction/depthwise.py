"""Depthwise convolutions: groups of so few channels that a product of matrices would have hardly a row or a column.

Vector arithmetic sums them: y[row, group, j] = sum over places f and channels c of x[row at f, group, c] · w[group, j,
f, c], for many groups at once, whose channels lie next to each other in images. So loads are as wide as groups allow,
and nothing is multiplied that belongs to different groups. Channels of a group, and how many it becomes, are known to
the kernel.

Source of the semantics: CK Tile's grouped convolution (example/ck_tile/20_grouped_convolution).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from msgspec import Struct

from ckmlir.ops.contraction.contraction_spec import DEPTHWISE
from ckmlir.ops.tensors.sliding import MOST_SPATIAL, PARAMETERS, Sliding, image_steps

MOST_CHANNELS = 8
"""Of a group in images: with more, most of a matrix instruction has something to do."""
MULTIPLIERS = (1, 2, 4, 8)
"""Channels that a group becomes: those that divide blocks."""
NO_INSTRUCTION = (1, 1, 1)
"""What a specification has for the shape of a matrix instruction where there is none."""
MOST_PLACES = 1 << 31
"""Of a window times a length of it."""


class DepthwiseSpec(Struct, frozen=True):
    """What a kernel knows of windows: spatial dimensions, whether they reach beyond the images, channels of a group,
    how many it becomes, and whether windows that reach beyond have no more places than `View.embed` calls few.
    """

    rank: int
    padded: bool
    channels: int
    multiplier: int
    few: bool = False

    @property
    def word(self) -> str:
        """As `ContractionSpec.windows` has it."""
        reach = "few" if self.few else "padded" if self.padded else "inside"
        return f"{DEPTHWISE}:{self.rank}:{reach}:{self.channels}:{self.multiplier}"

    @staticmethod
    def parse(text: str) -> DepthwiseSpec:
        """The inverse of `word`. Raises ValueError for other texts."""
        word, rank, reach, channels, multiplier = text.split(":")
        known = (
            (word, (DEPTHWISE,)), (rank, range(1, MOST_SPATIAL + 1)), (reach, ("few", "padded", "inside")),
            (channels, range(1, MOST_CHANNELS + 1)), (multiplier, MULTIPLIERS),
        )  # fmt: skip
        if any(one not in map(str, able) for one, able in known):
            raise ValueError(text)
        return DepthwiseSpec(int(rank), reach != "inside", int(channels), int(multiplier), reach == "few")

    def arguments(self) -> list[str]:
        """Kernel arguments in place of the distances of the matrices' rows."""
        spatial = range(self.rank)
        geometry = [f"{name}{dim}" for name in (*PARAMETERS, "positions") for dim in spatial]
        steps = ["image_step", *(f"space_step{dim}" for dim in spatial)]
        return ["images", "groups", *geometry, *steps, *(f"share{dim}" for dim in spatial[1:])]


class Depthwise(Struct, frozen=True):
    """Windows of a problem: so many images, and groups of as many channels, which become `multiplier` each."""

    sliding: Sliding
    images: int
    groups: int
    channels: int
    multiplier: int

    @property
    def described(self) -> DepthwiseSpec:
        """What a kernel has to know."""
        padded, few = self.sliding.padded, self.sliding.has_few_places
        return DepthwiseSpec(self.sliding.rank, padded, self.channels, self.multiplier, padded and few)

    @property
    def image(self) -> str:
        """Which operand the patches are."""
        return "a"

    @property
    def word(self) -> str:
        """As `ContractionSpec.windows` has it."""
        return self.described.word

    def arguments(self, pitches: Sequence[int]) -> tuple[int, ...]:
        """The numbers of `DepthwiseSpec.arguments`."""
        place = self.groups * self.channels
        geometry = [number for name in PARAMETERS for number in getattr(self.sliding, name)]
        empty = 0 in self.sliding.image  # distances that kernels are promised divisors of all the same
        steps = [place] * (self.sliding.rank + 1) if empty else image_steps(self.sliding, place)
        shares = (_share(length) for length in self.sliding.window[1:])
        return (self.images, self.groups, *geometry, *self.sliding.positions, *steps, *shares)


def counts_places(sliding: Sliding) -> bool:
    """Whether kernels divide all numbers of places in a window by its lengths as they do, by a product."""
    return prod(sliding.window) * max(sliding.window) <= MOST_PLACES


def _share(length: int) -> int:
    """2^31 / length, rounded up, as an i32: the upper half of its product with 2 * place is place // length, as long as
    place * length < 2^31.
    """
    share = -(-(1 << 31) // length)
    return share - (1 << 32) if share == 1 << 31 else share
