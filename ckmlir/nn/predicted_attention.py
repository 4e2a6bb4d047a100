"""Attention to blocks of keys that are predicted from the means of blocks: SpargeAttn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ckmlir.nn import plain
from ckmlir.nn.attention import (
    UNBOUNDED,
    outputs_of,
    packed_channels,
    read_batches,
    strides_key,
    strides_of,
    written_key,
)
from ckmlir.nn.attention import VARYING as OF_ATTENTION
from ckmlir.nn.attention_parts import sinks_of, slopes_of
from ckmlir.nn.calls import Call, dtype_name
from ckmlir.nn.given import Given
from ckmlir.nn.kinds_of_attention import GRANULARITIES, channel_scales
from ckmlir.nn.plain import checked
from ckmlir.runtime.device import DeviceError

VARYING = ("sq", "sk", "q_strides", "k_strides")
QUANTIZED = ("i8", "fp8")


@checked
def predict_blocks(
    q: Any, k: Any, *, block_size: tuple[int, int] = (64, 128), topk: float | None = None, cdfthreshd: float = 0.98,
    simthreshd1: float = 0.6, thresholds: Any = None, causal: bool = False, smooth: bool = False, first: bool = False,
    scale: float | None = None, layout: str = "bshd", return_lists: bool = False, out: Any = None,
    stream: object = None,
) -> Any:  # fmt: skip
    """The blocks of keys that matter to each block of queries, as `sparse_attention` takes them: SpargeAttn's
    prediction (arXiv 2502.18137).

    Args:
        q: (b, sq, h, d). k: (b, sk, hk, d), h a multiple of hk. f16, bf16 or f32, as for `attention`.
        block_size: queries and keys of a block, powers of two from 32.
        topk: the share of the blocks of keys that is taken.
        cdfthreshd: without topk, what the softmax of the blocks taken adds up to.
        simthreshd1: how alike the rows of a block have to be; blocks that are not are taken, and take all.
        thresholds: instead (h, 2), f32: simthreshd1 and cdfthreshd of each head.
        causal: as for `attention`; no block is taken that is wholly behind the last query of a block.
        smooth: keys come without their mean over the sequence.
        first: the first block of keys is always taken.
        scale, layout: as for `attention`.
        return_lists: also return lists of the blocks, and how many they are.
        out: the map, to be written; with return_lists also both.

    Returns:
        (b, h, blocks of queries, blocks of keys), i8, or that, numbers of blocks of the same shape with -1 behind the
        last, i32, and (b, h, blocks of queries), i32.

    Raises:
        DeviceError, RequestError: as `attention`.
    """
    call = Call(stream)
    arrays, keys = _read(call, q, k, layout)
    keys |= {
        **_wanted(block_size, topk, cdfthreshd, simthreshd1), "smooth": smooth, "first": first,
        "mask": "bottom_right" if causal else "none", "scale": scale, "lists": return_lists,
    }  # fmt: skip
    inputs: dict[str, Given | None] = {**arrays, **_thresholds(call, thresholds, keys)}
    heads, *sizes = (int(str(keys[name])) for name in ("h", "sq", "sk", "block_q", "block_k"))
    down, across = (-(-length // size) for length, size in zip(sizes[:2], sizes[2:], strict=True))
    shape = arrays["q"].shape[0], heads, down, across
    lists = {"block_list": (shape, "i32"), "block_counts": (shape[:3], "i32")} if return_lists else {}
    outputs = call.outputs(out, block_map=(shape, "i8"), **lists)
    return outputs.of(call.run("predict_blocks", keys, inputs, outputs.given, varying=VARYING))


@checked
def sparge_attention(
    q: Any, k: Any, v: Any, *, block_size: tuple[int, int] = (64, 128), topk: float | None = None,
    cdfthreshd: float = 0.98, simthreshd1: float = 0.6, thresholds: Any = None, smooth: bool = False,
    first: bool = False, pv_threshold: float | None = None, quantized: str | None = None, granularity: str = "block",
    v_scale: Any = None, dtype: str | None = None, causal: bool = False, window: Sequence[int] = UNBOUNDED,
    scale: float | None = None, softcap: float = 0.0, alibi_slopes: Any = None, sinks: Any = None,
    layout: str = "bshd", return_lse: bool = False, out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """`attention` to the blocks of keys that `predict_blocks` finds for each block of queries: SpargeAttn; with
    `quantized` in front of `sage_attention`.

    Args:
        q, k, v, causal, window, scale, softcap, alibi_slopes, sinks, layout, return_lse, out: as for `attention`.
        block_size: queries and keys of a block, powers of two, from 64 and 32.
        topk, cdfthreshd, simthreshd1, thresholds, smooth, first: as for `predict_blocks`.
        pv_threshold: as for `sparse_attention`.
        quantized: i8 or fp8: what q and k become by blocks, once blocks of keys are predicted. v is fp8, f16 or bf16;
            smooth, for which keys also lose their mean before that, and return_lse exclude each other.
        granularity, v_scale, dtype: with `quantized`, as for `sage_attention`.

    Returns, and errors: as `attention`.
    """
    call = Call(stream)
    arrays, keys = read_batches(call, (q, k, v), causal, window, scale, layout, same=quantized is None)
    result, of_values = arrays["q"].dtype, {}
    if quantized is not None:
        result = dtype_name("dtype", dtype or "bf16")
        keys |= {"quantised": plain.word("quantized", dtype_name("quantized", quantized), QUANTIZED), "out": result}
        keys |= {"v_dtype": arrays["v"].dtype, "scales": plain.word("granularity", granularity, GRANULARITIES)}
        of_values = channel_scales(call, arrays["v"], v_scale)
    elif v_scale is not None or dtype is not None or granularity != "block":
        raise DeviceError("granularity, v_scale, dtype: only with quantized; leave them out")
    b, h, rows = (int(str(keys[name])) for name in ("b", "h", "sq"))
    shape = (*arrays["q"].shape[:3], arrays["v"].shape[3])
    keys |= {**_wanted(block_size, topk, cdfthreshd, simthreshd1), "smooth": smooth, "first": first}
    keys |= {"pv_threshold": pv_threshold, "lse": return_lse, "soft_cap": softcap or None}
    inputs: dict[str, Given | None] = {**arrays, **of_values, **_thresholds(call, thresholds, keys)}
    outputs = outputs_of(call, out, shape, result, (b, h, rows) if return_lse else None)
    keys |= written_key("o", outputs.given["o"], layout)
    inputs |= {"slopes": slopes_of(call, alibi_slopes, b, h, keys), "sink": sinks_of(call, sinks, h, keys)}
    name = "sparge_attention" if quantized is None else "sparge_sage_attention"
    return outputs.of(call.run(name, keys, inputs, outputs.given, varying=OF_ATTENTION))


def _wanted(block_size: Any, topk: float | None, cdfthreshd: float, simthreshd1: float) -> dict[str, object]:
    """The keys of blocks, and of how many are taken. Raises DeviceError for another number of sizes."""
    lengths = plain.numbers("block_size", block_size)
    if len(lengths) != 2 or min(lengths) < 1:
        raise DeviceError(f"block_size={lengths}: expected queries and keys of a block")
    sizes = {"block_q": lengths[0], "block_k": lengths[1]}
    return {**sizes, "topk": topk, "cdfthreshd": cdfthreshd, "simthreshd1": simthreshd1}


def _thresholds(call: Call, thresholds: Any, keys: dict[str, object]) -> dict[str, Given]:
    """Those of each head, if there are any, noted among the keys."""
    if thresholds is None:
        return {}
    keys["by_head"] = True
    given = call.read("thresholds", thresholds).require(shape=(int(str(keys["h"])), 2), dtype="f32")
    return {"thresholds": given.contiguous()}


def _read(call: Call, q: Any, k: Any, layout: str) -> tuple[dict[str, Given], dict[str, object]]:
    """q and k of batches, and the keys that follow from them. Raises DeviceError where they do not fit."""
    plain.word("layout", layout, ("bshd", "bhsd"))
    arrays = {name: call.read(name, one).require(ndim=4) for name, one in (("q", q), ("k", k))}
    sequence, head = layout.index("s"), layout.index("h")
    query, key = (one.shape for one in arrays.values())
    arrays["k"].require(dtype=arrays["q"].dtype)
    if (query[0], query[3]) != (key[0], key[3]):
        raise DeviceError(f"q {query}, k {key}: expected as many batches and channels")
    keys: dict[str, object] = {
        "b": query[0], "h": query[head], "hk": key[head], "sq": query[sequence], "sk": key[sequence], "d": query[3],
        "dtype": arrays["q"].dtype, "layout": layout,
    }  # fmt: skip
    for name, one in arrays.items():
        keys |= strides_key(name, strides_of(packed_channels(one), layout))
    return arrays, keys
