"""Sparse matrix instructions (SMFMAC): D = A * B + D, where A keeps two of every four elements along K.

AMD CDNA3 ISA, section 7.4; layouts by the AMD matrix instruction calculator for gfx942. Lane i + M * g holds E elements
of row i of A: those of the dense columns 2 * E * g to 2 * E * (g + 1) - 1, four columns for each pair. Two bits for
each element say which of the four it is; they are in the index register, in the set of 2 * E bits that ABID chooses
while CBSZ[1:0] is 0 (the first set otherwise). B is dense: 2 * E elements a lane. The forms of gfx950 with 32 bytes of
B a lane hold them in two runs, half of K apart (CK Tile's description of these instructions: one access to A, two to
B).
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from ckmlir.sim import state
from ckmlir.sim.builder import Value
from ckmlir.sim.element import F32, U32
from ckmlir.sim.handler import HandlerBuilder
from ckmlir.sim.matrix import ELEMENT_BITS, Matrix, accumulate, load_elements, stage

_NAME = re.compile(r"v_smfmac_(f32|i32)_(\d+)x\d+x(\d+)_([a-z]\w*)$")
_ROW = 4 * state.LANES  # bytes of a row of staged elements


def parse_sparse(mnemonic: str) -> Matrix | None:
    """The dense product that an SMFMAC computes, with the elements a lane holds of B; None for other instructions."""
    match = _NAME.match(mnemonic)
    if not match:
        return None
    m, k = int(match[2]), int(match[3])
    a, _, b = match[4].partition("_")
    return Matrix(match[1], m, k, a, b or a, m * k // 64, 1)


def index_bits(matrix: Matrix, cbsz: int, abid: int) -> int:
    """First bit of the set of indices in the index register; each element of A has two."""
    sets = 32 // matrix.elements
    return abid % sets * matrix.elements if cbsz & 3 == 0 else 0


def quad_place(matrix: Matrix, quad: int) -> tuple[int, int]:
    """(group of lanes, element) of B that holds the first of four columns."""
    runs = 2 if matrix.elements * ELEMENT_BITS[matrix.b] > 128 else 1
    run, rest = divmod(4 * quad, matrix.k // runs)
    group, element = divmod(rest, matrix.elements // runs)
    return group, run * (matrix.elements // runs) + element


def sparse_multiply(b: HandlerBuilder, matrix: Matrix) -> None:
    """Slots: D, A, B, indices."""
    for index in range(len(b.key.operands)):
        b.slot(index)
    held = matrix.elements // 2
    compressed = replace(matrix, elements=held)
    a_rows = stage(b, load_elements(b, compressed, 1, matrix.a), state.WORK_MATRIX_A)
    b_rows = stage(b, load_elements(b, matrix, 2, matrix.b), state.WORK_MATRIX_B)
    indices = b.load_register(b.slot(3), U32)
    first = index_bits(matrix, b.key.modifier("cbsz"), b.key.modifier("abid"))
    offsets = [((indices >> (first + 2 * e)) & 3) * _ROW for e in range(held)]
    index_rows = stage(b, offsets, state.WORK_MATRIX_C)
    _rows_of_d(b, matrix, a_rows, b_rows, index_rows)
    b.next()


def _rows_of_d(b: HandlerBuilder, matrix: Matrix, a_rows: str, b_rows: str, index_rows: str) -> None:
    """One row of D in one group of lanes after another; which row of B an element of A meets, its index says."""
    n, type = matrix.m, matrix.accumulator
    v = HandlerBuilder(b.key, n, b.text)
    d_rows = b.pointer("%wave", b.slot(0))
    groups, held = 64 // n, matrix.elements // 2
    entry, body, done = b.new_label("rows"), b.new_label("row"), b.new_label("rows_done")
    b.emit(f"br label %{entry}")
    b.label(entry)
    b.emit(f"br label %{body}")
    b.label(body)
    row, next_row = "%" + b.new_label("number"), "%" + b.new_label("next")
    b.emit(f"{row} = phi i64 [ 0, %{entry} ], [ {next_row}, %{body} ]")
    # Row 4 * step + r is register r + 4 * (step // groups) in lane group step % groups.
    step, within = b.assign(f"lshr i64 {row}, 2"), b.assign(f"and i64 {row}, 3")
    quad, group_of_lanes = b.assign(f"udiv i64 {step}, {groups}"), b.assign(f"urem i64 {step}, {groups}")
    register = b.assign(f"add i64 {b.assign(f'mul i64 {quad}, 4')}, {within}")
    first_lane = b.assign(f"mul i64 {group_of_lanes}, {4 * n}")
    place = b.assign(f"add i64 {b.assign(f'mul i64 {register}, {state.VGPR_BYTES}')}, {first_lane}")
    d = b.pointer(d_rows, place)
    c = Value(v, type, b.assign(f"load {v.spelled(type)}, ptr {d}, align 64"))
    total = v.constant(F32, 0.0) if matrix.result == "i32" else c
    lane = b.assign(f"mul i64 {row}, 4")
    for number in range(matrix.k // 2):
        a_group, a_element = divmod(number, held)
        offset = _ROW * a_element + 4 * n * a_group
        scalar, index = (b.pointer(b.pointer(rows, lane), offset) for rows in (a_rows, index_rows))
        a = v.splat(F32, b.assign(f"load float, ptr {scalar}, align 4"))
        chosen = b.assign(f"zext i32 {b.assign(f'load i32, ptr {index}, align 4')} to i64")
        group, element = quad_place(matrix, number // 2)
        column = b.pointer(b.pointer(b_rows, chosen), _ROW * element + 4 * n * group)
        total = v.fma(a, Value(v, F32, b.assign(f"load {v.spelled(F32)}, ptr {column}, align 64")), total)
    result = accumulate(v, matrix, total, c)
    b.emit(f"store {v.typed(result)}, ptr {d}, align 64")
    b.emit(f"{next_row} = add i64 {row}, 1")
    b.emit(f"br i1 {b.assign(f'icmp ult i64 {next_row}, {n}')}, label %{body}, label %{done}")
    b.label(done)
