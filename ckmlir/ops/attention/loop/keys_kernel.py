"""Sources of K and V: where a block of keys lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ckmlir.dialect.packing import PACKED
from ckmlir.lang import Scalar, Tile, View, load, view
from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec, row_multiple
from ckmlir.ops.attention.loop.heads_kernel import rows_of_head
from ckmlir.ops.attention.loop.loop_kernel import Form, Keys
from ckmlir.ops.attention.loop.work_kernel import Side


@dataclass(frozen=True)
class Rows(Keys):
    """K and V of a head as rows, one behind the other; V may be columns.

    Attributes:
        k: (keys, channels), filled up to whole blocks.
        v: (channels, keys), so too.
    """

    form: Form
    k: View
    v: View

    def load_k(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        return load(self.k.window((self.form.keys, self.form.d), (key, 0), moves_buffer=True))

    def load_v(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`."""
        return load(self.v.window((self.form.dv, self.form.keys), (0, key), moves_buffer=True))


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
        return load(rows.window((self.form.keys, PACKED[self.name].size(channels)), (key, 0), moves_buffer=True))


class PackedColumns(PackedRows):
    """The same with V in columns, of which neighbouring keys share bytes: (channels, bytes of keys)."""

    def load_v(self, key: Scalar) -> Tile:
        """See `loop_kernel.Keys`: a block begins with a byte."""
        packing = PACKED[self.name]
        place = key // packing.elements * packing.bytes
        return load(self.v.window((self.form.dv, packing.size(self.form.keys)), (0, place)))


def rows_of_sequence(given: Any, spec: FmhaFwdSpec, side: Side, head: Scalar, form: Form) -> Rows:
    """K and V of a sequence in a head, whose strides the kernel takes."""
    if spec.stored:
        return _packed_rows(given, spec, side, head, form)
    k = rows_of_head(given, "k", head, side, spec.d, row_multiple(spec.dtype))
    if spec.v_columns:
        v = _columns_of_head(given, spec, side, head, side.length, spec.values)
    else:
        v = rows_of_head(given, "v", head, side, spec.dv, row_multiple(spec.values)).permute(1, 0)
    return Rows(form, k.pad(form.keys, form.d), v.pad(form.dv, form.keys))


def _packed_rows(given: Any, spec: FmhaFwdSpec, side: Side, head: Scalar, form: Form) -> PackedRows:
    packing, multiple = PACKED[spec.stored], row_multiple(spec.stored)
    size = packing.size
    k = rows_of_head(given, "k", head, side, size(spec.d), multiple).pad(form.keys, size(form.d))
    if spec.v_columns:
        length = (side.length + (packing.elements - 1)) // packing.elements * packing.bytes
        v = _columns_of_head(given, spec, side, head, length, spec.stored)
        return PackedColumns(form, k, v.pad(form.dv, size(form.keys)), spec.stored)
    v = rows_of_head(given, "v", head, side, size(spec.dv), multiple).pad(form.keys, size(form.dv))
    return PackedRows(form, k, v, spec.stored)


def _columns_of_head(
    given: Any, spec: FmhaFwdSpec, side: Side, head: Scalar, length: Scalar, dtype: str
) -> View:
    """V of a sequence in a head in columns (channels, keys), each of a length in what memory counts for a type."""
    multiple = row_multiple(dtype)
    distance = head.to("i64") * given.v_head + side.origin(given.v_seq, given.v_batch)
    shape, row = (spec.dv, length.multiple_of(spec.v_columns)), given.v_seq.multiple_of(multiple)
    return view(given.v.offset(distance.multiple_of(multiple)), shape, (row, 1))
