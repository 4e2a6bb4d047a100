"""mhc_post: the n streams behind a layer, y[i] = sum over j of res[i, j] · x[j] + post[i] · f, row by row.

Arrays: x (m, n c), the channels of a stream next to each other; coefficients (m, 2 n + n²) f32 as `mhc` makes them; f
(m, c), what the layer made; y (m, n c). See `ckmlir.ops.mhc.streams`.
"""

from __future__ import annotations

from ckmlir.ops.mhc.mixing import RowPitch
from ckmlir.ops.mhc.streams import KEYS, StreamsOperator
from ckmlir.ops.request import Pitch


class MhcPost(StreamsOperator):
    """The operator `mhc_post`, which the module's docstring describes."""

    name = "mhc_post"
    mixes = True
    keys = (
        *KEYS,
        RowPitch("ystride", None, "elements from one row of y to the next", minimum=1, lengths=("c", "streams")),
        Pitch("fstride", None, "elements from one row of f to the next", minimum=1, of=("c",)),
    )


OPERATOR = MhcPost()
