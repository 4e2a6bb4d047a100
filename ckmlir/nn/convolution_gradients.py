"""Gradients of convolutions, with the names and the order of arguments of `torch.nn.grad`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ckmlir.nn.calls import Call
from ckmlir.nn.convolutions import How, Numbers, geometry, weights_of_groups, with_groups
from ckmlir.nn.plain import checked, numbers
from ckmlir.runtime.device import DeviceError


@checked
def conv1d_input(
    input_size: Sequence[int], weight: Any, grad_output: Any, stride: Numbers = 1, padding: Numbers | str = 0,
    dilation: Numbers = 1, groups: int = 1, *, right_padding: Numbers | None = None, channels_last: bool = False,
    out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """The gradient of `conv1d` for its images. Arguments, results and errors as for `conv2d_input`."""
    how = How(stride, padding, dilation, right_padding)
    return _of_images(1, input_size, weight, grad_output, how, groups, channels_last, out, stream)


@checked
def conv2d_input(
    input_size: Sequence[int], weight: Any, grad_output: Any, stride: Numbers = 1, padding: Numbers | str = 0,
    dilation: Numbers = 1, groups: int = 1, *, right_padding: Numbers | None = None, channels_last: bool = False,
    out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """The gradient of `conv2d` for its images: `torch.nn.grad.conv2d_input`.

    Args:
        input_size: the shape of the images.
        weight, stride, padding, dilation, groups, right_padding, channels_last: as they were given to `conv2d`;
            f16, bf16 or f32.
        grad_output: the gradient for its result, of weight's type.
        out: of the images' shape, to be written.

    Returns:
        The gradient, of shape input_size and weight's type.

    Raises:
        DeviceError, RequestError: as `conv2d`.
    """
    how = How(stride, padding, dilation, right_padding)
    return _of_images(2, input_size, weight, grad_output, how, groups, channels_last, out, stream)


@checked
def conv3d_input(
    input_size: Sequence[int], weight: Any, grad_output: Any, stride: Numbers = 1, padding: Numbers | str = 0,
    dilation: Numbers = 1, groups: int = 1, *, right_padding: Numbers | None = None, channels_last: bool = False,
    out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """The gradient of `conv3d` for its images. Arguments, results and errors as for `conv2d_input`."""
    how = How(stride, padding, dilation, right_padding)
    return _of_images(3, input_size, weight, grad_output, how, groups, channels_last, out, stream)


@checked
def conv1d_weight(
    x: Any, weight_size: Sequence[int], grad_output: Any, stride: Numbers = 1, padding: Numbers | str = 0,
    dilation: Numbers = 1, groups: int = 1, *, right_padding: Numbers | None = None, channels_last: bool = False,
    out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """The gradient of `conv1d` for its weights. Arguments, results and errors as for `conv2d_weight`."""
    how = How(stride, padding, dilation, right_padding)
    return _of_weights(1, x, weight_size, grad_output, how, groups, channels_last, out, stream)


@checked
def conv2d_weight(
    x: Any, weight_size: Sequence[int], grad_output: Any, stride: Numbers = 1, padding: Numbers | str = 0,
    dilation: Numbers = 1, groups: int = 1, *, right_padding: Numbers | None = None, channels_last: bool = False,
    out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """The gradient of `conv2d` for its weights: `torch.nn.grad.conv2d_weight`. The same bits in every run.

    Args:
        x, stride, padding, dilation, groups, right_padding, channels_last: as they were given to `conv2d`;
            f16, bf16 or f32.
        weight_size: the shape of the weights.
        grad_output: the gradient for its result, of x's type.
        out: of the weights' shape, to be written.

    Returns:
        The gradient, of shape weight_size and x's type.

    Raises:
        DeviceError, RequestError: as `conv2d`.
    """
    how = How(stride, padding, dilation, right_padding)
    return _of_weights(2, x, weight_size, grad_output, how, groups, channels_last, out, stream)


@checked
def conv3d_weight(
    x: Any, weight_size: Sequence[int], grad_output: Any, stride: Numbers = 1, padding: Numbers | str = 0,
    dilation: Numbers = 1, groups: int = 1, *, right_padding: Numbers | None = None, channels_last: bool = False,
    out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """The gradient of `conv3d` for its weights. Arguments, results and errors as for `conv2d_weight`."""
    how = How(stride, padding, dilation, right_padding)
    return _of_weights(3, x, weight_size, grad_output, how, groups, channels_last, out, stream)


def _of_images(
    rank: int, input_size: Sequence[int], weight: Any, grad_output: Any, how: How, groups: int, channels_last: bool,
    out: Any, stream: object,
) -> Any:  # fmt: skip
    call = Call(stream)
    weights = call.read("weight", weight).require(ndim=rank + 2)
    images = _shape("input_size", input_size, rank)
    keys, shape = geometry(images, weights.shape, how, groups, channels_last, ("input_size", "weight"))
    dy = call.read("grad_output", grad_output).require(shape=shape, dtype=weights.dtype)
    inputs = {"dy": with_groups(dy, groups, channels_last), "w": weights_of_groups(weights, groups)}
    keys |= {"dtype": weights.dtype, "out": weights.dtype}
    outputs = call.outputs(out, dx=(images, weights.dtype))
    return outputs.of(call.run("conv_bwd_data", keys, inputs, outputs.given))


def _of_weights(
    rank: int, x: Any, weight_size: Sequence[int], grad_output: Any, how: How, groups: int, channels_last: bool,
    out: Any, stream: object,
) -> Any:  # fmt: skip
    call = Call(stream)
    images = call.read("x", x).require(ndim=rank + 2)
    weights = _shape("weight_size", weight_size, rank)
    keys, shape = geometry(images.shape, weights, how, groups, channels_last, ("x", "weight_size"))
    dy = call.read("grad_output", grad_output).require(shape=shape, dtype=images.dtype)
    keys |= {"dtype": images.dtype, "out": images.dtype}
    outputs = call.outputs(out, dw=(weights, images.dtype))
    inputs = {name: with_groups(one, groups, channels_last) for name, one in (("dy", dy), ("x", images))}
    return outputs.of(call.run("conv_bwd_weight", keys, inputs, outputs.given))


def _shape(what: str, given: Sequence[int], rank: int) -> tuple[int, ...]:
    """A shape of images or weights. Raises DeviceError for another one."""
    found = numbers(what, given)
    if len(found) != rank + 2 or min(found) < 0:
        raise DeviceError(f"{what}={found}: expected {rank + 2} lengths")
    return found
