"""Products of matrices of few bits with scales: `scaled_linear`, `scaled_matmul`, `linear_int4`, `linear_fp4`, …

Scales are read off their shapes, as `quantize` returns them: one number, one for each row, or for each row (or 128
rows) and so many elements along K.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ckmlir.nn.calls import Call, dtype_name
from ckmlir.nn.given import Given, batch_keys, elements_in, pitch_key, pitch_of
from ckmlir.nn.grouped import grouped
from ckmlir.nn.outputs import Outputs
from ckmlir.nn.plain import checked, shown
from ckmlir.nn.products import MOST_BATCH, common, epilogue, layout_of, orders, pair_of, transposed
from ckmlir.nn.scales import LENGTHS, VECTORS, as_matrix, laid, of_rows, require_f32, ways
from ckmlir.ops.dtypes import POWER, find_dtype
from ckmlir.ops.scalars import ceil_div
from ckmlir.runtime.device import DeviceError

Product = tuple[Given, Given, Given, Given]
"""a (…, m, k), b (…, k, n), and their scales (…, m, groups) and (…, n, groups)."""
NAMES = "a, b, scale_a, scale_b"

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
    outputs = call.outputs(out, c=(shape, dtype_name("dtype", dtype)))
    return outputs.of(_product(call, given.rows(), transposed(w), scale_a, scale_b, dtype, outputs, keys, sides))


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
    outputs = call.outputs(out, c=(shape, dtype_name("dtype", dtype)))
    return outputs.of(_product(call, left, right, of_a, transposed(of_b), dtype, outputs, batch=batch))


def scaled_grouped_matmul(
    a: Sequence[Any], b: Sequence[Any], scale_a: Sequence[Any], scale_b: Sequence[Any], *, dtype: str = "bf16",
    out: Sequence[Any] | None = None, stream: object = None,
) -> list[Any]:  # fmt: skip
    """Products (a[i] · scale_a[i]) @ (b[i] · scale_b[i]) of different sizes in one launch.

    Args:
        a, b, scale_a, scale_b: sequences of what `scaled_matmul` takes of matrices; types, how matrices lie and what
            scales are of are those of all products.
        dtype: of the results.
        out: a sequence of (m, n), to be written.

    Returns:
        A list of products.

    Raises:
        DeviceError, RequestError: as `scaled_matmul`; as many of each are expected, and at least one.
    """
    call = Call(stream)
    given = {"a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b}
    count = as_many(given)
    products: list[Product] = []
    for number in range(count):
        one = {name: call.read(f"{name}[{number}]", arrays[number]) for name, arrays in given.items()}
        left, right = one["a"].require(ndim=2), one["b"].require(ndim=2, dtype=one["a"].dtype)
        if left.shape[1] != right.shape[0]:
            raise DeviceError(f"{left.what} of shape {left.shape} and {right.what} of shape {right.shape}: no product")
        require_f32(one["scale_a"], "several products")
        products.append((left, right, as_matrix(one["scale_a"], 2), transposed(as_matrix(one["scale_b"], 2))))
    each = _operands(products)
    inputs = {f"{name}_{number}": one for number, (_, views) in enumerate(each) for name, one in views.items()}
    asked = {**of_each([keys for keys, _ in each], NAMES), "out": dtype_name("dtype", dtype)}
    shapes = [(one.shape[-2], two.shape[-1]) for one, two, _, _ in products]
    return grouped(call, "grouped_gemm_quant", asked, inputs, out, shapes)


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
    w = call.read("weight", weight, "u4" if unsigned else "i4")
    asked = {"b_dtype": w.dtype, "zeros": zeros is not None}
    return _of_four_bits(call, "gemm_int4", asked, x, w, scale, zeros, bias, activation, residual, out)


@checked
def linear_fp4(
    x: Any, weight: Any, scale: Any, bias: Any = None, activation: str | None = None, *, residual: Any = None,
    out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """`linear` with a weight of 4-bit floats (e2m1): weight[n, k] = element · scale[n, group].

    Args:
        x: (…, k), f16 or bf16.
        weight: (n, k / 2), uint8, the first of two elements along k in the low half, as `quantize` returns it.
        scale: (n, groups), of 32, 64 or 128 elements along k: powers of two (e8m0), as MXFP4 has them for 32; f16,
            bf16 or f32.
        bias, activation, residual, out: as for `linear`.

    Returns:
        (…, n), of x's type, or `out`.

    Raises:
        DeviceError, RequestError: as `linear`.
    """
    call = Call(stream)
    w = call.read("weight", weight, "fp4")
    return _of_four_bits(call, "gemm_fp4", {}, x, w, scale, None, bias, activation, residual, out)


def _of_four_bits(
    call: Call, operator: str, asked: dict[str, object], x: Any, weight: Given, scale: Any, zeros: Any, bias: Any,
    activation: str | None, residual: Any, out: Any,
) -> Any:  # fmt: skip
    """`linear` with a weight whose elements share bytes, and scales of groups."""
    given, w = call.read("x", x), weight.require(ndim=2).rows()
    n, k = w.shape[0], _length(w)
    if not given.ndim or given.shape[-1] != k:
        raise DeviceError(f"x of shape {given.shape} and weight of shape {w.shape}: expected rows of {k}")
    shape = (*given.shape[:-1], n)
    keys, sides = epilogue(call, shape, bias, activation, residual, given.dtype)
    a, of_groups = given.rows(), call.read("scale", scale).require(ndim=2).rows()
    length = next((one for one in LENGTHS if of_groups.shape == (n, ceil_div(k, one))), None)
    if length is None:
        raise DeviceError(f"scale: shape {of_groups.shape}; expected one for each of {n} rows and 32, 64 or 128 of {k}")
    keys |= asked | {
        "m": a.shape[0], "n": n, "k": k, "dtype": given.dtype, "lda": pitch_of(a), "ldb": pitch_of(w),
        "b_scale": f"1x{length}", "scale": of_groups.dtype, "ld_scale": pitch_of(of_groups),
    }  # fmt: skip
    inputs: dict[str, Given | None] = {"a0": a, "b0": w, "b1": of_groups, **sides}
    if zeros is not None:
        points = call.read("zeros", zeros).require(shape=of_groups.shape, dtype=of_groups.dtype).rows()
        if pitch_of(points) != pitch_of(of_groups):
            raise DeviceError("scale, zeros: their rows lie differently far apart; make contiguous copies first")
        inputs["b2"] = points
    outputs = call.outputs(out, c=(shape, given.dtype))
    keys |= pitch_key("ldc", outputs.given["c"])
    return outputs.of(call.run(operator, keys, inputs, outputs.given, varying=("m",)))


def _product(
    call: Call, a: Given, b: Given, scale_a: Given, scale_b: Given, dtype: str, outputs: Outputs,
    keys: dict[str, object] | None = None, sides: dict[str, Given] | None = None, batch: tuple[int, ...] = (),
) -> dict[str, Given]:  # fmt: skip
    """C of a (…, m, k) and b (…, k, n) with scales (…, m, groups) and (…, n, groups)."""
    [(asked, inputs)] = _operands([(a, b, scale_a, scale_b)])
    asked |= {**(keys or {}), "out": dtype_name("dtype", dtype)}
    operator = "mx_gemm" if scale_a.dtype == POWER.name else "gemm_quant"
    if operator == "mx_gemm":
        asked = {name: value for name, value in asked.items() if name not in ("a_scale", "b_scale")}
    if batch:
        require_f32(scale_a, "a batch")
        operator = "batched_gemm_quant"
        spread(asked, inputs, batch)
    c = outputs.given["c"]
    asked |= batch_keys(c) if batch else pitch_key("ldc", c)
    varying = ("m", "a_batch_strides", "scale_a_batch_strides", "c_batch_strides") if batch else ("m",)
    return call.run(operator, asked, {**inputs, **(sides or {})}, outputs.given, varying=varying)


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
    return 1 if name.startswith("scale_") and form in VECTORS else 2


def of_each(each: Sequence[dict[str, object]], names: str) -> dict[str, object]:
    """The keys of several products: numbers are listed. Raises DeviceError where another key of two differs."""
    common = {name: value for name, value in each[0].items() if not isinstance(value, int)}
    if any(keys[name] != value for keys in each for name, value in common.items()):
        raise DeviceError(f"{names}: products differ in types; expected all alike")
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


def _operands(products: Sequence[Product]) -> list[tuple[dict[str, object], dict[str, Given]]]:
    """The keys of each product of one launch, and the views of memory of its matrices and their scales."""
    types = [_types(*product) for product in products]
    is_packed = any(find_dtype(one.dtype).packing for one in products[0][:2])
    order = None if is_packed else common(NAMES, [orders(a, b) for a, b, _, _ in products])
    of_a = common(NAMES, [ways("a", scales, a.shape[-2], _length(a)) for a, _, scales, _ in products])
    of_b = common(NAMES, [ways("b", scales, b.shape[-1], _length(a)) for a, b, _, scales in products])
    found = []
    for own, (a, b, scale_a, scale_b) in zip(types, products, strict=True):
        layout, memories, pitches = _along_k(a, b) if order is None else layout_of(a, b, order)
        scales_of_a, memories["scale_a"] = laid("a", scale_a, of_a)
        scales_of_b, memories["scale_b"] = laid("b", scale_b, of_b)
        sizes = {"m": a.shape[-2], "n": b.shape[-1], "k": _length(a)}
        found.append(({**sizes, **own, "layout": layout, **pitches, **scales_of_a, **scales_of_b}, memories))
    return found


def _types(a: Given, b: Given, scale_a: Given, scale_b: Given) -> dict[str, object]:
    """The keys of the types of one product. Raises DeviceError where no kernel multiplies these."""
    if find_dtype(a.dtype).packing is None and find_dtype(b.dtype).packing is None:
        pair_of(a, b)
    if scale_a.dtype not in ("f32", POWER.name):
        raise DeviceError(f"{scale_a.what}: elements are {scale_a.dtype}; expected f32 or {POWER.name}")
    scale_b.require(dtype=scale_a.dtype)
    return {"dtype": a.dtype, **({} if a.dtype == b.dtype else {"b_dtype": b.dtype})}


def _along_k(a: Given, b: Given) -> tuple[str, dict[str, Given], dict[str, int]]:
    """As `layout_of`, of packed elements, which lie along K."""
    memories = {"a": a.rows(), "b": transposed(b).rows()}
    return "RCR", memories, {f"ld{name}": elements_in(one.dtype, pitch_of(one)) for name, one in memories.items()}


def _length(matrix: Given) -> int:
    """Elements of a row."""
    return elements_in(matrix.dtype, matrix.shape[-1])
