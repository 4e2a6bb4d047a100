"""Gradients of PyTorch's operators: what is kept of a call, and what comes back of the gradient of its result."""

import importlib
from collections.abc import Callable
from typing import Any

from ckmlir.nn.einsum import read_equation
from ckmlir.nn.gradients import NoGradient
from ckmlir.nn.pytorch_attention import GRADIENTS_OF_ATTENTION
from ckmlir.nn.pytorch_batch_norm import GRADIENTS_OF_BATCH_NORM
from ckmlir.nn.pytorch_convolutions import GRADIENTS_OF_CONVOLUTIONS
from ckmlir.nn.pytorch_norms import GRADIENTS_OF_NORMS

torch: Any = importlib.import_module("torch")  # typed alike whether it is installed or not


def _keep_matrices(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _matmul_backward(ctx: Any, dout: Any) -> Any:
    a, b = ctx.saved_tensors
    left, right = (a[None] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
    shape = *dout.shape[: max(a.ndim, b.ndim) - 2], left.shape[-2], right.shape[-1]
    dout = dout.reshape(shape).contiguous()
    da = torch.ops.ckmlir.matmul(dout, right.transpose(-1, -2)) if ctx.needs_input_grad[0] else None
    db = torch.ops.ckmlir.matmul(left.transpose(-1, -2), dout) if ctx.needs_input_grad[1] else None
    return (
        da if da is None else da.sum_to_size(left.shape).reshape(a.shape),
        db if db is None else db.sum_to_size(right.shape).reshape(b.shape),
    )


def _keep_linear(ctx: Any, inputs: Any, output: Any) -> None:
    if inputs[3] is not None:
        raise NoGradient(f"linear has no gradient with activation={inputs[3]}; apply it behind the layer")
    ctx.save_for_backward(*inputs[:2])
    ctx.beside = [one is not None for one in (inputs[2], inputs[4])]


def _linear_backward(ctx: Any, dout: Any) -> Any:
    x, weight = ctx.saved_tensors
    needed = ctx.needs_input_grad
    rows = dout.reshape(-1, dout.shape[-1]).contiguous()
    dx = torch.ops.ckmlir.matmul(rows, weight).reshape(x.shape) if needed[0] else None
    dweight = torch.ops.ckmlir.matmul(rows.t(), x.reshape(-1, x.shape[-1]).contiguous()) if needed[1] else None
    bias, residual = ctx.beside
    return dx, dweight, rows.sum(0) if bias else None, None, dout if residual else None


def _keep_einsum(ctx: Any, inputs: Any, output: Any) -> None:
    equation, *operands = inputs
    ctx.letters = read_equation(equation)
    ctx.save_for_backward(*operands)


def _einsum_backward(ctx: Any, dout: Any) -> Any:
    (a, b), letters, needed = ctx.saved_tensors, ctx.letters, ctx.needs_input_grad
    sums, dy = torch.ops.ckmlir.einsum, dout.contiguous()
    da = sums(f"{letters.result},{letters.b}->{letters.a}", dy, b) if needed[1] else None
    db = sums(f"{letters.result},{letters.a}->{letters.b}", dy, a) if needed[2] else None
    return None, da, db


def _keep_places(ctx: Any, inputs: Any, output: Any) -> None:
    ids, weight = inputs
    ctx.save_for_backward(ids)
    ctx.rows = weight.shape[0]


def _embedding_backward(ctx: Any, dout: Any) -> Any:
    (ids,) = ctx.saved_tensors
    if torch.are_deterministic_algorithms_enabled():
        return None, _added_in_order(dout.reshape(-1, dout.shape[-1]), ids.reshape(-1), ctx.rows)
    return None, torch.ops.ckmlir.scatter_rows(dout.contiguous(), ids, ctx.rows)


def _added_in_order(x: Any, ids: Any, rows: int) -> Any:
    """What `scatter_rows` adds up by atomics, in an order that depends on the numbers of rows alone."""
    order = torch.argsort(ids, stable=True)
    starts = torch.searchsorted(ids[order], torch.arange(rows + 1, dtype=ids.dtype, device=ids.device))
    return torch.ops.ckmlir.segment_sum(x[order], starts.to(torch.int32))


def _keep_added(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    _, ids, _ = inputs
    if keyword_only_inputs["op"] != "add":
        raise NoGradient(f"scatter_rows has no gradient with op={keyword_only_inputs['op']}; expected add")
    ctx.save_for_backward(ids)


def _scatter_rows_backward(ctx: Any, dout: Any) -> Any:
    return torch.ops.ckmlir.embedding(*ctx.saved_tensors, dout.contiguous()), None, None


def without_gradient(name: str) -> tuple[Callable[..., None], Callable[..., Any]]:
    """Of an operator that tensors which require gradients are refused by; without this PyTorch would go on and warn."""
    what, backward, _ = name.partition("_backward")

    def refuse(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any = None) -> None:
        if backward:
            raise NoGradient(f"{what} has no second gradient; expected a first one without create_graph")
        raise NoGradient(f"{name}: tensors require gradients, which it does not have; call it under torch.no_grad()")

    return refuse, lambda ctx, *given: None


GRADIENTS: dict[str, tuple[Callable[..., None], Callable[..., Any]]] = {
    **GRADIENTS_OF_ATTENTION,
    "matmul": (_keep_matrices, _matmul_backward),
    "linear": (_keep_linear, _linear_backward),
    "einsum": (_keep_einsum, _einsum_backward),
    "embedding": (_keep_places, _embedding_backward),
    "scatter_rows": (_keep_added, _scatter_rows_backward),
    **GRADIENTS_OF_CONVOLUTIONS,
    **GRADIENTS_OF_NORMS,
    **GRADIENTS_OF_BATCH_NORM,
}
"""By name: what is kept of a call, and the gradients for what it was given."""
