"""What PyTorch has to know of an operator before it runs: its schema, and the shapes and types of what comes out."""

import importlib
from collections.abc import Callable
from typing import Any

from ckmlir.nn.einsum import read_equation
from ckmlir.nn.pytorch_attention import ATTENTIONS
from ckmlir.nn.pytorch_batch_norm import BATCH_NORMS
from ckmlir.nn.pytorch_convolutions import CONVOLUTIONS
from ckmlir.nn.pytorch_norms import NORMS

torch: Any = importlib.import_module("torch")  # typed alike whether it is installed or not

PRODUCTS = {torch.float8_e4m3fn: torch.float16, torch.float8_e4m3fnuz: torch.float16, torch.float8_e5m2: torch.float16,
            torch.float8_e5m2fnuz: torch.float16, torch.int8: torch.int32}  # fmt: skip
"""Elements whose products are of another type."""


def _like(x: Any, *shape: int, dtype: Any = None) -> Any:
    return x.new_empty(shape, dtype=dtype or x.dtype)


def _product(a: Any, b: Any) -> Any:
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    columns = b.shape[-1:] if b.ndim > 1 else ()
    return _like(a, *batch, *a.shape[-2:-1], *columns, dtype=PRODUCTS.get(a.dtype))


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
    **ATTENTIONS,
    **NORMS,
    **BATCH_NORMS,
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
    "segment_sum": (
        "(Tensor x, Tensor offsets) -> Tensor",
        lambda x, offsets: _like(x, offsets.shape[0] - 1, *x.shape[1:]),
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
    **CONVOLUTIONS,
}  # fmt: skip
"""By name: PyTorch's schema, and what comes out, without elements."""
