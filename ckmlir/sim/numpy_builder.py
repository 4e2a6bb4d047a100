"""The builder that computes with NumPy at once: the second opinion on every semantic function."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from ckmlir.sim.builder import Builder, Value
from ckmlir.sim.element import F16, F32, F64, FORMATS, MASK, U32, ElementType

_DTYPE: dict[str, dict[int, Any]] = {
    "u": {4: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64},
    "i": {4: np.int8, 8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64},
    "f": {16: np.float16, 32: np.float32, 64: np.float64},
    "mask": {1: np.bool_},
}
_COMPARE = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_FLOAT_UNARY = {
    "negate": np.negative, "absolute": np.abs, "floor": np.floor, "ceil": np.ceil, "truncate": np.trunc,
    "round_even": np.rint, "sqrt": np.sqrt,
}  # fmt: skip
_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift, "min": np.minimum, "max": np.maximum,
}  # fmt: skip


def dtype_of(type: ElementType) -> Any:
    return _DTYPE[type.kind][type.bits]


def _round_fraction(number: Fraction, type: ElementType) -> float:
    """The nearest value of a format, ties to even: independent of the host's rounding."""
    format = FORMATS[type]
    if number == 0:
        return 0.0
    magnitude = abs(number)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    exponent = max(exponent, 1 - format.bias)
    quantum = Fraction(2) ** (exponent - format.mantissa_bits)
    rounded = round(magnitude / quantum) * quantum
    if rounded >= Fraction(2) ** (format.bias + 1):
        return float("-inf") if number < 0 else float("inf")
    return -float(rounded) if number < 0 else float(rounded)


def _fused(x: float, y: float, z: float, type: ElementType) -> float:
    if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
        return x * y + z if np.isfinite(z) or not (np.isfinite(x) and np.isfinite(y)) else z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return x * y + z if x * y == 0 else 0.0
    return _round_fraction(exact, type)


class NumPyBuilder(Builder):
    """Values are arrays; `lanes` 0 makes 0-d arrays (scalars). `mode` is the MODE register's content."""

    def __init__(self, lanes: int = 64, mode: int = 0x3F0) -> None:
        self.lanes = lanes
        self.shape: tuple[int, ...] = (lanes,) if lanes else ()
        self.mode = mode

    def array(self, type: ElementType, data: Any) -> Value:
        return Value(self, type, np.broadcast_to(np.asarray(data, dtype_of(type)), self.shape))

    def constant(self, type: ElementType, number: int | float) -> Value:
        if not type.is_float:
            number = int(number) & ((1 << type.bits) - 1)
            if type.is_signed and number >> (type.bits - 1):
                number -= 1 << type.bits
        with np.errstate(all="ignore"):
            return self.array(type, number)

    def _wrap(self, type: ElementType, data: Any) -> Value:
        """Cut an integer result of a 4-bit type, which NumPy computes in 8."""
        if type.bits == 4:
            data = data & np.uint8(15) if type.kind == "u" else np.right_shift(np.left_shift(data, 4), 4)
        return Value(self, type, data)

    def binary(self, operation: str, x: Value, y: Value) -> Value:
        if x.type is MASK:
            return Value(
                self,
                MASK,
                {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[operation](x.handle, y.handle),
            )
        right = y.handle.view(dtype_of(x.type)) if y.handle.dtype != x.handle.dtype else y.handle
        with np.errstate(all="ignore"):
            return self._wrap(
                x.type, np.asarray(_BINARY[operation](x.handle, right)).astype(dtype_of(x.type), copy=False)
            )

    def unary(self, operation: str, x: Value) -> Value:
        if x.type.is_float:
            with np.errstate(all="ignore"):
                return Value(self, x.type, np.asarray(_FLOAT_UNARY[operation](x.handle)))
        bits = x.type.bits
        words = [format(int(word) & ((1 << bits) - 1), f"0{bits}b") for word in x.handle.ravel()]
        counts: dict[str, Callable[[str], int]] = {
            "count_ones": lambda w: w.count("1"),
            "leading_zeros": lambda w: w.find("1") if "1" in w else bits,
            "trailing_zeros": lambda w: bits - 1 - w.rfind("1") if "1" in w else bits,
            "reverse_bits": lambda w: int(w[::-1], 2),
        }
        unsigned = np.array([counts[operation](word) for word in words], dtype_of(ElementType("u", bits))).reshape(
            x.handle.shape
        )
        return Value(self, x.type, unsigned.view(dtype_of(x.type)))

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        triples = zip(x.handle.ravel().tolist(), y.handle.ravel().tolist(), z.handle.ravel().tolist())
        with np.errstate(all="ignore"):
            fused = np.array([_fused(a, b, c, x.type) for a, b, c in triples], np.float64)
            return Value(self, x.type, fused.astype(dtype_of(x.type)).reshape(x.handle.shape))

    def compare(self, predicate: str, x: Value, y: Value) -> Value:
        with np.errstate(all="ignore"):
            if predicate == "unordered":
                return Value(self, MASK, np.isnan(x.handle) | np.isnan(y.handle))
            return Value(self, MASK, np.asarray(_COMPARE[predicate](x.handle, y.handle.view(x.handle.dtype))))

    def select(self, mask: Value, x: Value, y: Value) -> Value:
        return Value(self, x.type, np.where(mask.handle, x.handle, y.handle.view(x.handle.dtype)))

    def convert(self, x: Value, type: ElementType) -> Value:
        target = dtype_of(type)
        with np.errstate(all="ignore"):
            if x.type.is_float and not type.is_float:
                low, high = (
                    (-(1 << (type.bits - 1)), (1 << (type.bits - 1)) - 1)
                    if type.is_signed
                    else (0, (1 << type.bits) - 1)
                )
                exact = [
                    0 if v != v else min(max(int(v), low), high) if abs(v) < 2.0**70 else (high if v > 0 else low)
                    for v in x.handle.ravel().tolist()
                ]
                return Value(self, type, np.array(exact, target).reshape(x.handle.shape))
            if x.type.is_float and type is F16 and x.type is F64:
                return Value(self, type, x.handle.astype(np.float16))
            if type.is_float and x.type.bits == 64 and type in (F32, F16) and not x.type.is_float:
                exact_floats = [_round_fraction(Fraction(v), type) for v in x.handle.ravel().tolist()]
                return Value(self, type, np.array(exact_floats, target).reshape(x.handle.shape))
            return self._wrap(type, x.handle.astype(target))

    def bitcast(self, x: Value, type: ElementType) -> Value:
        return Value(self, type, x.handle.view(dtype_of(type)))

    def lane(self) -> Value:
        return Value(self, U32, np.arange(self.lanes, dtype=np.uint32))

    def mode_flag(self, bit: int) -> Value:
        return self.constant(MASK, self.mode >> bit & 1)

    def shuffle(self, x: Value, lanes: tuple[int, ...]) -> Value:
        return Value(self, x.type, x.handle[list(lanes)])
