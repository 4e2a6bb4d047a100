"""Attention over keys and values in a cache: of batches, with new keys written first, and of packed sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ckmlir.nn.attention import (
    UNBOUNDED,
    bounds,
    common_keys,
    in_rows,
    outputs_of,
    packed_channels,
    starts_of,
    strides_key,
    strides_of,
    written_key,
    written_rows,
)
from ckmlir.nn.attention_parts import result_type, scales_of, sinks_of, slopes_of
from ckmlir.nn.calls import Call, beside
from ckmlir.nn.given import Given
from ckmlir.nn.indexed import vector
from ckmlir.nn.plain import checked, number
from ckmlir.nn.tensors import elementwise
from ckmlir.runtime.device import DeviceError

VARYING = ("sq", "q_strides", "o_strides")


@checked
def attention_with_kvcache(
    q: Any, k_cache: Any, v_cache: Any, k: Any = None, v: Any = None, rotary_cos: Any = None, rotary_sin: Any = None,
    cache_seqlens: Any = None, cache_batch_idx: Any = None, cache_leftpad: Any = None, block_table: Any = None, *,
    causal: bool = False, window: Sequence[int] = UNBOUNDED, scale: float | None = None, softcap: float = 0.0,
    rotary_interleaved: bool = True, alibi_slopes: Any = None, sinks: Any = None, q_scale: Any = None,
    k_scale: Any = None, v_scale: Any = None, dtype: str | None = None, num_splits: int = 0, return_lse: bool = False,
    out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """Attention over a cache, behind whose keys new ones are written first: `flash_attn_with_kvcache`.

    Args:
        q: (b, sq, h, d), the last queries of their sequences. f16, bf16 or f32.
        k_cache, v_cache: (batches, rows, hk, d) and (…, dv); with block_table (pages, page_size, hk, …). Written in
            place where k is given.
        k, v: (b, new, hk, d) and (…, dv), new keys and values, or None.
        rotary_cos, rotary_sin: (positions, r / 2), of q's type: with them the first r channels of q and k are rotated
            by their positions; of q all by the first new one's, unless attention is causal or has a window.
        cache_seqlens: (b,), i32: keys that are in the cache; one number for all; by default as many as there are rows.
        cache_batch_idx: (b,), i32: the batch of the cache that is each sequence's; by default the first is the first's.
        cache_leftpad: None: keys begin where their batches do.
        block_table: (b, entries), i32: in which pages the keys of each sequence lie.
        causal, window, scale, softcap, alibi_slopes, sinks, q_scale, k_scale, v_scale, dtype, return_lse, out: as for
            `attention`.
        rotary_interleaved: channels 2i and 2i + 1 are rotated together; else i and i + r / 2.
        num_splits: workgroups that share the keys of a block of queries; 0: as many as fill the device.

    Returns:
        (b, sq, h, dv), or that and the logarithms (b, h, sq).

    Raises:
        DeviceError, RequestError: as `attention`; arguments that do not go together.
    """
    call = Call(stream)
    cache = call.read if k is None else call.written
    arrays = {"q": call.read("q", q), "k": cache("k_cache", k_cache), "v": cache("v_cache", v_cache)}
    for one in arrays.values():
        one.require(ndim=4)
    query, key, value = (one.shape for one in arrays.values())
    if key[:3] != value[:3]:
        raise DeviceError(f"k_cache {key}, v_cache {value}: expected as many batches, rows and heads")
    if cache_leftpad is not None:
        raise DeviceError("cache_leftpad: no kernel passes over keys at the beginning; expected None")
    lengths = _lengths(call, cache_seqlens, arrays["q"], query[0])
    keys: dict[str, object] = {"b": query[0], "h": query[2], "hk": key[2], "sq": query[1], "layout": "bshd"}
    lists, rows = _where(call, keys, arrays["k"], cache_batch_idx, block_table)
    keys["sk"] = rows
    for name, one in arrays.items():
        if name != "q":
            keys |= strides_key(name, strides_of(packed_channels(one), "bshd"))
    new = None if k is None else call.read("k", k).require(ndim=4)
    if (k is None) != (v is None) or (new is not None and lengths is None):
        raise DeviceError("k, v, cache_seqlens: expected new keys with new values and where they begin, or none")
    if new is not None:
        rotary = (rotary_cos, rotary_sin, rotary_interleaved)
        each = causal or bounds(window) != UNBOUNDED
        assert lengths is not None
        appended = _Appended(call, arrays, new, call.read("v", v), lengths, lists)
        arrays["q"] = appended.run({**keys, "d": query[3], "dv": value[3], "dtype": arrays["q"].dtype}, rotary, each)
        grown = elementwise(f"a + {new.shape[1]}", lengths.array, stream=stream)
        lengths = call.read("cache_seqlens", grown)
    elif rotary_cos is not None or rotary_sin is not None:
        raise DeviceError("rotary_cos: there are no new keys; expected k and v, or q that is rotated")
    keys |= common_keys(arrays, causal, window, scale) | {
        "lse": return_lse, "soft_cap": softcap or None, "splits": num_splits,
        "seqlens_k": None if lengths is None else (rows,) * query[0],
    }  # fmt: skip
    keys |= strides_key("q", strides_of(packed_channels(arrays["q"]), "bshd"))
    logarithms = (query[0], query[2], query[1]) if return_lse else None
    outputs = outputs_of(call, out, (*query[:3], value[3]), result_type(arrays["q"], dtype, keys), logarithms)
    keys |= written_key("o", outputs.given["o"], "bshd")
    slopes, logits = slopes_of(call, alibi_slopes, query[0], query[2], keys), sinks_of(call, sinks, query[2], keys)
    scales = {"q": q_scale, "k": k_scale, "v": v_scale}
    inputs = {**arrays, "seqlen_k": lengths, **lists, "slopes": slopes, "sink": logits}
    inputs |= scales_of(call, scales, arrays, query[0], (query[2], key[2]), keys)
    return outputs.of(call.run("fmha_fwd_splitkv", keys, inputs, outputs.given, varying=VARYING))


@checked
def attention_paged(
    q: Any, k_cache: Any, v_cache: Any, cu_seqlens_q: Any, seqused_k: Any, block_table: Any, *, causal: bool = True,
    window: Sequence[int] = UNBOUNDED, scale: float | None = None, softcap: float = 0.0, alibi_slopes: Any = None,
    sinks: Any = None, q_scale: Any = None, k_scale: Any = None, v_scale: Any = None, dtype: str | None = None,
    return_lse: bool = False, out: Any = None, balanced: bool = False, stream: object = None,
) -> Any:  # fmt: skip
    """Attention of sequences that are prefilled and that decode, with K and V in pages: vLLM's
    `flash_attn_varlen_func` with a block_table.

    Args:
        q: (queries of all sequences, h, d), the last of their sequences. f16, bf16 or f32.
        k_cache, v_cache: (pages, page_size, hk, d) and (…, dv), new keys included.
        cu_seqlens_q: as for `attention_varlen`.
        seqused_k: (b,), i32: keys of each sequence.
        block_table: (b, entries), i32: in which pages the keys of each sequence lie.
        causal, window, scale, softcap, alibi_slopes, sinks, q_scale, k_scale, v_scale, dtype, return_lse, out: as for
            `attention`.
        balanced: keys of long sequences are cut into more shares, by the lengths in device memory, for few queries of
            sequences that differ much in length; of queries that see no keys behind their own.

    Returns:
        (queries, h, dv), or that and the logarithms (h, queries).

    Raises:
        DeviceError, RequestError: as `attention_varlen`.
    """
    call = Call(stream)
    table = call.numbers("block_table", block_table).require(ndim=2, dtype="i32").rows()
    b, entries = table.shape
    lengths = vector(call.numbers("seqused_k", seqused_k).require(shape=(b,), dtype="i32"))
    page = call.read("k_cache", k_cache).require(ndim=4).shape[1]
    lists: dict[str, Given | None] = {"seqlen_k": lengths, "block_table": _packed(table)}
    right = 0 if causal else bounds(window)[1]
    operator = "unified_attention" if right == 0 else "fmha_batch_prefill"
    if balanced and right != 0:
        raise DeviceError("balanced=True: queries see keys behind their own; expected causal=True or window=(left, 0)")
    more = {"balanced": True} if balanced else {}
    how = How(
        causal, window, scale, softcap, alibi_slopes, sinks, {"q": q_scale, "k": k_scale, "v": v_scale}, dtype,
        return_lse, out,
    )  # fmt: skip
    return _packed_queries(call, operator, (q, k_cache, v_cache), cu_seqlens_q, (entries * page,) * b, lists, how, more)


@checked
def attention_page_lists(
    q: Any, k_cache: Any, v_cache: Any, cu_seqlens_q: Any, kv_indptr: Any, kv_page_indices: Any,
    kv_last_page_lens: Any, *, causal: bool = False, window: Sequence[int] = UNBOUNDED, scale: float | None = None,
    softcap: float = 0.0, alibi_slopes: Any = None, sinks: Any = None, q_scale: Any = None, k_scale: Any = None,
    v_scale: Any = None, dtype: str | None = None, return_lse: bool = False, out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """`attention_paged` by SGLang's tables: the pages of all sequences in one list, as AITER's
    `mha_batch_prefill_func` has them.

    Args:
        kv_indptr: where the pages of each sequence begin in the list, and where the last's end: b + 1 numbers, i32.
            It is read back where it is a device's, which waits for it.
        kv_page_indices: (pages of all sequences,), i32.
        kv_last_page_lens: (b,), i32: how many keys of each sequence's last page count.

    Other arguments, results and errors are those of `attention_paged`.
    """
    call = Call(stream)
    indices = vector(call.numbers("kv_page_indices", kv_page_indices).require(ndim=1, dtype="i32"))
    places = starts_of("kv_indptr", kv_indptr, indices.shape[0])
    last = vector(call.numbers("kv_last_page_lens", kv_last_page_lens).require(shape=(len(places) - 1,), dtype="i32"))
    page = call.read("k_cache", k_cache).require(ndim=4).shape[1]
    lengths = tuple((end - begin) * page for begin, end in pairwise(places))
    given = call.read("q", q)
    lists: dict[str, Given | None] = {
        "kv_indptr": beside(call, given, np.asarray(places, np.int32)), "kv_page_indices": indices,
        "kv_last_page_lens": last,
    }  # fmt: skip
    how = How(
        causal, window, scale, softcap, alibi_slopes, sinks, {"q": q_scale, "k": k_scale, "v": v_scale}, dtype,
        return_lse, out,
    )  # fmt: skip
    return _packed_queries(call, "fmha_batch_prefill", (q, k_cache, v_cache), cu_seqlens_q, lengths, lists, how)


class How(NamedTuple):
    """Arguments that functions over pages have in common."""

    causal: bool
    window: Sequence[int]
    scale: float | None
    softcap: float
    alibi_slopes: Any
    sinks: Any
    scales: Mapping[str, Any]
    dtype: str | None
    return_lse: bool
    out: Any


def _packed_queries(
    call: Call, operator: str, given: tuple[Any, Any, Any], cu_seqlens_q: Any, lengths: tuple[int, ...],
    lists: dict[str, Given | None], how: How, more: Mapping[str, object] = MappingProxyType({}),
) -> Any:  # fmt: skip
    """Attention of packed queries over pages; lengths: the most keys of each sequence; more: keys of the operator."""
    q, k, v = given
    arrays = {"q": call.read("q", q).require(ndim=3)}
    arrays |= {name: call.read(f"{name}_cache", one).require(ndim=4) for name, one in (("k", k), ("v", v))}
    query, key, value = (one.shape for one in arrays.values())
    if key[:3] != value[:3]:
        raise DeviceError(f"k_cache {key}, v_cache {value}: expected as many pages, rows and heads")
    starts = starts_of("cu_seqlens_q", cu_seqlens_q, query[0])
    if len(starts) != len(lengths) + 1:
        raise DeviceError(f"cu_seqlens_q: {len(starts)} numbers; expected one more than the {len(lengths)} sequences")
    keys: dict[str, object] = {
        "h": query[1], "hk": key[2], "layout": "bshd", "page_size": key[1], "pages": key[0],
        "seqlens_q": tuple(end - begin for begin, end in pairwise(starts)), "seqlens_k": lengths,
        **common_keys(arrays, how.causal, how.window, how.scale), "lse": how.return_lse,
        "soft_cap": how.softcap or None, **more,
    }  # fmt: skip
    if operator == "fmha_batch_prefill":
        keys["table"] = "sglang" if "kv_indptr" in lists else "vllm"
    inputs: dict[str, Given | None] = {"q": in_rows("q", arrays["q"], keys)}
    for name in "kv":
        keys |= strides_key(name, strides_of(packed_channels(arrays[name]), "bshd"))
        inputs[name] = arrays[name]
    logarithms = (query[1], query[0]) if how.return_lse else None
    result = result_type(arrays["q"], how.dtype, keys)
    outputs = outputs_of(call, how.out, (*query[:2], value[3]), result, logarithms)
    written = outputs.given | {"o": written_rows("o", outputs.given["o"], keys)}
    inputs |= {"seqstart_q": beside(call, arrays["q"], np.asarray(starts, np.int32)), **lists}
    inputs["slopes"] = slopes_of(call, how.alibi_slopes, len(lengths), query[1], keys)
    inputs["sink"] = sinks_of(call, how.sinks, query[1], keys)
    inputs |= scales_of(call, how.scales, arrays, len(lengths), (query[1], key[2]), keys)
    return outputs.of(call.run(operator, keys, inputs, written))


class _Appended:
    """New keys and values that are written behind those of a cache."""

    def __init__(
        self, call: Call, arrays: dict[str, Given], k: Given, v: Given, lengths: Given, lists: dict[str, Given | None]
    ) -> None:
        new = k.shape[1]
        for one, like in ((k, arrays["k"]), (v, arrays["v"])):
            one.require(shape=(arrays["q"].shape[0], new, *like.shape[2:]), dtype=arrays["q"].dtype)
        self.call, self.arrays, self.lengths, self.lists, self.new = call, arrays, lengths, lists, new
        self.inputs: dict[str, Given | None] = {"knew": dense(k), "vnew": dense(v)}

    def run(self, keys: dict[str, object], rotary: tuple[Any, Any, bool], each: bool) -> Given:
        """Write them, and give the queries, rotated where there are tables."""
        cos, sin, interleaved = rotary
        q, rows = self.arrays["q"], keys["sk"]
        assert isinstance(rows, int)
        most = rows - self.new
        asked = {**keys, "snew": self.new, "sq": 0}
        inputs = {**self.inputs, "cached": self.lengths, **self.lists}
        if cos is not None:
            tables = [self.call.read(f"rotary_{name}", one).require(ndim=2, dtype=q.dtype).rows()
                      for name, one in (("cos", cos), ("sin", sin))]  # fmt: skip
            positions, half = tables[0].require(shape=tables[1].shape).shape
            most = min(most, positions - max(self.new, q.shape[1]))
            asked |= {
                "sq": q.shape[1], "rotary": 2 * half, "rotary_half": not interleaved, "most_positions": positions,
                "positions": "each" if each else "first", **strides_key("q", strides_of(packed_channels(q), "bshd")),
            }  # fmt: skip
            inputs |= {"rotary_cos": dense(tables[0]), "rotary_sin": dense(tables[1])}
            inputs |= {"q": q} if q.shape[1] else {}
        if most < 0:
            raise DeviceError(f"k: {self.new} new keys; expected fewer, or more than {rows} rows, or more positions")
        asked["cached"] = (most,) * q.shape[0]
        cache = {name: self.arrays[name] for name in "kv"}
        found = self.call.run("fmha_fwd_appendkv", asked, inputs, cache, kept=tuple(cache))
        return found.get("q_rotated", q)


def _lengths(call: Call, given: Any, q: Given, b: int) -> Given | None:
    """How many keys each sequence has."""
    if given is None:
        return None
    if isinstance(given, int):
        return beside(call, q, np.full(b, number("cache_seqlens", given, 0), np.int32))
    return vector(call.numbers("cache_seqlens", given).require(shape=(b,), dtype="i32"))


def _where(
    call: Call, keys: dict[str, object], cache: Given, batches: Any, table: Any
) -> tuple[dict[str, Given | None], int]:
    """The arrays that say where the keys of sequences lie, noted among the keys, and how many rows each may have."""
    b, (count, rows) = keys["b"], cache.shape[:2]
    assert isinstance(b, int)
    if table is not None:
        if batches is not None:
            raise DeviceError("cache_batch_idx, block_table: keys lie in batches or in pages; expected one of both")
        entries = call.numbers("block_table", table).require(ndim=2, dtype="i32").rows()
        if entries.shape[0] != b:
            raise DeviceError(f"block_table: shape {entries.shape}; expected a row for each of {b} sequences")
        keys |= {"page_size": rows, "pages": count}
        return {"block_table": _packed(entries)}, entries.shape[1] * rows
    if batches is not None:
        keys["cache_batches"] = count
        given = call.numbers("cache_batch_idx", batches).require(shape=(b,), dtype="i32")
        return {"cache_batch_idx": vector(given)}, rows
    if count != b:
        raise DeviceError(f"k_cache: {count} batches for {b} sequences; expected as many, or cache_batch_idx")
    return {}, rows


def dense(given: Given) -> Given:
    """An array without gaps. Raises DeviceError for another one."""
    packed = given.reshaped(-1) if 0 not in given.shape else given
    if packed.ndim == 1 and packed.shape[0] > 1 and packed.strides != (1,):
        raise DeviceError(f"{given.what}: elements have gaps; make a contiguous copy first")
    return given


def _packed(table: Given) -> Given:
    """A table whose rows follow each other."""
    return vector(table).reshaped(*table.shape)
