"""Calls on PyTorch's tensors that require gradients, while PyTorch records them.

A function that has a gradient is `differentiable`: such a call runs as the operator `torch.ops.ckmlir` of its name. Any
other would give a result that no gradient flows through; it is refused (`refuse_gradients`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from ckmlir.runtime.device import DeviceError

P = ParamSpec("P")
R = TypeVar("R")


class NoGradient(DeviceError):
    """A gradient that no operator computes was asked for."""


def wants_gradient(array: object) -> bool:
    """Whether PyTorch records operations on an array."""
    torch: Any = sys.modules.get("torch")
    return (
        torch is not None
        and isinstance(array, torch.Tensor)
        and bool(array.requires_grad)
        and bool(torch.is_grad_enabled())
    )


def refuse_gradients(what: str, array: object) -> None:
    """Raise NoGradient where PyTorch wants the gradient of an array through a function that has none."""
    if wants_gradient(array):
        raise NoGradient(
            f"{what}: a tensor that requires gradients, which this function does not have; call it under "
            f"torch.no_grad(), or with {what}.detach()"
        )


def differentiable(function: Callable[P, R]) -> Callable[P, R]:
    """A function with a differentiable PyTorch operator: calls on tensors that require gradients go through it."""
    parameters = signature(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not any(map(wants_gradient, (*args, *kwargs.values()))):
            return function(*args, **kwargs)
        from ckmlir.nn.pytorch import recorded

        found: R = recorded(function, parameters.bind(*args, **kwargs))
        return found

    return call
