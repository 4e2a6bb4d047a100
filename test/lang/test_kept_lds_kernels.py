"""LDS that is kept, from one iteration to the next or until it is fetched, against NumPy under all checkers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_runner import CHIPS, Compiled, compile_traced

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Window,
    atomic_add,
    coordinates,
    i32,
    kernel,
    load,
    loop,
    ptr,
    splat_like,
    stage,
    store,
    to_lds,
    view,
    when,
    while_loop,
    zeros,
)
from ckmlir.targets import get_target

WIDE = 256
LIES = Distribution.parse("d0: 4@wave 64@lane")
ARGUMENTS = {"x": ptr("i32"), "y": ptr("i32"), "n": i32}


def window(pointer: Any, begin: Any, count: Any) -> Window:
    return view(pointer, (count,), (1,)).pad(WIDE).window((WIDE,), (begin,))


def counting(chip: str) -> Compiled:
    """Counts of numbers: every other WIDE entries add to them, the others raise them to 3; all after each step."""

    @kernel("counting", target=get_target(chip), waves=4, arguments=ARGUMENTS)
    def traced(x: Any, y: Any, n: Any) -> None:
        held = to_lds(zeros((WIDE,), "i32", LIES))
        with loop(0, n, WIDE) as step:
            numbers = load(window(x, step.index, n), LIES)
            with when(step.index % (2 * WIDE) == 0) as even:
                held.scatter_add(splat_like(numbers, 1, "i32"), numbers)
            with even.otherwise():
                held.scatter_max(splat_like(numbers, 3, "i32"), numbers)
            store(held.read(LIES), window(y, step.index, n))

    return compile_traced(traced)


@pytest.mark.parametrize("chip", CHIPS)
def test_branches_change_what_is_kept(chip: str) -> None:
    compiled = counting(chip)
    for count in (WIDE, 5 * WIDE):
        x = np.random.default_rng(count).integers(0, WIDE, count).astype(np.int32)
        _, y = compiled.run(x, np.zeros_like(x), np.int32(count), checks="all")
        held = np.zeros(WIDE, np.int32)
        for step, numbers in enumerate(x.reshape(-1, WIDE)):
            if step % 2:
                held[numbers] = np.maximum(held[numbers], 3)
            else:
                np.add.at(held, numbers, 1)
            np.testing.assert_array_equal(y[WIDE * step : WIDE * (step + 1)], held)


def handing_on(chip: str) -> Compiled:
    """y[0 : n] takes x and, turned, the WIDE entries before, over `rounds`; behind that numbers of its last ones."""

    @kernel("handing_on", target=get_target(chip), waves=4, arguments={**ARGUMENTS, "rounds": i32})
    def traced(x: Any, y: Any, n: Any, rounds: Any) -> None:
        kept, counts = (to_lds(zeros((WIDE,), "i32", LIES)) for _ in range(2))
        with loop(0, rounds, 1):
            with loop(0, n, WIDE) as step:
                numbers = load(window(x, step.index, n), LIES)
                turned = to_lds(numbers).gather((WIDE - 1) - coordinates(numbers, 0))
                before = kept.read(LIES)
                kept.scatter(turned, coordinates(numbers, 0))
                atomic_add(numbers + before, window(y, step.index, n))
            last = kept.read(LIES)
            counts.scatter_add(splat_like(last, 1, "i32"), last)
        atomic_add(counts.read(LIES), window(y, n, n + WIDE))

    return compile_traced(traced)


@pytest.mark.parametrize("chip", CHIPS)
def test_loops_in_loops_hand_lds_on(chip: str) -> None:
    count, rounds = 3 * WIDE, 2
    x = np.random.default_rng(1).integers(0, WIDE, count).astype(np.int32)
    arguments = np.int32(count), np.int32(rounds)
    _, y = handing_on(chip).run(x, np.zeros(count + WIDE, np.int32), *arguments, checks="all")
    expected, kept = np.zeros_like(y), np.zeros(WIDE, np.int32)
    for _ in range(rounds):
        for first in range(0, count, WIDE):
            expected[first : first + WIDE] += x[first : first + WIDE] + kept
            kept = x[first : first + WIDE][::-1]
        np.add.at(expected[count:], kept, 1)
    np.testing.assert_array_equal(y, expected)


def placing(chip: str) -> Compiled:
    """How many of its number come before each entry, in a loop that decides each time, from a tile that memory has."""

    @kernel("placing", target=get_target(chip), waves=4, arguments=ARGUMENTS)
    def traced(x: Any, y: Any, n: Any) -> None:
        held = to_lds(load(window(y, 0, n), LIES))
        with while_loop(lambda first: first < n, carry=[n * 0]) as turn:
            (first,) = turn.carried
            numbers = load(window(x, first, n), LIES)
            store(held.fetch_add(splat_like(numbers, 1, "i32"), numbers), window(y, first, n))
            turn.carry(first + WIDE)

    return compile_traced(traced)


@pytest.mark.parametrize("chip", CHIPS)
def test_loops_that_decide_keep_lds(chip: str) -> None:
    count = 4 * WIDE
    x = np.random.default_rng(2).integers(0, WIDE, count).astype(np.int32)
    _, y = placing(chip).run(x, np.full(count, 7, np.int32), np.int32(count), checks="all")
    for number in np.unique(x):
        places = np.sort(y[x == number])
        np.testing.assert_array_equal(places, np.arange(7, 7 + len(places)))


@pytest.mark.parametrize("chip", CHIPS)
def test_what_is_fetched_last_was_kept(chip: str) -> None:
    """Nothing reads the tensor behind the update, and another one is in use before it."""

    @kernel("fetched", target=get_target(chip), waves=4, arguments=ARGUMENTS)
    def traced(x: Any, y: Any, n: Any) -> None:
        held = to_lds(zeros((WIDE,), "i32", LIES))
        numbers = load(window(x, 0, n), LIES)
        turned = to_lds(numbers).gather((WIDE - 1) - coordinates(numbers, 0))
        store(held.fetch_add(turned, coordinates(numbers, 0)) + turned, window(y, 0, n))

    x = np.arange(WIDE, dtype=np.int32)
    _, y = compile_traced(traced).run(x, np.zeros_like(x), np.int32(WIDE), checks="all")
    np.testing.assert_array_equal(y, x[::-1])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", ["", "ahead load 2", "ahead load 2; buffers 2; order interleave"])
def test_reads_and_updates_in_turns(text: str) -> None:
    """A tensor of one iteration is read, changed, read, changed and read."""

    @kernel("in_turns", target=get_target(CHIPS[len(text) % 3]), waves=4, arguments=ARGUMENTS)
    def traced(x: Any, y: Any, n: Any) -> None:
        with loop(0, n, WIDE, schedule=Schedule.parse(f"schedule s 1; {text}")) as step:
            with stage("load"):
                numbers = load(window(x, step.index, n), LIES)
            with stage("work"):
                own = coordinates(numbers, 0)
                held = to_lds(numbers, "held")
                before = held.gather((WIDE - 1) - own)
                held.scatter_add(before, (WIDE - 1) - own)
                between = held.read(LIES)
                held.scatter_max(before, own)
                store(before + between + held.gather((WIDE - 1) - own), window(y, step.index, n))

    compiled = compile_traced(traced)
    for count in range(0, 5 * WIDE, WIDE):
        x = np.random.default_rng(count).integers(-999, 999, max(count, 1)).astype(np.int32)
        _, y = compiled.run(x, np.zeros_like(x), np.int32(count), checks="all")
        for first in range(0, count, WIDE):
            held = x[first : first + WIDE].copy()
            before = held[::-1].copy()
            held += before[::-1]
            expected = before + held + np.maximum(held, before)[::-1]
            np.testing.assert_array_equal(y[first : first + WIDE], expected)
