"""Gradients of norms and softmax as functions: beside PyTorch's, from NumPy's arrays and through tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from common import HOMES, Array, Callable, assert_close, normal

from ckmlir import nn
from ckmlir.runtime.device import DeviceError

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: its gradients are compared with")
F = torch.nn.functional


def wide(*arrays: Array) -> list[Any]:
    return [torch.from_numpy(one.astype(np.float64)).requires_grad_() for one in arrays]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("put", HOMES.values(), ids=HOMES)
@pytest.mark.parametrize("shape", [None, (5, 24)])
def test_functions_give_pytorchs_gradients(
    session: nn.Session, put: Callable[[Array], Any], shape: tuple[int, ...] | None
) -> None:
    """Of the statistics that the forward pass returned, with a gradient of the sum."""
    x, residual, dy, dsum = (normal(3, 5, 24, dtype="f32") for _ in range(4))
    row = shape or (24,)
    weight, bias = normal(*row, dtype="f32"), normal(*row, dtype="f32")
    leaves = wide(x, residual, weight, bias)
    total = leaves[0] + leaves[1]
    ((F.layer_norm(total, row, *leaves[2:]) * wide(dy)[0]).sum() + (total * wide(dsum)[0]).sum()).backward()
    options: dict[str, Any] = {"normalized_shape": shape}
    _, summed, *stats = nn.layer_norm(
        put(x), shape, put(weight), put(bias), residual=put(residual), return_sum=True, return_stats=True
    )
    assert [one.shape for one in stats] == [x.shape[: 3 - len(row)]] * 2
    found = nn.layer_norm_backward(put(dy), summed, *stats, put(weight), dsum=put(dsum), **options)
    for own, leaf in zip(found, (leaves[1], *leaves[2:]), strict=True):
        assert_close(own, leaf.grad.numpy(), "f32", factor=20)
    leaves = wide(x, weight)
    F.rms_norm(leaves[0], row, leaves[1], 1e-6).backward(wide(dy)[0])
    _, inv_rms = nn.rms_norm(put(x), shape, put(weight), return_stats=True)
    found = nn.rms_norm_backward(put(dy), put(x), inv_rms, put(weight), **options)
    for own, leaf in zip(found, leaves, strict=True):
        assert_close(own, leaf.grad.numpy(), "f32", factor=20)


@pytest.mark.parametrize("dim", [-1, 0])
def test_softmax_gives_pytorchs_gradient(session: nn.Session, dim: int) -> None:
    x, dy = normal(3, 5, 24, dtype="f32"), normal(3, 5, 24, dtype="f32")
    (leaf,) = wide(x)
    F.softmax(leaf * 0.5, dim).backward(wide(dy)[0])
    y = nn.softmax(x, dim, scale=0.5)
    assert_close(nn.softmax_backward(dy, y, dim, scale=0.5), leaf.grad.numpy(), "f32", factor=20)


def close(tensors: Any, leaves: Any) -> None:
    for own, leaf in zip(tensors, leaves, strict=True):
        most = float(leaf.grad.abs().max())
        assert torch.allclose(own.grad.double(), leaf.grad, rtol=1e-2, atol=1e-2 * most)


@pytest.mark.parametrize("wants_sum", [True, False])
def test_a_layer_with_a_residual(session: nn.Session, wants_sum: bool) -> None:
    """The gradient of the sum meets that of the norm, in x and in the residual."""
    tensors = [torch.randn(*shape).half().requires_grad_() for shape in ((2, 5, 32), (2, 5, 32), (32,), (32,))]
    leaves = [one.detach().double().requires_grad_() for one in tensors]
    x, residual, weight, bias = tensors
    found = nn.layer_norm(x, 32, weight, bias, residual=residual, return_sum=wants_sum)
    y, total = found if wants_sum else (found, None)
    ((y * y).sum() if total is None else (y * y + total * total).sum()).backward()
    exact = leaves[0] + leaves[1]
    y = F.layer_norm(exact, (32,), *leaves[2:])
    ((y * y + exact * exact).sum() if wants_sum else (y * y).sum()).backward()
    close(tensors, leaves)


def test_operators_keep_gradients_in_compiled_graphs(session: nn.Session) -> None:
    """With weights or without, and rows of several dimensions; a norm is one operator before autograd."""
    x, weight = torch.randn(2, 5, 32).half().requires_grad_(), torch.randn(5, 32).half().requires_grad_()
    leaves = [one.detach().double().requires_grad_() for one in (x, weight)]
    ops, graphs = torch.ops.ckmlir, []

    def block(x: Any, weight: Any) -> Any:
        return ops.softmax(ops.rms_norm(ops.layer_norm(x), weight, normalized_shape=[5, 32]), scale=0.5).square().sum()

    def keep(graph: Any, example: Any) -> Any:
        graphs.append({str(node.target) for node in graph.graph.nodes})
        return graph

    torch.compile(block, backend=keep, fullgraph=True)(x, weight).backward()
    y = F.rms_norm(F.layer_norm(leaves[0], (32,)), (5, 32), leaves[1], 1e-6)
    F.softmax(y * 0.5, -1).square().sum().backward()
    close((x, weight), leaves)
    assert {"ckmlir.softmax", "ckmlir.rms_norm", "ckmlir.layer_norm"} <= graphs[0]


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_results_are_packed_however_rows_lie(session: nn.Session, name: str) -> None:
    """Also for PyTorch, which plans with their strides before they are there."""
    x = torch.randn(5, 2, 32).half().transpose(0, 1)
    statistics = {"layer_norm": 2, "rms_norm": 1}[name]
    saved = [torch.rand(2, 5) for _ in range(statistics)]
    for operator, given in ((f"{name}_with_stats", (x,)), (f"{name}_backward", (x, x, *saved))):
        torch.library.opcheck(getattr(torch.ops.ckmlir, operator).default, given, test_utils=("test_faketensor",))


def test_a_shape_of_any_library(session: nn.Session) -> None:
    x = torch.randn(5, 32, requires_grad=True)
    for shape in (np.int64(32), np.array([32]), torch.Size([32])):
        assert torch.equal(nn.layer_norm(x, normalized_shape=shape), nn.layer_norm(x))


def test_without_gradients_no_statistics_are_made(session: nn.Session) -> None:
    x = torch.randn(5, 32).half().requires_grad_()
    with torch.no_grad():
        assert not nn.layer_norm(x).requires_grad and not torch.ops.ckmlir.layer_norm(x).requires_grad
    assert nn.layer_norm(x).grad_fn is not None and torch.ops.ckmlir.layer_norm(x).grad_fn is not None


def test_what_is_refused(session: nn.Session) -> None:
    x, one = normal(5, 32), np.ones(5, np.float32)
    tensor = torch.ones(5, 32, requires_grad=True)
    for call, words in (
        (lambda: nn.layer_norm_backward(x[:3], x, one, one), "dy: "),
        (lambda: nn.layer_norm_backward(x, x, one[:4], one), "mean: "),
        (lambda: nn.rms_norm_backward(x, x, one, one), "weight: "),
        (lambda: nn.rms_norm_backward(x, x, one, dsum=x[:, :3]), "dsum: "),
        (lambda: nn.softmax_backward(x.astype(np.float32), x), "dy: "),
        (lambda: nn.softmax_backward(x, x, 2), "dim=2: "),
        (lambda: nn.rms_norm(tensor, return_sum=True), "return_sum: found without"),
        (lambda: nn.rms_norm(tensor, eps="small"), "eps=small: expected a finite number"),
        (lambda: nn.layer_norm(tensor, normalized_shape=3.5), "normalized_shape=3.5: expected whole numbers"),
        (lambda: nn.layer_norm(tensor, 16), "normalized_shape=(16,): x has shape (5, 32)"),
        (lambda: nn.softmax(tensor, 1.5), "dim=1.5: expected one of 2 dimensions, from -2 to 1"),
        (lambda: nn.softmax(tensor, scale=None), "scale=None: expected a finite number"),
    ):
        with pytest.raises(DeviceError) as caught:
            call()
        assert str(caught.value).startswith(words), caught.value
