"""The simulator as its users see it: allocate memory, launch kernels of code objects, read results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from ckmlir.codeobject import Argument, CodeObject
from ckmlir.sim import launch as abi
from ckmlir.sim.checks import layout
from ckmlir.sim.checks.finding import Finding, parse_checks
from ckmlir.sim.checks.static import static_findings
from ckmlir.sim.checks.variants import flags_of
from ckmlir.sim.chips import TARGETS
from ckmlir.sim.errors import CheckFailure, LaunchError
from ckmlir.sim.interleaving import MOST_UNDER_WAY
from ckmlir.sim.launch import Dimensions, KernelArgument
from ckmlir.sim.library import library
from ckmlir.sim.limits import default_patience
from ckmlir.sim.memory import UNNAMED, DeviceMemory, MemoryTable, native_array
from ckmlir.sim.parallel import run_workgroups
from ckmlir.sim.program import Program
from ckmlir.sim.runner import Observer, Runner, Surroundings
from ckmlir.sim.statistics import RunStatistics, total

if TYPE_CHECKING:
    from ckmlir.sim.timing.launch_model import LaunchModel


class Simulator:
    """One simulated device.

    Args:
        target: Chip that code objects must be for; None accepts each of gfx90a, gfx942, gfx950.
        seed: Of the poison pattern and of the order in which waves run.
        poison: Fill new memory, LDS, VGPRs and SGPRs with a pattern; without it they hold zeros.
        branch_budget: Branches that the waves of one launch (of one job's share of it) may take before it is stopped as
            endless.
        patience: Seconds of processor time that one workgroup may take before the launch is given up as endless; `inf`
            for any. None: what $CKMLIR_SIMULATOR_PATIENCE says, else 30.
        checks: Names of checkers (`ckmlir.sim.checks.CHECKERS`), as a list or as text separated by commas; "all" stands
            for all but those on request.
        jobs: Threads that the workgroups of a launch are spread over. Kernels with atomic updates of global memory,
            whose workgroups may wait for or add to each other, and all kernels under checks, run in one.
    """

    def __init__(
        self,
        target: str | None = None,
        seed: int = 0,
        poison: bool = True,
        branch_budget: int = 1 << 32,
        checks: str | Iterable[str] = (),
        jobs: int = 1,
        patience: float | None = None,
    ) -> None:
        if not isinstance(jobs, (int, np.integer)) or jobs < 1:
            raise LaunchError(f"jobs {jobs}: at least 1 is needed")
        if not isinstance(seed, (int, np.integer)) or seed < 0:
            raise LaunchError(f"seed {seed}: expected a whole number, 0 or more")
        if not isinstance(branch_budget, (int, np.integer)) or not 1 <= branch_budget < 1 << 63:
            raise LaunchError(f"branch_budget {branch_budget!r}: a launch needs at least 1 branch, at most 2^63 - 1")
        try:
            self.checks = parse_checks(checks or ())
        except ValueError as error:
            raise LaunchError(f"checks: {error}") from None
        if target is not None and target not in TARGETS:
            raise LaunchError(f"the simulator does not know {target!r}; it knows {', '.join(TARGETS)}")
        seconds = default_patience() if patience is None else patience
        if not isinstance(seconds, (int, float, np.integer, np.floating)) or not seconds > 0:
            raise LaunchError(f"patience {seconds!r}: expected seconds, more than 0")
        self.target = target
        self.jobs = jobs
        self.observer: Observer | None = None
        """Takes part in all launches that are not given another (`debugging.Tracer`)."""
        self.remarks: tuple[Finding, ...] = ()
        """What the checkers found in the last launch that is not a fault: advice, and what the run cleared."""
        random = np.random.default_rng(seed)
        pattern = random.integers(0, 256, 1 << 16, np.uint8) if poison else np.zeros(1 << 16, np.uint8)
        self._fill = pattern if poison else None
        self._table = MemoryTable("initialisation" in self.checks)
        self._surroundings = Surroundings(self._table, pattern, random, self.checks, branch_budget, seconds)
        self._programs: dict[tuple[bytes, str, int, tuple[Argument, ...]], Program] = {}
        self._static_findings: dict[tuple[bytes, str], list[Finding]] = {}

    def allocate(self, nbytes: int, name: str = UNNAMED, read_only: bool = False) -> DeviceMemory:
        """New device memory of this many bytes, with undefined contents. Reports call it `name`; the memory checker
        reports kernels that write to it when it is read-only."""
        if not isinstance(nbytes, (int, np.integer)) or nbytes < 0:
            raise LaunchError(f"cannot allocate {nbytes} bytes; expected a whole number, 0 or more")
        try:
            return DeviceMemory(self._table, int(nbytes), self._fill, name, read_only=read_only)
        except (MemoryError, ValueError, OverflowError):
            raise LaunchError(f"cannot allocate {nbytes} bytes: this machine has not that much memory") from None

    def share(self, data: npt.NDArray[np.uint8], name: str) -> None:
        """Let kernels access the caller's own bytes where they lie; the caller keeps them alive."""
        self._table.add(data.ctypes.data, data.size, name)
        self._table.set_defined(data.ctypes.data, 0, data.size, True)

    def upload(self, array: npt.ArrayLike, name: str = UNNAMED, read_only: bool = False) -> DeviceMemory:
        """New device memory with the contents of an array."""
        data = native_array(array)
        memory = self.allocate(data.nbytes, name, read_only)
        memory.write(data)
        return memory

    def program(self, code_object: CodeObject, kernel: str | None = None, flags: int | None = None) -> Program:
        """A kernel made ready to run; made once for each code object, kernel and flags (`checks/layout.py`): by default
        those of the checks, 0 for none, or RECORDING.

        Raises:
            LaunchError: The code object is for another chip.
            CodeObjectError: There is no such kernel.
            UnsupportedInstruction: The kernel has instructions without semantics.
        """
        if not isinstance(code_object, CodeObject):
            raise LaunchError(f"a code object is launched (CodeObject.parse), not {type(code_object).__name__}")
        expected = self.target or code_object.target
        if code_object.target != expected or code_object.target not in TARGETS:
            known = self.target or ", ".join(TARGETS)
            raise LaunchError(f"the code object is for {code_object.target}; this simulator runs {known}")
        chosen = code_object.kernel(kernel)
        flags = flags_of(self.checks) if flags is None else flags
        told = () if chosen.metadata.is_stated else chosen.arguments  # by the caller
        key = (code_object.data, chosen.name, flags, told)
        if key not in self._programs:
            from ckmlir.sim import semantics  # fills the table of operations

            assert semantics
            self._programs[key] = Program(code_object, chosen, library(), self._table, flags)
            self._static_findings[key[:2]] = static_findings(code_object, chosen.name, self.checks)
        return self._programs[key]

    def launch(
        self,
        code_object: CodeObject,
        kernel: str | None = None,
        grid: Dimensions = (1, 1, 1),
        block: Dimensions = (64, 1, 1),
        arguments: Sequence[KernelArgument] = (),
        dynamic_lds: int = 0,
        observer: Observer | None = None,
    ) -> RunStatistics:
        """Run a kernel on a grid of workgroups and wait for it.

        Args:
            code_object: What was read from a .hsaco.
            kernel: Its name; may be left out when there is only one.
            grid: Workgroups in x, y, z.
            block: Work-items of a workgroup in x, y, z.
            arguments: Values of the explicit kernel arguments in order.
            dynamic_lds: Bytes of LDS in addition to the kernel's own.
            observer: A debugger or a trace that takes part, instead of the simulator's own; workgroups then run in one
                thread.

        Raises:
            LaunchError: A wrong argument, grid, block, LDS size or chip.
            UnsupportedInstruction: The kernel has instructions without semantics; nothing has run.
            CheckFailure: Checkers found something; results are in memory if the kernel came to its end.
            SimulationError: The kernel accessed memory it may not, trapped, jumped astray or did not end.
        """
        program = self.program(code_object, kernel)
        chosen, target = program.kernel, code_object.target
        if dynamic_lds < 0:
            raise LaunchError(f"dynamic_lds {dynamic_lds}: a kernel gets no fewer bytes of LDS than it declares")
        lds = chosen.descriptor.group_segment_size + dynamic_lds
        abi.check_geometry(chosen, grid, block, lds, target)
        workgroups = int(grid[0]) * int(grid[1]) * int(grid[2])
        if workgroups == 0:
            return RunStatistics()
        known = self._static_findings[code_object.data, chosen.name]
        observer = observer or self.observer
        alone = self.checks or observer or program.updates_memory or program.pauses
        jobs = 1 if alone else min(self.jobs, workgroups)
        with ExitStack() as stack:
            given = (program, grid, block, arguments, dynamic_lds, known)
            runners = [stack.enter_context(Runner(self._surroundings, *given)) for _ in range(jobs)]
            told_apart = "race" in self.checks and program.reads_flags and workgroups <= MOST_UNDER_WAY
            if program.pauses or (told_apart and observer is None):
                runners[0].interleave(workgroups)
            with observer.watching(runners[0]) if observer else nullcontext():
                seconds = run_workgroups(runners, workgroups, endlessly=observer is not None)
            statistics = total([runner.statistics() for runner in runners], workgroups, seconds)
            findings = runners[0].findings()
            self.remarks = tuple(one for one in findings if not one.is_fault)
            if len(self.remarks) < len(findings):  # the failure has them too
                raise CheckFailure(findings, statistics, runners[0].lost_findings)
            return statistics

    def time(
        self,
        code_object: CodeObject,
        kernel: str | None = None,
        grid: Dimensions = (1, 1, 1),
        block: Dimensions = (64, 1, 1),
        arguments: Sequence[KernelArgument] = (),
        dynamic_lds: int = 0,
        **options: Any,
    ) -> LaunchModel:
        """How long a launch takes by the timing model, and why: `timing.measure`, which says what the options are."""
        from ckmlir.sim.timing.measure import measure  # needs numba

        return measure(self, code_object, kernel, grid, block, arguments, dynamic_lds, **options)

    def recording_runner(
        self,
        code_object: CodeObject,
        kernel: str | None,
        grid: Dimensions,
        block: Dimensions,
        arguments: Sequence[KernelArgument],
        dynamic_lds: int,
    ) -> Runner:
        """A runner whose handlers write down what they execute (`step_recording.py`), for `timing.record`. Arguments
        and errors as for `launch`; checks do not take part."""
        program = self.program(code_object, kernel, layout.RECORDING)
        return self._unchecked_runner(program, grid, block, arguments, dynamic_lds)

    def counting_runner(
        self,
        code_object: CodeObject,
        kernel: str | None,
        grid: Dimensions,
        block: Dimensions,
        arguments: Sequence[KernelArgument],
        dynamic_lds: int,
    ) -> Runner:
        """A runner for some workgroups of a launch, to count what they execute. Arguments and errors as for `launch`;
        checks do not take part."""
        program = self.program(code_object, kernel, flags=0)
        return self._unchecked_runner(program, grid, block, arguments, dynamic_lds)

    def _unchecked_runner(
        self,
        program: Program,
        grid: Dimensions,
        block: Dimensions,
        arguments: Sequence[KernelArgument],
        dynamic_lds: int,
    ) -> Runner:
        lds = program.kernel.descriptor.group_segment_size + dynamic_lds
        abi.check_geometry(program.kernel, grid, block, lds, program.code_object.target)
        surroundings = replace(self._surroundings, checks=frozenset())
        return Runner(surroundings, program, grid, block, arguments, dynamic_lds)
