"""Named schedules of the operators' loops, as text; docs/schedules.md explains the language and each of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ckmlir.dialect.schedule import Schedule

_PING_PONG = "order ping_pong; fences memory; priority math 1; groups 2"
_WOVEN = "order weave; fences products"
_WOVEN_STEP = (
    "ahead prepare 4, load_k 3, k_lds 2, k_read 1, qk 1, top 1, load_v 2, v_lds 1, load_s 2; buffers 2; unroll 2; "
    "step qk, k_read, exp, rescale, v_lds, load_v, load_s, pv, v_read, top, k_lds, load_k, prepare; " + _WOVEN
)
_WOVEN_COPIES = (
    "ahead prepare 4, load_k 3, k_read 1, qk 1, top 1, load_v 1, load_s 2; path direct; buffers 2; unroll 2; "
    "step qk, k_read, exp, rescale, load_s, pv, v_read, load_k, load_v, top, prepare; " + _WOVEN
)
_INTERLEAVED = "order interleave; fences memory"


def _memory_bound() -> dict[str, str]:
    """For 2 to 8 tiles on their way from memory: phase after phase, and with the waves in step."""
    found = {}
    for tiles in range(2, 9):
        ahead = f"ahead load {tiles}, to_lds 1"
        found[f"mem{tiles}"] = f"schedule mem{tiles} 1; {ahead}; order chunks; fences memory"
        found[f"mem{tiles}_interwave"] = (
            f"schedule mem{tiles}_interwave 1; {ahead}; order interwave; fences clusters; priority math 1"
        )
    return found


_GEMM = {
    "unpipelined": "schedule unpipelined 1",
    "v1": "schedule v1 1; ahead load 1, to_lds 1; step load, from_lds, math, to_lds",
    "v2": "schedule v2 1; ahead load 2, to_lds 1; step load, from_lds, math, to_lds",
    "v4": "schedule v4 1; ahead load 4, to_lds 1; step load, from_lds, math, to_lds",
    **_memory_bound(),
    "compv3": f"schedule compv3 1; ahead load 2, to_lds 1; {_INTERLEAVED}",
    "compv4": f"schedule compv4 1; ahead load 2, to_lds 1; buffers 2; {_INTERLEAVED}",
    "compv5": "schedule compv5 1; ahead load 2, to_lds 1; buffers 2; "
    "step to_lds, load, from_lds, barrier, math, barrier; fences memory; priority math 1; groups 2",
    "compv6": f"schedule compv6 1; ahead load 3, to_lds 1; {_INTERLEAVED}",
    "hot_loop": "schedule hot_loop 1; ahead load 3, to_lds 2, from_lds 1; buffers 2; "
    "step to_lds, load, from_lds, math; mix hot_loop",
    "async": f"schedule async 1; ahead load 2; path direct; buffers 3; {_INTERLEAVED}",
    "async_single": f"schedule async_single 1; ahead load 1; path direct; {_INTERLEAVED}",
    "async_narrow": f"schedule async_narrow 1; ahead load 1; path direct; buffers 1, a 2; {_INTERLEAVED}; "
    "priority math 1",
    "async_double": f"schedule async_double 1; ahead load 1; path direct; buffers 2; {_INTERLEAVED}",
    "async_late": f"schedule async_late 1; ahead load 2; path direct; buffers 2; {_INTERLEAVED}",
    "async_wide": f"schedule async_wide 1; ahead load 2; path direct; buffers 2, a 3; {_INTERLEAVED}",
    "async_wide_carried": "schedule async_wide_carried 1; ahead load 2; path direct; buffers 2, a 3; slots carried; "
    f"{_INTERLEAVED}",
    "async_wide_last": "schedule async_wide_last 1; ahead load 2; path direct; buffers 2, a 3; slots carried; last 4; "
    f"{_INTERLEAVED}",
    "ping_pong": f"schedule ping_pong 1; ahead load 1, to_lds 1; {_PING_PONG}",
    "ping_pong_async": f"schedule ping_pong_async 1; ahead load 1; path direct; buffers 2; {_PING_PONG}",
    "preshuffle": f"schedule preshuffle 1; ahead load 2, to_lds 1; path straight, a through; buffers 2; {_INTERLEAVED}",
    "straight": f"schedule straight 1; ahead load 2, to_lds 1; path straight, a through; buffers 2; {_INTERLEAVED}",
    "straight_single": "schedule straight_single 1; ahead load 2, to_lds 1; path straight, a through; "
    f"{_INTERLEAVED}",
}
GEMM: Mapping[str, str] = {**_GEMM, "single_buffer": _GEMM["compv3"], "prefetch": _GEMM["compv4"]}
"""Stages load, to_lds, from_lds, math; LDS tensors a, b, and of two products up. The last two are other names."""

CHAIN: Mapping[str, str] = {
    "chain": "schedule chain 1; ahead load 2, to_lds 1; buffers 2; step to_lds, load, from_lds, math, out"
}
"""Of a block times a second matrix. Stages load, to_lds, from_lds, math, out; LDS tensor down."""

_ATTENTION = {
    "unpipelined": "schedule unpipelined 1",
    "qr": "schedule qr 1; ahead prepare 2, load_k 1, load_v 1, load_s 1; "
    "step k_lds, v_lds, load_k, load_v, prepare, k_read, qk, top, exp, load_s, v_read, rescale, pv",
    "qr_two_ahead": "schedule qr_two_ahead 1; ahead prepare 3, load_k 2, load_v 2, load_s 1; "
    "step k_lds, v_lds, load_k, load_v, prepare, k_read, qk, top, exp, load_s, v_read, rescale, pv",
    "qr_late": "schedule qr_late 1; ahead prepare 2, load_k 1, load_v 1, load_s 1; "
    "step k_lds, v_lds, k_read, qk, load_k, prepare, top, exp, load_s, rescale, v_read, pv, load_v",
    "qr_async": "schedule qr_async 1; ahead prepare 2, load_k 1, load_v 1, load_s 1; path k direct; buffers k 2; "
    "step k_read, v_lds, load_v, load_k, prepare, qk, fence, top, exp, fence, load_s, v_read, rescale, pv, fence",
    "qr_async_trload": "schedule qr_async_trload 1; ahead prepare 2, load_k 1, load_v 1, load_s 1; path direct; "
    "buffers 2; step k_read, load_v, load_k, prepare, qk, fence, top, exp, fence, load_s, v_read, rescale, pv, fence",
    "qr_async_pinned": "schedule qr_async_pinned 1; ahead prepare 2, load_k 1, load_v 1, load_s 1, k_read 1, qk 1; "
    "path k direct; step v_lds, load_k, load_v, prepare, fence, top, exp, fence, load_s, v_read, rescale, pv, fence, "
    "k_read, fence, qk; apart k, v",
    "qr_async_ping_pong": "schedule qr_async_ping_pong 1; ahead prepare 3, load_k 1, load_v 2, load_s 1, v_lds 1, "
    "k_read 1, qk 1; path k direct; step load_k, v_read, fence, top, exp, fence, barrier, fence, rescale, pv, "
    "fence, barrier, k_read, v_lds, load_v, prepare, load_s, fence, barrier, fence, qk, fence, barrier; "
    "priority pv 1, qk 1; groups 2",
    "qr_async_trload_ping_pong": "schedule qr_async_trload_ping_pong 1; ahead prepare 3, load_k 1, load_v 2, load_s 1, "
    "k_read 1, qk 1; path direct; buffers v 2; step load_k, v_read, fence, top, exp, fence, barrier, fence, rescale, "
    "pv, fence, barrier, k_read, load_v, prepare, load_s, fence, barrier, fence, qk, fence, barrier; elements 2; "
    "priority pv 1, qk 1; groups 2",
    "qr_woven": f"schedule qr_woven 1; {_WOVEN_STEP}; lead 4; elements 2",
    "qr_woven_bytes": f"schedule qr_woven_bytes 1; {_WOVEN_STEP}; lead 4; elements 4",
    "qr_woven_deep": f"schedule qr_woven_deep 1; {_WOVEN_STEP}; lead 2; elements 4",
    "qr_woven_async": f"schedule qr_woven_async 1; {_WOVEN_COPIES}; lead 4; spacing 3; elements 2",
    "qr_woven_async_deep": f"schedule qr_woven_async_deep 1; {_WOVEN_COPIES}; lead 2; spacing 1; elements 4",
    "qr_woven_async_far": "schedule qr_woven_async_far 1; ahead prepare 4, load_k 3, k_read 1, qk 1, top 1, load_v 2, "
    "load_s 2; path direct; buffers 4; unroll 4; "
    f"step qk, k_read, exp, rescale, load_v, load_s, pv, v_read, top, load_k, prepare; {_WOVEN}; lead 4; elements 2",
}
ATTENTION: Mapping[str, str] = {**_ATTENTION, "prefetch": _ATTENTION["qr"]}
"""Stages load_k, k_lds, load_v, v_lds, k_read, qk, top, exp, rescale, v_read, pv, and, where parts have them, prepare
(of keys) and load_s (for scores); LDS tensors k, v. The last is another name."""

EDGE: Mapping[str, str] = {
    **{name: _ATTENTION[name] for name in ("qr", "qr_async", "qr_async_trload")},
    "qr_fenced": "schedule qr_fenced 1; ahead prepare 2, load_k 1, load_v 1, load_s 1; "
    "step k_lds, v_lds, fence, k_read, qk, fence, top, exp, fence, "
    "load_k, load_v, prepare, load_s, rescale, v_read, pv, fence; elements 2",
}
"""Of a second loop over keys, for the few blocks that a mask cuts: their prologues are short. The last leaves registers
alone that the kernel's woven loop takes."""

BACKWARD: Mapping[str, str] = {
    "unpipelined": "schedule unpipelined 1",
    "phases": "schedule phases 1; ahead load_q 1, load_do 1, load_rows 1, q_lds 1, do_lds 1, rows_lds 1, q_read 1; "
    "step rows_read, s, fence, do_read, weights, fence, do_across_read, dp, fence, load_q, load_do, load_rows, "
    "q_across_read, ds, ds_lds, dv, fence, ds_read, dk, fence, q_lds, do_lds, rows_lds, dq, fence, q_read, dq_out, "
    "fence",
    "woven": "schedule woven 1; ahead load_q 2, load_do 2, load_rows 2, q_lds 1, do_lds 1, rows_lds 1; "
    "buffers 2, ds 1; step s, rows_read, q_read, dp, weights, do_read, q_lds, load_q, "
    "dv, ds, do_across_read, do_lds, load_do, dk, ds_lds, q_across_read, rows_lds, load_rows, dq, ds_read, dq_out; "
    f"{_WOVEN}; lead 4; elements 2",
    "woven_queries": "schedule woven_queries 1; ahead load_q 2, load_do 1, load_rows 1, q_lds 1, do_lds 1, rows_lds 1; "
    "buffers 1, q 2, q_across 2; step s, rows_read, q_read, dp, weights, do_read, q_lds, "
    "dv, ds, do_across_read, load_q, load_do, load_rows, dk, ds_lds, q_across_read, "
    f"dq, ds_read, do_lds, rows_lds, dq_out; {_WOVEN}; lead 4; elements 2",
}
"""Of the loop over queries of attention backward; its stages are those of `backward/loop_kernel.differentiate`, LDS
tensors are q, q_across, do, do_across, exponent, delta, ds, and random with dropout."""
BACKWARD_KEYS: Mapping[str, str] = {
    "keys_unpipelined": "schedule keys_unpipelined 1",
    "keys": "schedule keys 1; ahead load_k 1, load_v 1, load_rows 1; step k_lds, rows_lds, k_read, rows_read, s, "
    "weights, fence, dv, dv_out, fence, dp, ds, ds_lds, across_lds, fence, load_k, load_v, load_rows, dk, dk_out, "
    "fence, ds_read, across_read, dq, fence",
}
"""Of its loop over keys, for few queries: stages of `backward/keys_loop_kernel.differentiate_keys`, LDS tensors k,
k_across, ds, and random with dropout."""

SSD: Mapping[str, str] = {
    "prefetch": "schedule prefetch 1; ahead load 1",
    "unpipelined": "schedule unpipelined 1",
}
"""Of the loop over blocks of places of `ssd_fwd`. Stages load, to_lds, earlier, scores, within, out, update; LDS
tensors b, b_across, x, state, sums, factors, weights."""


@lru_cache(maxsize=1024)
def parse(text: str) -> Schedule:
    """A schedule's text as data; the modules of the dialect that this imports need no MLIR."""
    from ckmlir.dialect.schedule import Schedule

    return Schedule.parse(text)
