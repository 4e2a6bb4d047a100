"""mhc_input: what a layer reads of its n streams, y = sum over i of pre[i] · x[i], row by row.

Arrays: x (m, n c), the channels of a stream next to each other; coefficients (m, 2 n + n²) f32 as `mhc` makes them, of
which the first n are pre; y (m, c). See `ckmlir.ops.mhc.streams`.
"""

from __future__ import annotations

from ckmlir.ops.mhc.streams import KEYS, StreamsOperator
from ckmlir.ops.request import Pitch


class MhcInput(StreamsOperator):
    """The operator `mhc_input`, which the module's docstring describes."""

    name = "mhc_input"
    mixes = False
    keys = (*KEYS, Pitch("ystride", None, "elements from one row of y to the next", minimum=1, of=("c",)))


OPERATOR = MhcInput()
