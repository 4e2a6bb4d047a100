"""The builder that emits LLVM IR text: 64 lanes as one `<64 x T>` vector, or one scalar.

Results must be the same on every host, so nothing is asked of LLVM whose lowering differs between processors.
Arithmetic of f16 is arithmetic of f32 rounded once more, which is exact since 24 bits are at least twice 11 and two
more; only conversions to and from f32 are LLVM's. Conversions of unsigned numbers lose the sign that LLVM's sequence
for older processors gives to zero when it rounds downwards. And negations are hidden: joined with a multiply-add, they
would spare a NaN the change of its sign.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from ckmlir.sim.builder import BITS_TYPE, Builder, Value
from ckmlir.sim.element import F16, F32, F64, FORMATS, MASK, U32, ElementType
from ckmlir.sim.state import LANES

_INTEGER = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor", "shl": "shl"}
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_FLOAT_UNARY = {
    "absolute": "fabs", "floor": "floor", "ceil": "ceil", "truncate": "trunc", "round_even": "rint", "sqrt": "sqrt",
}  # fmt: skip
_INTEGER_UNARY = {
    "count_ones": "ctpop",
    "leading_zeros": "ctlz",
    "trailing_zeros": "cttz",
    "reverse_bits": "bitreverse",
}
_FLOAT_PREDICATE = {
    "eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "unordered": "uno",
}  # fmt: skip
_FLOAT_NAME = {16: "half", 32: "float", 64: "double"}


def float_constant(type: ElementType, number: float) -> str:
    """A float literal in LLVM's exact hexadecimal spelling (f32 is written as the double of the same value)."""
    if type is F16:
        return f"0xH{struct.unpack('<H', struct.pack('<e', number))[0]:04X}"
    if type is F32 and number == number:
        number = struct.unpack("<f", struct.pack("<f", number))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


class FunctionText:
    """The lines of a function body, and what they refer to. Builders of vectors and of scalars may share one."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self.loaded: dict[tuple[str, int], str] = {}  # values loaded once in the entry block
        self._names = 0

    def name(self, stem: str = "t") -> str:
        self._names += 1
        return f"{stem}{self._names}"


class LLVMBuilder(Builder):
    """Emits into a function body. `lanes` is the vector length, or 0 for scalars."""

    def __init__(self, lanes: int = LANES, text: FunctionText | None = None) -> None:
        self.lanes = lanes
        self.text = text or FunctionText()

    # -- text --------------------------------------------------------------------------------------------------------

    def emit(self, line: str) -> None:
        self.text.lines.append(f"  {line}")

    def assign(self, expression: str) -> str:
        """Emit an instruction with a result and return the result's name."""
        name = "%" + self.text.name()
        self.text.lines.append(f"  {name} = {expression}")
        return name

    def new_label(self, stem: str) -> str:
        return self.text.name(stem)

    def label(self, name: str) -> None:
        """Start a basic block."""
        self.text.lines.append(f"{name}:")

    def element(self, type: ElementType) -> str:
        return _FLOAT_NAME[type.bits] if type.is_float else f"i{type.bits}"

    def spelled(self, type: ElementType) -> str:
        element = self.element(type)
        return f"<{self.lanes} x {element}>" if self.lanes else element

    def _suffix(self, type: ElementType) -> str:
        element = f"f{type.bits}" if type.is_float else f"i{type.bits}"
        return f"v{self.lanes}{element}" if self.lanes else element

    def intrinsic(self, name: str, result: str, *arguments: Value | tuple[str, str]) -> str:
        """Call an intrinsic and declare it; an argument is a value of this builder, or a type and a name."""
        pairs = [(self.spelled(x.type), x.handle) if isinstance(x, Value) else x for x in arguments]
        self.text.declarations.add(f"declare {result} @{name}({', '.join(type for type, _ in pairs)})")
        return self.assign(f"call {result} @{name}({', '.join(f'{type} {value}' for type, value in pairs)})")

    def typed(self, x: Value) -> str:
        return f"{self.spelled(x.type)} {x.handle}"

    # -- primitives --------------------------------------------------------------------------------------------------

    def constant(self, type: ElementType, number: int | float) -> Value:
        if type.is_float:
            text = float_constant(type, float(number))
        else:
            text = str(int(number) & ((1 << type.bits) - 1))
            text = {"0": "false", "1": "true"}[text] if type is MASK else text
        return Value(self, type, f"splat ({self.element(type)} {text})" if self.lanes else text)

    def binary(self, operation: str, x: Value, y: Value) -> Value:
        type = x.type
        if type is F16 and operation in _FLOAT:
            return self.binary(operation, x.to(F32), y.to(F32)).to(F16)
        if operation in ("min", "max"):
            spelled = self.spelled(type)
            name = f"llvm.{'s' if type.is_signed else 'u'}{operation}.{self._suffix(type)}"
            return Value(self, type, self.intrinsic(name, spelled, x, y))
        if operation == "shr":
            opcode = "ashr" if type.is_signed else "lshr"
        else:
            opcode = (_FLOAT if type.is_float else _INTEGER)[operation]
        return Value(self, type, self.assign(f"{opcode} {self.spelled(type)} {x.handle}, {y.handle}"))

    def unary(self, operation: str, x: Value) -> Value:
        spelled = self.spelled(x.type)
        if operation == "negate":
            return (x.bits() ^ self._hidden(BITS_TYPE[x.type], FORMATS[x.type].sign_mask)).bits(x.type)
        if x.type is F16:
            if operation == "absolute":
                return (x.bits() & (FORMATS[F16].sign_mask - 1)).bits(F16)
            return self.unary(operation, x.to(F32)).to(F16)
        if x.type.is_float:
            name = f"llvm.{_FLOAT_UNARY[operation]}.{self._suffix(x.type)}"
            return Value(self, x.type, self.intrinsic(name, spelled, x))
        name = f"llvm.{_INTEGER_UNARY[operation]}.{self._suffix(x.type)}"
        zero_is_defined = [("i1", "false")] if operation in ("leading_zeros", "trailing_zeros") else []
        return Value(self, x.type, self.intrinsic(name, spelled, x, *zero_is_defined))

    def _hidden(self, type: ElementType, number: int) -> Value:
        """A constant of which LLVM does not know the value: an assembly of no instructions has its hands on it."""
        element = self.element(type)
        return self.splat(type, self.assign(f'call {element} asm "", "=r,0"({element} {number})'))

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        if (
            x.type is F16
        ):  # exact in f64: an 11-bit product and an 11-bit addend span fewer than 53 bits where it matters
            return self.fma(x.to(F64), y.to(F64), z.to(F64)).to(F16)
        spelled = self.spelled(x.type)
        return Value(self, x.type, self.intrinsic(f"llvm.fma.{self._suffix(x.type)}", spelled, x, y, z))

    def compare(self, predicate: str, x: Value, y: Value) -> Value:
        if x.type is F16:
            return self.compare(predicate, x.to(F32), y.to(F32))
        if x.type.is_float:
            opcode, condition = "fcmp", _FLOAT_PREDICATE[predicate]
        else:
            prefix = "" if predicate in ("eq", "ne") else "s" if x.type.is_signed else "u"
            opcode, condition = "icmp", prefix + predicate
        return Value(self, MASK, self.assign(f"{opcode} {condition} {self.spelled(x.type)} {x.handle}, {y.handle}"))

    def select(self, mask: Value, x: Value, y: Value) -> Value:
        return Value(
            self, x.type, self.assign(f"select {self.typed(mask)}, {self.typed(x)}, {self.spelled(x.type)} {y.handle}")
        )

    def rarely(self, mask: Value, rare: Callable[[], Value], usual: Value) -> Value:
        if not self.lanes:
            return super().rarely(mask, rare, usual)
        any_lane = self.intrinsic(f"llvm.vector.reduce.or.v{self.lanes}i1", "i1", mask)
        before, block, end, done = (self.new_label(stem) for stem in ("before", "rare", "rare_end", "done"))
        self.emit(f"br label %{before}")
        self.label(before)
        self.emit(f"br i1 {any_lane}, label %{block}, label %{done}")
        self.label(block)
        chosen = self.select(mask, rare(), usual)
        self.emit(f"br label %{end}")  # what `rare` emits may have blocks of its own
        self.label(end)
        self.emit(f"br label %{done}")
        self.label(done)
        spelled = self.spelled(usual.type)
        joined = self.assign(f"phi {spelled} [ {usual.handle}, %{before} ], [ {chosen.handle}, %{end} ]")
        return Value(self, usual.type, joined)

    def convert(self, x: Value, type: ElementType) -> Value:
        source = x.type
        if F16 in (source, type) and F32 not in (source, type):
            return self._double_to_half(x) if source is F64 else self._by_way_of_f32(x, type)
        if source.is_float and type.is_float:
            opcode = "fpext" if type.bits > source.bits else "fptrunc"
        elif source.is_float:
            name = f"llvm.fpto{'s' if type.is_signed else 'u'}i.sat.{self._suffix(type)}.{self._suffix(source)}"
            return Value(self, type, self.intrinsic(name, self.spelled(type), x))
        elif type.is_float and not source.is_signed:
            number = Value(self, type, self.assign(f"uitofp {self.typed(x)} to {self.spelled(type)}"))
            return self.absolute(number) if source.bits >= 32 else number
        elif type.is_float:
            opcode = "sitofp"
        elif type.bits == source.bits:
            return Value(self, type, x.handle)
        elif type.bits < source.bits:
            opcode = "trunc"
        else:
            opcode = "sext" if source.is_signed else "zext"
        return Value(self, type, self.assign(f"{opcode} {self.typed(x)} to {self.spelled(type)}"))

    def _by_way_of_f32(self, x: Value, type: ElementType) -> Value:
        """From or to an f16 without rounding twice: f32 holds all f16 and all integers of 16 bits."""
        assert x.type is F16 or x.type.bits <= 16, f"{x.type} to f16 would be rounded twice"
        return x.to(F32).to(type)

    def _double_to_half(self, x: Value) -> Value:
        """By way of an f32 rounded to odd, which cannot round twice; LLVM would call a run-time library that JIT code
        does not have."""
        nearest = x.to(F32)
        bits, back = nearest.bits(), nearest.to(F64)
        away = self.absolute(back) > self.absolute(x)
        toward_zero = self.select(away, bits - 1, bits)
        return self.select(back.ne(x), toward_zero | 1, bits).bits(F32).to(F16)

    def bitcast(self, x: Value, type: ElementType) -> Value:
        if not x.type.is_float and not type.is_float:
            return Value(self, type, x.handle)
        return Value(self, type, self.assign(f"bitcast {self.typed(x)} to {self.spelled(type)}"))

    def lane(self) -> Value:
        return Value(self, U32, "<" + ", ".join(f"i32 {lane}" for lane in range(self.lanes)) + ">")

    def mode_flag(self, bit: int) -> Value:
        return self.constant(MASK, DEFAULT_MODE >> bit & 1)

    def shuffle(self, x: Value, lanes: tuple[int, ...]) -> Value:
        spelled = self.spelled(x.type)
        pattern = ", ".join(f"i32 {lane}" for lane in lanes)
        return Value(
            self,
            x.type,
            self.assign(f"shufflevector {spelled} {x.handle}, {spelled} poison, <{len(lanes)} x i32> <{pattern}>"),
        )

    # -- between scalars and vectors ---------------------------------------------------------------------------------

    def splat(self, type: ElementType, scalar: str) -> Value:
        """A scalar SSA name in every lane (the scalar itself when building scalars)."""
        if not self.lanes:
            return Value(self, type, scalar)
        element, spelled = self.element(type), self.spelled(type)
        first = self.assign(f"insertelement {spelled} poison, {element} {scalar}, i64 0")
        return Value(
            self,
            type,
            self.assign(f"shufflevector {spelled} {first}, {spelled} poison, <{self.lanes} x i32> zeroinitializer"),
        )


# MODE after a default launch of LLVM's: round to nearest even, all denormals kept, DX10_CLAMP (bit 8) and IEEE (bit 9)
# on.
DEFAULT_MODE = 0x3F0
