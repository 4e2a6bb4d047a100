"""Parts of traces: the waves asked for, with their own accesses and nothing else's."""

from __future__ import annotations

import numpy as np
import pytest
from made_timelines import LOAD, PRODUCT, READ, START, made_trace

from ckmlir.errors import CkmlirError
from ckmlir.sim.timing.trace_parts import part_of


def rows(*starts: int) -> list[np.ndarray]:
    return [(start + 16 * np.arange(64)).astype(np.uint64) for start in starts]


TRACE = made_trace(
    [[START, LOAD, LOAD], [LOAD, READ], [PRODUCT], [LOAD, START, LOAD]],
    groups=[0, 0, 7, 9],
    grid=(10, 1, 1),
    loads=[rows(100, 200), rows(300), [], rows(400, 500)],
)


@pytest.mark.parametrize("chosen", [(0,), (9,), (9, 0), (7,), (0, 7, 9), (9, 9)])
def test_waves_keep_their_steps_and_addresses(chosen: tuple[int, ...]) -> None:
    part = part_of(TRACE, chosen)
    chosen = tuple(dict.fromkeys(chosen))
    assert part.workgroups == chosen
    waves = [wave for number in chosen for wave in range(TRACE.waves) if TRACE.groups[wave] == number]
    assert part.waves == len(waves)
    for wave, old in enumerate(waves):
        mine, theirs = part.steps_of(wave), TRACE.steps_of(old)
        assert (mine["wave"] == wave).all()
        assert mine["instruction"].tolist() == theirs["instruction"].tolist()
        for one, other in zip(mine, theirs):
            assert one["accesses"] == other["accesses"]
            assert (one["access"] < 0) == (other["access"] < 0)
            if one["accesses"]:
                assert (part.addresses[one["access"]] == TRACE.addresses[other["access"]]).all()
                assert part.accesses[one["access"]] == TRACE.accesses[other["access"]]
    assert len(part.addresses) == part.steps["accesses"].sum() == len(part.accesses)


def test_the_whole_is_a_part() -> None:
    part = part_of(TRACE, TRACE.workgroups)
    assert (part.steps == TRACE.steps).all()
    assert (part.addresses == TRACE.addresses).all()


def test_what_was_not_recorded_is_refused() -> None:
    with pytest.raises(CkmlirError, match="workgroup 3 was not recorded; recorded are 0, 7, 9"):
        part_of(TRACE, [0, 3])
    with pytest.raises(CkmlirError, match="no workgroup was chosen"):
        part_of(TRACE, [])
