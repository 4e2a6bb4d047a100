"""Workgroups that wait for each other's flags: on every chip, in any order, under all checkers; and what is wrong where
a wait, a signal or a barrier is missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_runner import CHIPS, Compiled, compile_traced

from ckmlir.codeobject import CodeObject
from ckmlir.dialect import synchronization
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import Kernel, kernel, load, ptr, signal, store, view, wait_until, when, workgroup_id
from ckmlir.sim import CheckFailure, SimulationError, interleaving, spinning
from ckmlir.sim.debugging import Tracer
from ckmlir.sim.simulator import Simulator
from ckmlir.sim.timing.lengths import count_workgroups
from ckmlir.sim.timing.recording import record
from ckmlir.targets import get_target

GROUPS, WAVES = 7, 4
S_SLEEP, S_NOP = (0xBF8E0001).to_bytes(4, "little"), (0xBF800000).to_bytes(4, "little")
LENGTH = 64 * WAVES


def running_sums(chip: str, *, waits: bool = True, signals: bool = True, meets: bool = True) -> Kernel:
    """y[i] = y[i - 1] + x[i], row by row, a row a workgroup; a kernel without one of the things that it takes."""
    arguments = {"x": ptr("f32"), "y": ptr("f32"), "flags": ptr("i32")}

    @kernel("sums", target=get_target(chip), waves=WAVES, arguments=arguments)
    def sums(given: Any) -> None:
        row = workgroup_id(0)
        x, y = (view(one, (GROUPS, LENGTH), (LENGTH, 1)) for one in (given.x, given.y))
        own = load(x.window((1, LENGTH), (row, 0)), coalesced((1, LENGTH), WAVES, 1, 1))
        with when(row > 0, otherwise=[own]) as later:
            if waits:
                wait_until(given.flags, row - 1, 2)
            # Each thread reads what a thread of another wave has written.
            later.give(own + load(y.window((1, LENGTH), (row - 1, 0)), own.type.distribution))
        store(later.results[0], y.window((1, LENGTH), (row, 0)))
        if signals and meets:
            signal(given.flags, row, 3)
        elif signals:
            synchronization.release()
            synchronization.set_flag((row * 0 + 3).value, given.flags.offset(row).value)

    return sums


def run(compiled: Compiled, seed: int, checks: str = "all") -> tuple[Any, Any]:
    x = np.random.default_rng(seed).standard_normal((GROUPS, LENGTH)).astype(np.float32)
    y, flags = np.zeros((GROUPS, LENGTH), np.float32), np.zeros(GROUPS, np.int32)
    return x, compiled.run(x, y, flags, grid=(GROUPS, 1, 1), seed=seed, checks=checks)[1]


@pytest.mark.parametrize("chip", CHIPS)
def test_each_waits_for_the_one_before(chip: str) -> None:
    """In whatever order they begin; the checkers know what flags order. `wait_until` takes larger values too."""
    compiled = compile_traced(running_sums(chip))
    for seed in range(3):
        x, y = run(compiled, seed)
        wanted = x[:1]
        for row in x[1:]:
            wanted = np.vstack([wanted, wanted[-1:] + row])
        np.testing.assert_array_equal(y, wanted)


def test_what_flags_become() -> None:
    """Dies of gfx942 do not share L2: it is written back before a flag is set, and what caches hold is dropped behind a
    wait. On gfx90a L2 is the device's.
    """
    assemblies = {chip: compile_traced(running_sums(chip)).assembly for chip in ("gfx90a", "gfx942")}
    for text in assemblies.values():
        assert text.index("s_sleep") and "global_atomic_swap" in text
    assert "buffer_wbl2 sc1" in assemblies["gfx942"] and "buffer_inv sc1" in assemblies["gfx942"]
    assert "buffer_wbl2" not in assemblies["gfx90a"] and "buffer_wbinvl1_vol" in assemblies["gfx90a"]
    written = assemblies["gfx942"]
    order = [written.index(word) for word in ("buffer_store_dword", "buffer_wbl2", "s_barrier", "global_atomic_swap")]
    assert order == sorted(order)


def test_a_missing_wait_is_a_race() -> None:
    compiled = compile_traced(running_sums("gfx942", waits=False))
    with pytest.raises(CheckFailure, match="race"):
        for seed in range(4):
            run(compiled, seed, "race")


def test_a_missing_barrier_before_the_flag_is_a_race() -> None:
    """Other waves of the workgroup may still be writing when its first wave sets the flag."""
    compiled = compile_traced(running_sums("gfx942", meets=False))
    with pytest.raises(CheckFailure, match="race"):
        for seed in range(8):
            run(compiled, seed, "race")


def test_a_race_of_workgroups_that_take_turns_names_the_other_workgroup() -> None:
    """Turns of a workgroup that began later are later too, and are not of the round of the one that goes on."""
    compiled, messages = compile_traced(running_sums("gfx942", meets=False)), []
    for seed in range(8):
        try:
            run(compiled, seed, "race")
        except CheckFailure as failure:
            messages += [one.message for one in failure.findings]
    assert messages and all("another workgroup" in one for one in messages)


def test_who_waits_for_ever_is_given_up() -> None:
    """No flag is ever set: the launch ends, in words, after the simulator's patience."""
    compiled = compile_traced(running_sums("gfx942", signals=False))
    simulator = Simulator(target="gfx942", patience=0.3)
    arguments = [simulator.upload(np.zeros(size, np.float32)) for size in (GROUPS * LENGTH, GROUPS * LENGTH, GROUPS)]
    with pytest.raises(SimulationError, match="may never end"):
        simulator.launch(CodeObject.parse(compiled.hsaco), "sums", (GROUPS, 1, 1), (LENGTH, 1, 1), arguments)


def without_pauses(compiled: Compiled) -> CodeObject:
    """The code with a nop in place of each pause."""
    return CodeObject.parse(compiled.hsaco.replace(S_SLEEP, S_NOP))


def test_who_waits_in_an_unknown_way_is_told_to_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spinning, "MOST", 0)
    code = without_pauses(compile_traced(running_sums("gfx942", signals=False)))
    simulator = Simulator(target="gfx942", patience=0.3)
    arguments = [simulator.upload(np.zeros(size, np.float32)) for size in (GROUPS * LENGTH, GROUPS * LENGTH, GROUPS)]
    with pytest.raises(SimulationError, match=r"has to pause \(s_sleep\)"):
        simulator.launch(code, "sums", (GROUPS, 1, 1), (LENGTH, 1, 1), arguments)


def test_who_waits_for_none_before_cannot_be_timed() -> None:
    """Found at once, not after the simulator's patience."""
    code = CodeObject.parse(compile_traced(running_sums("gfx942", signals=False)).hsaco)
    simulator = Simulator(target="gfx942")
    arguments = [simulator.upload(np.zeros(size, np.float32)) for size in (GROUPS * LENGTH, GROUPS * LENGTH, GROUPS)]
    with pytest.raises(SimulationError, match="workgroup 1 waits for what no workgroup before it writes"):
        simulator.time(code, "sums", (GROUPS, 1, 1), (LENGTH, 1, 1), arguments)


@pytest.mark.parametrize("chip", CHIPS)
def test_who_looks_without_a_pause_lets_others_run(chip: str) -> None:
    """In whatever order they begin."""
    code = without_pauses(compile_traced(running_sums(chip)))
    for seed in range(3):
        simulator = Simulator(target=chip, seed=seed, checks="all", patience=5)
        assert simulator.program(code, "sums").pauses
        arguments = [simulator.upload(np.ones(GROUPS * LENGTH, np.float32)) for _ in range(2)]
        arguments.append(simulator.upload(np.zeros(GROUPS, np.int32)))
        simulator.launch(code, "sums", (GROUPS, 1, 1), (LENGTH, 1, 1), arguments)
        np.testing.assert_array_equal(arguments[1].read(np.float32, (GROUPS, LENGTH))[:, 0], 1 + np.arange(GROUPS))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_who_waits_for_those_before_can_be_timed(chip: str) -> None:
    """All of them run, in their order; those that are recorded look at a flag once."""
    compiled = compile_traced(running_sums(chip))
    simulator = Simulator(target=chip, patience=2)
    arguments = [simulator.upload(np.ones(size, np.float32)) for size in (GROUPS * LENGTH, GROUPS * LENGTH)]
    arguments.append(simulator.upload(np.zeros(GROUPS, np.int32)))
    given = CodeObject.parse(compiled.hsaco), "sums", (GROUPS, 1, 1), (LENGTH, 1, 1), arguments, 0
    counted = count_workgroups(simulator, *given, [GROUPS - 1, 0], in_order=True)
    assert counted[0] > counted[1] and not arguments[2].read(np.int32, GROUPS).any()
    trace = record(simulator, *given, [GROUPS - 1, 2], in_order=True)
    assert trace.workgroups == (2, GROUPS - 1)
    assert sum(len(trace.steps_of(wave)) for wave in range(WAVES)) == counted[0]
    assert not {"s_sleep"} & {trace.program[one].mnemonic for one in trace.steps["instruction"].tolist()}
    assert arguments[1].read(np.float32, (GROUPS, LENGTH))[-1, 0] == GROUPS
    arguments[2].write(np.zeros(GROUPS, np.int32))
    assert simulator.time(*given[:5]).grid.cycles > 0


def test_more_workgroups_than_a_chip_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many are under way at a time; those that wait for no one yet to begin come to their end."""
    monkeypatch.setattr(interleaving, "MOST_UNDER_WAY", 2)
    compiled = compile_traced(running_sums("gfx942"))
    x = np.ones((GROUPS, LENGTH), np.float32)
    flags = np.full(GROUPS, 2, np.int32)  # all set: nobody waits, everybody looks
    compiled.run(x, np.zeros_like(x), flags, grid=(GROUPS, 1, 1))


def test_a_trace_of_waves_that_wait() -> None:
    """Others go on meanwhile, as without the trace."""
    compiled = compile_traced(running_sums("gfx942"))
    seen = 0
    for seed in range(4):
        simulator = Simulator(target="gfx942", seed=seed)
        simulator.observer = tracer = Tracer("s_sleep", output=lambda event: None)
        memories = [simulator.upload(np.ones(GROUPS * LENGTH, np.float32)) for _ in range(2)]
        memories.append(simulator.upload(np.zeros(GROUPS, np.int32)))
        code = CodeObject.parse(compiled.hsaco)
        simulator.launch(code, "sums", (GROUPS, 1, 1), (LENGTH, 1, 1), memories)
        found = memories[1].read(np.float32, (GROUPS, LENGTH))
        np.testing.assert_array_equal(found, np.tile(np.arange(1, GROUPS + 1)[:, None], (1, LENGTH)))
        seen += tracer.seen
    assert seen > 0


def test_the_order_of_workgroups_varies_with_the_seed() -> None:
    """A kernel whose workgroups wait for no one, but pause where they may: who comes last depends on the seed."""
    chip, arguments = "gfx942", {"last": ptr("i32"), "flags": ptr("i32")}

    @kernel("order", target=get_target(chip), waves=1, arguments=arguments)
    def order(given: Any) -> None:
        wait_until(given.flags, 0, 0)
        signal(given.last, 0, workgroup_id(0))

    compiled = compile_traced(order)
    found = set()
    for seed in range(8):
        last, _ = compiled.run(np.zeros(1, np.int32), np.zeros(1, np.int32), grid=(GROUPS, 1, 1), seed=seed)
        found.add(int(last[0]))
    assert len(found) > 1
