"""The gradients of `attention`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ckmlir.nn.attention import UNBOUNDED, VARYING, read_batches, slopes_of, strides_key, strides_of
from ckmlir.nn.calls import Call
from ckmlir.runtime.device import DeviceError


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
    deterministic: bool = False,
    layout: str = "bshd",
    stream: object = None,
) -> tuple[Any, Any, Any]:
    """The gradients of attention for q, k and v, from that for its result: flash-attention's `_flash_attn_backward`.

    Args:
        dout: as `out`, which `attention` has given, with the logarithms softmax_lse (b, h, sq), f32.
        q, k, v, causal, window, scale, alibi_slopes, layout: as they were given to `attention`; of f32 one of d and dv
            is at most 128.
        deterministic: the same bits in every run, for more memory.

    Returns:
        dq, dk and dv, as q, k and v.

    Raises:
        DeviceError, RequestError: as `attention`.
    """
    from ckmlir.ops.attention.fmha_bwd_spec import DTYPES

    call = Call(stream)
    arrays, keys = read_batches(call, (q, k, v), causal, window, scale, layout)
    shape = (*arrays["q"].shape[:3], arrays["v"].shape[3])
    dtype = arrays["q"].dtype
    if dtype not in DTYPES:
        raise DeviceError(f"q: elements are {dtype}; expected {', '.join(DTYPES)}")
    for name, array in (("o", out), ("do", dout)):
        arrays[name] = call.read({"o": "out", "do": "dout"}[name], array).require(shape=shape, dtype=dtype)
        keys |= strides_key(name, strides_of(arrays[name], layout))
    b, h, sq = (keys[name] for name in ("b", "h", "sq"))
    lse = call.read("softmax_lse", softmax_lse).require(dtype="f32", ndim=3)
    if lse.shape != (b, h, sq):
        raise DeviceError(f"softmax_lse: shape {lse.shape}; expected {(b, h, sq)}")
    slopes = slopes_of(call, alibi_slopes, arrays["q"].shape[layout.index("h")], keys)
    inputs = {**arrays, "lse": lse, "slopes": slopes}
    found = call.run("fmha_bwd", keys | {"deterministic": deterministic}, inputs, varying=(*VARYING, "do_strides"))
    return found["dq"].array, found["dk"].array, found["dv"].array
