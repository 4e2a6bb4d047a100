"""Windows over images: maxima, averages, and the windows themselves as rows, with PyTorch's names and order."""

from __future__ import annotations

import math
from typing import Any

from ckmlir.nn.calls import Call
from ckmlir.nn.convolutions import Numbers, each
from ckmlir.nn.given import Given
from ckmlir.nn.outputs import permutation
from ckmlir.nn.plain import checked, number
from ckmlir.runtime.device import DeviceError


@checked
def max_pool1d(
    x: Any, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0, dilation: Numbers = 1,
    ceil_mode: bool = False, return_indices: bool = False, *, channels_last: bool = False, out: Any = None,
    stream: object = None,
) -> Any:  # fmt: skip
    """The maximum of every window of images of one spatial dimension. Arguments and results as for `max_pool2d`."""
    how = (kernel_size, stride, padding, dilation)
    return _pooled(1, x, how, ceil_mode, {"op": "max", "index": return_indices}, channels_last, out, stream)


@checked
def max_pool2d(
    x: Any, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0, dilation: Numbers = 1,
    ceil_mode: bool = False, return_indices: bool = False, *, channels_last: bool = False, out: Any = None,
    stream: object = None,
) -> Any:  # fmt: skip
    """The maximum of every window: `torch.nn.functional.max_pool2d`. NaN is larger than all numbers.

    Args:
        x: (n, channels, height, width), without gaps; with `channels_last` (n, height, width, channels), which is what
            kernels take: channels that come first are turned in steps of their own. f16, bf16, f32, fp8 or bf8.
        kernel_size, stride, padding, dilation: one number, or one for each spatial dimension; stride by default as
            the window.
        ceil_mode: windows that begin in the images and end behind the padding count, too.
        return_indices: also return where the maximum is, the first of equal ones: its element's number in all of x
            with channels last. (PyTorch's are numbers within a channel of an image.)
        out: the result, to be written; with return_indices also both.

    Returns:
        (n, channels, positions…), or (n, positions…, channels); with the indices, i32, of the same shape.

    Raises:
        DeviceError: shapes or types do not fit, arrays have gaps, or padding is more than half a window.
        RequestError: sizes that kernels do not count.
    """
    how = (kernel_size, stride, padding, dilation)
    return _pooled(2, x, how, ceil_mode, {"op": "max", "index": return_indices}, channels_last, out, stream)


@checked
def max_pool3d(
    x: Any, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0, dilation: Numbers = 1,
    ceil_mode: bool = False, return_indices: bool = False, *, channels_last: bool = False, out: Any = None,
    stream: object = None,
) -> Any:  # fmt: skip
    """The maximum of every window of images of three spatial dimensions. Arguments and results as for `max_pool2d`."""
    how = (kernel_size, stride, padding, dilation)
    return _pooled(3, x, how, ceil_mode, {"op": "max", "index": return_indices}, channels_last, out, stream)


@checked
def avg_pool1d(
    x: Any, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, *, channels_last: bool = False, out: Any = None,
    stream: object = None,
) -> Any:  # fmt: skip
    """The average of every window of images of one spatial dimension. Arguments and results as for `avg_pool2d`."""
    return _averaged(1, x, (kernel_size, stride, padding), ceil_mode, count_include_pad, channels_last, out, stream)


@checked
def avg_pool2d(
    x: Any, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, *, channels_last: bool = False, out: Any = None,
    stream: object = None,
) -> Any:  # fmt: skip
    """The average of every window: `torch.nn.functional.avg_pool2d`, added in f32.

    Args:
        x, kernel_size, stride, padding, channels_last: as for `max_pool2d`.
        ceil_mode: as for `max_pool2d`.
        count_include_pad: divide by all places of a window, zeros of the padding among them, but not what is behind it;
            else by the elements.
        out: to be written.

    Returns:
        (n, channels, positions…), or (n, positions…, channels).

    Raises:
        DeviceError, RequestError: as `max_pool2d`.
    """
    return _averaged(2, x, (kernel_size, stride, padding), ceil_mode, count_include_pad, channels_last, out, stream)


@checked
def avg_pool3d(
    x: Any, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, *, channels_last: bool = False, out: Any = None,
    stream: object = None,
) -> Any:  # fmt: skip
    """The average of every window of images of three spatial dimensions. Arguments and results as for `avg_pool2d`."""
    return _averaged(3, x, (kernel_size, stride, padding), ceil_mode, count_include_pad, channels_last, out, stream)


def im2col(
    x: Any, kernel_size: Numbers, dilation: Numbers = 1, padding: Numbers = 0, stride: Numbers = 1, *,
    groups: int = 1, out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """The windows of images as rows: `torch.nn.functional.unfold` with channels last.

    Args:
        x: (n, spatial…, channels), one to three spatial dimensions, without gaps; any type of at most 32 bits.
        kernel_size, dilation, padding, stride: as for `max_pool2d`.
        groups: of channels.
        out: to be written.

    Returns:
        (groups, n, positions…, places of a window · channels of a group), zero beyond the images.

    Raises:
        DeviceError, RequestError: as `max_pool2d`.
    """
    call = Call(stream)
    given = call.read("x", x)
    if not 3 <= given.ndim <= 5:
        raise DeviceError(f"x: shape {given.shape}; expected images, one to three spatial dimensions, and channels")
    n, *image, channels = given.shape
    groups = number("groups", groups, 1)
    if channels % groups:
        raise DeviceError(f"groups={groups}: x has {channels} channels; expected a divisor")
    keys, positions = _geometry(tuple(image), (kernel_size, stride, padding, dilation), False)
    keys |= {"n": n, "g": groups, "c": channels // groups, "dtype": given.dtype, "align": given.base}
    patches = given.reshaped(n, *image, groups, channels // groups)
    length = math.prod(keys["window"]) * (channels // groups)
    outputs = call.outputs(out, y=((groups, n, *positions, length), given.dtype))
    return outputs.of(call.run("img2col", keys, {"x": patches}, outputs.given, varying=("n",)))


def _averaged(
    rank: int, x: Any, how: tuple[Numbers, Numbers | None, Numbers], ceil_mode: bool, count_include_pad: bool,
    channels_last: bool, out: Any, stream: object,
) -> Any:  # fmt: skip
    keys: dict[str, object] = {"op": "average", "count": "padding" if count_include_pad else "elements"}
    return _pooled(rank, x, (*how, 1), ceil_mode, keys, channels_last, out, stream)


def _pooled(
    rank: int, x: Any, how: tuple[Numbers, Numbers | None, Numbers, Numbers], ceil_mode: bool,
    keys: dict[str, object], channels_last: bool, out: Any, stream: object,
) -> Any:  # fmt: skip
    call = Call(stream)
    given = call.read("x", x).require(ndim=rank + 2)
    last = (0, *range(2, rank + 2), 1)
    n, *image, channels = given.shape if channels_last else tuple(given.shape[dim] for dim in last)
    sliding, positions = _geometry(tuple(image), how, ceil_mode)
    if keys.get("count") == "padding":
        keys = {**keys, "counted_pads": sliding["pads"]}
    window, pads = (tuple(sliding[name]) for name in ("window", "pads"))
    if any(2 * pad > places for pad, places in zip(pads, window, strict=True)):
        raise DeviceError(f"padding={pads}: expected at most half of kernel_size={window}")
    results = (n, *positions, channels) if channels_last else (n, channels, *positions)
    index = {"index": (results, "i32")} if keys.get("index") else {}
    outputs = call.outputs(out, y=(results, given.dtype), **index)
    shape = (n, *image, channels)
    images = given.reshaped(*shape) if channels_last else _turned(call, given, last)
    asked = {**keys, **sliding, "n": n, "c": channels, "dtype": given.dtype, "align": images.base}
    if keys["op"] == "max":
        asked["propagate_nan"] = True
    found = call.run("pooling", asked, {"x": images}, outputs.given if channels_last else {}, varying=("n",))
    if not channels_last:
        first = (0, rank + 1, *range(1, rank + 1))
        found = {name: _turned(call, found[name], first, one) for name, one in outputs.given.items()}
    return outputs.of(found)


def _turned(call: Call, given: Given, order: tuple[int, ...], out: Given | None = None) -> Given:
    """A copy with its dimensions in another order, or `out`."""
    return call.run("permute", permutation(given, order, out), {"x": given}, {"y": out})["y"]


def _geometry(
    image: tuple[int, ...], how: tuple[Numbers, Numbers | None, Numbers, Numbers], ceil_mode: bool
) -> tuple[dict[str, Any], tuple[int, ...]]:
    """The operators' keys, and the positions of windows."""
    rank = len(image)
    window = each("kernel_size", how[0], rank, 1)
    strides = window if how[1] is None else each("stride", how[1], rank, 1)
    pads, dilations = each("padding", how[2], rank, 0), each("dilation", how[3], rank, 1)
    spans = [(places - 1) * step for places, step in zip(window, dilations, strict=True)]
    right, positions = [], []
    for length, pad, span, step in zip(image, pads, spans, strides, strict=True):
        room = length + 2 * pad - span - 1
        count = max((room + (step - 1) * ceil_mode) // step + 1, 0)
        if ceil_mode and (count - 1) * step >= length + pad:  # no window begins behind the image
            count -= 1
        right.append(max(pad, (count - 1) * step + span + 1 - length - pad))
        positions.append(count)
    if 0 in positions and 0 not in image:
        raise DeviceError(f"kernel_size={window}: windows reach beyond images of {image} with padding={pads}")
    keys = {
        "image": image, "window": window, "strides": strides, "dilations": dilations, "pads": pads,
        "right_pads": tuple(right),
    }  # fmt: skip
    return keys, tuple(positions)
