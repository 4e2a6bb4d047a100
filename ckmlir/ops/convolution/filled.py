"""Images whose channels are not a multiple of four, filled up with zeros so that rows of a window are vectors.

Elements of such images can only be loaded one by one, or in pairs. Where windows of many positions meet them, they are
copied first, to as many channels as a multiple of four, with the padding along the last dimension around them; weights
alike. A row of a window is then contiguous, and the kernel takes it as channels of one place: of a convolution whose
last dimension has a place for each position, as far apart as positions are, and windows of length 1.

By the model on gfx942, in us: 32 images of 224 x 224, 3 channels to 64 by 7 x 7 with strides, 42.4 as they are, 22.9
filled, of which 5.5 fill the images. Pairs of 16 bits pay for that where many columns are computed of few channels: 32
images of 56 x 56 by 3 x 3, 10 to 256 channels 35.7 instead of 39.2 (gfx950 21.0 and 22.3, gfx90a 118.0 and 130.8), 26
to 256 44.7 and 47.9, 62 to 256 58.9 and 65.9, but 34 to 256 52.6 and 51.1, 6 to 256 31.7 and 31.3, 18 to 128 22.5 and
22.2; with strides of 2, 10 to 256 39.9 and 39.2; by 2 x 2 29.7 and 31.8.
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
MOST_PAIRED = {0: 62, 4: 26}
"""Channels in pairs for which it pays, by what is left of the filled ones by eight."""
LEAST_COLUMNS = 256
FEWEST = 4
"""Places of a window of which channels are copied in pairs."""
LEAST_POSITIONS = 1 << 15
"""Fewer do not make up for two launches more: 128 blocks of 256."""


class Filled(Struct, frozen=True):
    """A convolution's images and weights with more channels; `dtypes`: of images, and of weights, of one size."""

    shapes: Geometry
    dtypes: tuple[str, str]

    @staticmethod
    def of(shapes: Geometry, dtypes: tuple[str, str]) -> Filled | None:
        """Those that pay, if they are no larger than kernels address; None: a kernel takes arrays as they are."""
        found = Filled(shapes, dtypes)
        if shapes.g > 1 or shapes.positions < LEAST_POSITIONS or not found._is_worth_it:
            return None
        if shapes.places == 1 or shapes.sliding.dilation[-1] > 1:
            return None
        return found if "f64" not in dtypes and found.nbytes <= MAXIMUM_ARRAY_BYTES else None

    @property
    def _is_worth_it(self) -> bool:
        """Whether loads that are longer save more than the copy takes, with as many positions as there have to be."""
        channels, columns = self.shapes.c, self.shapes.k
        if channels % 2:
            return channels >= LEAST_CHANNELS
        strided = any(stride > 1 for stride in self.shapes.sliding.stride)  # a copy of more than there are positions
        if channels % MULTIPLE == 0 or find_dtype(self.dtypes[0]).bytes != 2 or strided or self.shapes.places < FEWEST:
            return False
        return LEAST_PAIRED <= channels <= MOST_PAIRED[self.channels % 8] and columns >= LEAST_COLUMNS

    @property
    def channels(self) -> int:
        """Of a place."""
        return ceil_div(self.shapes.c, MULTIPLE) * MULTIPLE

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
