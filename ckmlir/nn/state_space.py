"""Recurrences with a state that is a matrix: Mamba-2."""

from __future__ import annotations

from typing import Any

from ckmlir.nn import plain
from ckmlir.nn.attention import has_channels, packed_channels, strides_key
from ckmlir.nn.cached_attention import dense
from ckmlir.nn.calls import Call
from ckmlir.nn.given import Given
from ckmlir.nn.plain import checked
from ckmlir.runtime.device import DeviceError

LAYOUTS = ("bshd", "bhds")
VARYING = ("b", "s")


@checked
def ssd(
    x: Any, delta_a: Any, delta: Any, b: Any, c: Any, *, skip: Any = None, z: Any = None, initial: Any = None,
    layout: str = "bshd", return_state: bool = False, out: Any = None, stream: object = None,
) -> Any:  # fmt: skip
    """Mamba-2's recurrence over places: state = exp(delta_a) state + delta x bᵀ, y = (state c + skip x) silu(z).

    Args:
        x: (batch, places, h, d), f16, bf16 or f32. With layout=bhds (batch, h, d, places); so z, b and c.
        delta_a, delta: (batch, places, h), with bhds (batch, h, places), f32: exponents of the decay, and steps.
        b, c: (batch, places, g, n), of the type of x; each of g groups is that of h / g heads.
        skip: (h,) or (h, d), f32.
        z: as x.
        initial: (batch, h, d, n), f32: the state before the first place, zeros by default.
        return_state: also return the last state, (batch, h, d, n), f32.
        out: as x, to be written; with return_state a list of both.

    Returns:
        y as x, or y and the last state.

    Raises:
        DeviceError, RequestError: shapes, types or strides that do not fit together.
    """
    call = Call(stream)
    plain.word("layout", layout, LAYOUTS)
    arrays = {name: call.read(name, one).require(ndim=4) for name, one in (("x", x), ("b", b), ("c", c))}
    kind, sizes = arrays["x"].dtype, _sizes(arrays["x"], layout)
    groups = _sizes(arrays["b"].require(dtype=kind), layout)
    arrays["c"].require(shape=arrays["b"].shape, dtype=kind)
    batch, s, h, d = (sizes[name] for name in "bshd")
    if (groups["b"], groups["s"]) != (batch, s):
        raise DeviceError(f"x {arrays['x'].shape}, b {arrays['b'].shape}: expected as many batches and places")
    keys: dict[str, object] = {
        "b": batch, "h": h, "g": groups["h"], "s": s, "d": d, "n": groups["d"], "dtype": kind, "layout": layout,
        "final": return_state, "initial": initial is not None, "gate": z is not None,
    }  # fmt: skip
    inputs: dict[str, Given | None] = {"x": arrays["x"], "b_mat": arrays["b"], "c_mat": arrays["c"]}
    if z is not None:
        inputs["z"] = call.read("z", z).require(shape=arrays["x"].shape, dtype=kind)
    for name, one in inputs.items():
        assert one is not None
        keys |= strides_key(name, _strides(packed_channels(one), layout))
    steps = (batch, h, s) if layout == "bhds" else (batch, s, h)
    for name, one in (("delta_a", delta_a), ("delta", delta)):
        inputs[name] = dense(call.read(name, one).require(shape=steps, dtype="f32"))
    if skip is not None:
        factors = call.read("skip", skip).require(dtype="f32")
        keys["skip"] = "head" if factors.ndim == 1 else "channel"
        inputs["skip"] = dense(factors.require(shape=(h,) if factors.ndim == 1 else (h, d)))
    state = batch, h, d, groups["d"]
    if initial is not None:
        inputs["initial"] = dense(call.read("initial", initial).require(shape=state, dtype="f32"))
    outputs = call.outputs(out, y=(arrays["x"].shape, kind), **({"state": (state, "f32")} if return_state else {}))
    written = outputs.given["y"]
    if written is not None and has_channels(written):
        keys |= strides_key("y", _strides(written, layout))
    return outputs.of(call.run("ssd_fwd", keys, inputs, outputs.given, varying=VARYING))


def _sizes(array: Given, layout: str) -> dict[str, int]:
    """By letter of the layout: of b and c h is groups and d channels."""
    return dict(zip(layout, array.shape, strict=True))


def _strides(array: Given, layout: str) -> tuple[int, ...] | None:
    """From one batch, head and row to the next, where it matters how an array lies."""
    row = "s" if layout == "bshd" else "d"
    return tuple(array.strides[layout.index(dim)] for dim in ("b", "h", row)) if array.is_told else None
