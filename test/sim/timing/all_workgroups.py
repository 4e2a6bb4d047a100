"""A launch with every workgroup simulated on the compute unit that gets it: what estimates of launches are held to."""

from __future__ import annotations

import math

import numpy as np

from ckmlir.sim.timing.compute_unit import simulate
from ckmlir.sim.timing.memory_shares import Sharing, device_dies, device_units, new_memory
from ckmlir.sim.timing.occupancy import trace_occupancy
from ckmlir.sim.timing.parameters import Parameters
from ckmlir.sim.timing.recording import Trace
from ckmlir.sim.timing.trace_parts import part_of


class Unit:
    """A compute unit with the workgroups that it got so far, and when each of them ends as far as is known."""

    def __init__(self, trace: Trace, parameters: Parameters, together: int, sharing: Sharing) -> None:
        self.trace, self.parameters, self.together, self.sharing = trace, parameters, together, sharing
        self.workgroups: list[int] = []
        self.ends: dict[int, int] = {}
        self.answered: set[int] = set()

    def give(self, number: int) -> None:
        """It starts where another has ended. Those that ended before do not care."""
        self.workgroups.append(number)
        count, units = math.prod(self.trace.grid), device_units(self.parameters)
        memory = new_memory(self.parameters, 1, busy=min(count, units), sharing=self.sharing)
        part = part_of(self.trace, self.workgroups)
        timeline = simulate(part, self.parameters, memory=memory, resident=self.together)
        self.ends = {group: int(timeline.wave_end[part.groups == group].max()) for group in part.workgroups}

    def next_end(self) -> tuple[float, int]:
        """When the next place becomes free, and whose it was."""
        running = {end: group for group, end in self.ends.items() if group not in self.answered}
        return min(running.items(), default=(math.inf, -1))


def cycles_of_all(trace: Trace, parameters: Parameters, sharing: Sharing) -> float:
    """Until the last workgroup ends.

    Args:
        trace: Of all workgroups.
        sharing: As the estimate has it.
    """
    count, units, dies = math.prod(trace.grid), device_units(parameters), device_dies(parameters)
    together = min(trace_occupancy(trace, parameters).workgroups, math.ceil(count / units))
    machines = [Unit(trace, parameters, together, sharing) for _ in range(units)]
    queues = [list(range(die, count, dies)) for die in range(dies)]
    for _ in range(together):
        for number, machine in enumerate(machines):
            if queues[number % dies]:
                machine.give(queues[number % dies].pop(0))
    while any(queues):
        waiting = [number for number in range(units) if queues[number % dies]]
        number = min(waiting, key=lambda one: machines[one].next_end())
        _, group = machines[number].next_end()
        machines[number].answered.add(group)
        machines[number].give(queues[number % dies].pop(0))
    return float(max(np.max(list(machine.ends.values())) for machine in machines if machine.ends))
