"""v_trig_preop_f64: a piece of 2/pi, with which math libraries reduce large arguments of sine and cosine.

AMD CDNA3 ISA, V_TRIG_PREOP_F64: of the 1201 bits after the point, the 53 that start at `shift` become the result's
significand. The pseudo code prints a mask for that; that the bits come from the top is what the exponent, -53 - shift,
asks for.
"""

from __future__ import annotations

from ckmlir.sim.builder import Builder, Value
from ckmlir.sim.element import F64, I32, U32
from ckmlir.sim.operation import define
from ckmlir.sim.semantics.floating import exponent_field, scale_by_power

TWO_OVER_PI = int(
    "145f306dc9c882a53f84eafa3ea69bb81b6c52b3278872083fca2c757bd778ac36e48dc74849"
    "ba5c00c925dd413a32439fc3bd63962534e7dd1046bea5d768909d338e04d68befc827323ac7"
    "306a673e93908bf177bf250763ff12fffbc0b301fde5e2316b414da3eda6cfd9e4f96136e9e8"
    "c7ecd3cbfd45aea4f758fd7cbe2f67a0e73ef14a525d4d7f6bf623f1aba10ac06608df8f6",
    16,
)
"""2/pi times 2**1201, truncated."""

_BITS = 1201
_PIECES = -(-_BITS // 64)


def _piece(b: Builder, number: Value) -> Value:
    """64 bits of 2/pi from bit 64 * number behind the point; zero behind the last."""
    result = b.u64(0)
    padded = TWO_OVER_PI << (64 * _PIECES - _BITS)
    for piece in range(_PIECES):
        bits = padded >> (64 * (_PIECES - 1 - piece)) & 0xFFFF_FFFF_FFFF_FFFF
        result = b.select(number.eq(piece), b.u64(bits), result)
    return result


def piece_of_two_over_pi(b: Builder, x: Value, segment: Value) -> Value:
    exponent = exponent_field(x).to(U32)
    beyond = b.select(exponent > 1077, exponent - 1077, b.u32(0))
    shift = (segment & 31) * 53 + beyond
    number, within = shift >> 6, shift & 63
    first, second = _piece(b, number), _piece(b, number + 1)
    rest = b.select(within.eq(0), b.u64(0), second >> (b.u32(64) - within.maximum(1)).to(second.type))
    significand = ((first << within.to(first.type)) | rest) >> 11
    scale = b.select(exponent >= 1968, b.u32(128 - 53), b.u32((-53) & 0xFFFFFFFF)) - shift
    return scale_by_power(b, significand.to(F64), scale.bits(I32))


define("v_trig_preop_f64", "f64 <- f64 u32", piece_of_two_over_pi)
