"""Products of different sizes in one launch: `grouped_matmul`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ckmlir.nn.calls import Call
from ckmlir.nn.given import Given, pitch_key, pitch_of
from ckmlir.nn.products import common, layout_of, orders, output_type
from ckmlir.runtime.device import DeviceError


def grouped_matmul(
    a: Any, b: Any, offs: Any = None, *, dtype: str | None = None, out: Any = None, stream: object = None
) -> Any:
    """Products a[i] @ b[i] of different sizes in one launch.

    Either two sequences of matrices, or, as PyTorch's `grouped_mm` has it, the rows of one matrix in groups:

    Args:
        a: a sequence of matrices (m[i], k[i]); or (m, k), whose group i are the rows from offs[i - 1] up to offs[i].
        b: a sequence of matrices (k[i], n[i]); or (groups, k, n). f16, bf16, f32, f64, fp8, bf8 or i8, all of one type;
            rows or columns contiguous, of all alike.
        offs: for one matrix a: where each group ends, ascending; the last is m. On the host: numbers, or NumPy's array.
        dtype: of the results; by default that of a and b, f16 for 8-bit floats, i32 for i8.
        out: what is written instead of new arrays: a sequence of (m[i], n[i]), of which some may be None, or (m, n).

    Returns:
        A list of products, or one array (m, n), or `out`.

    Raises:
        DeviceError: shapes or types do not fit, offs does not ascend to m, matrices lie in different orders.
        RequestError: the chip lacks the type.
    """
    call = Call(stream)
    if offs is not None:
        return _of_rows(call, a, b, offs, dtype, out)
    if not isinstance(a, Sequence) or not isinstance(b, Sequence):
        raise DeviceError("a, b: expected sequences of matrices, or one matrix, (groups, k, n) and offs")
    return _of_matrices(call, a, b, dtype, out)


def _of_matrices(call: Call, a: Sequence[Any], b: Sequence[Any], dtype: str | None, out: Any) -> Any:
    if len(a) != len(b) or not a:
        raise DeviceError(f"a and b: {len(a)} and {len(b)} matrices; expected as many, and at least one")
    pairs = []
    for number, (left, right) in enumerate(zip(a, b, strict=True)):
        one, two = call.read(f"a[{number}]", left).require(ndim=2), call.read(f"b[{number}]", right).require(ndim=2)
        if one.shape[1] != two.shape[0]:
            raise DeviceError(f"{one.what} of shape {one.shape} and {two.what} of shape {two.shape}: no product")
        pairs.append((one, two))
    element = pairs[0][0].dtype
    for one in (one for pair in pairs for one in pair):
        one.require(dtype=element)
    order = common("a, b", [orders(*pair) for pair in pairs])
    laid = [layout_of(*pair, order) for pair in pairs]
    wanted = output_type(element, dtype)
    keys: dict[str, object] = {
        "m": tuple(one.shape[0] for one, _ in pairs),
        "n": tuple(two.shape[1] for _, two in pairs),
        "k": tuple(one.shape[1] for one, _ in pairs),
        "dtype": element, "out": wanted, "layout": laid[0][0],
        **{name: tuple(pitches[name] for _, _, pitches in laid) for name in ("lda", "ldb")},
    }  # fmt: skip
    inputs = {f"{name}_{number}": memories[name] for number, (_, memories, _) in enumerate(laid) for name in "ab"}
    shapes = [(one.shape[0], two.shape[1]) for one, two in pairs]
    return grouped(call, "grouped_gemm", keys, inputs, out, shapes)


def grouped(
    call: Call, operator: str, keys: dict[str, object], inputs: Mapping[str, Given], out: Any,
    shapes: Sequence[tuple[int, int]],
) -> list[Any]:  # fmt: skip
    """Products of these shapes by one launch; `out` has an array for each, or None where one is made.

    Raises DeviceError for another number of arrays, and for others.
    """
    if out is not None and (not isinstance(out, (tuple, list)) or len(out) != len(shapes)):
        raise DeviceError(f"out: expected a sequence of {len(shapes)} arrays")
    wanted = str(keys["out"])
    outputs = call.outputs(out, **{f"c_{number}": (shape, wanted) for number, shape in enumerate(shapes)})
    pitches = [pitch_key("ldc", one) or {"ldc": max(n, 1)} for one, (_, n) in zip(outputs.given.values(), shapes)]
    if out is not None:
        keys["ldc"] = tuple(one["ldc"] for one in pitches)
    return outputs.each(call.run(operator, keys, dict(inputs), outputs.given, varying=("m",)))


def _of_rows(call: Call, a: Any, b: Any, offs: Any, dtype: str | None, out: Any) -> Any:
    rows, weights = call.read("a", a).require(ndim=2), call.read("b", b).require(ndim=3)
    (m, k), (groups, depth, n) = rows.shape, weights.shape
    weights.require(dtype=rows.dtype)
    if not groups:
        raise DeviceError(f"b of shape {weights.shape}: no group; expected at least one")
    if depth != k:
        raise DeviceError(f"a of shape {rows.shape} and b of shape {weights.shape}: sums of {k} and {depth}")
    ends = np.asarray(offs)
    if ends.dtype.kind not in "iu" or ends.shape != (groups,):
        raise DeviceError(f"offs: {ends.dtype} of shape {ends.shape}; expected {groups} whole numbers, one a group")
    starts = [0, *map(int, ends)]
    if any(end < start for start, end in pairwise(starts)) or starts[-1] != m:
        raise DeviceError(f"offs: {starts[1:]}; expected numbers that ascend to {m}, the rows of a")
    wanted = output_type(rows.dtype, dtype)
    form, memories, pitches = layout_of(rows, weights)
    if form[0] != "R":
        raise DeviceError("a: rows are not contiguous; make a contiguous copy first")
    outputs = call.outputs(out, c=((m, n), wanted))
    c = outputs.given["c"]
    pitch = pitch_of(c) if c is not None and pitch_key("ldc", c) else max(n, 1)
    length = 0 if 0 in (m, n) else (m - 1) * pitch + n
    own = {"a": pitches["lda"], "c": pitch}
    at = {name: tuple(start * distance for start in starts[:-1]) for name, distance in own.items()}
    at["b"] = tuple(number * weights.strides[0] for number in range(groups))
    flat = {name: one.strided((_reach(one),), (1,)) for name, one in memories.items()}
    keys: dict[str, object] = {
        "m": tuple(end - start for start, end in pairwise(starts)), "n": n, "k": k,
        "dtype": rows.dtype, "out": wanted, "layout": form,
        **{name: (value,) * groups for name, value in pitches.items()}, "ldc": (pitch,) * groups,
        **{f"{name}_at": places for name, places in at.items()},
        **{f"{name}_size": one.shape[0] for name, one in flat.items()},
        "c_size": length,
    }  # fmt: skip
    written = c if c is None or pitch == max(n, 1) else c.strided((length,), (1,))
    varying = ("m", "a_at", "c_at", "a_size", "c_size")
    return outputs.of(call.run("grouped_gemm", keys, flat, {"c": written}, varying=varying))


def _reach(one: Given) -> int:
    """Elements from the first to the last of a view."""
    if 0 in one.shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(one.shape, one.strides, strict=True))
