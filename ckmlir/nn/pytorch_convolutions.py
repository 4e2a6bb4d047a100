"""Convolutions, transposed ones and their gradients as operators of PyTorch: schemas, shapes of results, gradients.

Padding by name is an overload, as PyTorch's own convolutions have it (`aten::conv2d.padding`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ckmlir.nn.convolutions import How, extents
from ckmlir.nn.transposed_convolutions import behind, transposed_shape

torch: Any = importlib.import_module("torch")  # typed alike whether it is installed or not

RANKS = (1, 2, 3)
"""Spatial dimensions."""
BY_NAME = ".padding"
"""Behind the names of operators whose padding is a text."""


def _convolved(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, *,
    right_padding: Any = None, channels_last: bool = False,
) -> Any:  # fmt: skip
    spatial, how = slice(1, -1) if channels_last else slice(2, None), How(stride, padding, dilation, right_padding)
    positions = extents(x.shape[spatial], weight.shape[spatial], how).positions
    n, outputs = x.shape[0], weight.shape[0]
    return x.new_empty((n, *positions, outputs) if channels_last else (n, outputs, *positions))


def _transposed(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1,
    dilation: Any = 1, *, channels_last: bool = False,
) -> Any:  # fmt: skip
    how = stride, padding, dilation, output_padding
    return x.new_empty(transposed_shape(x.shape, weight.shape, how, groups, channels_last))


def _schemas(rank: int) -> dict[str, tuple[str, Callable[..., Any]]]:
    """Of one number of spatial dimensions, by name: see `CONVOLUTIONS`."""
    name, last = f"conv{rank}d", "*, bool channels_last=False"
    found: dict[str, tuple[str, Callable[..., Any]]] = {
        f"conv_transpose{rank}d": (
            f"(Tensor x, Tensor weight, Tensor? bias=None, int[{rank}] stride=1, int[{rank}] padding=0, "
            f"int[{rank}] output_padding=0, int groups=1, int[{rank}] dilation=1, {last}) -> Tensor",
            _transposed,
        )
    }
    right = f"*, int[{rank}]? right_padding=None, bool channels_last=False"
    for overload, padding, rest in (("", f"int[{rank}] padding=0", right), (BY_NAME, 'str padding="valid"', last)):
        how = f"int[{rank}] stride=1, {padding}, int[{rank}] dilation=1, int groups=1, {rest}"
        found |= {
            f"{name}{overload}": (f"(Tensor x, Tensor weight, Tensor? bias=None, {how}) -> Tensor", _convolved),
            f"{name}_input{overload}": (
                f"(SymInt[] input_size, Tensor weight, Tensor grad_output, {how}) -> Tensor",
                lambda input_size, weight, *rest, **options: weight.new_empty(input_size),
            ),
            f"{name}_weight{overload}": (
                f"(Tensor x, SymInt[] weight_size, Tensor grad_output, {how}) -> Tensor",
                lambda x, weight_size, *rest, **options: x.new_empty(weight_size),
            ),
        }
    return found


CONVOLUTIONS = {name: one for rank in RANKS for name, one in _schemas(rank).items()}
"""By name: PyTorch's schema, and what comes out, without elements."""


def _keep(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    x, weight, bias, *ctx.how = inputs
    ctx.save_for_backward(x, weight)
    ctx.has_bias, ctx.options = bias is not None, keyword_only_inputs


def _convolution_backward(ctx: Any, dout: Any) -> Any:
    (x, weight), dy = ctx.saved_tensors, dout.contiguous()
    name, needed, ops = f"conv{x.ndim - 2}d", ctx.needs_input_grad, torch.ops.ckmlir
    dx = getattr(ops, f"{name}_input")(x.shape, weight, dy, *ctx.how, **ctx.options) if needed[0] else None
    dweight = getattr(ops, f"{name}_weight")(x, weight.shape, dy, *ctx.how, **ctx.options) if needed[1] else None
    return dx, dweight, _of_bias(ctx, dout), *(None for _ in ctx.how)


def _transposed_backward(ctx: Any, dout: Any) -> Any:
    """Those of a convolution whose images are the result."""
    (x, weight), dy = ctx.saved_tensors, dout.contiguous()
    name, needed, ops = f"conv{x.ndim - 2}d", ctx.needs_input_grad, torch.ops.ckmlir
    stride, padding, output_padding, groups, dilation = ctx.how
    how = stride, padding, dilation, groups
    options = {**ctx.options, "right_padding": behind(padding, output_padding, x.ndim - 2)}
    dx = getattr(ops, name)(dy, weight, None, *how, **options) if needed[0] else None
    dweight = getattr(ops, f"{name}_weight")(dy, weight.shape, x, *how, **options) if needed[1] else None
    return dx, dweight, _of_bias(ctx, dout), *(None for _ in ctx.how)


def _of_bias(ctx: Any, dout: Any) -> Any:
    outputs = dout.ndim - 1 if ctx.options["channels_last"] else 1
    return dout.sum([dim for dim in range(dout.ndim) if dim != outputs]) if ctx.has_bias else None


GRADIENTS_OF_CONVOLUTIONS = {
    **{f"conv{rank}d{one}": (_keep, _convolution_backward) for rank in RANKS for one in ("", BY_NAME)},
    **{f"conv_transpose{rank}d": (_keep, _transposed_backward) for rank in RANKS},
}
"""By name: what is kept of a call, and the gradients for what it was given."""
