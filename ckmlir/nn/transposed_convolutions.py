"""Transposed convolutions: the gradient of a convolution for its images as a layer, with PyTorch's arguments."""

from __future__ import annotations

from typing import Any

from ckmlir.nn.calls import Call
from ckmlir.nn.convolutions import How, Numbers, each, followed_by, geometry, weights_of_groups, with_groups
from ckmlir.nn.gradients import differentiable
from ckmlir.nn.plain import checked, number
from ckmlir.runtime.device import DeviceError


@checked
@differentiable
def conv_transpose1d(
    x: Any, weight: Any, bias: Any = None, stride: Numbers = 1, padding: Numbers = 0, output_padding: Numbers = 0,
    groups: int = 1, dilation: Numbers = 1, *, activation: str | None = None, residual: Any = None,
    channels_last: bool = False, out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """Transposed convolution of images of one spatial dimension. Arguments, results and errors as for
    `conv_transpose2d`."""
    how, after = (stride, padding, dilation, output_padding), (bias, activation, residual)
    return _transposed(1, x, weight, how, groups, after, channels_last, out, stream)


@checked
@differentiable
def conv_transpose2d(
    x: Any, weight: Any, bias: Any = None, stride: Numbers = 1, padding: Numbers = 0, output_padding: Numbers = 0,
    groups: int = 1, dilation: Numbers = 1, *, activation: str | None = None, residual: Any = None,
    channels_last: bool = False, out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """activation(transposed convolution of x with weight + bias) + residual: `torch.nn.functional.conv_transpose2d`
    with what follows it. Every element of the result is written once, by one launch.

    Args:
        x: (n, channels, height, width), contiguous; with `channels_last` (n, height, width, channels), which is what
            kernels take. f16, bf16 or f32.
        weight: (channels, outputs / groups, rows, columns); with `channels_last` (channels, rows, columns, outputs /
            groups). bias: (outputs,).
        stride, dilation, padding: of the convolution whose gradient it is: one number, or one for each spatial
            dimension.
        output_padding: so many places more at the end of each dimension of the result; less than stride, or than
            dilation.
        activation: gelu, gelu_tanh, relu, sigmoid, silu or tanh.
        residual: of the result's shape.
        out: to be written; it may not be an input.

    Returns:
        (n, outputs, lengths…), or (n, lengths…, outputs) with `channels_last`, of x's type; a length of x becomes
        (length - 1) * stride - 2 * padding + dilation * (window - 1) + output_padding + 1.

    Raises:
        DeviceError: shapes or types do not fit, arrays have gaps, nothing is left of a length, or an unknown
            activation.
        RequestError: sizes that kernels do not count.
    """
    how, after = (stride, padding, dilation, output_padding), (bias, activation, residual)
    return _transposed(2, x, weight, how, groups, after, channels_last, out, stream)


@checked
@differentiable
def conv_transpose3d(
    x: Any, weight: Any, bias: Any = None, stride: Numbers = 1, padding: Numbers = 0, output_padding: Numbers = 0,
    groups: int = 1, dilation: Numbers = 1, *, activation: str | None = None, residual: Any = None,
    channels_last: bool = False, out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """Transposed convolution of images of three spatial dimensions. Arguments, results and errors as for
    `conv_transpose2d`."""
    how, after = (stride, padding, dilation, output_padding), (bias, activation, residual)
    return _transposed(3, x, weight, how, groups, after, channels_last, out, stream)


Transposed = tuple[Numbers, Numbers, Numbers, Numbers]
"""Strides, paddings, dilations, paddings of the result."""


def _transposed(
    rank: int, x: Any, weight: Any, how: Transposed, groups: int, after: tuple[Any, str | None, Any],
    channels_last: bool, out: Any, stream: object,
) -> Any:  # fmt: skip
    call = Call(stream)
    images, weights = call.read("x", x).require(ndim=rank + 2), call.read("weight", weight).require(ndim=rank + 2)
    dtype = weights.require(dtype=images.dtype).dtype
    groups = number("groups", groups, 1)
    shape = transposed_shape(images.shape, weights.shape, how, groups, channels_last)
    stride, padding, dilation, output_padding = how
    convolution = How(stride, padding, dilation, behind(padding, output_padding, rank))
    keys, _ = geometry(shape, weights.shape, convolution, groups, channels_last, ("the result", "weight"))
    keys |= {"dtype": dtype, "out": dtype}
    inputs = {"dy": with_groups(images, groups, channels_last), "w": weights_of_groups(weights, groups)}
    inputs |= followed_by(call, keys, shape, *after, channels_last)
    outputs = call.outputs(out, dx=(shape, dtype))
    return outputs.of(call.run("conv_bwd_data", keys, inputs, outputs.given))


def behind(padding: Numbers, output_padding: Numbers, rank: int) -> tuple[int, ...]:
    """Zeros behind the images of the convolution whose gradient it is, so that windows have as many positions as x has
    places. Places that are added to the result, none meets.
    """
    pads, more = each("padding", padding, rank, 0), each("output_padding", output_padding, rank, 0)
    return tuple(pad - extra for pad, extra in zip(pads, more, strict=True))


def transposed_shape(
    x: tuple[int, ...], weight: tuple[int, ...], how: Transposed, groups: int, channels_last: bool = False
) -> tuple[int, ...]:
    """Of a transposed convolution's result.

    Raises:
        DeviceError: Shapes do not fit, or nothing is left of a length.
    """
    place, lengths, window = (-1, x[1:-1], weight[1:-1]) if channels_last else (1, x[2:], weight[2:])
    if x[place] != weight[0] or weight[0] % groups:
        raise DeviceError(
            f"x of shape {x}, weight of shape {weight}, groups={groups}: expected {weight[0]} channels of x, and as "
            "many in every group"
        )
    least = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}
    strides, pads, dilations, more = (
        each(what, one, len(lengths), lowest) for (what, lowest), one in zip(least.items(), how, strict=True)
    )
    if any(one >= max(pair) for one, *pair in zip(more, strides, dilations, strict=True)):
        raise DeviceError(
            f"output_padding={more} with stride={strides} and dilation={dilations}: expected less than one of them"
        )
    given = zip(lengths, window, strides, pads, dilations, more, strict=True)
    found = tuple(
        (length - 1) * step - 2 * pad + apart * (places - 1) + extra + 1
        for length, places, step, pad, apart, extra in given
    )
    if min(found) < 1:
        raise DeviceError(f"padding={pads}: the result has lengths {found}; expected at least 1")
    outputs = weight[place] * groups
    return (x[0], *found, outputs) if channels_last else (x[0], outputs, *found)
