"""The parts of a layer of experts, for those who put others between them: `sort_experts`, `expert_matmul`,
`quantize_for_experts`.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from ckmlir.nn.calls import Call, dtype_name
from ckmlir.nn.expert_scales import NARROW, Beside, held_by, read_rows, require_pair
from ckmlir.nn.given import Given, elements_in, pitch_key, pitch_of
from ckmlir.nn.plain import checked, number, shown, word
from ckmlir.nn.products import output_type
from ckmlir.ops.moe.routing import most_units
from ckmlir.ops.request import RequestError
from ckmlir.runtime.device import DeviceError


class SortedExperts(Struct, frozen=True):
    """The entries of a routing, (token, slot), by expert; what `sort_experts` returns and `expert_matmul` takes.

    Attributes:
        ids: (places,) i32: the token of each place, and its slot in the highest byte.
        weights: (places,) f32: of each place; 0 for padding.
        experts: (units,) i32: the expert of each `unit` places.
        totals: (2,) i32: places taken, padding included, and tokens.
        tokens, expert_count, topk, unit: of the routing; places of a unit.
        is_local: a mask says which experts are counted.
        entry_ids: (tokens, topk) i32: the number of each entry, token by token; -1 of those that appear nowhere. None:
            not known.
    """

    ids: Any
    weights: Any
    experts: Any
    totals: Any
    tokens: int
    expert_count: int
    topk: int
    unit: int
    is_local: bool = False
    entry_ids: Any = None


def sort_experts(
    topk_ids: Any, topk_weights: Any, experts: int, unit: int = 32, *, expert_mask: Any = None,
    out: SortedExperts | None = None, stream: object = None,
) -> SortedExperts:  # fmt: skip
    """The entries of a routing sorted by expert, each expert's padded to a multiple of `unit`.

    Arrays are as long as they may become, so that nothing is read back; what lies behind the places taken is not
    defined.

    Args:
        topk_ids: (tokens, topk), i32; a number that is not an expert's appears nowhere.
        topk_weights: (tokens, topk), f32.
        experts: how many there are.
        unit: for `expert_matmul` a multiple of 16.
        expert_mask: (experts,), i32: only experts whose mask is not 0, and these alone are counted.
        out: what an earlier call of the same sizes has returned, whose arrays are written.

    Raises:
        DeviceError: shapes or types do not fit, an array has gaps.
        RequestError: more tokens or experts of a token than a word of the list can say.
    """
    call = Call(stream)
    ids = call.numbers("topk_ids", topk_ids).require(ndim=2, dtype="i32").contiguous()
    weights = call.read("topk_weights", topk_weights).require(shape=ids.shape, dtype="f32").contiguous()
    mask = None
    if expert_mask is not None:
        mask = call.numbers("expert_mask", expert_mask).require(shape=(experts,), dtype="i32").contiguous()
    tokens, topk = ids.shape
    keys: dict[str, object] = {
        "t": tokens, "e": experts, "k": topk, "unit": unit, "local": int(mask is not None), "entry_ids": 1,
    }  # fmt: skip
    if out is not None and not isinstance(out, SortedExperts):
        raise DeviceError(f"out: {type(out).__name__}; expected what sort_experts returns")
    given = None if out is None else (out.ids, out.weights, out.experts, out.totals, out.entry_ids)
    number("unit", unit, 1)
    units = most_units(tokens * topk, number("experts", experts, 0), unit)
    outputs = call.outputs(
        given, sorted_ids=((units * unit,), "i32"), sorted_weights=((units * unit,), "f32"),
        expert_ids=((units,), "i32"), totals=((2,), "i32"), entry_ids=((tokens, topk), "i32"),
    )  # fmt: skip
    inputs = {"topk_ids": ids, "weights": weights, "mask": mask}
    found = outputs.of(call.run("moe_sorting", keys, inputs, outputs.given, varying=("t",)))
    ids, weights, counted, totals, entry_ids = found
    return SortedExperts(ids, weights, counted, totals, tokens, experts, topk, unit, mask is not None, entry_ids)


@checked
def expert_matmul(
    a: Any,
    b: Any,
    routing: SortedExperts,
    *,
    rows: str = "token",
    results: str = "entry",
    weighted: bool = False,
    scale: Any = None,
    packed: str | None = None,
    up: Any = None,
    up_scale: Any = None,
    zeros: Any = None,
    up_zeros: Any = None,
    a_scale: Any = None,
    a_packed: str | None = None,
    bias: Any = None,
    up_bias: Any = None,
    op: str | None = None,
    dtype: str | None = None,
    out: Any = None,
    stream: object = None,
) -> Any:
    """Rows of tokens times the matrices of the experts that the routing chose for them.

    Args:
        a: (rows, k): rows of tokens, of entries (token by token, their slots beside each other) or of places. Of packed
            floats (`a_packed`) bytes, uint8.
        b: (experts, n, k), rows contiguous; f16, bf16, f32, fp8, bf8 or i8, both the same, or floats of 8 bits or
            packed each of a type of its own. With `scale` also bytes of packed elements, uint8 (experts, n, k / 2) of 4
            bits, the first of two along k in the low half, or (experts, n, 3 k / 4) of 6.
        routing: from `sort_experts`, with a unit that is a multiple of 16.
        rows: what a row of a stands for: token, entry or place.
        results: what a row of the result stands for: entry, place, or token: the sum over a token's entries.
        weighted: multiply each entry by its weight.
        scale: what elements of b are multiplied by. Of 4 bits beside a of 16 (experts, n, groups): powers of two (e8m0,
            or uint8) of 32 elements along k, as MXFP4 has them, or f32, f16 or bf16 of 32, 64 or 128, which integers
            have. Beside a of 8 bits or packed, with `a_scale`: (experts, n), f32, of channels of 8 bits; or (experts,
            n, groups), powers of two of floats, which packed ones have, or f32 of others; or f32 of blocks of 128 x 128
            elements, (experts, n / 128, k / 128), both rounded up.
        packed: what the bytes of b hold. Beside a of 16 bits fp4 (e2m1, also as float4_e2m1fn_x2), the default, i4 from
            -8 to 7 or u4 from 0 to 15; beside 8 bits i4, u4, and beside floats fp4, fp6 (e2m3) or bf6 (e3m2); by
            default what a packed a holds.
        up: a second matrix of each expert, as b, with `up_scale` where b has `scale`, and `up_bias` where it has
            `bias`: both products are one.
        zeros: zero points, by which integers of 4 bits are more than what they stand for: one beside each scale of b,
            as those lie; of the scales' type beside a of 16 bits, i8 beside 8. up_zeros: the same for up.
        a_scale: scales of a, where a has 8 bits or is packed, and b has `scale`. With scales of channels (rows,), f32;
            with scales of groups (rows, groups), f32 of 32, 64 or 128 elements along k, or powers of two of 32, as
            those of b are.
        a_packed: what the bytes of a hold, where it has bytes: fp4, fp6 or bf6.
        bias: (experts, n), f16, bf16 or f32, added to the scaled product of b. up_bias: the same for up, of one type.
        op: what becomes of a product, scaled and with its bias, an expression of acc; with `up` of gate, that of b, and
            up. By default acc, and silu(gate) * up.
        dtype: of the result, as for `matmul`; by default f16 where rows have scales, and f32 for i8
            without scales, but with an op, a bias or weights.
        out: the result, to be written.

    Returns:
        (rows, n), or `out`. Rows of entries or places that the routing left out are not defined.

    Raises:
        DeviceError: shapes or types do not fit, an array has gaps; an expression that names other sums.
        RequestError: the chip lacks the type, the unit is not a multiple of 16, or an expression means nothing.
    """
    from ckmlir.ops.moe.experts_problem import A_ROWS, C_ROWS
    from ckmlir.ops.moe.experts_scales import WIDE

    call = Call(stream)
    word("rows", rows, A_ROWS)
    word("results", results, C_ROWS)
    if not isinstance(routing, SortedExperts):
        raise DeviceError(f"routing: {type(routing).__name__}; expected what sort_experts returns")
    given = read_rows(call, "a", a, a_packed).require(ndim=2).rows()
    if scale is not None and given.dtype not in (*WIDE, *NARROW):  # before b, whose bytes would be asked about
        able = ", ".join((*WIDE, *NARROW))
        raise DeviceError(f"scale: found for rows of {given.dtype}; expected none, or a of {able}")
    kind = held_by(given, packed, b)
    matrices = require_pair(given, call.read("b", b, kind).require(ndim=3)).contiguous()
    k = elements_in(given.dtype, given.shape[1])
    if elements_in(matrices.dtype, matrices.shape[2]) != k:
        raise DeviceError(f"a of shape {given.shape} and b of shape {matrices.shape}: expected rows of one length")
    if matrices.shape[0] > routing.expert_count or (matrices.shape[0] < routing.expert_count and not routing.is_local):
        raise DeviceError(f"b: matrices of {matrices.shape[0]} experts; expected the routing's {routing.expert_count}")
    entries = routing.tokens * routing.topk
    units = most_units(entries, matrices.shape[0], routing.unit)
    counts = {"token": routing.tokens, "entry": entries, "place": units * routing.unit}
    if given.shape[0] != counts[rows]:
        raise DeviceError(f"a: {given.shape[0]} rows; expected {counts[rows]}, one for each {rows}")
    both = [matrices]
    if up is not None:
        both.append(call.read("up", up, kind).require(shape=matrices.shape, dtype=matrices.dtype).contiguous())
    beside = Beside(call, given, both)
    beside.set_scales(a_scale, (scale, up_scale))
    beside.set_zeros((zeros, up_zeros))
    beside.set_biases((bias, up_bias))
    weights = _first(call.read("routing: weights", routing.weights), counts["place"]) if weighted else None
    asked = expression_of(op, "silu(gate) * up" if up is not None else "acc", gated=up is not None)
    of_sums, sides = beside.sums(asked, weights)
    usual = beside.usual_type(of_sums) if dtype is None else dtype
    wanted = output_type(given.dtype, None) if usual is None else dtype_name("dtype", usual)
    n = matrices.shape[1]
    keys: dict[str, object] = {
        "t": routing.tokens, "e": matrices.shape[0], "topk": routing.topk, "unit": routing.unit, "n": n,
        "k": k, "a_rows": rows, "c_rows": results, "dtype": given.dtype, "out": wanted,
        "lda": elements_in(given.dtype, pitch_of(given)), **beside.keys,
    }  # fmt: skip
    lists = _lists(call, routing, units, summed=results == "token")
    keys |= {"entry_ids": 1} if "entry_ids" in lists else {}
    outputs = call.outputs(out, c=((counts[results], n), wanted))
    keys |= pitch_key("ldc", outputs.given["c"]) | of_sums
    operands = dict(zip(("b",) if up is None else ("gate", "up"), both, strict=True))
    inputs = {**operands, **beside.inputs, "a": given, **lists, **sides}
    return outputs.of(call.run("moe_gemm", keys, inputs, outputs.given, varying=("t",)))


def quantize_for_experts(
    x: Any, topk_ids: Any, smooth: Any, dtype: str = "i8", *, out: Any = None, stream: object = None
) -> Any:
    """Rows of tokens, once for each of their experts: multiplied by that expert's scales of columns, and quantised.

    Args:
        x: (tokens, n), f16, bf16 or f32.
        topk_ids: (tokens, topk), i32.
        smooth: (experts, n), f32.
        dtype: i8, fp8 or bf8.
        out: rows and scales, to be written.

    Returns:
        (topk, tokens, n), and the scales of rows (topk, tokens), f32. Zeros
        for an id that is not an expert's.

    Raises:
        DeviceError: shapes or types do not fit, an array has gaps.
        RequestError: the chip has no 8-bit floats.
    """
    call = Call(stream)
    rows = call.read("x", x).require(ndim=2).rows()
    ids = call.numbers("topk_ids", topk_ids).require(ndim=2, dtype="i32").contiguous()
    columns = call.read("smooth", smooth).require(ndim=2, dtype="f32").contiguous()
    if ids.shape[0] != rows.shape[0] or columns.shape[1] != rows.shape[1]:
        shapes = ", ".join(f"{one.what} {one.shape}" for one in (rows, ids, columns))
        raise DeviceError(f"{shapes}: expected (tokens, n), (tokens, topk) and (experts, n)")
    wanted, entries = dtype_name("dtype", dtype), (ids.shape[1], rows.shape[0])
    outputs = call.outputs(out, q=((*entries, rows.shape[1]), wanted), yscale=(entries, "f32"))
    base = min(one.base for one in (rows, ids, columns, *outputs.given.values()) if one is not None)
    keys: dict[str, object] = {
        "m": rows.shape[0], "n": rows.shape[1], "experts": columns.shape[0], "k": ids.shape[1], "dtype": rows.dtype,
        "out": wanted, "rounding": "nearest", "stride": pitch_of(rows), "base": base,
    }  # fmt: skip
    inputs = {"x": rows, "smooth": columns, "topk_ids": ids}
    return outputs.of(call.run("moe_smoothquant", keys, inputs, outputs.given, varying=("m",)))


def expression_of(op: Any, usual: str, *, gated: bool) -> str:
    """What becomes of products: the usual, or an expression that is given. Raises DeviceError if it is not a
    text or names the sums of another form; RequestError if it cannot be read or names anything else.
    """
    from ckmlir.ops.tensors.expression import read_expression

    if op is None:
        return usual
    if not isinstance(op, str):
        raise DeviceError(f"op={shown(op)}: expected an expression, such as silu(gate) * up")
    wrong = re.search(r"\bacc\b" if gated else r"\b(gate|up)\b", op)
    if wrong:
        able = "gate and up, the sums of both matrices" if gated else "acc, the sums of the only matrix"
        raise DeviceError(f"op={shown(op)}: it names {wrong[0]}; expected {able}")
    sums = ("gate", "up") if gated else ("acc",)
    try:
        read = read_expression(op, sums)
    except RequestError as error:
        raise RequestError(f"op: {error}") from None
    if not read.variables:
        raise RequestError(f"op={op}: it names no sums; expected {' or '.join(sums)} in it")
    return op


def _lists(call: Call, routing: SortedExperts, units: int, *, summed: bool) -> dict[str, Given]:
    """The arrays of a routing of so many units, by the names of `moe_gemm`; where results are `summed` by token, which
    entries these are, if that is known. Raises DeviceError for shorter ones.
    """
    arrays = {"sorted_ids": (routing.ids, units * routing.unit), "expert_ids": (routing.experts, units)}
    arrays["totals"] = routing.totals, 2
    lists = {name: _first(call.read(f"routing: {name}", one), size) for name, (one, size) in arrays.items()}
    # With a mask nobody knows that as many experts take part as there are matrices.
    if summed and routing.entry_ids is not None and not routing.is_local:
        shape = routing.tokens, routing.topk
        lists["entry_ids"] = call.read("routing: entry_ids", routing.entry_ids).require(shape=shape).contiguous()
    return lists


def _first(given: Given, size: int) -> Given:
    """So many elements. Raises DeviceError for a list that is shorter."""
    if given.ndim != 1 or given.shape[0] < size:
        raise DeviceError(f"{given.what}: shape {given.shape}; expected at least {size} elements")
    return given.contiguous().strided((size,), (1,))
