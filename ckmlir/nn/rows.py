"""Functions of rows, the last dimension: norms, softmax, the largest elements, row-wise quantisation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ckmlir.nn.calls import Call, constant, dtype_name
from ckmlir.nn.given import Given, pitch_of
from ckmlir.runtime.device import DeviceError


def layer_norm(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    residual: Any = None,
    return_sum: bool = False,
    out: Any = None,
    stream: object = None,
) -> Any:
    """(s - mean) / sqrt(variance + eps) · weight + bias of every row, s being x + residual.

    Args:
        x, residual: (…, n), f16, bf16 or f32. weight, bias: (n,), of x's type; by default ones and zeros.
        return_sum: also return s, as the next layer's residual.
        out: (…, n), to be written.

    Returns:
        (…, n), or that and s.

    Raises:
        DeviceError: shapes or types do not fit, or rows are not contiguous.
        RequestError: the operator refuses the sizes.
    """
    call = Call(stream)
    given = call.read("x", x)
    gamma, beta = (_channels(call, given, *one) for one in (("weight", weight, 1.0), ("bias", bias, 0.0)))
    return _normalized(call, "layernorm2d", given, {"gamma": gamma, "beta": beta}, eps, residual, return_sum, out)


def rms_norm(
    x: Any,
    weight: Any = None,
    eps: float = 1e-6,
    *,
    residual: Any = None,
    return_sum: bool = False,
    out: Any = None,
    stream: object = None,
) -> Any:
    """s / sqrt(mean of squares + eps) · weight of every row; for the rest see `layer_norm`."""
    call = Call(stream)
    given = call.read("x", x)
    gamma = _channels(call, given, "weight", weight, 1.0)
    return _normalized(call, "rmsnorm2d", given, {"gamma": gamma}, eps, residual, return_sum, out)


def softmax(x: Any, *, scale: float = 1.0, mask: Any = None, out: Any = None, stream: object = None) -> Any:
    """softmax(scale · x) of every row.

    Args:
        x: (…, n), f16, bf16 or f32.
        mask: (…, n), i8: elements that are 0 there take no part.
        out: (…, n), to be written.

    Raises:
        DeviceError, RequestError: as `layer_norm`.
    """
    call = Call(stream)
    given = call.read("x", x)
    rows, result = given.rows(), call.out("out", out, given.shape, given.dtype)
    keys = _sizes(rows) | {"scale": scale, "mask": mask is not None, "stride": pitch_of(rows)}
    excluded = None
    if mask is not None:
        excluded = call.read("mask", mask).require(shape=given.shape, dtype="i8").rows()
        keys["mask_stride"] = pitch_of(excluded)
    y = None if result is None else result.rows()
    keys |= {} if y is None else {"ystride": pitch_of(y)}
    inputs = {"x": rows, "mask": excluded}
    found = call.run("softmax", keys | _base(inputs, {"y": y}), inputs, {"y": y}, varying=("m",))["y"]
    return out if out is not None else found.reshaped(*given.shape).array


def topk(x: Any, k: int, *, largest: bool = True, stream: object = None) -> tuple[Any, Any]:
    """The k largest elements of every row, or smallest, in order, and their places: `torch.topk`.

    Args:
        x: (…, n), f32.

    Returns:
        Values (…, k) of x's type, and places (…, k), i32.

    Raises:
        DeviceError, RequestError: as `layer_norm`; more elements than the operator sorts.
    """
    call = Call(stream)
    given = call.read("x", x)
    rows = given.rows()
    order = "descending" if largest else "ascending"
    keys = _sizes(rows) | {"k": k, "order": order, "stride": pitch_of(rows)}
    found = call.run("topk", keys, {"x": rows}, varying=("m",))
    shape = (*given.shape[:-1], k)
    return found["y"].reshaped(*shape).array, found["indices"].reshaped(*shape).array


def topk_softmax(
    x: Any, k: int, *, activation: str = "softmax", renormalize: bool = False, stream: object = None
) -> tuple[Any, Any]:
    """The k best experts of every token: weights by softmax or sigmoid, and their numbers.

    Args:
        x: (tokens, experts), f16, bf16 or f32.
        renormalize: the weights of a token add up to 1.

    Returns:
        Weights (tokens, k), f32, and experts (tokens, k), i32.

    Raises:
        DeviceError, RequestError: as `layer_norm`.
    """
    call = Call(stream)
    rows = call.read("x", x).require(ndim=2).rows()
    keys = _sizes(rows) | {"k": k, "activation": activation, "renormalize": renormalize, "stride": pitch_of(rows)}
    found = call.run("topk_softmax", keys | _base({"x": rows}, {}), {"x": rows}, varying=("m",))
    return found["weights"].array, found["indices"].array


def quantize(x: Any, dtype: str = "i8", *, smooth: Any = None, stream: object = None) -> tuple[Any, Any]:
    """Every row divided by a scale of its own, so that it fills the range of an 8-bit type.

    Args:
        x: (…, n), f16, bf16 or f32.
        dtype: i8 or fp8.
        smooth: (n,), f32: what columns are multiplied with before; by default 1.

    Returns:
        The quantised rows (…, n), and the scales (…), f32: their product is about x · smooth.

    Raises:
        DeviceError, RequestError: as `layer_norm`; the chip has no 8-bit floats.
    """
    call = Call(stream)
    given = call.read("x", x)
    rows = given.rows()
    n = rows.shape[1]
    if smooth is None:
        scales = constant(call, given, 1.0, n, "f32")
    else:
        scales = call.read("smooth", smooth).require(shape=(n,), dtype="f32").rows().reshaped(n)
    inputs = {"x": rows, "smooth": scales}
    keys = _sizes(rows) | {"out": dtype_name("dtype", dtype), "stride": pitch_of(rows)} | _base(inputs, {})
    found = call.run("smoothquant", keys, inputs, varying=("m",))
    return found["q"].reshaped(*given.shape).array, found["yscale"].reshaped(*given.shape[:-1]).array


def _normalized(
    call: Call,
    operator: str,
    given: Given,
    channels: dict[str, Given],
    eps: float,
    residual: Any,
    return_sum: bool,
    out: Any,
) -> Any:
    rows = given.rows()
    keys = _sizes(rows) | {"eps": eps, "stride": pitch_of(rows)}
    added = None
    if residual is not None:
        added = call.read("residual", residual).require(shape=given.shape, dtype=given.dtype).rows()
        keys |= {"add": "store" if return_sum else "add", "residual_stride": pitch_of(added)}
    elif return_sum:
        raise DeviceError("return_sum: there is no residual that x is added to; expected one, or take x")
    result = call.out("out", out, given.shape, given.dtype)
    y = None if result is None else result.rows()
    keys |= {} if y is None else {"ystride": pitch_of(y)}
    inputs = {"x": rows, "residual": added, **channels}
    found = call.run(operator, keys | _base(inputs, {"y": y}), inputs, {"y": y}, varying=("m",))
    normalized = out if out is not None else found["y"].reshaped(*given.shape).array
    return (normalized, found["sum"].reshaped(*given.shape).array) if return_sum else normalized


def _channels(call: Call, x: Given, what: str, array: Any, default: float) -> Given:
    """One number for every column."""
    if not x.shape:
        raise DeviceError("x: a number has no rows; expected at least one dimension")
    n = x.shape[-1]
    if array is None:
        return constant(call, x, default, n, x.dtype)
    return call.read(what, array).require(shape=(n,), dtype=x.dtype).rows().reshaped(n)


def _sizes(rows: Given) -> dict[str, object]:
    return {"m": rows.shape[0], "n": rows.shape[1], "dtype": rows.dtype}


def _base(inputs: Mapping[str, Given | None], outputs: Mapping[str, Given | None]) -> dict[str, object]:
    """What divides all addresses."""
    return {"base": math.gcd(*(one.base for one in (*inputs.values(), *outputs.values()) if one is not None))}
