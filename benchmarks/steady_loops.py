"""What the steady loops of GEMM consist of, for one step along K: the table of results/steady_loops.md.

    python benchmarks/steady_loops.py

GEMM f16 of 1024 x 1024 rows and columns, RCR, straight from the accumulators to memory (epilogue `direct`). A loop of
several steps is counted as a whole and divided. Everything is read from the machine code. Prints a table and one JSON
line.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.targets import get_target

COLUMNS = ("mfma", "valu", "moves", "salu", "lds", "vmem", "spilled", "wait", "drains", "nop", "barrier", "registers")


class Loop(NamedTuple):
    """A kernel whose loop is counted: matrix instructions of a step follow from block, waves and their size."""

    chips: tuple[str, ...]
    schedule: str
    size: int
    waves: tuple[int, int]
    mfma: tuple[int, int, int]

    def __str__(self) -> str:
        instruction = "x".join(map(str, self.mfma))
        waves = self.waves[0] * self.waves[1]
        return f"{self.size}x{self.size}, {waves} waves, {instruction}, `{self.schedule}`, {' and '.join(self.chips)}"

    @property
    def matrix_instructions(self) -> int:
        """Those of a wave and a step of 64."""
        rows, columns, depth = self.mfma
        return self.size * self.size * 64 // (rows * columns * depth * self.waves[0] * self.waves[1])


OLDER = ("gfx942", "gfx90a")
EIGHT, FOUR = (2, 4), (2, 2)
NARROW, SMALL, WIDE, LONG = (32, 32, 8), (16, 16, 16), (32, 32, 16), (16, 16, 32)
LOOPS = (
    Loop(OLDER, "compv3", 256, EIGHT, NARROW),
    Loop(("gfx950",), "compv3", 256, EIGHT, WIDE),
    Loop(("gfx950",), "async_wide", 256, EIGHT, WIDE),
    Loop(("gfx950",), "async_wide", 256, EIGHT, LONG),
    Loop(("gfx950",), "async_double", 256, EIGHT, WIDE),
    Loop(OLDER, "compv3", 256, FOUR, NARROW),
    Loop(("gfx942",), "compv3", 256, FOUR, SMALL),
    Loop(("gfx942",), "preshuffle", 256, FOUR, NARROW),
    Loop(("gfx950",), "compv3", 256, FOUR, WIDE),
    Loop(("gfx950",), "preshuffle", 256, FOUR, WIDE),
    Loop(("gfx950",), "async_wide", 256, FOUR, WIDE),
    Loop(("gfx950",), "async_wide", 256, FOUR, LONG),
    Loop(("gfx950",), "async_wide_carried", 256, FOUR, WIDE),
    Loop(("gfx950",), "async_late", 256, FOUR, WIDE),
    Loop(("gfx950",), "async_double", 256, FOUR, WIDE),
    Loop(OLDER, "compv3", 128, FOUR, NARROW),
    Loop(("gfx942",), "compv4", 128, FOUR, NARROW),
    Loop(("gfx942",), "preshuffle", 128, FOUR, NARROW),
    Loop(OLDER, "ping_pong", 256, EIGHT, NARROW),
    Loop(("gfx950",), "ping_pong_async", 256, EIGHT, WIDE),
    Loop(("gfx942",), "compv5", 128, FOUR, NARROW),
    Loop(("gfx950",), "async", 128, FOUR, WIDE),
)


def main() -> None:
    """Count and print."""
    print(f"| loop | {' | '.join(COLUMNS)} |\n|{'---|' * (1 + len(COLUMNS))}")
    counted = {}
    for loop in LOOPS:
        counts = [dict(zip(COLUMNS, counts_of(loop, chip), strict=True)) for chip in loop.chips]
        for chip, other in zip(loop.chips, counts, strict=True):
            if other != counts[0]:
                raise ValueError(f"{loop}: {chip} has {other}, {loop.chips[0]} {counts[0]}")
        print(f"| {loop} | {' | '.join(f'{counts[0][column]:g}' for column in COLUMNS)} |", flush=True)
        counted[str(loop)] = counts[0]
    print(json.dumps(counted))


def counts_of(loop: Loop, chip: str) -> Iterator[float]:
    """What stands in `COLUMNS`: for one step, but registers and spills of the kernel."""
    gemm, target = find_operator("gemm"), get_target(chip)
    block = (loop.size, loop.size, 64)
    sizes = {"m": 1024, "n": 1024, "k": 1024, "block": block, "wave": loop.waves, "mfma": loop.mfma}
    spec = gemm.spec(gemm.problem(**sizes, schedule=loop.schedule, epilogue="direct"), target)
    kernel = compile_kernel(gemm, spec, target)
    machine = steady_loop(kernel.code_object, kernel.kernel_name)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    steps = machine.mix["mfma"] / loop.matrix_instructions
    moves = machine.mix["vmov"] + machine.mix["accvgpr_move"]
    counts = {**machine.mix, "moves": moves, "drains": machine.drains}
    for column in COLUMNS:
        if column == "registers":
            yield metadata.vgpr_count
        elif column == "spilled":
            yield metadata.vgpr_spill_count + metadata.sgpr_spill_count
        else:
            yield round(counts[column] / steps, 1)


if __name__ == "__main__":
    main()
