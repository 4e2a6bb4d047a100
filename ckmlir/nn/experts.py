"""Layers of experts: `moe` from the router's logits on, `fused_experts` from a routing on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckmlir.nn.calls import Call
from ckmlir.nn.expert_parts import expression_of
from ckmlir.nn.expert_scales import (
    DTYPES,
    NARROW,
    OF_ELEMENTS,
    bias_type,
    check_types,
    common_word,
    held_by,
    read_rows,
    require_pair,
    scale_words,
    type_key,
    word_like,
    zeros_key,
)
from ckmlir.nn.given import Given, elements_in
from ckmlir.nn.plain import checked, word
from ckmlir.nn.products import ACTIVATIONS
from ckmlir.ops.dtypes import find_dtype
from ckmlir.runtime.device import DeviceError

OF_MATRICES = ("gate_scale", "up_scale", "down_scale")
"""What matrices of 4 bits come with beside rows of 16, e8m0 or f32."""
OF_GROUPS = ("x_scale", *OF_MATRICES)
"""What narrow rows and matrices come with, whose groups have scales, e8m0 or f32."""
OF_CHANNELS = (*OF_GROUPS, "smooth")
"""What rows and matrices of 8 bits come with, whose rows have scales, all f32."""
ZEROS = ("gate_zero", "up_zero", "down_zero")
"""What integers of 4 bits come with besides, if they have zero points."""
Held = tuple[str | None, str | None]
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
    packed: str | None = None,
    x_packed: str | None = None,
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
        x: (…, hidden), f16, bf16 or f32; with `scales` fp8, bf8, i8, or bytes of packed floats (`x_packed`).
        gate, up: (experts, inter, hidden), up may be None. down: (experts, hidden, inter). All of one type, and
            contiguous. With `scales` matrices may have bytes of packed elements (`packed`), as `expert_matmul` has
            them; floats of 8 bits and packed ones may be of another type than x.
        router_logits: (…, experts), f16, bf16 or f32.
        topk: experts of each token.
        renormalize: divide the weights of a token by their sum.
        scoring: softmax or sigmoid, what makes weights of logits.
        activation: silu, gelu, gelu_tanh, relu, sigmoid or tanh.
        expert_mask: (experts,) i32, where gate, up and down are only of those experts whose mask is not 0: the result
            is then their share of the sum.
        scales: of 8 bits: x_scale (tokens,), gate_scale and up_scale (experts, inter), down_scale (experts, hidden),
            and smooth (experts, inter), which what is between the products is multiplied by before it is quantised; all
            f32. Of matrices of 4 bits beside x of 16: gate_scale and up_scale (experts, inter, groups), down_scale
            (experts, hidden, groups): powers of two (e8m0, or uint8) of 32 elements along a row, as MXFP4 has them, or
            f32, f16 or bf16 of 32, 64 or 128, which integers have. Beside other x the same without f16 and bf16, or f32
            of blocks of 128 x 128 elements, and x_scale (tokens, groups); what is between the products is quantised to
            x's type with such scales. Integers of 4 bits may have zero points besides, gate_zero, up_zero and
            down_zero, as `zeros` of `expert_matmul`.
        packed, x_packed: what the bytes of matrices and of x hold, as `packed` and `a_packed` of `expert_matmul`.
        biases: gate_bias and up_bias (experts, inter), which are added to the scaled products before the activation,
            and down_bias (experts, hidden); all f16, bf16 or f32.
        op: instead of an activation, an expression of gate and up, or of acc without `up`: what is between the
            products.
        out: (…, hidden), to be written.

    Returns:
        (…, hidden), of x's type, f16 for fewer than 16 bits, or `out`.

    Raises:
        DeviceError: shapes or types do not fit, an array is not contiguous, an unknown activation.
        RequestError: the chip lacks the type; fewer experts than `topk`; an expression means nothing.
    """
    call = Call(stream)
    layer = _Layer(call, x, {"gate": gate, "up": up, "down": down}, expert_mask, scales, (packed, x_packed))
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
    packed: str | None = None,
    x_packed: str | None = None,
    biases: Mapping[str, Any] | None = None,
    op: str | None = None,
    out: Any = None,
    stream: object = None,
) -> Any:
    """A layer of experts from a routing on: the weighted sum of what the experts of each token make.

    Args:
        topk_weights: (…, topk) f32. topk_ids: (…, topk) i32; a number that is not an expert's counts as zero.
        experts: how many there are; by default as many as `gate` has matrices. `expert_mask` has as many.
        x, gate, up, down, activation, expert_mask, scales, packed, x_packed, biases, op, out: as for `moe`.

    Returns:
        (…, hidden), of x's type, f16 for fewer than 16 bits, or `out`.

    Raises:
        DeviceError, RequestError: as `moe`.
    """
    call = Call(stream)
    layer = _Layer(call, x, {"gate": gate, "up": up, "down": down}, expert_mask, scales, (packed, x_packed))
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
        hidden, inter: elements of a row of x, and between the products.
        gated: whether each has a matrix `up`.
    """

    def __init__(
        self, call: Call, x: Any, matrices: Mapping[str, Any], mask: Any, scales: Mapping[str, Any] | None, held: Held
    ) -> None:
        """`held`: what bytes of matrices and of x hold, where they have bytes."""
        from ckmlir.ops.rows.arrays import FLOATS

        self.call = call
        of_matrices, of_x = held
        self.x = read_rows(call, "x", x, of_x)
        rows = self.x.rows().contiguous()
        dtype = rows.dtype
        if dtype not in (*FLOATS, *NARROW):
            raise DeviceError(f"x: elements are {dtype}; expected {', '.join((*FLOATS, *NARROW))}")
        self.result = dtype if dtype in FLOATS else "f16"
        self.gated = matrices["up"] is not None
        given = _by_name("scales", scales)
        packed = held_by(rows, of_matrices, matrices["gate"])
        read = {name: call.read(name, one, packed) for name, one in matrices.items() if one is not None or name != "up"}
        gate = require_pair(rows, read["gate"].require(ndim=3)).contiguous()
        kind = gate.dtype
        self.matrices, inter, length = gate.shape
        self.hidden, self.inter = elements_in(kind, length), inter
        if self.hidden != elements_in(dtype, rows.shape[1]):
            raise DeviceError(f"x has rows of {rows.shape[1]}, gate {gate.shape} of {self.hidden}; expected as many")
        if self.gated:
            read["up"].require(shape=gate.shape, dtype=kind).contiguous()
        length = find_dtype(kind).packed_length(inter)
        read["down"].require(shape=(self.matrices, self.hidden, length), dtype=kind).contiguous()
        self.keys: dict[str, object] = {"t": rows.shape[0], "hidden": self.hidden, "inter": inter, "dtype": dtype}
        self.keys |= {"b_dtype": kind} if kind != dtype else {}
        self.arrays: dict[str, Given] = {"x": rows, **read}
        if dtype not in NARROW:
            self._set_scales(given, OF_MATRICES if packed else ())
        elif packed is None and "smooth" in given:
            self._set_channels(given)
        else:
            self._set_scales(given, OF_GROUPS, "" if packed else " of groups, or of rows and smooth")
        self.mask = None if mask is None else call.numbers("expert_mask", mask)

    def _set_channels(self, given: Mapping[str, Any]) -> None:
        """Take note of scales of rows of x and of the matrices. Raises DeviceError for others."""
        found = self._beside("scales", given, OF_CHANNELS)
        for one in found.values():
            one.require(dtype="f32")
        if found["x_scale"].ndim != 1:
            shape = found["x_scale"].shape
            raise DeviceError(f"x_scale: shape {shape}, of groups; beside smooth expected one for each row")
        self.arrays |= found

    def _set_scales(self, given: Mapping[str, Any], names: Sequence[str], other: str = "") -> None:
        """Take note of scales of groups, by these names, if any. Raises DeviceError for others, which ends with what
        `other` ones may be, or where they do not fit.
        """
        scaled = {one.replace("_zero", "_scale") for one in ZEROS} <= set(names)
        with_zeros = (*names, *ZEROS) if scaled and ZEROS[0] in given else names
        found = self._beside("scales", given, with_zeros, other)
        self.arrays |= found
        of_rows = found.pop("x_scale", None)
        zeros = {name: found.pop(name) for name in ZEROS if name in found}
        if zeros:
            of_groups = [found[name.replace("_zero", "_scale")] for name in zeros]
            rows_too = of_rows is not None
            self.keys |= zeros_key(list(zeros.values()), of_groups, self.arrays["gate"], of_rows=rows_too)
        words = []
        for name, one in found.items():
            matrix = name.removesuffix("_scale")
            k = self.inter if matrix == "down" else self.hidden
            kinds = OF_ELEMENTS if of_rows is None else DTYPES
            words.append(scale_words(one, self.arrays[matrix].shape[:2], k, kinds, blocks=of_rows is not None))
        if found:
            self.keys["b_scale"] = common_word(words)
            self.keys |= type_key(list(found.values()))
        if of_rows is not None:
            check_types((of_rows, *found.values()), (self.arrays["x"], self.arrays["gate"]))
            of_x = scale_words(of_rows, self.arrays["x"].shape[:1], self.hidden)
            self.keys["a_scale"] = word_like(of_x, self.keys["b_scale"])

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
        """Arrays by name, all that there are to be. Raises DeviceError for others, which ends with `other`."""
        wanted = [name for name in names if self.gated or not name.startswith("up_")]
        if set(given) != set(wanted):
            expected = (", ".join(wanted) or "none") + other
            names = ", ".join(map(str, given)) or "none"
            raise DeviceError(f"{what}: {names} for {self.x.dtype}; expected {expected}")
        of_scales = self.call.scales if what == "scales" else self.call.read
        reads = {name: self.call.read if name in ZEROS else of_scales for name in wanted}
        return {name: read(name, given[name]).contiguous() for name, read in reads.items()}

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
        """Run the operator, and give its output, which has x's rows."""
        outputs = self.call.outputs(out, y=((*self.x.shape[:-1], self.hidden), self.result))
        inputs = {**self.arrays, **routing}
        return outputs.of(self.call.run(operator, {**self.keys, **keys}, inputs, outputs.given, varying=("t",)))


def _by_name(what: str, given: Any) -> Mapping[str, Any]:
    """Arrays by name, none for None. Raises DeviceError for anything but a mapping."""
    if given is not None and not isinstance(given, Mapping):
        raise DeviceError(f"{what}: found {type(given).__name__}; expected a mapping of names to arrays")
    return given or {}
