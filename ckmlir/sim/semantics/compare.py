"""Vector comparisons (VOPC): one bit a lane, into a scalar register pair; v_cmpx also replaces EXEC."""

from __future__ import annotations

from collections.abc import Callable

from ckmlir.sim.builder import Builder, Value
from ckmlir.sim.operation import Semantics, define
from ckmlir.sim.semantics.floating import (
    exponent_field,
    is_denormal,
    is_infinite,
    is_signalling,
    is_zero,
    sign_bits,
)  # fmt: skip

_INTEGER: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "f": lambda b, x, y: b.false(),
    "lt": lambda b, x, y: x < y,
    "eq": lambda b, x, y: x.eq(y),
    "le": lambda b, x, y: x <= y,
    "gt": lambda b, x, y: x > y,
    "ne": lambda b, x, y: x.ne(y),
    "ge": lambda b, x, y: x >= y,
    "t": lambda b, x, y: b.true(),
}
_FLOAT: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "f": lambda b, x, y: b.false(),
    "lt": lambda b, x, y: x < y,
    "eq": lambda b, x, y: x.eq(y),
    "le": lambda b, x, y: x <= y,
    "gt": lambda b, x, y: x > y,
    "lg": lambda b, x, y: (x < y) | (x > y),
    "ge": lambda b, x, y: x >= y,
    "o": lambda b, x, y: ~b.compare("unordered", x, y),
    "u": lambda b, x, y: b.compare("unordered", x, y),
    "nge": lambda b, x, y: ~(x >= y),
    "nlg": lambda b, x, y: ~((x < y) | (x > y)),
    "ngt": lambda b, x, y: ~(x > y),
    "nle": lambda b, x, y: ~(x <= y),
    "neq": lambda b, x, y: x.ne(y),
    "nlt": lambda b, x, y: ~(x < y),
    "tru": lambda b, x, y: b.true(),
}


def float_class(b: Builder, x: Value, classes: Value) -> Value:
    """v_cmp_class: bits 0..9 ask for signalling NaN, quiet NaN, -infinity, -normal, -denormal, -0, +0, +denormal,
    +normal, +infinity."""
    negative = sign_bits(x).ne(0)
    normal = exponent_field(x).ne(0) & ~is_infinite(x) & ~b.is_nan(x)
    signed = [is_infinite(x), normal, is_denormal(x), is_zero(x)]
    members = [is_signalling(b, x), b.is_nan(x) & ~is_signalling(b, x)]
    members += [member & negative for member in signed] + [member & ~negative for member in reversed(signed)]
    result = b.false()
    for bit, member in enumerate(members):
        result = result | (member & (classes & (1 << bit)).ne(0))
    return result


def _and_execute(compare: Semantics) -> Semantics:
    def evaluate(b: Builder, *operands: Value) -> tuple[Value, Value]:
        result = compare(b, *operands)
        assert isinstance(result, Value)
        return result, result

    return evaluate


def _define(suffix: str, operands: str, compare: Semantics, raw: bool = False) -> None:
    define(f"v_cmp_{suffix}", f"mask <- {operands}", compare, raw=raw)
    define(f"v_cmpx_{suffix}", f"mask lanes <- {operands}", _and_execute(compare), raw=raw)


for type in ("i16", "u16", "i32", "u32", "i64", "u64"):
    for name, compare in _INTEGER.items():
        _define(f"{name}_{type}", f"{type} {type}", compare)
for type in ("f16", "f32", "f64"):
    for name, compare in _FLOAT.items():
        _define(f"{name}_{type}", f"{type} {type}", compare)
    _define(f"class_{type}", f"{type} u32", float_class, raw=True)
