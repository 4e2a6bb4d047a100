"""Batch normalisation as an operator of PyTorch, and its gradients.

`batch_norm` moves running statistics in place, through which PyTorch records nothing. So a call on tensors that require
gradients becomes one of `batch_norm_with_stats`, which returns the statistics that it normalised by, and running ones
as they are moved, without elements where none are; the call then copies these.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from ckmlir import nn
from ckmlir.nn.batch_norms import NO_STATS
from ckmlir.nn.gradients import NoGradient
from ckmlir.runtime.device import DeviceError

torch: Any = importlib.import_module("torch")  # typed alike whether it is installed or not

NAME = "batch_norm"
WITH_STATS = f"{NAME}_with_stats"
_RUNNING = ("running_mean", "running_var")


def _fake(x: Any, running_mean: Any = None, *others: Any, **options: Any) -> Any:
    """The result, both statistics and both running ones, without elements."""
    channels = x.shape[-1 if options.get("channels_last") or x.ndim == 2 else 1]
    training = others[3] if len(others) > 3 else options.get("training", False)
    moved = channels if training and running_mean is not None else 0
    statistics = (x.new_empty((length,), dtype=torch.float32) for length in (channels, channels, moved, moved))
    return x.new_empty(x.shape), *statistics


def _fake_gradients(dy: Any, x: Any, mean: Any, inv_std: Any, weight: Any = None, *others: Any, **options: Any) -> Any:
    of_channels = (x if weight is None else weight).dtype
    return x.new_empty(x.shape), *(x.new_empty(mean.shape, dtype=of_channels) for _ in range(2))


BATCH_NORMS: dict[str, tuple[str, Callable[..., Any]]] = {
    WITH_STATS: (
        "(Tensor x, Tensor? running_mean=None, Tensor? running_var=None, Tensor? weight=None, Tensor? bias=None, "
        "bool training=False, float momentum=0.1, float eps=1e-05, Tensor? residual=None, *, str? activation=None, "
        "bool channels_last=False) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
        _fake,
    ),
    f"{NAME}_backward": (
        "(Tensor dy, Tensor x, Tensor mean, Tensor inv_std, Tensor? weight=None, Tensor? y=None, *, "
        "bool training=True, bool channels_last=False) -> (Tensor, Tensor, Tensor)",
        _fake_gradients,
    ),
}
"""By name: PyTorch's schema, and what comes out, without elements."""


def run_with_stats(
    x: Any, running_mean: Any = None, running_var: Any = None, training: bool = False, eps: float = 1e-5, **options: Any
) -> Any:
    """What the operator runs; nothing of what it is given changes."""
    mean, variance = map(_copy, (running_mean, running_var))
    found = nn.batch_norm(x, mean, variance, training=training, eps=eps, return_stats=training, **options)
    nothing = x.new_empty((0,), dtype=torch.float32)
    if not training:
        return found, mean, torch.rsqrt(variance + eps), nothing, nothing.clone()
    return *found, *((nothing, nothing.clone()) if mean is None else (mean, variance))


def _copy(array: Any) -> Any:
    return None if array is None else array.clone()


def recorded_batch_norm(given: Mapping[str, Any], wants_stats: bool) -> Any:
    """A call of `batch_norm` as PyTorch records it. Raises DeviceError for statistics of no training."""
    training = given.get("training", False)
    if wants_stats and not training:
        raise DeviceError(NO_STATS)
    y, mean, inv_std, *moved = getattr(torch.ops.ckmlir, WITH_STATS)(**given)
    running = [given[name] for name in _RUNNING if training and given.get(name) is not None]
    with torch.no_grad():
        for old, new in zip(running, moved, strict=False):
            old.copy_(new)
    return (y, mean, inv_std) if wants_stats else y


def _keep(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    x, *running, weight, bias, training, _, _, residual = inputs
    y, *statistics = output
    for name, one in zip(_RUNNING, running, strict=True):
        if one is not None and one.requires_grad:
            raise NoGradient(f"{NAME} has no gradient for {name}; give {name}.detach()")
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*statistics)
    ctx.save_for_backward(x, *statistics[:2], weight, y if keyword_only_inputs["activation"] else None)
    ctx.options = {"training": training, "channels_last": keyword_only_inputs["channels_last"]}
    ctx.beside = bias, residual


def _backward(ctx: Any, dy: Any, *others: Any) -> Any:
    """Of x, of both numbers of channels, and of the residual, to which the result's gradient comes where a relu lets it
    through."""
    if dy is None:
        return (None,) * 9
    x, mean, inv_std, weight, y = ctx.saved_tensors
    bias, residual = ctx.beside
    like = torch.ones_like(bias) if weight is None and bias is not None else weight  # as gradients of channels are
    dx, dweight, dbias = torch.ops.ckmlir.batch_norm_backward(
        dy.contiguous(), x, mean, inv_std, like, y, **ctx.options
    )
    through = dy if y is None else torch.where(y > 0, dy, 0)
    given = (None if there is None else one for one, there in ((dweight, weight), (dbias, bias)))
    return dx, None, None, *given, None, None, None, None if residual is None else through


GRADIENTS_OF_BATCH_NORM = {WITH_STATS: (_keep, _backward)}
"""By name: what is kept of a call, and the gradients for what it was given."""
