"""What a mapping kernel depends on (`mapping.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ckmlir.digests import digest_of
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.spec import Algorithm, by
from ckmlir.ops.tensors.tiling import TileSpec
from ckmlir.targets.cdna import WAVE_SIZE

COPIED_BYTES = 4
"""What a lane copies to LDS at a time, at least (every chip can)."""


class MapSpec(TileSpec):
    """What a mapping kernel depends on; arrays are the inputs, then the output.

    Attributes:
        operator: whose kernel it is.
        expression: over the inputs' names; "" moves elements of any type unchanged.
        staging: see MapProblem.
    """

    operator: str
    expression: str
    staging: Algorithm[str]

    @property
    def name(self) -> str:
        digest = digest_of(self.to_json(), 10)
        words = [self.operator, *self.dtypes, f"tile{by(self.tile)}", *self.steps]
        return "_".join(words) + f"_{digest}"

    @property
    def output(self) -> str:
        return self.arrays[-1]

    @property
    def integer(self) -> bool:
        """Whether the expression is one of integers."""
        return is_integer(self.dtypes)

    def crosses(self, name: str) -> bool:
        """Whether an input's elements follow each other along another dimension than the output's."""
        unit = self.unit(name)
        if unit is None or unit == self.last:
            return False
        packed = find_dtype(self.dtypes[self.place(name)]).packing is not None
        return packed or (self.tile[unit] >= 4 and self.tile[self.last] >= 4)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element in registers: its own where it only moves."""
        return 4 if self.expression else max(find_dtype(name).bytes for name in self.dtypes)

    @property
    def transposing_waves(self) -> int:
        """Waves with a whole block to turn for each work-item: vectors of the output by vectors of an input."""
        if self.expression:
            return self.waves  # what is computed with takes a register for every element
        crossing = [self.vector(name) for name in self.arrays[:-1] if self.crosses(name)]
        block = self.vector(self.output) * max(crossing, default=1) if crossing else 1
        return min(self.waves, max(prod(self.tile) // (WAVE_SIZE * block), 1))

    @property
    def copying_waves(self) -> int:
        """Waves that each have bytes of their own to copy to LDS: what two of them wrote would be a race."""
        copied = prod(self.tile) * min(find_dtype(name).bytes for name in self.dtypes)
        return min(self.waves, max(copied // (WAVE_SIZE * COPIED_BYTES), 1))

    @property
    def last(self) -> int:
        """The dimension that work-items hold vectors of."""
        found = self.unit(self.output)
        return self.rank - 1 if found is None else found


def is_integer(dtypes: Sequence[str]) -> bool:
    """Whether an expression over these types, output last, is computed in integers."""
    return all(find_dtype(dtype).is_integer for dtype in dtypes)


def transposes_itself(dtypes: Sequence[str]) -> bool:
    """Whether transposing LDS reads, where the chip has them, serve a mapping of one input: elements of 16 bits.
    Single bytes are turned in registers, by squares of 16 x 16, whose accesses are as wide."""
    return len(dtypes) == 2 and all(find_dtype(dtype).bytes == 2 for dtype in dtypes)
