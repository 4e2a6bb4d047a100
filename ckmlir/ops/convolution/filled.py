"""Images with channels that loads do not like, filled up with zeros so that rows of a window are vectors.

Elements of images whose channels four does not divide can only be loaded one by one, or in pairs. Where that takes more
time than copies of them, they are copied first, to as many channels as a multiple of four, or of eight or a step along
K, with the padding along the last dimension around them; weights alike. A row of a window is then contiguous, and the
kernel takes it as channels of one place: of a convolution whose last dimension has a place for each position, as far
apart as positions are, and windows of length 1.

By the model on gfx942, in us: 32 images of 224 x 224, 3 channels to 64 by 7 x 7 with strides, 42.4 as they are, 22.9
filled, of which 5.5 fill the images. Pairs of 16 bits pay for that where many columns are computed of them: 32 images
of 56 x 56 by 3 x 3, 10 to 256 channels 35.7 instead of 39.2 (gfx950 21.0 and 22.3, gfx90a 118.0 and 130.8); but 6 to
256 31.7 and 31.3, 18 to 128 22.5 and 22.2; with strides of 2, 10 to 256 39.9 and 39.2; by 2 x 2 29.7 and 31.8.

More zeros make loads of eight, and whole steps along K need no coordinates of their own and have the blocks of plain
products, though sums are longer. All workgroups of a compute unit simulated together, in us on gfx942, gfx950, gfx90a:
34 to 40 channels 50.5 instead of 51.2, 29.4 and 37.2, 195.7 and 185.3; 50 to 64 48.5 and 62.8, 33.1 and 46.2, 215.4 and
240.5; 52 to 64 48.6 and 54.6, 33.1 and 39.7, 215.6 and 222.7; 114 to 128 83.6 and 103.3, 55.0 and 83.1, 401.9 and
404.5. 66 to 72 would take 74.4 and 70.6, 43.6 and 52.9, 299.3 and 277.5; 98 to 128 399.2 and 350.7 on gfx90a; with
strides of 2 50 to 64 35.2 and 34.6, 29.6 and 28.2, 146.2 and 130.5 (64 images).
"""

from __future__ import annotations

from math import prod

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.ops.arrays import MAXIMUM_ARRAY_BYTES
from ckmlir.ops.contraction.windows import Windows
from ckmlir.ops.convolution.geometry import Geometry
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.layout.img2col import OPERATOR as IMG2COL
from ckmlir.ops.operator import Run
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.steps import Workspace

MULTIPLE = 4
"""Of channels: what a lane loads at a time."""
LEAST_CHANNELS = 3
LEAST_PAIRED = 10
MOST_OF_FOUR = 26
"""Channels in pairs for which it pays to fill them up to a multiple of `MULTIPLE`."""
BY_EIGHT = range(27, 49)
"""Channels that are filled up to a multiple of eight."""
STEP = 64
"""Elements of 16 bits of a step along K."""
MOST_ADDED = 15
"""Channels of zeros for which whole steps pay."""
LEAST_COLUMNS = 256
FEWEST = 4
"""Places of a window of which channels are copied in pairs, or to more than a multiple of `MULTIPLE`."""
LEAST_POSITIONS = 1 << 15
"""Of pairs, and of elements of 32 bits: fewer do not make up for two launches more. 128 blocks of 256."""
SAVED_BY_PRODUCT, SAVED_BY_LENGTH = 3.8e-9, 8.5e-3
"""Microseconds that filling saves, by the model of gfx942, where elements of 8 or 16 bits are loaded one by one, for
each multiplication, and for each element of a sum: what takes longer, loads of all or steps one behind the other.
"""
LAUNCHES, BYTES_OF_MICROSECOND = 2.6, 4.3e6
"""Microseconds of two copies of empty arrays, and bytes that copies read and write in each microsecond beyond that. Of
39 drawn convolutions of odd numbers of channels on gfx942 the choice takes 1.00 of the faster way on average, where a
rule by positions and the lengths of sums took 1.14. It does not know the chip; in us on gfx90a, as they are and filled,
8 of 56 x 56, 63 to 256 by 3 x 3, 108.3 and 65.5 (the rule left them), 32 of 224 x 224, 3 to 32 with strides of 2, 43.6
and 63.7 (it filled them).
"""


class Filled(Struct, frozen=True):
    """A convolution's images and weights with more channels; `dtypes`: of images, and of weights, of one size."""

    shapes: Geometry
    dtypes: tuple[str, str]

    @staticmethod
    def of(shapes: Geometry, dtypes: tuple[str, str]) -> Filled | None:
        """Those that pay, if they are no larger than kernels address; None: a kernel takes arrays as they are."""
        found = Filled(shapes, dtypes)
        if shapes.g > 1 or not shapes.positions or not found._is_large or not found._is_worth_it:
            return None
        if shapes.places == 1 or shapes.sliding.dilation[-1] > 1:
            return None
        return found if "f64" not in dtypes and found.nbytes <= MAXIMUM_ARRAY_BYTES else None

    @property
    def _is_large(self) -> bool:
        """Whether the copies are little beside the product."""
        is_single = self.shapes.c % 2 > 0 and find_dtype(self.dtypes[0]).bytes <= 2
        return self._saves > self._takes if is_single else self.shapes.positions >= LEAST_POSITIONS

    @property
    def _saves(self) -> float:
        """Microseconds of the product, where elements are loaded one by one otherwise."""
        shapes, length = self.shapes, self.shapes.c * self.shapes.places
        return max(SAVED_BY_PRODUCT * shapes.positions * shapes.k * length, SAVED_BY_LENGTH * length)

    @property
    def _takes(self) -> float:
        """Microseconds of the copies."""
        read = prod(self.shapes.x) * find_dtype(self.dtypes[0]).bytes
        return LAUNCHES + (read + self.nbytes) / BYTES_OF_MICROSECOND

    @property
    def _is_strided(self) -> bool:
        """Whether more is copied than there are positions."""
        return any(stride > 1 for stride in self.shapes.sliding.stride)

    @property
    def _is_worth_it(self) -> bool:
        """Whether loads that are longer save more than the copy takes, with as many positions as there have to be."""
        channels = self.shapes.c
        if channels % 2:
            return channels >= LEAST_CHANNELS
        if channels % (2 * MULTIPLE) == 0 or self._is_strided or channels < LEAST_PAIRED or not self._computes_much:
            return False
        shorter = channels % MULTIPLE > 0 and (channels <= MOST_OF_FOUR or self._multiple > MULTIPLE)
        return shorter or self._multiple == STEP

    @property
    def channels(self) -> int:
        """Of a place."""
        return ceil_div(self.shapes.c, self._multiple) * self._multiple

    @property
    def _multiple(self) -> int:
        """What divides the channels once they are filled up."""
        if not self._computes_much:
            return MULTIPLE
        if -self.shapes.c % STEP <= MOST_ADDED:
            return STEP
        return 2 * MULTIPLE if self.shapes.c in BY_EIGHT else MULTIPLE

    @property
    def _computes_much(self) -> bool:
        """Whether enough is computed of 16-bit channels that pairs pay, and zeros behind them."""
        wide = find_dtype(self.dtypes[0]).bytes == 2
        return wide and self.shapes.k >= LEAST_COLUMNS and self.shapes.places >= FEWEST

    @property
    def row(self) -> int:
        """Elements of a row of a window."""
        return self.shapes.sliding.window[-1] * self.channels

    @property
    def place(self) -> int:
        """Elements from one position to the next."""
        return self.shapes.sliding.stride[-1] * self.channels

    @property
    def nbytes(self) -> int:
        """Of the images."""
        return self._rows * self._width * self.channels * find_dtype(self.dtypes[0]).bytes

    @property
    def windows(self) -> Windows:
        """How a product sees them."""
        own = self.shapes.sliding
        last = {"image": own.positions[-1], "window": 1, "stride": 1, "dilation": 1, "left": 0, "right": 0}
        sliding = replace(own, **{name: (*getattr(own, name)[:-1], number) for name, number in last.items()})
        steps = [self.place, self._width * self.channels]
        for length in reversed(own.image[:-1]):
            steps.append(steps[-1] * length)
        return Windows("forward", sliding, self.shapes.n, self.row, self.place, tuple(reversed(steps)))

    def workspaces(self, names: dict[str, str]) -> tuple[Workspace, ...]:
        """Of images x and weights w, by their names."""
        weights = self.shapes.k * self.shapes.places * self.channels * find_dtype(self.dtypes[1]).bytes
        return Workspace(names["x"], self.nbytes), Workspace(names["w"], weights)

    def steps(self, sources: dict[str, str], names: dict[str, str]) -> tuple[Run, ...]:
        """What fills them, from arrays that have channels last."""
        own = self.shapes.sliding
        more = self.channels - self.shapes.c
        right = self._width - own.image[-1] - own.left[-1]
        of_weights = self.shapes.k * self.shapes.places
        found = []
        for name, dtype, count, length, before, behind in (
            ("x", self.dtypes[0], self._rows, own.image[-1], own.left[-1], right),
            ("w", self.dtypes[1], 1, of_weights, 0, 0),
        ):
            problem = IMG2COL.problem(
                n=count, c=1, image=(length, self.shapes.c), window=(1,), pads=(before, 0), right_pads=(behind, more),
                dtype=dtype,
            )  # fmt: skip
            found.append(Run(IMG2COL, problem, {"x": sources[name], "y": names[name]}))
        return tuple(found)

    @property
    def _rows(self) -> int:
        return self.shapes.n * prod(self.shapes.sliding.image[:-1])

    @property
    def _width(self) -> int:
        """Places of a row of an image with what is around them."""
        own = self.shapes.sliding
        return own.image[-1] + own.left[-1] + own.right[-1]
