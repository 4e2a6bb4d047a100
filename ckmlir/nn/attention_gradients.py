"""The gradients of `attention` and `attention_varlen`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ckmlir.nn.attention import (
    UNBOUNDED,
    VARYING,
    in_rows,
    packed_channels,
    read_batches,
    read_sequences,
    sizes_of,
    strides_key,
    strides_of,
    written_key,
    written_rows,
)
from ckmlir.nn.attention_parts import bias_of, seeds_of, sinks_of, slopes_of
from ckmlir.nn.calls import Call
from ckmlir.nn.given import Given
from ckmlir.nn.outputs import Outputs
from ckmlir.nn.plain import checked
from ckmlir.runtime.device import DeviceError


@checked
def attention_backward(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    softmax_lse: Any,
    *,
    causal: bool = False,
    window: Sequence[int] = UNBOUNDED,
    scale: float | None = None,
    alibi_slopes: Any = None,
    sinks: Any = None,
    bias: Any = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    deterministic: bool = False,
    layout: str = "bshd",
    return_dbias: bool = False,
    dq: Any = None,
    dk: Any = None,
    dv: Any = None,
    stream: object = None,
) -> tuple[Any, ...]:
    """The gradients of attention for q, k and v, from that for its result: flash-attention's `_flash_attn_backward`.

    Args:
        dout: as `out`, which `attention` has given, with the logarithms softmax_lse (b, h, sq), f32.
        q, k, v, causal, window, scale, alibi_slopes, sinks, bias, dropout_p, seed, layout: as they were given to
            `attention`; of f32 one of d and dv is at most 128.
        deterministic: the same bits in every run, for more memory.
        return_dbias: also return the gradient of the bias.
        dq, dk, dv: as q, k and v, to be written, each or none.

    Returns:
        dq, dk and dv, as q, k and v; with sinks theirs, (h,), f32, behind them; with return_dbias the bias's last.

    Raises:
        DeviceError, RequestError: as `attention`.
    """
    call = Call(stream)
    arrays, keys = read_batches(call, (q, k, v), causal, window, scale, layout)
    query = arrays["q"].shape
    heads, queries = (query[layout.index(dim)] for dim in "hs")
    arrays |= _read_results(call, arrays, dout, out, softmax_lse, (query[0], heads, queries))
    for name in ("o", "do"):
        keys |= strides_key(name, strides_of(packed_channels(arrays[name]), layout))
    inputs = {
        **arrays,
        "slopes": slopes_of(call, alibi_slopes, query[0], heads, keys),
        "sink": sinks_of(call, sinks, heads, keys),
        "bias": bias_of(call, bias, sizes_of(arrays, layout), arrays["q"].dtype, keys),
        **seeds_of(call, dropout_p, seed, arrays["q"], keys),
    }
    if return_dbias and bias is None:
        raise DeviceError("return_dbias=True without a bias; expected bias=, or return_dbias=False")
    keys |= {"dbias": return_dbias, "deterministic": deterministic}
    more = {} if sinks is None else {"dsink": ((heads,), "f32")}
    more |= {"dbias": (tuple(bias.shape), arrays["q"].dtype)} if return_dbias else {}
    outputs = gradients_of(call, arrays, dq, dk, dv, more)
    for name in QKV:
        keys |= written_key(name, outputs.given[name], layout)
    varying = (*VARYING, "do_strides", *(f"{name}_strides" for name in QKV))
    return tuple(outputs.each(call.run("fmha_bwd", keys, inputs, outputs.given, varying)))


@checked
def attention_varlen_backward(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    softmax_lse: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any = None,
    *,
    causal: bool = False,
    window: Sequence[int] = UNBOUNDED,
    scale: float | None = None,
    alibi_slopes: Any = None,
    sinks: Any = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    deterministic: bool = False,
    dq: Any = None,
    dk: Any = None,
    dv: Any = None,
    stream: object = None,
) -> tuple[Any, ...]:
    """The gradients of `attention_varlen` for q, k and v: flash-attention's `_flash_attn_varlen_backward`.

    Args:
        dout: as `out`, which `attention_varlen` has given, with the logarithms softmax_lse (h, queries), f32.
        q, k, v, cu_seqlens_q, cu_seqlens_k, causal, window, scale, alibi_slopes, sinks, dropout_p, seed: as they were
            given.
        deterministic, dq, dk, dv: as for `attention_backward`.

    Returns:
        dq, dk and dv, as q, k and v; with sinks theirs, (h,), f32, behind them.

    Raises:
        DeviceError, RequestError: as `attention_varlen`.
    """
    call = Call(stream)
    arrays, starts, keys = read_sequences(call, (q, k, v), cu_seqlens_q, cu_seqlens_k, causal, window, scale)
    total, heads, _ = arrays["q"].shape
    results = _read_results(call, arrays, dout, out, softmax_lse, (heads, total))
    lse = results.pop("lse")
    inputs: dict[str, Given | None] = {name: in_rows(name, one, keys) for name, one in (arrays | results).items()}
    slopes = slopes_of(call, alibi_slopes, starts["seqstart_q"].shape[0] - 1, heads, keys)
    inputs |= {**starts, "lse": lse, "slopes": slopes, **seeds_of(call, dropout_p, seed, arrays["q"], keys)}
    inputs["sink"] = sinks_of(call, sinks, heads, keys)
    outputs = gradients_of(call, arrays, dq, dk, dv, {} if sinks is None else {"dsink": ((heads,), "f32")})
    written = outputs.given | {name: written_rows(name, outputs.given[name], keys) for name in QKV}
    return tuple(outputs.each(call.run("fmha_bwd", keys | {"deterministic": deterministic}, inputs, written)))


QKV = ("dq", "dk", "dv")


def gradients_of(
    call: Call, arrays: dict[str, Given], dq: Any, dk: Any, dv: Any,
    more: Mapping[str, tuple[tuple[int, ...], str]] = MappingProxyType({}),
) -> Outputs:  # fmt: skip
    """Those that were given, and those that are to be made, as q, k and v; `more`: shapes and types of others."""
    wanted = {name: (arrays[name[1:]].shape, arrays[name[1:]].dtype) for name in QKV}
    named = [("dq", dq), ("dk", dk), ("dv", dv), *((name, None) for name in more)]
    return call.named_outputs(named, wanted | dict(more))


def _read_results(
    call: Call, arrays: dict[str, Given], dout: Any, out: Any, softmax_lse: Any, logarithms: tuple[int, ...]
) -> dict[str, Given]:
    """What attention has given, and the gradient for it, by the operator's names. Raises DeviceError for others."""
    from ckmlir.ops.attention.backward.fmha_bwd_spec import DTYPES

    query, value = arrays["q"], arrays["v"]
    if query.dtype not in DTYPES:
        raise DeviceError(f"q: elements are {query.dtype}; expected {', '.join(DTYPES)}")
    shape = (*query.shape[:-1], value.shape[-1])
    found = {"o": call.read("out", out), "do": call.read("dout", dout)}
    for one in found.values():
        one.require(shape=shape, dtype=query.dtype)
    return {**found, "lse": call.read("softmax_lse", softmax_lse).require(shape=logarithms, dtype="f32")}
