"""Norms and softmax as operators of PyTorch, their statistics and their gradients: schemas, shapes of results.

A gradient needs what `layer_norm` and `rms_norm` do not return. So a call on tensors that require gradients becomes one
of `layer_norm_with_stats` or `rms_norm_with_stats`, which return the sum with a residual (without one nothing) and the
statistics as well.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from ckmlir import nn
from ckmlir.nn.rows import NO_SUM, lengths_of
from ckmlir.runtime.device import DeviceError

torch: Any = importlib.import_module("torch")  # typed alike whether it is installed or not

STATISTICS = {"layer_norm": 2, "rms_norm": 1}
"""Numbers of every row that gradients need."""
WITH_STATS = "_with_stats"
_ROWS = "float eps={}, Tensor? residual=None, *, SymInt[]? normalized_shape=None"
_FORWARD = {
    "layer_norm": f"(Tensor x, Tensor? weight=None, Tensor? bias=None, {_ROWS.format('1e-05')})",
    "rms_norm": f"(Tensor x, Tensor? weight=None, {_ROWS.format('1e-06')})",
}
_BEHIND = "Tensor? weight=None, Tensor? dsum=None, *, SymInt[]? normalized_shape=None"


def _outer(x: Any, normalized_shape: Any) -> tuple[int, ...]:
    """The dimensions in front of a row's."""
    return tuple(x.shape[: x.ndim - (1 if normalized_shape is None else len(normalized_shape))])


def _with_stats(name: str) -> Callable[..., Any]:
    """The results of an operator with statistics, without elements."""

    def fake(x: Any, *others: Any, normalized_shape: Any = None, **options: Any) -> Any:
        residual = options.get("residual", others[-1] if len(others) == _places(name) else None)
        saved = (
            x.new_empty(_outer(x, normalized_shape), dtype=torch.float32) for _ in range(STATISTICS[name])
        )
        return x.new_empty(x.shape), x.new_empty((0,) if residual is None else x.shape), *saved

    return fake


def _places(name: str) -> int:
    """How many arguments come behind x, up to the residual."""
    return {"layer_norm": 4, "rms_norm": 3}[name]


def _statistics(name: str) -> Callable[..., Any]:
    """The function that the operator with statistics runs."""

    def run(x: Any, *, residual: Any = None, **options: Any) -> Any:
        added = residual is not None
        found = getattr(nn, name)(x, residual=residual, return_sum=added, return_stats=True, **options)
        return found if added else (found[0], x.new_empty((0,)), *found[1:])

    return run


def _gradients_of_norm(dy: Any, x: Any, *others: Any, **options: Any) -> Any:
    """Of rows and columns, without elements."""
    shape = x.shape[len(_outer(x, options.get("normalized_shape"))) :]
    return x.new_empty(x.shape), x.new_empty(shape)


def _gradients_of_layer_norm(dy: Any, x: Any, *others: Any, **options: Any) -> Any:
    dx, dweight = _gradients_of_norm(dy, x, **options)
    return dx, dweight, torch.empty_like(dweight)


def _like(x: Any, *others: Any, **options: Any) -> Any:
    return x.new_empty(x.shape)


NORMS: dict[str, tuple[str, Callable[..., Any]]] = {
    **{name: (f"{given} -> Tensor", _like) for name, given in _FORWARD.items()},
    **{
        f"{name}{WITH_STATS}": (
            f"{given} -> ({', '.join(['Tensor'] * (2 + STATISTICS[name]))})", _with_stats(name)
        )
        for name, given in _FORWARD.items()
    },
    "layer_norm_backward": (
        f"(Tensor dy, Tensor x, Tensor mean, Tensor inv_std, {_BEHIND}) -> (Tensor, Tensor, Tensor)",
        _gradients_of_layer_norm,
    ),
    "rms_norm_backward": (f"(Tensor dy, Tensor x, Tensor inv_rms, {_BEHIND}) -> (Tensor, Tensor)", _gradients_of_norm),
    "softmax": ("(Tensor x, Tensor? mask=None, *, int dim=-1, float scale=1.0) -> Tensor", _like),
    "softmax_backward": ("(Tensor dy, Tensor y, *, int dim=-1, float scale=1.0) -> Tensor", _like),
}  # fmt: skip
"""By name: PyTorch's schema, and what comes out, without elements."""

RUN = {f"{name}{WITH_STATS}": _statistics(name) for name in STATISTICS}
"""What runs operators that no function has the name of."""


def recorded_norm(name: str, given: Mapping[str, Any], wants_sum: bool) -> Any:
    """A call of a norm as PyTorch records it. Raises DeviceError for return_sum without a residual, and
    for a normalized_shape that is not made of whole numbers."""
    if wants_sum and given.get("residual") is None:
        raise DeviceError(NO_SUM)
    shape = given.get("normalized_shape")
    listed = {} if shape is None else {"normalized_shape": list(lengths_of(shape))}
    found = getattr(torch.ops.ckmlir, f"{name}{WITH_STATS}")(**{**given, **listed})
    return found[:2] if wants_sum else found[0]


def before_autograd(name: str) -> Callable[..., Any]:
    """What a norm is where PyTorch records operations: that with statistics, if any tensor requires gradients."""

    def call(*given: Any, **options: Any) -> Any:
        tensors = (one for one in (*given, *options.values()) if isinstance(one, torch.Tensor))
        if torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
            return getattr(torch.ops.ckmlir, f"{name}{WITH_STATS}")(*given, **options)[0]
        with torch._C._AutoDispatchBelowAutograd():
            return getattr(torch.ops.ckmlir, name)(*given, **options)

    return call


def _keep_norm(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    """The weight; what was normalised; the statistics; and which of bias and residual there are."""
    x, weight, *others = inputs
    _, total, *saved = output
    *columns, _, residual = others
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*saved)
    ctx.save_for_backward(weight, x if residual is None else total, *saved)
    ctx.options, ctx.beside = dict(keyword_only_inputs), (*columns, residual)


def _norm_backward(name: str) -> Callable[..., Any]:
    def backward(ctx: Any, dy: Any, dsum: Any, *others: Any) -> Any:
        weight, x, *saved = ctx.saved_tensors
        *columns, residual = ctx.beside
        dy = torch.zeros_like(x) if dy is None else dy.contiguous()
        dsum = None if dsum is None or residual is None else dsum.contiguous()
        gradients = getattr(torch.ops.ckmlir, f"{name}_backward")
        dx, *own = gradients(dy, x, *saved, weight, dsum, **ctx.options)
        given = (one if there is not None else None for one, there in zip(own, (weight, *columns), strict=True))
        return dx, *given, None, dx if residual is not None else None

    return backward


def _keep_softmax(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output)
    ctx.options = dict(keyword_only_inputs)


def _softmax_backward(ctx: Any, dy: Any) -> Any:
    return torch.ops.ckmlir.softmax_backward(dy.contiguous(), *ctx.saved_tensors, **ctx.options), None


GRADIENTS_OF_NORMS = {
    **{f"{name}{WITH_STATS}": (_keep_norm, _norm_backward(name)) for name in STATISTICS},
    "softmax": (_keep_softmax, _softmax_backward),
}
"""By name: what is kept of a call, and the gradients for what it was given."""
