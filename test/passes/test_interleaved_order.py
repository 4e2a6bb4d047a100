"""Interleaved steps whose copies take the buffer that the step has read: reads, barrier, copies, in that order."""

from __future__ import annotations

import pytest

from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import Barrier, Fragments
from ckmlir.ops import find_operator
from ckmlir.ops.schedules import GEMM
from ckmlir.passes.walk import functions
from ckmlir.scheduling import Workbench
from ckmlir.targets import get_target

BARRIER = ("barrier", 0)


def listed(text: str) -> list[tuple[str, int]]:
    """The stages of the steady step's fragments in order, each with how far ahead it runs, and its barriers."""
    operator, target = find_operator("gemm"), get_target("gfx950")
    problem = operator.problem(m=256, n=256, k=640, schedule="async_late", block=(256, 256, 64), wave=(2, 2))
    bench = Workbench.of(operator, operator.spec(problem, target), target)
    found: list[tuple[str, int]] = []
    for one in bench.listed(Schedule.parse(text)).step:
        if isinstance(one, Fragments):
            found += [(one.stage, one.ahead or 0)] * (1 + (one.last or 0) - (one.first or 0))
        elif isinstance(one, Barrier):
            found.append(BARRIER)
    return found


@pytest.mark.parametrize(("name", "barriers"), [("async_late", 2), ("async_wide", 1)])
def test_copies_stand_behind_the_reads_whose_buffer_they_take(name: str, barriers: int) -> None:
    """Of async_wide those of B, which has two buffers; those of A, which has three, stand before them."""
    step = listed(GEMM[name])
    first = step.index(BARRIER)
    copies = [number for number, one in enumerate(step) if one == ("load", 2)]
    late = [number for number in copies if number > first]
    assert step.count(BARRIER) == barriers and step.count(("from_lds", 0)) == 24
    assert ("from_lds", 0) not in step[first:]
    assert len(copies) == 16 and len(late) == (16 if name == "async_late" else 8)


def test_reads_end_before_the_barrier_by_the_lead() -> None:
    """Between the last read of the step and its barrier stand as many matrix instructions or one more, six at most:
    an eighth of those before the last phase."""
    for lead, least in ((1, 1), (4, 4), (16, 6)):
        step = listed(GEMM["async_wide"] + f"; lead {lead}")
        until = step.index(BARRIER)
        behind = step[max(number for number in range(until) if step[number] == ("from_lds", 0)) : until]
        assert least <= behind.count(("math", 0)) <= least + 1


def test_what_takes_sums_is_read_before_the_first_product() -> None:
    """Scales of A's rows, which LDS keeps for many steps: what is read for the next step waits behind."""
    operator, target = find_operator("gemm_quant"), get_target("gfx950")
    problem = operator.problem(
        m=4096, n=4096, k=4096, a_scale="1x128", b_scale="1x128", schedule="compv3", mfma=(16, 16, 128)
    )
    bench = Workbench.of(operator, operator.spec(problem, target), target)
    with bench.scheduled(bench.schedule) as module:
        blocks = [[op.operation.name for op in block] for block in next(functions(module)).regions[0]]
    scales, product = "ck.lds_gather_fragment", "ck.mfma"
    steps = [name for name in max(blocks, key=lambda names: names.count(product)) if name in (scales, product)]
    assert steps == ([scales] * 4 + [product] * 16) * 6


def test_copies_come_before_loads() -> None:
    """Copies that no read has to make room for: in front of a loop they take longer than scales do."""
    operator, target = find_operator("mx_gemm"), get_target("gfx950")
    problem = operator.problem(m=256, n=256, k=1024, dtype="fp4", schedule="async", a_major="tiles")
    bench = Workbench.of(operator, operator.spec(problem, target), target)
    with bench.scheduled(bench.schedule) as module:
        blocks = [[op.operation.name for op in block] for block in next(functions(module)).regions[0]]
    copy, load = "ck.copy_fragment", "ck.load_fragment"
    before = next(names for names in blocks if copy in names and "ck.mfma" not in names)
    steps = [name for name in before if name in (copy, load)]
    copies, loads = steps.count(copy) // 2, steps.count(load) // 2
    assert copies and loads and steps == ([copy] * copies + [load] * loads) * 2


def test_the_first_step_copies_before_it_loads() -> None:
    """Where copies make room for reads loads stand in front of them in a step, but of the first step behind them and a
    fence: what loads wait for before the loop, the last arguments, copies do not."""
    operator, target = find_operator("mx_gemm"), get_target("gfx950")
    tiles = {"a_major": "tiles", "b_major": "tiles"}
    spec = operator.spec(operator.problem(m=4096, n=4096, k=4096, dtype="fp4", **tiles), target)
    bench = Workbench.of(operator, spec, target)
    with bench.scheduled(bench.schedule) as module:
        blocks = [[op.operation.name for op in block] for block in next(functions(module)).regions[0]]
    copy, load, fence = "ck.copy_fragment", "ck.load_fragment", "ck.sched_barrier"
    before = next(names for names in blocks if copy in names and "ck.mfma" not in names)
    steps = [name for name in before if name in (copy, load, fence)]
    assert steps == [copy] * 16 + [fence] + [load] * 8 + [copy] * 8 + [load] * 8 + [copy] * 8
