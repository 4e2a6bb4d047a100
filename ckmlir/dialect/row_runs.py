"""Rows of a matrix instruction, numbered so that those of a lane's accumulators are neighbours in longer runs.

An instruction gives a lane four neighbouring rows of C, then four of its next lanes', and so on. Which of them is which
row of the tile is free, as long as the operand that the rows come from has the same order. With runs of 16, two
lanes have 16 rows of a 32x32 product each, in order: a vector of the next product's operand.
"""

from __future__ import annotations

from msgspec import Struct

from ckmlir.dialect.distribution import LANE, REGISTER, Distribution, Factor
from ckmlir.dialect.distribution_factors import Row
from ckmlir.targets import MfmaInstruction
from ckmlir.targets.cdna import WAVE_SIZE


class RowRuns(Struct, frozen=True):
    """The digits of a row's number in an instruction of a single block: `joined` and `lanes` change places in a tile.

    Attributes:
        outer, joined: of the groups of rows that a lane has; a run consists of `joined` of them.
        lanes: that have rows of the same columns.
        group: neighbouring rows that the instruction gives a lane.
    """

    outer: int
    joined: int
    lanes: int
    group: int
    columns: int

    @staticmethod
    def of(instruction: MfmaInstruction, run: int) -> RowRuns:
        """Runs of so many rows.

        Raises:
            ValueError: no whole runs of what a lane has, or less than what the instruction joins anyhow.
        """
        group = instruction.acc_group
        held = instruction.acc_per_lane
        if run < group or run % group or held % run:
            raise ValueError(f"run {run} of {instruction.name}: a lane has {held} rows of C, by {group}")
        lanes = WAVE_SIZE // instruction.n
        return RowRuns(held // run, run // group, lanes, group, instruction.n)

    def operand(self, rank: int) -> Row:
        """The rows of the operand, over lanes from a rank on."""
        outer, joined, lanes, group = (
            Factor(length, LANE, rank + place)
            for place, length in enumerate((self.outer, self.joined, self.lanes, self.group))
        )
        return outer, lanes, joined, group

    @property
    def accumulators(self) -> Distribution:
        """C (rows, columns) of one wave."""
        outer, joined, group = (
            Factor(length, REGISTER, place) for place, length in enumerate((self.outer, self.joined, self.group))
        )
        return Distribution((), ((outer, Factor(self.lanes, LANE, 0), joined, group), (Factor(self.columns, LANE, 1),)))
