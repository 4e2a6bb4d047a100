"""What the timing model is fed with: the instructions that the waves of some workgroups executed, and their addresses.

A recording is a functional run of those workgroups alone, through handlers that write down what they do
(`ckmlir.sim.step_recording`). It knows no time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ckmlir.codeobject import CodeObject
from ckmlir.errors import CkmlirError
from ckmlir.sim import state
from ckmlir.sim.checks.layout import Use
from ckmlir.sim.decode import Instruction
from ckmlir.sim.errors import SimulationError
from ckmlir.sim.memory import aligned_bytes
from ckmlir.sim.state import ErrorKind
from ckmlir.sim.step_recording import ACCESS_ROW, NO_ADDRESS, STEP_ROW
from ckmlir.sim.timing.placement import place_addresses

if TYPE_CHECKING:
    from ckmlir.sim.launch import Dimensions, KernelArgument
    from ckmlir.sim.program import Program
    from ckmlir.sim.runner import Runner
    from ckmlir.sim.simulator import Simulator

STEP: Final = np.dtype(
    [("wave", "<u4"), ("instruction", "<u4"), ("lanes", "u1"), ("accesses", "u1"), ("access", "<i4")]
)
"""One executed instruction: wave (index in the trace), instruction (index in `Trace.program`), active lanes, how many
accesses it made and the row of the first in `Trace.accesses` (-1 without any)."""
ACCESS: Final = np.dtype([("bytes", "<u2"), ("kind", "u1"), ("store", "u1")])
"""One access of a wave: bytes of a lane (of a scalar access: of all), `AccessKind`, whether it writes."""

MOST_STEPS: Final = 1 << 24
MOST_ACCESSES: Final = 1 << 21


class AccessKind:
    """Values of ACCESS "kind"."""

    MEMORY = 0
    LDS = 1
    SCALAR = 2


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


@dataclass(frozen=True)
class Trace:
    """The waves of some workgroups of a launch.

    Attributes:
        target, kernel: Chip and name of the kernel.
        program: All instructions of the code, by address.
        steps: STEP rows, wave by wave, each in program order.
        wave_first: Wave w has the steps from wave_first[w] to before wave_first[w + 1].
        groups: For each wave, the number of its workgroup in the launch.
        addresses: u64 [accesses, 64]: where each lane's access starts, 2^64 - 1 for lanes without one. LDS counts from
            the workgroup's first byte; memory has addresses that are the same in every run. Scalar accesses: lane 0.
        accesses: ACCESS rows, one for each row of `addresses`.
        grid, block: Workgroups, and work-items of one, in x, y, z.
        vector_registers, scalar_registers: Allocated to a wave (vector: both kinds together).
        lds_bytes: Of a workgroup.
    """

    target: str
    kernel: str
    program: tuple[TracedInstruction, ...]
    steps: npt.NDArray[Any]
    wave_first: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64]
    addresses: npt.NDArray[np.uint64]
    accesses: npt.NDArray[Any]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    vector_registers: int
    scalar_registers: int
    lds_bytes: int

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


def record(
    simulator: Simulator,
    code_object: CodeObject,
    kernel: str | None = None,
    grid: Dimensions = (1, 1, 1),
    block: Dimensions = (64, 1, 1),
    arguments: Sequence[KernelArgument] = (),
    dynamic_lds: int = 0,
    workgroups: Iterable[int] = (0,),
    most_steps: int = MOST_STEPS,
) -> Trace:
    """Run some workgroups of a launch and write down what they execute. The other workgroups do not run.

    Args:
        simulator: Whose memory the arguments point to.
        code_object, kernel, grid, block, arguments, dynamic_lds: As for `Simulator.launch`.
        workgroups: Their numbers, x + grid x * (y + grid y * z).
        most_steps: Executed instructions that there is room for.

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
    with simulator.recording_runner(code_object, kernel, grid, block, arguments, dynamic_lds) as runner:
        return _Recording(runner, most_steps).run(chosen, dynamic_lds)


class _Recording:
    """The buffers of one recording."""

    def __init__(self, runner: Runner, most_steps: int) -> None:
        self.runner = runner
        # Pages that nobody touches cost nothing.
        self._steps = aligned_bytes(most_steps * STEP_ROW.itemsize).view(STEP_ROW)
        self._accesses = aligned_bytes(MOST_ACCESSES * ACCESS_ROW.itemsize).view(ACCESS_ROW)
        self._addresses = aligned_bytes(MOST_ACCESSES * 512).view(np.uint64).reshape(-1, 64)
        fields = {
            state.STEP_ROWS: int(self._steps.ctypes.data), state.STEP_CAPACITY: most_steps, state.STEP_COUNT: 0,
            state.ACCESS_ROWS: int(self._accesses.ctypes.data), state.ACCESS_CAPACITY: MOST_ACCESSES,
            state.ADDRESS_ROWS: int(self._addresses.ctypes.data), state.ACCESS_COUNT: 0,
        }  # fmt: skip
        for offset, value in fields.items():
            runner.context[offset // 8] = value

    def _count(self, offset: int) -> int:
        return int(self.runner.context[offset // 8])

    def run(self, workgroups: Sequence[int], dynamic_lds: int) -> Trace:
        ends: list[int] = []
        for number in workgroups:
            try:
                self.runner.run(number, number + 1)
            except SimulationError as error:
                if self._count(state.ERROR_KIND) == ErrorKind.RECORDING_FULL:
                    raise RecordingError(
                        f"the recording is full after {self._count(state.STEP_COUNT)} instructions and "
                        f"{self._count(state.ACCESS_COUNT)} accesses of {len(ends)} of {len(workgroups)} workgroups; "
                        "record fewer workgroups, or a problem with a shorter loop"
                    ) from error
                raise
            ends.append(self._count(state.STEP_COUNT))
        return self._trace(workgroups, np.diff([0, *ends]), dynamic_lds)

    def _trace(self, workgroups: Sequence[int], lengths: npt.NDArray[np.int64], dynamic_lds: int) -> Trace:
        runner, program = self.runner, self.runner.program
        raw = self._steps[: self._count(state.STEP_COUNT)]
        count = self._count(state.ACCESS_COUNT)
        waves = len(workgroups) * runner.waves
        groups = np.repeat(np.arange(len(workgroups)), lengths)
        wave = (raw["wave"] + groups * runner.waves).astype(np.uint32 if waves >= 1 << 16 else np.uint16)
        order = np.argsort(wave, kind="stable")
        steps = np.zeros(len(raw), STEP)
        first = raw["accesses_before"].astype(np.int64)
        made = np.diff(first, append=count)
        steps["wave"], steps["instruction"], steps["lanes"] = (
            wave[order],
            raw["instruction"][order],
            raw["lanes"][order],
        )
        steps["accesses"] = made[order]
        steps["access"] = np.where(made > 0, first, -1)[order]
        addresses = self._addresses[:count]
        descriptor = runner.kernel.descriptor
        return Trace(
            target=runner.target,
            kernel=runner.kernel.name,
            program=traced_program(program),
            steps=steps,
            wave_first=np.searchsorted(wave[order], np.arange(waves + 1)).astype(np.int64),
            groups=np.repeat(np.array(workgroups, np.int64), runner.waves),
            addresses=addresses,
            accesses=self._describe(addresses, self._accesses[:count], steps),
            grid=(int(runner.grid[0]), int(runner.grid[1]), int(runner.grid[2])),
            block=(int(runner.block[0]), int(runner.block[1]), int(runner.block[2])),
            vector_registers=descriptor.allocated_vgprs,
            scalar_registers=descriptor.allocated_sgprs,
            lds_bytes=descriptor.group_segment_size + dynamic_lds,
        )

    def _describe(
        self, addresses: npt.NDArray[np.uint64], raw: npt.NDArray[Any], steps: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        """The accesses; also moves `addresses` to where they are the same in every run."""
        in_lds = np.zeros(len(addresses), np.uint8)
        place_addresses(addresses, *self._places(), in_lds)
        accesses = np.zeros(len(addresses), ACCESS)
        accesses["bytes"], accesses["store"] = raw["bytes"], raw["use"] != Use.READ
        scalar = np.array([one.encoding == "SMEM" for one in self.runner.program.instructions], np.bool_)
        made = steps[(steps["access"] >= 0) & scalar[steps["instruction"]]]
        accesses["kind"] = np.where(in_lds, AccessKind.LDS, AccessKind.MEMORY)
        accesses["kind"][made["access"]] = AccessKind.SCALAR
        return accesses

    def _places(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.uint64], int]:
        """Starts, ends and places of all allocations, and which is LDS. Places follow from sizes and the order of
        allocation, not from where the host has them."""
        table = self.runner.surroundings.table
        sizes = {one.address: one.size for one in table.allocations()}
        placed, place = {}, _FIRST_PLACE
        for address in table:
            placed[address] = place
            place += -(-sizes[address] // _PLACE_STEP) * _PLACE_STEP
        starts = sorted(placed)
        lds = starts.index(self.runner.lds.address) if self.runner.lds.address in placed else -1
        if lds >= 0:
            placed[starts[lds]] = 0
        return (
            np.array(starts, np.uint64),
            np.array([start + sizes[start] for start in starts], np.uint64),
            np.array([placed[start] for start in starts], np.uint64),
            lds,
        )


_FIRST_PLACE = 1 << 32
_PLACE_STEP = 1 << 12


def traced_program(program: Program) -> tuple[TracedInstruction, ...]:
    """The instructions of a program as a trace has them."""
    start = program.kernel.address
    return tuple(
        TracedInstruction(one.address - start, one.mnemonic, one, program.line_of(one.address))
        for one in program.instructions
    )


__all__ = ["ACCESS", "NO_ADDRESS", "STEP", "AccessKind", "RecordingError", "Trace", "TracedInstruction", "record"]
