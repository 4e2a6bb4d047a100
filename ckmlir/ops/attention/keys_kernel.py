"""Sources of K and V: where a block of keys lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ckmlir.dialect.packing import PACKED
from ckmlir.lang import Scalar, Tile, View, load, view
from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec, row_multiple
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


@dataclass(frozen=True)
class PackedRows(Rows):
    """Rows of bytes that hold packed elements: V as K, (keys, channels).

    Attributes:
        name: of the packed type.
    """

    name: str

    def load_k(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        return self._load(self.k, key, self.form.d)

    def load_v(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        return self._load(self.v, key, self.form.dv)

    def _load(self, rows: View, key: Scalar, channels: int) -> Tile:
        return load(rows.window((self.form.keys, PACKED[self.name].size(channels)), (key, 0)))


def rows_of_sequence(given: Any, spec: FmhaFwdSpec, side: Side, head: Scalar, form: Form) -> Rows:
    """K and V of a sequence in a head, whose strides the kernel takes."""
    if spec.stored:
        return _packed_rows(given, spec, side, head, form)
    k = rows_of_head(given, "k", head, side, spec.d, row_multiple(spec.dtype))
    multiple = row_multiple(spec.values)
    if not spec.v_columns:
        v = rows_of_head(given, "v", head, side, spec.dv, multiple).permute(1, 0)
    else:
        distance = head.to("i64") * given.v_head + side.origin(given.v_seq, given.v_batch)
        shape, row = (spec.dv, side.divided(spec.v_columns)), given.v_seq.multiple_of(multiple)
        v = view(given.v.offset(distance.multiple_of(multiple)), shape, (row, 1))
    return Rows(form, k.pad(form.keys, form.d), v.pad(form.dv, form.keys))


def _packed_rows(given: Any, spec: FmhaFwdSpec, side: Side, head: Scalar, form: Form) -> PackedRows:
    size = PACKED[spec.stored].size
    k, v = (
        rows_of_head(given, name, head, side, size(own), row_multiple(spec.stored)).pad(form.keys, size(tile))
        for name, own, tile in (("k", spec.d, form.d), ("v", spec.dv, form.dv))
    )
    return PackedRows(form, k, v, spec.stored)
