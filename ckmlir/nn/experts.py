"""Layers of experts: `moe` from the router's logits on, `fused_experts` from a routing on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckmlir.nn.calls import Call
from ckmlir.nn.given import Given
from ckmlir.nn.plain import checked, word
from ckmlir.nn.products import ACTIVATIONS
from ckmlir.runtime.device import DeviceError

SCALES = ("x_scale", "gate_scale", "up_scale", "down_scale", "smooth")
"""What matrices of 8 bits come with, all f32."""


@checked
def moe(
    x: Any,
    gate: Any,
    up: Any,
    down: Any,
    router_logits: Any,
    topk: int,
    *,
    renormalize: bool = False,
    scoring: str = "softmax",
    activation: str = "silu",
    expert_mask: Any = None,
    scales: Mapping[str, Any] | None = None,
    out: Any = None,
    stream: object = None,
) -> Any:
    """A layer of experts from the router's logits to the weighted sum of what the experts of each token make.

    Each token goes to the `topk` experts of its largest logits. An expert makes (activation(x gateᵀ) · (x upᵀ)) downᵀ;
    without `up`, activation(x gateᵀ) downᵀ.

    Args:
        x: (…, hidden), f16, bf16 or f32; fp8 or i8 with `scales`. gate, up: (experts, inter, hidden), up may be None.
        down: (experts, hidden, inter). All of one type, and contiguous.
        router_logits: (…, experts), of x's type; f32 for 8 bits.
        topk: experts of each token.
        renormalize: divide the weights of a token by their sum.
        scoring: softmax or sigmoid, what makes weights of logits.
        activation: silu, gelu, gelu_tanh, relu, sigmoid or tanh.
        expert_mask: (experts,) i32, where gate, up and down are only of those experts whose mask is not 0: the result
            is then their share of the sum.
        scales: of 8 bits: x_scale (tokens,), gate_scale and up_scale (experts, inter), down_scale (experts, hidden),
            and smooth (experts, inter), which what is between the products is multiplied by before it is quantised; all
            f32.
        out: (…, hidden), to be written.

    Returns:
        (…, hidden), of x's type, f16 for 8 bits, or `out`.

    Raises:
        DeviceError: shapes or types do not fit, an array is not contiguous, an unknown activation.
        RequestError: the chip lacks the type; fewer experts than `topk`.
    """
    call = Call(stream)
    layer = _Layer(call, x, {"gate": gate, "up": up, "down": down}, activation, expert_mask, scales)
    logits = call.read("router_logits", router_logits).rows().contiguous()
    layer.require_tokens(logits)
    if scoring not in ("softmax", "sigmoid"):
        raise DeviceError(f"scoring={scoring}: expected softmax or sigmoid")
    layer.set_experts(logits.shape[1])
    keys = {"topk": topk, "renormalize": int(renormalize), "activation": scoring, "logits": logits.dtype}
    return layer.run("moe_layer", keys, {"logits": logits}, out)


@checked
def fused_experts(
    x: Any,
    gate: Any,
    up: Any,
    down: Any,
    topk_weights: Any,
    topk_ids: Any,
    *,
    experts: int | None = None,
    activation: str = "silu",
    expert_mask: Any = None,
    scales: Mapping[str, Any] | None = None,
    out: Any = None,
    stream: object = None,
) -> Any:
    """A layer of experts from a routing on: the weighted sum of what the experts of each token make.

    Args:
        topk_weights: (…, topk) f32. topk_ids: (…, topk) i32; a number that is not an expert's counts as zero.
        experts: how many there are; by default as many as `gate` has matrices. `expert_mask` has as many.
        x, gate, up, down, activation, expert_mask, scales, out: as for `moe`.

    Returns:
        (…, hidden), of x's type, f16 for 8 bits, or `out`.

    Raises:
        DeviceError, RequestError: as `moe`.
    """
    call = Call(stream)
    layer = _Layer(call, x, {"gate": gate, "up": up, "down": down}, activation, expert_mask, scales)
    ids = call.numbers("topk_ids", topk_ids).require(dtype="i32").rows().contiguous()
    layer.require_tokens(ids)
    weights = call.read("topk_weights", topk_weights).rows().require(shape=ids.shape, dtype="f32").contiguous()
    layer.set_experts(experts if experts is not None else layer.matrices)
    return layer.run("fused_moe", {"topk": ids.shape[1]}, {"topk_ids": ids, "weights": weights}, out)


class _Layer:
    """What both functions are given, read and compared.

    Attributes:
        matrices: experts that have matrices.
    """

    def __init__(
        self,
        call: Call,
        x: Any,
        matrices: Mapping[str, Any],
        activation: str,
        mask: Any,
        scales: Mapping[str, Any] | None,
    ) -> None:
        from ckmlir.ops.moe.layer_problem import NARROW
        from ckmlir.ops.rows.arrays import FLOATS

        self.call = call
        self.x = call.read("x", x)
        rows = self.x.rows().contiguous()
        dtype = rows.dtype
        if dtype not in (*FLOATS, *NARROW):
            raise DeviceError(f"x: elements are {dtype}; expected {', '.join((*FLOATS, *NARROW))}")
        self.result = dtype if dtype in FLOATS else "f16"
        word("activation", activation, ACTIVATIONS)
        read = {name: call.read(name, one) for name, one in matrices.items() if one is not None or name != "up"}
        gate = read["gate"].require(ndim=3, dtype=dtype).contiguous()
        self.matrices, inter, hidden = gate.shape
        if hidden != rows.shape[1]:
            raise DeviceError(f"x has rows of {rows.shape[1]}, gate {gate.shape} of {hidden}; expected as many")
        if "up" in read:
            read["up"].require(shape=gate.shape, dtype=dtype).contiguous()
        read["down"].require(shape=(self.matrices, hidden, inter), dtype=dtype).contiguous()
        self.arrays: dict[str, Given] = {"x": rows, **read, **self._scales(scales or {}, dtype in NARROW, "up" in read)}
        expression = f"{activation}(gate) * up" if "up" in read else f"{activation}(acc)"
        self.keys: dict[str, object] = {
            "t": rows.shape[0], "hidden": hidden, "inter": inter, "dtype": dtype, "op": expression,
        }  # fmt: skip
        self.mask = None if mask is None else call.numbers("expert_mask", mask)

    def _scales(self, scales: Mapping[str, Any], narrow: bool, gated: bool) -> dict[str, Given]:
        wanted = [name for name in SCALES if gated or name != "up_scale"] if narrow else []
        if sorted(scales) != sorted(wanted):
            expected = ", ".join(wanted) or "none"
            raise DeviceError(f"scales: {', '.join(scales) or 'none'} for {self.x.dtype}; expected {expected}")
        return {name: self.call.read(name, scales[name]).require(dtype="f32").contiguous() for name in wanted}

    def require_tokens(self, routing: Given) -> None:
        """Raises DeviceError for a routing of another number of tokens."""
        if routing.shape[0] != self.keys["t"]:
            raise DeviceError(f"{routing.what}: {routing.shape[0]} rows for {self.keys['t']} tokens; expected as many")

    def set_experts(self, count: int) -> None:
        """Take note of how many there are. Raises DeviceError where matrices or the mask do not fit."""
        self.keys["e"] = count
        if self.mask is None:
            if count != self.matrices:
                raise DeviceError(f"gate: matrices of {self.matrices} experts, there are {count}; expected expert_mask")
            return
        self.arrays["mask"] = self.mask.require(shape=(count,), dtype="i32").contiguous()
        self.keys["local"] = self.matrices

    def run(self, operator: str, keys: Mapping[str, object], routing: Mapping[str, Given], out: Any) -> Any:
        """Run the operator, and give its output in x's shape."""
        outputs = self.call.outputs(out, y=(self.x.shape, self.result))
        inputs = {**self.arrays, **routing}
        return outputs.of(self.call.run(operator, {**self.keys, **keys}, inputs, outputs.given, varying=("t",)))
