"""Attention as operators of PyTorch, and its gradients: schemas, shapes of results.

Gradients of sinks and of a bias come from operators of their own. These always return the same number of tensors; a
gradient that was not asked for is an empty one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from typing import Any

from ckmlir import nn
from ckmlir.nn.gradients import NoGradient

torch: Any = importlib.import_module("torch")  # typed alike whether it is installed or not

_WINDOW = "bool causal=False, int[2] window=[-1, -1], float? scale=None"
_SCORES = f"{_WINDOW}, float softcap=0.0, float dropout_p=0.0, SymInt? seed=None, bool deterministic=False"
_DROPPED = f"{_WINDOW}, float dropout_p=0.0, SymInt? seed=None, bool deterministic=False"
_RESULTS = "Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse"
_STARTS = "Tensor cu_seqlens_q, Tensor? cu_seqlens_k=None, Tensor? alibi_slopes=None"
_LAYOUT = 'str layout="bshd"'
WITH_PARTS = "_backward_with_parts"
BESIDE = {
    "attention": ("alibi_slopes", "sinks", "bias"),
    "attention_varlen": ("cu_seqlens_q", "cu_seqlens_k", "alibi_slopes", "sinks"),
}
"""Tensors behind q, k and v."""


def _attention(q: Any, k: Any, v: Any, *beside: Any, **options: Any) -> tuple[Any, Any]:
    heads, queries = (q.shape[options.get("layout", "bshd").index(dim)] for dim in "hs")
    lse = q.new_empty((q.shape[0], heads, queries), dtype=torch.float32)
    return q.new_empty((*q.shape[:3], v.shape[3]), dtype=_result_type(q)), lse


def _result_type(q: Any) -> Any:
    """That of q, of 8 bits bf16."""
    return torch.bfloat16 if q.element_size() == 1 else q.dtype


def _varlen(q: Any, k: Any, v: Any, *beside: Any, **options: Any) -> tuple[Any, Any]:
    lse = q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)
    return q.new_empty((*q.shape[:2], v.shape[2]), dtype=_result_type(q)), lse


def _gradients(dout: Any, q: Any, k: Any, v: Any, *beside: Any, **options: Any) -> tuple[Any, ...]:
    return tuple(one.new_empty(one.shape) for one in (q, k, v))


def _all_gradients(
    dout: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, slopes: Any = None, sinks: Any = None, bias: Any = None,
    *, return_dbias: bool = False, **options: Any,
) -> tuple[Any, ...]:  # fmt: skip
    dsinks = q.new_empty((0,)) if sinks is None else torch.empty_like(sinks)
    return *_gradients(dout, q, k, v), dsinks, torch.empty_like(bias) if return_dbias else q.new_empty((0,))


def _all_gradients_of_sequences(
    dout: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, starts_q: Any, starts_k: Any, slopes: Any, sinks: Any,
    **options: Any,
) -> tuple[Any, ...]:  # fmt: skip
    return *_gradients(dout, q, k, v), torch.empty_like(sinks)


ATTENTIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "attention": (
        f"(Tensor q, Tensor k, Tensor v, Tensor? alibi_slopes=None, Tensor? sinks=None, Tensor? bias=None, *, "
        f"{_SCORES}, {_LAYOUT}) -> (Tensor, Tensor)",
        _attention,
    ),
    "attention_varlen": (
        f"(Tensor q, Tensor k, Tensor v, {_STARTS}, Tensor? sinks=None, *, {_SCORES}) -> (Tensor, Tensor)",
        _varlen,
    ),
    "attention_backward": (
        f"({_RESULTS}, Tensor? alibi_slopes=None, *, {_DROPPED}, {_LAYOUT}) -> (Tensor, Tensor, Tensor)",
        _gradients,
    ),
    f"attention{WITH_PARTS}": (
        f"({_RESULTS}, Tensor? alibi_slopes=None, Tensor? sinks=None, Tensor? bias=None, *, {_DROPPED}, {_LAYOUT}, "
        "bool return_dbias=False) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
        _all_gradients,
    ),
    "attention_varlen_backward": (f"({_RESULTS}, {_STARTS}, *, {_DROPPED}) -> (Tensor, Tensor, Tensor)", _gradients),
    f"attention_varlen{WITH_PARTS}": (
        f"({_RESULTS}, Tensor cu_seqlens_q, Tensor? cu_seqlens_k, Tensor? alibi_slopes, Tensor sinks, *, {_DROPPED}) "
        "-> (Tensor, Tensor, Tensor, Tensor)",
        _all_gradients_of_sequences,
    ),
    "hstu_attention": (
        "(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens, Tensor? num_targets=None, *, bool causal=True, "
        "int contextual=0, int window=0, int full=0, float? scale=None, float? attn_scale=None) -> Tensor",
        lambda *given, **options: _varlen(*given)[0],
    ),
    "hstu_attention_backward": (
        "(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor cu_seqlens, Tensor? num_targets=None, *, "
        "bool causal=True, int contextual=0, int window=0, int full=0, float? scale=None, float? attn_scale=None, "
        "bool deterministic=False) -> (Tensor, Tensor, Tensor)",
        _gradients,
    ),
}
"""By name: PyTorch's schema, and what comes out, without elements."""


def _run_with_parts(dout: Any, *given: Any, sinks: Any = None, return_dbias: bool = False, **options: Any) -> Any:
    """`attention_backward`, with empty tensors for the gradients that it does not return."""
    options |= {"sinks": sinks, "return_dbias": return_dbias}
    dq, dk, dv, *others = nn.attention_backward(dout, *given, **options)
    dsinks = dout.new_empty((0,)) if sinks is None else others.pop(0)
    return dq, dk, dv, dsinks, others[0] if others else dout.new_empty((0,))


RUN_PARTS = {f"attention{WITH_PARTS}": _run_with_parts, f"attention_varlen{WITH_PARTS}": nn.attention_varlen_backward}
"""What runs operators that no function has the name of."""


def _keep_attention(name: str, ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    beside = dict(zip(BESIDE[name], inputs[3:], strict=True))
    ctx.name, ctx.parts = name, beside.get("sinks") is not None or beside.get("bias") is not None
    ctx.save_for_backward(*inputs[:3], *output, *beside.values())
    ctx.options = {what: value for what, value in keyword_only_inputs.items() if what != "softcap"}
    ctx.mark_non_differentiable(output[1])  # the logarithms
    if keyword_only_inputs["softcap"]:
        raise NoGradient(f"{name} has no gradient with softcap")
    slopes = beside["alibi_slopes"]
    if slopes is not None and slopes.requires_grad:
        raise NoGradient(f"{name} has no gradient for alibi_slopes; give alibi_slopes.detach()")


def _attention_backward(ctx: Any, dout: Any, dlse: Any) -> Any:
    q, k, v, out, lse, *others = ctx.saved_tensors
    beside = dict(zip(BESIDE[ctx.name], others, strict=True))
    always = ctx.options["deterministic"] or torch.are_deterministic_algorithms_enabled()
    options = ctx.options | {"deterministic": always}
    if not ctx.parts:
        plain = (one for name, one in beside.items() if name not in ("sinks", "bias"))
        backward = getattr(torch.ops.ckmlir, f"{ctx.name}_backward")
        return *backward(dout.contiguous(), q, k, v, out, lse, *plain, **options), *(None for _ in others)
    if "bias" in beside:
        options["return_dbias"] = beside["bias"] is not None and ctx.needs_input_grad[-1]
    backward = getattr(torch.ops.ckmlir, f"{ctx.name}{WITH_PARTS}")
    dq, dk, dv, *more = backward(dout.contiguous(), q, k, v, out, lse, *others, **options)
    found = dict(zip(("sinks", "bias"), more))
    wanted = zip_longest(beside, ctx.needs_input_grad[3:], fillvalue=False)  # none behind the last given
    return dq, dk, dv, *(found[name] if name in found and needed else None for name, needed in wanted)


def _keep_places(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)
    ctx.options = dict(keyword_only_inputs)


def _hstu_attention_backward(ctx: Any, dout: Any) -> Any:
    always = torch.are_deterministic_algorithms_enabled()
    backward = torch.ops.ckmlir.hstu_attention_backward
    gradients = backward(dout.contiguous(), *ctx.saved_tensors, **ctx.options, deterministic=always)
    return *gradients, None, None


GRADIENTS_OF_ATTENTION: dict[str, tuple[Callable[..., None], Callable[..., Any]]] = {
    **{name: (partial(_keep_attention, name), _attention_backward) for name in BESIDE},
    "hstu_attention": (_keep_places, _hstu_attention_backward),
}
"""By name: what is kept of a call, and what comes back of the gradient of its result."""
