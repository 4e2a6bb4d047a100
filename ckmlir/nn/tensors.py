"""Functions of tensors: element by element, other types and orders, reductions, rows of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ckmlir.nn.calls import Call, dtype_name
from ckmlir.nn.given import WIDEST, Given, pitch_of
from ckmlir.nn.gradients import differentiable
from ckmlir.nn.plain import numbers
from ckmlir.nn.session import TYPICAL
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.request import whole
from ckmlir.runtime.device import DeviceError

NAMES = ("a", "b", "c", "d")


def elementwise(expression: str, *arrays: Any, dtype: str | None = None, stream: object = None) -> Any:
    """An expression of up to four arrays, called a, b, c and d in it, element by element: `gelu(a + b) * c`.

    Args:
        expression: in the language of `ckmlir.ops.tensors.expression`.
        arrays: they broadcast as NumPy's do; f16, bf16, f32, 8-bit floats, or all i8 and i32.
        dtype: of the result; by default that of the first.

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
    keys["out"] = out = None if dtype is None else dtype_name("dtype", dtype)
    inputs: dict[str, Given | None] = {}
    for name, one in zip(NAMES, given, strict=False):
        missing = rank - one.ndim
        own = one.strided((1,) * missing + one.shape, (0,) * missing + one.strides)
        keys |= {name: own.shape, f"{name}_dtype": one.dtype, f"{name}_strides": own.strides}
        typical[name] = _typical(own.shape) if one.ndim == rank and one.shape[0] == full[0] else own.shape
        inputs[name] = own
    keys["align"] = _align(given, *(one.dtype for one in given), out or given[0].dtype)
    return call.run("elementwise", keys, inputs, typical=typical)["y"].reshaped(*shape).array


def cast(x: Any, dtype: str, *, packed: str | None = None, stream: object = None) -> Any:
    """An array with elements of another type, rounded to nearest, saturated where the type is narrow.

    Args:
        dtype: of the result; of fp4, fp6, bf6 and i4 it is an array of bytes (`ckmlir.ops.packing`).
        packed: what the bytes of x (uint8) hold, where they do: fp4, fp6, bf6 or i4.

    Raises DeviceError and RequestError where there is no such conversion.
    """
    call = Call(stream)
    given = _with_a_dimension(call.read("x", x, packed))
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
    out = dtype_name("dtype", dtype)
    keys: dict[str, object] = {
        "shape": shape, "dtype": given.dtype, "out": out, "strides": strides,
        "align": _align([given], out),
    }  # fmt: skip
    made = call.run("cast", keys, {"x": given}, typical={"shape": _typical(shape)})["y"]
    if packing is not None or find_dtype(out).packing is not None:
        return made.array
    return made.reshaped(*x.shape).array


def permute(x: Any, dims: Sequence[int], *, out: Any = None, stream: object = None) -> Any:
    """A contiguous copy with the dimensions in another order: `x.permute(dims).contiguous()` of PyTorch.

    Args:
        out: of the new shape, without gaps, to be written.
    """
    call = Call(stream)
    given = call.read("x", x)
    dims = numbers("dims", dims)
    order = tuple(dim + given.ndim if dim < 0 else dim for dim in dims)
    if sorted(order) != list(range(given.ndim)):
        raise DeviceError(f"dims={dims}: expected each of {given.ndim} dimensions once")
    result = call.out("out", out, tuple(given.shape[dim] for dim in order), given.dtype)
    y = None if result is None else result.contiguous()
    if not order:
        given, order = _with_a_dimension(given), (0,)
        y = None if y is None else _with_a_dimension(y)
    keys: dict[str, object] = {
        "shape": given.shape, "perm": order, "dtype": given.dtype, "strides": given.strides, "align": _align([given]),
    }  # fmt: skip
    found = call.run("permute", keys, {"x": given}, {"y": y}, typical={"shape": _typical(given.shape)})["y"]
    return out if out is not None else found.reshaped(*(x.shape[dim] for dim in dims)).array


def transpose(x: Any, *, stream: object = None) -> Any:
    """A contiguous copy with the last two dimensions exchanged: `x.mT.contiguous()` of PyTorch, through LDS.

    Args:
        x: (…, m, n); a matrix has contiguous rows, a batch of them has no gaps.

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
    keys: dict[str, object] = {"dtype": given.dtype, "align": given.base}
    if not batch:
        rows = given.rows()
        keys |= {"m": m, "n": n, "stride": pitch_of(rows)}
        return call.run("transpose2d", keys, {"x": rows}, varying=("m",))["y"].array
    count = math.prod(batch)
    keys |= {"n": count, "c": m, "h": 1, "w": n, "layout": "NCHW"}
    found = call.run("batched_transpose", keys, {"x": given.reshaped(count, m, 1, n)}, varying=("n",))["y"]
    return found.reshaped(*batch, n, m).array


def contiguous(x: Any, *, stream: object = None) -> Any:
    """A copy whose elements follow each other without gaps."""
    call = Call(stream)
    given = _with_a_dimension(call.read("x", x))
    keys: dict[str, object] = {
        "shape": given.shape, "perm": tuple(range(given.ndim)), "dtype": given.dtype, "strides": given.strides,
        "align": _align([given]),
    }  # fmt: skip
    found = call.run("permute", keys, {"x": given}, typical={"shape": _typical(given.shape)})["y"]
    return found.reshaped(*x.shape).array


def reduce(
    x: Any, op: str = "sum", dims: int | Sequence[int] = -1, *, dtype: str | None = None, stream: object = None
) -> Any:
    """A reduction over some dimensions, which are gone afterwards.

    Args:
        op: sum, mean, max, min, amax (of absolute values), sumsq and what else the operator `reduce` has.
        dims: one or several.
        dtype: of the result; by default that of x, i32 for i8.

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
        "out": None if dtype is None else dtype_name("dtype", dtype), "align": _align([given]),
    }  # fmt: skip
    shape = tuple(length for dim, length in enumerate(given.shape) if dim not in order)
    found = call.run("reduce", keys, {"x": given}, typical={"shape": _typical(given.shape)})["y"]
    return found.reshaped(*shape).array


@differentiable
def embedding(ids: Any, weight: Any, *, stream: object = None) -> Any:
    """The rows of a table with these numbers: `torch.nn.functional.embedding`.

    Args:
        ids: any shape, i32; numbers from 0, below the rows of the table.
        weight: (rows, n), f16, bf16, f32, i32 or i8. Rows of 8-bit floats and of packed elements move as bytes:
            `weight.view(np.int8)`.

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
    found = call.run("gather_rows", keys, inputs, varying=("m",))["y"]
    return found.reshaped(*numbers.shape, table.shape[1]).array


def embedding_bag(ids: Any, weight: Any, *, stream: object = None) -> Any:
    """Sums of rows of a table with these numbers: `torch.nn.functional.embedding_bag` with mode="sum".

    Args:
        ids: (…, k), i32; what is not a row's number adds nothing.
        weight: (rows, n), f16, bf16, f32 or i32.

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
    found = call.run("embedding_bag", keys, {"table": table, "ids": numbers}, varying=("m",))["y"]
    return found.reshaped(*given.shape[:-1], n).array


def _align(arrays: Sequence[Given], *dtypes: str) -> int:
    """What divides all addresses but those of arrays that begin within an element of another one, which are copied."""
    largest = max((find_dtype(one).bytes for one in dtypes), default=1)
    return math.gcd(*(one.base for one in arrays if one.base >= largest)) or WIDEST


def _typical(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape as it is for a general kernel: how many rows there are changes from call to call."""
    return (TYPICAL, *shape[1:])


def _with_a_dimension(array: Given) -> Given:
    return array if array.ndim else array.strided((1,), (1,))
