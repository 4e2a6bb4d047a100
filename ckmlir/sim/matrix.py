"""Matrix instructions (MFMA): D = A * B + C on one or several blocks, spread over the lanes of a wave.

Layouts: AMD CDNA3 ISA, chapter 7, and the AMD matrix instruction calculator
(github.com/ROCm/amd_matrix_instruction_calculator). With M rows and columns, `blocks` blocks, 64 / (M * blocks) groups
of lanes and E elements a lane:

- A[i][k] and B[k][i] of block n are element k % E of lane i + M * (n + blocks * (k // E)).
- D[i][j] of block n, M = 32 or 16: in the n-th run of registers, in a lane of column j. Rows go four at a time through
  the registers, then through the groups of lanes: i = r % 4 + 4 * (64 // M) * (r // 4) + 4 * (lane // M).
- M = 4: row i is register i, lane j + 4 * n. f64 has runs of one row where the others have four.

The order in which products are added is not specified; here k ascends with fused multiply-adds. Integers are exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from ckmlir.sim import state
from ckmlir.sim.builder import Value
from ckmlir.sim.element import F16, F32, F64, I32, U16, U32, ElementType
from ckmlir.sim.handler import HandlerBuilder
from ckmlir.sim.semantics.bit_fields import bit_field
from ckmlir.sim.semantics.conversion import block_scale
from ckmlir.sim.semantics.floating import flushed, same_nan
from ckmlir.sim.semantics.small_floats import (
    BF6,
    FP4,
    FP6,
    SmallFormat,
    bf8_format,
    bf16_to_f32,
    decode,
    fp8_format,
)  # fmt: skip

_NAME = re.compile(r"v_mfma_(?:scale_)?(f32|i32|f64)_(\d+)x\d+x(\d+)(?:_(\d+)b)?(_?)([a-z]\w*)$")
ELEMENT_BITS = {"f16": 16, "bf16": 16, "bf16_1k": 16, "f32": 32, "xf32": 32, "f64": 64, "i8": 8, "fp8": 8, "bf8": 8}
_F8F6F4 = ("fp8", "bf8", "fp6", "bf6", "fp4")  # values of CBSZ and BLGP
_SMALL_BITS = {"fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4}


class Matrix(Struct, frozen=True):
    """One MFMA: result element type, M = N, K, element names of A and B, elements a lane holds of each, blocks."""

    result: str
    m: int
    k: int
    a: str
    b: str
    elements: int
    blocks: int

    @property
    def groups(self) -> int:
        """Groups of lanes that hold different k of A and B."""
        return 64 // (self.m * self.blocks)

    @property
    def compute(self) -> ElementType:
        """The type products are added in: i8 products of one instruction are exact in f32."""
        return F64 if self.result == "f64" else F32

    @property
    def accumulator(self) -> ElementType:
        return {"f32": F32, "i32": I32, "f64": F64}[self.result]


def parse_matrix(mnemonic: str, cbsz: int, blgp: int) -> Matrix | None:
    """The MFMA that a mnemonic names (gfx90a's and gfx942's spellings), or None."""
    match = _NAME.match(mnemonic)
    if not match:
        return None
    result, m, k, types = match[1], int(match[2]), int(match[3]), match[6]
    if types == "f8f6f4":
        if cbsz >= len(_F8F6F4) or blgp >= len(_F8F6F4):
            return None
        return Matrix(result, m, k, _F8F6F4[cbsz], _F8F6F4[blgp], m * k // 64, 1)
    a, _, b = types.partition("_") if types[:4] in ("fp8_", "bf8_") else (types, "", types)
    if a not in ELEMENT_BITS or b not in ELEMENT_BITS:
        return None
    blocks = int(match[4] or 1) if match[5] else _blocks_of_gfx90a(m, k, a)
    return Matrix(result, m, k, a, b, m * k * blocks // 64, blocks)


def _blocks_of_gfx90a(m: int, k: int, a: str) -> int:
    """gfx90a's names leave out the number of blocks: as many as the elements of a lane make with 64 lanes."""
    held = {"f32": 1, "f64": 1, "bf16": 2, "f16": 4, "bf16_1k": 4, "i8": 4}[a]
    return max(1, 64 * held // (m * k))


# -- operands as f32 or f64 ------------------------------------------------------------------------------------------


def _xf32(b: HandlerBuilder, x: Value) -> Value:
    """f32 rounded to the 10-bit mantissa of xf32; NaN stays NaN, whatever its mantissa."""
    bits = x.bits()
    rounded = ((bits + (((bits >> 13) & 1) + 0xFFF)) & 0xFFFFE000).bits(F32)
    return b.select(b.is_nan(x), x, rounded)


def convert_element(b: HandlerBuilder, name: str, word: Value, fnuz: int) -> Value:
    """One element, in the low bits of a u32, as f32."""
    small: dict[str, SmallFormat] = {
        "fp8": fp8_format(fnuz),
        "bf8": bf8_format(fnuz),
        "fp6": FP6,
        "bf6": BF6,
        "fp4": FP4,
    }
    if name in small:
        return decode(b, word, small[name])
    conversions: dict[str, Callable[[], Value]] = {
        "f16": lambda: word.to(U16).bits(F16).to(F32),
        "bf16": lambda: bf16_to_f32(b, word),
        "bf16_1k": lambda: bf16_to_f32(b, word),
        "f32": lambda: word.bits(F32),
        "xf32": lambda: _xf32(b, word.bits(F32)),
        "i8": lambda: b.sign_extend(word, 8).bits(I32).to(F32),
    }
    return conversions[name]()


def load_elements(b: HandlerBuilder, matrix: Matrix, slot: int, name: str) -> list[Value]:
    """The elements that the lanes hold of A or B, one vector of 64 for each."""
    offset = b.slot(slot)
    if name == "f64":
        return [b.load_register(offset, F64)]
    bits = _SMALL_BITS.get(name) or ELEMENT_BITS[name]
    count = matrix.elements * bits // 32
    words = [b.load_register(b.assign(f"add i64 {offset}, {k * state.VGPR_BYTES}"), U32) for k in range(count)]
    elements = [
        convert_element(b, name, bit_field(words, e, bits), b.key.modifier("fnuz")) for e in range(matrix.elements)
    ]
    if b.key.modifier("flush"):
        smallest = {"f16": 2.0**-14, "bf16": 2.0**-126, "bf16_1k": 2.0**-126}.get(name)
        if smallest:
            elements = [b.select(b.absolute(e) < smallest, b.f32(0.0), e) for e in elements]
    return elements


def element_of_k(matrix: Matrix, name: str, k: int) -> tuple[int, int]:
    """(group of lanes, element) that holds k. The 8-bit formats of f8f6f4 hold two runs of 16 elements, half of K
    apart."""
    if matrix.elements == 32 and _SMALL_BITS.get(name) == 8:
        half, rest = divmod(k, matrix.k // 2)
        return rest // 16, 16 * half + rest % 16
    return k // matrix.elements, k % matrix.elements


def _rearranged_lane(blgp: int, lane: int) -> int:
    """The lane of B that a lane reads: halves or quarters broadcast, or all rotated by 16 (CDNA3 ISA, table "BLGP")."""
    if blgp == 3:
        return (lane + 16) % 64
    return 32 * (blgp - 1) + lane % 32 if blgp < 3 else 16 * (blgp - 4) + lane % 16


def lane_permutations(b: HandlerBuilder, matrix: Matrix) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """Source lanes of A under CBSZ and ABID (a block of A serves a group of blocks), and of B under BLGP (lanes
    rearranged)."""
    key = b.key
    a = lanes_b = None
    size = 1 << key.modifier("cbsz")
    if size > 1:
        a = tuple(
            lane % matrix.m + matrix.m * (block // size * size + key.modifier("abid")) % 64
            for lane in range(64)
            for block in [lane // matrix.m]
        )
    blgp = key.modifier("blgp")
    if blgp:
        lanes_b = tuple(_rearranged_lane(blgp, lane) for lane in range(64))
    return a, lanes_b


def stage(b: HandlerBuilder, elements: list[Value], place: int) -> str:
    """Put element vectors in the working room, a row of 64 each; returns the pointer."""
    pointer = b.work(place)
    for index, element in enumerate(elements):
        b.emit(f"store {b.typed(element)}, ptr {b.pointer(pointer, index * element.type.bits * 8)}, align 64")
    return pointer


def scaled(
    b: HandlerBuilder, matrix: Matrix, elements: list[Value], name: str, slot: int, selection: int
) -> list[Value]:
    """Elements times their block scales: byte `selection` of the scale register is an E8M0 exponent; the scale of row i
    and k is in lane i + M * (k // 32)."""
    code = b.key.operands[slot]
    if code == "v":
        word = b.load_register(b.slot(slot), U32)
    elif code == "s":
        word = b.splat(U32, b.load_scalar(b.slot(slot), U32))
    else:
        word = b.splat(U32, b.assign(f"trunc i64 {b.slot(slot)} to i32"))
    exponent = (word >> (8 * selection)) & 0xFF
    scale = b.select(exponent.eq(255), b.u32(0x7FC00000), block_scale(b, exponent << 23).bits()).bits(F32)
    if _SMALL_BITS[name] < 8:
        return [element * scale for element in elements]
    halves = []  # a lane's two runs of 16 elements lie in different blocks of 32
    for half in range(2):
        blocks = [(16 * (lane // matrix.m) + half * matrix.k // 2) // 32 for lane in range(64)]
        halves.append(b.shuffle(scale, tuple(lane % matrix.m + matrix.m * block for lane, block in enumerate(blocks))))
    return [element * halves[index // 16] for index, element in enumerate(elements)]


# -- the multiplication ----------------------------------------------------------------------------------------------


def matrix_multiply(b: HandlerBuilder, matrix: Matrix) -> None:
    """Slots: D, A, B, C (a register or a constant), then the two block scales of the scaled form."""
    for index in range(len(b.key.operands)):
        b.slot(index)
    a, other = load_elements(b, matrix, 1, matrix.a), load_elements(b, matrix, 2, matrix.b)
    if matrix.result != "f64" and matrix.elements < 32:
        a_lanes, b_lanes = lane_permutations(b, matrix)
        a = [b.shuffle(element, a_lanes) for element in a] if a_lanes else a
        other = [b.shuffle(element, b_lanes) for element in other] if b_lanes else other
    if matrix.result == "f64":
        negated = b.key.modifier("blgp")
        a = [-element for element in a] if negated & 1 else a
        other = [-element for element in other] if negated & 2 else other
    if len(b.key.operands) > 4:
        selection = [b.key.modifier("op_sel") >> k & 1 | (b.key.modifier("op_sel_hi") >> k & 1) << 1 for k in range(2)]
        a = scaled(b, matrix, a, matrix.a, 4, selection[0])
        other = scaled(b, matrix, other, matrix.b, 5, selection[1])
    if matrix.m == 4:
        small_blocks(b, matrix, a, other)
    elif matrix.result == "f64":
        double_rows(b, a[0], other[0])
    else:
        large_rows(b, matrix, a, other)
    b.next()


def accumulate(b: HandlerBuilder, matrix: Matrix, total: Value, c: Value) -> Value:
    """The new accumulator of a sum of products. i8 sums start at zero and are added as integers; float sums started at
    c, and have one NaN only: which of many operands' it would be is the host's business."""
    if matrix.result == "i32":
        return total.to(I32) + c
    return same_nan(b, flushed(b, total) if b.key.modifier("flush") else total)


def _constant_c(b: HandlerBuilder, type: ElementType) -> Value:
    word = b.slot(3)
    if type.bits == 32:
        word = b.assign(f"trunc i64 {word} to i32")
    if type.is_float:
        word = b.assign(f"bitcast i{type.bits} {word} to {b.element(type)}")
    return b.splat(type, word)


def large_rows(b: HandlerBuilder, matrix: Matrix, a: list[Value], other: list[Value]) -> None:
    """32x32 and 16x16 blocks: for each four rows of D in one group of lanes, N-lane vectors accumulate A[i][k] *
    B[k][:]. Rows of B stay in registers of the host, elements of A are broadcast from memory."""
    n, lane_groups, type = matrix.m, 64 // matrix.m, matrix.accumulator
    v = HandlerBuilder(b.key, n, b.text)
    registers = n * n // 64
    a_rows = stage(b, a, state.WORK_MATRIX_A)
    c_rows = _c_rows(b, matrix)
    d_rows = b.pointer("%wave", b.slot(0))
    constant = _constant_c(v, type) if c_rows is None else None
    for block in range(matrix.blocks):
        columns = []
        for k in range(matrix.k):
            group, element = element_of_k(matrix, matrix.b, k)
            columns.append(_lanes(v, other[element], n * (block + matrix.blocks * group)))
        entry, body, done = b.new_label("rows"), b.new_label("row"), b.new_label("rows_done")
        b.emit(f"br label %{entry}")
        b.label(entry)
        b.emit(f"br label %{body}")
        b.label(body)
        step, next_step = "%" + b.new_label("step"), "%" + b.new_label("next")
        b.emit(
            f"{step} = phi i64 [ 0, %{entry} ], [ {next_step}, %{body} ]"
        )  # quad of registers * lane_groups + lane group
        quad = b.assign(f"udiv i64 {step}, {lane_groups}")
        lanes = b.assign(f"urem i64 {step}, {lane_groups}")
        # Rows of A come as 4 * step + 0..3, since i = 4 * (lane_groups * quad + lanes) + r.
        a_base = b.pointer(b.pointer(a_rows, b.assign(f"mul i64 {step}, 16")), 4 * n * block)
        offset = b.assign(f"add i64 {b.assign(f'mul i64 {quad}, {4 * 256}')}, {b.assign(f'mul i64 {lanes}, {4 * n}')}")
        totals, initial = [], []
        for r in range(4):
            place = b.assign(f"add i64 {offset}, {256 * (block * registers + r)}")
            c = constant
            if c_rows is not None:
                c = Value(v, type, b.assign(f"load {v.spelled(type)}, ptr {b.pointer(c_rows, place)}, align 64"))
            assert c is not None
            initial.append((place, c))
            totals.append(v.constant(F32, 0.0) if matrix.result == "i32" else c)
        for k, b_k in enumerate(columns):
            group, element = element_of_k(matrix, matrix.a, k)
            for r in range(4):
                scalar = b.pointer(a_base, 4 * (64 * element + n * matrix.blocks * group + r))
                a_k = v.splat(F32, b.assign(f"load float, ptr {scalar}, align 4"))
                totals[r] = v.fma(a_k, b_k, totals[r])
        for (place, c), total in zip(initial, totals):
            result = accumulate(v, matrix, total, c)
            b.emit(f"store {v.typed(result)}, ptr {b.pointer(d_rows, place)}, align 64")
        b.emit(f"{next_step} = add i64 {step}, 1")
        b.emit(f"br i1 {b.assign(f'icmp ult i64 {next_step}, {n // 4}')}, label %{body}, label %{done}")
        b.label(done)


def _lanes(v: HandlerBuilder, x: Value, first: int) -> Value:
    """As many lanes of 64, from `first` on, as a builder of shorter vectors has."""
    order = ", ".join(f"i32 {first + lane}" for lane in range(v.lanes))
    whole = f"<64 x {v.element(x.type)}>"
    return Value(v, x.type, v.assign(f"shufflevector {whole} {x.handle}, {whole} poison, <{v.lanes} x i32> <{order}>"))


def _c_rows(b: HandlerBuilder, matrix: Matrix) -> str | None:
    """The registers of C; a copy if D overlaps them without being them; None if C is a constant."""
    if b.key.operands[3] != "v":
        return None
    rows = b.pointer("%wave", b.slot(3))
    if not b.key.modifier("overlap"):
        return rows
    copy = b.work(state.WORK_MATRIX_C)
    for k in range(matrix.m * matrix.m * matrix.blocks // 64):
        row = b.assign(f"load <64 x i32>, ptr {b.pointer(rows, k * state.VGPR_BYTES)}, align 64")
        b.emit(f"store <64 x i32> {row}, ptr {b.pointer(copy, k * state.VGPR_BYTES)}, align 64")
    return copy


def small_blocks(b: HandlerBuilder, matrix: Matrix, a: list[Value], other: list[Value]) -> None:
    """4x4 blocks: all blocks at once in 64 lanes, operands brought to their lanes by constant shuffles."""
    type, blocks = matrix.accumulator, matrix.blocks
    per_register = 64 // (4 * blocks)  # rows of D that one register holds: 1, or 4 in f64
    results = []
    for register in range(4 // per_register):
        c = _constant_c(b, type) if b.key.operands[3] != "v" else b.load_register(
            b.assign(f"add i64 {b.slot(3)}, {register * type.registers * state.VGPR_BYTES}"), type
        )  # fmt: skip
        if matrix.result == "f64" and b.key.modifier("blgp") & 4:
            c = -c
        total = b.constant(F32, 0.0) if matrix.result == "i32" else c
        for k in range(matrix.k):
            group, element = element_of_k(matrix, matrix.a, k)
            base = 4 * blocks * group
            rows = tuple(
                base + 4 * (lane // 4 % blocks) + register * per_register + lane // (4 * blocks) for lane in range(64)
            )
            columns = tuple(base + lane % (4 * blocks) for lane in range(64))
            total = b.fma(b.shuffle(a[element], rows), b.shuffle(other[element], columns), total)
        results.append(accumulate(b, matrix, total, c))
    for register, result in enumerate(results):
        b.store_register(b.assign(f"add i64 {b.slot(0)}, {register * type.registers * state.VGPR_BYTES}"), result, None)


def double_rows(b: HandlerBuilder, a: Value, other: Value) -> None:
    """The 16x16x4 block of f64: register pair r holds row 4 * r + lane // 16."""
    v = HandlerBuilder(b.key, 16, b.text)
    a_rows = stage(b, [a], state.WORK_MATRIX_A)
    columns = [_lanes(v, other, 16 * k) for k in range(4)]
    results = []
    for register in range(4):
        c = _constant_c(b, F64) if b.key.operands[3] != "v" else b.load_register(
            b.assign(f"add i64 {b.slot(3)}, {2 * register * state.VGPR_BYTES}"), F64
        )  # fmt: skip
        c = -c if b.key.modifier("blgp") & 4 else c
        parts = []
        for group in range(4):
            total = _lanes(v, c, 16 * group)
            for k, b_k in enumerate(columns):
                a_k = v.splat(
                    F64, b.assign(f"load double, ptr {b.pointer(a_rows, 8 * (16 * k + 4 * register + group))}, align 8")
                )
                total = v.fma(a_k, b_k, total)
            parts.append(same_nan(v, total))
        results.append(_concatenate(b, v, parts))
    for register, result in enumerate(results):
        b.store_register(b.assign(f"add i64 {b.slot(0)}, {2 * register * state.VGPR_BYTES}"), result, None)


def _concatenate(b: HandlerBuilder, v: HandlerBuilder, parts: list[Value]) -> Value:
    """One vector of four quarters."""
    halves = []
    order = ", ".join(f"i32 {lane}" for lane in range(32))
    for low, high in (parts[:2], parts[2:]):
        halves.append(b.assign(f"shufflevector {v.typed(low)}, {v.typed(high)}, <32 x i32> <{order}>"))
    order = ", ".join(f"i32 {lane}" for lane in range(64))
    whole = b.assign(f"shufflevector <32 x double> {halves[0]}, <32 x double> {halves[1]}, <64 x i32> <{order}>")
    return Value(b, F64, whole)
