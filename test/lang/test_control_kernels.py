"""Branches, loops with a condition and early exits in kernels, against NumPy, under all checkers."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from kernel_runner import CHIPS, Compiled, compile_traced

from ckmlir.codeobject import CodeObject
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Kernel,
    Tile,
    Window,
    exit_unless,
    f32,
    i32,
    kernel,
    load,
    loop,
    ptr,
    reduce_max,
    stage,
    store,
    to_lds,
    uniform,
    view,
    when,
    while_loop,
    workgroup_id,
    zeros,
)
from ckmlir.sim.checks import parse_checks
from ckmlir.sim.simulator import Simulator
from ckmlir.targets import get_target

SIZE = 256
LIES = coalesced((SIZE,), 2, 0, 2)
MASKED = re.compile(r"saveexec|s_\w+ exec,")
"""Instructions that turn lanes off. (`s_cbranch_execnz` alone is what LLVM makes of a branch that is always taken.)"""


def rows(pointer: Any, count: Any, row: Any) -> Window:
    """A row of SIZE elements of a matrix."""
    return view(pointer, (count, SIZE), (SIZE, 1)).freeze(0, row).window((SIZE,), (0,))


def check_scalar_branches(compiled: Compiled) -> None:
    """No lane is masked for a branch, and nothing is spilled."""
    assert not MASKED.search(compiled.assembly)
    assert compiled.spills == 0


def search_kernel(chip: str) -> Kernel:
    """y[t] = x[t] * group, or x[t] + 100.5 in the first group and from tile 5 on; the group is searched for."""
    arguments = {"x": ptr("f32"), "ends": ptr("i32"), "y": ptr("f32"), "n": i32}

    @kernel("search", target=get_target(chip), waves=2, arguments=arguments)
    def search(given: Any) -> None:
        tile = workgroup_id(0)
        exit_unless(tile < given.n)
        with while_loop(lambda group: tile >= given.ends.scalar(group), carry=[0]) as step:
            (group,) = step.carried
            step.carry(group + 1)
        (group,) = step.results
        x = load(rows(given.x, given.n, tile), LIES)
        with when((group > 0) & (tile < 5)) as later:
            later.give(x * group.to("f32"), group + 1)
        with later.otherwise():
            later.give(x + 100.0, 0)
        x, number = later.results
        with when(number.equals(0), otherwise=[x]) as first:
            first.give(x + 0.5)
        store(first.results[0], rows(given.y, given.n, tile))

    return search


@pytest.mark.parametrize("chip", CHIPS)
def test_search_branches_and_exit(chip: str) -> None:
    compiled = compile_traced(search_kernel(chip))
    check_scalar_branches(compiled)
    assert "readfirstlane" not in compiled.assembly.partition("s_cbranch")[2]
    x = np.random.default_rng(1).integers(-9, 9, (7, SIZE)).astype(np.float32)
    ends = np.array([2, 3, 6, 9], np.int32)
    *_, y = compiled.run(x, ends, np.zeros_like(x), 7, grid=(9, 1, 1), checks="all")
    tiles = np.arange(7)
    group = np.searchsorted(ends, tiles, side="right")
    later = ((group > 0) & (tiles < 5))[:, None]
    np.testing.assert_array_equal(y, np.where(later, x * group[:, None], x + 100.5))


def halving_kernel(chip: str) -> Kernel:
    """Each row halved until none of its elements exceeds a limit, and how often that took."""
    arguments = {"x": ptr("f32"), "y": ptr("f32"), "turns": ptr("i32"), "n": i32, "limit": f32}

    @kernel("halving", target=get_target(chip), waves=2, arguments=arguments)
    def halving(given: Any) -> None:
        row = workgroup_id(0)
        lies = Distribution.parse("d0: 1, d1: 2@wave 64@lane 2@y0")

        def window(pointer: Any) -> Window:
            return view(pointer, (given.n, SIZE), (SIZE, 1)).window((1, SIZE), (row, 0))

        def exceeds(tile: Tile, turns: Any) -> Any:
            return uniform(reduce_max(tile, 1)) > given.limit

        with while_loop(exceeds, carry=[load(window(given.x), lies), 0]) as step:
            tile, turns = step.carried
            step.carry(tile * 0.5, turns + 1)
        tile, turns = step.results
        store(tile, window(given.y))
        one = Distribution.parse("r: 64@lane 2@wave, d0: 1")
        store(zeros((1,), "i32", one) + turns, view(given.turns, (given.n,), (1,)).window((1,), (row,)))

    return halving


@pytest.mark.parametrize("chip", CHIPS)
def test_a_loop_that_asks_a_tile(chip: str) -> None:
    """The condition is a maximum over both waves, so LDS and barriers stand in the part that decides."""
    compiled = compile_traced(halving_kernel(chip))
    check_scalar_branches(compiled)
    assert compiled.assembly.count("s_barrier") >= 2
    x = np.random.default_rng(2).uniform(1, 2, (4, SIZE)).astype(np.float32)
    x[1] *= 100
    x[2, 77] = 1e6
    *_, y, turns = compiled.run(x, np.zeros_like(x), np.zeros(4, np.int32), 4, 0.75, grid=(4, 1, 1), checks="all")
    wanted = np.maximum(np.ceil(np.log2(x.max(1) / np.float32(0.75))), 0).astype(np.int32)
    np.testing.assert_array_equal(turns, wanted)
    np.testing.assert_array_equal(y, np.ldexp(x, -wanted[:, None]))


def exchange_kernel(chip: str) -> Kernel:
    """y = x + 1 for every odd step of a loop, doubled in step 3; on the way the waves exchange elements through LDS."""
    arguments = {"x": ptr("f32"), "y": ptr("f32"), "steps": i32}

    @kernel("exchange", target=get_target(chip), waves=2, arguments=arguments)
    def exchange(given: Any) -> None:
        across = Distribution.parse("d0: 64@lane 2@wave 2@y0")
        with loop(0, given.steps, 1, carry=[load(rows(given.x, 1, 0), LIES)]) as step:
            (tile,) = step.carried
            with when((step.index & 1).equals(1), otherwise=[tile]) as odd:
                moved = to_lds(tile, "once").read(across)
                with when(step.index.equals(3), otherwise=[moved]) as third:
                    third.give(to_lds(moved * 2.0, "twice").read(across))
                odd.give(to_lds(third.results[0], "back").read(LIES) + 1.0)
            step.carry(odd.results[0])
        store(step.results[0], rows(given.y, 1, 0))

    return exchange


@pytest.mark.parametrize("chip", CHIPS)
def test_barriers_in_branches(chip: str) -> None:
    """Tiles in LDS are written and read in arms that some iterations take."""
    compiled = compile_traced(exchange_kernel(chip))
    check_scalar_branches(compiled)
    x = np.random.default_rng(3).integers(-9, 9, (1, SIZE)).astype(np.float32)
    for steps in (0, 1, 2, 5):
        _, y = compiled.run(x, np.zeros_like(x), steps, checks="all")
        wanted = x
        for index in range(1, steps, 2):
            wanted = wanted * (2 if index == 3 else 1) + 1
        np.testing.assert_array_equal(y, wanted)


def same_condition_kernel(chip: str) -> Kernel:
    """Two branches of a loop on one condition that the loop does not change, and one before it on that too."""
    arguments = {"x": ptr("f32"), "y": ptr("f32"), "steps": i32, "sign": i32}

    @kernel("same_condition", target=get_target(chip), waves=2, arguments=arguments)
    def same_condition(given: Any) -> None:
        first = load(rows(given.x, 4, 0), LIES)
        with when(given.sign > 0, otherwise=[first]) as before:
            before.give(first + 1.0)
        with loop(0, given.steps, 1, carry=before.results) as step:
            (tile,) = step.carried
            with when(given.sign > 0, otherwise=[tile]) as one:
                one.give(tile * 2.0)
            with when(given.sign > 0, otherwise=[one.results[0]]) as two:
                two.give(load(rows(given.x, 4, step.index), LIES) - one.results[0])
            step.carry(two.results[0])
        store(step.results[0], rows(given.y, 1, 0))

    return same_condition


def test_branches_on_one_condition() -> None:
    """A condition decides of several branches that which has run for the fewest iterations."""
    compiled = compile_traced(same_condition_kernel("gfx942"))
    x = np.random.default_rng(3).integers(-9, 9, (4, SIZE)).astype(np.float32)
    for sign in (1, -1):
        _, y = compiled.run(x, np.zeros_like(x[:1]), 3, sign, checks="all")
        wanted = x[0]
        if sign > 0:
            wanted = wanted + 1
            for row in x[:3]:
                wanted = row - 2 * wanted
        np.testing.assert_array_equal(y[0], wanted)


SCHEDULES = {
    "unpipelined": "schedule unpipelined 1",
    "ahead": "schedule ahead 1; ahead load 2, to_lds 1; buffers 2; step to_lds, load, read, math; fences memory",
}


def sparse_kernel(chip: str, schedule: str) -> Kernel:
    """The sum of those rows of x whose flag is set, negated for odd rows, and of 1 for each of the others."""
    arguments = {"x": ptr("f32"), "flags": ptr("i32"), "y": ptr("f32"), "n": i32}

    @kernel("sparse", target=get_target(chip), waves=2, arguments=arguments)
    def sparse(given: Any) -> None:
        with when(given.n > 0, otherwise=[zeros((SIZE,), "f32", LIES)]) as some:
            start = [zeros((SIZE,), "f32", LIES)]
            with loop(0, given.n, 1, carry=start, schedule=Schedule.parse(SCHEDULES[schedule])) as step:
                with (
                    stage("load"),
                    when(given.flags.scalar(step.index) > 0, otherwise=[zeros((SIZE,), "f32", LIES) + 1.0]) as set_,
                ):
                    set_.give(load(rows(given.x, given.n, step.index), LIES))
                with stage("to_lds"):
                    row = to_lds(set_.results[0], "row")
                with stage("read"):
                    tile = row.read(LIES)
                with stage("math"):
                    with when((step.index & given.flags.scalar(step.index)) > 0) as odd:
                        odd.give(step.carried[0] - tile)
                    with odd.otherwise():
                        odd.give(step.carried[0] + tile)
                    step.carry(odd.results[0])
            some.give(step.results[0])
        store(some.results[0], rows(given.y, 1, 0))

    return sparse


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_branches_in_stages_of_a_loop_in_a_branch(chip: str, schedule: str) -> None:
    """A branch runs ahead with its stage; the loop it stands in is left out where it has no iterations."""
    compiled = compile_traced(sparse_kernel(chip, schedule))
    check_scalar_branches(compiled)
    random = np.random.default_rng(4)
    for count in (0, 1, 2, 3, 6):
        x = random.integers(-9, 9, (max(count, 1), SIZE)).astype(np.float32)
        flags = random.integers(0, 2, max(count, 1)).astype(np.int32)
        *_, y = compiled.run(x, flags, np.full((1, SIZE), 9, np.float32), count, checks="all")
        sign = np.where(np.arange(count) & flags[:count], -1, 1)
        wanted = (sign[:, None] * np.where(flags[:count, None], x[:count], 1)).sum(0)
        np.testing.assert_array_equal(y[0], wanted)


def chosen_kernel(chip: str) -> Kernel:
    """out[g] = in[g] + 1 for arrays whose addresses memory holds, or out[g] = in[0] for those of length 0."""
    arguments = {"tables": ptr("i64", 8), "lengths": ptr("i32", 4)}

    @kernel("chosen", target=get_target(chip), waves=2, arguments=arguments)
    def chosen(given: Any) -> None:
        group = workgroup_id(0)
        length = given.lengths.scalar(group)
        with when(length > 0) as some:
            some.give(given.tables.pointer(2 * group, "f32"), 1.0, length)
        with some.otherwise():
            some.give(given.tables.pointer(0, "f32", alignment=4), 0.0, SIZE)
        source, more, length = some.results
        assert source.alignment == 4
        target = given.tables.pointer(2 * group + 1, "f32")
        tile = load(view(source, (length,), (1,)).pad(SIZE).window((SIZE,), (0,)), LIES)
        store(tile + more, view(target, (SIZE,), (1,)).window((SIZE,), (0,)))

    return chosen


@pytest.mark.parametrize("chip", CHIPS)
def test_pointers_from_memory(chip: str) -> None:
    compiled = compile_traced(chosen_kernel(chip))
    check_scalar_branches(compiled)
    x = np.random.default_rng(5).integers(-9, 9, (3, SIZE)).astype(np.float32)
    lengths = np.array([SIZE, 0, 100], np.int32)
    arrays = [array for row in x for array in (row, np.zeros_like(row))]
    written, _ = compiled.run(arrays, lengths, grid=(3, 1, 1), checks="all")
    np.testing.assert_array_equal(written[1], x[0] + 1)
    np.testing.assert_array_equal(written[3], x[0])
    np.testing.assert_array_equal(written[5], np.where(np.arange(SIZE) < 100, x[2], 0) + 1)


def copy_kernel(chip: str, path: str) -> Kernel:
    """The sum of those rows of x whose flag is set, each copied to LDS in a branch."""
    arguments = {"x": ptr("f32"), "flags": ptr("i32"), "y": ptr("f32"), "n": i32}
    schedule = Schedule.parse(f"schedule copies 1; path {path}")

    @kernel("copies", target=get_target(chip), waves=2, arguments=arguments)
    def copies(given: Any) -> None:
        across = Distribution.parse("d0: 64@lane 2@wave 2@y0")
        with loop(0, given.n, 1, carry=[zeros((SIZE,), "f32", across)], schedule=schedule) as step:
            (total,) = step.carried
            with stage("all"), when(given.flags.scalar(step.index) > 0, otherwise=[total]) as some:
                row = to_lds(load(rows(given.x, given.n, step.index)), "row")
                some.give(total + row.read(across))
            step.carry(some.results[0])
        store(step.results[0], rows(given.y, 1, 0))

    return copies


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("path", ["through", "direct"])
def test_copies_to_lds_in_a_branch(chip: str, path: str) -> None:
    """What the copies of an iteration wait for, and what waits for them, lies on some ways only."""
    compiled = compile_traced(copy_kernel(chip, path))
    check_scalar_branches(compiled)
    assert ("copy_fragment" in compiled.scheduled) == (path == "direct")
    random = np.random.default_rng(6)
    for count in (0, 1, 5):
        x = random.integers(-9, 9, (max(count, 1), SIZE)).astype(np.float32)
        flags = random.integers(0, 2, max(count, 1)).astype(np.int32)
        *_, y = compiled.run(x, flags, np.full((1, SIZE), 9, np.float32), count, checks="all")
        np.testing.assert_array_equal(y[0], (x[:count] * flags[:count, None]).sum(0))


def chain_kernel(chip: str) -> Kernel:
    """The sum of the rows of a linked list, twice: y[0] by following addresses, y[1] by a pointer that moves on."""
    arguments = {"first": ptr("i64", 8), "x": ptr("f32"), "y": ptr("f32"), "n": i32}

    @kernel("chain", target=get_target(chip), waves=2, arguments=arguments)
    def chain(given: Any) -> None:
        nothing = zeros((SIZE,), "f32", LIES)
        with while_loop(lambda node, total: node.scalar(0).differs(0), carry=[given.first, nothing]) as step:
            node, total = step.carried
            row = view(node.pointer(0, "f32", alignment=8), (SIZE,), (1,)).window((SIZE,), (0,))
            step.carry(node.pointer(1, "i64", alignment=8), total + load(row, LIES))
        store(step.results[1], rows(given.y, 2, 0))
        with loop(0, given.n, 1, carry=[given.x, nothing]) as walk:
            place, total = walk.carried
            tile = load(view(place, (SIZE,), (1,)).window((SIZE,), (0,)), LIES)
            walk.carry(place.offset(SIZE), total + tile)
        store(walk.results[1], rows(given.y, 2, 1))

    return chain


@pytest.mark.parametrize("chip", CHIPS)
def test_carried_pointers(chip: str) -> None:
    """Nodes are (address of a row, address of the next node); that of the last node has row 0."""
    compiled = compile_traced(chain_kernel(chip))
    check_scalar_branches(compiled)
    simulator = Simulator(target=chip, checks=parse_checks("all"))
    x = np.random.default_rng(7).integers(-9, 9, (4, SIZE)).astype(np.float32)
    memory, y = simulator.upload(x), simulator.upload(np.zeros((2, SIZE), np.float32))
    nodes = [simulator.upload(np.zeros(2, np.int64))]
    for number in range(len(x)):
        row = memory.address + x[0].nbytes * number
        nodes.append(simulator.upload(np.array([row, nodes[-1].address], np.int64)))
    simulator.launch(CodeObject.parse(compiled.hsaco), "chain", (1, 1, 1), (128, 1, 1), [nodes[-1], memory, y, len(x)])
    np.testing.assert_array_equal(y.read(np.float32, (2, SIZE)), np.stack([x.sum(0)] * 2))


def table_kernel(chip: str) -> Kernel:
    """Sums over the rows of a table of begins, of which no more than two parts each count."""

    arguments = {"x": ptr("f32"), "begins": ptr("i32"), "y": ptr("f32"), "n": i32}

    @kernel("table", target=get_target(chip), waves=2, arguments=arguments)
    def table(given: Any) -> None:
        with loop(0, given.n, 1, carry=[zeros((SIZE,), "f32", LIES)]) as outer:
            begin, end = given.begins.scalar(outer.index), given.begins.scalar(outer.index + 1)
            with loop(begin, end, SIZE, carry=outer.carried) as step:
                (total,) = step.carried
                whole = view(given.x.offset(step.index), (end - step.index,), (1,)).pad(SIZE)
                part = load(whole.window((SIZE,), (0,)), LIES)
                with when(step.index - begin < 2 * SIZE, otherwise=[total]) as counts:
                    counts.give(total + part)
                step.carry(counts.results[0])
            outer.carry(step.results[0])
        store(outer.results[0], rows(given.y, 1, 0))

    return table


@pytest.mark.parametrize("chip", CHIPS)
def test_rows_of_a_table(chip: str) -> None:
    begins = np.cumsum([0, 5, SIZE, 0, 1000, 2 * SIZE + 1]).astype(np.int32)
    x = np.random.default_rng(8).integers(-9, 9, begins[-1]).astype(np.float32)
    arguments = begins, np.zeros(SIZE, np.float32), np.int32(len(begins) - 1)
    y = compile_traced(table_kernel(chip)).run(x, *arguments, checks="all")[2]
    expected = np.zeros(SIZE, np.float32)
    for begin, end in pairwise(begins):
        padded = np.zeros(4 * SIZE, np.float32)
        padded[: min(end - begin, 2 * SIZE)] = x[begin : min(end, begin + 2 * SIZE)]
        expected += padded.reshape(-1, SIZE).sum(0)
    np.testing.assert_array_equal(y, expected)
