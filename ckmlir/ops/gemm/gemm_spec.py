"""Which GEMM kernels there are: the specification, the defaults of a chip, and what a chip can run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.resources import Resources, excess
from ckmlir.ops.schedules import GEMM as SCHEDULES
from ckmlir.ops.schedules import lds_buffers
from ckmlir.ops.spec import Reason, Spec, by, not_a_choice, not_powers_of_two
from ckmlir.targets import Target, TargetError

OUTPUTS = {
    "f16": ("f16", "f32"),
    "bf16": ("bf16", "f32"),
    "fp8": ("f16", "bf16", "f32"),
    "bf8": ("f16", "bf16", "f32"),
    "i8": ("i32",),
}
"""Input dtype -> output dtypes; the first is the default."""

LAYOUTS = ("RCR", "RRR", "CRR", "CCR")
EPILOGUES = ("cshuffle", "direct")
REGISTERS_PER_LOAD = 2
"""Beside its data, a global load takes an offset and, if narrow, a register for what is not packed yet."""
SMALL = 64
"""Products with no more rows or no more columns than this take the small block."""


@dataclass(frozen=True)
class GemmSpec(Spec):
    """What a GEMM kernel's code depends on.

    Attributes:
        block: tile (m, n, k) of a workgroup in one step of the K loop.
        waves: waves of a workgroup along (m, n).
        mfma: shape (m, n, k) of the matrix instruction.
        pad: the letters of m, n, k whose size need not be a multiple of the block.
        align: for A, B and C, elements of which both the leading dimension and the length of a row are multiples: the
            widest vector that is aligned and never crosses the end of a row (a power of two, at most 16 bytes).
    """

    dtype: str
    out: str
    layout: str
    block: tuple[int, int, int]
    waves: tuple[int, int]
    mfma: tuple[int, int, int]
    epilogue: str
    schedule: str
    pad: str
    align: tuple[int, int, int]

    @property
    def name(self) -> str:
        parts = [
            "gemm", self.dtype, self.out, self.layout.lower(), by(self.block), f"waves{by(self.waves)}",
            f"mfma{by(self.mfma)}", self.epilogue, self.schedule, f"align{by(self.align)}",
        ]  # fmt: skip
        return "_".join(parts + ([f"pad_{self.pad}"] if self.pad else []))

    @property
    def wave_count(self) -> int:
        return math.prod(self.waves)

    @property
    def schedule_text(self) -> str:
        """The K loop's schedule in the language of `ckmlir.dialect.schedule`."""
        return SCHEDULES[self.schedule]


def default_block(m: int, n: int, dtype: str) -> tuple[int, int, int]:
    """128 x 128, 64 x 64 for a product with few rows or columns; along K 128 bytes, a full cache line of the rows."""
    size = 64 if min(m, n) <= SMALL else 128
    return size, size, 128 // find_dtype(dtype).bytes


def default_mfma(
    block: tuple[int, int, int], waves: tuple[int, int], dtype: str, target: Target
) -> tuple[int, int, int]:
    """The chip's fastest unscaled instruction of the largest shape that tiles a wave's part of the block.

    Where none does, the nearest one, which `invalid_fields` then refuses with the reason.
    """
    able = [one for one in target.mfmas(dtype) if not one.scaled]
    fitting = [
        one for one in able
        if block[0] % (waves[0] * one.m) == 0 and block[1] % (waves[1] * one.n) == 0 and block[2] % one.k == 0
    ]  # fmt: skip
    if not able:
        return 32, 32, 16 // find_dtype(dtype).bytes
    best = max(fitting or able, key=lambda one: one.m)  # of several, the first: `mfmas` has the fastest first
    return best.m, best.n, best.k


def invalid_fields(spec: GemmSpec, target: Target) -> list[Reason]:
    """Why `target` cannot run this kernel; empty when it can."""
    reasons = [
        *not_a_choice(
            spec, dtype=tuple(OUTPUTS), out=OUTPUTS.get(spec.dtype, (spec.out,)), layout=LAYOUTS, epilogue=EPILOGUES,
            schedule=tuple(SCHEDULES),
        ),
        *not_powers_of_two(spec, "block", "waves", "align"),
        *_pad_letters(spec),
    ]  # fmt: skip
    # Each group of checks relies on the ones before it.
    reasons = reasons or [*_matrix_instruction(spec, target), *_alignment(spec)]
    return reasons or excess(_resources(spec, target), target)


def _pad_letters(spec: GemmSpec) -> Iterator[Reason]:
    if spec.pad != "".join(letter for letter in "mnk" if letter in spec.pad):
        yield Reason("pad", spec.pad, "not some of m, n and k in this order", "expected e.g. mk, or nothing")


def _matrix_instruction(spec: GemmSpec, target: Target) -> Iterator[Reason]:
    try:
        target.find_mfma(by(spec.mfma), spec.dtype)
    except TargetError as error:
        no_dtype = not target.mfmas(spec.dtype)
        field, value = ("dtype", spec.dtype) if no_dtype else ("mfma", spec.mfma)
        message = str(error)
        why, _, right = message.partition("; ")
        yield Reason(field, value, why, right or "expected a dtype that the chip multiplies")
        return
    for axis, letter in enumerate("mn"):
        step = spec.waves[axis] * spec.mfma[axis]
        if spec.block[axis] % step:
            why = f"{spec.waves[axis]} waves of {spec.mfma[axis]} along {letter} do not divide {spec.block[axis]}"
            yield Reason("block", spec.block, why, f"expected a multiple of {step} along {letter}")
    if spec.block[2] % spec.mfma[2]:
        why = f"the matrix instruction takes {spec.mfma[2]} along k at a time"
        yield Reason("block", spec.block, why, f"expected a multiple of {spec.mfma[2]} along k")


def _alignment(spec: GemmSpec) -> Iterator[Reason]:
    for place, dtype in enumerate((spec.dtype, spec.dtype, spec.out)):
        widest = 16 // find_dtype(dtype).bytes
        if spec.align[place] > widest:
            why = f"a vector of {'ABC'[place]} is wider than 16 bytes"
            yield Reason("align", spec.align, why, f"expected at most {widest} elements there")


def _resources(spec: GemmSpec, target: Target) -> Resources:
    """What the block needs: rotating buffers of A and B in LDS, or C on its way out; accumulators, operands, loads."""
    m, n, k = spec.block
    size = find_dtype(spec.dtype).bytes
    threads = spec.wave_count * target.wave_size
    loop = lds_buffers(spec.schedule_text) * (m + n) * k * size
    shuffle = m * n * find_dtype(spec.out).bytes if spec.epilogue == "cshuffle" else 0
    accumulators = m * n // threads
    bytes_each = [rows * k * size // threads for rows in (m, n)]  # of A and B, on their way from global memory to LDS
    loads = sum(count // min(16, align * size) for count, align in zip(bytes_each, spec.align[:2], strict=True))
    # Two steps of operands when a schedule spreads the reads of LDS over the step, else those of the whole block.
    depth = min(k, 2 * spec.mfma[2]) if spec.schedule != "unpipelined" else k
    operands = (m // spec.waves[0] + n // spec.waves[1]) * depth * size // target.wave_size // 4
    registers = accumulators + sum(bytes_each) // 4 + REGISTERS_PER_LOAD * loads + operands
    return Resources("block", spec.block, threads, max(loop, shuffle), accumulators, registers)
