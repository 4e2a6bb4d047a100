"""Operands whose neighbouring blocks of K go to instructions that follow each other."""

import numpy as np
import pytest
from msgspec.structs import replace

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.mma_scales import scale_registers, scales_over
from ckmlir.dialect.packing import PACKED
from ckmlir.dialect.spreading import spread
from ckmlir.targets import get_target

GFX950 = get_target("gfx950")
NARROW = ("fp8", "bf8", "fp6", "bf6", "fp4")
WAVES = (2, 2)


@pytest.mark.parametrize("shape", ["16x16x128", "32x32x64"])
@pytest.mark.parametrize("times", [2, 4])
def test_operands_and_scales_fit(shape: str, times: int) -> None:
    """Every pair of formats, either way round; a lane holds scales of neighbouring blocks in neighbouring registers."""
    for a in NARROW:
        for b in NARROW:
            for transposed in (False, True):
                one = replace(Mma.select(GFX950, shape, a, b, transposed=transposed), spread=times)
                assert Mma.parse(str(one)) == one
                k = 2 * times * one.k
                rows, columns = one.a_over(WAVES, 128, k), one.b_over(WAVES, 128, k)
                assert one.check(rows, columns, one.c_over(WAVES, 128, 128)) == []
                for operand, of_b in ((rows, False), (columns, True)):
                    scales = scales_over(one, WAVES, 128, k, of_b=of_b)
                    assert not isinstance(scale_registers(one, operand, scales, of_b=of_b), str)
                    blocks = scales.coordinates()[1].reshape(-1, times)
                    assert (np.diff(blocks, axis=1) == 1).all()


def test_blocks_stay_whole() -> None:
    native = Distribution.parse("m: 16@lane.1, k: 2@y0 4@lane.0 16@y1")
    found = spread(native, 32, 4)
    places = found.coordinates()[1, 0].reshape(64, 4, 2, 16)  # lane, instruction, run, element
    blocks = places // 32
    assert (blocks == blocks[..., :1]).all() and (blocks[:, 1:] - blocks[:, :1] == [[[1]], [[2]], [[3]]]).all()
    with pytest.raises(ValueError, match="does not cut K into blocks of 24"):
        spread(native, 24, 2)
    with pytest.raises(ValueError, match="blocks are those that it scales; expected 1"):
        replace(Mma.select(GFX950, "32x32x16", "f16"), spread=2)
    assert PACKED["fp6"].size(32) == 24
