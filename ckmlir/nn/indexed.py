"""Functions of rows and numbers: sorting, counting, running sums, and rows added up where their numbers say."""

from __future__ import annotations

import math
from typing import Any

from ckmlir.nn.calls import Call, constant
from ckmlir.nn.dimensions import along, is_last
from ckmlir.nn.given import Given, pitch_key, pitch_of
from ckmlir.nn.gradients import differentiable
from ckmlir.nn.plain import checked, number, word
from ckmlir.runtime.device import DeviceError

ADDED_IN_F32 = ("f16", "bf16")
"""Types of rows that are added in f32, as PyTorch adds the gradient of an embedding on GPUs."""


@checked
def argsort(x: Any, dim: int = -1, descending: bool = False, *, out: Any = None, stream: object = None) -> Any:
    """The places of every row's elements in the order of their values: `torch.argsort` with stable=True.

    Args:
        x: (…, n), f32, f16, bf16 or i32; at most 4096 elements a row.
        dim: along which elements are put in order; along another than the last, at the price of copies.
        out: places, to be written.

    Returns:
        Places, (…, n), i32. NaN is larger than all numbers.

    Raises:
        DeviceError: rows are not contiguous, or x has no dimension `dim`.
        RequestError: the operator refuses the type or the size.
    """
    call = Call(stream)
    given = call.read("x", x)
    outputs = call.outputs(out, indices=(given.shape, "i32"))
    if not is_last(dim, given):
        return along(dim, argsort, x, outputs, descending=descending, stream=stream)
    rows = given.rows()
    keys = _rows(rows) | {"order": _order(descending), "stride": pitch_of(rows)}
    return outputs.of(call.run("argsort", keys, {"x": rows}, outputs.given, varying=("m",)))


@checked
def sort(x: Any, dim: int = -1, descending: bool = False, *, out: Any = None, stream: object = None) -> Any:
    """Every row's elements in order, and their places: `torch.sort` with stable=True.

    Args:
        x, dim: as for `argsort`.
        out: values and places, to be written.

    Returns:
        Values (…, n), of x's type, and places (…, n), i32.

    Raises:
        DeviceError, RequestError: as `argsort`.
    """
    call = Call(stream)
    given = call.read("x", x)
    outputs = call.outputs(out, y=(given.shape, given.dtype), indices=(given.shape, "i32"))
    if not is_last(dim, given):
        return along(dim, sort, x, outputs, descending=descending, stream=stream)
    rows = given.rows()
    keys = _rows(rows) | {"k": rows.shape[1], "order": _order(descending), "stride": pitch_of(rows)}
    return outputs.of(call.run("topk", keys, {"x": rows}, outputs.given, varying=("m",)))


@checked
def cumsum(x: Any, dim: int = -1, *, exclusive: bool = False, out: Any = None, stream: object = None) -> Any:
    """Running sums along every row: `torch.cumsum`.

    Args:
        x: (…, n), f32, f16, bf16 or i32; floats are added in f32. dim: as for `argsort`.
        exclusive: without the element itself.
        out: (…, n), to be written.

    Returns:
        (…, n), of x's type.

    Raises:
        DeviceError, RequestError: as `argsort`.
    """
    call = Call(stream)
    given = call.read("x", x)
    outputs = call.outputs(out, y=(given.shape, given.dtype))
    if not is_last(dim, given):
        return along(dim, cumsum, x, outputs, exclusive=exclusive, stream=stream)
    rows = given.rows()
    keys = _rows(rows) | {"exclusive": exclusive, "stride": pitch_of(rows), **pitch_key("ystride", outputs.given["y"])}
    return outputs.of(call.run("cumsum", keys, {"x": rows}, outputs.given, varying=("m",)))


def nonzero(x: Any, *, out: Any = None, stream: object = None) -> Any:
    """The places of every row's elements that are not zero, in order, and how many there are.

    Results are as large as they may become, so that nothing is read back.

    Args:
        x: (…, n), f16, bf16, f32, i32 or i8. -0 is zero, NaN is not.
        out: places and their numbers, to be written.

    Returns:
        Places (…, n), i32, with -1 behind the last, and their numbers (…), i32.

    Raises:
        DeviceError, RequestError: as `argsort`.
    """
    call = Call(stream)
    given = call.read("x", x)
    rows = given.rows()
    outputs = call.outputs(out, y=(given.shape, "i32"), counts=(given.shape[:-1], "i32"))
    keys = _rows(rows) | {"stride": pitch_of(rows)}
    return outputs.of(call.run("nonzero", keys, {"x": rows}, outputs.given, varying=("m",)))


def histogram(x: Any, bins: int, *, out: Any = None, stream: object = None) -> Any:
    """How often each number from 0 to bins - 1 occurs in every row; other numbers count nowhere.

    Args:
        x: (…, n), i32, without gaps. bins: at most 4096.
        out: counts, to be written.

    Returns:
        Counts, (…, bins), i32.

    Raises:
        DeviceError, RequestError: as `argsort`; elements have gaps.
    """
    call = Call(stream)
    given = call.read("x", x).require(dtype="i32")
    rows = given.rows()
    count, length = rows.shape
    bins = number("bins", bins, 1)
    shape = (*given.shape[:-1], bins)
    outputs = call.outputs(out, counts=(shape, "i32"))
    if count and not length:  # rows that have nothing to count
        return outputs.of(call.put({"counts": constant(call, given, 0, count * bins, "i32")}, outputs.given))
    keys: dict[str, object] = {"n": count * length, "part": max(length, 1), "bins": bins}
    flat = {"x": rows.reshaped(count * length)}
    return outputs.of(call.run("histogram", keys, flat, outputs.given, varying=("n",)))


def segment_sum(x: Any, offsets: Any, *, out: Any = None, stream: object = None) -> Any:
    """The sums of the rows of each segment: row s is x[offsets[s]] + … + x[offsets[s + 1] - 1].

    Args:
        x: (m, n…), f32, f16, bf16 or i32.
        offsets: (segments + 1,), i32; numbers from 0 to m that do not fall.
        out: (segments, n…), to be written.

    Returns:
        (segments, n…), of x's type; of a segment without rows zeros.

    Raises:
        DeviceError, RequestError: as `argsort`; offsets of another form.
    """
    call = Call(stream)
    given, starts = _leading_rows(call.read("x", x)), call.numbers("offsets", offsets).require(ndim=1, dtype="i32")
    if not starts.shape[0]:
        raise DeviceError("offsets: no number; expected one for each segment, and where the last ends")
    rows = given.reshaped(given.shape[0], math.prod(given.shape[1:])).rows()
    segments = starts.shape[0] - 1
    outputs = call.outputs(out, y=((segments, *given.shape[1:]), given.dtype))
    keys = _rows(rows) | {"segments": segments, "stride": pitch_of(rows)}
    keys |= pitch_key("ystride", outputs.given["y"], given.ndim - 1)
    inputs: dict[str, Given | None] = {"x": rows, "offsets": vector(starts)}
    return outputs.of(call.run("segment_sum", keys, inputs, outputs.given, varying=("m", "segments")))


@differentiable
def scatter_rows(x: Any, ids: Any, rows: int, *, op: str = "add", out: Any = None, stream: object = None) -> Any:
    """Rows put, or added up, where their numbers say: row r of the result is that of x whose number is r, or their sum.

    It is the gradient of `embedding` for the table, and `torch.index_add` to zeros.

    Args:
        x: (…, n), f32, f16, bf16 or i32; f16 and bf16 are added in f32 and rounded once, since 257 ones would be 256 in
            bf16.
        ids: (…), i32; what is not a row's number is left out.
        rows: of the result.
        op: add, in no particular order, or store: of rows with one number any remains.
        out: (rows, n), to be written.

    Returns:
        (rows, n), of x's type; rows that no number names are zeros.

    Raises:
        DeviceError, RequestError: as `argsort`; as many numbers as rows are expected.
    """
    call = Call(stream)
    given = call.read("x", x)
    matrix = given.rows()
    numbers = call.numbers("ids", ids).require(shape=given.shape[:-1], dtype="i32")
    outputs = call.outputs(out, y=((number("rows", rows, 0), matrix.shape[1]), matrix.dtype))
    keys = _rows(matrix) | {"rows": rows, "op": word("op", op, ("add", "store")), "stride": pitch_of(matrix)}
    if op == "add" and matrix.dtype in ADDED_IN_F32:
        keys["sums"] = "f32"
    inputs: dict[str, Given | None] = {"x": matrix, "ids": vector(numbers)}
    return outputs.of(call.run("scatter_rows", keys, inputs, outputs.given, varying=("m",)))


def vector(numbers: Given) -> Given:
    """Numbers as a vector without gaps. Raises DeviceError where there are some."""
    flat = numbers.reshaped(math.prod(numbers.shape))
    if flat.shape[0] > 1 and flat.strides != (1,):
        raise DeviceError(f"{numbers.what}: numbers lie {flat.strides[0]} elements apart; make a contiguous copy first")
    return flat.strided(flat.shape, (1,))


def _leading_rows(x: Given) -> Given:
    """Something that has rows. Raises DeviceError for a number."""
    if not x.shape:
        raise DeviceError("x: a number has no rows; expected at least one dimension")
    return x


def _rows(rows: Given) -> dict[str, object]:
    return {"m": rows.shape[0], "n": rows.shape[1], "dtype": rows.dtype}


def _order(descending: bool) -> str:
    return "descending" if descending else "ascending"
