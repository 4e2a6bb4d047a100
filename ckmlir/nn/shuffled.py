"""Layers whose weight was put into fragment order beforehand: `shuffle_weight`, `linear_shuffled`."""

from __future__ import annotations

from typing import Any

from ckmlir.nn.calls import Call
from ckmlir.nn.given import pitch_key, pitch_of
from ckmlir.nn.plain import number, shown
from ckmlir.nn.products import epilogue, output_type
from ckmlir.ops.contraction.shuffle import COLUMNS, shuffled_shape
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.request import whole
from ckmlir.runtime.device import DeviceError


def shuffle_weight(weight: Any, *, columns: int = 32, out: Any = None, stream: object = None) -> Any:
    """A weight in the order in which matrix instructions take it, for `linear_shuffled`: once, when a model is loaded.

    Args:
        weight: (n, k), rows contiguous; f16, bf16, f32, f64, fp8, bf8 or i8.
        columns: of a tile: 16, which products of few rows take, or 32.
        out: of the result's shape, to be written.

    Returns:
        (ceil(n / columns), columns · k rounded up to whole tiles), with zeros where there is no weight.

    Raises:
        DeviceError: rows are not contiguous.
        RequestError: the type is none of these.
    """
    call = Call(stream)
    rows = call.read("weight", weight).require(ndim=2).rows()
    _check_columns(columns)
    n, k = rows.shape
    keys: dict[str, object] = {"n": n, "k": k, "dtype": rows.dtype, "ldb": pitch_of(rows), "columns": columns}
    shape = shuffled_shape(n, k, columns, find_dtype(rows.dtype).bytes)
    outputs = call.outputs(out, shuffled=(shape, rows.dtype))
    return outputs.of(call.run("shuffle_b", keys, {"b": rows}, outputs.given))


def linear_shuffled(
    x: Any,
    weight: Any,
    n: int,
    bias: Any = None,
    activation: str | None = None,
    *,
    residual: Any = None,
    dtype: str | None = None,
    columns: int = 32,
    out: Any = None,
    stream: object = None,
) -> Any:
    """`linear` with a weight that goes from memory straight to registers: activation(x weightᵀ + bias) + residual.

    Args:
        x: (…, k).
        weight: as `shuffle_weight` made it of (n, k), with as many `columns`; of x's type.
        n: rows of the weight before.
        bias: (n,). residual: (…, n). Both of the result's type.
        activation: gelu, gelu_tanh, relu, sigmoid, silu or tanh.
        dtype: of the result, as for `matmul`.
        out: (…, n), to be written; it may not be an input.

    Returns:
        (…, n), or `out`.

    Raises:
        DeviceError: shapes or types do not fit, an unknown activation.
        RequestError: the chip lacks the type.
    """
    call = Call(stream)
    given = call.read("x", x)
    rows = given.rows()
    _check_columns(columns)
    n = number("n", n, 0)
    k, wanted = rows.shape[1], output_type(rows.dtype, dtype)
    expected = shuffled_shape(n, k, columns, find_dtype(rows.dtype).bytes)
    shuffled = call.read("weight", weight).require(dtype=rows.dtype)
    if shuffled.shape != expected:
        raise DeviceError(
            f"weight: shape {shuffled.shape}; expected {expected}, what shuffle_weight makes of ({n}, {k}) with "
            f"columns={columns}"
        )
    shape = (*given.shape[:-1], n)
    keys, sides = epilogue(call, shape, bias, activation, residual, wanted)
    outputs = call.outputs(out, c=(shape, wanted))
    keys |= {"m": rows.shape[0], "n": n, "k": k, "dtype": rows.dtype, "out": wanted, "lda": pitch_of(rows)}
    keys |= {"columns": str(columns), **pitch_key("ldc", outputs.given["c"])}
    inputs = {"a": rows, "b": shuffled.contiguous(), **sides}
    return outputs.of(call.run("flatmm", keys, inputs, outputs.given, varying=("m",)))


def _check_columns(columns: int) -> None:
    if whole(columns) not in COLUMNS:
        raise DeviceError(f"columns={shown(columns)}: expected one of {', '.join(map(str, COLUMNS))}")
