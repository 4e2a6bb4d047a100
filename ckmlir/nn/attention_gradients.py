"""The gradients of `attention` and `attention_varlen`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ckmlir.nn.attention import (
    UNBOUNDED,
    VARYING,
    in_rows,
    packed_channels,
    read_batches,
    read_sequences,
    seeds_of,
    slopes_of,
    strides_key,
    strides_of,
    written_key,
    written_rows,
)
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
    dropout_p: float = 0.0,
    seed: int | None = None,
    deterministic: bool = False,
    layout: str = "bshd",
    dq: Any = None,
    dk: Any = None,
    dv: Any = None,
    stream: object = None,
) -> tuple[Any, Any, Any]:
    """The gradients of attention for q, k and v, from that for its result: flash-attention's `_flash_attn_backward`.

    Args:
        dout: as `out`, which `attention` has given, with the logarithms softmax_lse (b, h, sq), f32.
        q, k, v, causal, window, scale, alibi_slopes, dropout_p, seed, layout: as they were given to `attention`; of f32
            one of d and dv is at most 128.
        deterministic: the same bits in every run, for more memory.
        dq, dk, dv: as q, k and v, to be written, each or none.

    Returns:
        dq, dk and dv, as q, k and v.

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
    slopes = slopes_of(call, alibi_slopes, query[0], heads, keys)
    inputs = {**arrays, "slopes": slopes, **seeds_of(call, dropout_p, seed, arrays["q"], keys)}
    outputs = gradients_of(call, arrays, dq, dk, dv)
    for name, one in outputs.given.items():
        keys |= written_key(name, one, layout)
    varying = (*VARYING, "do_strides", *(f"{name}_strides" for name in outputs.given))
    found = call.run("fmha_bwd", keys | {"deterministic": deterministic}, inputs, outputs.given, varying)
    dq, dk, dv = outputs.of(found)
    return dq, dk, dv


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
    dropout_p: float = 0.0,
    seed: int | None = None,
    deterministic: bool = False,
    dq: Any = None,
    dk: Any = None,
    dv: Any = None,
    stream: object = None,
) -> tuple[Any, Any, Any]:
    """The gradients of `attention_varlen` for q, k and v: flash-attention's `_flash_attn_varlen_backward`.

    Args:
        dout: as `out`, which `attention_varlen` has given, with the logarithms softmax_lse (h, queries), f32.
        q, k, v, cu_seqlens_q, cu_seqlens_k, causal, window, scale, alibi_slopes, dropout_p, seed: as they were given.
        deterministic, dq, dk, dv: as for `attention_backward`.

    Returns:
        dq, dk and dv, as q, k and v.

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
    outputs = gradients_of(call, arrays, dq, dk, dv)
    written = {name: written_rows(name, one, keys) for name, one in outputs.given.items()}
    dq, dk, dv = outputs.of(call.run("fmha_bwd", keys | {"deterministic": deterministic}, inputs, written))
    return dq, dk, dv


def gradients_of(call: Call, arrays: dict[str, Given], dq: Any, dk: Any, dv: Any) -> Outputs:
    """Those that were given, and those that are to be made, as q, k and v."""
    wanted = {f"d{name}": (arrays[name].shape, arrays[name].dtype) for name in "qkv"}
    return call.named_outputs([("dq", dq), ("dk", dk), ("dv", dv)], wanted)


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
