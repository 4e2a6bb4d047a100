"""Layers of experts: `moe` from the router's logits on, `fused_experts` from a routing on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckmlir.nn.calls import Call
from ckmlir.nn.expert_parts import expression_of
from ckmlir.nn.expert_scales import bias_type, common_word, half_byte, scale_words
from ckmlir.nn.given import Given, elements_in
from ckmlir.nn.plain import checked, word
from ckmlir.nn.products import ACTIVATIONS
from ckmlir.ops.dtypes import find_dtype
from ckmlir.runtime.device import DeviceError

OF_FOUR_BITS = ("gate_scale", "up_scale", "down_scale")
"""What matrices of 4 bits come with, e8m0 or f32."""
SCALES = ("x_scale", *OF_FOUR_BITS, "smooth")
"""What matrices of 8 bits come with, all f32."""
BIASES = ("gate_bias", "up_bias", "down_bias")
"""What is added to products, if anything is."""


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
    packed: str = "fp4",
    biases: Mapping[str, Any] | None = None,
    op: str | None = None,
    out: Any = None,
    stream: object = None,
) -> Any:
    """A layer of experts from the router's logits to the weighted sum of what the experts of each token make.

    Each token goes to the `topk` experts of its largest logits. An expert makes (activation(x gateᵀ) · (x upᵀ)) downᵀ;
    without `up`, activation(x gateᵀ) downᵀ. A layer like gpt-oss's has MXFP4 matrices with `scales`, `biases`, and

        op="minimum(gate, 7) * sigmoid(1.702 * minimum(gate, 7)) * (clamp(up, -7, 7) + 1)"

    Args:
        x: (…, hidden), f16, bf16 or f32; fp8, bf8 or i8 with `scales`.
        gate, up: (experts, inter, hidden), up may be None.
        down: (experts, hidden, inter). All of one type, and contiguous. Beside f16 and bf16 with `scales` the matrices
            have elements of 4 bits, uint8 with half as long rows, the first of two elements in the low half.
        router_logits: (…, experts), of x's type; f32 for 8 bits.
        topk: experts of each token.
        renormalize: divide the weights of a token by their sum.
        scoring: softmax or sigmoid, what makes weights of logits.
        activation: silu, gelu, gelu_tanh, relu, sigmoid or tanh.
        expert_mask: (experts,) i32, where gate, up and down are only of those experts whose mask is not 0: the result
            is then their share of the sum.
        scales: of 8 bits: x_scale (tokens,), gate_scale and up_scale (experts, inter), down_scale (experts, hidden),
            and smooth (experts, inter), which what is between the products is multiplied by before it is quantised; all
            f32. Of 4 bits: gate_scale and up_scale (experts, inter, groups), down_scale (experts, hidden, groups):
            powers of two (e8m0, or uint8) of 32 elements along a row, as MXFP4 has them, or f32 of 32, 64 or 128;
            integers have f32.
        packed: what the bytes of matrices hold, where they have scales and x has 16 bits: fp4 (e2m1, also as
            float4_e2m1fn_x2), i4 from -8 to 7 or u4 from 0 to 15.
        biases: gate_bias and up_bias (experts, inter), which are added to the scaled products before the activation,
            and down_bias (experts, hidden); all f16, bf16 or f32.
        op: instead of an activation, an expression of gate and up, or of acc without `up`: what is between the
            products.
        out: (…, hidden), to be written.

    Returns:
        (…, hidden), of x's type, f16 for 8 bits, or `out`.

    Raises:
        DeviceError: shapes or types do not fit, an array is not contiguous, an unknown activation.
        RequestError: the chip lacks the type; fewer experts than `topk`; an expression means nothing.
    """
    call = Call(stream)
    layer = _Layer(call, x, {"gate": gate, "up": up, "down": down}, expert_mask, scales, packed)
    layer.set_sums(activation, op, biases)
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
    packed: str = "fp4",
    biases: Mapping[str, Any] | None = None,
    op: str | None = None,
    out: Any = None,
    stream: object = None,
) -> Any:
    """A layer of experts from a routing on: the weighted sum of what the experts of each token make.

    Args:
        topk_weights: (…, topk) f32. topk_ids: (…, topk) i32; a number that is not an expert's counts as zero.
        experts: how many there are; by default as many as `gate` has matrices. `expert_mask` has as many.
        x, gate, up, down, activation, expert_mask, scales, packed, biases, op, out: as for `moe`.

    Returns:
        (…, hidden), of x's type, f16 for 8 bits, or `out`.

    Raises:
        DeviceError, RequestError: as `moe`.
    """
    call = Call(stream)
    layer = _Layer(call, x, {"gate": gate, "up": up, "down": down}, expert_mask, scales, packed)
    layer.set_sums(activation, op, biases)
    ids = call.numbers("topk_ids", topk_ids).require(dtype="i32").rows().contiguous()
    layer.require_tokens(ids)
    weights = call.read("topk_weights", topk_weights).rows().require(shape=ids.shape, dtype="f32").contiguous()
    layer.set_experts(experts if experts is not None else layer.matrices)
    return layer.run("fused_moe", {"topk": ids.shape[1]}, {"topk_ids": ids, "weights": weights}, out)


class _Layer:
    """What both functions are given, read and compared.

    Attributes:
        matrices: experts that have matrices.
        gated: whether each has a matrix `up`.
    """

    def __init__(
        self, call: Call, x: Any, matrices: Mapping[str, Any], mask: Any, scales: Mapping[str, Any] | None, held: str
    ) -> None:
        """`held`: what bytes of matrices hold, where they have scales and x has 16 bits."""
        from ckmlir.ops.moe.experts_scales import SCALED, WIDE
        from ckmlir.ops.rows.arrays import FLOATS

        self.call = call
        self.x = call.read("x", x)
        rows = self.x.rows().contiguous()
        dtype = rows.dtype
        if dtype not in (*FLOATS, *SCALED):
            raise DeviceError(f"x: elements are {dtype}; expected {', '.join((*FLOATS, *SCALED))}")
        self.result = dtype if dtype in FLOATS else "f16"
        self.gated = matrices["up"] is not None
        given = _by_name("scales", scales)
        packed = half_byte(held) if given and dtype in WIDE else None
        wanted = SCALES if dtype in SCALED else OF_FOUR_BITS if packed else ()
        beside = self._beside("scales", given, wanted, "none, or of 4 bits " if packed else "")
        read = {name: call.read(name, one, packed) for name, one in matrices.items() if one is not None or name != "up"}
        kind = packed or dtype
        gate = read["gate"].require(ndim=3, dtype=kind).contiguous()
        self.matrices, inter, length = gate.shape
        hidden = elements_in(kind, length)
        if hidden != rows.shape[1]:
            raise DeviceError(f"x has rows of {rows.shape[1]}, gate {gate.shape} of {hidden}; expected as many")
        if self.gated:
            read["up"].require(shape=gate.shape, dtype=kind).contiguous()
        length = find_dtype(kind).packed_length(inter)
        read["down"].require(shape=(self.matrices, hidden, length), dtype=kind).contiguous()
        self.keys: dict[str, object] = {"t": rows.shape[0], "hidden": hidden, "inter": inter, "dtype": dtype}
        self.arrays: dict[str, Given] = {"x": rows, **read, **beside}
        if packed:
            lengths = {"gate": hidden, "up": hidden, "down": inter}
            words = [scale_words(beside[f"{name}_scale"], one.shape[:2], lengths[name]) for name, one in read.items()]
            self.keys |= {"b_dtype": packed, "b_scale": common_word(words)}
        else:
            for one in beside.values():
                one.require(dtype="f32")
        self.mask = None if mask is None else call.numbers("expert_mask", mask)

    def set_sums(self, activation: str, op: str | None, biases: Mapping[str, Any] | None) -> None:
        """Take note of what becomes of the sums. Raises DeviceError for an unknown
        activation, an op that is not a text, and biases that do not fit.
        """
        word("activation", activation, ACTIVATIONS)
        usual = f"{activation}(gate) * up" if self.gated else f"{activation}(acc)"
        self.keys["op"] = expression_of(op, usual, gated=self.gated)
        if biases is None:
            return
        found = self._beside("biases", _by_name("biases", biases), BIASES)
        matrices = [self.arrays[name.removesuffix("_bias")] for name in found]
        self.keys["bias"] = bias_type(list(found.values()), matrices)
        self.arrays |= found

    def _beside(self, what: str, given: Mapping[str, Any], names: Sequence[str], other: str = "") -> dict[str, Given]:
        """Arrays by name, all that there are to be. Raises DeviceError for others, which says what else may be."""
        wanted = [name for name in names if self.gated or not name.startswith("up_")]
        if set(given) != set(wanted):
            expected = other + (", ".join(wanted) or "none")
            names = ", ".join(map(str, given)) or "none"
            raise DeviceError(f"{what}: {names} for {self.x.dtype}; expected {expected}")
        read = self.call.scales if what == "scales" else self.call.read
        return {name: read(name, given[name]).contiguous() for name in wanted}

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


def _by_name(what: str, given: Any) -> Mapping[str, Any]:
    """Arrays by name, none for None. Raises DeviceError for anything but a mapping."""
    if given is not None and not isinstance(given, Mapping):
        raise DeviceError(f"{what}: found {type(given).__name__}; expected a mapping of names to arrays")
    return given or {}
