"""The simulator as its users see it: allocate memory, launch kernels of code objects, read results."""

from __future__ import annotations

import ctypes
import time
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ckmlir.codeobject import CodeObject, Kernel
from ckmlir.sim import launch as abi
from ckmlir.sim import state
from ckmlir.sim.checks.finding import CHECKERS, Finding
from ckmlir.sim.checks.initial_shadows import define_initial_registers
from ckmlir.sim.checks.monitor import Monitor, Place
from ckmlir.sim.checks.static import static_findings
from ckmlir.sim.checks.variants import flags_of
from ckmlir.sim.errors import CheckFailure, LaunchError, SimulationError
from ckmlir.sim.launch import Dimensions, KernelArgument, WaveBlocks
from ckmlir.sim.library import library
from ckmlir.sim.memory import UNNAMED, DeviceMemory, MemoryTable, aligned_bytes
from ckmlir.sim.program import Program
from ckmlir.sim.state import ErrorKind
from ckmlir.sim.statistics import RunStatistics, category_of

_TARGETS = ("gfx90a", "gfx942", "gfx950")
_ORDER_ROWS = 16
_SLICE_SECONDS = 0.2  # compiled code is left this often, so that an interrupt gets through
_RUN = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


_CHECKER_OF_ERROR = {
    ErrorKind.GLOBAL_BOUNDS: "memory",
    ErrorKind.LDS_BOUNDS: "memory",
    ErrorKind.SCRATCH_BOUNDS: "memory",
    ErrorKind.ENDLESS: "barrier",
}


class Simulator:
    """One simulated device.

    Args:
        target: Chip that code objects must be for; None accepts each of gfx90a, gfx942, gfx950.
        seed: Of the poison pattern and of the order in which waves run.
        poison: Fill new memory, LDS, VGPRs and SGPRs with a pattern; without it they hold zeros.
        branch_budget: Branches that the waves of one launch may take before it is stopped as endless.
        checks: Names of checkers (`ckmlir.sim.checks.CHECKERS`); `parse_checks` makes them from text.
    """

    def __init__(
        self,
        target: str | None = None,
        seed: int = 0,
        poison: bool = True,
        branch_budget: int = 1 << 32,
        checks: Iterable[str] = (),
    ) -> None:
        self.checks = frozenset(checks)
        if unknown := sorted(name for name in self.checks if name not in CHECKERS):
            raise LaunchError(f"no checker {', '.join(unknown)}; the simulator has {', '.join(CHECKERS)}")
        if target is not None and target not in _TARGETS:
            raise LaunchError(f"the simulator does not know {target!r}; it knows {', '.join(_TARGETS)}")
        self.target = target
        self.branch_budget = branch_budget
        self._random = np.random.default_rng(seed)
        self._poison = self._random.integers(0, 256, 1 << 16, np.uint8) if poison else np.zeros(1 << 16, np.uint8)
        self._table = MemoryTable("initialisation" in self.checks)
        self._programs: dict[tuple[bytes, str], Program] = {}
        self._static_findings: dict[tuple[bytes, str], list[Finding]] = {}

    def allocate(self, nbytes: int, name: str = UNNAMED, read_only: bool = False) -> DeviceMemory:
        """New device memory of this many bytes, with undefined contents. Reports call it `name`; the memory checker
        reports kernels that write to it when it is read-only."""
        if nbytes < 0:
            raise LaunchError(f"cannot allocate {nbytes} bytes")
        return DeviceMemory(self._table, int(nbytes), self._poison, name, read_only=read_only)

    def share(self, data: npt.NDArray[np.uint8], name: str) -> None:
        """Let kernels access the caller's own bytes where they lie; the caller keeps them alive."""
        self._table.add(data.ctypes.data, data.size, name)
        self._table.set_defined(data.ctypes.data, 0, data.size, True)

    def upload(self, array: npt.ArrayLike, name: str = UNNAMED, read_only: bool = False) -> DeviceMemory:
        """New device memory with the contents of an array."""
        data = np.ascontiguousarray(array)
        memory = self.allocate(data.nbytes, name, read_only)
        memory.write(data)
        return memory

    def program(self, code_object: CodeObject, kernel: str | None = None) -> Program:
        """A kernel made ready to run; made once for each code object and kernel.

        Raises:
            LaunchError: The code object is for another chip.
            CodeObjectError: There is no such kernel.
            UnsupportedInstruction: The kernel has instructions without semantics.
        """
        expected = self.target or code_object.target
        if code_object.target != expected or code_object.target not in _TARGETS:
            known = self.target or ", ".join(_TARGETS)
            raise LaunchError(f"the code object is for {code_object.target}; this simulator runs {known}")
        chosen = code_object.kernel(kernel)
        key = (code_object.data, chosen.name)
        if key not in self._programs:
            from ckmlir.sim import semantics  # fills the table of operations

            assert semantics
            self._programs[key] = Program(code_object, chosen, library(), self._table, flags_of(self.checks))
            self._static_findings[key] = static_findings(code_object, chosen.name, self.checks)
        return self._programs[key]

    def launch(
        self,
        code_object: CodeObject,
        kernel: str | None = None,
        grid: Dimensions = (1, 1, 1),
        block: Dimensions = (64, 1, 1),
        arguments: Sequence[KernelArgument] = (),
        dynamic_lds: int = 0,
    ) -> RunStatistics:
        """Run a kernel on a grid of workgroups and wait for it.

        Args:
            code_object: What was read from a .hsaco.
            kernel: Its name; may be left out when there is only one.
            grid: Workgroups in x, y, z.
            block: Work-items of a workgroup in x, y, z.
            arguments: Values of the explicit kernel arguments in order.
            dynamic_lds: Bytes of LDS in addition to the kernel's own.

        Raises:
            LaunchError: A wrong argument, grid, block, LDS size or chip.
            UnsupportedInstruction: The kernel has instructions without semantics; nothing has run.
            CheckFailure: Checkers found something; results are in memory if the kernel came to its end.
            SimulationError: The kernel accessed memory it may not, trapped, jumped astray or did not end.
        """
        program = self.program(code_object, kernel)
        chosen, target = program.kernel, code_object.target
        lds = chosen.descriptor.group_segment_size + dynamic_lds
        abi.check_geometry(chosen, grid, block, lds, target)
        workgroups = int(grid[0]) * int(grid[1]) * int(grid[2])
        if workgroups == 0:
            return RunStatistics()
        with _Launch(self, program, grid, block, arguments, dynamic_lds) as running:
            seconds = running.run(workgroups)
            statistics = running.statistics(workgroups, seconds)
            if findings := running.findings():
                raise CheckFailure(findings, statistics, running.lost_findings)
            return statistics


class _Launch:
    """The memory blocks of one launch; they leave the table of allocations when it ends."""

    def __init__(
        self,
        simulator: Simulator,
        program: Program,
        grid: Dimensions,
        block: Dimensions,
        arguments: Sequence[KernelArgument],
        dynamic_lds: int,
    ) -> None:
        self.simulator, self.program, self.grid = simulator, program, grid
        self.kernel: Kernel = program.kernel
        self.target = program.code_object.target
        self.waves = -(-block[0] * block[1] * block[2] // 64)
        static_lds = self.kernel.descriptor.group_segment_size
        self._owned: list[DeviceMemory] = []
        packed = abi.pack_arguments(self.kernel, arguments, grid, block, static_lds, dynamic_lds)
        self.kernarg = self._own(len(packed), "the kernel arguments", "constant")
        self.kernarg.write(np.frombuffer(packed, np.uint8))
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
        table, poison = self.simulator._table, self.simulator._poison
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
        shadowed = "initialisation" in self.simulator.checks
        self.template, self.blocks = WaveBlocks(self.waves, shadowed), WaveBlocks(self.waves, shadowed)
        self.template.bytes[:] = np.resize(self.simulator._poison, state.WAVE_BYTES)
        self.context = aligned_bytes(state.CONTEXT_BYTES).view(np.uint64)
        self.context[:] = 0
        registers = abi.user_registers(self.kernel, self.kernarg, self.packet, self.scratch.address, self.target)
        scratch = (self.scratch.address, self.lane_scratch)
        places = abi.fill_template(self.template, self.kernel, block, registers, scratch, self.target)
        context_address = int(self.context.ctypes.data)
        self.template.words(state.CONTEXT, 1, np.uint64)[:] = context_address
        first_record = int(self.program.records.ctypes.data) + self.program.start * state.RECORD_BYTES
        self.template.words(state.RESUME, 1, np.uint64)[:] = first_record
        if shadowed:
            define_initial_registers(self.template, self.kernel, len(registers), self.target)
            self.blocks.shadow[:], self.blocks.mixed[:] = self.template.shadow, self.template.mixed
        self.blocks.bytes[:] = self.template.bytes  # registers beyond the kernel's own are poisoned once
        table = self.simulator._table.update()
        self.monitor = Monitor(self.simulator.checks, self.simulator._table, self.names)
        self.program.prepare(int(table.ctypes.data))
        self.order = np.stack([self.simulator._random.permutation(self.waves) for _ in range(_ORDER_ROWS)]).astype(
            np.uint32
        )
        self.lds_template = np.resize(self.simulator._poison, max(self.lds.size, 1))
        descriptor = self.kernel.descriptor
        vector = min(descriptor.accum_offset, descriptor.allocated_vgprs, 256)
        accumulation = min(max(descriptor.allocated_vgprs - descriptor.accum_offset, 0), 256)
        fields = {
            state.LDS_BASE: self.lds.address, state.LDS_SIZE: self.lds.size,
            state.ALLOCATIONS: int(table.ctypes.data), state.ALLOCATION_COUNT: len(table),
            state.CODE_BASE: self.program.image.address, state.CODE_SIZE: self.program.image.size,
            state.CODE_INDEX: int(self.program.index.ctypes.data), state.RECORDS: int(self.program.records.ctypes.data),
            state.BRANCH_BUDGET: self.simulator.branch_budget,
            state.WAVES: self.blocks.address, state.WAVE_COUNT: self.waves,
            state.WAVE_ORDER: int(self.order.ctypes.data), state.WAVE_ORDER_ROWS: _ORDER_ROWS,
            state.TEMPLATE: self.template.address, state.LDS_TEMPLATE: int(self.lds_template.ctypes.data),
            state.GRID_X: self.grid[0], state.GRID_Y: self.grid[1],
            state.USED_VGPR_BYTES: vector * state.VGPR_BYTES, state.USED_AGPR_BYTES: accumulation * state.VGPR_BYTES,
            **self.monitor.context_fields(),
        }  # fmt: skip
        for offset, value in fields.items():
            self.context[offset // 8] = value
        for dimension, place in enumerate(places):
            self.context[state.WORKGROUP_ID_SGPR // 8 + dimension] = np.uint64(place & 0xFFFF_FFFF_FFFF_FFFF)

    def __enter__(self) -> _Launch:
        return self

    def __exit__(self, *_: object) -> None:
        for memory in self._owned:
            memory.free()

    def run(self, workgroups: int) -> float:
        """Run all workgroups, in slices; returns the seconds it took."""
        run = _RUN(library().scheduler())
        context = int(self.context.ctypes.data)
        start, done, size = time.perf_counter(), 0, 1
        while done < workgroups:
            until = min(done + size, workgroups)
            before = time.perf_counter()
            failed = run(context, done, until)
            if failed >= 0:
                raise self._error(failed)
            done = until
            if time.perf_counter() - before < _SLICE_SECONDS / 2:
                size *= 2
        return time.perf_counter() - start

    def _field(self, offset: int) -> int:
        return int(self.context[offset // 8])

    def statistics(self, workgroups: int, seconds: float) -> RunStatistics:
        counts = self.program.records[self.program.own, 1].tolist()
        categories: Counter[str] = Counter()
        profile = {}
        for instruction, count in zip(self.program.instructions, counts):
            if count:
                categories[category_of(instruction)] += count
                profile[instruction.address] = count
        return RunStatistics(
            wave_instructions=sum(counts),
            categories=dict(categories),
            mfma=categories["mfma"],
            bytes_read=self._field(state.READ_GLOBAL),
            bytes_written=self._field(state.WRITTEN_GLOBAL),
            scalar_bytes_read=self._field(state.READ_SCALAR),
            lds_bytes_read=self._field(state.READ_LDS),
            lds_bytes_written=self._field(state.WRITTEN_LDS),
            workgroups=workgroups,
            seconds=seconds,
            profile=profile,
        )

    # -- findings ----------------------------------------------------------------------------------------------------

    @property
    def lost_findings(self) -> int:
        return self._field(state.FINDINGS_LOST)

    def findings(self) -> list[Finding]:
        """What the checks have found so far; first what the code alone shows."""
        records = int(self.program.records.ctypes.data)
        place = Place(
            locate=self.program.locate,
            record_address=lambda number: records + number * state.RECORD_BYTES,
            coordinates=self._coordinates,
            wave_of_turn=lambda round, turn: int(self.order[round % _ORDER_ROWS, turn]),
        )
        static = self.simulator._static_findings[self.program.code_object.data, self.kernel.name]
        return static + self.monitor.findings(self._field(state.FINDING_COUNT), place)

    def _coordinates(self, group: int) -> Dimensions:
        x, rest = group % self.grid[0], group // self.grid[0]
        return x, rest % self.grid[1], rest // self.grid[1]

    # -- errors ------------------------------------------------------------------------------------------------------

    def _error(self, group: int) -> SimulationError:
        """The error with which a workgroup stopped: a finding where its checker is asked for."""
        checker = _CHECKER_OF_ERROR.get(self._field(state.ERROR_KIND), "")
        if checker not in self.simulator.checks:
            return SimulationError(self._describe_error(group))
        kernel, address, text, source = self.program.locate(self._field(state.ERROR_RECORD))
        lane = self._field(state.ERROR_LANE)
        found = self.simulator._table.find(self._field(state.ERROR_ADDRESS))
        finding = Finding(
            checker, self._problem(), kernel, address, text, source, self._coordinates(group),
            self._field(state.ERROR_WAVE), (lane,) if lane < 64 else (),
            None if found is None else self._field(state.ERROR_ADDRESS) - found.address,
            None if found is None else self.monitor.name_of(found),
        )  # fmt: skip
        return CheckFailure([*self.findings(), finding], None, self.lost_findings)

    def _describe_error(self, group: int) -> str:
        number = self.program.record_number(self._field(state.ERROR_RECORD))
        where = f"kernel {self.kernel.name}"
        if 0 <= number < len(self.program.records) - 1:
            _, address, text, source = self.program.locate(self._field(state.ERROR_RECORD))
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
            place = self.simulator._table.describe(address)
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
            return f"the launch took more than {self.simulator.branch_budget} branches" + self._waiting()
        return f"error {kind}"

    def _waiting(self) -> str:
        """Who waits for the wave that does not come to an end."""
        stopped = self.blocks.words(state.STATUS, 1)[:, 0]
        waves = [str(wave) for wave in np.flatnonzero(stopped == state.Status.BARRIER)]
        return f", while wave {', '.join(waves)} waits at a barrier" if waves else ""
