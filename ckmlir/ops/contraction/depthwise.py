"""Depthwise convolutions: groups of so few channels that a product of matrices would have hardly a row or a column.

Vector arithmetic sums them: y[row, group, j] = sum over places f and channels c of x[row at f, group, c] · w[group, j,
f, c], for many groups at once, whose channels lie next to each other in images. So loads are as wide as groups allow,
and nothing is multiplied that belongs to different groups. Channels of a group, and how many it becomes, are known to
the kernel.

Source of the semantics: CK Tile's grouped convolution (example/ck_tile/20_grouped_convolution).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
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
TURNED = "turned"
"""What a specification calls windows whose weights are turned."""
STRIPS = range(2, 17)
"""Positions of a strip."""
WINDOWS = range(1, 33)
"""Places along the last dimension of windows that strips may have; those that pay have fewer."""
MOST_PLACES = 1 << 31
"""Of a window times a length of it."""


class Strip(Struct, frozen=True):
    """Positions beside each other along the last dimension that a lane sums together: what several of their windows
    meet is loaded once. Whoever knows of them sees images through windows of whole strips.

    A strip may have all positions of a row. Then it is known which places are in the image: no others are loaded,
    multiplied or compared.

    Attributes:
        positions: of a strip, which divide those along the dimension.
        window, stride, dilation: of the windows along it.
        left, image: the padding in front of a row of the image, and the row's length, where a strip has all positions;
            0 and 0 where it has some.
    """

    positions: int
    window: int
    stride: int
    dilation: int
    left: int = 0
    image: int = 0

    @property
    def word(self) -> str:
        """As `DepthwiseSpec.word` has it."""
        numbers = (self.positions, self.window, self.stride, self.dilation)
        return "x".join(map(str, (*numbers, self.left, self.image) if self.image else numbers))

    @staticmethod
    def parse(text: str) -> Strip:
        """The inverse of `word`. Raises ValueError for other texts."""
        numbers = [int(one) if one.isdecimal() else -1 for one in text.split("x")]
        if len(numbers) == 4:
            numbers += [0, 0]
        if len(numbers) != 6 or min(numbers[:4]) < 1 or numbers[0] not in STRIPS or numbers[1] not in WINDOWS:
            raise ValueError(text)
        found = Strip(*numbers)
        if found.word != text or not found.places:
            raise ValueError(text)
        return found

    def met(self, position: int, place: int) -> int | None:
        """Where a position's window has a place, counted from the strip's first, or from the image's where a strip has
        all positions; None: not in the image.
        """
        found = position * self.stride + place * self.dilation - self.left
        return found if not self.image or 0 <= found < self.image else None

    @property
    def places(self) -> list[int]:
        """Those that some position's window has, counted as `met` does."""
        pairs = product(range(self.positions), range(self.window))
        return sorted({one for pair in pairs if (one := self.met(*pair)) is not None})

    @property
    def taps(self) -> range:
        """Places in the window, those that are in the image for some position, and what lies between them."""
        positions = range(self.positions)
        found = [place for place in range(self.window) if any(self.met(one, place) is not None for one in positions)]
        return range(found[0], found[-1] + 1)

    def seen(self, sliding: Sliding) -> Sliding:
        """The windows of whole strips; of strips with all positions along a row they are the image's row."""
        window = self.image or self.places[-1] + 1
        numbers = {"window": window, "dilation": 1, "stride": self.stride * self.positions}
        numbers |= {"left": 0, "right": 0} if self.image else {}
        return replace(sliding, **{name: (*getattr(sliding, name)[:-1], one) for name, one in numbers.items()})


class DepthwiseSpec(Struct, frozen=True):
    """What a kernel knows of windows: spatial dimensions, whether they reach beyond the images, channels of a group,
    how many it becomes, whether windows that reach beyond have no more places than `View.embed` calls few, in all
    dimensions (1) or in each (2), of what positions lanes have several (None: of each one), and whether weights are
    turned: the first place meets the last weight.
    """

    rank: int
    padded: bool
    channels: int
    multiplier: int
    few: int = 0
    strip: Strip | None = None
    turned: bool = False

    @property
    def slides(self) -> int:
        """Spatial dimensions along which windows slide: all, or all but the last."""
        return self.rank - bool(self.strip and self.strip.image)

    @property
    def word(self) -> str:
        """As `ContractionSpec.windows` has it."""
        reach = REACHES[self.few] if self.few else "padded" if self.padded else "inside"
        strip = f":{self.strip.word}" if self.strip else ""
        turned = f":{TURNED}" if self.turned else ""
        return f"{DEPTHWISE}:{self.rank}:{reach}:{self.channels}:{self.multiplier}{strip}{turned}"

    @staticmethod
    def parse(text: str) -> DepthwiseSpec:
        """The inverse of `word`. Raises ValueError for other texts."""
        word, rank, reach, channels, multiplier, *strip = text.split(":")
        turned = bool(strip) and strip[-1] == TURNED
        if turned:
            strip.pop()
        known = (
            (word, (DEPTHWISE,)), (rank, range(1, MOST_SPATIAL + 1)), (reach, (*REACHES.values(), "padded", "inside")),
            (channels, range(1, MOST_CHANNELS + 1)), (multiplier, MULTIPLIERS),
        )  # fmt: skip
        if any(one not in map(str, able) for one, able in known) or len(strip) > 1:
            raise ValueError(text)
        few = next((number for number, word in REACHES.items() if word == reach), 0)
        of_strip = Strip.parse(strip[0]) if strip else None
        return DepthwiseSpec(int(rank), reach != "inside", int(channels), int(multiplier), few, of_strip, turned)

    def arguments(self) -> list[str]:
        """Kernel arguments in place of the distances of the matrices' rows."""
        spatial = range(self.rank)
        geometry = [f"{name}{dim}" for name in (*PARAMETERS, "positions") for dim in spatial]
        steps = ["image_step", *(f"space_step{dim}" for dim in spatial)]
        return ["images", "groups", *geometry, *steps, *(f"share{dim}" for dim in spatial[1:])]


class Depthwise(Struct, frozen=True):
    """Windows of a problem: so many images, and groups of as many channels, which become `multiplier` each; seen in
    strips where there is one. Weights may be turned.
    """

    sliding: Sliding
    images: int
    groups: int
    channels: int
    multiplier: int
    strip: Strip | None = None
    turned: bool = False

    @property
    def described(self) -> DepthwiseSpec:
        """What a kernel has to know."""
        padded = self.seen.padded
        few = self.slid.few_places if padded else 0
        return DepthwiseSpec(self.sliding.rank, padded, self.channels, self.multiplier, few, self.strip, self.turned)

    @property
    def seen(self) -> Sliding:
        """The windows that the kernel is told of."""
        return self.strip.seen(self.sliding) if self.strip else self.sliding

    @property
    def slid(self) -> Sliding:
        """The same along the dimensions in which which places exist is asked for each position."""
        seen = self.seen
        if not self.strip or not self.strip.image:
            return seen
        return Sliding(*(getattr(seen, name)[:-1] for name in PARAMETERS))

    def in_strips(self, positions: int) -> Depthwise | None:
        """The same seen in strips of so many positions; None where these do not divide those along the dimension, or
        windows are too long."""
        sliding = self.sliding
        if not all(sliding.positions) or sliding.positions[-1] % positions or sliding.window[-1] not in WINDOWS:
            return None
        strip = Strip(positions, sliding.window[-1], sliding.stride[-1], sliding.dilation[-1])
        return replace(self, strip=strip)

    def in_rows(self) -> Depthwise | None:
        """The same seen in strips of all positions of a row; None where there are too many or too few for a strip, or
        no window meets the image.
        """
        sliding = self.sliding
        found = self.in_strips(sliding.positions[-1]) if sliding.positions[-1] in STRIPS else None
        if found is None or found.strip is None or not sliding.image[-1]:
            return None
        strip = replace(found.strip, left=sliding.left[-1], image=sliding.image[-1])
        return replace(self, strip=strip) if strip.places else None

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
