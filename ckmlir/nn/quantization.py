"""An array as 8-bit numbers, or fewer bits, and scales, and back: `quantize`, `dequantize`."""

from __future__ import annotations

import math
from typing import Any

from ckmlir.nn.calls import Call, dtype_name
from ckmlir.nn.given import Given, elements_in, pitch_key, pitch_of
from ckmlir.nn.plain import checked, word
from ckmlir.nn.rows import base, sizes
from ckmlir.ops.dtypes import POWER, find_dtype
from ckmlir.ops.scalars import ceil_div
from ckmlir.runtime.device import DeviceError


@checked
def quantize(
    x: Any, dtype: str = "i8", *, by: str = "row", smooth: Any = None, scale: Any = None, powers: bool = False,
    out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """An array divided by scales, so that it fills the range of an 8-bit type, and rounded to the nearest.

    Args:
        x: (…, n), f16, bf16 or f32.
        dtype: i8, fp8 or bf8; with powers also fp4, fp6 and bf6, whose bytes are returned.
        by: what has a scale of its own: "tensor", "row", or blocks of rows x columns: "1x32", "1x64", "1x128",
            "128x128", with all dimensions but the last as rows.
        smooth: (n,), f32: what columns are multiplied with before; of rows, to i8 or fp8.
        scale: scales that are given, f32: a number of the tensor, (…) of rows.
        powers: scales of blocks are powers of two, e8m0; with by="1x32" they are those of microscaling formats.
        out: the quantised array and the scales, to be written; scales that are given are not.

    Returns:
        The quantised array (…, n), and the scales, f32: (1,) of the tensor, (…) of rows, else (blocks down, blocks
        across). Their product is about x · smooth.

    Raises:
        DeviceError, RequestError: as `layer_norm`; arguments that do not go together; the chip has no 8-bit floats.
    """
    call = Call(stream)
    given = call.read("x", x)
    wanted, by = dtype_name("dtype", dtype), word("by", by, _shared())
    if (smooth is not None and by != "row") or (scale is not None and (smooth is not None or by not in WHOLE)):
        raise DeviceError(f"by={by}: columns are scaled of rows only, scales given of rows and tensors; not both")
    if powers and by in WHOLE:
        raise DeviceError(f"by={by}: powers of two are scales of blocks; expected by=1x32, 1x64, 1x128 or 128x128")
    if by == "tensor":
        return _by_tensor(call, given, wanted, scale, out)
    if by == "row":
        return _by_row(call, given, wanted, smooth, scale, out)
    return _by_block(call, given, wanted, by, POWER.name if powers else "f32", out)


def dequantize(
    q: Any, scale: Any, dtype: str = "f16", *, by: str = "row", packed: str | None = None, out: Any = None,
    stream: object = None,
) -> Any:  # fmt: skip
    """The numbers that `quantize` took: q times its scales.

    Args:
        q: (…, n), i8, fp8 or bf8; or the bytes of packed elements.
        scale: as `quantize` returns it.
        dtype: f16, bf16 or f32.
        by: what has a scale of its own, as for `quantize`.
        packed: what the bytes (uint8) of q hold, where they do: fp4, fp6 or bf6.
        out: (…, n), to be written.

    Returns:
        (…, n).

    Raises:
        DeviceError, RequestError: as `layer_norm`; scales of another shape; bytes that hold no whole elements.
    """
    call = Call(stream)
    given = call.read("q", q, packed)
    rows, by = given.rows(), word("by", by, _shared())
    n, stride = (elements_in(rows.dtype, one) for one in (rows.shape[1], pitch_of(rows)))
    outputs = call.outputs(out, y=((*given.shape[:-1], n), dtype_name("dtype", dtype)))
    keys = sizes(rows) | {"n": n, "out": dtype_name("dtype", dtype), "block": by, "stride": stride}
    keys |= pitch_key("ystride", outputs.given["y"])
    scales = call.read("scale", scale)
    if by in WHOLE:
        scales = scales.require(dtype="f32", shape=(1,) if by == "tensor" else given.shape[:-1])
        scales = _packed(scales)
    else:
        _packed(scales.require(ndim=2))
        keys["scales"] = scales.dtype
    inputs = {"q": rows, "scale": scales}
    keys["align"] = base(inputs, outputs.given)["base"]
    return outputs.of(call.run("dequantize", keys, inputs, outputs.given, varying=("m",)))


WHOLE = ("tensor", "row")
"""What scales that are given are of."""


def _shared() -> tuple[str, ...]:
    """What may have a scale of its own."""
    from ckmlir.ops.quantization.blocks import BLOCKS

    return (*WHOLE, *BLOCKS)


def _scales(call: Call, scale: Any, shape: tuple[int, ...]) -> Given | None:
    """Scales that were given, without gaps."""
    return None if scale is None else _packed(call.read("scale", scale).require(shape=shape, dtype="f32"))


def _packed(scales: Given) -> Given:
    """Scales, those of rows as a vector. Raises DeviceError where there are gaps between them."""
    count = math.prod(scales.shape)
    flat = scales.reshaped(count)
    if count > 1 and flat.strides != (1,):
        raise DeviceError(f"{scales.what}: numbers lie {flat.strides[0]} elements apart; make a contiguous copy first")
    return flat


def _known(scales: Given | None) -> dict[str, object]:
    return {"scales": "dynamic" if scales is None else "given"}


def _by_tensor(call: Call, x: Given, wanted: str, scale: Any, out: Any) -> Any:
    rows, one = x.rows(), _scales(call, scale, (1,))
    made = {"scale": ((1,), "f32")} if one is None else {}
    outputs = call.outputs(out, q=(x.shape, wanted), **made)
    inputs: dict[str, Given | None] = {"x": rows, "scale": one}
    keys: dict[str, object] = {"shape": rows.shape, "dtype": rows.dtype, "strides": rows.strides, "out": wanted}
    pitch = pitch_key("", outputs.given["q"]).get("")
    keys |= {"align": base(inputs, outputs.given)["base"], **_known(one)}
    keys |= {} if pitch is None else {"qstrides": (pitch, 1)}
    found = outputs.of(call.run("quantize_tensor", keys, inputs, outputs.given))
    return found if one is None else (found, scale)


def _by_row(call: Call, x: Given, wanted: str, smooth: Any, scale: Any, out: Any) -> Any:
    rows, one = x.rows(), _scales(call, scale, x.shape[:-1])
    made = {"yscale": (x.shape[:-1], "f32")} if one is None else {}
    outputs = call.outputs(out, q=(x.shape, wanted), **made)
    inputs: dict[str, Given | None] = {"x": rows, "yscale": one}
    keys = sizes(rows) | {"out": wanted, "stride": pitch_of(rows), "rounding": "nearest"}
    keys |= pitch_key("q_stride", outputs.given["q"])
    if smooth is not None:
        columns = call.read("smooth", smooth).require(shape=rows.shape[1:], dtype="f32").rows()
        operator, inputs["smooth"] = "smoothquant", columns.reshaped(rows.shape[1])
    else:
        operator, keys = "quantize_rows", keys | _known(one)
    keys |= base(inputs, outputs.given)
    found = outputs.of(call.run(operator, keys, inputs, outputs.given, varying=("m",)))
    return found if one is None else (found, scale)


def _by_block(call: Call, x: Given, wanted: str, block: str, scales: str, out: Any) -> Any:
    rows, kind = x.rows(), find_dtype(wanted)
    blocks = tuple(map(ceil_div, rows.shape, map(int, block.split("x"))))
    outputs = call.outputs(out, q=((*x.shape[:-1], kind.size(x.shape[-1])), wanted), scale=(blocks, scales))
    keys = sizes(rows) | {"out": wanted, "stride": pitch_of(rows), "block": block, "scales": scales}
    keys |= {} if kind.packing else pitch_key("qstride", outputs.given["q"])
    return outputs.of(call.run("quantize_blocks", keys, {"x": rows}, outputs.given, varying=("m",)))
