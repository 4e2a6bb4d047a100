"""Vector conversions between number formats (v_cvt_*): AMD CDNA3 and CDNA4 ISA, chapter 12."""

from __future__ import annotations

from ckmlir.sim.builder import Builder, Value
from ckmlir.sim.element import F16, F32, F64, I16, I32, TYPES, U16, U32
from ckmlir.sim.operation import define
from ckmlir.sim.semantics.small_floats import (
    FP4,
    SmallFormat,
    bf8_format,
    bf16_to_f32,
    decode,
    encode,
    f32_to_bf16,
    f32_to_f16_stochastic,
    f32_to_f16_toward_zero,
    fp8_format,
)  # fmt: skip


def pair(low: Value, high: Value) -> Value:
    """Two 16-bit patterns in one register."""
    return low.bits(U16).to(U32) | (high.bits(U16).to(U32) << 16)


# -- numbers to numbers ----------------------------------------------------------------------------------------------

_DIRECT = """
    f32<-i32 f32<-u32 u32<-f32 i32<-f32 f64<-i32 f64<-u32 u32<-f64 i32<-f64
    f16<-f32 f32<-f16 f32<-f64 f64<-f32 f16<-u16 f16<-i16 u16<-f16 i16<-f16
"""
for to, source in (pair.split("<-") for pair in _DIRECT.split()):
    define(f"v_cvt_{to}_{source}", f"{to} <- {source}", lambda b, x, to=TYPES[to]: x.to(to))

define("v_cvt_rpi_i32_f32", "i32 <- f32", lambda b, x: b.unary("floor", x + 0.5).to(I32))
define("v_cvt_flr_i32_f32", "i32 <- f32", lambda b, x: b.unary("floor", x).to(I32))
define("v_cvt_off_f32_i4", "f32 <- u32", lambda b, x: b.sign_extend(x & 15, 4).bits(I32).to(F32) * 0.0625)
for byte in range(4):
    define(f"v_cvt_f32_ubyte{byte}", "f32 <- u32", lambda b, x, byte=byte: ((x >> (8 * byte)) & 0xFF).to(F32))


def normalised_integer(b: Builder, x: Value, signed: bool) -> Value:
    """[-1, 1] to i16 or [0, 1] to u16, nearest even; NaN gives 0."""
    low, high = (-1.0, 32767.0) if signed else (0.0, 65535.0)
    wide = x.to(F32) if x.type is F16 else x
    limited = b.select(wide > 1.0, b.f32(1.0), b.select(wide < low, b.f32(low), wide))
    return b.unary("round_even", limited * high).to(I16 if signed else U16)


define("v_cvt_norm_i16_f16", "i16 <- f16", lambda b, x: normalised_integer(b, x, True))
define("v_cvt_norm_u16_f16", "u16 <- f16", lambda b, x: normalised_integer(b, x, False))
for name in ("f16", "f32"):
    for kind in "iu":
        define(
            f"v_cvt_pknorm_{kind}16_{name}", f"u32 <- {name} {name}",
            lambda b, x, y, signed=kind == "i": pair(*(normalised_integer(b, z, signed) for z in (x, y))),
        )  # fmt: skip


def insert_byte(b: Builder, x: Value, position: Value, old: Value) -> Value:
    """v_cvt_pk_u8_f32: a float as a saturated byte, into byte `position` of `old`."""
    shift = (position & 3) << 3
    return (old & ~(b.u32(0xFF) << shift)) | (x.to(U32).minimum(255) << shift)


define("v_cvt_pk_u8_f32", "u32 <- f32 u32 u32", insert_byte)
define("v_cvt_pkaccum_u8_f32", "u32 <- f32 u32 old:u32", insert_byte)

# -- f32 to pairs of 16-bit floats -----------------------------------------------------------------------------------

define(
    "v_cvt_pkrtz_f16_f32",
    "u32 <- f32 f32",
    lambda b, x, y: pair(f32_to_f16_toward_zero(b, x), f32_to_f16_toward_zero(b, y)),
)
define("v_cvt_pk_f16_f32", "u32 <- f32 f32", lambda b, x, y: pair(x.to(F16), y.to(F16)))
define("v_cvt_pk_bf16_f32", "u32 <- f32 f32", lambda b, x, y: pair(f32_to_bf16(b, x), f32_to_bf16(b, y)))
define("v_cvt_f32_bf16", "f32 <- u16", bf16_to_f32)
define("v_cvt_sr_f16_f32", "f16 <- f32 u32", f32_to_f16_stochastic, keeps_high=True)
define("v_cvt_sr_bf16_f32", "u16 <- f32 u32", f32_to_bf16, keeps_high=True)

# -- fp8 and bf8: `fnuz` says which variant the chip has -------------------------------------------------------------


def unpack_two(b: Builder, x: Value, format: SmallFormat) -> Value:
    """Two f32 in a register pair, of the two bytes of a u16."""
    wide = x.to(U32)
    return b.join(decode(b, wide & 0xFF, format).bits(), decode(b, wide >> 8, format).bits())


def stochastic_byte(b: Builder, x: Value, random: Value, old: Value, op_sel: int, format: SmallFormat) -> Value:
    """Writes the byte that the upper two op_sel bits choose."""
    shift = 8 * (op_sel >> 2)
    return (old & ~(0xFF << shift) & 0xFFFFFFFF) | (encode(b, x, format, random) << shift)


for name, format_of in (("fp8", fp8_format), ("bf8", bf8_format)):
    define(
        f"v_cvt_f32_{name}", "f32 <- u32", lambda b, x, fnuz, of=format_of: decode(b, x & 0xFF, of(fnuz)),
        modifiers=("fnuz",),
    )  # fmt: skip
    define(
        f"v_cvt_pk_f32_{name}", "u64 <- u16", lambda b, x, fnuz, of=format_of: unpack_two(b, x, of(fnuz)),
        modifiers=("fnuz",),
    )  # fmt: skip
    define(
        f"v_cvt_pk_{name}_f32", "u16 <- f32 f32",
        lambda b, x, y, fnuz, of=format_of: (encode(b, x, of(fnuz)) | (encode(b, y, of(fnuz)) << 8)).to(U16),
        keeps_high=True, modifiers=("fnuz",),
    )  # fmt: skip
    define(
        f"v_cvt_sr_{name}_f32", "u32 <- f32 u32 old:u32",
        lambda b, x, r, old, fnuz, op_sel, of=format_of: stochastic_byte(b, x, r, old, op_sel, of(fnuz)),
        modifiers=("fnuz", "op_sel"),
    )  # fmt: skip

# -- gfx950: conversions with a block scale, a power of two given by the exponent of an f32 --------------------------


def block_scale(b: Builder, scale: Value) -> Value:
    """2**(exponent field - 127): the E8M0 meaning of the scale operand's exponent (0 stands for 2**-127)."""
    field = scale.bits() & 0x7F800000
    return b.select(field.eq(0), b.u32(0x00400000), field).bits(F32)


def narrowed(b: Builder, x: Value, name: str) -> Value:
    """f32 to a 16-bit pattern or an f32 pattern."""
    return {"f32": lambda: x.bits(), "f16": lambda: x.to(F16).bits(), "bf16": lambda: f32_to_bf16(b, x)}[name]()


def widened(b: Builder, x: Value, name: str) -> Value:
    """The f32 of a u32 (f32), or of the low half of a u32 (f16, bf16)."""
    return {
        "f32": lambda: x.bits(F32),
        "f16": lambda: x.to(U16).bits(F16).to(F32),
        "bf16": lambda: bf16_to_f32(b, x & 0xFFFF),
    }[name]()


def scaled_unpack(b: Builder, x: Value, scale: Value, op_sel: int, format: SmallFormat, to: str) -> Value:
    """Two elements of a byte (fp4, chosen by two op_sel bits) or of a half (fp8, chosen by one), times the scale."""
    bits = format.bits
    part = x >> (8 * (op_sel & 3) if bits == 4 else 16 * (op_sel & 1))
    elements = [decode(b, (part >> (bits * k)) & ((1 << bits) - 1), format) * block_scale(b, scale) for k in range(2)]
    low, high = (narrowed(b, element, to) for element in elements)
    return b.join(low, high) if to == "f32" else pair(low, high)


def scaled_unpack_one(
    b: Builder, x: Value, scale: Value, old: Value, op_sel: int, format: SmallFormat, to: str
) -> Value:
    """One byte, chosen by two op_sel bits, times the scale; an f16 goes to the half that the last op_sel bit
    chooses."""
    element = decode(b, (x >> (8 * (op_sel & 3))) & 0xFF, format) * block_scale(b, scale)
    if to == "f32":
        return element.bits()
    shift = 16 if op_sel & 8 else 0
    return (old & (0xFFFF0000 >> shift)) | (narrowed(b, element, to).to(U32) << shift)


def scaled_pack(b: Builder, x: Value, y: Value, scale: Value, old: Value, op_sel: int, format: SmallFormat) -> Value:
    """Two f32, divided by the scale, into the byte (fp4) or half (fp8) that the upper op_sel bits choose."""
    codes = [
        encode(b, (element.to(F64) / block_scale(b, scale).to(F64)).to(F32), format, saturate=True)
        for element in (x, y)
    ]
    packed = codes[0] | (codes[1] << format.bits)
    shift = 8 * (op_sel >> 2) if format.bits == 4 else 16 * (op_sel >> 3)
    mask = 0xFF if format.bits == 4 else 0xFFFF
    return (old & ~(mask << shift) & 0xFFFFFFFF) | (packed << shift)


for small in (bf8_format(0), fp8_format(0), FP4):
    for wide in ("f32", "f16", "bf16"):
        register = "u64" if wide == "f32" else "u32"
        define(
            f"v_cvt_scalef32_pk_{wide}_{small.name}", f"{register} <- u32 f32",
            lambda b, x, s, op_sel, small=small, wide=wide: scaled_unpack(b, x, s, op_sel, small, wide),
            modifiers=("op_sel",), raw=True,
        )  # fmt: skip
        if wide != "f32":
            define(
                f"v_cvt_scalef32_pk_{small.name}_{wide}", "u32 <- u32 f32 old:u32",
                lambda b, x, s, old, op_sel, small=small, wide=wide: scaled_pack(
                    b, widened(b, x, wide), widened(b, x >> 16, wide), s, old, op_sel, small
                ),
                modifiers=("op_sel",), raw=True,
            )  # fmt: skip
    define(
        f"v_cvt_scalef32_pk_{small.name}_f32", "u32 <- f32 f32 f32 old:u32",
        lambda b, x, y, s, old, op_sel, small=small: scaled_pack(b, x, y, s, old, op_sel, small),
        modifiers=("op_sel",), raw=True,
    )  # fmt: skip
    for wide in ("f32", "f16") if small.bits == 8 else ():
        define(
            f"v_cvt_scalef32_{wide}_{small.name}", "u32 <- u32 f32 old:u32",
            lambda b, x, s, old, op_sel, small=small, wide=wide: scaled_unpack_one(b, x, s, old, op_sel, small, wide),
            modifiers=("op_sel",), raw=True,
        )  # fmt: skip
