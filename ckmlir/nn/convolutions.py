"""Convolutions: `conv1d`, `conv2d`, `conv3d`, with PyTorch's names and order of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ckmlir.nn import plain
from ckmlir.nn.calls import Call
from ckmlir.nn.given import Given
from ckmlir.nn.gradients import differentiable
from ckmlir.nn.plain import checked, number, word
from ckmlir.nn.products import ACTIVATIONS
from ckmlir.ops.request import MAXIMUM_SIZE, show, whole
from ckmlir.runtime.device import DeviceError

Numbers = int | Sequence[int]


class How(NamedTuple):
    """How windows go over images, as callers give it: see `conv2d`."""

    stride: Numbers
    padding: Numbers | str
    dilation: Numbers
    right_padding: Numbers | None = None


@checked
@differentiable
def conv1d(
    x: Any, weight: Any, bias: Any = None, stride: Numbers = 1, padding: Numbers | str = 0, dilation: Numbers = 1,
    groups: int = 1, *, right_padding: Numbers | None = None, activation: str | None = None, residual: Any = None,
    channels_last: bool = False, out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """Convolution of images of one spatial dimension. Arguments, results and errors as for `conv2d`."""
    given = How(stride, padding, dilation, right_padding)
    return _convolved(1, x, weight, bias, given, groups, activation, residual, channels_last, out, stream)


@checked
@differentiable
def conv2d(
    x: Any, weight: Any, bias: Any = None, stride: Numbers = 1, padding: Numbers | str = 0, dilation: Numbers = 1,
    groups: int = 1, *, right_padding: Numbers | None = None, activation: str | None = None, residual: Any = None,
    channels_last: bool = False, out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """activation(convolution of x with weight + bias) + residual: `torch.nn.functional.conv2d` with what follows it.

    Args:
        x: (n, channels, height, width), contiguous; with `channels_last` (n, height, width, channels), which is what
            kernels take: channels that come first are turned in a step of their own. f16, bf16 or f32.
        weight: (outputs, channels / groups, rows, columns); with `channels_last` (outputs, rows, columns, channels /
            groups). bias: (outputs,).
        stride, dilation: one number, or one for each spatial dimension.
        padding: zeros at both ends, as many; "valid": none; "same": as many as give results of x's size, one more at
            the end where that is odd, as PyTorch has it.
        right_padding: zeros at the ends; `padding` has those at the beginnings then. -2: windows leave out the last two
            places.
        activation: gelu, gelu_tanh, relu, sigmoid, silu or tanh.
        residual: of the result's shape.
        out: to be written; it may not be an input.

    Returns:
        (n, outputs, positions…), or (n, positions…, outputs) with `channels_last`; of x's type.

    Raises:
        DeviceError: shapes or types do not fit, arrays have gaps, windows are longer than padded images, or an unknown
            activation or padding.
        RequestError: sizes that kernels do not count.
    """
    given = How(stride, padding, dilation, right_padding)
    return _convolved(2, x, weight, bias, given, groups, activation, residual, channels_last, out, stream)


@checked
@differentiable
def conv3d(
    x: Any, weight: Any, bias: Any = None, stride: Numbers = 1, padding: Numbers | str = 0, dilation: Numbers = 1,
    groups: int = 1, *, right_padding: Numbers | None = None, activation: str | None = None, residual: Any = None,
    channels_last: bool = False, out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """Convolution of images of three spatial dimensions. Arguments, results and errors as for `conv2d`."""
    given = How(stride, padding, dilation, right_padding)
    return _convolved(3, x, weight, bias, given, groups, activation, residual, channels_last, out, stream)


def _convolved(
    rank: int, x: Any, weight: Any, bias: Any, how: How, groups: int,
    activation: str | None, residual: Any, channels_last: bool, out: Any, stream: object,
) -> Any:  # fmt: skip
    call = Call(stream)
    images, weights = call.read("x", x).require(ndim=rank + 2), call.read("weight", weight).require(ndim=rank + 2)
    dtype = weights.require(dtype=images.dtype).dtype
    keys, shape = geometry(images.shape, weights.shape, how, groups, channels_last)
    keys |= {"dtype": dtype, "out": dtype}

    inputs = {"x": with_groups(images, groups, channels_last), "w": weights_of_groups(weights, groups)}
    inputs |= followed_by(call, keys, shape, bias, activation, residual, channels_last)
    outputs = call.outputs(out, y=(shape, dtype))
    return outputs.of(call.run("conv_fwd", keys, inputs, outputs.given))


def followed_by(
    call: Call, keys: dict[str, object], shape: tuple[int, ...], bias: Any, activation: str | None, residual: Any,
    channels_last: bool,
) -> dict[str, Given]:  # fmt: skip
    """What follows the sums: `keys` get the expression, and its D tensors are returned; the result has `shape`."""
    dtype, groups, sides, expression = keys["dtype"], keys["g"], list[tuple[str, Given]](), "acc"
    assert isinstance(dtype, str) and isinstance(groups, int)
    if bias is not None:
        outputs = shape[-1 if channels_last else 1]
        numbers = call.read("bias", bias).require(shape=(outputs,), dtype=dtype)
        sides.append(("row", numbers.reshaped(groups, outputs // groups)))
        expression = "acc + d0"
    if activation is not None:
        expression = f"{word('activation', activation, ACTIVATIONS)}({expression})"
    if residual is not None:
        expression = f"{expression} + d{len(sides)}"
        added = call.read("residual", residual).require(shape=shape, dtype=dtype)
        sides.append(("full", with_groups(added, groups, channels_last)))
    if expression != "acc":
        keys["op"] = expression
    if sides:
        keys["d"], keys["d_kind"] = (dtype,) * len(sides), tuple(kind for kind, _ in sides)
    return {f"d{number}": one for number, (_, one) in enumerate(sides)}


def geometry(
    x: tuple[int, ...], weight: tuple[int, ...], how: How, groups: int,
    channels_last: bool, names: tuple[str, str] = ("x", "weight"),
) -> tuple[dict[str, object], tuple[int, ...]]:  # fmt: skip
    """The keys of a convolution and its gradients but types, and the shape of its result; of shapes that are called
    `names`.
    """
    (channels, image), (depth, window) = _apart(x, channels_last), _apart(weight, channels_last)
    groups = number("groups", groups, 1)
    if channels != depth * groups or weight[0] % groups:
        raise DeviceError(
            f"{names[0]} of shape {x}, {names[1]} of shape {weight}, groups={groups}: expected {depth} channels of "
            f"{names[0]} in each group, and as many outputs in every one"
        )
    strides, dilations, left, right, positions = extents(image, window, how, names)
    keys: dict[str, object] = {
        "n": x[0], "g": groups, "c": depth, "k": weight[0] // groups, "image": image, "window": window,
        "strides": strides, "dilations": dilations, "pads": left, "right_pads": right,
        "channels": "last" if channels_last else "first",
    }  # fmt: skip
    return keys, (x[0], *positions, weight[0]) if channels_last else (x[0], weight[0], *positions)


class Extents(NamedTuple):
    """What windows do along each spatial dimension; zeros before and behind images; and how many positions there are.
    """

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    positions: tuple[int, ...]


def extents(
    image: tuple[int, ...], window: tuple[int, ...], how: How,
    names: tuple[str, str] = ("x", "weight"),
) -> Extents:  # fmt: skip
    """Of windows in images, as arguments say.

    Raises DeviceError for wrong arguments, and where windows are longer than padded images.
    """
    rank = len(image)
    strides, dilations = each("stride", how.stride, rank, 1), each("dilation", how.dilation, rank, 1)
    spans = tuple((places - 1) * step for places, step in zip(window, dilations, strict=True))
    left, right = pads(how, spans, strides)
    padded = tuple(map(sum, zip(image, left, right, strict=True)))
    if any(length <= span for length, span in zip(padded, spans, strict=True)):
        lengths = tuple(span + 1 for span in spans)
        raise DeviceError(
            f"{names[0]} has lengths {padded} with its padding, windows of {names[1]} have {lengths}; expected no "
            "longer ones"
        )
    ends = zip(padded, spans, strides, strict=True)
    return Extents(strides, dilations, left, right, tuple((end - span - 1) // step + 1 for end, span, step in ends))


def with_groups(images: Given, groups: int, channels_last: bool) -> Given:
    """Images with groups and their channels apart."""
    n, *rest = images.shape
    apart = (*rest[:-1], groups, rest[-1] // groups) if channels_last else (groups, rest[0] // groups, *rest[1:])
    return images.reshaped(n, *apart)


def weights_of_groups(weights: Given, groups: int) -> Given:
    """Weights with groups and their outputs apart."""
    return weights.reshaped(groups, weights.shape[0] // groups, *weights.shape[1:])


def _apart(shape: tuple[int, ...], channels_last: bool) -> tuple[int, tuple[int, ...]]:
    """Channels and spatial lengths of images or weights."""
    return (shape[-1], shape[1:-1]) if channels_last else (shape[1], shape[2:])


def each(what: str, numbers: Numbers, rank: int, least: int) -> tuple[int, ...]:
    """One number for each spatial dimension, a single one for all. Raises DeviceError for others, and below the least.
    """
    single = whole(numbers)
    found = plain.numbers(what, numbers) if single is None else (single,)
    if len(found) == 1:
        found *= rank
    if len(found) != rank:
        raise DeviceError(f"{what}={found}: expected one number, or {rank}")
    if min(found) < least:
        raise DeviceError(f"{what}={found}: expected at least {least}")
    return found


def pads(how: How, spans: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Zeros before and behind images; windows reach over `spans` more places than their first.

    Raises DeviceError for other texts than same and valid, for same with strides, for numbers behind images beside a
    text, and for wrong numbers.
    """
    padding, behind = how.padding, how.right_padding
    if isinstance(padding, str) and behind is not None:
        raise DeviceError(f"right_padding={show(behind)} with padding={show(padding)}: expected numbers for both")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise DeviceError(f"padding={show(padding)}: expected numbers, same or valid")
        if padding == "same" and {*strides} != {1}:
            raise DeviceError(f"padding=same with stride={strides}: expected steps of one")
        shares = spans if padding == "same" else (0,) * len(spans)
        return tuple(span // 2 for span in shares), tuple(span - span // 2 for span in shares)
    left = each("padding", padding, len(spans), 0)
    return left, left if behind is None else each("right_padding", behind, len(spans), -MAXIMUM_SIZE)
