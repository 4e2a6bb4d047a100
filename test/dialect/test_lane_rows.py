"""Tiles dealt out to the lanes of a row, and the lanes that hand on what others want."""

import numpy as np
import pytest

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.lane_rows import ROW, dealt_out, row_map
from ckmlir.dialect.mma import Mma
from ckmlir.targets import TARGETS, get_target


@pytest.mark.parametrize(("text", "registers"), [
    ("r: 16@lane.1, d0: 4@y0 4@lane.0 4@y1", 1),
    ("r: 32@lane.1, d0: 8@y0 2@lane.0 4@y1", 2),
    ("r: 2@wave 16@lane.1, d0: 4@y0 2@wave 4@lane.0 4@y1", 1),
    ("r: 16@lane.1, d0: 12@y0 4@lane.0", 3),
    ("r: 16@lane.1, d0: 2@y0 4@lane.0, d1: 4@y1", 1),
    ("r: 64@lane, d0: 32@y0", 2),
    ("d0: 16@lane 4@y0 4@lane", 4),  # no copies
    ("r: 4@lane, d0: 16@lane 4@y0", 4),  # copies in other rows
])  # fmt: skip
def test_lanes_of_a_row_have_shares(text: str, registers: int) -> None:
    whole = Distribution.parse(text)
    shares = dealt_out(whole)
    assert shares.lengths == whole.lengths and shares.registers == registers and shares.is_bijective()
    if shares == whole:
        return
    found = row_map(shares, whole)
    assert found is not None
    for register, (lane, home) in enumerate(found):
        handed_on = shares.elements()[:, np.arange(whole.lanes) // ROW * ROW + lane, home]
        assert (handed_on == whole.elements()[:, :, register]).all(), (register, lane, home)


@pytest.mark.parametrize("arch", TARGETS)
def test_columns_of_every_instruction(arch: str) -> None:
    """Of a lane's columns of C it loads a sixteenth, or one, and has all within its row."""
    target = get_target(arch)
    for shape in {f"{one.m}x{one.n}x{one.k}" for one in target.mfmas("f16", "f16") if one.blocks == 1}:
        columns = Mma.select(target, shape, "f16", "f16", transposed=True).c_over((2, 2), 128, 128).reduce(0)
        shares = dealt_out(columns)
        assert shares.registers == max(columns.registers // ROW, 1) and row_map(shares, columns) is not None


@pytest.mark.parametrize(("source", "target"), [
    ("r: 2@lane.1, d0: 2@lane.0 16@lane.2", "r: 16@lane.1, d0: 4@lane.0 8@y0"),  # in another row
    ("d0: 64@lane", "d0: 4@lane.1 16@lane.0"),  # each lane wants another
    ("d0: 2@wave 64@lane", "r: 2@wave 64@lane, d0: 128@y0"),  # in another wave
])  # fmt: skip
def test_what_no_lane_of_the_row_has(source: str, target: str) -> None:
    assert row_map(Distribution.parse(source), Distribution.parse(target)) is None


def test_other_threads_are_refused() -> None:
    with pytest.raises(ValueError, match="not one tile over the same threads"):
        row_map(Distribution.parse("d0: 64@lane"), Distribution.parse("d0: 2@wave 32@lane"))
