"""Batch normalisation of images: with running statistics, as a step of training, and its gradients."""

from __future__ import annotations

import math
from typing import Any

from ckmlir.nn.calls import Call, constant
from ckmlir.nn.given import Given, align_of, pitch_key, pitch_of
from ckmlir.nn.gradients import differentiable
from ckmlir.nn.outputs import Outputs
from ckmlir.nn.overlaps import check_distinct
from ckmlir.nn.plain import checked, word
from ckmlir.runtime.device import DeviceError

NO_STATS = "return_stats: the statistics are those that were given; expected training=True with it"


@checked
@differentiable
def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    activation: str | None = None,
    residual: Any = None,
    channels_last: bool = False,
    return_stats: bool = False,
    out: Any = None,
    stream: object = None,
) -> Any:
    """act((x - mean) / sqrt(variance + eps) · weight + bias + residual), channel by channel:
    `torch.nn.functional.batch_norm`.

    Args:
        x, residual: (n, channels, spatial…), with `channels_last` (n, spatial…, channels); f16, bf16 or f32.
        running_mean, running_var: (channels), f32. While training both may be None; else they are moved towards the
            statistics of x, in place.
        weight, bias: (channels), both of x's type or f32; by default ones and zeros.
        training: by the statistics of x; else by the running ones.
        momentum: how far running statistics are moved; the variance they move towards is the unbiased one.
        activation: "relu".
        return_stats: while training also return mean and 1 / sqrt(variance + eps), for `batch_norm_backward`.
        out: of x's shape, to be written; with return_stats all three.

    Returns:
        Of x's shape and type; with return_stats also two arrays (channels), f32.

    Raises:
        DeviceError: shapes or types do not fit, or images have gaps.
        RequestError: the operator refuses the sizes: while training, one element a channel with running statistics.
    """
    call = Call(stream)
    given = call.read("x", x)
    keys = _sizes(given, channels_last)
    images, added = _images(given, channels_last), call.optional("residual", residual)
    inputs: dict[str, Given | None] = {"x": images, **_parameters(call, given, keys, weight, bias)}
    applied = "none" if activation is None else word("activation", activation, ("none", "relu"))
    keys |= {"eps": eps, "activation": applied, "stride": _pitch(images)}
    if added is not None:
        inputs["residual"] = seen = _images(added.require(shape=given.shape, dtype=given.dtype), channels_last)
        keys |= {"residual": True, "residual_stride": _pitch(seen)}
    shape = (keys["c"],)
    stats = {"mean": (shape, "f32"), "inv_std": (shape, "f32")} if return_stats else {}
    if return_stats and not training:
        raise DeviceError(NO_STATS)
    outputs = call.outputs(out, y=(given.shape, given.dtype), **stats)
    running = {"running_mean": running_mean, "running_var": running_var}
    missing = [name for name, one in running.items() if one is None]
    if missing and (not training or len(missing) == 1):
        raise DeviceError(f"{missing[0]}: expected an array" + ", or None for both" * training)
    inputs |= {
        name: call.read(name, one).require(shape=shape, dtype="f32") for name, one in running.items() if not missing
    }
    written = dict(outputs.given)
    if training:
        keys |= {"save_stats": return_stats, "running": not missing, "momentum": momentum}
        if not missing:
            written |= {f"new_{name}": call.written(name, one) for name, one in running.items()}
    check_distinct(written.values())
    keys |= pitch_key("ystride", outputs.given["y"], 1 if keys["layout"] == "nhwc" else given.ndim - 1)
    keys["align"] = _align(inputs, written)
    in_place = {"y": ("x", "residual"), **{f"new_{name}": (name,) for name in running}}
    operator = "batchnorm2d" if training else "batchnorm2d_infer"
    return outputs.of(call.run(operator, keys, inputs, written, ("n",), in_place=in_place))


@checked
def batch_norm_backward(
    dy: Any,
    x: Any,
    mean: Any,
    inv_std: Any,
    weight: Any = None,
    *,
    y: Any = None,
    training: bool = True,
    channels_last: bool = False,
    out: Any = None,
    stream: object = None,
) -> Any:
    """The gradients of `batch_norm`: of x, weight and bias.

    Args:
        dy: the gradient of the result, of x's shape.
        x: what the forward pass was given.
        mean, inv_std: (channels), f32: what it returned with return_stats; without training the running mean, and
            1 / sqrt(running variance + eps).
        weight: (channels), of x's type or f32; by default ones.
        y: what it returned, if it had activation="relu": dy counts only where that is above 0.
        training: as for `batch_norm`: without, the statistics do not depend on x.
        channels_last: as for `batch_norm`.
        out: the three, to be written.

    Returns:
        dx of x's shape and type, dweight and dbias (channels) of the weight's type.

    Raises:
        DeviceError: shapes or types do not fit, or images have gaps.
        RequestError: the operator refuses the sizes.
    """
    call = Call(stream)
    given = call.read("x", x)
    keys, shape = _sizes(given, channels_last), (given.shape[-1 if channels_last else 1],)
    gamma = _parameters(call, given, keys, weight, None)["gamma"]
    above = call.read("dy", dy).require(shape=given.shape)
    images: dict[str, Given | None] = {"x": _images(given, channels_last), "dy": _images(above, channels_last)}
    if y is not None:
        result = call.read("y", y).require(shape=given.shape, dtype=given.dtype)
        images["y"] = _images(result, channels_last)
    names = {"x": "stride", "dy": "dy_stride", "y": "ystride"}
    keys |= {names[name]: _pitch(one) for name, one in images.items() if one is not None}
    keys |= {"activation": "none" if y is None else "relu", "dy_dtype": above.dtype}
    keys["statistics"] = "batch" if training else "given"
    saved = {"mean": mean, "inv_std": inv_std}
    inputs = {
        **images,
        **{name: call.read(name, one).require(shape=shape, dtype="f32").contiguous() for name, one in saved.items()},
        "gamma": gamma,
    }
    made = {"dx": (given.shape, given.dtype), "dgamma": (shape, gamma.dtype), "dbeta": (shape, gamma.dtype)}
    outputs: Outputs = call.outputs(out, **made)
    keys |= pitch_key("dx_stride", outputs.given["dx"], 1 if keys["layout"] == "nhwc" else given.ndim - 1)
    keys["align"] = _align(inputs, outputs.given)
    in_place = {"dx": ("x", "dy", "y")}
    return outputs.of(call.run("batchnorm2d_bwd", keys, inputs, outputs.given, ("n",), in_place=in_place))


def _sizes(x: Given, channels_last: bool) -> dict[str, Any]:
    """How many images there are, how large they are, and how they lie. Raises DeviceError for what has no channels."""
    if x.ndim < 2:
        raise DeviceError(f"x: shape {x.shape}; expected images with channels, of two or more dimensions")
    last = channels_last or x.ndim == 2
    spatial = x.shape[1:-1] if last else x.shape[2:]
    layout = "nhwc" if last else "nchw"
    return {
        "n": x.shape[0],
        "c": x.shape[-1 if last else 1],
        "hw": math.prod(spatial),
        "dtype": x.dtype,
        "layout": layout,
    }


def _images(x: Given, channels_last: bool) -> Given:
    """Images as the operator has them. Raises DeviceError for those with gaps between their elements."""
    if channels_last or x.ndim == 2:
        return x.rows()
    flat = x.reshaped(x.shape[0], math.prod(x.shape[1:])).rows()
    shape = (x.shape[0], x.shape[1], math.prod(x.shape[2:]))
    return flat.strided(shape, (pitch_of(flat), shape[2], 1))


def _pitch(images: Given) -> int:
    """Elements from one place, or one image, to the next."""
    return images.strides[0]


def _parameters(call: Call, x: Given, keys: dict[str, Any], weight: Any, bias: Any) -> dict[str, Given]:
    """Both numbers of every channel, whose type is that of the one that is given. Notes it among the keys."""
    shape, names = (keys["c"],), (("gamma", "weight", weight, 1.0), ("beta", "bias", bias, 0.0))
    read = {name: call.read(what, one).require(shape=shape) for name, what, one, _ in names if one is not None}
    keys["params"] = dtype = next(iter(read.values())).dtype if read else x.dtype
    return {
        name: read[name].require(dtype=dtype).contiguous()
        if name in read
        else constant(call, x, value, shape[0], dtype)
        for name, _, _, value in names
    }


def _align(inputs: dict[str, Given | None], outputs: dict[str, Given | None]) -> int:
    """What divides all addresses."""
    given = [one for one in (*inputs.values(), *outputs.values()) if one is not None]
    return align_of(given, *(one.dtype for one in given), "f32")
