"""Sources of K and V: where a block of keys lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ckmlir.lang import Scalar, Tile, View, load, view
from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec, channel_multiple
from ckmlir.ops.attention.heads_kernel import rows_of_head
from ckmlir.ops.attention.loop_kernel import Form
from ckmlir.ops.attention.work_kernel import Side


@dataclass(frozen=True)
class Rows:
    """K and V of a head as rows, one behind the other; V may be columns.

    Attributes:
        k: (keys, channels), filled up to whole blocks.
        v: (channels, keys), so too.
    """

    form: Form
    k: View
    v: View

    def prepare(self, key: Scalar) -> None:
        """See `loop_kernel.Keys`: the first row's place is all there is to know."""

    def load_k(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        return load(self.k.window((self.form.keys, self.form.d), (key, 0)))

    def load_v(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        return load(self.v.window((self.form.dv, self.form.keys), (0, key)))


def rows_of_sequence(given: Any, spec: FmhaFwdSpec, side: Side, head: Scalar, form: Form) -> Rows:
    """K and V of a sequence in a head, whose strides the kernel takes."""
    k = rows_of_head(given, "k", head, side, spec.d, channel_multiple(spec.dtype))
    multiple = channel_multiple(spec.values)
    if not spec.v_columns:
        v = rows_of_head(given, "v", head, side, spec.dv, multiple).permute(1, 0)
    else:
        distance = head.to("i64") * given.v_head + side.origin(given.v_seq, given.v_batch)
        shape, row = (spec.dv, side.divided(spec.v_columns)), given.v_seq.multiple_of(multiple)
        v = view(given.v.offset(distance.multiple_of(multiple)), shape, (row, 1))
    return Rows(form, k.pad(form.keys, form.d), v.pad(form.dv, form.keys))
