"""Products of matrices: `matmul`, `linear`, `swiglu`; `compress_sparse` and `matmul_sparse`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from ckmlir.nn.calls import Call, dtype_name
from ckmlir.nn.given import Given, batch_keys, pitch_key, pitch_of
from ckmlir.nn.gradients import differentiable
from ckmlir.nn.outputs import Outputs
from ckmlir.nn.plain import word
from ckmlir.ops.contraction.sparsity import index_bytes, kept
from ckmlir.runtime.device import DeviceError
from ckmlir.targets.matrix_names import EIGHT_BIT_FLOATS

T = TypeVar("T")

ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "sigmoid", "silu", "tanh")
"""What may follow a linear layer: functions of one variable that epilogues know."""
"""Which matrix instructions multiply by each other."""
MOST_BATCH = 3
"""Dimensions of a batch of products."""


@differentiable
def matmul(a: Any, b: Any, *, dtype: str | None = None, out: Any = None, stream: object = None) -> Any:
    """a @ b, as NumPy and PyTorch have it: matrices, or batches of them that broadcast. A vector as a is a row, as b a
    column; the result does not have its dimension.

    Args:
        a: (…, m, k) or (k,), rows or columns contiguous. b: (…, k, n) or (k,). f16, bf16, f32, f64, fp8, bf8 or i8,
            both the same, or one of fp8 and one of bf8.
        dtype: of the result; by default that of a and b, f16 for 8-bit floats, i32 for i8.
        out: (…, m, n), to be written.

    Returns:
        The product, or `out`.

    Raises:
        DeviceError: shapes or types do not fit, or arrays lie as no kernel takes them.
        RequestError: the chip lacks the type.
    """
    call = Call(stream)
    given = call.read("a", a), call.read("b", b)
    for one in given:
        if not one.ndim:
            raise DeviceError(f"{one.what}: a number; expected a vector, a matrix, or a batch of them")
    left, right = _with_a_row(given[0]), _with_a_column(given[1])
    if left.shape[-1] != right.shape[-2]:
        raise DeviceError(f"a of shape {left.shape} and b of shape {right.shape}: {_sums(left, right)}")
    pair_of(left, right)
    wanted = output_type(left.dtype, dtype)
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise DeviceError(f"a of shape {left.shape} and b of shape {right.shape}: batches do not broadcast") from None
    shape = (*batch, left.shape[-2], right.shape[-1])
    of_rows, of_columns = given[0].shape[-2:-1], shape[-1:] if given[1].ndim > 1 else ()
    outputs = call.outputs(out, c=((*batch, *of_rows, *of_columns), wanted)).seen_as(c=shape)
    if right.ndim == 2 and _are_matrices(left, outputs.given["c"]):
        found = _matrix_product(call, left, right, wanted, outputs)
    else:
        found = _batched_product(call, left, right, batch, wanted, outputs)
    return outputs.of(found)


@differentiable
def linear(
    x: Any,
    weight: Any,
    bias: Any = None,
    activation: str | None = None,
    *,
    residual: Any = None,
    out: Any = None,
    stream: object = None,
) -> Any:
    """activation(x weightᵀ + bias) + residual in one kernel: `torch.nn.functional.linear` with what follows it.

    Args:
        x: (…, k). weight: (n, k). bias: (n,). residual: (…, n). All of one type: f16, bf16 or f32. Rows that are not
            all at one distance are a batch of products, of at most three dimensions.
        activation: gelu, gelu_tanh, relu, sigmoid, silu or tanh.
        out: (…, n), to be written; it may not be an input.

    Returns:
        (…, n), of x's type, or `out`.

    Raises:
        DeviceError, RequestError: as `matmul`; an unknown activation.
    """
    call = Call(stream)
    given, w = call.read("x", x), call.read("weight", weight).require(ndim=2)
    if not given.ndim or given.shape[-1] != w.shape[1]:
        raise DeviceError(f"x of shape {given.shape} and weight of shape {w.shape}: expected rows of {w.shape[1]}")
    dtype = given.dtype
    shape = (*given.shape[:-1], w.shape[0])
    w.require(dtype=dtype)
    outputs = call.outputs(out, c=(shape, dtype))
    is_batch = not _are_matrices(given, outputs.given["c"], call.optional("residual", residual))
    keys, sides = epilogue(call, shape, bias, activation, residual, dtype, is_batch)
    if is_batch:
        found = _batched_product(call, given, transposed(w), shape[:-2], dtype, outputs, keys, sides)
    else:
        found = _matrix_product(call, given, transposed(w), dtype, outputs, keys, sides)
    return outputs.of(found)


def swiglu(x: Any, gate: Any, up: Any, *, out: Any = None, stream: object = None) -> Any:
    """silu(x gateᵀ) · (x upᵀ), both products in one loop: the first half of a gated feed-forward layer.

    Args:
        x: (…, k). gate, up: (n, k), of x's type: f16, bf16 or f32, and as far apart from row to row.
        out: (…, n), to be written.

    Raises:
        DeviceError, RequestError: as `matmul`.
    """
    call = Call(stream)
    given = call.read("x", x)
    weights = [call.read(name, one).require(ndim=2, dtype=given.dtype) for name, one in (("gate", gate), ("up", up))]
    if not given.ndim or weights[0].shape != weights[1].shape or given.shape[-1] != weights[0].shape[1]:
        shapes = ", ".join(f"{one.what} {one.shape}" for one in (given, *weights))
        raise DeviceError(f"{shapes}: expected (…, k), (n, k) and (n, k)")
    shape = (*given.shape[:-1], weights[0].shape[0])
    outputs = call.outputs(out, c=(shape, given.dtype))
    a = given.rows()
    matrices = [one.rows() for one in weights]
    if pitch_of(matrices[0]) != pitch_of(matrices[1]):
        raise DeviceError("gate, up: their rows lie differently far apart; make contiguous copies first")
    keys: dict[str, object] = {
        "m": a.shape[0], "n": shape[-1], "k": a.shape[1], "dtype": given.dtype, "out": given.dtype,
        "lda": pitch_of(a), "ldb": pitch_of(matrices[0]),
    }  # fmt: skip
    keys |= pitch_key("ldc", outputs.given["c"])
    inputs = {"a": a, "gate": matrices[0], "up": matrices[1]}
    return outputs.of(call.run("gated_gemm", keys, inputs, outputs.given, varying=("m",)))


def compress_sparse(a: Any, *, out: Any = None, stream: object = None) -> Any:
    """The two elements of largest magnitude of every four along the rows of a matrix, for `matmul_sparse`.

    Of a matrix that has at most two numbers other than zero among four nothing is lost; of others the rest is dropped.

    Args:
        a: (m, k), rows contiguous; f16, bf16, i8, fp8 or bf8.
        out: the elements and the index, to be written.

    Returns:
        The elements (m, 2 ceil(k / 4)), and an index (m, ceil(k / 8)), i8, that says which they are.

    Raises:
        DeviceError, RequestError: as `matmul`.
    """
    call = Call(stream)
    rows = call.read("a", a).require(ndim=2).rows()
    m, k = rows.shape
    outputs = call.outputs(out, a=((m, kept(k)), rows.dtype), index=((m, index_bytes(k)), "i8"))
    keys: dict[str, object] = {
        "m": m, "k": k, "dtype": rows.dtype, "stride": pitch_of(rows), **pitch_key("lda", outputs.given["a"]),
        **pitch_key("ld_index", outputs.given["index"]), "align": rows.base,
    }  # fmt: skip
    return outputs.of(call.run("compress_sparse", keys, {"x": rows}, outputs.given, varying=("m",)))


def matmul_sparse(
    values: Any, index: Any, b: Any, *, dtype: str | None = None, out: Any = None, stream: object = None
) -> Any:
    """a @ b, of a matrix a (m, k) that `compress_sparse` has made elements and an index of: sparse matrix instructions.

    Args:
        values: (m, 2 ceil(k / 4)) and index: (m, ceil(k / 8)), as `compress_sparse` returns them.
        b: (k, n), rows or columns contiguous, of the type of values; or the other of fp8 and bf8.
        dtype: of the result, as for `matmul`.
        out: (m, n), to be written.

    Returns:
        The product, or `out`.

    Raises:
        DeviceError, RequestError: as `matmul`; the chip has no sparse matrix instructions.
    """
    call = Call(stream)
    left, right = call.read("values", values).require(ndim=2), call.read("b", b).require(ndim=2)
    k, wanted = right.shape[0], output_type(left.dtype, dtype)
    if left.shape[1] != kept(k):
        expected = f"{kept(k)} elements of rows of {k}"
        raise DeviceError(f"values of shape {left.shape} and b of shape {right.shape}: expected {expected}")
    types = pair_of(left, right)
    which = call.read("index", index).require(shape=(left.shape[0], index_bytes(k)), dtype="i8").rows()
    layout, memories, pitches = layout_of(left.rows(), right)
    if layout[0] != "R":
        raise DeviceError("values: rows are not contiguous; make a contiguous copy first")
    keys: dict[str, object] = {
        "m": left.shape[0], "n": right.shape[1], "k": k, **types, "out": wanted, "layout": layout,
        **pitches, "ld_index": pitch_of(which),
    }  # fmt: skip
    outputs = call.outputs(out, c=((left.shape[0], right.shape[1]), wanted))
    keys |= pitch_key("ldc", outputs.given["c"])
    inputs = {**memories, "index": which}
    return outputs.of(call.run("gemm_sparse", keys, inputs, outputs.given, varying=("m",)))


def epilogue(
    call: Call, shape: tuple[int, ...], bias: Any, activation: str | None, residual: Any, dtype: str | None = None,
    is_batch: bool = False,
) -> tuple[dict[str, object], dict[str, Given]]:  # fmt: skip
    """The keys and the arrays of activation(product + bias) + residual, of this shape: of rows, or of a batch.

    Raises DeviceError for an unknown activation, and for arrays of another shape, or another type than `dtype`.
    """
    if activation is not None:
        word("activation", activation, ACTIVATIONS)
    expression, sides = "acc", dict[str, tuple[str, Given]]()
    if bias is not None:
        sides["d0"] = "row", call.read("bias", bias).require(shape=shape[-1:], dtype=dtype)
        expression = "acc + d0"
    if activation is not None:
        expression = f"{activation}({expression})"
    if residual is not None:
        name = f"d{len(sides)}"
        added = call.read("residual", residual).require(shape=shape, dtype=dtype)
        sides[name] = "full", added.matrices() if is_batch else added.rows()
        expression = f"{expression} + {name}"
    keys: dict[str, object] = {"op": expression} if expression != "acc" else {}
    if sides:
        keys["d"] = tuple(one.dtype for _, one in sides.values())
        keys["d_kind"] = tuple(kind for kind, _ in sides.values())
        keys["ldd"] = tuple(pitch_of(one) if kind == "full" else 0 for kind, one in sides.values())
    return keys, {name: one for name, (_, one) in sides.items()}


def _with_a_row(a: Given) -> Given:
    """A vector as a matrix of one row; anything else as it is."""
    return a if a.ndim > 1 else a.strided((1, *a.shape), (max(a.shape[0], 1), *a.strides))


def _with_a_column(b: Given) -> Given:
    """A vector as a matrix of one column; anything else as it is."""
    return b if b.ndim > 1 else b.strided((*b.shape, 1), (*b.strides, max(b.shape[0], 1)))


def _are_matrices(x: Given, *others: Given | None) -> bool:
    """Whether x is a matrix or a vector, or everything that is given can be read as the rows of one."""
    return x.ndim <= 2 or all(one.has_rows or not one.is_told for one in (x, *others) if one is not None)


def _matrix_product(
    call: Call,
    a: Given,
    b: Given,
    dtype: str,
    outputs: Outputs,
    keys: Mapping[str, object] = MappingProxyType({}),
    sides: Mapping[str, Given] = MappingProxyType({}),
) -> dict[str, Given]:
    """C (…, n) of A (…, k) and B (k, n), each with contiguous rows; matrices may have contiguous columns instead."""
    matrix = a if a.ndim == 2 else a.rows()
    layout, memories, pitches = layout_of(matrix, b)
    asked: dict[str, object] = {
        "m": matrix.shape[0], "n": b.shape[1], "k": b.shape[0], **pair_of(a, b), "out": dtype, "layout": layout,
        **pitches, **pitch_key("ldc", outputs.given["c"]), **keys,
    }  # fmt: skip
    return call.run("gemm", asked, {**memories, **sides}, outputs.given, varying=("m",))


def _batched_product(
    call: Call,
    a: Given,
    b: Given,
    batch: tuple[int, ...],
    dtype: str,
    outputs: Outputs,
    keys: Mapping[str, object] = MappingProxyType({}),
    sides: Mapping[str, Given] = MappingProxyType({}),
) -> dict[str, Given]:
    """C (batch, m, n) of A (…, m, k) and B (…, k, n), whose dimensions in front broadcast to the batch."""
    if len(batch) > MOST_BATCH:
        raise DeviceError(f"a batch of {len(batch)} dimensions; expected at most {MOST_BATCH}")
    layout, memories, pitches = layout_of(a, b)
    asked: dict[str, object] = {
        "batch": batch, "m": a.shape[-2], "n": b.shape[-1], "k": a.shape[-1], **pair_of(a, b), "out": dtype,
        "layout": layout, **pitches, **keys,
    }  # fmt: skip
    found = {}
    for name, one in {**memories, **sides}.items():
        single = min(one.ndim, 2)
        missing = len(batch) - one.ndim + single
        steps = (0,) * missing + one.strides[:-single]
        own = (1,) * missing + one.shape[:-single]
        own = tuple(length if step else min(length, 1) for length, step in zip(own, steps, strict=True))  # shared
        found[name] = one.strided((*own, *one.shape[-single:]), (*steps, *one.strides[-single:]))
        asked[f"{name}_batch"], asked[f"{name}_batch_strides"] = own, steps
    asked |= batch_keys(outputs.given["c"])
    varying = ("m", *(f"{name}_batch_strides" for name in ("a", "c", *sides)))
    return call.run("batched_gemm", asked, found, outputs.given, varying=varying)


def layout_of(a: Given, b: Given, order: str | None = None) -> tuple[str, dict[str, Given], dict[str, int]]:
    """The layout of both, the views of their memory, and the pitches. Matrices are the last two dimensions.

    `order` is one of `orders`, by default the usual one. Raises DeviceError where neither rows nor columns are
    contiguous.
    """
    of_a, of_b = tuple(order or orders(a, b)[0])
    memories = {
        "a": a if of_a == "R" else transposed(a),
        "b": b if of_b == "R" else transposed(b),
    }
    pitches = {f"ld{name}": pitch_of(one) for name, one in memories.items()}
    return f"{of_a}{of_b}R", {name: one.matrices() for name, one in memories.items()}, pitches


def orders(a: Given, b: Given) -> list[str]:
    """How two matrices lie: "RC" where rows of a and columns of b are contiguous, and so on, the usual order first.

    A matrix of one row or column lies in both orders. Raises DeviceError for one that lies in none.
    """
    return [of_a + of_b for of_a in _orders(a) for of_b in _orders(b)]


def _orders(matrix: Given) -> list[str]:
    (down, across), shape = matrix.strides[-2:], matrix.shape
    contiguous = {"R": across == 1 or shape[-1] < 2 or 0 in shape, "C": down == 1 or shape[-2] < 2 or 0 in shape}
    usual = "CR" if down == 1 != across else "RC"
    found = [order for order in usual if contiguous[order]]
    if not found:
        raise DeviceError(f"{matrix.what}: neither rows nor columns are contiguous; make a contiguous copy first")
    return found


def common(names: str, choices: Sequence[Sequence[T]]) -> T:
    """What all products of a launch allow, of what each does: what the first has first.

    Raises DeviceError where there is nothing.
    """
    found = [one for one in choices[0] if all(one in others for others in choices)]
    if not found:
        raise DeviceError(f"{names}: products differ in order or scales; expected all alike")
    return found[0]


def pair_of(a: Given, b: Given) -> dict[str, object]:
    """The keys of the types of both. Raises DeviceError where they differ and are not 8-bit floats."""
    if not {a.dtype, b.dtype} <= set(EIGHT_BIT_FLOATS):
        b.require(dtype=a.dtype)
    return {"dtype": a.dtype, **({} if a.dtype == b.dtype else {"b_dtype": b.dtype})}


def transposed(matrix: Given) -> Given:
    """With the last two dimensions exchanged."""
    shape, strides = matrix.shape, matrix.strides
    return matrix.strided((*shape[:-2], shape[-1], shape[-2]), (*strides[:-2], strides[-1], strides[-2]))


def output_type(dtype: str, asked: str | None) -> str:
    """The type of a product of elements of `dtype`. Raises DeviceError for elements that are not multiplied."""
    from ckmlir.ops.contraction.contraction_spec import OUTPUTS

    if dtype not in OUTPUTS:
        raise DeviceError(f"a: there are no products of {dtype}; expected {', '.join(OUTPUTS)}")
    return OUTPUTS[dtype][0] if asked is None else dtype_name("dtype", asked)


def _sums(a: Given, b: Given) -> str:
    return f"rows of a have {a.shape[-1]} elements, columns of b {b.shape[-2]}; expected as many"
