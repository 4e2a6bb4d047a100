"""Products of matrices of few bits with scales: `scaled_linear`, `scaled_matmul`, `linear_int4`, …

Scales are read off their shapes, as `quantize` returns them: one number, one for each row, or for each row (or 128
rows) and so many elements along K.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ckmlir.nn.calls import Call, dtype_name
from ckmlir.nn.given import Given, elements_in, pitch_of
from ckmlir.nn.plain import checked, shown
from ckmlir.nn.products import MOST_BATCH, epilogue, layout_of, pair_of, transposed
from ckmlir.ops.dtypes import POWER, find_dtype
from ckmlir.ops.scalars import ceil_div
from ckmlir.runtime.device import DeviceError

LENGTHS = (128, 64, 32)
"""Elements along K that may share a scale."""


def scaled_linear(
    x: Any, weight: Any, x_scale: Any, weight_scale: Any, bias: Any = None, activation: str | None = None, *,
    residual: Any = None, packed: tuple[str | None, str | None] = (None, None), dtype: str = "bf16", out: Any = None,
    stream: object = None,
) -> Any:  # fmt: skip
    """activation((x · x_scale) (weight · weight_scale)ᵀ + bias) + residual of quantised matrices, in one kernel.

    Args:
        x: (…, k), fp8, bf8 or i8. weight: (n, k), of x's type, or the other of fp8 and bf8. Both as `quantize` returns
            them.
        x_scale: f32, one number; one for each row, (…); or (…, groups), for each row and 32, 64 or 128 elements of it.
        weight_scale: f32, one number, (n,), (n, groups), or for each 128 rows and 128 elements (n / 128, groups).
            Powers of two (e8m0) of 32 elements each, of both, are microscaling formats.
        bias: (n,). residual: (…, n). f16, bf16 or f32.
        activation: as for `linear`.
        packed: what the bytes (uint8) of x and of weight hold, where they do: fp4, fp6 or bf6 with powers of two, each
            a type of its own; of a weight also i4 or u4, integers from -8 to 7 or 0 to 15.
        dtype: of the result: f16, bf16, f32, or of 8 bits, which saturate.
        out: (…, n), to be written.

    Returns:
        (…, n), or `out`.

    Raises:
        DeviceError: shapes or types do not fit, or arrays lie as no kernel takes them.
        RequestError: the chip lacks the type.
    """
    call = Call(stream)
    if not isinstance(packed, Sequence) or len(packed) != 2:
        raise DeviceError(f"packed={shown(packed)}: expected a word or None for x, and one for weight")
    given, w = call.read("x", x, packed[0]), call.read("weight", weight, packed[1]).require(ndim=2)
    if not given.ndim or _length(given) != _length(w):
        raise DeviceError(f"x of shape {given.shape} and weight of shape {w.shape}: expected rows of {_length(w)}")
    shape = (*given.shape[:-1], w.shape[0])
    keys, sides = epilogue(call, shape, bias, activation, residual)
    scale_a = of_rows(call.read("x_scale", x_scale), given.shape[:-1])
    scale_b = of_rows(call.read("weight_scale", weight_scale), w.shape[:1])
    result = call.out("out", out, shape, dtype_name("dtype", dtype))
    rows = None if result is None else result.rows()
    found = _product(call, given.rows(), transposed(w), scale_a, scale_b, dtype, rows, keys, sides)
    return out if out is not None else found.reshaped(*shape).array


def scaled_matmul(
    a: Any, b: Any, scale_a: Any, scale_b: Any, *, dtype: str = "bf16", out: Any = None, stream: object = None
) -> Any:
    """(a · scale_a) @ (b · scale_b) of quantised matrices, or of batches of them: `torch._scaled_mm`.

    Args:
        a: (…, m, k), rows or columns contiguous. b: (…, k, n). fp8, bf8 or i8, both the same.
        scale_a: f32 or e8m0, one number; (…, m, 1); or (…, m, groups), for each row and 32, 64 or 128 elements of it.
        scale_b: one number; (…, 1, n); (…, groups, n); or (…, groups, n / 128). Rows or columns contiguous. Powers of
            two (e8m0) of 32 elements each, of both matrices, are microscaling formats; of matrices, not of batches.
        dtype, out: as for `scaled_linear`.

    Returns:
        (…, m, n), or `out`.

    Raises:
        DeviceError, RequestError: as `scaled_linear`; batches do not broadcast.
    """
    call = Call(stream)
    left, right = call.read("a", a), call.read("b", b)
    if left.ndim < 2 or right.ndim < 2 or left.shape[-1] != right.shape[-2]:
        raise DeviceError(f"a of shape {left.shape} and b of shape {right.shape}: expected (…, m, k) and (…, k, n)")
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise DeviceError(f"a of shape {left.shape} and b of shape {right.shape}: batches do not broadcast") from None
    if len(batch) > MOST_BATCH:
        raise DeviceError(f"a batch of {len(batch)} dimensions; expected at most {MOST_BATCH}")
    of_a = as_matrix(call.read("scale_a", scale_a), left.ndim)
    of_b = as_matrix(call.read("scale_b", scale_b), right.ndim)
    shape = (*batch, left.shape[-2], right.shape[-1])
    result = call.out("out", out, shape, dtype_name("dtype", dtype))
    found = _product(call, left, right, of_a, transposed(of_b), dtype, result, batch=batch)
    return out if out is not None else found.reshaped(*shape).array


def scaled_grouped_matmul(
    a: Sequence[Any], b: Sequence[Any], scale_a: Sequence[Any], scale_b: Sequence[Any], *, dtype: str = "bf16",
    stream: object = None,
) -> list[Any]:  # fmt: skip
    """Products (a[i] · scale_a[i]) @ (b[i] · scale_b[i]) of different sizes in one launch.

    Args:
        a, b, scale_a, scale_b: sequences of what `scaled_matmul` takes of matrices; types, how matrices lie and what
            scales are of are those of all products.
        dtype: of the results.

    Returns:
        A list of products.

    Raises:
        DeviceError, RequestError: as `scaled_matmul`; as many of each are expected, and at least one.
    """
    call = Call(stream)
    given = {"a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b}
    count = as_many(given)
    each: list[dict[str, object]] = []
    inputs: dict[str, Given | None] = {}
    for number in range(count):
        one = {name: call.read(f"{name}[{number}]", arrays[number]) for name, arrays in given.items()}
        left, right = one["a"].require(ndim=2), one["b"].require(ndim=2, dtype=one["a"].dtype)
        if left.shape[1] != right.shape[0]:
            raise DeviceError(f"{left.what} of shape {left.shape} and {right.what} of shape {right.shape}: no product")
        scales = (as_matrix(one["scale_a"], 2), transposed(as_matrix(one["scale_b"], 2)))
        keys, arrays = _operands(left, right, *scales)
        each.append(keys)
        inputs |= {f"{name}_{number}": array for name, array in arrays.items()}
    asked = {**of_each(each, "a, b, scale_a, scale_b"), "out": dtype_name("dtype", dtype)}
    found = call.run("grouped_gemm_quant", asked, inputs, varying=("m",))
    return [found[f"c_{number}"].array for number in range(count)]


@checked
def linear_int4(
    x: Any, weight: Any, scale: Any, zeros: Any = None, bias: Any = None, activation: str | None = None, *,
    residual: Any = None, unsigned: bool = False, out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """`linear` with a weight of 4-bit integers: weight[n, k] = (integer - zeros[n, group]) · scale[n, group].

    Args:
        x: (…, k), f16 or bf16.
        weight: (n, k / 2), uint8: integers from -8 to 7, or where they are `unsigned` from 0 to 15, the first of two
            along k in the low half.
        scale: (n, groups), of 32, 64 or 128 elements along k; f16, bf16 or f32. zeros: the same, or None.
        bias, activation, residual, out: as for `linear`.

    Returns:
        (…, n), of x's type, or `out`.

    Raises:
        DeviceError, RequestError: as `linear`.
    """
    call = Call(stream)
    given, w = call.read("x", x), call.read("weight", weight, "u4" if unsigned else "i4").require(ndim=2).rows()
    n, k = w.shape[0], _length(w)
    if not given.ndim or given.shape[-1] != k:
        raise DeviceError(f"x of shape {given.shape} and weight of shape {w.shape}: expected rows of {k}")
    shape = (*given.shape[:-1], n)
    keys, sides = epilogue(call, shape, bias, activation, residual, given.dtype)
    a, of_groups = given.rows(), call.read("scale", scale).require(ndim=2).rows()
    length = next((one for one in LENGTHS if of_groups.shape == (n, ceil_div(k, one))), None)
    if length is None:
        raise DeviceError(f"scale: shape {of_groups.shape}; expected one for each of {n} rows and 32, 64 or 128 of {k}")
    keys |= {
        "m": a.shape[0], "n": n, "k": k, "dtype": given.dtype, "lda": pitch_of(a), "ldb": pitch_of(w),
        "b_dtype": w.dtype, "b_scale": f"1x{length}", "scale": of_groups.dtype, "ld_scale": pitch_of(of_groups),
    }  # fmt: skip
    inputs: dict[str, Given | None] = {"a0": a, "b0": w, "b1": of_groups, **sides}
    if zeros is not None:
        points = call.read("zeros", zeros).require(shape=of_groups.shape, dtype=of_groups.dtype).rows()
        if pitch_of(points) != pitch_of(of_groups):
            raise DeviceError("scale, zeros: their rows lie differently far apart; make contiguous copies first")
        keys, inputs = {**keys, "zeros": True}, {**inputs, "b2": points}
    result = call.out("out", out, shape, given.dtype)
    rows = None if result is None else result.rows()
    keys |= {} if rows is None else {"ldc": pitch_of(rows)}
    found = call.run("gemm_int4", keys, inputs, {"c": rows}, varying=("m",))["c"]
    return out if out is not None else found.reshaped(*shape).array


def _product(
    call: Call, a: Given, b: Given, scale_a: Given, scale_b: Given, dtype: str, out: Given | None,
    keys: dict[str, object] | None = None, sides: dict[str, Given] | None = None, batch: tuple[int, ...] = (),
) -> Given:  # fmt: skip
    """C of a (…, m, k) and b (…, k, n) with scales (…, m, groups) and (…, n, groups)."""
    asked, inputs = _operands(a, b, scale_a, scale_b)
    asked |= {**(keys or {}), "out": dtype_name("dtype", dtype)}
    operator = "mx_gemm" if scale_a.dtype == POWER.name else "gemm_quant"
    if operator == "mx_gemm":
        asked = {name: value for name, value in asked.items() if name not in ("a_scale", "b_scale")}
    if batch:
        if operator == "mx_gemm":
            raise DeviceError("scale_a: powers of two of a batch; expected f32, or a product of matrices")
        operator = "batched_gemm_quant"
        spread(asked, inputs, batch)
    if out is not None:
        if out.shape[-1] > 1 and out.strides[-1] != 1:
            raise DeviceError("out: rows are not contiguous")
        asked["ldc"] = out.strides[-2] if out.shape[-2] > 1 else max(out.shape[-1], 1)
        asked |= {"c_batch_strides": out.strides[:-2]} if batch else {}
    varying = ("m", "a_batch_strides", "scale_a_batch_strides", "c_batch_strides") if batch else ("m",)
    return call.run(operator, asked, {**inputs, **(sides or {})}, {"c": out}, varying=varying)["c"]


def spread(keys: dict[str, object], arrays: dict[str, Given], batch: tuple[int, ...]) -> None:
    """Say of every array how it lies in a batch, whose dimensions it may lack; keys and arrays are changed."""
    keys["batch"] = batch
    for name, one in arrays.items():
        missing = len(batch) - (one.ndim - _own(name, keys))
        shape, strides = (1,) * missing + one.shape, (0,) * missing + one.strides
        arrays[name] = one.strided(shape, strides)
        keys[f"{name}_batch"], keys[f"{name}_batch_strides"] = shape[: len(batch)], strides[: len(batch)]


def _own(name: str, keys: dict[str, object]) -> int:
    """Dimensions of an array but those of the batch: scales of tensors, rows and columns are vectors."""
    form = keys["a_scale" if name == "scale_a" else "b_scale"]
    return 1 if name.startswith("scale_") and form in ("tensor", "row", "column") else 2


def of_each(each: Sequence[dict[str, object]], names: str) -> dict[str, object]:
    """The keys of several products: numbers are listed. Raises DeviceError where another key of two differs."""
    common = {name: value for name, value in each[0].items() if not isinstance(value, int)}
    if any(keys[name] != value for keys in each for name, value in common.items()):
        raise DeviceError(f"{names}: products differ in types, order or scales; expected all alike")
    numbers = {name: tuple(keys[name] for keys in each) for name, value in each[0].items() if isinstance(value, int)}
    return {**common, **numbers}


def as_many(given: Mapping[str, Sequence[Any]]) -> int:
    """How many of each there are. Raises DeviceError if they differ, if there are none, and unless each is a list."""
    for name, arrays in given.items():
        if not isinstance(arrays, (list, tuple)):
            raise DeviceError(f"{name}: {type(arrays).__name__}; expected a list of arrays, one for each product")
    counts = {name: len(arrays) for name, arrays in given.items()}
    if len({*counts.values()}) > 1 or 0 in counts.values():
        expected = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise DeviceError(f"{expected}: expected as many of each, and at least one")
    return next(iter(counts.values()))


def _operands(a: Given, b: Given, scale_a: Given, scale_b: Given) -> tuple[dict[str, object], dict[str, Given]]:
    """The keys and views of memory of both matrices and their scales."""
    k = _length(a)
    if find_dtype(a.dtype).packing is None and find_dtype(b.dtype).packing is None:
        pair_of(a, b)
        layout, memories, pitches = layout_of(a, b)
    else:
        weight = transposed(b).rows()
        a = a.rows()
        layout, memories = "RCR", {"a": a, "b": weight}
        pitches = {f"ld{name}": elements_in(one.dtype, pitch_of(one)) for name, one in memories.items()}
    keys: dict[str, object] = {
        "m": a.shape[-2], "n": b.shape[-1], "k": k, "dtype": a.dtype, "layout": layout, **pitches,
        **({} if a.dtype == b.dtype else {"b_dtype": b.dtype}),
    }  # fmt: skip
    if scale_a.dtype not in ("f32", POWER.name):
        raise DeviceError(f"{scale_a.what}: elements are {scale_a.dtype}; expected f32 or {POWER.name}")
    scale_b.require(dtype=scale_a.dtype)
    for operand, scales, rows in (("a", scale_a, a.shape[-2]), ("b", scale_b, b.shape[-1])):
        form, memories[f"scale_{operand}"] = laid(operand, scales, rows, k)
        keys |= form
    return keys, memories


def laid(operand: str, scales: Given, rows: int, k: int) -> tuple[dict[str, object], Given]:
    """The keys of scales (…, rows that have some, groups) of an operand with so many rows, and the view of them."""
    count, groups = scales.shape[-2:]
    form = _form(operand, count, groups, rows, k, scales.dtype == POWER.name)
    if form is None:
        row = "row or 128" if operand == "b" else "row"
        expected = f"one number, one for each of {rows} rows, or for each {row} and 32, 64 or 128 of {k} elements"
        if scales.dtype == POWER.name:
            expected = f"a power of two for each of {rows} rows and 32 of {k} elements"
        raise DeviceError(f"{scales.what}: shape {scales.shape}; expected {expected}")
    keys: dict[str, object] = {f"{operand}_scale": form}
    batch, steps = scales.shape[:-2], scales.strides[:-2]
    if form in ("tensor", "row", "column"):
        step = scales.strides[-2] if count > 1 else 1
        if step != 1:
            raise DeviceError(f"{scales.what}: numbers lie {step} elements apart; make a contiguous copy first")
        return keys, scales.strided((*batch, count), (*steps, 1))
    by_rows = groups > 1 and scales.strides[-1] != 1
    memory = transposed(scales) if by_rows else scales
    if memory.shape[-1] > 1 and memory.strides[-1] != 1 and 0 not in memory.shape:
        raise DeviceError(f"{scales.what}: neither rows nor columns are contiguous; make a contiguous copy first")
    pitch = memory.strides[-2] if memory.shape[-2] > 1 and 0 not in memory.shape else max(memory.shape[-1], 1)
    keys |= {f"{operand}_major": "rows" if by_rows else "k", f"ld_scale_{operand}": pitch}
    return keys, memory.strided(memory.shape, (*steps, pitch, 1))


def _form(operand: str, count: int, groups: int, rows: int, k: int, is_power: bool) -> str | None:
    """What scales are of, in the operators' words; None where they are of nothing that has a kernel."""
    if is_power:
        return "1x32" if (count, groups) == (rows, ceil_div(k, 32)) else None
    if (count, groups) == (1, 1):
        return "tensor"
    if (count, groups) == (rows, 1):
        return "row" if operand == "a" else "column"
    if count == rows:
        return next((f"1x{one}" for one in LENGTHS if groups == ceil_div(k, one)), None)
    blocks = operand == "b" and (count, groups) == (ceil_div(rows, 128), ceil_div(k, 128))
    return "128x128" if blocks else None


def of_rows(scales: Given, leading: tuple[int, ...]) -> Given:
    """Scales of an operand whose rows have these leading dimensions, (…) or (…, groups), as a matrix."""
    if _is_number(scales):
        return scales.strided((1, 1), (1, 1))
    if scales.shape == leading:
        return scales.reshaped(math.prod(leading), 1)
    if scales.ndim == 2:  # for all rows, or blocks of them, as `quantize` has them
        return scales
    if scales.shape[:-1] == leading:
        return scales.reshaped(math.prod(leading), scales.shape[-1])
    expected = f"one number, {leading}, or {(*leading, 'groups')}"
    raise DeviceError(f"{scales.what}: shape {scales.shape}; expected {expected}")


def _is_number(scales: Given) -> bool:
    return math.prod(scales.shape) == 1 and scales.ndim < 2


def as_matrix(scales: Given, ndim: int) -> Given:
    """Scales of an operand with so many dimensions, with as many; one number is of all of it."""
    if _is_number(scales):
        return scales.strided((1,) * ndim, (1,) * ndim)
    return scales.require(ndim=ndim)


def _length(matrix: Given) -> int:
    """Elements of a row."""
    return elements_in(matrix.dtype, matrix.shape[-1])
