"""What LLVM calls where the processor lacks an instruction: the functions that a linker would take from elsewhere.

Processors without F16C convert between half and float by `__extendhfsf2` and `__truncsfhf2` of the compiler's run-time
library, which is not there when code is compiled in memory; they are written here, and rounded as the processor rounds
at the time, since handlers change that with the MODE register. Multiply-adds without FMA, and roundings without SSE4.1,
are the C library's, which are exact (ISO C, F.10.10.1); of the product of zero and infinity with a NaN added FMA makes
that NaN, the C library some other.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from functools import lru_cache

import llvmlite.binding as llvm

from ckmlir.sim.processor import Processor

_MULTIPLY_ADDS = {"fma": "double", "fmaf": "float"}
_ROUNDINGS = ("ceil", "floor", "rint", "trunc")

_EXTEND = """
define hidden float @__extendhfsf2(half %number) {
  %bits = bitcast half %number to i16
  %wide = zext i16 %bits to i32
  %magnitude = and i32 %wide, 32767
  %sign_below = and i32 %wide, 32768
  %sign = shl i32 %sign_below, 16
  %place = shl i32 %magnitude, 13
  %small = bitcast i32 %place to float
  %finite = fmul float %small, 0x46F0000000000000  ; 2^112, the difference of the biases
  %finite_bits = bitcast float %finite to i32
  %special = icmp uge i32 %magnitude, 31744
  %is_nan = icmp ugt i32 %magnitude, 31744
  %quiet = select i1 %is_nan, i32 4194304, i32 0
  %infinite = or i32 %place, 2139095040
  %quieted = or i32 %infinite, %quiet
  %unsigned = select i1 %special, i32 %quieted, i32 %finite_bits
  %result_bits = or i32 %unsigned, %sign
  %result = bitcast i32 %result_bits to float
  ret float %result
}
"""

# The last place of the result is brought to the last place of an f32 by adding a power of two, so that the processor
# rounds; what is above that power, in last places, is the result's mantissa, from which a carry goes to its exponent.
_TRUNCATE = """
define hidden half @__truncsfhf2(float %number) {
  %bits = bitcast float %number to i32
  %magnitude = and i32 %bits, 2147483647
  %sign = and i32 %bits, -2147483648
  %beyond = icmp ugt i32 %magnitude, 1199570944  ; 65536, which rounds as all that is greater
  %limited = select i1 %beyond, i32 1199570944, i32 %magnitude
  %field = lshr i32 %limited, 23
  %is_tiny = icmp ult i32 %field, 113
  %exponent = select i1 %is_tiny, i32 113, i32 %field
  %above = add i32 %exponent, 13
  %power_bits = shl i32 %above, 23
  %signed_power = or i32 %power_bits, %sign
  %power = bitcast i32 %signed_power to float
  %signed_limited = or i32 %limited, %sign
  %small = bitcast i32 %signed_limited to float
  %sum = fadd float %small, %power
  %sum_bits = bitcast float %sum to i32
  %sum_magnitude = and i32 %sum_bits, 2147483647
  %mantissa = sub i32 %sum_magnitude, %power_bits
  %exponent_above = sub i32 %exponent, 113
  %exponent_place = shl i32 %exponent_above, 10
  %rounded = add i32 %exponent_place, %mantissa
  %overflows = icmp ugt i32 %rounded, 31743
  %largest_bits = or i32 %sign, 2139095039
  %largest = bitcast i32 %largest_bits to float
  %twice = fadd float %largest, %largest  ; infinity, or the largest number where rounding is towards zero
  %twice_bits = bitcast float %twice to i32
  %twice_magnitude = and i32 %twice_bits, 2147483647
  %to_infinity = icmp eq i32 %twice_magnitude, 2139095040
  %limit = select i1 %to_infinity, i32 31744, i32 31743
  %finite = select i1 %overflows, i32 %limit, i32 %rounded
  %is_infinite = icmp eq i32 %magnitude, 2139095040
  %is_nan = icmp ugt i32 %magnitude, 2139095040
  %not_nan = select i1 %is_infinite, i32 31744, i32 %finite
  %payload_place = lshr i32 %magnitude, 13
  %payload = and i32 %payload_place, 1023
  %nan = or i32 %payload, 32256
  %unsigned = select i1 %is_nan, i32 %nan, i32 %not_nan
  %sign_place = lshr i32 %sign, 16
  %result_wide = or i32 %unsigned, %sign_place
  %result_bits = trunc i32 %result_wide to i16
  %result = bitcast i16 %result_bits to half
  ret half %result
}
"""


_MULTIPLY_ADD = """
define hidden {type} @{name}({type} %x, {type} %y, {type} %z) {{
  %is_nan = fcmp uno {type} %z, %z
  br i1 %is_nan, label %nan, label %number
nan:
  %quieted = fadd {type} %z, %z
  ret {type} %quieted
number:
  %result = call {type} @ckmlir_{name}({type} %x, {type} %y, {type} %z)
  ret {type} %result
}}
declare {type} @ckmlir_{name}({type}, {type}, {type})
"""


def defined_functions(made_for: Processor) -> dict[str, str]:
    """The functions that a module needs that is compiled for this processor: symbol to LLVM text. What the C library
    has is made known to LLVM."""
    functions = {}
    if not made_for.has("f16c"):
        functions = {"__extendhfsf2": _EXTEND, "__truncsfhf2": _TRUNCATE}
    if not made_for.has("fma"):
        provide_mathematics()
        functions |= {name: _MULTIPLY_ADD.format(name=name, type=type) for name, type in _MULTIPLY_ADDS.items()}
    return functions


@lru_cache(maxsize=1)
def provide_mathematics() -> None:
    """Let LLVM find the C library's mathematics, however this process was linked."""
    try:
        library = ctypes.CDLL("libm.so.6")
    except OSError:
        library = ctypes.CDLL(ctypes.util.find_library("m"))
    symbols = {f"ckmlir_{name}": name for name in _MULTIPLY_ADDS}
    symbols |= {name: name for stem in _ROUNDINGS for name in (stem, f"{stem}f")}
    for symbol, name in symbols.items():
        llvm.add_symbol(symbol, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
