"""Images that a product sees as matrices: their rows are the positions of windows, their columns what windows hold.

A convolution is a product of matrices of which one is never made (implicit GEMM): the patches of the images. Forward,
that is A, with a row for each image and position and a column for each place in the window and channel; in the gradient
of the weights it is B, whose rows are A's columns.

Source of the semantics: CK Tile's transforms of convolutions to GEMM (example/ck_tile/20_grouped_convolution).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.ops.contraction.contraction_spec import DEPTHWISE
from ckmlir.ops.contraction.depthwise import DepthwiseSpec
from ckmlir.ops.contraction.residues import CHANNELS, ResiduesSpec, known_channels
from ckmlir.ops.request import MAXIMUM_SIZE
from ckmlir.ops.tensors.sliding import MOST_SPATIAL, PARAMETERS, Sliding, image_steps

PARTS = ("forward", "weight", "places", "units")
"""Which matrix the patches are: A, with K within windows; B, with K along images and their positions; B, with K along
positions and all images at each, or in units of several positions; the same with images counted in whole units, of the
last of which there may be a part.
"""
BY_PLACE = ("places", "units")
"""Parts whose K goes along all images at a position."""


class WindowsSpec(Struct, frozen=True):
    """What a kernel knows of windows.

    Attributes:
        part: of `PARTS`.
        rank: spatial dimensions.
        padded: whether windows reach beyond the images.
        few: whether they do, and have no more places than `View.embed` calls few.
        channels: what divides those of a group, 128 at most. Where the loop's steps do too, a step is in one place of
            the window, and what a step has in common costs no vector arithmetic. Of columns it says which lanes are.
        images: what divides their number, 128 at most, or how many a unit has, where K goes along them at each
            position. Where the loop's steps do too, a step is at one position.
        positions: how many a unit has along each dimension, which they divide; all 1, or none: K goes along all images
            at one.
    """

    part: str
    rank: int
    padded: bool
    channels: int
    few: bool = False
    images: int = 1
    positions: tuple[int, ...] = ()

    @property
    def unit(self) -> int:
        """Positions, each of each of some images, that K counts at one place of the images."""
        return prod(self.positions, start=self.images)

    @property
    def word(self) -> str:
        """As `ContractionSpec.windows` has it."""
        reach = "few" if self.few else "padded" if self.padded else "inside"
        unit = "x".join(map(str, (self.images, *self.positions)))
        images = f":{unit}" * (self.part in BY_PLACE)
        return f"{self.part}:{self.rank}:{reach}:{self.channels}{images}"

    @staticmethod
    def parse(text: str) -> WindowsSpec:
        """The inverse of `word`. Raises ValueError for other texts."""
        part, rank, reach, *known = text.split(":")
        if part not in PARTS or not rank.isdigit() or not 1 <= int(rank) <= MOST_SPATIAL:
            raise ValueError(text)
        if len(known) != (2 if part in BY_PLACE else 1):
            raise ValueError(text)
        channels, unit = known[0], (*known, "1")[1].split("x")
        if reach not in ("few", "padded", "inside") or not {channels, *unit} <= {*CHANNELS}:
            raise ValueError(text)
        images, *positions = map(int, unit)
        if positions and (part != "places" or len(positions) != int(rank) or prod(positions) == 1):
            raise ValueError(text)
        return WindowsSpec(
            part, int(rank), reach != "inside", int(channels), reach == "few", images, tuple(positions)
        )  # fmt: skip

    @property
    def image(self) -> str:
        """Which operand the patches are."""
        return "a" if self.part == "forward" else "b"

    @property
    def slides(self) -> int:
        """Spatial dimensions along which windows slide."""
        return self.rank

    def arguments(self) -> list[str]:
        """Kernel arguments in place of the distances of the matrices' rows."""
        spatial = range(self.rank)
        geometry = [f"{name}{dim}" for name in (*PARAMETERS, "positions") for dim in spatial]
        steps = ["image_step", *(f"space_step{dim}" for dim in spatial)]
        return ["images", "channels", *geometry, *steps, "ldb" if self.image == "a" else "lda"]


def parse_windows(text: str) -> WindowsSpec | ResiduesSpec | DepthwiseSpec:
    """What a kernel knows of windows, as `ContractionSpec.windows` has it. Raises ValueError for other texts."""
    if text.startswith(f"{DEPTHWISE}:"):
        return DepthwiseSpec.parse(text)
    if text.startswith("data:"):
        return ResiduesSpec.parse(text)
    return WindowsSpec.parse(text)


def rank_of(text: str) -> int:
    """Spatial dimensions of windows."""
    return parse_windows(text).rank


class Windows(Struct, frozen=True):
    """Windows of a problem.

    Attributes:
        images: how many there are.
        channels: of a group.
        place: elements from one place of an image to the next: the channels of all groups.
        steps: elements from one image to the next, and to the next place along each dimension; of packed images None.
    """

    part: str
    sliding: Sliding
    images: int
    channels: int
    place: int
    steps: tuple[int, ...] | None = None

    @property
    def described(self) -> WindowsSpec:
        """What a kernel has to know."""
        known = known_channels(self.channels)
        few = self.part == "forward" and self.sliding.has_few_places
        return WindowsSpec(self.part, self.sliding.rank, self.sliding.padded, known, few and self.sliding.padded)

    @property
    def by_place(self) -> WindowsSpec:
        """What a kernel has to know whose K goes along positions and all images at each, in place of the other way."""
        return replace(self.described, part="places", images=known_channels(self.images))

    def in_units(self, unit: int) -> WindowsSpec:
        """The same where it counts images in units of so many, a power of two up to 128."""
        return replace(self.described, part="units", images=unit)

    def of_neighbours(self, unit: int) -> WindowsSpec | None:
        """The same where units of so many, a power of two, are of as many images as divide their number, and of
        neighbouring positions of these, which divide theirs too; None: there are no such.
        """
        images = gcd(self.images, unit)
        rest, positions = unit // images, list[int]()
        for length in reversed(self.sliding.positions):
            positions.insert(0, gcd(length, rest))
            rest //= positions[0]
        if rest > 1 or not self.images:
            return None
        return replace(self.described, part="places", images=images, positions=tuple(positions))

    @property
    def image(self) -> str:
        """Which operand the patches are."""
        return self.described.image

    @property
    def word(self) -> str:
        """As `ContractionSpec.windows` has it."""
        return self.described.word

    def arguments(self, pitches: Sequence[int]) -> tuple[int, ...]:
        """The numbers of `WindowsSpec.arguments`; `pitches` are those of A and B."""
        geometry = [number for name in PARAMETERS for number in getattr(self.sliding, name)]
        empty = 0 in (self.images, *self.sliding.image)  # distances that kernels are promised divisors of all the same
        steps = [self.place] * (self.sliding.rank + 1) if empty else image_steps(self.sliding, self.place)
        steps = steps if self.steps is None else list(self.steps)
        other = pitches[1 if self.image == "a" else 0]
        # Along one dimension there are more only where along others, or of images, there are none.
        positions = [min(number, MAXIMUM_SIZE) for number in self.sliding.positions]
        return (self.images, self.channels, *geometry, *positions, *steps, other)
