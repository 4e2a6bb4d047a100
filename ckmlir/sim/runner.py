"""Running workgroups of a launch: the memory of one workgroup and its waves, errors, findings, counts."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ckmlir.codeobject import Kernel
from ckmlir.sim import launch as abi
from ckmlir.sim import state
from ckmlir.sim.checks.finding import Finding
from ckmlir.sim.checks.initial_shadows import define_initial_registers
from ckmlir.sim.checks.layout import INITIALISATION, INTERLEAVING
from ckmlir.sim.checks.monitor import Monitor
from ckmlir.sim.checks.place import Place
from ckmlir.sim.checks.promises import broken_promises
from ckmlir.sim.checks.race_loops import with_loops
from ckmlir.sim.checks.race_stores import with_untold_stores
from ckmlir.sim.checks.variants import flags_of
from ckmlir.sim.checks.wait_findings import seen_or_possible
from ckmlir.sim.checks.wait_layout import chunk_shift
from ckmlir.sim.errors import CheckFailure, SimulationError
from ckmlir.sim.interleaving import InOrder, Interleaving
from ckmlir.sim.launch import Dimensions, KernelArgument, WaveBlocks
from ckmlir.sim.library import library
from ckmlir.sim.limits import PATIENCE
from ckmlir.sim.memory import DeviceMemory, MemoryTable, aligned_bytes
from ckmlir.sim.program import Program
from ckmlir.sim.scheduler import PAUSED
from ckmlir.sim.state import ErrorKind
from ckmlir.sim.statistics import RunStatistics
from ckmlir.sim.wave_turns import turn_lengths

_ORDER_ROWS = 16
_RUN = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


_CHECKER_OF_ERROR = {
    ErrorKind.GLOBAL_BOUNDS: "memory",
    ErrorKind.LDS_BOUNDS: "memory",
    ErrorKind.SCRATCH_BOUNDS: "memory",
    ErrorKind.ENDLESS: "barrier",
}


class Surroundings(Struct, frozen=True):
    """What all launches of a simulator have in common."""

    table: MemoryTable
    poison: npt.NDArray[np.uint8]
    random: np.random.Generator
    checks: frozenset[str]
    branch_budget: int
    patience: float


class Observer(Protocol):
    """Who takes part in launches: a debugger or a trace (`debugging/`)."""

    def watching(self, runner: Runner) -> AbstractContextManager[None]:
        """What is entered while a runner runs."""


class Runner:
    """Runs workgroups of one launch, one after another. Its memory leaves the table of allocations at its end."""

    def __init__(
        self,
        surroundings: Surroundings,
        program: Program,
        grid: Dimensions,
        block: Dimensions,
        arguments: Sequence[KernelArgument],
        dynamic_lds: int,
        known: Sequence[Finding] = (),
    ) -> None:
        """Arguments as for `Simulator.launch`; `known` is what the code alone shows to the checks."""
        self.surroundings, self.program, self.known = surroundings, program, known
        self.grid, self.block = grid, block
        self.kernel: Kernel = program.kernel
        self.target = program.code_object.target
        self.waves = -(-block[0] * block[1] * block[2] // 64)
        self._interleaving: Interleaving | InOrder | None = None
        static_lds = self.kernel.descriptor.group_segment_size
        self._owned: list[DeviceMemory] = []
        packed = abi.pack_arguments(self.kernel, arguments, grid, block, static_lds, dynamic_lds)
        self.kernarg = self._own(len(packed), "the kernel arguments", "constant")
        self.kernarg.write(np.frombuffer(packed, np.uint8))
        if "promise" in self.surroundings.checks:
            self.known = [*self.known, *broken_promises(self.kernel, packed, grid, self.surroundings.table)]
        self.lds = self._own(static_lds + dynamic_lds, "LDS", "lds")
        self.packet = self._own(256, "the dispatch packet", "constant")
        self.packet.write(
            np.frombuffer(abi.dispatch_packet(self.kernel, grid, block, self.kernarg.address, self.lds.size), np.uint8)
        )
        self.lane_scratch = self._lane_scratch()
        self.scratch = self._own(self.lane_scratch * 64 * self.waves, "scratch", "scratch")
        self.names = abi.argument_names(self.kernel, arguments)
        self._make_blocks(block)

    def _own(self, size: int, name: str, kind: str) -> DeviceMemory:
        table, poison = self.surroundings.table, self.surroundings.poison
        memory = DeviceMemory(table, size, poison, name, kind, read_only=kind == "constant")
        self._owned.append(memory)
        return memory

    def _lane_scratch(self) -> int:
        """Private bytes a lane; a kernel with a dynamic stack gets room for it (the HIP runtime's default is 16
        KiB)."""
        size = self.kernel.descriptor.private_segment_size
        if self.kernel.metadata.uses_dynamic_stack:
            size = max(size, 16 << 10)
        return -(-size // 16) * 16

    def _make_blocks(self, block: Dimensions) -> None:
        flags = flags_of(self.surroundings.checks)
        shadowed = flags & INITIALISATION
        self.template, self.blocks = WaveBlocks(self.waves, shadowed), WaveBlocks(self.waves, flags)
        self.template.bytes[:] = np.resize(self.surroundings.poison, state.WAVE_BYTES)
        self.context = aligned_bytes(state.CONTEXT_BYTES).view(np.uint64)
        self.context[:] = 0
        self.table = table = self.surroundings.table.update()  # kept alive as long as the code may read it
        self.records = self.program.fresh_records(int(table.ctypes.data))
        first_record = self.record_address(self.program.start)
        registers = abi.user_registers(self.kernel, self.kernarg, self.packet, self.scratch.address, self.target)
        scratch = (self.scratch.address, self.lane_scratch)
        places = abi.fill_template(self.template, self.kernel, block, registers, scratch, self.target)
        context_address = int(self.context.ctypes.data)
        self.template.words(state.CONTEXT, 1, np.uint64)[:] = context_address
        self.template.words(state.RESUME, 1, np.uint64)[:] = first_record
        if shadowed:
            define_initial_registers(self.template, self.kernel, len(registers), self.target)
            self.blocks.shadow[:], self.blocks.mixed[:] = self.template.shadow, self.template.mixed
        self.blocks.bytes[:] = self.template.bytes  # registers beyond the kernel's own are poisoned once
        self.monitor = Monitor(self.surroundings.checks, self.surroundings.table, self.names)
        self.order = np.stack([self.surroundings.random.permutation(self.waves) for _ in range(_ORDER_ROWS)]).astype(
            np.uint32
        )
        interleaved = flags & INTERLEAVING
        self.turn_lengths = turn_lengths(self.surroundings.random) if interleaved else np.zeros(0, np.uint64)
        self.lds_template = np.resize(self.surroundings.poison, max(self.lds.size, 1))
        descriptor = self.kernel.descriptor
        vector = min(descriptor.accum_offset, descriptor.allocated_vgprs, 256)
        accumulation = min(max(descriptor.allocated_vgprs - descriptor.accum_offset, 0), 256)
        fields = {
            state.LDS_BASE: self.lds.address, state.LDS_SIZE: self.lds.size,
            state.ALLOCATIONS: int(table.ctypes.data), state.ALLOCATION_COUNT: len(table),
            state.CODE_BASE: self.program.image.address, state.CODE_SIZE: self.program.image.size,
            state.CODE_INDEX: int(self.program.index.ctypes.data), state.RECORDS: self.record_address(0),
            state.BRANCH_BUDGET: self.surroundings.branch_budget,
            state.WAVES: self.blocks.address, state.WAVE_COUNT: self.waves,
            state.WAVE_ORDER: int(self.order.ctypes.data), state.WAVE_ORDER_ROWS: _ORDER_ROWS,
            state.TEMPLATE: self.template.address, state.LDS_TEMPLATE: int(self.lds_template.ctypes.data),
            state.TURN_LENGTHS: int(self.turn_lengths.ctypes.data) if interleaved else 0,
            state.GRID_X: self.grid[0], state.GRID_Y: self.grid[1],
            state.WAIT_CHUNK_SHIFT: chunk_shift(self.lds.size),
            state.USED_VGPR_BYTES: vector * state.VGPR_BYTES, state.USED_AGPR_BYTES: accumulation * state.VGPR_BYTES,
            **self.monitor.context_fields(),
        }  # fmt: skip
        for offset, value in fields.items():
            self.context[offset // 8] = value
        for dimension, place in enumerate(places):
            self.context[state.WORKGROUP_ID_SGPR // 8 + dimension] = np.uint64(place & 0xFFFF_FFFF_FFFF_FFFF)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        for memory in self._owned:
            memory.free()

    def run(self, first: int, end: int) -> None:
        """Run the workgroups from `first` to before `end`, or fewer where `interrupt` is called meanwhile."""
        if self._interleaving is not None:
            self._interleaving.run(first, end)
            return
        failed = _RUN(library().scheduler())(int(self.context.ctypes.data), first, end, 0)
        if failed >= 0:
            raise self._error(failed)

    def interleave(self, groups: int) -> None:
        """Let the workgroups of the launch, so many, wait for each other from now on; the race check then knows what
        their atomic accesses order."""
        self._interleaving = Interleaving(self, groups, self.surroundings.random, pauses=self.program.pauses)

    def keep_order(self) -> None:
        """Let the workgroups run one after the other from now on, though they may wait for those before them."""
        self._interleaving = InOrder(self)

    def advance(self, group: int, *, resumed: bool) -> bool:
        """Run a workgroup, from its beginning or on from where it paused; whether it has ended."""
        outcome = _RUN(library().scheduler())(int(self.context.ctypes.data), group, group + 1, int(resumed))
        if outcome >= 0:
            raise self._error(outcome)
        return int(outcome) != PAUSED

    def own_memory(self) -> list[npt.NDArray[np.uint8]]:
        """All that a workgroup has of its own: its waves' state, with what checks keep of it, LDS and scratch."""
        shadows = [self.surroundings.table.shadows.get(memory.address) for memory in (self.lds, self.scratch)]
        return [
            *self.blocks.kept,
            *(memory.bytes for memory in (self.lds, self.scratch)),
            *(shadow for shadow in shadows if shadow is not None),
        ]

    def interrupt(self) -> None:
        """Stop at the next branch or workgroup; for other threads."""
        self.context[state.STOP // 8] = state.Stop.INTERRUPTED

    def lose_patience(self) -> None:
        """Give the launch up at the next branch, as endless; for other threads."""
        self.context[state.STOP // 8] = state.Stop.TOO_LONG

    @property
    def current_group(self) -> int:
        """Number of the workgroup that runs."""
        return self._field(state.CURRENT_GROUP)

    @property
    def progress(self) -> int:
        """A number that changes when workgroups begin or end."""
        return self.current_group if self._interleaving is None else self._interleaving.progress

    def _field(self, offset: int) -> int:
        return int(self.context[offset // 8])

    def statistics(self) -> RunStatistics:
        """What the workgroups did, without their number and time."""
        counts = self.records[self.program.own, 1].astype(np.int64)
        categories = {name: count for name, members in self.program.categories if (count := int(counts[members].sum()))}
        executed = np.flatnonzero(counts)
        return RunStatistics(
            wave_instructions=int(counts.sum()),
            categories=categories,
            mfma=categories.get("mfma", 0),
            bytes_read=self._field(state.READ_GLOBAL),
            bytes_written=self._field(state.WRITTEN_GLOBAL),
            scalar_bytes_read=self._field(state.READ_SCALAR),
            lds_bytes_read=self._field(state.READ_LDS),
            lds_bytes_written=self._field(state.WRITTEN_LDS),
            profile=dict(zip(self.program.addresses[executed].tolist(), counts[executed].tolist())),
        )

    # -- findings ----------------------------------------------------------------------------------------------------

    @property
    def lost_findings(self) -> int:
        return self._field(state.FINDINGS_LOST)

    @property
    def finding_count(self) -> int:
        """What compiled checks have noted so far."""
        return self._field(state.FINDING_COUNT)

    @property
    def current_workgroup(self) -> Dimensions:
        """Coordinates of the workgroup that runs."""
        return self._coordinates(self.current_group)

    def findings(self) -> list[Finding]:
        """What the checks have found so far; first what the code alone shows.

        Raises:
            SimulationError: The race check had no room for what it has to remember.
        """
        if missing := self.monitor.lines.missing():
            raise SimulationError(missing)
        place = Place(
            locate=self._locate,
            record_address=self.record_address,
            coordinates=self._coordinates,
            wave_of_turn=lambda round, turn: int(self.order[round % _ORDER_ROWS, turn]),
            span=0 if self._interleaving is None else self._field(state.TURN_SPAN),
        )
        seen = self.monitor.findings(self._field(state.FINDING_COUNT), place)
        for advised in (with_loops, with_untold_stores):
            seen = advised(seen, self.program.instructions, self.kernel.address)
        return seen_or_possible(self.known, seen, self._executed)

    @property
    def executed(self) -> int:
        """Wave-instructions executed so far."""
        return int(self.records[self.program.own, 1].sum())

    def _executed(self) -> list[int]:
        """Byte offsets from the kernel's start of the instructions that have been executed."""
        counts = self.records[self.program.own, 1].tolist()
        start = self.kernel.address
        return [one.address - start for one, count in zip(self.program.instructions, counts) if count]

    def record_number(self, address: int) -> int:
        """Of the record at an address."""
        return (address - self.record_address(0)) // state.RECORD_BYTES

    def record_address(self, number: int) -> int:
        """Of a record by number."""
        return int(self.records.ctypes.data) + number * state.RECORD_BYTES

    def _locate(self, record: int) -> tuple[str, int, str, tuple[str, int] | None]:
        """(kernel, byte offset from its start, text, source) of the instruction whose record is at an address."""
        return self.program.locate(self.record_number(record))

    def _coordinates(self, group: int) -> Dimensions:
        x, rest = group % self.grid[0], group // self.grid[0]
        return x, rest % self.grid[1], rest // self.grid[1]

    # -- errors ------------------------------------------------------------------------------------------------------

    def error_of(self, wave: int) -> SimulationError:
        """The error of a wave that has just failed, before the scheduler knows."""
        self.context[state.ERROR_WAVE // 8] = wave
        return self._error(self._field(state.CURRENT_GROUP))

    def _error(self, group: int) -> SimulationError:
        """The error with which a workgroup stopped: a finding where its checker is asked for."""
        checker = _CHECKER_OF_ERROR.get(self._field(state.ERROR_KIND), "")
        if checker not in self.surroundings.checks:
            return SimulationError(self._describe_error(group))
        kernel, address, text, source = self._locate(self._field(state.ERROR_RECORD))
        lane = self._field(state.ERROR_LANE)
        found = self.surroundings.table.find(self._field(state.ERROR_ADDRESS))
        finding = Finding(
            checker, self._problem(), kernel, address, text, source, self._coordinates(group),
            self._field(state.ERROR_WAVE), (lane,) if lane < 64 else (),
            None if found is None else self._field(state.ERROR_ADDRESS) - found.address,
            None if found is None else self.monitor.name_of(found),
        )  # fmt: skip
        return CheckFailure([*self.findings(), finding], None, self.lost_findings)

    def _describe_error(self, group: int) -> str:
        number = self.record_number(self._field(state.ERROR_RECORD))
        where = f"kernel {self.kernel.name}"
        if 0 <= number < len(self.records) - 1:
            _, address, text, source = self._locate(self._field(state.ERROR_RECORD))
            where += f", {text} at 0x{address:x}" + (f" from {source[0]}:{source[1]}" if source else "")
        where += f", workgroup {self._coordinates(group)}, wave {self._field(state.ERROR_WAVE)}"
        lane = self._field(state.ERROR_LANE)
        where += f", lane {lane}" if lane < 64 else ""
        return f"{self._problem()} ({where})"

    def _problem(self) -> str:
        kind, address, size = (
            self._field(state.ERROR_KIND),
            self._field(state.ERROR_ADDRESS),
            self._field(state.ERROR_SIZE),
        )
        access = f"access of {size} bytes at"
        if kind == ErrorKind.GLOBAL_BOUNDS:
            place = self.surroundings.table.describe(address)
            return f"{access} address 0x{address:x} is outside of all allocations: {place}"
        if kind == ErrorKind.LDS_BOUNDS:
            return (
                f"{access} LDS address {address - self.lds.address} is outside of the workgroup's {self.lds.size} bytes"
            )
        if kind == ErrorKind.SCRATCH_BOUNDS:
            return f"{access} scratch offset {address} is outside of the lane's {self.lane_scratch} bytes"
        if kind == ErrorKind.BAD_BRANCH:
            return f"jump to 0x{address:x}, where the kernel has no instruction"
        if kind == ErrorKind.TRAP:
            return "execution ran past the end of the code" if address == 0xDEAD else f"s_trap {address}"
        if kind == ErrorKind.ENDLESS:
            return self._endless() + self._waiting()
        return f"error {kind}"

    def _endless(self) -> str:
        stop = self._field(state.STOP)
        if stop == state.Stop.INTERRUPTED:
            return "interrupted"
        if stop == state.Stop.TOO_LONG:
            return (
                f"one workgroup took more than {self.surroundings.patience:g} s, and may never end; "
                f"{self._why_it_may_wait()}Simulator(patience=…) or {PATIENCE}=… allows more seconds, or inf"
            )
        return (
            f"the launch took more than {self.surroundings.branch_budget} branches; "
            "Simulator(branch_budget=…) allows more"
        )

    def _why_it_may_wait(self) -> str:
        """Of kernels that look at what other workgroups write, why these may not come to write it."""
        if not self.program.reads_flags:
            return ""
        if not self.program.pauses:
            return "where it waits for another workgroup it has to pause (s_sleep), since others run only then; "
        return ""

    def _waiting(self) -> str:
        """Who waits for the wave that does not come to an end."""
        stopped = self.blocks.words(state.STATUS, 1)[:, 0]
        waves = [str(wave) for wave in np.flatnonzero(stopped == state.Status.BARRIER)]
        return f", while wave {', '.join(waves)} waits at a barrier" if waves else ""
