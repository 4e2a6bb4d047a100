"""A sparse A: two of every four neighbours along K, and an index that says which (2:4 structured sparsity).

Row i of A (m, k) becomes `kept(k)` elements, those of each four in their order, and `index_bytes(k)` bytes of index:
two bits for each element, the first of a byte in the lowest, say which of its four it is. Where 4 does not divide k,
the last elements stand for zeros; bits beyond the last are zero. Source of the order: AMD CDNA3 ISA, 7.4, "SMFMAC".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from ckmlir.ops.comparison import Array

BY_ROWS, PIECES = "rows", "pieces"
ORDERS = (BY_ROWS, PIECES)
"""Of the index: row by row; or a piece of `PIECE` bytes of every row, then the next of every row, the last filled up
with zeros. What a step of a product takes of the rows of a block is then next to each other."""
PIECE = 16
"""Bytes: a load of a lane, of 128 elements along K."""
T = TypeVar("T", bound=Any)
OF, KEPT = 4, 2
"""Of every so many neighbours so many are kept."""
BITS = 2
"""Of the index for each."""


def kept(k: T) -> T:
    """Elements of a row that are kept of k."""
    found: T = (k + (OF - 1)) // OF * KEPT
    return found


def index_bytes(k: T) -> T:
    """Bytes of the index of a row of k elements."""
    found: T = (k + (2 * OF - 1)) // (2 * OF)
    return found


def index_shape(order: str, m: int, k: int, pitch: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of the index of m rows of k elements; `pitch`: of rows, where these follow each other."""
    length = index_bytes(k)
    if order == BY_ROWS:
        return (m, length), (pitch, 1)
    return (-(-length // PIECE), m, PIECE), (m * PIECE, PIECE, 1)


def in_order(index: Array, order: str) -> Array:
    """An index (m, bytes) in an order."""
    if order == BY_ROWS:
        return index
    m, length = index.shape
    pieces = -(-length // PIECE)
    filled = np.zeros((m, pieces * PIECE), index.dtype)
    filled[:, :length] = index
    found: Array = np.ascontiguousarray(filled.reshape(m, pieces, PIECE).swapaxes(0, 1))
    return found


def in_rows(index: Array, order: str, k: int) -> Array:
    """The inverse of `in_order`, of rows of k elements."""
    if order == BY_ROWS:
        return index
    pieces, m, _ = index.shape
    found: Array = index.swapaxes(0, 1).reshape(m, pieces * PIECE)[:, : index_bytes(k)]
    return found


def compress(a: Array, *, strict: bool = False) -> tuple[Array, Array]:
    """The two elements of largest magnitude of every four along the rows of A, and their index.

    Of equal magnitudes the first count; NaN counts as infinite. What is dropped is lost: of a matrix that has more than
    two numbers other than zero among four, this is its pruning.

    Args:
        a: (m, k), of any type of numbers.
        strict: refuse to drop anything.

    Returns:
        (m, kept(k)) of the same type, and (m, index_bytes(k)), int8.

    Raises:
        ValueError: not a matrix; with `strict`, more than two numbers other than zero among four, named by their place.
    """
    if a.ndim != 2:
        raise ValueError(f"a has shape {a.shape}; expected a matrix")
    m, k = a.shape
    fours = np.zeros((m, kept(k) // KEPT, OF), a.dtype)
    fours.reshape(m, kept(k) // KEPT * OF)[:, :k] = a
    sizes = np.abs(fours.astype(np.float64))
    crowded = np.argwhere((sizes != 0).sum(axis=2) > KEPT)
    if strict and len(crowded):
        row, four = crowded[0]
        what = f"columns {OF * four} to {OF * four + OF - 1} of row {row} have {(sizes[row, four] != 0).sum()} numbers"
        raise ValueError(f"{what} other than zero; expected at most {KEPT}")
    order = np.argsort(-np.where(np.isnan(sizes), np.inf, sizes), axis=2, kind="stable")[..., :KEPT]
    places = np.sort(order, axis=2)
    values = np.take_along_axis(fours, places, axis=2).reshape(m, kept(k))
    return values, pack_index(places.reshape(values.shape))


def pack_index(places: Array) -> Array:
    """The index of elements that are the `places`-th of their fours, (m, kept(k)) of numbers below 4."""
    m, count = places.shape
    whole = -(-count // OF)
    padded = np.zeros((m, whole * OF), np.uint8)
    padded[:, :count] = places
    packed: Array = (padded.reshape(m, whole, OF) << np.arange(0, OF * BITS, BITS, dtype=np.uint8)).sum(axis=2)
    return packed.astype(np.uint8).view(np.int8)


def places_of(index: Array, k: int) -> Array:
    """Which of its four each kept element is, (m, kept(k)): what `pack_index` packed."""
    bits = index.view(np.uint8)[:, :, None] >> np.arange(0, OF * BITS, BITS, dtype=np.uint8) & (OF - 1)
    found: Array = bits.reshape(len(index), index.shape[1] * OF)[:, : kept(k)]
    return found


def spread(values: Array, index: Array, k: int) -> Array:
    """The matrix (m, k) that has the elements kept and zeros elsewhere."""
    found = np.zeros((len(values), kept(k) // KEPT * OF), values.dtype)
    columns = np.arange(kept(k)) // KEPT * OF + places_of(index, k)
    np.put_along_axis(found, columns, values, axis=1)
    return found[:, :k]
