"""The instructions that multiply tiles as they lie: accumulators are matched with the operand vectors of their rows and
columns, K by K.

Distributions are evaluated, so that whatever numbering of rows and K they have in common is right.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from ckmlir.dialect.distribution import Coordinates, Distribution
from ckmlir.dialect.operand_vectors import OperandVectors, accumulator_bases, of_all_four, of_elements, operand_vectors
from ckmlir.dialect.row_runs import RowRuns
from ckmlir.targets import MfmaInstruction
from ckmlir.targets.cdna import WAVE_SIZE


class Numbered(Protocol):
    """What is asked of an `ckmlir.dialect.mma.Mma`: an instruction, and how the tile numbers its rows."""

    @property
    def instruction(self) -> MfmaInstruction:
        """The instruction."""

    @property
    def transposed(self) -> bool:
        """Whether operands are swapped."""

    @property
    def run(self) -> int:
        """Neighbouring rows of C in a lane; 0: the instruction's own."""

    @property
    def parts(self) -> int:
        """Parts of K, each of which has rows of C of its own."""

    @property
    def a_dtype(self) -> str:
        """Element type of A."""

    @property
    def b_dtype(self) -> str:
        """Element type of B."""

    @property
    def c(self) -> Distribution:
        """C of one wave and one instruction."""


class Fragment(NamedTuple):
    """One instruction of every wave: iteration (m, n, k) and the registers of A, B and C that it takes, in order."""

    m: int
    n: int
    k: int
    a: tuple[int, ...]
    b: tuple[int, ...]
    c: tuple[int, ...]


@lru_cache(maxsize=1024)
def match(
    mma: Numbered, a: Distribution, b: Distribution, c: Distribution
) -> tuple[tuple[str, ...], tuple[Fragment, ...]]:
    """Why the tiles cannot be multiplied as they lie, in words, or else the instructions that do, by m, n and k."""
    try:
        a, b = (of_elements(tile, dtype) for tile, dtype in ((a, mma.a_dtype), (b, mma.b_dtype)))
    except ValueError as problem:
        return (str(problem),), ()
    problems = _shape_problems(a, b, c, 2 if mma.instruction.sparse else 1, mma.parts)
    if problems:
        return tuple(problems), ()
    rows, columns = a.lengths[0], b.lengths[0]
    a, b = (_by_parts(tile, mma.parts) for tile in (a, b))
    size = mma.instruction.k_per_lane
    of_a = mma.instruction.a_per_lane
    first = operand_vectors("A", a, _native_operand(mma, transposed=False), of_a)
    if mma.instruction.sparse and not isinstance(first, str):
        first = of_all_four(first, str(a))
    second = operand_vectors("B", b, _native_operand(mma, transposed=True), size)
    accumulators = accumulator_bases(c, mma.c)
    found = [result for result in (first, second, accumulators) if isinstance(result, str)]
    if isinstance(first, str) or isinstance(second, str) or isinstance(accumulators, str):
        return tuple(found), ()
    accumulators = accumulators.copy()  # columns of B are those of the part that a row of C belongs to
    accumulators[1] += accumulators[0] // rows * columns
    return _pair(mma, first, second, accumulators, b.lengths[1])


def _by_parts(tile: Distribution, parts: int) -> Distribution:
    """A (rows, k) as (parts rows, k / parts): parts of K one below the other."""
    return tile if parts == 1 else tile.split(1, tile.lengths[1] // parts).permute((1, 0, 2)).join(0)


def _native_operand(mma: Numbered, *, transposed: bool) -> Distribution:
    """How the instruction takes the tile's A (or B), with the rows of its first operand in the order of the tile."""
    if mma.transposed != transposed:
        return Distribution.parse(mma.instruction.b_layout)
    layout = Distribution.parse(mma.instruction.a_layout)
    if not mma.run:
        return layout
    return replace(layout, dims=(RowRuns.of(mma.instruction, mma.run).operand(1), layout.dims[1]))


def _shape_problems(a: Distribution, b: Distribution, c: Distribution, kept: int, parts: int) -> list[str]:
    """`kept`: every how many elements along K has A one; C has the rows of so many parts of K."""
    if not a.rank == b.rank == c.rank == 2:
        return [f"A, B and C have two dimensions each, not {a.rank}, {b.rank} and {c.rank}"]
    problems = []
    if a.lengths[1] * kept != b.lengths[1]:
        problems.append(f"A (m, k) is {list(a.lengths)}, B (n, k) is {list(b.lengths)}: they differ in k")
    if c.lengths != (parts * a.lengths[0], b.lengths[0]):
        problems.append(f"C (m, n) is {list(c.lengths)}, A and B make {[parts * a.lengths[0], b.lengths[0]]}")
    if b.lengths[1] % parts:
        problems.append(f"K is {b.lengths[1]}, no multiple of {parts} parts")
    if len({(d.waves, d.lanes) for d in (a, b, c)}) != 1 or a.lanes != WAVE_SIZE:
        problems.append(f"A, B, C lie over {a.waves}x{a.lanes}, {b.waves}x{b.lanes}, {c.waves}x{c.lanes} waves x lanes")
    return problems


def _pair(
    mma: Numbered, first: OperandVectors, second: OperandVectors, accumulators: Coordinates, depth: int
) -> tuple[tuple[str, ...], tuple[Fragment, ...]]:
    """Match accumulator blocks with the vectors of A in their rows and those of B in their columns, K by K."""
    a_by_row, b_by_row = first.by_row(), second.by_row()
    per_block = mma.c.registers
    order = {key: index for index, key in enumerate(a_by_row)}, {key: index for index, key in enumerate(b_by_row)}
    fragments: list[Fragment] = []
    for block in range(accumulators.shape[1]):
        row, column = accumulators[0, block].tobytes(), accumulators[1, block].tobytes()
        if row not in a_by_row or column not in b_by_row:
            which = "A has no rows" if row not in a_by_row else "B has no columns"
            return (
                f"{which} for the accumulators {block * per_block} to {(block + 1) * per_block - 1} in every wave",
            ), ()
        partners = {second.ks[vector].tobytes(): vector for vector in b_by_row[column]}
        registers = tuple(range(block * per_block, (block + 1) * per_block))
        covered: list[npt.NDArray[np.int64]] = []
        for index, vector in enumerate(a_by_row[row]):
            partner = partners.get(first.ks[vector].tobytes())
            if partner is None:
                return (
                    f"A and B number K differently: A has k = {_shorten(first.ks[vector, 0])} in one vector, B in none",
                ), ()
            covered.append(first.ks[vector])
            place = order[0][row], order[1][column], index
            operands = first.registers(vector, mma.a_dtype), second.registers(partner, mma.b_dtype)
            fragments.append(Fragment(*place, *operands, registers))
        summed = np.sort(np.concatenate(covered, axis=1), axis=1)
        if summed.shape[1] != depth or (summed != np.arange(depth)).any():
            return (f"the {depth} values of K are not summed exactly once",), ()
    return (), tuple(sorted(fragments))


def _shorten(ks: npt.NDArray[np.int64]) -> str:
    shown = ", ".join(str(int(k)) for k in ks[:8])
    return f"{shown}, …" if len(ks) > 8 else shown
