"""Attention of other kinds: with listed blocks of keys, with Q and K in 8 bits, and HSTU's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ckmlir.nn import plain
from ckmlir.nn.attention import (
    UNBOUNDED,
    VARYING,
    common_keys,
    in_rows,
    outputs_of,
    read_batches,
    starts_of,
    written_key,
    written_rows,
)
from ckmlir.nn.attention_gradients import gradients_of
from ckmlir.nn.attention_parts import result_type, sinks_of, slopes_of
from ckmlir.nn.cached_attention import dense
from ckmlir.nn.calls import Call, beside, dtype_name
from ckmlir.nn.given import Given
from ckmlir.nn.gradients import differentiable
from ckmlir.nn.indexed import vector
from ckmlir.nn.plain import checked, word
from ckmlir.runtime.device import DeviceError

GRANULARITIES = ("block", "warp", "thread")
"""Of the blocks of queries and keys that have a scale."""


@checked
def sparse_attention(
    q: Any, k: Any, v: Any, block_map: Any = None, *, block_list: Any = None, block_counts: Any = None,
    deltas: bool = False, block_size: tuple[int, int] = (128, 128), pv_threshold: float | None = None,
    causal: bool = False, window: Sequence[int] = UNBOUNDED, scale: float | None = None, softcap: float = 0.0,
    alibi_slopes: Any = None, sinks: Any = None, layout: str = "bshd", return_lse: bool = False, out: Any = None,
    stream: object = None,
) -> Any:  # fmt: skip
    """`attention` where each block of queries attends to some blocks of keys alone.

    Args:
        q, k, v, causal, window, scale, softcap, alibi_slopes, sinks, layout, return_lse, out: as for `attention`.
        block_map: (b, h, blocks of queries, blocks of keys), i8: not 0 where queries attend to the keys.
        block_list: instead of a map (b, h, blocks of queries, entries), i32: numbers of blocks of keys, that rise; with
            deltas the first number, then distances. block_counts: (b, h, blocks of queries), i32: entries that count.
        block_size: queries and keys of a block.
        pv_threshold: blocks with weights below 2^-pv_threshold of the largest before them may be left out.

    Returns:
        As `attention`; zeros for queries that attend to nothing.

    Raises:
        DeviceError, RequestError: as `attention`; a map and a list, or neither.
    """
    call = Call(stream)
    arrays, keys = read_batches(call, (q, k, v), causal, window, scale, layout)
    sizes = [keys[name] for name in ("b", "h", "sq", "sk")]
    b, h, rows, columns = (int(str(one)) for one in sizes)
    lengths = plain.numbers("block_size", block_size)
    if len(lengths) != 2 or min(lengths) < 1:
        raise DeviceError(f"block_size={lengths}: expected queries and keys of a block")
    down, across = (-(-length // size) for length, size in zip((rows, columns), lengths, strict=True))
    if (block_map is None) == (block_list is None) or (block_list is None) != (block_counts is None):
        raise DeviceError("block_map, block_list, block_counts: expected a map, or a list and counts")
    lists: dict[str, Given | None]
    if block_map is not None:
        lists = {"block_map": dense(call.read("block_map", block_map).require(shape=(b, h, down, across), dtype="i8"))}
        keys["lists"] = "map"
    else:
        numbers = call.numbers("block_list", block_list).require(ndim=4, dtype="i32")
        numbers.require(shape=(b, h, down, numbers.shape[3]))
        counts = call.numbers("block_counts", block_counts).require(shape=(b, h, down), dtype="i32")
        lists = {"block_deltas" if deltas else "block_list": dense(numbers), "block_counts": dense(counts)}
        keys |= {"lists": "deltas" if deltas else "list", "entries": numbers.shape[3]}
    keys |= {
        "block_q": block_size[0], "block_k": block_size[1], "pv_threshold": pv_threshold, "lse": return_lse,
        "soft_cap": softcap or None,
    }  # fmt: skip
    shape = (*arrays["q"].shape[:3], arrays["v"].shape[3])
    result = result_type(arrays["q"], None, keys)
    outputs = outputs_of(call, out, shape, result, (b, h, rows) if return_lse else None)
    keys |= written_key("o", outputs.given["o"], layout)
    slopes, logits = slopes_of(call, alibi_slopes, b, h, keys), sinks_of(call, sinks, h, keys)
    inputs = {**arrays, **lists, "slopes": slopes, "sink": logits}
    return outputs.of(call.run("sparse_attention", keys, inputs, outputs.given, varying=VARYING))


@checked
def sage_attention(
    q: Any, k: Any, v: Any, q_scale: Any, k_scale: Any, v_scale: Any = None, *, granularity: str = "block",
    causal: bool = False, window: Sequence[int] = UNBOUNDED, scale: float | None = None, dtype: str = "bf16",
    layout: str = "bshd", return_lse: bool = False, out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """`attention` of Q and K in 8 bits with scales of blocks, V in fp8, f16 or bf16 (Zhang et al., "SageAttention").

    K is to come without its mean over the keys, which changes no result; `ckmlir.ops.attention.sage_quantization` takes
    it away and quantises in NumPy.

    Args:
        q, k: i8 or fp8. v: fp8, f16 or bf16. Shapes as for `attention`.
        q_scale, k_scale: (b, h, blocks) and (b, hk, blocks), f32.
        v_scale: (b, hk, dv), f32, of the channels of a v in fp8.
        granularity: blocks of 128 queries and 128 keys (block), 32 and 64 (warp), or 4 and 16 (thread).
        causal, window, scale, layout, return_lse, out: as for `attention`.
        dtype: of the result, bf16 or f16.

    Returns, and errors: as `attention`.
    """
    call = Call(stream)
    arrays, keys = read_batches(call, (q, k, v), causal, window, scale, layout, same=False)
    wanted = dtype_name("dtype", dtype)
    keys |= {"v_dtype": arrays["v"].dtype, "out": wanted, "lse": return_lse}
    keys["scales"] = word("granularity", granularity, GRANULARITIES)
    inputs: dict[str, Given | None] = {**arrays, **channel_scales(call, arrays["v"], v_scale)}
    for name, one in (("q_scale", q_scale), ("k_scale", k_scale)):
        inputs[f"{name}s"] = dense(call.read(name, one).require(ndim=3, dtype="f32"))
    query = arrays["q"].shape
    logarithms = (query[0], *(query[layout.index(dim)] for dim in "hs")) if return_lse else None
    outputs = outputs_of(call, out, (*query[:3], arrays["v"].shape[3]), wanted, logarithms)
    keys |= written_key("o", outputs.given["o"], layout)
    return outputs.of(call.run("sage_attention", keys, inputs, outputs.given, varying=VARYING))


def channel_scales(call: Call, values: Given, v_scale: Any) -> dict[str, Given]:
    """Those of a v in fp8, none of others. Raises DeviceError where there are some, or none, against that."""
    if (v_scale is not None) != (values.dtype == "fp8"):
        raise DeviceError(f"v_scale: v is {values.dtype}; expected scales of channels with fp8, and none with others")
    return {} if v_scale is None else {"v_scales": dense(call.read("v_scale", v_scale).require(ndim=3, dtype="f32"))}


@checked
@differentiable
def hstu_attention(
    q: Any, k: Any, v: Any, cu_seqlens: Any, *, num_targets: Any = None, causal: bool = True, contextual: int = 0,
    window: int = 0, full: int = 0, scale: float | None = None, attn_scale: float | None = None,
    weights: str = "silu", out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """silu(scale q kᵀ) v · attn_scale within each of several sequences that follow each other: HSTU's attention.

    Args:
        q, k: (places of all sequences, h, d) and (…, hk, d). v: (…, hk, dv). f16, bf16 or f32.
        cu_seqlens: as for `attention_varlen`; of queries and keys.
        num_targets: (b,), i32: candidates at the end of each sequence, which do not see each other.
        causal: places attend to none behind them.
        contextual: first places, to which and from which all of the history is seen.
        window: places that a place sees before itself; 0: all. full: last places of the history that no window limits.
        scale: by default 1 / sqrt(d). attn_scale: by default 1 / the most places of a sequence.
        weights: silu, or softmax.
        out: as q with dv channels, to be written.

    Returns, and errors: as `attention_varlen`.
    """
    call = Call(stream)
    chosen = _choices(causal, contextual, window, full, attn_scale) | {"weights": weights}
    arrays, inputs, keys = _read_places(call, (q, k, v), cu_seqlens, num_targets, scale, chosen)
    shape = (*arrays["q"].shape[:2], arrays["v"].shape[2])
    outputs = outputs_of(call, out, shape, arrays["q"].dtype, None)
    written = {"o": written_rows("o", outputs.given["o"], keys)}
    return outputs.of(call.run("hstu_attention", keys, inputs, written))


@checked
def hstu_attention_backward(
    dout: Any, q: Any, k: Any, v: Any, cu_seqlens: Any, *, num_targets: Any = None, causal: bool = True,
    contextual: int = 0, window: int = 0, full: int = 0, scale: float | None = None, attn_scale: float | None = None,
    deterministic: bool = False, dq: Any = None, dk: Any = None, dv: Any = None, stream: object = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The gradients of `hstu_attention` with SiLU weights for q, k and v.

    Args:
        dout: as the result of `hstu_attention`, which is not needed itself.
        q, k, v, cu_seqlens, num_targets, causal, contextual, window, full, scale, attn_scale: as they were given.
        deterministic, dq, dk, dv: as for `attention_backward`.

    Returns:
        dq, dk and dv, as q, k and v.

    Raises:
        DeviceError, RequestError: as `hstu_attention`.
    """
    call = Call(stream)
    chosen = _choices(causal, contextual, window, full, attn_scale) | {"deterministic": deterministic}
    arrays, inputs, keys = _read_places(call, (q, k, v), cu_seqlens, num_targets, scale, chosen)
    shape = (*arrays["q"].shape[:2], arrays["v"].shape[2])
    inputs["do"] = in_rows("do", call.read("dout", dout).require(shape=shape, dtype=arrays["q"].dtype), keys)
    outputs = gradients_of(call, arrays, dq, dk, dv)
    written = {name: written_rows(name, one, keys) for name, one in outputs.given.items()}
    dq, dk, dv = outputs.of(call.run("hstu_bwd", keys, inputs, written))
    return dq, dk, dv


def _choices(causal: bool, contextual: int, window: int, full: int, attn_scale: float | None) -> dict[str, object]:
    """Keys of requests that both have."""
    return {"causal": causal, "context": contextual, "window": window, "full": full, "attn_scale": attn_scale}


def _read_places(
    call: Call, given: tuple[Any, Any, Any], cu_seqlens: Any, num_targets: Any, scale: float | None,
    chosen: dict[str, object],
) -> tuple[dict[str, Given], dict[str, Given | None], dict[str, object]]:  # fmt: skip
    """q, k and v, the inputs that they and the sequences are, and the keys. Raises DeviceError for others."""
    arrays = {name: call.read(name, one).require(ndim=3) for name, one in zip("qkv", given, strict=True)}
    query, key, value = (one.shape for one in arrays.values())
    if key[:2] != value[:2] or query[0] != key[0]:
        raise DeviceError(f"q {query}, k {key}, v {value}: expected as many places, and as many heads of k and v")
    starts = starts_of("cu_seqlens", cu_seqlens, query[0])
    lengths = tuple(np.diff(starts).tolist())
    keys: dict[str, object] = {
        "mode": "group", "h": query[1], "hk": key[1], "layout": "bshd", "seqlens_q": lengths,
        **common_keys(arrays, False, UNBOUNDED, scale), **chosen,
    }  # fmt: skip
    del keys["mask"]
    inputs: dict[str, Given | None] = {name: in_rows(name, one, keys) for name, one in arrays.items()}
    if num_targets is not None:
        counts = call.numbers("num_targets", num_targets).require(shape=(len(lengths),), dtype="i32")
        keys["targets"] = (0,) * len(lengths)
        inputs["num_targets"] = vector(counts)
    for side in "qk":
        inputs[f"seqstart_{side}"] = beside(call, arrays["q"], np.asarray(starts, np.int32))
    return arrays, inputs, keys
