"""Attention: of batches, and of sequences of different lengths that follow each other.

`flash.py` has the same under the names and with the arguments of flash-attention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ckmlir.nn import plain
from ckmlir.nn.array import Array
from ckmlir.nn.attention_parts import bias_of, result_type, scales_of, seeds_of, sinks_of, slopes_of
from ckmlir.nn.calls import Call, beside
from ckmlir.nn.given import Given
from ckmlir.nn.gradients import differentiable
from ckmlir.nn.outputs import Outputs
from ckmlir.nn.plain import checked
from ckmlir.nn.session import TYPICAL
from ckmlir.runtime.device import DeviceError

UNBOUNDED = (-1, -1)
VARYING = ("sq", "sk", "q_strides", "k_strides", "v_strides", "o_strides")
"""Keys that change with the lengths of sequences."""


@checked
@differentiable
def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    window: Sequence[int] = UNBOUNDED,
    scale: float | None = None,
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    sinks: Any = None,
    bias: Any = None,
    q_scale: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    dtype: str | None = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    deterministic: bool = False,
    layout: str = "bshd",
    return_lse: bool = False,
    out: Any = None,
    stream: object = None,
) -> Any:
    """softmax(scale q kᵀ) v for every head: `flash_attn_func`.

    Args:
        q: (b, sq, h, d). k, v: (b, sk, hk, d) and (b, sk, hk, dv), h a multiple of hk. f16, bf16, f32 or fp8; rows
            of a head contiguous, whole vectors of 16 bytes.
        causal: the last query attends to the last key, others as far before.
        window: how many keys to the left and to the right a query attends to; -1: all.
        scale: by default 1 / sqrt(d).
        softcap: scores are at most this, by a tanh; 0: no such bound.
        alibi_slopes: (h,), or (b, h) with slopes of each sequence, f32.
        sinks: (h,), f32, a logit of each head that joins its sums of exponentials, as gpt-oss has them.
        bias: (sq, sk), (h, sq, sk) or (b, h, sq, sk), of which b and h may be 1, added to the scaled scores, as an
            `attn_mask` of PyTorch's that has numbers; of q's type, f32 for fp8.
        q_scale, k_scale, v_scale: for fp8, what the elements of each head are multiplied by, (b, h), (b, hk) and
            (b, hk), f32; None: ones.
        dtype: of the result, by default q's, or fp8. For fp8 operands bf16 (the default), f16, f32 or fp8.
        dropout_p: the probability with which a weight is dropped; the others are multiplied by 1 / (1 - dropout_p).
        seed: of its random numbers, 0 to 2^63 - 1: with the same one the same weights are dropped, in gradients too.
        deterministic: of the gradients, where PyTorch records the call: the same bits in every run, for more memory. So
            they are where PyTorch is told to use_deterministic_algorithms.
        layout: "bshd", or "bhsd" as PyTorch's scaled_dot_product_attention has it, for all arrays.
        return_lse: also return the logarithms of the sums of exponentials, (b, h, sq), f32.
        out: as q with dv channels, to be written; with return_lse also both.

    Returns:
        As q with dv channels, or that and the logarithms.

    Raises:
        DeviceError: shapes or types do not fit, or arrays lie as no kernel takes them; dropout without a seed.
        RequestError: the operator refuses the sizes.
    """
    call = Call(stream)
    arrays, keys = read_batches(call, (q, k, v), causal, window, scale, layout)
    keys |= {"lse": return_lse, "soft_cap": softcap or None}
    query, value = arrays["q"].shape, arrays["v"].shape
    shape, logarithms = (*query[:3], value[3]), (query[0], *(query[layout.index(dim)] for dim in "hs"))
    result = result_type(arrays["q"], dtype, keys)
    outputs = outputs_of(call, out, shape, result, logarithms if return_lse else None)
    keys |= written_key("o", outputs.given["o"], layout)
    heads = heads_of(arrays, layout)[0]
    inputs = {
        **arrays,
        "slopes": slopes_of(call, alibi_slopes, query[0], heads, keys),
        "sink": sinks_of(call, sinks, heads, keys),
        "bias": bias_of(call, bias, sizes_of(arrays, layout), arrays["q"].dtype, keys),
        **scales_of(call, {"q": q_scale, "k": k_scale, "v": v_scale}, arrays, query[0], heads_of(arrays, layout), keys),
        **seeds_of(call, dropout_p, seed, arrays["q"], keys),
    }
    return outputs.of(call.run("fmha_fwd", keys, inputs, outputs.given, VARYING, in_place={"o": ("q",)}))


@checked
@differentiable
def attention_varlen(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any = None,
    *,
    causal: bool = False,
    window: Sequence[int] = UNBOUNDED,
    scale: float | None = None,
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    sinks: Any = None,
    q_scale: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    dtype: str | None = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    deterministic: bool = False,
    return_lse: bool = False,
    out: Any = None,
    stream: object = None,
) -> Any:
    """Attention within each of several sequences that follow each other: `flash_attn_varlen_func`.

    Args:
        q: (queries of all sequences, h, d). k, v: (keys of all sequences, hk, d) and (…, hk, dv).
        cu_seqlens_q: where sequences begin among the queries, and where the last ends: b + 1 numbers, a list or an
            array of the host or the device. That of a device is read back, which waits for it.
        cu_seqlens_k: the same of the keys, by default that of the queries.

    Other arguments, results and errors are those of `attention`; the logarithms are (h, queries of all sequences).
    """
    call = Call(stream)
    arrays, starts, keys = read_sequences(call, (q, k, v), cu_seqlens_q, cu_seqlens_k, causal, window, scale)
    keys |= {"lse": return_lse, "soft_cap": softcap or None}
    (total, heads, _), channels = arrays["q"].shape, arrays["v"].shape[2]
    inputs: dict[str, Given | None] = {name: in_rows(name, one, keys) for name, one in arrays.items()}
    logarithms = (heads, total) if return_lse else None
    outputs = outputs_of(call, out, (total, heads, channels), result_type(arrays["q"], dtype, keys), logarithms)
    written = outputs.given | {"o": written_rows("o", outputs.given["o"], keys)}
    inputs |= starts
    sequences, scales = starts["seqstart_q"].shape[0] - 1, {"q": q_scale, "k": k_scale, "v": v_scale}
    inputs["slopes"] = slopes_of(call, alibi_slopes, sequences, heads, keys)
    inputs["sink"] = sinks_of(call, sinks, heads, keys)
    inputs |= scales_of(call, scales, arrays, sequences, (heads, arrays["k"].shape[1]), keys)
    inputs |= seeds_of(call, dropout_p, seed, arrays["q"], keys)
    typical = {"seqlens_q": (TYPICAL,), "seqlens_k": (TYPICAL,)}
    return outputs.of(call.run("fmha_fwd", keys, inputs, written, VARYING, typical, {"o": ("q",)}))


def read_batches(
    call: Call, given: Sequence[Any], causal: bool, window: Sequence[int], scale: float | None, layout: str,
    same: bool = True,
) -> tuple[dict[str, Given], dict[str, object]]:  # fmt: skip
    """q, k and v of batches, and the keys that follow from them; `same`: v is of the type of q and k.

    Raises DeviceError where they do not fit.
    """
    plain.word("layout", layout, ("bshd", "bhsd"))
    arrays = {name: call.read(name, one).require(ndim=4) for name, one in zip("qkv", given, strict=True)}
    sequence, head = layout.index("s"), layout.index("h")
    query, key, value = (one.shape for one in arrays.values())
    if not (query[0] == key[0] == value[0] and key[sequence] == value[sequence] and key[head] == value[head]):
        raise DeviceError(f"q {query}, k {key}, v {value}: expected as many batches, keys and heads in k and v")
    keys: dict[str, object] = {
        "b": query[0], "h": query[head], "hk": key[head], "sq": query[sequence], "sk": key[sequence], "layout": layout,
        **common_keys(arrays, causal, window, scale, same),
    }  # fmt: skip
    for name, one in arrays.items():
        keys |= strides_key(name, strides_of(packed_channels(one), layout))
    return arrays, keys


def heads_of(arrays: Mapping[str, Given], layout: str) -> tuple[int, int]:
    """Heads of q and of k."""
    return arrays["q"].shape[layout.index("h")], arrays["k"].shape[layout.index("h")]


def sizes_of(arrays: Mapping[str, Given], layout: str) -> tuple[int, int, int, int]:
    """Of scores: batches, heads of Q, queries and keys."""
    query, key = (dict(zip(layout, arrays[name].shape, strict=True)) for name in "qk")
    return query["b"], query["h"], query["s"], key["s"]


def read_sequences(
    call: Call, given: Sequence[Any], cu_seqlens_q: Any, cu_seqlens_k: Any, causal: bool, window: Sequence[int],
    scale: float | None,
) -> tuple[dict[str, Given], dict[str, Given], dict[str, object]]:  # fmt: skip
    """q, k and v of sequences that follow each other, as they were given; where sequences begin, as kernels take it;
    and the keys that follow from both.

    Raises DeviceError where they do not fit.
    """
    arrays = {name: call.read(name, one).require(ndim=3) for name, one in zip("qkv", given, strict=True)}
    query, key, value = (one.shape for one in arrays.values())
    if key[:2] != value[:2]:
        raise DeviceError(f"k {key}, v {value}: expected as many keys and heads")
    starts = {"q": starts_of("cu_seqlens_q", cu_seqlens_q, query[0])}
    starts["k"] = starts["q"] if cu_seqlens_k is None else starts_of("cu_seqlens_k", cu_seqlens_k, key[0])
    if len(starts["q"]) != len(starts["k"]) or starts["k"][-1] != key[0]:
        raise DeviceError(
            f"cu_seqlens_k: {len(starts['k'])} numbers that end with {starts['k'][-1]}; expected {len(starts['q'])} "
            f"that end with the {key[0]} keys"
        )
    keys: dict[str, object] = {
        "mode": "group", "h": query[1], "hk": key[1], "layout": "bshd",
        **{f"seqlens_{side}": tuple(np.diff(one).tolist()) for side, one in starts.items()},
        **common_keys(arrays, causal, window, scale),
    }  # fmt: skip
    lists = {f"seqstart_{side}": beside(call, arrays["q"], np.asarray(one, np.int32)) for side, one in starts.items()}
    return arrays, lists, keys


def strides_of(array: Given, layout: str) -> tuple[int, ...] | None:
    """From one batch, head and row to the next, where it matters how an array lies."""
    order = (0, layout.index("h"), layout.index("s"))
    return tuple(array.strides[dim] for dim in order) if array.is_told else None


def strides_key(name: str, strides: tuple[int, ...] | None) -> dict[str, object]:
    """The key that says how an array lies, if any."""
    return {} if strides is None else {f"{name}_strides": strides}


def common_keys(
    arrays: dict[str, Given], causal: bool, window: Sequence[int], scale: float | None, same: bool = True
) -> dict[str, object]:
    """The keys that all functions have; `same`: V is of the type of Q and K."""
    q, k, v = (arrays[name] for name in "qkv")
    for one in (k, v) if same else (k,):
        one.require(dtype=q.dtype)
    if q.shape[-1] != k.shape[-1]:
        raise DeviceError(f"q {q.shape}, k {k.shape}: expected as many channels")
    left, right = bounds(window)
    right = 0 if causal else right
    mask = "none" if (left, right) == UNBOUNDED else f"window_bottom_right:{left},{right}"
    return {
        "d": q.shape[-1], "dv": v.shape[-1], "dtype": q.dtype, "mask": mask, "scale": scale,
    }  # fmt: skip


def bounds(window: Sequence[int]) -> tuple[int, int]:
    """Keys to the left and to the right of a query. Raises DeviceError for what is not two numbers."""
    found = plain.numbers("window", window)
    if len(found) != 2:
        raise DeviceError(f"window={found}: expected two numbers, keys to the left and to the right, -1 for all")
    return found[0], found[1]


def outputs_of(
    call: Call, out: Any, shape: tuple[int, ...], dtype: str, logarithms: tuple[int, ...] | None
) -> Outputs:
    """The result, and, where they have a shape, the logarithms."""
    lse = {} if logarithms is None else {"lse": (logarithms, "f32")}
    return call.outputs(out, o=(shape, dtype), **lse)


def has_channels(array: Given) -> bool:
    """Whether the channels of a head are contiguous."""
    return array.shape[-1] < 2 or array.strides[-1] == 1 or 0 in array.shape


def written_key(name: str, out: Given | None, layout: str) -> dict[str, object]:
    """As `strides_key`, of an output: one that is given, in which the channels of a head are contiguous."""
    return {} if out is None or not has_channels(out) else strides_key(name, strides_of(out, layout))


def written_rows(name: str, out: Given | None, keys: dict[str, object]) -> Given | None:
    """As `in_rows`, of an output that is given; one with other channels stays as it is, and becomes a copy."""
    return out if out is None or not has_channels(out) else in_rows(name, out, keys)


def packed_channels(array: Given) -> Given:
    """The array, if the channels of a head are contiguous."""
    if not has_channels(array):
        apart = f"channels lie {array.strides[-1]} elements apart"
        raise DeviceError(f"{array.what}: {apart}; make a contiguous copy first")
    return array


def in_rows(name: str, array: Given, keys: dict[str, object]) -> Given:
    """Sequences that follow each other, as the only batch; how they lie is noted among the keys."""
    packed = packed_channels(array)
    if array.is_told:
        keys[f"{name}_strides"] = (array.shape[0] * array.strides[0], array.strides[1], array.strides[0])
    return packed.strided((1, *array.shape), (array.shape[0] * array.strides[0], *array.strides))


def starts_of(what: str, given: Any, total: int) -> list[int]:
    """Where sequences begin, on the host."""
    numbers = numbers_of(what, given)
    if not numbers or numbers[0] != 0 or any(one > two for one, two in pairwise(numbers)):
        raise DeviceError(f"{what}: expected numbers from 0 that do not fall")
    if len(numbers) < 2:
        raise DeviceError(f"{what}: it has no sequence; expected where each begins and where the last one ends")
    if numbers[-1] != total:
        raise DeviceError(f"{what}: it ends with {numbers[-1]}; expected the {total} rows")
    return numbers


def numbers_of(what: str, given: Any) -> list[int]:
    """Whole numbers that were given as a list or an array, on the host. Raises DeviceError for others."""
    return list(plain.numbers(what, given.numpy() if isinstance(given, Array) else given))
