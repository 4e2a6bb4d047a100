"""A second opinion on the wait check: the path of a run, recorded instruction by instruction, and the counters and LDS
followed on it with lists and sets of bytes.

s_waitcnt does nothing in the simulator, so one recorded path serves for all faults in waits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np

from ckmlir.sim.analysis.effects import Counter, Effects, Kind, effects_of
from ckmlir.sim.debugging.stepper import Stepper
from ckmlir.sim.debugging.wave import Wave
from ckmlir.sim.decode import Instruction
from ckmlir.sim.runner import Runner

Counts = dict[str, int]
_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8, "96": 12, "128": 16}
_DS = re.compile(r"ds_(?:read|write)(2)?(st64)?_[bui](\d+)(?:_.*)?")
_NO_WAIT = {Counter.VM: 63, Counter.LGKM: 15}


class Step(NamedTuple):
    """One execution: `lds` has a bit for each byte of LDS that it touches."""

    instruction: Instruction
    effects: Effects
    lds: int


class PathRecorder:
    """Takes part in a launch and records what each wave of the first workgroup executes, round by round: a round is
    everything between two barriers."""

    def __init__(self) -> None:
        self.rounds: list[dict[int, list[Step]]] = []
        self.ends: list[int] = []
        """Addresses of the barriers that end them."""
        self._barriers: dict[int, int] = {}
        self._effects: dict[int, Effects] = {}
        self._guarded = 0

    def watching(self, runner: Runner) -> AbstractContextManager[None]:
        self._effects = {one.address: effects_of(one) for one in runner.program.instructions}
        for effects in self._effects.values():
            self._guarded |= effects.writes if effects.events else 0
        stepper = Stepper(runner, self)
        stepper.choose(None)
        return stepper.watching()

    def before(self, wave: Wave) -> None:
        if wave.workgroup != (0, 0, 0):
            return
        instruction = wave.instruction
        effects = self._effects[instruction.address]
        number = self._barriers.get(wave.number, 0)
        if instruction.mnemonic == "s_barrier":
            self._barriers[wave.number] = number + 1
            self.ends[number:] = [instruction.address]
        elif effects.events or instruction.mnemonic == "s_waitcnt" or (effects.reads | effects.writes) & self._guarded:
            while len(self.rounds) <= number:
                self.rounds.append({})
            lds = _bytes(wave, instruction, effects) if effects.lds else 0
            self.rounds[number].setdefault(wave.number, []).append(Step(instruction, effects, lds))

    def after(self, wave: Wave, status: int) -> None:
        pass


def _bytes(wave: Wave, instruction: Instruction, effects: Effects) -> int:
    """The bytes of LDS that the active lanes touch."""
    assert effects.lds is not None
    bits = int(wave.register("exec", np.uint64)[0])
    active = np.array([bool(bits >> lane & 1) for lane in range(64)])
    lanes, offset = np.arange(64), instruction.modifiers.get("offset", 0)
    if effects.lds.direct:
        size = {"dwordx3": 12, "dwordx4": 16}.get(instruction.mnemonic.rsplit("_", 1)[1], 4)
        starts = [int(wave.register("m0")[0]) + offset + lanes * size]
    else:
        match = _DS.fullmatch(instruction.mnemonic)
        assert match is not None, instruction.mnemonic
        size = _SIZES[match[3]]
        address = wave.operand(instruction.sources[0]).astype(np.int64)
        unit = size * (64 if match[2] else 1)
        offsets = [instruction.modifiers[f"offset{k}"] * unit for k in range(2)] if match[1] else [offset]
        starts = [address + one for one in offsets]
    touched = np.zeros(1 << 18, bool)
    for start in starts:
        for byte in range(size):
            touched[start[active] + byte] = True
    return int.from_bytes(np.packbits(touched, bitorder="little").tobytes(), "little")


class _Access(NamedTuple):
    kind: Kind
    effects: Effects
    lds: int


def violations(rounds: list[dict[int, list[Step]]], changed: dict[int, Counts] | None = None) -> Iterator[Instruction]:
    """The instructions of the path that use something too early; `changed` gives waits at some addresses other
    counts."""
    queues: dict[int, dict[Counter, list[_Access]]] = {}
    late: list[tuple[int, _Access]] = []
    for turn in rounds:
        for wave, steps in turn.items():
            own = queues.setdefault(wave, {counter: [] for counter in _NO_WAIT})
            for step in steps:
                if step.instruction.mnemonic == "s_waitcnt":
                    counts = (changed or {}).get(step.instruction.address, step.instruction.modifiers)
                    for counter, queue in own.items():
                        if counts[counter.value] < _NO_WAIT[counter]:
                            _complete(queue, counts[counter.value])
                    continue
                if _early(own, step) or any(other != wave and _meets(one, step) for other, one in late):
                    yield step.instruction
                for counter, kind in step.effects.events:
                    own[counter].append(_Access(kind, step.effects, step.lds))
                    _complete(own[counter], _NO_WAIT[counter])
        late = [(wave, one) for wave, own in queues.items() for queue in own.values() for one in queue if one.lds]


def collides(recorder: PathRecorder, without: int) -> bool:
    """Whether two waves meet in LDS, one of them writing, when the barrier at an address is not there."""
    beside: dict[int, list[Step]] = {}
    for number in range(len(recorder.ends) + 1):
        turn = recorder.rounds[number] if number < len(recorder.rounds) else {}
        for wave, steps in turn.items():
            for step in steps:
                others = [one for at, some in beside.items() if at != wave for one in some]
                if step.lds and any(_meets(_Access(Kind.LDS, one.effects, one.lds), step) for one in others):
                    return True
        for wave, steps in turn.items():
            beside.setdefault(wave, []).extend(step for step in steps if step.lds)
        if recorder.ends[number : number + 1] != [without]:
            beside = {}
    return False


def _in_order(queue: list[_Access]) -> bool:
    return len({one.kind for one in queue}) == 1 and queue[0].kind not in (Kind.SMEM, Kind.FLAT)


def _complete(queue: list[_Access], count: int) -> None:
    if count == 0:
        queue.clear()
    elif len(queue) > count and _in_order(queue):
        del queue[: len(queue) - count]


def _early(own: dict[Counter, list[_Access]], step: Step) -> bool:
    for counter, queue in own.items():
        kinds = [kind for at, kind in step.effects.events if at is counter]
        behind = bool(queue) and _in_order(queue) and kinds == [queue[0].kind]
        for one in queue:
            if one.effects.writes & (step.effects.reads | (0 if behind else step.effects.writes)):
                return True
            copies = one.effects.lds is not None and one.effects.lds.direct
            uses = step.effects.lds is not None and (step.effects.lds.reads or not step.effects.lds.direct)
            if copies and uses and one.lds & step.lds:
                return True
    return False


def _meets(one: _Access, step: Step) -> bool:
    if step.effects.lds is None or one.effects.lds is None or not one.lds & step.lds:
        return False
    return one.effects.lds.writes or step.effects.lds.writes
