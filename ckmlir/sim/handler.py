"""Handlers: the compiled function of one instruction variant, and the builder that emits it.

A handler has the prototype `i32 (ptr wave, ptr record)`. It executes one instruction and tail-calls the handler of the
next record; it returns a `Status` only when the wave stops (end, barrier, error).
"""

from __future__ import annotations

from typing import NamedTuple

from ckmlir.sim import state
from ckmlir.sim.builder import Value
from ckmlir.sim.element import F32, FORMATS, MASK, U32, ElementType
from ckmlir.sim.llvm_builder import FunctionText, LLVMBuilder
from ckmlir.sim.state import LANES, Status

PROTOTYPE = "ptr noalias %wave, ptr noalias %record"


class HandlerKey(NamedTuple):
    """Everything a handler's code depends on.

    Attributes:
        mnemonic: The instruction's, or the name of a group that does the same (for example "no_operation").
        operands: A code for each operand: "v" vector register, "s" scalar register, "i" constant, "off" none, "vccz",
            "execz"; followed by "-" if negated, "|" if absolute, "x" if sign extended.
        modifiers: The encoded fields that matter, as (name, number), sorted. "mode" 1 asks for arithmetic that obeys
            the MODE register; otherwise the default mode is compiled in.
    """

    mnemonic: str
    operands: tuple[str, ...] = ()
    modifiers: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        fields = "".join(f" {name}={number}" for name, number in self.modifiers)
        return f"{self.mnemonic} {','.join(self.operands)}{fields}"

    def modifier(self, name: str, default: int = 0) -> int:
        for field, number in self.modifiers:
            if field == name:
                return number
        return default


def output_denormals(type: ElementType) -> int:
    """The bit of MODE that keeps denormal results of a float type; the bit below keeps denormal operands."""
    return 5 if type is F32 else 7


class HandlerBuilder(LLVMBuilder):
    """Emits one handler. `lanes` 64 computes on vectors, 0 on scalars; `scalars()` gives the other view of the same
    function."""

    def __init__(self, key: HandlerKey, lanes: int = LANES, text: FunctionText | None = None) -> None:
        super().__init__(lanes, text)
        self.key = key
        self.shadow = False  # emits what an instruction does to definedness (checks/shadow_builder.py)
        self.dynamic_mode = bool(key.modifier("mode"))

    def scalars(self) -> HandlerBuilder:
        return HandlerBuilder(self.key, 0, self.text)

    def vectors(self) -> HandlerBuilder:
        return HandlerBuilder(self.key, LANES, self.text)

    # -- memory of the three blocks ----------------------------------------------------------------------------------

    def pointer(self, base: str, offset: int | str) -> str:
        return base if offset == 0 else self.assign(f"getelementptr i8, ptr {base}, i64 {offset}")

    def host_pointer(self, address: str) -> str:
        """A pointer of an i64 that a scalar load reads from."""
        return self.assign(f"inttoptr i64 {address} to ptr")

    def _once(self, what: str, number: int, expression: str) -> str:
        """Load something in the entry block, the first time it is asked for."""
        key = (what, number)
        if key not in self.text.loaded:
            self.text.loaded[key] = self.assign(expression)
        return self.text.loaded[key]

    def slot(self, index: int) -> str:
        """Operand `index` of the record, an i64. First asked for in the entry block."""
        if ("slot", index) in self.text.loaded:
            return self.text.loaded["slot", index]
        address = self.pointer("%record", state.RECORD_OPERANDS + 8 * index)
        return self._once("slot", index, f"load i64, ptr {address}, align 8")

    def context(self) -> str:
        """The address of the workgroup's context, loaded where it is asked for."""
        return self.assign(f"load ptr, ptr {self.pointer('%wave', state.CONTEXT)}, align 8")

    def work(self, offset: int) -> str:
        """A pointer into the working room of the context (state.WORK_*)."""
        return self.pointer(self.context(), offset)

    def context_field(self, offset: int) -> str:
        return self.assign(f"load i64, ptr {self.pointer(self.context(), offset)}, align 8")

    def add_to_context_field(self, offset: int, amount: str) -> str:
        """Add an i64 to a counter of the context; returns the sum."""
        address = self.pointer(self.context(), offset)
        total = self.assign(f"add i64 {self.assign(f'load i64, ptr {address}, align 8')}, {amount}")
        self.emit(f"store i64 {total}, ptr {address}, align 8")
        return total

    def load_scalar(self, offset: int | str, type: ElementType) -> str:
        """A scalar of 32 or 64 bits at a byte offset of the wave."""
        return self.assign(f"load {self.element(type)}, ptr {self.pointer('%wave', offset)}, align 4")

    def store_scalar(self, offset: int | str, scalar: str, type: ElementType) -> None:
        self.emit(f"store {self.element(type)} {scalar}, ptr {self.pointer('%wave', offset)}, align 4")

    def _high_half(self, offset: int | str) -> int | str:
        return (
            offset + state.VGPR_BYTES
            if isinstance(offset, int)
            else self.assign(f"add i64 {offset}, {state.VGPR_BYTES}")
        )

    def load_register(self, offset: int | str, type: ElementType) -> Value:
        """All lanes of a vector register as a 32-bit type, or of a pair as a 64-bit type."""
        if type.bits == 64:
            low, high = self.load_register(offset, U32), self.load_register(self._high_half(offset), U32)
            order = ", ".join(f"i32 {lane}, i32 {lane + LANES}" for lane in range(LANES))
            words = self.assign(f"shufflevector {self.typed(low)}, {self.typed(high)}, <128 x i32> <{order}>")
            return Value(self, type, self.assign(f"bitcast <128 x i32> {words} to {self.spelled(type)}"))
        return Value(
            self, type, self.assign(f"load {self.spelled(type)}, ptr {self.pointer('%wave', offset)}, align 64")
        )

    def store_register(self, offset: int | str, value: Value, mask: Value | None) -> None:
        """Write a 32- or 64-bit vector to the lanes of the mask (None: all lanes)."""
        if value.type.bits == 64:
            words = self.assign(f"bitcast {self.typed(value)} to <128 x i32>")
            for half, place in enumerate((offset, self._high_half(offset))):
                order = ", ".join(f"i32 {2 * lane + half}" for lane in range(LANES))
                part = self.assign(f"shufflevector <128 x i32> {words}, <128 x i32> poison, <64 x i32> <{order}>")
                self.store_register(place, Value(self, U32, part), mask)
            return
        address, type = self.pointer("%wave", offset), self.spelled(value.type)
        stored = value.handle
        if mask is not None:
            old = self.assign(f"load {type}, ptr {address}, align 64")
            stored = self.assign(f"select {self.typed(mask)}, {type} {stored}, {type} {old}")
        self.emit(f"store {type} {stored}, ptr {address}, align 64")

    def merge_register(self, offset: int | str, value: Value, mask: Value) -> None:
        """Write a 32-bit vector, parts of which are what the register held, to the lanes of the mask.

        As `store_register` does, but without its select between the value and the old content: LLVM 22 joins that with
        the value's own merge of old and new bits into a masked VPTERNLOG, whose operands it then swaps without swapping
        its truth table (x86, AVX-512).
        """
        old = self.load_register(offset, value.type)
        lanes = self.assign(f"sext {self.typed(mask)} to {self.spelled(value.type)}")
        changed = (old ^ value) & Value(self, value.type, lanes)
        self.store_register(offset, old ^ changed, None)

    # -- lane masks --------------------------------------------------------------------------------------------------

    def exec_bits(self) -> str:
        if ("exec", 0) in self.text.loaded:
            return self.text.loaded["exec", 0]
        return self._once("exec", 0, f"load i64, ptr {self.pointer('%wave', state.EXEC)}, align 4")

    def mask_of_bits(self, bits: str) -> Value:
        """A lane mask of an i64."""
        return Value(self, MASK, self.assign(f"bitcast i64 {bits} to <64 x i1>"))

    def bits_of_mask(self, mask: Value) -> str:
        return self.assign(f"bitcast <64 x i1> {mask.handle} to i64")

    def active(self) -> Value:
        """EXEC as a lane mask."""
        return self.mask_of_bits(self.exec_bits())

    # -- the floating-point mode -------------------------------------------------------------------------------------

    def mode_flag(self, bit: int) -> Value:
        if not self.dynamic_mode:
            return super().mode_flag(bit)
        shifted = self.assign(f"lshr i32 {self.load_scalar(state.MODE, U32)}, {bit}")
        return self.splat(MASK, self.assign(f"trunc i32 {shifted} to i1"))

    def flushed_by_mode(self, x: Value, result: bool) -> Value:
        """A float with its denormals flushed where MODE's FP_DENORM field says so, for operands or for results."""
        if not self.dynamic_mode or x.type not in FORMATS:
            return x
        keeps = self.mode_flag(output_denormals(x.type) - (not result))
        bits = x.bits()
        normal = (bits & FORMATS[x.type].exponent_mask).ne(0)
        return self.select(keeps | normal, bits, bits & FORMATS[x.type].sign_mask).bits(x.type)

    # -- the end of a handler ----------------------------------------------------------------------------------------

    def continue_at(self, record: str) -> None:
        """Go on with the instruction whose record is at this pointer."""
        function = self.assign(f"load ptr, ptr {record}, align 8")
        result = self.assign(f"musttail call i32 {function}(ptr noalias %wave, ptr noalias {record})")
        self.emit(f"ret i32 {result}")

    def next(self) -> None:
        self.continue_at(self.pointer("%record", state.RECORD_BYTES))

    def next_unless(self, stops: str, status: int) -> None:
        """Go on with the next instruction; where `stops` (an i1) holds, only when the wave runs again."""
        stop, go = self.new_label("stop"), self.new_label("go")
        self.emit(f"br i1 {stops}, label %{stop}, label %{go}")
        self.label(stop)
        self.stop(status, self.pointer("%record", state.RECORD_BYTES))
        self.label(go)
        self.next()

    def stop(self, status: int, record: str) -> None:
        """Leave the chain; the wave goes on at `record` when it runs again."""
        self.emit(f"store ptr {record}, ptr {self.pointer('%wave', state.RESUME)}, align 8")
        self.emit(f"ret i32 {status}")

    def fail(self, kind: int, address: str = "0", lane: str = "-1", size: str = "0") -> None:
        """Note what went wrong in the context and stop."""
        context = self.context()
        noted = {
            state.ERROR_KIND: str(kind),
            state.ERROR_ADDRESS: address,
            state.ERROR_LANE: lane,
            state.ERROR_SIZE: size,
        }
        for offset, value in noted.items():
            self.emit(f"store i64 {value}, ptr {self.pointer(context, offset)}, align 8")
        self.emit(f"store ptr %record, ptr {self.pointer(context, state.ERROR_RECORD)}, align 8")
        self.stop(Status.FAILED, "%record")

    # -- the whole function ------------------------------------------------------------------------------------------

    def function(self, name: str) -> str:
        """The handler: counts the execution, then the emitted body. With modifier "skips" it does nothing where
        MODE.VSKIP is set."""
        body = "\n".join(self.text.lines)
        start = SKIP if self.key.modifier("skips") else ""
        return f"define i32 @{name}({PROTOTYPE}) #0 {{\nentry:\n{start}{_COUNT_EXECUTION}{body}\n}}\n"

    def function_with_rounding(self, name: str, field: int) -> str:
        """The handler of an emitted computation that has not ended the chain, run with the host's rounding as MODE
        says.

        The computation is a function of its own: only calls keep LLVM from moving arithmetic across a change of
        rounding.
        """
        body = "\n".join(self.text.lines)
        self.text.declarations.add("declare void @llvm.set.rounding(i32)")
        around = HandlerBuilder(self.key, 0)
        # MODE counts nearest, +infinity, -infinity, zero; llvm.set.rounding zero, nearest, +infinity, -infinity.
        shifted = around.assign(f"lshr i32 {around.load_scalar(state.MODE, U32)}, {field}")
        rounding = around.assign(f"and i32 {around.assign(f'add i32 {shifted}, 1')}, 3")
        around.emit(f"call void @llvm.set.rounding(i32 {rounding})")
        around.emit(f"call void @{name}_computation(ptr %wave, ptr %record)")
        around.emit("call void @llvm.set.rounding(i32 1)")
        around.next()
        return (
            f"define internal void @{name}_computation({PROTOTYPE}) #1 {{\n{body}\n  ret void\n}}\n"
            + around.function(name)
        )


SKIP = f"""  %mode_field = getelementptr i8, ptr %wave, i64 {state.MODE}
  %mode_bits = load i32, ptr %mode_field, align 4
  %skip_bit = and i32 %mode_bits, {1 << state.VECTOR_SKIP}
  %skips = icmp ne i32 %skip_bit, 0
  br i1 %skips, label %skipped, label %begin
skipped:
  %following = getelementptr i8, ptr %record, i64 {state.RECORD_BYTES}
  %following_function = load ptr, ptr %following, align 8
  %skip_result = musttail call i32 %following_function(ptr noalias %wave, ptr noalias %following)
  ret i32 %skip_result
begin:
"""
_COUNT_EXECUTION = f"""  %counter = getelementptr i8, ptr %record, i64 {state.RECORD_COUNT}
  %count = load i64, ptr %counter, align 8
  %counted = add i64 %count, 1
  store i64 %counted, ptr %counter, align 8
"""
