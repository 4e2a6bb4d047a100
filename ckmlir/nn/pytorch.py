"""Functions on arrays as operators of PyTorch: `import ckmlir.nn.pytorch`, then `torch.ops.ckmlir.linear(x, weight)`.

Each has a fake form, so that `torch.compile` and `torch.export` keep it in the graph; `attention`, `attention_varlen`,
`linear` (without an activation), `matmul`, `einsum`, `embedding`, `scatter_rows` and convolutions have gradients,
others refuse tensors that require them. Kernels run on the session of `nn.use`; on tensors of a GPU in PyTorch's
current stream. Arguments, results and errors are those of the functions of the same names in `ckmlir.nn`, with what
PyTorch's schemas can say: attention always returns the logarithms as well. Functions of `ckmlir.nn` with a gradient
come here with tensors that require it.
"""

import importlib
from collections.abc import Callable, Sequence
from inspect import BoundArguments
from typing import Any

from ckmlir import nn
from ckmlir.nn.convolutions import each, pads
from ckmlir.nn.einsum import read_equation
from ckmlir.nn.gradients import NoGradient
from ckmlir.nn.plain import numbers, shown
from ckmlir.nn.transposed_convolutions import transposed_shape
from ckmlir.runtime.device import DeviceError

torch: Any = importlib.import_module("torch")  # typed alike whether it is installed or not

NAMESPACE = "ckmlir"
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


OPERATORS: dict[str, tuple[str, Callable[..., Any]]] = {
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
    OPERATORS[f"conv{rank}d"] = f"(Tensor x, Tensor weight, Tensor? bias=None, {how}) -> Tensor", _convolved
    OPERATORS[f"conv_transpose{rank}d"] = (
        f"(Tensor x, Tensor weight, Tensor? bias=None, int[{rank}] stride=1, int[{rank}] padding=0, "
        f"int[{rank}] output_padding=0, int groups=1, int[{rank}] dilation=1) -> Tensor",
        _transposed,
    )
    OPERATORS[f"conv{rank}d_input"] = (
        f"(SymInt[] input_size, Tensor weight, Tensor grad_output, {how}) -> Tensor",
        lambda input_size, weight, *rest, **options: _like(weight, *input_size),
    )
    OPERATORS[f"conv{rank}d_weight"] = (
        f"(Tensor x, SymInt[] weight_size, Tensor grad_output, {how}) -> Tensor",
        lambda x, weight_size, *rest, **options: _like(x, *weight_size),
    )
WITH_LOGARITHMS = ("attention", "attention_varlen")
NUMBERS = ("Tensor", "Optional[Tensor]")
"""Types of arguments that functions also take a list of numbers for."""


def _arguments(name: str) -> dict[str, str]:
    """Of an operator, by name: their types."""
    parsed = torch._C.parse_schema(f"{name}{OPERATORS[name][0]}")
    return {one.name: str(one.type) for one in parsed.arguments}


def recorded(name: str, call: BoundArguments) -> Any:
    """A call of a function as one of the operator of its name, which PyTorch records.

    Raises NoGradient for an argument that the operator does not take.
    """
    taken, given = _arguments(name), dict(call.arguments)
    wants_logarithms = given.pop("return_lse", False)
    defaults = call.signature.parameters
    if isinstance(given.get("padding"), str) and "str" in defaults["padding"].annotation:
        given["padding"] = _padding_numbers(**given)
    for what, value in list(given.items()):
        if value is defaults[what].default:
            del given[what]
        elif what not in taken or (isinstance(value, str) and "str" not in taken[what]):
            told = f"{what}={value}" if isinstance(value, str | int | float) else what
            raise NoGradient(f"{name}: tensors require gradients, which it does not have with {told}")
        elif taken[what] == "str" and not isinstance(value, str):
            raise DeviceError(f"{name}: {what}={shown(value)}: expected a text")
        elif taken[what] in NUMBERS and isinstance(value, Sequence):
            given[what] = torch.tensor(numbers(what, value), dtype=torch.int32)
        elif taken[what] in NUMBERS and not isinstance(value, torch.Tensor):
            found = type(value).__name__
            raise DeviceError(f"{name}: tensors require gradients, and {what} is {found}; expected a tensor")
    found = getattr(torch.ops.ckmlir, name)(**given)
    return found[0] if name in WITH_LOGARITHMS and not wants_logarithms else found


def _padding_numbers(
    weight: Any, padding: str, stride: Any = 1, dilation: Any = 1, **others: Any
) -> tuple[int, ...] | str:
    """Zeros at both ends, as schemas have them; the text where ends have different ones."""
    if not (window := (*getattr(weight, "shape", ()),)[2:]):
        return padding
    strides, dilations = each("stride", stride, len(window), 1), each("dilation", dilation, len(window), 1)
    spans = tuple((places - 1) * step for places, step in zip(window, dilations, strict=True))
    left, right = pads(padding, spans, strides)
    return left if left == right else padding


def _run(name: str, parameters: Sequence[str]) -> Callable[..., Any]:
    """The function, in the stream of its first tensor."""
    extra = {"return_lse": True} if name in WITH_LOGARITHMS else {}

    def run(*positional: Any, **options: Any) -> Any:
        first = next(one for one in positional if isinstance(one, torch.Tensor))
        stream = torch.cuda.current_stream(first.device) if first.is_cuda else None
        return getattr(nn, name)(**dict(zip(parameters, positional)), **options, **extra, stream=stream)

    return run


def _register() -> None:
    library = torch.library.Library(NAMESPACE, "DEF")
    for name, (schema, fake) in OPERATORS.items():
        library.define(f"{name}{schema}", tags=(torch.Tag.pt2_compliant_tag,))
        library.impl(name, _run(name, list(_arguments(name))), "CompositeExplicitAutograd")
        torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)
        keep, backward = GRADIENTS.get(name) or _without_gradient(name)
        torch.library.register_autograd(f"{NAMESPACE}::{name}", backward, setup_context=keep, lib=library)
    _libraries.append(library)


_libraries: list[Any] = []
"""Operators live as long as their library."""


# -- gradients ---------------------------------------------------------------------------------------------------------


def _keep_attention(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    """Of `attention`, and of `attention_varlen`, which has where sequences begin between v and the slopes."""
    q, k, v, *starts, slopes = inputs
    name = ctx.name = "attention_varlen" if starts else "attention"
    ctx.save_for_backward(q, k, v, *output, *starts, slopes)
    ctx.options = {what: value for what, value in keyword_only_inputs.items() if what != "softcap"}
    ctx.mark_non_differentiable(output[1])  # the logarithms
    if keyword_only_inputs["softcap"]:
        raise NoGradient(f"{name} has no gradient with softcap")
    if slopes is not None and slopes.requires_grad:
        raise NoGradient(f"{name} has no gradient for alibi_slopes; give alibi_slopes.detach()")


def _attention_backward(ctx: Any, dout: Any, dlse: Any) -> Any:
    q, k, v, *others = ctx.saved_tensors
    backward = getattr(torch.ops.ckmlir, f"{ctx.name}_backward")
    gradients = backward(dout.contiguous(), q, k, v, *others, **ctx.options)
    return *gradients, *(None for _ in others[2:])


def _keep_matrices(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _matmul_backward(ctx: Any, dout: Any) -> Any:
    a, b = ctx.saved_tensors
    da = torch.ops.ckmlir.matmul(dout.contiguous(), b.transpose(-1, -2)) if ctx.needs_input_grad[0] else None
    db = torch.ops.ckmlir.matmul(a.transpose(-1, -2), dout.contiguous()) if ctx.needs_input_grad[1] else None
    return da if da is None else da.sum_to_size(a.shape), db if db is None else db.sum_to_size(b.shape)


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


def _keep_convolution(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, bias, *ctx.how = inputs
    ctx.save_for_backward(x, weight)
    ctx.has_bias = bias is not None


def _convolution_backward(ctx: Any, dout: Any) -> Any:
    (x, weight), dy = ctx.saved_tensors, dout.contiguous()
    name, needed, ops = f"conv{x.ndim - 2}d", ctx.needs_input_grad, torch.ops.ckmlir
    dx = getattr(ops, f"{name}_input")(x.shape, weight, dy, *ctx.how) if needed[0] else None
    dweight = getattr(ops, f"{name}_weight")(x, weight.shape, dy, *ctx.how) if needed[1] else None
    return dx, dweight, _bias_gradient(ctx, dout), *(None for _ in ctx.how)


def _transposed_backward(ctx: Any, dout: Any) -> Any:
    """Those of a convolution whose images are the result."""
    (x, weight), dy = ctx.saved_tensors, dout.contiguous()
    name, needed, ops = f"conv{x.ndim - 2}d", ctx.needs_input_grad, torch.ops.ckmlir
    stride, padding, _, groups, dilation = ctx.how
    how = stride, padding, dilation, groups
    dx = getattr(ops, name)(dy, weight, None, *how) if needed[0] else None
    dweight = getattr(ops, f"{name}_weight")(dy, weight.shape, x, *how) if needed[1] else None
    return dx, dweight, _bias_gradient(ctx, dout), *(None for _ in ctx.how)


def _bias_gradient(ctx: Any, dout: Any) -> Any:
    return dout.sum([0, *range(2, dout.ndim)]) if ctx.has_bias else None


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
    return None, torch.ops.ckmlir.scatter_rows(dout.contiguous(), *ctx.saved_tensors, ctx.rows)


def _keep_added(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    _, ids, _ = inputs
    if keyword_only_inputs["op"] != "add":
        raise NoGradient(f"scatter_rows has no gradient with op={keyword_only_inputs['op']}; expected add")
    ctx.save_for_backward(ids)


def _scatter_rows_backward(ctx: Any, dout: Any) -> Any:
    return torch.ops.ckmlir.embedding(*ctx.saved_tensors, dout.contiguous()), None, None


def _without_gradient(name: str) -> tuple[Callable[..., None], Callable[..., Any]]:
    """Of an operator that tensors which require gradients are refused by; without this PyTorch would go on and warn."""

    def refuse(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any = None) -> None:
        raise NoGradient(f"{name}: tensors require gradients, which it does not have; call it under torch.no_grad()")

    return refuse, lambda ctx, *given: None


GRADIENTS: dict[str, tuple[Callable[..., None], Callable[..., Any]]] = {
    "attention": (_keep_attention, _attention_backward),
    "attention_varlen": (_keep_attention, _attention_backward),
    "matmul": (_keep_matrices, _matmul_backward),
    "linear": (_keep_linear, _linear_backward),
    "einsum": (_keep_einsum, _einsum_backward),
    "embedding": (_keep_places, _embedding_backward),
    "scatter_rows": (_keep_added, _scatter_rows_backward),
    **{f"conv{rank}d": (_keep_convolution, _convolution_backward) for rank in RANKS},
    **{f"conv_transpose{rank}d": (_keep_convolution, _transposed_backward) for rank in RANKS},
}
"""By name: what is kept of a call, and the gradients for what it was given."""

_register()
