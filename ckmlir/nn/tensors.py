"""Functions of tensors: element by element, other types and orders, reductions, rows of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ckmlir.nn.calls import Call, dtype_name
from ckmlir.nn.given import Given, align_of, pitch_key, pitch_of
from ckmlir.nn.gradients import differentiable
from ckmlir.nn.outputs import permutation
from ckmlir.nn.plain import numbers
from ckmlir.nn.session import TYPICAL
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.request import whole
from ckmlir.runtime.device import DeviceError

NAMES = ("a", "b", "c", "d")


def elementwise(
    expression: str, *arrays: Any, dtype: str | None = None, out: Any = None, stream: object = None
) -> Any:
    """An expression of up to four arrays, called a, b, c and d in it, element by element: `gelu(a + b) * c`.

    Args:
        expression: in the language of `ckmlir.ops.tensors.expression`.
        arrays: they broadcast as NumPy's do; f16, bf16, f32, 8-bit floats, or all i8 and i32.
        dtype: of the result; by default that of the first.
        out: of the shape that they broadcast to, to be written.

    Raises:
        DeviceError: shapes do not broadcast, more arrays than names.
        RequestError: the expression means nothing.
    """
    call = Call(stream)
    if not 1 <= len(arrays) <= len(NAMES):
        raise DeviceError(f"{len(arrays)} arrays; expected 1 to {len(NAMES)}")
    given = [call.read(name, one) for name, one in zip(NAMES, arrays, strict=False)]
    try:
        shape = np.broadcast_shapes(*(one.shape for one in given))
    except ValueError:
        raise DeviceError(f"shapes {', '.join(str(one.shape) for one in given)} do not broadcast") from None
    rank = max(len(shape), 1)
    full = shape or (1,)
    typical: dict[str, object] = {"shape": _typical(full)}
    keys: dict[str, object] = {"op": expression, "shape": full, "dtype": given[0].dtype}
    wanted = given[0].dtype if dtype is None else dtype_name("dtype", dtype)
    keys["out"] = None if dtype is None else wanted
    outputs = call.outputs(out, y=(shape, wanted))
    y = outputs.given["y"]
    keys |= {"strides": y.with_a_dimension().strides} if y is not None and y.is_told else {}
    inputs: dict[str, Given | None] = {}
    for name, one in zip(NAMES, given, strict=False):
        missing = rank - one.ndim
        own = one.strided((1,) * missing + one.shape, (0,) * missing + one.strides)
        keys |= {name: own.shape, f"{name}_dtype": one.dtype, f"{name}_strides": own.strides}
        typical[name] = _typical(own.shape) if one.ndim == rank and one.shape[0] == full[0] else own.shape
        inputs[name] = own
    keys["align"] = align_of([*given, *_present(y)], *(one.dtype for one in given), wanted)
    in_place = {"y": NAMES}
    return outputs.of(call.run("elementwise", keys, inputs, outputs.given, (), typical, in_place))


def cast(x: Any, dtype: str, *, packed: str | None = None, out: Any = None, stream: object = None) -> Any:
    """An array with elements of another type, rounded to nearest, saturated where the type is narrow.

    Args:
        dtype: of the result; of fp4, fp6, bf6 and i4 it is an array of bytes (`ckmlir.ops.packing`).
        packed: what the bytes of x (uint8) hold, where they do: fp4, fp6, bf6 or i4.
        out: of the result's shape, to be written.

    Raises DeviceError and RequestError where there is no such conversion.
    """
    call = Call(stream)
    read = call.read("x", x, packed)
    given = read.with_a_dimension()
    packing = find_dtype(given.dtype).packing
    shape, strides = given.shape, given.strides
    if packing is not None:
        whole = (*shape[:-1], shape[-1] // packing.bytes * packing.bytes)
        if whole != shape or strides[-1] != 1:
            raise DeviceError(f"x of shape {shape}: {packed} takes neighbouring bytes, {packing.bytes} at a time")
        if any(stride % packing.bytes for stride in strides[:-1]):
            raise DeviceError(f"x with strides {strides}: rows of {packed} begin at multiples of {packing.bytes} bytes")
        shape = (*shape[:-1], packing.count(shape[-1]))
        strides = (*(packing.count(stride) for stride in strides[:-1]), 1)
    wanted = dtype_name("dtype", dtype)
    written = find_dtype(wanted).packing
    result = read.shape if packing is written is None else (*shape[:-1], find_dtype(wanted).packed_length(shape[-1]))
    outputs = call.outputs(out, y=(result, wanted))
    y = outputs.given["y"]
    keys: dict[str, object] = {
        "shape": shape, "dtype": given.dtype, "out": wanted, "strides": strides,
        "align": align_of([given, *_present(y)], wanted),
    }  # fmt: skip
    if y is not None and y.is_told and written is None:
        keys["ystrides"] = y.with_a_dimension().strides
    return outputs.of(call.run("cast", keys, {"x": given}, outputs.given, typical={"shape": _typical(shape)}))


def permute(x: Any, dims: Sequence[int], *, out: Any = None, stream: object = None) -> Any:
    """A contiguous copy with the dimensions in another order: `x.permute(dims).contiguous()` of PyTorch.

    Args:
        out: of the new shape, to be written.
    """
    call = Call(stream)
    given = call.read("x", x)
    dims = numbers("dims", dims)
    order = tuple(dim + given.ndim if dim < 0 else dim for dim in dims)
    if sorted(order) != list(range(given.ndim)):
        raise DeviceError(f"dims={dims}: expected each of {given.ndim} dimensions once")
    outputs = call.outputs(out, y=(tuple(given.shape[dim] for dim in order), given.dtype))
    y = outputs.given["y"]
    given, y = given.with_a_dimension(), y if y is None else y.with_a_dimension()
    keys, typical = permutation(given, order or (0,), y), {"shape": _typical(given.shape)}
    return outputs.of(call.run("permute", keys, {"x": given}, {"y": y}, typical=typical))


def transpose(x: Any, *, out: Any = None, stream: object = None) -> Any:
    """A contiguous copy with the last two dimensions exchanged: `x.mT.contiguous()` of PyTorch, through LDS.

    Args:
        x: (…, m, n); a matrix has contiguous rows, a batch of them has no gaps.
        out: (…, n, m), to be written.

    Returns:
        (…, n, m).

    Raises:
        DeviceError: fewer dimensions, or x lies otherwise.
    """
    call = Call(stream)
    given = call.read("x", x)
    if given.ndim < 2:
        raise DeviceError(f"x: shape {given.shape}; expected a matrix, or a batch of them")
    *batch, m, n = given.shape
    outputs = call.outputs(out, y=((*batch, n, m), given.dtype))
    keys: dict[str, object] = {"dtype": given.dtype, "align": given.base}
    if not batch:
        rows = given.rows()
        y = outputs.given["y"]
        keys |= {"m": m, "n": n, "stride": pitch_of(rows), **pitch_key("ystride", y)}
        keys["align"] = align_of([given, *_present(y)], given.dtype)
        return outputs.of(call.run("transpose2d", keys, {"x": rows}, outputs.given, varying=("m",)))
    count = math.prod(batch)
    keys |= {"n": count, "c": m, "h": 1, "w": n, "layout": "NCHW"}
    images = {"x": given.reshaped(count, m, 1, n)}
    return outputs.of(call.run("batched_transpose", keys, images, outputs.given, varying=("n",)))


def contiguous(x: Any, *, out: Any = None, stream: object = None) -> Any:
    """A copy whose elements follow each other without gaps; or in `out`, of x's shape, as that lies."""
    return permute(x, range(Call(stream).read("x", x).ndim), out=out, stream=stream)


def reduce(
    x: Any, op: str = "sum", dims: int | Sequence[int] = -1, *, dtype: str | None = None, out: Any = None,
    stream: object = None,
) -> Any:  # fmt: skip
    """A reduction over some dimensions, which are gone afterwards.

    Args:
        op: sum, mean, max, min, amax (of absolute values), sumsq and what else the operator `reduce` has.
        dims: one or several.
        dtype: of the result; by default that of x, i32 for i8.
        out: of the shape that is left, to be written.

    Raises:
        DeviceError, RequestError: dimensions that do not exist, an unknown operation.
    """
    call = Call(stream)
    given = call.read("x", x).apart()
    one = whole(dims)
    asked = numbers("dims", dims) if one is None else (one,)
    order = tuple(dim + given.ndim if dim < 0 else dim for dim in asked)
    if not order or any(not 0 <= dim < given.ndim for dim in order):
        raise DeviceError(f"dims={asked}: expected some of {given.ndim} dimensions")
    keys: dict[str, object] = {
        "shape": given.shape, "dims": order, "ops": (op,), "dtype": given.dtype, "strides": given.strides,
        "out": None if dtype is None else dtype_name("dtype", dtype), "align": align_of([given]),
    }  # fmt: skip
    shape = tuple(length for dim, length in enumerate(given.shape) if dim not in order)
    wanted = dtype_name("dtype", dtype or ("i32" if given.dtype == "i8" else given.dtype))
    outputs = call.outputs(out, y=(shape, wanted))
    typical = {"shape": _typical(given.shape)}
    return outputs.of(call.run("reduce", keys, {"x": given}, outputs.given, typical=typical))


@differentiable
def embedding(ids: Any, weight: Any, *, out: Any = None, stream: object = None) -> Any:
    """The rows of a table with these numbers: `torch.nn.functional.embedding`.

    Args:
        ids: any shape, i32; numbers from 0, below the rows of the table.
        weight: (rows, n), f16, bf16, f32, i32 or i8. Rows of 8-bit floats and of packed elements move as bytes:
            `weight.view(np.int8)`.
        out: the shape of ids, then n; to be written.

    Returns:
        The shape of ids, then n.

    Raises:
        DeviceError, RequestError: shapes or types do not fit, or rows are not contiguous.
    """
    call = Call(stream)
    table, numbers = call.read("weight", weight).require(ndim=2).rows(), call.numbers("ids", ids).require(dtype="i32")
    count = math.prod(numbers.shape)
    keys: dict[str, object] = {
        "rows": table.shape[0], "n": table.shape[1], "m": count, "dtype": table.dtype, "stride": pitch_of(table),
    }  # fmt: skip
    flat = numbers.reshaped(count)
    inputs: dict[str, Given | None] = {"table": table, "ids": flat}
    outputs = call.outputs(out, y=((*numbers.shape, table.shape[1]), table.dtype))
    keys |= pitch_key("ystride", outputs.given["y"])
    return outputs.of(call.run("gather_rows", keys, inputs, outputs.given, varying=("m",)))


def embedding_bag(ids: Any, weight: Any, *, out: Any = None, stream: object = None) -> Any:
    """Sums of rows of a table with these numbers: `torch.nn.functional.embedding_bag` with mode="sum".

    Args:
        ids: (…, k), i32; what is not a row's number adds nothing.
        weight: (rows, n), f16, bf16, f32 or i32.
        out: (…, n), to be written.

    Returns:
        (…, n), of the table's type. Rows are added one after the other in f32, of i32 in i32.

    Raises:
        DeviceError, RequestError: shapes or types do not fit, or rows are not contiguous.
    """
    call = Call(stream)
    table = call.read("weight", weight).require(ndim=2).rows()
    given = call.numbers("ids", ids).require(dtype="i32")
    numbers = given.rows().contiguous()
    (rows, n), (count, k) = table.shape, numbers.shape
    keys: dict[str, object] = {
        "rows": rows, "n": n, "m": count, "k": k, "dtype": table.dtype, "stride": pitch_of(table),
    }  # fmt: skip
    outputs = call.outputs(out, y=((*given.shape[:-1], n), table.dtype))
    keys |= pitch_key("ystride", outputs.given["y"])
    return outputs.of(call.run("embedding_bag", keys, {"table": table, "ids": numbers}, outputs.given, varying=("m",)))


def _typical(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape as it is for a general kernel: how many rows there are changes from call to call."""
    return (TYPICAL, *shape[1:])


def _present(out: Given | None) -> tuple[Given, ...]:
    """An output, if it is given."""
    return () if out is None else (out,)
