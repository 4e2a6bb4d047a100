"""Block scales of matrix instructions: how a tile of them lies, and which register holds those of an operand vector.

An instruction that can scale its operands multiplies every 32 elements of K of a row by a power of two of the row's
own. The scale of row i and of the block b of 32 comes from lane i + rows * b, whichever lanes hold the elements (CDNA4
ISA, "Matrix Arithmetic Instructions", V_MFMA_SCALE_*; Composable Kernel, blockwise_gemm_mx_pipeline_xdlops_base.hpp).
A lane hands over a register of four scales and says which one it means.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ckmlir.dialect.distribution import LANE, REGISTER, WAVE, Distribution, Factor
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.operand_vectors import of_elements, operand_vectors
from ckmlir.targets.cdna import WAVE_SIZE
from ckmlir.targets.mfma import SCALED_BLOCK

SCALES_OF_A_REGISTER = 4


def scales_over(mma: Mma, waves: tuple[int, int], rows: int, k: int, *, of_b: bool = False) -> Distribution:
    """The scales (m, k / 32) of a tile A (m, k) over `waves`, or those of B (n, k): of a lane, rows before K.

    Raises:
        ValueError: the instruction scales nothing, or the tile is not a multiple of what the waves take at once.
    """
    if not mma.instruction.scaled:
        raise ValueError(f"{mma.instruction.name} has no block scales")
    side, unit = (1, mma.n) if of_b else (0, mma.m)
    deep = mma.k * mma.spread
    if rows % (waves[side] * unit) or k % deep:
        raise ValueError(f"{rows} x {k} is not a multiple of {waves[side] * unit} x {deep}")
    own = (Factor(rows // (waves[side] * unit), REGISTER, 0), Factor(waves[side], WAVE, side))
    outer = Distribution((Factor(waves[1 - side], WAVE, 1 - side),), (own, (Factor(k // deep, REGISTER, 1),)))
    blocks = mma.instruction.k // SCALED_BLOCK
    held = (Factor(blocks, LANE, 0), Factor(mma.spread, REGISTER, 0))
    return outer.embed(Distribution((), ((Factor(unit, LANE, 1),), held)))


@lru_cache(maxsize=256)
def scale_registers(mma: Mma, operand: Distribution, scales: Distribution, *, of_b: bool) -> tuple[int, ...] | str:
    """For each operand vector of A (or B) the register of the scales' tile that holds its own; a sentence where a lane
    does not hold the scales that the instruction takes from it.
    """
    what = "B" if of_b else "A"
    if not mma.instruction.scaled:
        return f"{mma.instruction.name} has no block scales"
    operand = of_elements(operand, mma.b_dtype if of_b else mma.a_dtype)
    lengths = (operand.lengths[0], operand.lengths[1] // SCALED_BLOCK)
    if scales.lengths != lengths:
        return f"the scales of {what} {list(operand.lengths)} are {list(lengths)}, not {list(scales.lengths)}"
    if (scales.waves, scales.lanes) != (operand.waves, operand.lanes):
        return f"{what} and its scales lie over different waves and lanes"
    native = mma.instruction.b_layout if mma.transposed != of_b else mma.instruction.a_layout
    vectors = operand_vectors(what, operand, Distribution.parse(native), mma.instruction.k_per_lane)
    if isinstance(vectors, str):
        return vectors
    lane_rows, lane_blocks = np.arange(WAVE_SIZE) % mma.instruction.m, np.arange(WAVE_SIZE) // mma.instruction.m
    # Within a block any order is right, as long as A and B have the same one.
    blocks = np.sort(vectors.ks.reshape(*vectors.ks.shape[:2], -1, SCALED_BLOCK))
    if (blocks != blocks[..., :1] + np.arange(SCALED_BLOCK)).any() or (blocks[..., 0] % SCALED_BLOCK).any():
        return f"{what} ({operand}) numbers K otherwise than its instruction, whose scales are of 32 neighbours each"
    held = scales.coordinates()
    registers = {held[..., register].tobytes(): register for register in range(scales.registers)}
    found = []
    for vector in range(len(vectors.rows)):
        rows = vectors.rows[vector][:, None] + lane_rows
        wanted = np.stack([rows, blocks[vector][:, lane_blocks, 0] // SCALED_BLOCK]).astype(held.dtype)
        register = registers.get(wanted.tobytes())
        if register is None:
            return f"lanes do not hold the scales of {what} ({operand}) that the instruction takes from them ({scales})"
        found.append(register)
    return tuple(found)
