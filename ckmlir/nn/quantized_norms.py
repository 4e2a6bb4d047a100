"""Norms whose results are quantised in the same kernel: `add_rms_norm_quantize`."""

from __future__ import annotations

from math import gcd
from typing import Any

from ckmlir.nn.calls import Call, dtype_name
from ckmlir.nn.given import pitch_key, pitch_of
from ckmlir.nn.plain import checked


@checked
def add_rms_norm_quantize(
    x: Any, residual: Any, weight: Any, eps: float = 1e-6, dtype: str = "i8", *, out: Any = None, stream: object = None
) -> Any:
    """s / sqrt(mean of squares + eps) · weight of every row, s being x + residual, quantised by rows.

    Args:
        x, residual: (…, n), f16, bf16 or f32. weight: (n,). All of one type.
        dtype: i8 or fp8.
        out: the three results, to be written.

    Returns:
        The quantised rows (…, n), their scales (…), f32, and s (…, n), of x's type, as the next layer's residual.

    Raises:
        DeviceError: shapes or types do not fit, or rows are not contiguous.
        RequestError: the operator refuses the sizes, or the chip has no 8-bit floats.
    """
    call = Call(stream)
    given = call.read("x", x)
    a, b = given.rows(), call.read("residual", residual).require(shape=given.shape, dtype=given.dtype).rows()
    gamma = call.read("weight", weight).require(shape=given.shape[-1:], dtype=given.dtype).contiguous()
    wanted = dtype_name("dtype", dtype)
    outputs = call.outputs(
        out, q=(given.shape, wanted), yscale=(given.shape[:-1], "f32"), x=(given.shape, given.dtype)
    )
    keys: dict[str, object] = {
        "m": a.shape[0], "n": a.shape[1], "dtype": given.dtype, "eps": eps, "out": wanted,
        "rounding": "nearest", "a_stride": pitch_of(a), "b_stride": pitch_of(b),
        "base": gcd(*(one.base for one in (a, b, gamma, *outputs.given.values()) if one is not None)),
    }  # fmt: skip
    keys |= pitch_key("q_stride", outputs.given["q"]) | pitch_key("stride", outputs.given["x"])
    inputs = {"a": a, "b": b, "gamma": gamma}
    return outputs.of(call.run("add_rmsnorm2d_rdquant", keys, inputs, outputs.given, varying=("m",)))
