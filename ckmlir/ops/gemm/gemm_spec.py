"""Which GEMM kernels there are: the specification, and what a chip can run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.gemm.shuffle import COLUMNS, tile_depth
from ckmlir.ops.resources import Resources, excess
from ckmlir.ops.schedules import GEMM as SCHEDULES
from ckmlir.ops.schedules import parse as parse_schedule
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
NARROWEST_COPY = 4
"""Bytes that a lane copies straight to LDS at least."""
REGISTERS_PER_LOAD = 2
"""Beside its data, a global load takes an offset and, if narrow, a register for what is not packed yet."""
PRESHUFFLE = "preshuffle"
"""The schedule for B in fragment order."""


@dataclass(frozen=True)
class GemmSpec(Spec):
    """What a GEMM kernel's code depends on.

    Attributes:
        block: tile (m, n, k) of a workgroup in one step of the K loop.
        waves: waves of a workgroup along (m, n).
        mfma: shape (m, n, k) of the matrix instruction.
        shuffled: columns of a tile of B in fragment order (`ckmlir.ops.gemm.shuffle`), 0 for a plain matrix.
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
    shuffled: int
    pad: str
    align: tuple[int, int, int]

    @property
    def name(self) -> str:
        parts = [
            "gemm", self.dtype, self.out, self.layout.lower(), by(self.block), f"waves{by(self.waves)}",
            f"mfma{by(self.mfma)}", self.epilogue, self.schedule, f"align{by(self.align)}",
        ]  # fmt: skip
        shuffled = [f"shuffled{self.shuffled}"] if self.shuffled else []
        return "_".join(parts + shuffled + ([f"pad_{self.pad}"] if self.pad else []))

    @property
    def wave_count(self) -> int:
        return math.prod(self.waves)

    @property
    def schedule_text(self) -> str:
        """The K loop's schedule in the language of `ckmlir.dialect.schedule`."""
        return SCHEDULES[self.schedule]


def invalid_fields(spec: GemmSpec, target: Target) -> list[Reason]:
    """Why `target` cannot run this kernel; empty when it can."""
    reasons = [
        *not_a_choice(
            spec, dtype=tuple(OUTPUTS), out=OUTPUTS.get(spec.dtype, (spec.out,)), layout=LAYOUTS, epilogue=EPILOGUES,
            schedule=tuple(SCHEDULES), shuffled=(0, *COLUMNS),
        ),
        *not_powers_of_two(spec, "block", "waves", "align"),
        *_pad_letters(spec),
    ]  # fmt: skip
    # Each group of checks relies on the ones before it.
    reasons = reasons or [*_matrix_instruction(spec, target), *_alignment(spec), *_fragment_order(spec)]
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
    schedule, size = parse_schedule(spec.schedule_text), find_dtype(spec.dtype).bytes
    for place, tensor in enumerate("ab"):
        if schedule.path_of(tensor) == "direct" and spec.align[place] * size < NARROWEST_COPY:
            why = (
                f"rows of {'AB'[place]} are aligned to {spec.align[place] * size} bytes, copies to LDS take 4 at least"
            )
            yield Reason("schedule", spec.schedule, why, "expected rows of a multiple of 4 bytes, or another schedule")


def _fragment_order(spec: GemmSpec) -> Iterator[Reason]:
    """Whether B in memory, the matrix instruction and the schedule agree about the order of fragments."""
    if not spec.shuffled:
        if spec.schedule == PRESHUFFLE:
            right = f"expected {spec.mfma[1]}, or schedule=straight"
            yield Reason("shuffled", 0, f"schedule={PRESHUFFLE} takes B in fragment order", right)
        return
    if spec.layout[1] != "C":
        yield Reason("layout", spec.layout, "shuffled B is made of rows along k", "expected RCR or CCR")
    if parse_schedule(spec.schedule_text).path_of("b") != "straight":
        why = "fragments of B go straight to registers, and this schedule takes B through LDS"
        yield Reason("schedule", spec.schedule, why, f"expected {PRESHUFFLE} or straight")
    if spec.shuffled != spec.mfma[1]:
        why = f"tiles of B have {spec.shuffled} columns and the matrix instruction {spec.mfma[1]}"
        yield Reason("shuffled", spec.shuffled, why, f"expected {spec.mfma[1]}")
    depth = tile_depth(spec.shuffled, find_dtype(spec.dtype).bytes)
    if spec.block[2] % depth:
        why = f"tiles of B are {depth} elements deep along k"
        yield Reason("block", spec.block, why, f"expected a multiple of {depth} along k")


def _resources(spec: GemmSpec, target: Target) -> Resources:
    """What the block needs: rotating buffers of A and B in LDS, or C on its way out; accumulators, operands, loads."""
    m, n, k = spec.block
    size = find_dtype(spec.dtype).bytes
    threads = spec.wave_count * target.wave_size
    schedule = parse_schedule(spec.schedule_text)
    # Two steps of operands when a schedule spreads the reads of LDS over the step, else those of the whole block.
    vector = max(spec.mfma[2], tile_depth(spec.mfma[1], size))  # a lane reads 16 bytes
    depth = min(k, 2 * vector) if schedule.order != "source" else k
    loop = loads = 0
    moving = operands = 0.0
    for place, (tensor, rows) in enumerate((("a", m), ("b", n))):
        path = schedule.path_of(tensor)
        own = rows // spec.waves[place] * size / target.wave_size / 4  # registers of a wave's part, one deep along k
        share = rows * k * size // threads  # bytes of a work-item on the way to LDS
        if path != "straight":
            loop += schedule.buffers_of(tensor) * rows * k * size
            operands += own * depth * (1 + schedule.ahead_of("from_lds"))
        sets = max(1, schedule.ahead_of("load") - schedule.ahead_of("to_lds"))
        if path == "through":
            moving += sets * share // 4
            loads += share // min(16, spec.align[place] * size)
        elif path == "straight":
            moving += schedule.ahead_of("load") * own * k
    shuffle = m * n * find_dtype(spec.out).bytes if spec.epilogue == "cshuffle" else 0
    accumulators = m * n // threads
    registers = accumulators + int(moving + operands) + REGISTERS_PER_LOAD * loads
    pinned = schedule.fences == "memory"
    return Resources("block", spec.block, threads, max(loop, shuffle), accumulators, registers, pinned)
