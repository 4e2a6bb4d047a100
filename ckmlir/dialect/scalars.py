"""Element types by their short names, and the names of MLIR types.

`fp8` (e4m3) and `bf8` (e5m2) mean the chip's own format: FNUZ on gfx942, OCP on gfx950. `e8m0` is a power of two,
2^-127 to 2^127, or NaN: the scale of a block (OCP Microscaling Formats, 5.4.1).
"""

import threading

from ckmlir.mlir import ir

_NAMES = {name: name for name in ("f16", "bf16", "f32", "f64", "i1", "i8", "i16", "i32", "i64")}
_SCALE = {"e8m0": "f8E8M0FNU"}
_EIGHT_BIT = {
    ("fp8", "fnuz"): "f8E4M3FNUZ", ("bf8", "fnuz"): "f8E5M2FNUZ", ("fp8", "ocp"): "f8E4M3FN", ("bf8", "ocp"): "f8E5M2",
}  # fmt: skip
_SHORTS = {full: short for (short, _), full in _EIGHT_BIT.items()} | {full: short for short, full in _SCALE.items()}
_BITS = {
    "f8E8M0FNU": 8, "f8E4M3FNUZ": 8, "f8E5M2FNUZ": 8, "f8E4M3FN": 8, "f8E5M2": 8, "bf16": 16, "f16": 16, "f32": 32,
    "f64": 64,
}  # fmt: skip


def element_type(name: str, fp8: str | None) -> ir.Type:
    """The MLIR type of a dtype name; `fp8` is the chip's flavour ("fnuz", "ocp" or None).

    Raises:
        ValueError: no such dtype, or the chip has no 8-bit floats.
    """
    if name in _NAMES:
        return ir.Type.parse(_NAMES[name])
    if name in ("fp8", "bf8"):
        if fp8 is None:
            raise ValueError(f"this chip has no {name}")
        return ir.Type.parse(_EIGHT_BIT[name, fp8.lower()])
    if name in _SCALE:
        return ir.Type.parse(_SCALE[name])
    raise ValueError(f"unknown dtype '{name}'; there are {', '.join(_NAMES)}, fp8, bf8, e8m0")


class _Thread(threading.local):
    """A thread's own, so that it ends with the thread's context: types and attributes keep their contexts alive."""

    def __init__(self) -> None:
        self.names: dict[ir.Type | ir.Attribute, str] = {}


_thread = _Thread()


def name_of(item: ir.Type | ir.Attribute) -> str:
    """How MLIR writes a type, or an attribute of which there are few; remembered, for it takes 30 times as long as
    finding it again."""
    names = _thread.names
    name = names.get(item)
    if name is None:
        name = names[item] = str(item)
    return name


def bits(type_: ir.Type | str) -> int:
    """Bits of one element of a type, or of the type that a text writes."""
    name = type_ if isinstance(type_, str) else name_of(type_)
    if name in _BITS:
        return _BITS[name]
    if name.startswith("i") and name[1:].isdigit():
        return int(name[1:])
    raise ValueError(f"{type_} is not an element type")


def is_float(type_: ir.Type) -> bool:
    """Whether the type is a floating-point type."""
    return name_of(type_) in _BITS


def zero_of(type_: ir.Type) -> ir.Attribute:
    """The constant 0 of an element type, or of a vector."""
    if isinstance(type_, ir.VectorType):
        return ir.DenseElementsAttr.get_splat(type_, zero_of(type_.element_type))
    return ir.FloatAttr.get(type_, 0.0) if is_float(type_) else ir.IntegerAttr.get(type_, 0)


def dtype_of(type_: ir.Type) -> str:
    """The dtype name of an element type, as matrix instructions know it: either format of fp8 is `fp8`."""
    name = name_of(type_)
    return _SHORTS.get(name, name)
