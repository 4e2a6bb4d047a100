"""Attention under the names and with the arguments of flash-attention (`flash_attn.flash_attn_interface`, 2.8).

Each is one of this package's own functions, whose rules, errors and gradients it has: `attention`, `attention_varlen`,
`attention_paged` and `attention_with_kvcache`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ckmlir.nn.attention import UNBOUNDED, attention, attention_varlen, numbers_of, starts_of
from ckmlir.nn.cached_attention import attention_paged, attention_with_kvcache
from ckmlir.nn.calls import Call, beside
from ckmlir.nn.plain import checked, number
from ckmlir.runtime.device import DeviceError


@checked
def flash_attn_func(
    q: Any, k: Any, v: Any, dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False,
    window_size: Sequence[int] = UNBOUNDED, softcap: float = 0.0, alibi_slopes: Any = None,
    deterministic: bool = False, return_attn_probs: bool = False, *, out: Any = None,
) -> Any:  # fmt: skip
    """`attention` with flash-attention's arguments.

    Args:
        q: (b, sq, h, d). k, v: (b, sk, hk, d) and (b, sk, hk, dv). f16, bf16 or f32.
        dropout_p: the probability with which a weight is dropped, as for `attention`; the seed comes from PyTorch's
            generator (`torch.manual_seed`) for tensors, else from that of `numpy.random`.
        softmax_scale: by default 1 / sqrt(d).
        causal, softcap, alibi_slopes, deterministic: as for `attention`.
        window_size: how many keys to the left and to the right a query attends to; -1: all.
        return_attn_probs: also return the logarithms (b, h, sq), f32, and None for the dropped weights.
        out: as for `attention`, to be written; flash-attention has no such argument.

    Returns:
        (b, sq, h, dv), or that, the logarithms and None.

    Raises:
        DeviceError, RequestError: as `attention`.
    """
    found = attention(
        q, k, v, causal=causal, window=window_size, scale=softmax_scale, softcap=softcap, alibi_slopes=alibi_slopes,
        dropout_p=dropout_p, seed=_seed(dropout_p, q), deterministic=deterministic, return_lse=return_attn_probs,
        out=out,
    )  # fmt: skip
    return (*found, None) if return_attn_probs else found


def flash_attn_qkvpacked_func(qkv: Any, *args: Any, **options: Any) -> Any:
    """`flash_attn_func` of q, k and v beside each other, (b, s, 3, h, d), with its other arguments; no copies."""
    q, k, v = _unpacked("qkv", qkv, "b, s", 3)
    return flash_attn_func(q, k, v, *args, **options)


def flash_attn_kvpacked_func(q: Any, kv: Any, *args: Any, **options: Any) -> Any:
    """`flash_attn_func` of k and v beside each other, (b, s, 2, hk, d), with its other arguments; no copies."""
    k, v = _unpacked("kv", kv, "b, s", 2)
    return flash_attn_func(q, k, v, *args, **options)


@checked
def flash_attn_varlen_func(
    q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None, dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False,
    window_size: Sequence[int] = UNBOUNDED, softcap: float = 0.0, alibi_slopes: Any = None,
    deterministic: bool = False, return_attn_probs: bool = False, block_table: Any = None, *, out: Any = None,
) -> Any:  # fmt: skip
    """`attention_varlen` with flash-attention's arguments; with a block_table `attention_paged`.

    Args:
        q: (queries of all sequences, h, d). k, v: (keys of all sequences, hk, d) and (…, dv); with a block_table pages
            (pages, page_size, hk, d) and (…, dv).
        cu_seqlens_q, cu_seqlens_k: where sequences begin, and where the last ends: b + 1 numbers.
        max_seqlen_q, max_seqlen_k: lengths that no sequence exceeds, which cu_seqlens_q and cu_seqlens_k say too.
        block_table: (b, entries), i32: in which pages the keys of each sequence lie.

    Other arguments and results are those of `flash_attn_func`; the logarithms are (h, queries of all sequences).

    Raises:
        DeviceError, RequestError: as `attention_varlen`; a sequence longer than max_seqlen_q or max_seqlen_k; dropout
            with a block_table.
    """
    starts = {"q": numbers_of("cu_seqlens_q", cu_seqlens_q), "k": numbers_of("cu_seqlens_k", cu_seqlens_k)}
    for (side, numbers), most in zip(starts.items(), (max_seqlen_q, max_seqlen_k), strict=True):
        longest = int(np.diff(numbers).max(initial=0))
        if most is not None and longest > number(f"max_seqlen_{side}", most, 0):
            raise DeviceError(f"max_seqlen_{side}={most}: a sequence has {longest}; expected at least that")
    options: dict[str, Any] = {
        "causal": causal, "window": window_size, "scale": softmax_scale, "softcap": softcap,
        "alibi_slopes": alibi_slopes, "return_lse": return_attn_probs,
        "out": out,
    }  # fmt: skip
    if block_table is None:
        options |= {"dropout_p": dropout_p, "seed": _seed(dropout_p, q), "deterministic": deterministic}
        found = attention_varlen(q, k, v, starts["q"], starts["k"], **options)
    elif dropout_p:
        raise DeviceError(f"dropout_p={dropout_p}: nothing is dropped of pages; expected 0, or no block_table")
    else:
        call = Call()
        lengths = np.diff(starts_of("cu_seqlens_k", starts["k"], starts["k"][-1])).astype(np.int32)
        used = beside(call, call.read("q", q), lengths).array
        found = attention_paged(q, k, v, starts["q"], used, block_table, **options)
    return (*found, None) if return_attn_probs else found


@checked
def flash_attn_varlen_qkvpacked_func(
    qkv: Any, cu_seqlens: Any, max_seqlen: int | None = None, *args: Any, **options: Any
) -> Any:
    """`flash_attn_varlen_func` of q, k and v beside each other, (rows of all sequences, 3, h, d)."""
    q, k, v = _unpacked("qkv", qkv, "rows", 3)
    return flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, *args, **options)


@checked
def flash_attn_varlen_kvpacked_func(
    q: Any, kv: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None, *args: Any, **options: Any,
) -> Any:  # fmt: skip
    """`flash_attn_varlen_func` of k and v beside each other, (keys of all sequences, 2, hk, d)."""
    k, v = _unpacked("kv", kv, "rows", 2)
    return flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, *args, **options)


@checked
def flash_attn_with_kvcache(
    q: Any, k_cache: Any, v_cache: Any, k: Any = None, v: Any = None, rotary_cos: Any = None, rotary_sin: Any = None,
    cache_seqlens: Any = None, cache_batch_idx: Any = None, cache_leftpad: Any = None, block_table: Any = None,
    softmax_scale: float | None = None, causal: bool = False, window_size: Sequence[int] = UNBOUNDED,
    softcap: float = 0.0, rotary_interleaved: bool = True, alibi_slopes: Any = None, num_splits: int = 0,
    return_softmax_lse: bool = False, *, out: Any = None,
) -> Any:  # fmt: skip
    """`attention_with_kvcache` with flash-attention's arguments.

    Args:
        softmax_scale, window_size, return_softmax_lse: its scale, window and return_lse; others have its names.
        out: as for `attention`, to be written; flash-attention has no such argument.

    Returns, and errors: as `attention_with_kvcache`.
    """
    return attention_with_kvcache(
        q, k_cache, v_cache, k, v, rotary_cos, rotary_sin, cache_seqlens, cache_batch_idx, cache_leftpad, block_table,
        causal=causal, window=window_size, scale=softmax_scale, softcap=softcap, rotary_interleaved=rotary_interleaved,
        alibi_slopes=alibi_slopes, num_splits=num_splits, return_lse=return_softmax_lse, out=out,
    )  # fmt: skip


def _seed(dropout_p: float, array: Any) -> int | None:
    """A new seed, where one is needed, from the generator of the array's library."""
    if not dropout_p:
        return None
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return int(torch.randint(2**63 - 1, ()))
    return int(np.random.randint(2**63 - 1, dtype=np.int64))  # the one that users seed


def _unpacked(what: str, packed: Any, leading: str, parts: int) -> list[Any]:
    """Views of what lies beside each other behind the leading dimensions. Raises DeviceError for another shape."""
    if not hasattr(packed, "shape"):
        expected = f"expected ({leading}, {parts}, heads, channels)"
        raise DeviceError(f"{what}: {type(packed).__name__} is not an array; {expected}")
    shape, names = tuple(packed.shape), leading.split(", ")
    if len(shape) != len(names) + 3 or shape[len(names)] != parts:
        raise DeviceError(f"{what}: shape {shape}; expected ({leading}, {parts}, heads, channels)")
    return [packed[..., part, :, :] for part in range(parts)]
