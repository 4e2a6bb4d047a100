"""Functions of manifold-constrained hyper-connections: residual networks of several streams (arXiv 2512.24880)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ckmlir.nn import plain
from ckmlir.nn.calls import Call
from ckmlir.nn.given import Given, pitch_key, pitch_of
from ckmlir.nn.outputs import Outputs
from ckmlir.nn.plain import checked
from ckmlir.ops.mhc.kinds import FORMS, KINDS, coefficients_of
from ckmlir.runtime.device import DeviceError


@checked
def mhc(
    x: Any,
    phi: Any,
    alpha: Any,
    bias: Any,
    *,
    form: str = "paper",
    iterations: int = 20,
    eps: float = 1e-6,
    sinkhorn_eps: float = 1e-6,
    out: Any = None,
    stream: object = None,
) -> Any:
    """Coefficients that mix the n streams of every row: pre, what of each a layer reads; post, what each gets of what
    the layer makes; res (n, n), how they are mixed.

    Args:
        x: (…, n, c), f16, bf16 or f32, n up to 8; rows of n c channels.
        phi: (2 n + n², n c), of x's type.
        alpha, bias: (3) and (2 n + n²), f32; for form="ck" three numbers and one.
        form: "paper": sigmoid(t), 2 sigmoid(t), and exp(t) whose rows and columns are made to add up to 1, for t =
            alpha x·phi / norm(x) + bias; "ck": CK Tile's example 42_mhc, with norms behind the sigmoids.
        iterations: divisions of res by the sums of its rows, then columns.
        eps, sinkhorn_eps: added to the mean of squares, and to those sums.
        out: (…, 2 n + n²), f32, to be written.

    Returns:
        (…, 2 n + n²), f32: pre, post, res.

    Raises:
        DeviceError: shapes or types do not fit, or rows are not contiguous.
        RequestError: the operator refuses the sizes, or a number.
    """
    call = Call(stream)
    given = _streams(call, x)
    outputs = call.outputs(out, y=((*given.shape[:-2], coefficients_of(given.shape[-2])), "f32"))
    numbers: dict[str, object] = {"form": form, "iterations": iterations, "eps": eps, "sinkhorn_eps": sinkhorn_eps}
    return outputs.of(_coefficients(call, given, phi, (alpha, bias), numbers, outputs))


@checked
def mhc_pre(
    x: Any,
    phi: Any,
    alpha: Any,
    bias: Any,
    *,
    form: str = "paper",
    iterations: int = 20,
    eps: float = 1e-6,
    sinkhorn_eps: float = 1e-6,
    out: Any = None,
    stream: object = None,
) -> Any:
    """What a layer reads of the n streams of every row, the sum of pre[i] x[i], and the coefficients for `mhc_post`.

    Args:
        x, phi, alpha, bias, form, iterations, eps, sinkhorn_eps: as for `mhc`.
        out: both, to be written.

    Returns:
        (…, c) of x's type, and coefficients (…, 2 n + n²), f32.

    Raises:
        DeviceError, RequestError: as `mhc`.
    """
    call = Call(stream)
    given = _streams(call, x)
    ahead, (n, c) = given.shape[:-2], given.shape[-2:]
    both = call.outputs(out, h=((*ahead, c), given.dtype), coefficients=((*ahead, coefficients_of(n)), "f32"))
    numbers: dict[str, object] = {"form": form, "iterations": iterations, "eps": eps, "sinkhorn_eps": sinkhorn_eps}
    first = _as_y(both, "coefficients")
    made = _coefficients(call, given, phi, (alpha, bias), numbers, first)["y"]
    second = _as_y(both, "h")
    rows, weights = _rows_of(given), made.reshaped(-1, coefficients_of(n)).rows()
    keys = _sizes(given) | {"stride": pitch_of(rows), "coefficients_stride": pitch_of(weights)}
    keys |= pitch_key("ystride", second.given["y"])
    found = call.run("mhc_input", keys, {"x": rows, "coefficients": weights}, second.given, varying=("m",))
    return both.of({"h": found["y"], "coefficients": made})


@checked
def mhc_post(x: Any, f: Any, coefficients: Any, *, out: Any = None, stream: object = None) -> Any:
    """The n streams of every row behind a layer: the sum over j of res[i, j] x[j], and post[i] f.

    Args:
        x: (…, n, c), f16, bf16 or f32, as `mhc_pre` was given it.
        f: (…, c), of x's type: what the layer made.
        coefficients: (…, 2 n + n²), f32, of `mhc_pre`.
        out: (…, n, c), to be written; it may be x.

    Returns:
        (…, n, c), of x's type.

    Raises:
        DeviceError, RequestError: as `mhc`.
    """
    call = Call(stream)
    given = _streams(call, x)
    ahead, (n, c) = given.shape[:-2], given.shape[-2:]
    layer = call.read("f", f).require(shape=(*ahead, c), dtype=given.dtype).rows()
    weights = call.read("coefficients", coefficients).require(shape=(*ahead, coefficients_of(n)), dtype="f32").rows()
    outputs = call.outputs(out, y=(given.shape, given.dtype))
    rows, seen = _rows_of(given), _seen_as_rows(outputs)
    keys = _sizes(given) | {
        "stride": pitch_of(rows), "coefficients_stride": pitch_of(weights), "fstride": pitch_of(layer),
    }  # fmt: skip
    keys |= pitch_key("ystride", seen["y"])
    inputs = {"x": rows, "coefficients": weights, "f": layer}
    return outputs.of(call.run("mhc_post", keys, inputs, seen, varying=("m",), in_place={"y": ("x",)}))


def _streams(call: Call, x: Any) -> Given:
    """Rows of streams. Raises DeviceError for an array of fewer than two dimensions."""
    given = call.read("x", x)
    if given.ndim < 2:
        raise DeviceError(f"x: shape {given.shape}; expected (…, streams, channels)")
    return given


def _rows_of(given: Given) -> Given:
    """Streams of a row as one row."""
    return given.reshaped(math.prod(given.shape[:-2]), math.prod(given.shape[-2:])).rows()


def _seen_as_rows(outputs: Outputs) -> dict[str, Given | None]:
    """What kernels write of streams as rows, where it lies so; x may lie there."""
    out = outputs.given["y"]
    seen = out.as_rows(2) if out is not None else None
    return {"y": out if seen is None else seen}


def _sizes(given: Given) -> dict[str, object]:
    n, c = given.shape[-2:]
    return {"m": math.prod(given.shape[:-2]), "c": c, "streams": n, "dtype": given.dtype}


def _as_y(outputs: Outputs, name: str) -> Outputs:
    """One of several results, as the operator that makes it calls it."""
    return Outputs({"y": outputs.given[name]}, {"y": outputs.arrays[name]}, {"y": outputs.shapes[name]})


def _coefficients(
    call: Call,
    given: Given,
    phi: Any,
    numbers: tuple[Any, Any],
    options: dict[str, object],
    outputs: Outputs,
) -> dict[str, Given]:
    """What `mhc` makes, as "y"."""
    plain.word("form", options["form"], FORMS)
    n, c = given.shape[-2:]
    rows = _rows_of(given)
    weights = call.read("phi", phi).require(shape=(coefficients_of(n), n * c), dtype=given.dtype).rows()
    keys = _sizes(given) | options | {"lda": pitch_of(rows), "ldb": pitch_of(weights)}
    keys |= pitch_key("ystride", outputs.given["y"])
    inputs: dict[str, Given | None] = {"x": rows, "phi": weights}
    alpha, bias = numbers
    if options["form"] == "paper":
        inputs["alpha"] = call.read("alpha", alpha).require(shape=(3,), dtype="f32").contiguous()
        inputs["bias"] = call.read("bias", bias).require(shape=(coefficients_of(n),), dtype="f32").contiguous()
    else:
        keys |= _told(alpha, bias)
    return call.run("mhc", keys, inputs, outputs.given, varying=("m",))


def _told(alpha: Any, bias: Any) -> dict[str, object]:
    """Keys of three numbers and one. Raises DeviceError for others."""
    if not isinstance(alpha, Sequence) or len(alpha) != len(KINDS):
        raise DeviceError(f"alpha={plain.shown(alpha)}: expected three numbers, of pre, post and res")
    return {**{f"alpha_{kind}": one for kind, one in zip(KINDS, alpha, strict=True)}, "bias": bias}
