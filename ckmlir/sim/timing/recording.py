"""What the timing model is fed with: the instructions that the waves of some workgroups executed, and their addresses.

A recording is a functional run of those workgroups, through handlers that write down what they do
(`ckmlir.sim.step_recording`): straight runs of instructions, and patterns of addresses. It knows no time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ckmlir.codeobject import CodeObject
from ckmlir.errors import CkmlirError
from ckmlir.sim import state
from ckmlir.sim.decode import Instruction
from ckmlir.sim.errors import SimulationError
from ckmlir.sim.memory import aligned_bytes
from ckmlir.sim.parallel import watch
from ckmlir.sim.state import ErrorKind
from ckmlir.sim.step_recording import ACCESS_ROW, NO_ADDRESS, RUN_ROW, TABLE_BITS
from ckmlir.sim.timing.access_patterns import ACCESS, NO_LANES, AccessKind, lanes_of
from ckmlir.sim.timing.lengths import CountsWorkgroups, Lengths
from ckmlir.sim.timing.placement import place_accesses, places_of
from ckmlir.sim.timing.recorded_runs import STEP, steps_of_runs

if TYPE_CHECKING:
    from ckmlir.sim.launch import Dimensions, KernelArgument
    from ckmlir.sim.program import Program
    from ckmlir.sim.runner import Runner

MOST_STEPS: Final = 1 << 24
MOST_ACCESSES: Final = 1 << 21


class RecordingError(CkmlirError):
    """There is nothing to record, or too much."""


class TracedInstruction(NamedTuple):
    """An instruction of the program of a trace.

    Attributes:
        address: Byte offset from the kernel's start.
        mnemonic: LLVM's name.
        instruction: As decoded.
        source: File and line, where the code object has a line table.
        tile_op: The tile operation that it comes from, where somebody knows.
    """

    address: int
    mnemonic: str
    instruction: Instruction
    source: tuple[str, int] | None
    tile_op: str | None = None


class Trace(Struct, frozen=True, dict=True):
    """The waves of some workgroups of a launch.

    Attributes:
        target, kernel: Chip and name of the kernel.
        program: All instructions of the code, by address.
        steps: STEP rows, wave by wave, each in program order.
        wave_first: Wave w has the steps from wave_first[w] to before wave_first[w + 1].
        groups: For each wave, the number of its workgroup in the launch.
        accesses: ACCESS rows. LDS counts from the workgroup's first byte; memory has addresses that are the same in
            every run. Scalar accesses are made by lane 0.
        patterns: u64 [patterns, 64]: how far from an access's base the access of each lane starts, 2^64 - 1 for lanes
            without one.
        grid, block: Workgroups, and work-items of one, in x, y, z.
        vector_registers, scalar_registers: Allocated to a wave (vector: both kinds together).
        lds_bytes: Of a workgroup.
        lengths: How long all workgroups of the launch are, where they are not alike.
    """

    target: str
    kernel: str
    program: tuple[TracedInstruction, ...]
    steps: npt.NDArray[Any]
    wave_first: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64]
    accesses: npt.NDArray[Any]
    patterns: npt.NDArray[np.uint64]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    vector_registers: int
    scalar_registers: int
    lds_bytes: int
    lengths: Lengths | None = None

    @cached_property
    def addresses(self) -> npt.NDArray[np.uint64]:
        """u64 [accesses, 64]: where each lane's access starts, 2^64 - 1 for lanes without one. Made when asked for."""
        return lanes_of(self.accesses, self.patterns)

    @property
    def waves(self) -> int:
        """How many waves there are."""
        return len(self.groups)

    @property
    def waves_a_group(self) -> int:
        """Waves of a workgroup."""
        return -(-self.block[0] * self.block[1] * self.block[2] // 64)

    @property
    def workgroups(self) -> tuple[int, ...]:
        """Numbers of the recorded workgroups, in their order."""
        return tuple(dict.fromkeys(self.groups.tolist()))

    def steps_of(self, wave: int) -> npt.NDArray[Any]:
        """The steps of one wave."""
        return self.steps[self.wave_first[wave] : self.wave_first[wave + 1]]


class RecordsLaunches(CountsWorkgroups, Protocol):
    """What a recording asks of a simulator."""

    def recording_runner(
        self,
        code_object: CodeObject,
        kernel: str | None,
        grid: Dimensions,
        block: Dimensions,
        arguments: Sequence[KernelArgument],
        dynamic_lds: int,
    ) -> Runner:
        """A runner whose handlers write down what they execute."""


def record(
    simulator: RecordsLaunches,
    code_object: CodeObject,
    kernel: str | None = None,
    grid: Dimensions = (1, 1, 1),
    block: Dimensions = (64, 1, 1),
    arguments: Sequence[KernelArgument] = (),
    dynamic_lds: int = 0,
    workgroups: Iterable[int] = (0,),
    most_steps: int = MOST_STEPS,
    *,
    in_order: bool = False,
) -> Trace:
    """Run some workgroups of a launch and write down what they execute. The other workgroups do not run.

    Args:
        simulator: Whose memory the arguments point to.
        code_object, kernel, grid, block, arguments, dynamic_lds: As for `Simulator.launch`.
        workgroups: Their numbers, x + grid x * (y + grid y * z).
        most_steps: Executed instructions that there is room for.
        in_order: In the order of their numbers, and all that come before them run too, since they may wait for these.

    Raises:
        RecordingError: No such workgroup, or more steps than there is room for.
        LaunchError, UnsupportedInstruction, SimulationError: As `Simulator.launch`.
    """
    chosen = tuple(dict.fromkeys(int(number) for number in workgroups))
    count = int(grid[0]) * int(grid[1]) * int(grid[2])
    if wrong := [number for number in chosen if not 0 <= number < count]:
        raise RecordingError(f"workgroup {wrong[0]} cannot be recorded: the launch has {count}, numbered from 0")
    if not chosen:
        raise RecordingError("no workgroup to record")
    launch = (code_object, kernel, grid, block, arguments, dynamic_lds)
    with (
        simulator.recording_runner(*launch) as runner,
        simulator.counting_runner(*launch) if in_order else nullcontext() as others,
    ):
        for one in (runner, others):
            if in_order and one is not None:
                one.keep_order()
        return _Recording(runner, most_steps, others).run(sorted(chosen) if in_order else chosen, dynamic_lds)


class _Recording:
    """The buffers of one recording. `others`: runs workgroups between those that are recorded, without recording."""

    def __init__(self, runner: Runner, most_steps: int, others: Runner | None = None) -> None:
        self.runner, self._others = runner, others
        # Pages that nobody touches cost nothing.
        self._runs = aligned_bytes(most_steps * RUN_ROW.itemsize).view(RUN_ROW)
        self._accesses = aligned_bytes(MOST_ACCESSES * ACCESS_ROW.itemsize).view(ACCESS_ROW)
        self._patterns = aligned_bytes((MOST_ACCESSES + 1) * NO_LANES.nbytes).view(np.uint64).reshape(-1, 64)
        self._patterns[0] = NO_LANES
        self._table = np.zeros(1 << TABLE_BITS, np.uint32)
        fields = {
            state.RUN_ROWS: int(self._runs.ctypes.data), state.RUN_COUNT: 0,
            state.STEP_CAPACITY: most_steps, state.STEP_COUNT: 0,
            state.ACCESS_ROWS: int(self._accesses.ctypes.data), state.ACCESS_CAPACITY: MOST_ACCESSES,
            state.ACCESS_COUNT: 0, state.PATTERN_TABLE: int(self._table.ctypes.data),
            state.PATTERN_ROWS: int(self._patterns.ctypes.data), state.PATTERN_COUNT: 1,
        }  # fmt: skip
        for offset, value in fields.items():
            runner.context[offset // 8] = value

    def _count(self, offset: int) -> int:
        return int(self.runner.context[offset // 8])

    def run(self, workgroups: Sequence[int], dynamic_lds: int) -> Trace:
        behind = 0
        for first, end in _stretches(workgroups):
            if self._others is not None:
                watch([self._others], [[(behind, first)]])
            behind = end
            try:
                watch([self.runner], [[(first, end)]])
            except SimulationError as error:
                if self._count(state.ERROR_KIND) == ErrorKind.RECORDING_FULL:
                    done = workgroups.index(self._count(state.CURRENT_GROUP))
                    raise RecordingError(
                        f"the recording is full after {self._count(state.STEP_COUNT)} instructions and "
                        f"{self._count(state.ACCESS_COUNT)} accesses of {done} of {len(workgroups)} workgroups; "
                        "record fewer workgroups, or a problem with a shorter loop"
                    ) from error
                raise
        return self._trace(workgroups, dynamic_lds)

    def _trace(self, workgroups: Sequence[int], dynamic_lds: int) -> Trace:
        runner, code = self.runner, recorded_code(self.runner.program)
        raw = self._accesses[: self._count(state.ACCESS_COUNT)]
        patterns = self._patterns[: self._count(state.PATTERN_COUNT)]
        places = places_of(runner.surroundings.table, runner.lds.address)
        accesses, patterns = place_accesses(raw, patterns, places, code.is_scalar)
        runs = self._runs[: self._count(state.RUN_COUNT)]
        waves = len(workgroups) * runner.waves
        steps, wave_first = steps_of_runs(runs, waves, runner.waves, code.starts, code.instruction[raw["record"]])
        assert len(steps) == self._count(state.STEP_COUNT)
        descriptor = runner.kernel.descriptor
        return Trace(
            target=runner.target,
            kernel=runner.kernel.name,
            program=code.program,
            steps=steps,
            wave_first=wave_first,
            groups=np.repeat(np.array(workgroups, np.int64), runner.waves),
            accesses=accesses,
            patterns=patterns,
            grid=(int(runner.grid[0]), int(runner.grid[1]), int(runner.grid[2])),
            block=(int(runner.block[0]), int(runner.block[1]), int(runner.block[2])),
            vector_registers=descriptor.allocated_vgprs,
            scalar_registers=descriptor.allocated_sgprs,
            lds_bytes=descriptor.group_segment_size + dynamic_lds,
        )


def _stretches(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ranges of numbers that follow each other."""
    first = 0
    for place in range(1, len(numbers) + 1):
        if place == len(numbers) or numbers[place] != numbers[place - 1] + 1:
            yield numbers[first], numbers[place - 1] + 1
            first = place


class RecordedCode(NamedTuple):
    """What recordings of a program have in common.

    Attributes:
        program: As a trace has it.
        starts: Instructions that begin a straight run, and behind them how many there are.
        instruction: By record of the program, the instruction that it belongs to.
        is_scalar: By record, whether that is an access to memory by way of the scalar cache.
    """

    program: tuple[TracedInstruction, ...]
    starts: npt.NDArray[np.int64]
    instruction: npt.NDArray[np.int64]
    is_scalar: npt.NDArray[np.bool_]


_codes: Final[WeakKeyDictionary[Program, RecordedCode]] = WeakKeyDictionary()


def recorded_code(program: Program) -> RecordedCode:
    """Made once for each program."""
    if program not in _codes:
        start = program.kernel.address
        traced = tuple(
            TracedInstruction(one.address - start, one.mnemonic, one, program.code_object.line_of(one.address))
            for one in program.instructions
        )
        numbers = [program.instruction_number(record) for record in range(len(program.records) - 1)]
        scalar = [program.instructions[number].encoding == "SMEM" for number in numbers]
        starts = [*program.run_starts, len(traced)]
        _codes[program] = RecordedCode(
            traced, np.array(starts, np.int64), np.array(numbers, np.int64), np.array(scalar, np.bool_)
        )
    return _codes[program]


__all__ = ["ACCESS", "NO_ADDRESS", "STEP", "AccessKind", "RecordingError", "Trace", "TracedInstruction", "record"]
