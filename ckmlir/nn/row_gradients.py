"""The gradients of norms and softmax of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ckmlir.nn.calls import Call
from ckmlir.nn.dimensions import along, is_last
from ckmlir.nn.given import pitch_key, pitch_of
from ckmlir.nn.plain import checked
from ckmlir.nn.rows import base, columns, outer, row_shape, sizes, whole_rows


@checked
def layer_norm_backward(
    dy: Any,
    x: Any,
    mean: Any,
    inv_std: Any,
    weight: Any = None,
    *,
    normalized_shape: int | Sequence[int] | None = None,
    dsum: Any = None,
    out: Any = None,
    stream: object = None,
) -> Any:
    """The gradients of `layer_norm`: of x, weight and bias.

    Args:
        dy: the gradient of the result, of x's shape and type.
        x: what was normalised: of a call with a residual the sum, which it returned with return_sum.
        mean, inv_std: what it returned with return_stats.
        weight, normalized_shape: as for `layer_norm`.
        dsum: the gradient of the sum, of x's shape and type, which is added to that of x; this then is the residual's
            too.
        out: the three, to be written.

    Returns:
        dx of x's shape, dweight and dbias of the shape of rows, of x's type.

    Raises:
        DeviceError: shapes or types do not fit, or rows are not contiguous.
        RequestError: the operator refuses the sizes.
    """
    statistics = {"mean": mean, "inv_std": inv_std}
    return _gradients("layernorm2d_bwd", dy, x, statistics, weight, normalized_shape, dsum, ("dbeta",), out, stream)


@checked
def rms_norm_backward(
    dy: Any,
    x: Any,
    inv_rms: Any,
    weight: Any = None,
    *,
    normalized_shape: int | Sequence[int] | None = None,
    dsum: Any = None,
    out: Any = None,
    stream: object = None,
) -> Any:
    """The gradients of `rms_norm`: of x and weight; for the rest see `layer_norm_backward`."""
    return _gradients("rmsnorm2d_bwd", dy, x, {"inv_rms": inv_rms}, weight, normalized_shape, dsum, (), out, stream)


@checked
def softmax_backward(
    dy: Any, y: Any, dim: int = -1, *, scale: float = 1.0, out: Any = None, stream: object = None
) -> Any:
    """The gradient of `softmax` for x, with a mask or without.

    Args:
        dy: the gradient of the result, of its shape and type.
        y: the result.
        dim, scale: as for `softmax`.
        out: of y's shape, to be written.

    Raises:
        DeviceError, RequestError: as `layer_norm_backward`.
    """
    call = Call(stream)
    result = call.read("y", y)
    above = call.read("dy", dy).require(shape=result.shape, dtype=result.dtype)
    outputs = call.outputs(out, dx=(result.shape, result.dtype))
    if not is_last(dim, result):
        return along(dim, softmax_backward, dy, outputs, beside={"y": y}, scale=scale, stream=stream)
    inputs = {"y": result.rows(), "dy": above.rows()}
    keys = sizes(inputs["y"]) | {"scale": scale, "ystride": pitch_of(inputs["y"]), "dy_stride": pitch_of(inputs["dy"])}
    keys |= pitch_key("dx_stride", outputs.given["dx"])
    keys |= base(inputs, outputs.given)
    return outputs.of(call.run("softmax_bwd", keys, inputs, outputs.given, ("m",), in_place={"dx": ("y", "dy")}))


def _gradients(
    operator: str,
    dy: Any,
    x: Any,
    statistics: dict[str, Any],
    weight: Any,
    normalized_shape: int | Sequence[int] | None,
    dsum: Any,
    more: tuple[str, ...],
    out: Any,
    stream: object,
) -> Any:
    """Those of a norm; `more` are gradients of columns besides that of gamma."""
    call = Call(stream)
    given = call.read("x", x)
    row = row_shape(given, normalized_shape)
    images = {"x": whole_rows(given, row)}
    for name, one in (("dy", dy), ("dsum", dsum)):
        if one is not None:
            images[name] = whole_rows(call.read(name, one).require(shape=given.shape, dtype=given.dtype), row)
    keys = sizes(images["x"]) | {"add": dsum is not None}
    keys |= {("stride" if name == "x" else f"{name}_stride"): pitch_of(one) for name, one in images.items()}
    m, n = images["x"].shape
    saved = {
        name: call.read(name, one).require(shape=outer(given, row), dtype="f32").contiguous().reshaped(m)
        for name, one in statistics.items()
    }
    inputs = {**images, "gamma": columns(call, given, row, "weight", weight, 1.0), **saved}
    gradients = ("dgamma", *more)
    made = {"dx": (given.shape, given.dtype), **dict.fromkeys(gradients, (row, given.dtype))}
    outputs = call.outputs(out, **made).seen_as(**dict.fromkeys(gradients, (n,)))
    keys |= pitch_key("dx_stride", outputs.given["dx"], len(row))
    keys |= base(inputs, outputs.given)
    return outputs.of(call.run(operator, keys, inputs, outputs.given, ("m",), in_place={"dx": tuple(images)}))
