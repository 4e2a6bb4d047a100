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
from msgspec.structs import replace

from ckmlir.ops.contraction.contraction_spec import DEPTHWISE
from ckmlir.ops.tensors.sliding import MOST_SPATIAL, PARAMETERS, Sliding, image_steps

MOST_CHANNELS = 8
"""Of a group in images: with more, most of a matrix instruction has something to do."""
MULTIPLIERS = (1, 2, 4, 8)
"""Channels that a group becomes: those that divide blocks."""
NO_INSTRUCTION = (1, 1, 1)
"""What a specification has for the shape of a matrix instruction where there is none."""
REACHES = {1: "few", 2: "each"}
"""What a specification calls windows that reach beyond images and have few places, by `Embed.few`."""
STRIPS = range(2, 9)
"""Positions of a strip."""
MOST_PLACES = 1 << 31
"""Of a window times a length of it."""


class Strip(Struct, frozen=True):
    """Positions beside each other along the last dimension that a lane sums together: what several of their windows
    meet is loaded once. Whoever knows of them sees images through windows of whole strips.

    Attributes:
        positions: of a strip, which divide those along the dimension.
        window, stride, dilation: of the windows along it.
    """

    positions: int
    window: int
    stride: int
    dilation: int

    @property
    def word(self) -> str:
        """As `DepthwiseSpec.word` has it."""
        return f"{self.positions}x{self.window}x{self.stride}x{self.dilation}"

    @staticmethod
    def parse(text: str) -> Strip:
        """The inverse of `word`. Raises ValueError for other texts."""
        numbers = [int(one) if one.isdecimal() else 0 for one in text.split("x")]
        if len(numbers) != 4 or min(numbers) < 1 or numbers[0] not in STRIPS:
            raise ValueError(text)
        return Strip(*numbers)

    def met(self, position: int, place: int) -> int:
        """Where a position's window has a place, counted from the strip's first."""
        return position * self.stride + place * self.dilation

    @property
    def places(self) -> list[int]:
        """Those that some position's window has, counted from the strip's first."""
        return sorted({self.met(one, place) for one in range(self.positions) for place in range(self.window)})

    def seen(self, sliding: Sliding) -> Sliding:
        """The windows of whole strips."""
        def last(numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
            return (*numbers[:-1], number)

        return replace(
            sliding, window=last(sliding.window, self.places[-1] + 1), dilation=last(sliding.dilation, 1),
            stride=last(sliding.stride, self.stride * self.positions),
        )  # fmt: skip


class DepthwiseSpec(Struct, frozen=True):
    """What a kernel knows of windows: spatial dimensions, whether they reach beyond the images, channels of a group,
    how many it becomes, whether windows that reach beyond have no more places than `View.embed` calls few, in all
    dimensions (1) or in each (2), and of what positions lanes have several; None: of each one.
    """

    rank: int
    padded: bool
    channels: int
    multiplier: int
    few: int = 0
    strip: Strip | None = None

    @property
    def word(self) -> str:
        """As `ContractionSpec.windows` has it."""
        reach = REACHES[self.few] if self.few else "padded" if self.padded else "inside"
        strip = f":{self.strip.word}" if self.strip else ""
        return f"{DEPTHWISE}:{self.rank}:{reach}:{self.channels}:{self.multiplier}{strip}"

    @staticmethod
    def parse(text: str) -> DepthwiseSpec:
        """The inverse of `word`. Raises ValueError for other texts."""
        word, rank, reach, channels, multiplier, *strip = text.split(":")
        known = (
            (word, (DEPTHWISE,)), (rank, range(1, MOST_SPATIAL + 1)), (reach, (*REACHES.values(), "padded", "inside")),
            (channels, range(1, MOST_CHANNELS + 1)), (multiplier, MULTIPLIERS),
        )  # fmt: skip
        if any(one not in map(str, able) for one, able in known) or len(strip) > 1:
            raise ValueError(text)
        few = next((number for number, word in REACHES.items() if word == reach), 0)
        of_strip = Strip.parse(strip[0]) if strip else None
        return DepthwiseSpec(int(rank), reach != "inside", int(channels), int(multiplier), few, of_strip)

    def arguments(self) -> list[str]:
        """Kernel arguments in place of the distances of the matrices' rows."""
        spatial = range(self.rank)
        geometry = [f"{name}{dim}" for name in (*PARAMETERS, "positions") for dim in spatial]
        steps = ["image_step", *(f"space_step{dim}" for dim in spatial)]
        return ["images", "groups", *geometry, *steps, *(f"share{dim}" for dim in spatial[1:])]


class Depthwise(Struct, frozen=True):
    """Windows of a problem: so many images, and groups of as many channels, which become `multiplier` each; seen in
    strips where there is one.
    """

    sliding: Sliding
    images: int
    groups: int
    channels: int
    multiplier: int
    strip: Strip | None = None

    @property
    def described(self) -> DepthwiseSpec:
        """What a kernel has to know."""
        padded = self.sliding.padded
        few = self.seen.few_places if padded else 0
        return DepthwiseSpec(self.sliding.rank, padded, self.channels, self.multiplier, few, self.strip)

    @property
    def seen(self) -> Sliding:
        """The windows that the kernel is told of."""
        return self.strip.seen(self.sliding) if self.strip else self.sliding

    def in_strips(self, positions: int) -> Depthwise | None:
        """The same seen in strips of so many positions; None where these do not divide those along the dimension."""
        sliding = self.sliding
        if not all(sliding.positions) or sliding.positions[-1] % positions:
            return None
        strip = Strip(positions, sliding.window[-1], sliding.stride[-1], sliding.dilation[-1])
        return replace(self, strip=strip)

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
        place, seen = self.groups * self.channels, self.seen
        geometry = [number for name in PARAMETERS for number in getattr(seen, name)]
        empty = 0 in seen.image  # distances that kernels are promised divisors of all the same
        steps = [place] * (seen.rank + 1) if empty else image_steps(seen, place)
        shares = (_share(length) for length in seen.window[1:])
        return (self.images, self.groups, *geometry, *seen.positions, *steps, *shares)


def counts_places(sliding: Sliding) -> bool:
    """Whether kernels divide all numbers of places in a window by its lengths as they do, by a product."""
    return prod(sliding.window) * max(sliding.window) <= MOST_PLACES


def _share(length: int) -> int:
    """2^31 / length, rounded up, as an i32: the upper half of its product with 2 * place is place // length, as long as
    place * length < 2^31.
    """
    share = -(-(1 << 31) // length)
    return share - (1 << 32) if share == 1 << 31 else share
