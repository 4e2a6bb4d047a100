"""Functions of rows, the last dimension: norms, softmax, the largest elements, row-wise quantisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from ckmlir.nn.calls import Call, constant, dtype_name
from ckmlir.nn.dimensions import along, is_last
from ckmlir.nn.given import Given, elements_in, pitch_of
from ckmlir.nn.plain import checked, numbers, word
from ckmlir.ops.request import whole
from ckmlir.runtime.device import DeviceError


def _with_shape_left_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """A norm whose second argument may also be the weight, an array or None, as it was before it took a shape."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 1 and not isinstance(args[1], int | Sequence):
            args = (args[0], None, *args[1:])
        return function(*args, **kwargs)

    return call


@_with_shape_left_out
@checked
def layer_norm(
    x: Any,
    normalized_shape: int | Sequence[int] | None = None,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    residual: Any = None,
    return_sum: bool = False,
    out: Any = None,
    stream: object = None,
) -> Any:
    """(s - mean) / sqrt(variance + eps) · weight + bias of every row, s being x + residual:
    `torch.nn.functional.layer_norm`.

    Args:
        x, residual: (…, n), f16, bf16 or f32.
        normalized_shape: of the last dimensions, which are a row; by default n, the last one. It may be left out, also
            where weight comes next.
        weight, bias: of that shape, of x's type; by default ones and zeros.
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
    shape = _row_shape(given, normalized_shape)
    gamma, beta = (_channels(call, given, shape, *one) for one in (("weight", weight, 1.0), ("bias", bias, 0.0)))
    channels = {"gamma": gamma, "beta": beta}
    return _normalized(call, "layernorm2d", given, shape, channels, eps, residual, return_sum, out)


@_with_shape_left_out
@checked
def rms_norm(
    x: Any,
    normalized_shape: int | Sequence[int] | None = None,
    weight: Any = None,
    eps: float = 1e-6,
    *,
    residual: Any = None,
    return_sum: bool = False,
    out: Any = None,
    stream: object = None,
) -> Any:
    """s / sqrt(mean of squares + eps) · weight of every row: `torch.nn.functional.rms_norm`, whose default of eps
    depends on the type; for the rest see `layer_norm`.
    """
    call = Call(stream)
    given = call.read("x", x)
    shape = _row_shape(given, normalized_shape)
    gamma = _channels(call, given, shape, "weight", weight, 1.0)
    return _normalized(call, "rmsnorm2d", given, shape, {"gamma": gamma}, eps, residual, return_sum, out)


@checked
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
    if not is_last(dim, given):
        call.out("out", out, given.shape, given.dtype)
        return along(dim, softmax, x, beside={"mask": mask}, out=out, scale=scale, stream=stream)
    rows, result = given.rows(), call.out("out", out, given.shape, given.dtype)
    keys = _sizes(rows) | {"scale": scale, "mask": mask is not None, "stride": pitch_of(rows)}
    if excluded is not None:
        excluded = excluded.rows()
        keys["mask_stride"] = pitch_of(excluded)
    y = None if result is None else result.rows()
    keys |= {} if y is None else {"ystride": pitch_of(y)}
    inputs = {"x": rows, "mask": excluded}
    found = call.run("softmax", keys | _base(inputs, {"y": y}), inputs, {"y": y}, ("m",), in_place=("x",))["y"]
    return out if out is not None else found.reshaped(*given.shape).array


@checked
def topk(x: Any, k: int, dim: int = -1, largest: bool = True, *, stream: object = None) -> Any:
    """The k largest elements of every row, or smallest, in order, and their places: `torch.topk`.

    Args:
        x: (…, n), f32, f16, bf16 or i32.
        dim: along which they are looked for; along another than the last, at the price of copies.

    Returns:
        Values (…, k) of x's type, and places (…, k), i32.

    Raises:
        DeviceError, RequestError: as `layer_norm`; more elements than the operator sorts.
    """
    call = Call(stream)
    given = call.read("x", x)
    if not is_last(dim, given):
        return along(dim, topk, x, k=k, largest=largest, stream=stream)
    rows = given.rows()
    order = "descending" if largest else "ascending"
    keys = _sizes(rows) | {"k": k, "order": order, "stride": pitch_of(rows)}
    found = call.run("topk", keys, {"x": rows}, varying=("m",))
    shape = (*given.shape[:-1], k)
    return found["y"].reshaped(*shape).array, found["indices"].reshaped(*shape).array


@checked
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


@checked
def quantize(
    x: Any, dtype: str = "i8", *, by: str = "row", smooth: Any = None, scale: Any = None, powers: bool = False,
    stream: object = None,
) -> tuple[Any, Any]:  # fmt: skip
    """An array divided by scales, so that it fills the range of an 8-bit type, and rounded to the nearest.

    Args:
        x: (…, n), f16, bf16 or f32.
        dtype: i8, fp8 or bf8; with powers also fp4, fp6 and bf6, whose bytes are returned.
        by: what has a scale of its own: "tensor", "row", or blocks of rows x columns: "1x32", "1x64", "1x128",
            "128x128", with all dimensions but the last as rows.
        smooth: (n,), f32: what columns are multiplied with before; of rows, to i8 or fp8.
        scale: scales that are given, f32: a number of the tensor, (…) of rows.
        powers: scales of blocks are powers of two, e8m0; with by="1x32" they are those of microscaling formats.

    Returns:
        The quantised array (…, n), and the scales, f32: (1,) of the tensor, (…) of rows, else (blocks down, blocks
        across). Their product is about x · smooth.

    Raises:
        DeviceError, RequestError: as `layer_norm`; arguments that do not go together; the chip has no 8-bit floats.
    """
    call = Call(stream)
    given = call.read("x", x)
    rows, out, by = given.rows(), dtype_name("dtype", dtype), word("by", by, _shared())
    if (smooth is not None and by != "row") or (scale is not None and (smooth is not None or by not in WHOLE)):
        raise DeviceError(f"by={by}: columns are scaled of rows only, scales given of rows and tensors; not both")
    if powers and by in WHOLE:
        raise DeviceError(f"by={by}: powers of two are scales of blocks; expected by=1x32, 1x64, 1x128 or 128x128")
    if by == "tensor":
        keys: dict[str, object] = {"shape": rows.shape, "dtype": rows.dtype, "strides": rows.strides}
        one = _scales(call, scale, (1,))
        keys |= {"out": out, "align": rows.base}
        found = call.run("quantize_tensor", keys | _known(one), {"x": rows, "scale": one})
        return found["q"].reshaped(*given.shape).array, scale if one is not None else found["scale"].array
    if by != "row":
        keys = _sizes(rows) | {"out": out, "stride": pitch_of(rows), "block": by, "scales": "e8m0" if powers else "f32"}
        found = call.run("quantize_blocks", keys, {"x": rows}, varying=("m",))
        q = found["q"]
        return q.reshaped(*given.shape[:-1], q.shape[-1]).array, found["scale"].array
    keys = _sizes(rows) | {"out": out, "stride": pitch_of(rows), "rounding": "nearest"}
    if smooth is not None:
        columns = call.read("smooth", smooth).require(shape=rows.shape[1:], dtype="f32").rows().reshaped(rows.shape[1])
        inputs: dict[str, Given | None] = {"x": rows, "smooth": columns}
        found = call.run("smoothquant", keys | _base(inputs, {}), inputs, varying=("m",))
    else:
        each = _scales(call, scale, given.shape[:-1])
        inputs = {"x": rows, "yscale": each}
        found = call.run("quantize_rows", keys | _known(each) | _base(inputs, {}), inputs, varying=("m",))
    q = found["q"].reshaped(*given.shape).array
    return q, scale if "yscale" not in found else found["yscale"].reshaped(*given.shape[:-1]).array


def dequantize(
    q: Any, scale: Any, dtype: str = "f16", *, by: str = "row", packed: str | None = None, stream: object = None
) -> Any:
    """The numbers that `quantize` took: q times its scales.

    Args:
        q: (…, n), i8, fp8 or bf8; or the bytes of packed elements.
        scale: as `quantize` returns it.
        dtype: f16, bf16 or f32.
        by: what has a scale of its own, as for `quantize`.
        packed: what the bytes (uint8) of q hold, where they do: fp4, fp6 or bf6.

    Returns:
        (…, n).

    Raises:
        DeviceError, RequestError: as `layer_norm`; scales of another shape; bytes that hold no whole elements.
    """
    call = Call(stream)
    given = call.read("q", q, packed)
    rows, by = given.rows(), word("by", by, _shared())
    n, stride = (elements_in(rows.dtype, one) for one in (rows.shape[1], pitch_of(rows)))
    keys = _sizes(rows) | {"n": n, "out": dtype_name("dtype", dtype), "block": by, "stride": stride}
    scales = call.read("scale", scale)
    if by in WHOLE:
        scales = scales.require(dtype="f32", shape=(1,) if by == "tensor" else given.shape[:-1])
        scales = _packed(scales)
    else:
        _packed(scales.require(ndim=2))
        keys["scales"] = scales.dtype
    inputs = {"q": rows, "scale": scales}
    keys["align"] = _base(inputs, {})["base"]
    return call.run("dequantize", keys, inputs, varying=("m",))["y"].reshaped(*given.shape[:-1], n).array


WHOLE = ("tensor", "row")
"""What scales that are given are of."""


def _shared() -> tuple[str, ...]:
    """What may have a scale of its own."""
    from ckmlir.ops.quantization.blocks import BLOCKS

    return (*WHOLE, *BLOCKS)


def _scales(call: Call, scale: Any, shape: tuple[int, ...]) -> Given | None:
    """Scales that were given, without gaps."""
    return None if scale is None else _packed(call.read("scale", scale).require(shape=shape, dtype="f32"))


def _packed(scales: Given) -> Given:
    """Scales, those of rows as a vector. Raises DeviceError where there are gaps between them."""
    count = math.prod(scales.shape)
    flat = scales.reshaped(count)
    if count > 1 and flat.strides != (1,):
        raise DeviceError(f"{scales.what}: numbers lie {flat.strides[0]} elements apart; make a contiguous copy first")
    return flat


def _known(scales: Given | None) -> dict[str, object]:
    return {"scales": "dynamic" if scales is None else "given"}


def _normalized(
    call: Call,
    operator: str,
    given: Given,
    row: tuple[int, ...],
    channels: dict[str, Given],
    eps: float,
    residual: Any,
    return_sum: bool,
    out: Any,
) -> Any:
    def rows_of(one: Given) -> Given:
        return one.reshaped(*one.shape[: one.ndim - len(row)], math.prod(row)).rows()

    rows = rows_of(given)
    keys = _sizes(rows) | {"eps": eps, "stride": pitch_of(rows)}
    added = None
    if residual is not None:
        added = rows_of(call.read("residual", residual).require(shape=given.shape, dtype=given.dtype))
        keys |= {"add": "store" if return_sum else "add", "residual_stride": pitch_of(added)}
    elif return_sum:
        raise DeviceError("return_sum: there is no residual that x is added to; expected one, or take x")
    result = call.out("out", out, given.shape, given.dtype)
    y = None if result is None else rows_of(result)
    keys |= {} if y is None else {"ystride": pitch_of(y)}
    inputs = {"x": rows, "residual": added, **channels}
    keys |= _base(inputs, {"y": y})
    found = call.run(operator, keys, inputs, {"y": y}, ("m",), in_place=("x", "residual"))
    normalized = out if out is not None else found["y"].reshaped(*given.shape).array
    return (normalized, found["sum"].reshaped(*given.shape).array) if return_sum else normalized


def _row_shape(x: Given, normalized: int | Sequence[int] | None) -> tuple[int, ...]:
    """The dimensions that are a row. Raises DeviceError for those that x does not end with."""
    if not x.shape:
        raise DeviceError("x: a number has no rows; expected at least one dimension")
    if normalized is None:
        return x.shape[-1:]
    single = whole(normalized)
    shape = numbers("normalized_shape", normalized) if single is None else (single,)
    if not shape or shape != x.shape[-len(shape) :]:
        raise DeviceError(f"normalized_shape={shape}: x has shape {x.shape}; expected its last dimensions")
    return shape


def _channels(call: Call, x: Given, row: tuple[int, ...], what: str, array: Any, default: float) -> Given:
    """One number for every place of a row."""
    n = math.prod(row)
    if array is None:
        return constant(call, x, default, n, x.dtype)
    return call.read(what, array).require(shape=row, dtype=x.dtype).reshaped(n).rows().reshaped(n)


def _sizes(rows: Given) -> dict[str, object]:
    return {"m": rows.shape[0], "n": rows.shape[1], "dtype": rows.dtype}


def _base(inputs: Mapping[str, Given | None], outputs: Mapping[str, Given | None]) -> dict[str, object]:
    """What divides all addresses."""
    return {"base": math.gcd(*(one.base for one in (*inputs.values(), *outputs.values()) if one is not None))}
