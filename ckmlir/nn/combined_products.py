"""Products of matrices of which expressions say what is multiplied and what is stored: `combined_matmul`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ckmlir.nn.calls import Call, dtype_name
from ckmlir.nn.given import Given, pitch_key, pitch_of
from ckmlir.nn.plain import shown
from ckmlir.nn.products import output_type, transposed
from ckmlir.runtime.device import DeviceError

MOST = 4
"""Arrays of each operand, and beside the sums."""


def combined_matmul(
    a: Any,
    b: Any,
    *sides: Any,
    op: str = "acc",
    a_op: str | None = None,
    b_op: str | None = None,
    dtype: str | None = None,
    multiplied: str | None = None,
    out: Any = None,
    stream: object = None,
) -> Any:
    """op(A @ B, d0, …) in one kernel, with A = a_op(a0, a1, …) and B = b_op(b0, b1, …) as they are loaded.

    Expressions are those of `elementwise`: `combined_matmul(x, w, scales, bias, op="gelu(acc * d0 + d1)")`, or
    `combined_matmul((x, residual), (w, scale), a_op="a0 + a1", b_op="b0 * b1")`.

    Args:
        a: an array, or up to four, called a0 to a3, that broadcast to (m, k).
        b: an array, or up to four, called b0 to b3, that broadcast to (k, n).
        sides: up to four arrays, called d0 to d3 in `op`, that broadcast to (m, n).
        op: what is stored, from the sums `acc` and the sides.
        a_op, b_op: what is multiplied, computed in f32, of f64 in f64.
        dtype: of the result, as for `matmul`.
        multiplied: the type in which A and B are multiplied; by default a0's.
        out: (m, n), to be written; it may not be an input.

    Returns:
        (m, n), or `out`.

    Raises:
        DeviceError: shapes do not fit, or neither rows nor columns of a matrix are contiguous.
        RequestError: an expression means nothing or names an array that is not there; the chip lacks the type.
    """
    call = Call(stream)
    operands = {"a": _several(call, "a", a), "b": _several(call, "b", b)}
    for what, text in (("op", op), ("a_op", a_op), ("b_op", b_op)):
        if text is not None and not isinstance(text, str):
            raise DeviceError(f"{what}={shown(text)}: expected an expression, such as acc * 2")
    beside = [call.read(f"d{number}", one) for number, one in enumerate(sides)]
    if len(beside) > MOST:
        raise DeviceError(f"{len(beside)} sides; expected at most {MOST}")
    (m, k), (depth, n) = (_shape(name, several) for name, several in operands.items())
    if k != depth:
        raise DeviceError(f"rows of a have {k} elements, columns of b {depth}; expected as many")
    kind = operands["a"][0].dtype if multiplied is None else dtype_name("multiplied", multiplied)
    wanted = output_type(kind, dtype)
    keys: dict[str, object] = {"m": m, "n": n, "k": k, "dtype": kind, "out": wanted}
    inputs: dict[str, Given] = {}
    ops = {"a": a_op, "b": b_op}
    for name, shape in (("a", (m, k)), ("b", (k, n))):
        own = _operand(name, ops[name] or f"{name}0", operands[name], shape)
        keys |= own[0]
        inputs |= own[1]
    own = _sides(op, beside, (m, n))
    keys |= own[0]
    outputs = call.outputs(out, c=((m, n), wanted))
    keys |= pitch_key("ldc", outputs.given["c"])
    return outputs.of(call.run("gemm_multi_abd", keys, {**inputs, **own[1]}, outputs.given, varying=("m",)))


def _several(call: Call, name: str, arrays: Any) -> list[Given]:
    """What an operand is made of. Raises DeviceError for none, and for more than expressions name."""
    several = list(arrays) if isinstance(arrays, (list, tuple)) else [arrays]
    if not 1 <= len(several) <= MOST:
        raise DeviceError(f"{name}: {len(several)} arrays; expected 1 to {MOST}")
    found = [call.read(f"{name}{number}", one) for number, one in enumerate(several)]
    for one in found:
        if one.ndim > 2:
            raise DeviceError(f"{one.what}: shape {one.shape}; expected what broadcasts to a matrix")
    return found


def _matrix(one: Given) -> tuple[int, int]:
    """Its shape among matrices: rows and columns that do not count are 1."""
    rows, columns = (1, 1, *one.shape)[-2:]
    return rows, columns


def _shape(name: str, several: Sequence[Given]) -> tuple[int, int]:
    """What arrays broadcast to. Raises DeviceError where they do not."""
    try:
        rows, columns = np.broadcast_shapes((1, 1), *(one.shape for one in several))
    except ValueError:
        shapes = ", ".join(str(one.shape) for one in several)
        raise DeviceError(f"{name}: shapes {shapes} do not broadcast") from None
    return rows, columns


def _kind(one: Given, shape: tuple[int, int], kinds: tuple[str, str]) -> str:
    """How it spreads over the matrix; `kinds`: one number for each row, one for each column."""
    rows, columns = _matrix(one)
    if (rows, columns) == shape:
        return "full"
    if rows == 1 and columns == 1:
        return "scalar"
    return kinds[0] if columns == 1 else kinds[1]


def _vector(one: Given) -> Given:
    """Numbers for rows or columns, as the one dimension that they are."""
    length = max(_matrix(one)) if 0 not in one.shape else 0
    step = next((stride for size, stride in zip(one.shape, one.strides, strict=True) if size == length), 1)
    return one.strided((length,), (step if length > 1 else 1,))


def _operand(
    name: str, op: str, several: Sequence[Given], shape: tuple[int, int]
) -> tuple[dict[str, object], dict[str, Given]]:
    """The keys and arrays of A or B; `shape`: (m, k) or (k, n)."""
    kinds, layouts, pitches, arrays = [], [], [], {}
    for one in several:
        kind = _kind(one, shape, ("m", "k") if name == "a" else ("k", "n"))
        layout = "C" if kind == "full" and one.strides[-2:] == (1, one.strides[-1]) != (1, 1) else "R"
        if kind == "full":
            whole = one.strided(shape, one.strides if one.ndim == 2 else (shape[1], *one.strides))
            rows = (transposed(whole) if layout == "C" else whole).rows()
            pitch = pitch_of(rows)
        else:
            rows = _vector(one)
            pitch = rows.strides[0]
        kinds.append(kind)
        layouts.append(layout)
        pitches.append(pitch)
        arrays[one.what] = rows
    keys: dict[str, object] = {
        f"{name}_op": op, f"{name}_types": tuple(one.dtype for one in several), f"{name}_kind": tuple(kinds),
        f"{name}_layout": tuple(layouts), f"ld{name}": tuple(pitches),
    }  # fmt: skip
    return keys, arrays


def _sides(op: str, sides: Sequence[Given], shape: tuple[int, int]) -> tuple[dict[str, object], dict[str, Given]]:
    """The keys and arrays of what stands beside the sums."""
    keys: dict[str, object] = {"op": op}
    if not sides:
        return keys, {}
    kinds, pitches, arrays = [], [], {}
    for one in sides:
        if one.ndim > 2 or any(own not in (1, whole) for own, whole in zip(_matrix(one), shape, strict=True)):
            raise DeviceError(f"{one.what}: shape {one.shape}; expected what broadcasts to {shape}")
        kind = _kind(one, shape, ("column", "row"))
        if kind == "full":
            rows = one.strided(shape, one.strides if one.ndim == 2 else (shape[1], *one.strides)).rows()
            pitch = pitch_of(rows)
        else:
            rows = _vector(one)
            pitch = rows.strides[0] if kind == "column" else 0
            if kind == "row" and rows.strides != (1,):
                raise DeviceError(f"{one.what}: numbers lie {rows.strides[0]} elements apart; make a contiguous copy")
        kinds.append(kind)
        pitches.append(pitch)
        arrays[one.what] = rows
    return keys | {"d": tuple(one.dtype for one in sides), "d_kind": tuple(kinds), "ldd": tuple(pitches)}, arrays
