"""What PyTorch has to know of an operator before it runs: its schema, and the shapes and types of what comes out."""

import importlib
from collections.abc import Callable
from typing import Any

from ckmlir.nn.convolutions import each
from ckmlir.nn.einsum import read_equation
from ckmlir.nn.transposed_convolutions import transposed_shape

torch: Any = importlib.import_module("torch")  # typed alike whether it is installed or not

PRODUCTS = {torch.float8_e4m3fn: torch.float16, torch.float8_e4m3fnuz: torch.float16, torch.float8_e5m2: torch.float16,
            torch.float8_e5m2fnuz: torch.float16, torch.int8: torch.int32}  # fmt: skip
"""Elements whose products are of another type."""
RANKS = (1, 2, 3)
"""Spatial dimensions of convolutions."""


def _like(x: Any, *shape: int, dtype: Any = None) -> Any:
    return x.new_empty(shape, dtype=dtype or x.dtype)


def _product(a: Any, b: Any) -> Any:
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return _like(a, *batch, a.shape[-2], b.shape[-1], dtype=PRODUCTS.get(a.dtype))


def _attention(q: Any, k: Any, v: Any, slopes: Any = None, **options: Any) -> tuple[Any, Any]:
    heads, queries = (q.shape[options.get("layout", "bshd").index(dim)] for dim in "hs")
    return _like(q, *q.shape[:3], v.shape[3]), _like(q, q.shape[0], heads, queries, dtype=torch.float32)


def _varlen(q: Any, k: Any, v: Any, *rest: Any, **options: Any) -> tuple[Any, Any]:
    return _like(q, *q.shape[:2], v.shape[2]), _like(q, q.shape[1], q.shape[0], dtype=torch.float32)


def _convolved(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    given = ("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1)
    stride, padding, dilation = (each(what, one, x.ndim - 2, least) for what, one, least in given)
    sizes = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    places = [(size + 2 * pad - apart * (taps - 1) - 1) // step + 1 for size, taps, step, pad, apart in sizes]
    return _like(x, x.shape[0], weight.shape[0], *places)


def _transposed(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1,
    dilation: Any = 1,
) -> Any:  # fmt: skip
    how = stride, padding, dilation, output_padding
    return _like(x, *transposed_shape(x.shape, weight.shape, how, groups))


def _summed(equation: str, a: Any, b: Any) -> Any:
    letters = read_equation(equation)
    lengths = {**dict(zip(letters.a, a.shape, strict=True)), **dict(zip(letters.b, b.shape, strict=True))}
    groups = letters.groups()
    written = groups["g"] + groups["m"] + groups["n"]  # the order in memory
    found = _like(a, *(lengths[one] for one in written), dtype=PRODUCTS.get(a.dtype))
    return found.permute([written.index(one) for one in letters.result])


def _largest(x: Any, k: int, dim: int = -1, **options: Any) -> tuple[Any, Any]:
    shape = [k if place == dim % x.ndim else length for place, length in enumerate(x.shape)]
    return _like(x, *shape, dtype=torch.float32), _like(x, *shape, dtype=torch.int32)


SCHEMAS: dict[str, tuple[str, Callable[..., Any]]] = {
    "matmul": ("(Tensor a, Tensor b) -> Tensor", _product),
    "linear": (
        "(Tensor x, Tensor weight, Tensor? bias=None, str? activation=None, Tensor? residual=None) -> Tensor",
        lambda x, weight, *rest, **options: _like(x, *x.shape[:-1], weight.shape[0]),
    ),
    "swiglu": (
        "(Tensor x, Tensor gate, Tensor up) -> Tensor",
        lambda x, gate, up: _like(x, *x.shape[:-1], gate.shape[0]),
    ),
    "grouped_matmul": (
        "(Tensor a, Tensor b, int[] offs) -> Tensor",
        lambda a, b, offs: _like(a, a.shape[0], b.shape[2], dtype=PRODUCTS.get(a.dtype)),
    ),
    "attention": (
        "(Tensor q, Tensor k, Tensor v, Tensor? alibi_slopes=None, *, bool causal=False, int[2] window=[-1, -1], "
        "float? scale=None, float softcap=0.0, float dropout_p=0.0, SymInt? seed=None, bool deterministic=False, "
        'str layout="bshd") -> (Tensor, Tensor)',
        _attention,
    ),
    "attention_varlen": (
        "(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor? cu_seqlens_k=None, Tensor? alibi_slopes=None, *, "
        "bool causal=False, int[2] window=[-1, -1], float? scale=None, float softcap=0.0, float dropout_p=0.0, "
        "SymInt? seed=None, bool deterministic=False) -> (Tensor, Tensor)",
        _varlen,
    ),
    "attention_backward": (
        "(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse, Tensor? alibi_slopes=None, *, "
        "bool causal=False, int[2] window=[-1, -1], float? scale=None, float dropout_p=0.0, SymInt? seed=None, "
        'bool deterministic=False, str layout="bshd") -> (Tensor, Tensor, Tensor)',
        lambda dout, q, k, v, *rest, **options: tuple(_like(one, *one.shape) for one in (q, k, v)),
    ),
    "attention_varlen_backward": (
        "(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse, Tensor cu_seqlens_q, "
        "Tensor? cu_seqlens_k=None, Tensor? alibi_slopes=None, *, bool causal=False, int[2] window=[-1, -1], "
        "float? scale=None, float dropout_p=0.0, SymInt? seed=None, bool deterministic=False) -> "
        "(Tensor, Tensor, Tensor)",
        lambda dout, q, k, v, *rest, **options: tuple(_like(one, *one.shape) for one in (q, k, v)),
    ),
    "layer_norm": (
        "(Tensor x, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, Tensor? residual=None, *, "
        "SymInt[]? normalized_shape=None) -> Tensor",
        lambda x, *rest, **options: _like(x, *x.shape),
    ),
    "rms_norm": (
        "(Tensor x, Tensor? weight=None, float eps=1e-06, Tensor? residual=None, *, "
        "SymInt[]? normalized_shape=None) -> Tensor",
        lambda x, *rest, **options: _like(x, *x.shape),
    ),
    "softmax": (
        "(Tensor x, Tensor? mask=None, *, int dim=-1, float scale=1.0) -> Tensor",
        lambda x, *rest, **options: _like(x, *x.shape),
    ),
    "topk": ("(Tensor x, int k, int dim=-1, *, bool largest=True) -> (Tensor, Tensor)", _largest),
    "topk_softmax": (
        '(Tensor x, int k, *, str activation="softmax", bool renormalize=False) -> (Tensor, Tensor)',
        _largest,
    ),
    "embedding": (
        "(Tensor ids, Tensor weight) -> Tensor",
        lambda ids, weight: _like(weight, *ids.shape, weight.shape[1]),
    ),
    "scatter_rows": (
        '(Tensor x, Tensor ids, SymInt rows, *, str op="add") -> Tensor',
        lambda x, ids, rows, **options: _like(x, rows, x.shape[-1]),
    ),
    "einsum": ("(str equation, Tensor a, Tensor b) -> Tensor", _summed),
    "moe": (
        "(Tensor x, Tensor gate, Tensor? up, Tensor down, Tensor router_logits, int topk, Tensor? expert_mask=None, *, "
        'bool renormalize=False, str scoring="softmax", str activation="silu") -> Tensor',
        lambda x, *rest, **options: _like(x, *x.shape),
    ),
    "fused_experts": (
        "(Tensor x, Tensor gate, Tensor? up, Tensor down, Tensor topk_weights, Tensor topk_ids, "
        'Tensor? expert_mask=None, *, int? experts=None, str activation="silu") -> Tensor',
        lambda x, *rest, **options: _like(x, *x.shape),
    ),
    "add_rms_norm_quantize": (
        "(Tensor x, Tensor residual, Tensor weight, float eps=1e-06) -> (Tensor, Tensor, Tensor)",
        lambda x, *rest, **options: (
            _like(x, *x.shape, dtype=torch.int8), _like(x, *x.shape[:-1], dtype=torch.float32), _like(x, *x.shape),
        ),
    ),
}  # fmt: skip
"""By name: PyTorch's schema, and what comes out, without elements."""
for rank in RANKS:
    how = f"int[{rank}] stride=1, int[{rank}] padding=0, int[{rank}] dilation=1, int groups=1"
    SCHEMAS[f"conv{rank}d"] = f"(Tensor x, Tensor weight, Tensor? bias=None, {how}) -> Tensor", _convolved
    SCHEMAS[f"conv_transpose{rank}d"] = (
        f"(Tensor x, Tensor weight, Tensor? bias=None, int[{rank}] stride=1, int[{rank}] padding=0, "
        f"int[{rank}] output_padding=0, int groups=1, int[{rank}] dilation=1) -> Tensor",
        _transposed,
    )
    SCHEMAS[f"conv{rank}d_input"] = (
        f"(SymInt[] input_size, Tensor weight, Tensor grad_output, {how}) -> Tensor",
        lambda input_size, weight, *rest, **options: _like(weight, *input_size),
    )
    SCHEMAS[f"conv{rank}d_weight"] = (
        f"(Tensor x, SymInt[] weight_size, Tensor grad_output, {how}) -> Tensor",
        lambda x, weight_size, *rest, **options: _like(x, *weight_size),
    )
