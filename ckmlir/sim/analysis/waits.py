"""A static proof that a kernel waits for what it uses, on every path of its control-flow graph.

Registers: none is read or overwritten before the counter that guards it is low enough. A load may overwrite the
result of an older load of the same kind, since both return in order.

LDS: what a wave writes (or copies from memory) must be complete before the barrier that lets other waves read it, and
what it reads before the barrier that lets others overwrite it; and a wave reads its own copies from memory only after
vmcnt says that they are there. Accesses whose addresses are known to be apart (`lds_addresses.py`) do not conflict.

All waves of a workgroup are taken to go through the same barriers in the same order. s_barrier itself waits for
nothing on these chips: LLVM relies on that too (its feature BackOffBarrier, gfx90a and later).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ckmlir.sim.analysis.blocks import Block, ControlFlow
from ckmlir.sim.analysis.effects import Counter, Effects, Kind
from ckmlir.sim.analysis.pending import NOTHING, Access, Pending, Queue, Snapshot
from ckmlir.sim.analysis.registers import RegisterSet
from ckmlir.sim.decode import Instruction


class MissingWait(NamedTuple):
    """A use that comes too early.

    Attributes:
        use: The instruction that uses.
        access: The instruction whose access may be in flight.
        counter: The counter that guards it.
        needed: The largest count that would be enough: right before `use`, or before `barrier`.
        registers: Registers used too early; none when it is LDS.
        barrier: For LDS: the barrier that the access was in flight at, None when the wave itself reads too early.
        is_told: Whether the code tells where in LDS both are.
        sites: For LDS: where both are (`Block.site`).
    """

    use: Instruction
    access: Instruction
    counter: Counter
    needed: int
    registers: RegisterSet = 0
    barrier: Instruction | None = None
    is_told: bool = True
    sites: tuple[int, int] = (0, 0)


class Step(NamedTuple):
    """An instruction with what the analysis needs of it."""

    instruction: Instruction
    site: int
    """The name of the accesses that it starts."""
    effects: Effects
    touched: RegisterSet
    waits: tuple[tuple[Counter, int], ...]

    @property
    def is_barrier(self) -> bool:
        """Whether it is s_barrier."""
        return self.instruction.mnemonic == "s_barrier"


class WaitAnalysis:
    """What may be in flight at the start of each block of a kernel, and the uses that come too early."""

    def __init__(self, flow: ControlFlow, *, ordered_copies: bool = True) -> None:
        """`ordered_copies`: copies from memory to LDS land in the order of their issue."""
        self.flow, self._ordered_copies = flow, ordered_copies
        self.steps = {
            start: [_step(block, *pair) for pair in zip(block.instructions, block.effects)]
            for start, block in flow.blocks.items()
        }
        self.site = {step.site: step for steps in self.steps.values() for step in steps}
        self._kinds: dict[Counter, dict[int, Kind]] = {counter: {} for counter in Counter}
        for site, step in self.site.items():
            for counter, kind in step.effects.events:
                lds = step.effects.lds
                if not ordered_copies and counter is Counter.VM and lds is not None and lds.direct and lds.writes:
                    kind = Kind.FLAT  # which returns in any order
                self._kinds[counter][site] = kind
        self.relevant = {
            start: [step for step in steps if step.effects.events or step.waits or step.is_barrier]
            for start, steps in self.steps.items()
        }
        self._enough_at_barrier: dict[tuple[Counter, Access], int] = {}
        self.states = self._solve()

    def kind_of(self, queue: Queue, site: int) -> Kind:
        """The kind of the event that an instruction puts in a queue."""
        return self._kinds[queue.counter][site]

    def guarded(self, counter: Counter, site: int) -> RegisterSet:
        """The registers that must not be touched while an instruction's event of a counter is pending."""
        effects = self.site[site].effects
        return effects.locked if counter is Counter.EXP else effects.writes

    def _solve(self) -> dict[int, Snapshot]:
        """States at the start of blocks: the least fixed point, reached since ages only fall and sets only grow."""
        states = {self.flow.entry: NOTHING} if self.flow.blocks else {}
        order = {start: position for position, start in enumerate(self.flow.blocks)}
        waiting = set(states)
        while waiting:
            start = min(waiting, key=order.__getitem__)
            waiting.remove(start)
            state = states[start].restore()
            for step in self.relevant[start]:
                self.advance(state, step)
            after = state.snapshot()
            for successor in self.flow.blocks[start].successors:
                known = states.get(successor)
                merged = after if known is None else known.join(after)
                if merged != known:
                    states[successor] = merged
                    waiting.add(successor)
        return states

    def advance(self, state: Pending, step: Step) -> None:
        """The state after an instruction."""
        for counter, count in step.waits:
            complete = state.queues[counter].wait(count, self._kinds[counter].__getitem__)
            state.late.update(access for access in complete if access.barrier >= 0)
        if step.is_barrier:
            state.late.clear()
            for counter in (Counter.VM, Counter.LGKM):
                self._cross(state.queues[counter], step.site)
        for counter, _ in step.effects.events:
            state.queues[counter].issue(step.site)
            complete = state.queues[counter].overflow(self._kinds[counter].__getitem__)
            state.late.update(access for access in complete if access.barrier >= 0)

    def _cross(self, queue: Queue, barrier: int) -> None:
        """A barrier: remember what it should have waited for, the least over all paths, and mark the accesses."""
        for access in queue.number:
            if self._touches_lds(access.site):
                key = queue.counter, Access(access.site, barrier)
                enough = self._enough(queue, access)
                self._enough_at_barrier[key] = min(enough, self._enough_at_barrier.get(key, enough))
        queue.cross(barrier, self._touches_lds)

    def _touches_lds(self, site: int) -> bool:
        return self.site[site].effects.lds is not None

    def missing(self) -> Iterator[MissingWait]:
        """Every pair of an access and a use that may come too early, in order of blocks. LDS pairs may turn out to be
        apart."""
        for start, snapshot in self.states.items():
            yield from self._missing_in_block(snapshot.restore(), self.steps[start])

    def _missing_in_block(self, state: Pending, steps: list[Step]) -> Iterator[MissingWait]:
        guarded = self._all_guarded(state)
        for step in steps:
            if step.touched & guarded:
                yield from self._early_registers(state, step)
            if step.effects.lds is not None:
                yield from self._early_lds(state, step)
            if step.effects.events or step.waits or step.is_barrier:
                self.advance(state, step)
                guarded = self._all_guarded(state)

    def _all_guarded(self, state: Pending) -> RegisterSet:
        found = 0
        for queue in state.queues.values():
            for access in queue.number:
                found |= self.guarded(queue.counter, access.site)
        return found

    def _early_registers(self, state: Pending, step: Step) -> Iterator[MissingWait]:
        for queue in state.queues.values():
            for access in queue.number:
                guarded = self.guarded(queue.counter, access.site)
                written = guarded & step.effects.writes
                if written and self._returns_behind(queue, access, step):
                    written = 0
                early = written | (guarded & step.effects.reads if queue.counter is not Counter.EXP else 0)
                if early:
                    yield MissingWait(
                        step.instruction,
                        self.site[access.site].instruction,
                        queue.counter,
                        self._enough(queue, access),
                        early,
                    )

    def _returns_behind(self, queue: Queue, access: Access, step: Step) -> bool:
        """Whether the instruction's own result comes back after the access's, through the same counter."""
        kinds = {kind for counter, kind in step.effects.events if counter is queue.counter}
        return kinds == {self.kind_of(queue, access.site)} and queue.in_order(self._kinds[queue.counter].__getitem__)

    def _enough(self, queue: Queue, access: Access) -> int:
        """The largest count that completes an access."""
        return queue.age(access) if queue.in_order(self._kinds[queue.counter].__getitem__) else 0

    def _early_lds(self, state: Pending, step: Step) -> Iterator[MissingWait]:
        """LDS that another wave may not have finished with, that the wave's own copies have not reached or its own
        stores from LDS not read, or that such a store reads before what was written is there."""
        use = step.effects.lds
        assert use is not None
        for counter in (Counter.VM, Counter.LGKM):
            queue = state.queues[counter]
            accesses = [*queue.number, *(item for item in state.late if (counter, item) in self._enough_at_barrier)]
            for access in accesses:
                before = self.site[access.site].effects.lds
                if before is None:
                    continue
                conflict = (before.writes and (use.reads or use.writes)) or (before.reads and use.writes)
                unordered = before.direct if counter is Counter.VM else use.direct and use.reads
                if not conflict or (access.barrier < 0 and not unordered):
                    continue
                if self._ordered_copies and access.barrier < 0 and before.writes and not use.reads and use.direct:
                    continue  # copies land in order
                barrier = self.site[access.barrier].instruction if access.barrier >= 0 else None
                needed = self._enough_at_barrier[counter, access] if barrier else self._enough(queue, access)
                yield MissingWait(
                    step.instruction, self.site[access.site].instruction, counter, needed, barrier=barrier,
                    sites=(access.site, step.site),
                )  # fmt: skip


def _step(block: Block, instruction: Instruction, effects: Effects) -> Step:
    waits: tuple[tuple[Counter, int], ...] = ()
    if instruction.mnemonic == "s_waitcnt":
        waits = tuple((counter, instruction.modifiers[counter.value]) for counter in Counter)
    return Step(instruction, block.site(instruction), effects, effects.reads | effects.writes, waits)
