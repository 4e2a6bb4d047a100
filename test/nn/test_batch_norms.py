"""Batch normalisation as functions: beside PyTorch's, statistics that move in place, gradients, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from common import HOMES, WITH_TENSORS, Array, Callable, assert_close, exact, normal

from ckmlir import nn
from ckmlir.nn.gradients import NoGradient
from ckmlir.ops.request import RequestError
from ckmlir.runtime.device import DeviceError

N, C, H, W = 3, 10, 5, 7


def expected(x: Array, weight: Array, bias: Array, eps: float = 1e-5) -> tuple[Array, Array, Array]:
    """The result and statistics, of (n, c, h, w)."""
    wide = exact(x)
    mean, variance = wide.mean(axis=(0, 2, 3)), wide.var(axis=(0, 2, 3))
    inv_std = 1 / np.sqrt(variance + eps)
    each = (slice(None), None, None)
    return (wide - mean[each]) * (inv_std * exact(weight))[each] + exact(bias)[each], mean, inv_std


def last(x: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


@pytest.mark.parametrize("put", WITH_TENSORS.values(), ids=WITH_TENSORS)
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.one_in(2)
def test_a_step_of_training(session: nn.Session, put: Callable[[Array], Any], channels_last: bool) -> None:
    x, residual = normal(N, C, H, W), normal(N, C, H, W)
    weight, bias = normal(C, dtype="f32"), normal(C, dtype="f32")
    y, mean, inv_std = expected(x, weight, bias)
    wanted = np.maximum(y + exact(residual), 0)
    running = put(np.full(C, 2, np.float32)), put(np.full(C, 3, np.float32))
    lies = last if channels_last else np.asarray
    options: dict[str, Any] = {"training": True, "channels_last": channels_last, "momentum": 0.25}
    found, *stats = nn.batch_norm(
        put(lies(x)), *running, put(weight), put(bias), activation="relu", residual=put(lies(residual)),
        return_stats=True, **options,
    )  # fmt: skip
    assert_close(found, lies(wanted))
    for one, statistic in zip(stats, (mean, inv_std), strict=True):
        assert_close(one, statistic, "f32")
    count = N * H * W
    unbiased = exact(x).var(axis=(0, 2, 3)) * count / (count - 1)
    for moved, start, statistic in zip(running, (2, 3), (mean, unbiased), strict=True):
        assert_close(moved, 0.75 * start + 0.25 * statistic, "f32")


@pytest.mark.parametrize("put", HOMES.values(), ids=HOMES)
def test_by_running_statistics(session: nn.Session, put: Callable[[Array], Any]) -> None:
    x, mean, variance = normal(N, C, H, W), normal(C, dtype="f32"), normal(C, dtype="f32") ** 2
    found = nn.batch_norm(put(x), put(mean), put(variance))
    each = (slice(None), None, None)
    assert_close(found, (exact(x) - mean[each]) / np.sqrt(exact(variance)[each] + 1e-5), factor=4)


@pytest.mark.parametrize("relu", [False, True])
def test_gradients_are_pytorchs(session: nn.Session, relu: bool) -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: its gradients are compared with")
    x, dy = normal(N, C, H, W, dtype="f32"), normal(N, C, H, W, dtype="f32")
    weight, bias = normal(C, dtype="f32"), normal(C, dtype="f32")
    leaves = [torch.from_numpy(one.copy()).double().requires_grad_() for one in (x, weight, bias)]
    y = torch.nn.functional.batch_norm(leaves[0], None, None, *leaves[1:], training=True)
    (torch.relu(y) if relu else y).backward(torch.from_numpy(dy).double())
    activation = "relu" if relu else None
    out, mean, inv_std = nn.batch_norm(
        x, None, None, weight, bias, training=True, activation=activation, return_stats=True
    )  # fmt: skip
    found = nn.batch_norm_backward(dy, x, mean, inv_std, weight, y=out if relu else None)
    for one, leaf in zip(found, leaves, strict=True):
        assert_close(one, leaf.grad.numpy(), "f32", 8)
    other = nn.batch_norm_backward(
        last(dy), last(x), mean, inv_std, weight, y=last(out) if relu else None, channels_last=True
    )  # fmt: skip
    assert_close(other[0], last(leaves[0].grad.numpy()), "f32", 8)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("relu", [False, True])
def test_gradients_by_running_statistics_are_pytorchs(session: nn.Session, relu: bool) -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: its gradients are compared with")
    x, dy, weight = normal(N, C, H, W, dtype="f32"), normal(N, C, H, W, dtype="f32"), normal(C, dtype="f32")
    mean, variance = normal(C, dtype="f32"), normal(C, dtype="f32") ** 2 + 0.5
    leaves = [torch.from_numpy(one).double().requires_grad_() for one in (x, weight)]
    statistics = [torch.from_numpy(one).double() for one in (mean, variance)]
    bias = torch.zeros(C, dtype=torch.float64, requires_grad=True)
    y = torch.nn.functional.batch_norm(leaves[0], *statistics, leaves[1], bias)
    (torch.relu(y) if relu else y).backward(torch.from_numpy(dy).double())
    out = nn.batch_norm(x, mean, variance, weight, activation="relu") if relu else None
    inv_std = (1 / np.sqrt(variance + 1e-5)).astype(np.float32)
    found = nn.batch_norm_backward(dy, x, mean, inv_std, weight, y=out, training=False)
    for one, leaf in zip(found, (*leaves, bias), strict=True):
        assert_close(one, leaf.grad.numpy(), "f32", 8)


def test_rows_and_places_written_over(session: nn.Session) -> None:
    """Rows of channels, a part of wider ones; the result takes their place."""
    wide = normal(20, 24)
    y, *_ = expected(wide[:, :C].reshape(20, C, 1, 1), np.ones(C), np.zeros(C))
    array = nn.asarray(wide)
    view = array[:, :C]
    assert nn.batch_norm(view, None, None, training=True, out=view) is view
    assert_close(array, np.concatenate([y.reshape(20, C), exact(wide)[:, C:]], axis=1))


def test_what_is_refused(session: nn.Session) -> None:
    x, ones = normal(N, C, H, W), np.ones(C, np.float32)
    with pytest.raises(DeviceError, match="running_mean: expected an array"):
        nn.batch_norm(x, None, None)
    with pytest.raises(DeviceError, match="running_var: expected an array, or None for both"):
        nn.batch_norm(x, ones, None, training=True)
    with pytest.raises(DeviceError, match="running_mean: elements are f16; expected f32"):
        nn.batch_norm(x, ones.astype(np.float16), ones)
    with pytest.raises(DeviceError, match=r"weight: shape \(9,\); expected \(10,\)"):
        nn.batch_norm(x, ones, ones, ones[:9])
    with pytest.raises(DeviceError, match="bias: elements are f16; expected f32"):
        nn.batch_norm(x, ones, ones, ones, ones.astype(np.float16))
    with pytest.raises(DeviceError, match=r"x: shape \(5,\); expected images with channels"):
        nn.batch_norm(normal(5), ones, ones)
    with pytest.raises(DeviceError, match="return_stats: the statistics are those that were given"):
        nn.batch_norm(x, ones, ones, return_stats=True)
    with pytest.raises(RequestError, match="running=1: a channel of n hw=1 elements has no unbiased variance"):
        nn.batch_norm(x[:1, :, :1, :1].copy(), ones, ones.copy(), training=True)
    with pytest.raises(DeviceError, match="activation=gelu: expected one of none, relu"):
        nn.batch_norm(x, ones, ones, activation="gelu")


@pytest.mark.parametrize("training", [True, False])
def test_pytorch_records_it(session: nn.Session, training: bool) -> None:
    """With a residual and a relu: gradients of all that it is given, and running statistics that move in place."""
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: its gradients are compared with")
    given = [torch.from_numpy(normal(*shape, dtype="f32")) for shape in ((N, C, H, W), (C,), (C,), (N, C, H, W))]
    leaves = [one.clone().double().requires_grad_() for one in given]
    running = [torch.zeros(C), torch.ones(C)]
    others = [one.double() for one in running]
    x, weight, bias, residual = (one.requires_grad_() for one in given)
    options: dict[str, Any] = {"activation": "relu", "residual": residual}
    y = nn.batch_norm(x, *running, weight, bias, training, **options)
    exact = torch.nn.functional.batch_norm(leaves[0], *others, *leaves[1:3], training=training)
    wanted = torch.relu(exact + leaves[3])
    (y * y).sum().backward()
    (wanted * wanted).sum().backward()
    for one, leaf in zip(given, leaves, strict=True):
        assert_close(one.grad.numpy(), leaf.grad.numpy(), "f32", 32)
    for one, other in zip(running, others, strict=True):
        assert_close(one.numpy(), other.numpy(), "f32", 4)


def test_what_pytorch_has_no_gradient_of(session: nn.Session) -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: its gradients are asked for")
    x, ones = torch.randn(N, C, H, requires_grad=True), torch.ones(C)
    with pytest.raises(NoGradient, match=r"batch_norm has no gradient for running_mean; give running_mean.detach\(\)"):
        nn.batch_norm(x, ones.clone().requires_grad_(), ones)
    with pytest.raises(DeviceError, match="return_stats: the statistics are those that were given"):
        nn.batch_norm(x, ones, ones, return_stats=True)
    found, mean, _ = nn.batch_norm(x, None, None, training=True, return_stats=True)
    assert found.requires_grad and not mean.requires_grad


def test_a_bias_alone_has_a_gradient_of_its_own_type(session: nn.Session) -> None:
    """In f32 beside images of f16: a sum that f16 would round."""
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: its gradients are asked for")
    x, bias = torch.from_numpy(normal(N, C, 33)), torch.zeros(C, requires_grad=True)
    dy = torch.from_numpy(normal(N, C, 33))
    nn.batch_norm(x, None, None, None, bias, training=True).backward(dy)
    assert torch.allclose(bias.grad, dy.double().sum((0, 2)).float(), rtol=1e-6, atol=0)
