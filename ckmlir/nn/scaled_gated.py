"""Gated products of matrices of few bits with scales: `scaled_swiglu`, `scaled_grouped_swiglu`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ckmlir.nn.calls import Call, dtype_name
from ckmlir.nn.given import Given, batch_keys, pitch_key, pitch_of
from ckmlir.nn.grouped import grouped
from ckmlir.nn.products import MOST_BATCH, common
from ckmlir.nn.scaled import as_many, of_each, spread
from ckmlir.nn.scales import as_matrix, laid, of_rows, require_f32, ways
from ckmlir.runtime.device import DeviceError

NAMES = ("a", "gate", "up")
"""The operands, as the operators call them."""
ALL = "x, gate, up and their scales"


def scaled_swiglu(
    x: Any, gate: Any, up: Any, x_scale: Any, gate_scale: Any, up_scale: Any, *, dtype: str = "bf16", out: Any = None,
    stream: object = None,
) -> Any:  # fmt: skip
    """`swiglu` of quantised matrices with scales: silu(x gateᵀ) · (x upᵀ), both products in one loop.

    Args:
        x: (…, k). gate, up: (n, k), of x's type: fp8, bf8 or i8. Or a batch: x (…, m, k), gate and up (…, n, k), whose
            leading dimensions broadcast.
        x_scale: as for `scaled_linear`. gate_scale, up_scale: both in one form of its weight_scale. Of a batch: one
            number; (…, rows, 1); or (…, rows, groups) for each row, or 128 rows of gate and up, and 32, 64 or 128
            elements of it.
        dtype, out: as for `scaled_linear`.

    Returns:
        (…, n), or `out`.

    Raises:
        DeviceError, RequestError: as `scaled_linear`; batches do not broadcast.
    """
    call = Call(stream)
    given = call.read("x", x)
    weights = [call.read(name, one).require(dtype=given.dtype) for name, one in (("gate", gate), ("up", up))]
    scales = [
        call.read(name, one) for name, one in (("x_scale", x_scale), ("gate_scale", gate_scale), ("up_scale", up_scale))
    ]
    own = weights[0].shape[-2:]
    fits = given.ndim and weights[0].ndim >= 2 and weights[0].shape == weights[1].shape and given.shape[-1] == own[1]
    batched = weights[0].ndim > 2
    if not fits or (batched and given.ndim < 2):
        shapes = ", ".join(f"{one.what} {one.shape}" for one in (given, *weights))
        raise DeviceError(f"{shapes}: expected (…, k) and twice (n, k), or a batch, (…, m, k) and twice (…, n, k)")
    batch: tuple[int, ...] = ()
    if batched:
        batch = _batch(given, weights[0])
        scales = [as_matrix(one, array.ndim) for one, array in zip(scales, (given, *weights), strict=True)]
        shape = (*batch, given.shape[-2], own[0])
    else:
        leading = (given.shape[:-1], own[:1], own[:1])
        scales = [of_rows(one, rows) for one, rows in zip(scales, leading, strict=True)]
        shape = (*given.shape[:-1], own[0])
        given = given.rows()
    [(keys, inputs)] = _operands([((given, *weights), scales)])
    keys["out"] = dtype_name("dtype", dtype)
    outputs = call.outputs(out, c=(shape, dtype_name("dtype", dtype)))
    c = outputs.given["c"]
    keys |= batch_keys(c) if batched else pitch_key("ldc", c)
    varying = ["m"]
    if batched:
        spread(keys, inputs, batch)
        varying += [f"{name}_batch_strides" for name in ("a", "scale_a", "c")]
    operator = "batched_gated_gemm_quant" if batched else "gated_gemm_quant"
    return outputs.of(call.run(operator, keys, {**inputs}, outputs.given, varying=tuple(varying)))


def scaled_grouped_swiglu(
    x: Sequence[Any], gate: Sequence[Any], up: Sequence[Any], x_scale: Sequence[Any], gate_scale: Sequence[Any],
    up_scale: Sequence[Any], *, dtype: str = "bf16", out: Sequence[Any] | None = None, stream: object = None,
) -> list[Any]:  # fmt: skip
    """`scaled_swiglu` of several matrices of different sizes in one launch.

    Args:
        x, gate, up, x_scale, gate_scale, up_scale: sequences of what `scaled_swiglu` takes of matrices; types and what
            scales are of are those of all.
        dtype: of the results.
        out: a sequence of (m, n), to be written.

    Returns:
        A list of matrices (m, n).

    Raises:
        DeviceError, RequestError: as `scaled_swiglu`; as many of each are expected, and at least one.
    """
    call = Call(stream)
    given = {"x": x, "gate": gate, "up": up, "x_scale": x_scale, "gate_scale": gate_scale, "up_scale": up_scale}
    products = []
    count = as_many(given)
    for number in range(count):
        one = {name: call.read(f"{name}[{number}]", arrays[number]) for name, arrays in given.items()}
        matrices = [one[name].require(ndim=2, dtype=one["x"].dtype) for name in ("x", "gate", "up")]
        if matrices[1].shape != matrices[2].shape or matrices[0].shape[1] != matrices[1].shape[1]:
            shapes = ", ".join(f"{array.what} {array.shape}" for array in matrices)
            raise DeviceError(f"{shapes}: expected (m, k), (n, k) and (n, k)")
        scales = [of_rows(one[f"{name}_scale"], one[name].shape[:1]) for name in ("x", "gate", "up")]
        products.append((matrices, scales))
    each = _operands(products)
    inputs = {f"{name}_{number}": one for number, (_, views) in enumerate(each) for name, one in views.items()}
    asked = {**of_each([keys for keys, _ in each], ALL), "out": dtype_name("dtype", dtype)}
    sizes = [(matrices[0].shape[0], matrices[1].shape[0]) for matrices, _ in products]
    return grouped(call, "grouped_gated_gemm_quant", asked, inputs, out, sizes)


def _batch(x: Given, weight: Given) -> tuple[int, ...]:
    """The batch that both come to."""
    try:
        batch = np.broadcast_shapes(x.shape[:-2], weight.shape[:-2])
    except ValueError:
        raise DeviceError(f"x of shape {x.shape} and gate of shape {weight.shape}: batches do not broadcast") from None
    if len(batch) > MOST_BATCH:
        raise DeviceError(f"a batch of {len(batch)} dimensions; expected at most {MOST_BATCH}")
    return batch


def _operands(
    products: Sequence[tuple[Sequence[Given], Sequence[Given]]],
) -> list[tuple[dict[str, object], dict[str, Given]]]:
    """The keys of each product of one launch, and the views of memory.

    A product is x (…, m, k), gate and up (…, n, k), and their scales (…, rows, groups).
    """
    of_x = common(ALL, [_ways("a", matrices[0], scales[0]) for matrices, scales in products])
    of_weights = [
        [_ways("b", matrices[which], scales[which]) for which in (1, 2)] for matrices, scales in products
    ]
    for gate, up in of_weights:
        if not set(gate) & set(up):
            raise DeviceError("gate_scale, up_scale: they differ in form, or lie differently; expected both alike")
    of_weight = common(ALL, [way for both in of_weights for way in both])
    return [_laid(*product, (of_x, of_weight, of_weight)) for product in products]


def _ways(operand: str, matrix: Given, scales: Given) -> list[tuple[str, str]]:
    require_f32(scales, "gated products")
    return ways(operand, scales, *matrix.shape[-2:])


def _laid(
    matrices: Sequence[Given], scales: Sequence[Given], ways_of: Sequence[tuple[str, str]]
) -> tuple[dict[str, object], dict[str, Given]]:
    """The keys and views of one product, of whose scales kernels are told in these ways."""
    laid_out = [one.matrices() for one in matrices]
    m, n, k = matrices[0].shape[-2], *matrices[1].shape[-2:]
    if pitch_of(laid_out[1]) != pitch_of(laid_out[2]):
        raise DeviceError("gate, up: their rows lie differently far apart; make contiguous copies first")
    keys: dict[str, object] = {
        "m": m, "n": n, "k": k, "dtype": matrices[0].dtype, "lda": pitch_of(laid_out[0]), "ldb": pitch_of(laid_out[1]),
    }  # fmt: skip
    arrays, forms = dict(zip(NAMES, laid_out, strict=True)), []
    for name, one, way in zip(NAMES, scales, ways_of, strict=True):
        form, arrays[f"scale_{name}"] = laid("a" if name == "a" else "b", one, way)
        forms.append(form)
    if forms[1] != forms[2]:
        raise DeviceError("gate_scale, up_scale: their rows lie differently far apart; make contiguous copies first")
    return keys | forms[0] | forms[1], arrays
