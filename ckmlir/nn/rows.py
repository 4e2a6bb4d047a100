"""Functions of rows, the last dimension: norms, softmax, the largest elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from numbers import Integral
from typing import Any

from ckmlir.nn.calls import Call, constant
from ckmlir.nn.dimensions import along, is_last
from ckmlir.nn.given import Given, pitch_key, pitch_of
from ckmlir.nn.gradients import differentiable
from ckmlir.nn.plain import checked, number, numbers
from ckmlir.ops.request import whole
from ckmlir.runtime.device import DeviceError


def _with_shape_left_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """A norm whose second argument may also be the weight, an array, as it was before it took a shape."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 1 and not isinstance(args[1], Integral | Sequence | None):
            args = (args[0], None, *args[1:])
        return function(*args, **kwargs)

    return call


@_with_shape_left_out
@checked
@differentiable
def layer_norm(
    x: Any,
    normalized_shape: int | Sequence[int] | None = None,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    residual: Any = None,
    return_sum: bool = False,
    return_stats: bool = False,
    out: Any = None,
    stream: object = None,
) -> Any:
    """(s - mean) / sqrt(variance + eps) · weight + bias of every row, s being x + residual:
    `torch.nn.functional.layer_norm`.

    Args:
        x, residual: (…, n), f16, bf16 or f32.
        normalized_shape: of the last dimensions, which are a row; by default n, the last one. It may be left out, also
            where an array, the weight, comes next.
        weight, bias: of that shape, of x's type; by default ones and zeros.
        return_sum: also return s, as the next layer's residual.
        return_stats: also return mean and 1 / sqrt(variance + eps) of rows, f32, for `layer_norm_backward`.
        out: (…, n), to be written; with return_sum and return_stats also all.

    Returns:
        (…, n), or that, s and the statistics, as far as they are asked for.

    Raises:
        DeviceError: shapes or types do not fit, or rows are not contiguous.
        RequestError: the operator refuses the sizes.
    """
    call = Call(stream)
    given = call.read("x", x)
    shape = row_shape(given, normalized_shape)
    gamma, beta = (columns(call, given, shape, *one) for one in (("weight", weight, 1.0), ("bias", bias, 0.0)))
    channels = {"gamma": gamma, "beta": beta}
    saved = ("mean", "inv_std") if return_stats else ()
    return _normalized(call, "layernorm2d", given, shape, channels, eps, residual, return_sum, saved, out)


@_with_shape_left_out
@checked
@differentiable
def rms_norm(
    x: Any,
    normalized_shape: int | Sequence[int] | None = None,
    weight: Any = None,
    eps: float = 1e-6,
    *,
    residual: Any = None,
    return_sum: bool = False,
    return_stats: bool = False,
    out: Any = None,
    stream: object = None,
) -> Any:
    """s / sqrt(mean of squares + eps) · weight of every row: `torch.nn.functional.rms_norm`, whose default of eps
    depends on the type; for the rest see `layer_norm`. Its statistic is the factor of rows before the weight.
    """
    call = Call(stream)
    given = call.read("x", x)
    shape = row_shape(given, normalized_shape)
    gamma = columns(call, given, shape, "weight", weight, 1.0)
    saved = ("inv_rms",) if return_stats else ()
    return _normalized(call, "rmsnorm2d", given, shape, {"gamma": gamma}, eps, residual, return_sum, saved, out)


@checked
@differentiable
def softmax(
    x: Any, dim: int = -1, *, scale: float = 1.0, mask: Any = None, out: Any = None, stream: object = None
) -> Any:
    """softmax(scale · x) of every row: `torch.nn.functional.softmax`.

    Args:
        x: (…, n), f16, bf16 or f32.
        dim: along which results add up to 1; along another than the last, at the price of copies.
        mask: (…, n), i8: elements that are 0 there take no part.
        out: (…, n), to be written.

    Raises:
        DeviceError, RequestError: as `layer_norm`.
    """
    call = Call(stream)
    given = call.read("x", x)
    excluded = call.optional("mask", mask)
    if excluded is not None:
        excluded.require(shape=given.shape, dtype="i8")
    outputs = call.outputs(out, y=(given.shape, given.dtype))
    if not is_last(dim, given):
        return along(dim, softmax, x, outputs, beside={"mask": mask}, scale=scale, stream=stream)
    rows = given.rows()
    keys = sizes(rows) | {"scale": scale, "mask": mask is not None, "stride": pitch_of(rows)}
    if excluded is not None:
        excluded = excluded.rows()
        keys["mask_stride"] = pitch_of(excluded)
    keys |= pitch_key("ystride", outputs.given["y"])
    inputs = {"x": rows, "mask": excluded}
    keys |= base(inputs, outputs.given)
    return outputs.of(call.run("softmax", keys, inputs, outputs.given, ("m",), in_place={"y": ("x",)}))


@checked
def topk(x: Any, k: int, dim: int = -1, largest: bool = True, *, out: Any = None, stream: object = None) -> Any:
    """The k largest elements of every row, or smallest, in order, and their places: `torch.topk`.

    Args:
        x: (…, n), f32, f16, bf16 or i32.
        dim: along which they are looked for; along another than the last, at the price of copies.
        out: values and places, to be written.

    Returns:
        Values (…, k) of x's type, and places (…, k), i32.

    Raises:
        DeviceError, RequestError: as `layer_norm`; more elements than the operator sorts.
    """
    call = Call(stream)
    given = call.read("x", x)
    is_last_one = is_last(dim, given)
    shape = list(given.shape)
    shape[dim] = k = number("k", k, 0)
    outputs = call.outputs(out, y=(tuple(shape), given.dtype), indices=(tuple(shape), "i32"))
    if not is_last_one:
        return along(dim, topk, x, outputs, k=k, largest=largest, stream=stream)
    rows = given.rows()
    order = "descending" if largest else "ascending"
    keys = sizes(rows) | {"k": k, "order": order, "stride": pitch_of(rows)}
    return outputs.of(call.run("topk", keys, {"x": rows}, outputs.given, varying=("m",)))


@checked
def topk_softmax(
    x: Any, k: int, *, activation: str = "softmax", renormalize: bool = False, out: Any = None, stream: object = None
) -> Any:
    """The k best experts of every token: weights by softmax or sigmoid, and their numbers.

    Args:
        x: (tokens, experts), f16, bf16 or f32.
        renormalize: the weights of a token add up to 1.
        out: weights and experts, to be written.

    Returns:
        Weights (tokens, k), f32, and experts (tokens, k), i32.

    Raises:
        DeviceError, RequestError: as `layer_norm`.
    """
    call = Call(stream)
    rows = call.read("x", x).require(ndim=2).rows()
    shape = (rows.shape[0], number("k", k, 1))
    outputs = call.outputs(out, weights=(shape, "f32"), indices=(shape, "i32"))
    keys = sizes(rows) | {"k": k, "activation": activation, "renormalize": renormalize, "stride": pitch_of(rows)}
    for name, one in outputs.given.items():
        keys |= pitch_key(f"{name}_stride", one)
    keys |= base({"x": rows}, outputs.given)
    return outputs.of(call.run("topk_softmax", keys, {"x": rows}, outputs.given, varying=("m",)))


def _normalized(
    call: Call,
    operator: str,
    given: Given,
    row: tuple[int, ...],
    channels: dict[str, Given],
    eps: float,
    residual: Any,
    return_sum: bool,
    saved: tuple[str, ...],
    out: Any,
) -> Any:
    rows = whole_rows(given, row)
    keys = sizes(rows) | {"eps": eps, "stride": pitch_of(rows), "save_stats": bool(saved)}
    added, results = None, {"sum": (given.shape, given.dtype)} if return_sum else {}
    results |= dict.fromkeys(saved, (outer(given, row), "f32"))
    if residual is not None:
        added = whole_rows(call.read("residual", residual).require(shape=given.shape, dtype=given.dtype), row)
        keys |= {"add": "store" if return_sum else "add", "residual_stride": pitch_of(added)}
    elif return_sum:
        raise DeviceError(NO_SUM)
    outputs = call.outputs(out, y=(given.shape, given.dtype), **results)
    outputs = outputs.seen_as(**dict.fromkeys(saved, (rows.shape[0],)))
    for name, key in (("y", "ystride"), ("sum", "sum_stride")):
        keys |= pitch_key(key, outputs.given.get(name), len(row))
    inputs = {"x": rows, "residual": added, **channels}
    keys |= base(inputs, outputs.given)
    return outputs.of(call.run(operator, keys, inputs, outputs.given, ("m",), in_place={"y": ("x", "residual")}))


NO_SUM = "return_sum: found without a residual; give one, or take x, which is the sum"


def whole_rows(x: Given, row: tuple[int, ...]) -> Given:
    """An array whose last dimensions are rows as a matrix of them."""
    return x.reshaped(*outer(x, row), math.prod(row)).rows()


def outer(x: Given, row: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions in front of those of a row."""
    return x.shape[: x.ndim - len(row)]


def row_shape(x: Given, normalized: int | Sequence[int] | None) -> tuple[int, ...]:
    """The dimensions that are a row. Raises DeviceError for those that x does not end with."""
    if not x.shape:
        raise DeviceError("x: a number has no rows; expected at least one dimension")
    if normalized is None:
        return x.shape[-1:]
    shape = lengths_of(normalized)
    if not shape or shape != x.shape[-len(shape) :]:
        raise DeviceError(f"normalized_shape={shape}: x has shape {x.shape}; expected its last dimensions")
    return shape


def lengths_of(normalized: int | Sequence[int]) -> tuple[int, ...]:
    """A normalized_shape as numbers. Raises DeviceError for what is none."""
    single = whole(normalized)
    return numbers("normalized_shape", normalized) if single is None else (single,)


def columns(call: Call, x: Given, row: tuple[int, ...], what: str, array: Any, default: float) -> Given:
    """One number for every place of a row."""
    n = math.prod(row)
    if array is None:
        return constant(call, x, default, n, x.dtype)
    return call.read(what, array).require(shape=row, dtype=x.dtype).reshaped(n).rows().reshaped(n)


def sizes(rows: Given) -> dict[str, object]:
    """How many rows there are, how long they are, and their type."""
    return {"m": rows.shape[0], "n": rows.shape[1], "dtype": rows.dtype}


def base(inputs: Mapping[str, Given | None], outputs: Mapping[str, Given | None]) -> dict[str, object]:
    """What divides all addresses."""
    return {"base": math.gcd(*(one.base for one in (*inputs.values(), *outputs.values()) if one is not None))}
