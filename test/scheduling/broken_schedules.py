"""Kernels broken after scheduling, one change at a time, and what each checker says of them.

The schedule checker reads the changed fragments. The simulator's checkers read and run the machine code that LLVM makes
of the same changed fragments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ckmlir.codeobject import CodeObject
from ckmlir.compiler import CompiledKernel
from ckmlir.dialect.build import integer, integer_of
from ckmlir.lowering.codeobject import emit_code_object
from ckmlir.mlir import ir
from ckmlir.ops import find_operator
from ckmlir.passes.check_schedule import check_module
from ckmlir.passes.pipeline import run_pipeline
from ckmlir.passes.walk import functions, operations
from ckmlir.runtime import FindingsFault, check_outputs, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling import Workbench
from ckmlir.scheduling.workbench import LOWERING, SCHEDULING
from ckmlir.sim.analysis import check_waits
from ckmlir.sim.analysis.control_flow import control_flow
from ckmlir.sim.analysis.flags import unfold
from ckmlir.sim.analysis.lds_addresses import LdsAddresses
from ckmlir.sim.analysis.waits import WaitAnalysis
from ckmlir.sim.decode import disassemble
from ckmlir.targets import get_target

WATCHING = ("memory", "initialisation", "race", "barrier")
ALL_LGKM = 15 << 8  # lgkmcnt of s_waitcnt: not to wait (CDNA3 ISA, SOPP S_WAITCNT)


@dataclass(frozen=True)
class Change:
    """A change to one operation of a kernel's scheduled fragments.

    Attributes:
        counters: that the changed wait is for, or no longer waits for.
    """

    number: int
    edit: Callable[[ir.Operation], None]
    counters: tuple[str, ...] = ()

    def apply(self, ops: list[ir.Operation]) -> None:
        """Make it."""
        self.edit(ops[self.number])


@dataclass(frozen=True)
class Subject:
    """A kernel under a named schedule, with problems whose loops take different numbers of steps."""

    operator: str
    arch: str
    schedule: str
    dtype: str = "f16"

    def keys(self, steps: int) -> dict[str, Any]:
        """A problem of so many steps."""
        common = {"schedule": self.schedule, "dtype": self.dtype}
        if self.operator == "gemm":
            return {**common, "m": 64, "n": 64, "k": 32 * steps, "block": "64x64x32"}
        return {**common, "h": 1, "sq": 128, "sk": 64 * steps, "d": 64}

    def __str__(self) -> str:
        return f"{self.operator}-{self.arch}-{self.schedule}-{self.dtype}"


class DeepGemm(Subject):
    """Steps of 64 along K, which give each of eight waves something to copy."""

    def keys(self, steps: int) -> dict[str, Any]:
        return {**super().keys(steps), "k": 64 * steps, "block": "64x64x64"}


@lru_cache(maxsize=2)
def bench(subject: Subject) -> tuple[Workbench, str, str]:
    """The kernel, its fragments before and after scheduling."""
    operator, target = find_operator(subject.operator), get_target(subject.arch)
    found = Workbench.of(operator, operator.spec(operator.problem(**subject.keys(6)), target), target)
    with found.context:
        module = found._fragments(found.schedule)
        before = module.operation.get_asm(enable_debug_info=True)
        run_pipeline(module, SCHEDULING, dump_on_failure=False)
        return found, before, module.operation.get_asm(enable_debug_info=True)


@dataclass(frozen=True)
class Broken:
    """A kernel with a change.

    Attributes:
        refusals: kinds of findings of the schedule checker.
        kernel: the machine code.
    """

    refusals: tuple[str, ...]
    kernel: CompiledKernel


def broken(subject: Subject, change: Callable[[list[ir.Operation]], None] | None) -> Broken:
    """The kernel with a change to the operations of its scheduled fragments; without one, as it should be."""
    one, before, after = bench(subject)
    with one.context:
        reference, module = ir.Module.parse(before), ir.Module.parse(after)
        if change is not None:
            change(kernel_operations(module))
            assert module.operation.verify()
        refusals = tuple(sorted({finding.check for finding in check_module(module, reference)}))
        run_pipeline(module, LOWERING, dump_on_failure=False)
        made = emit_code_object(module, one.target.name)
    return Broken(refusals, CompiledKernel(made.hsaco, one.name, one.target.name))


def kernel_operations(module: ir.Module) -> list[ir.Operation]:
    """The operations of the only kernel."""
    return list(operations(next(functions(module))))


def changes(subject: Subject, kind: str) -> list[Change]:
    """Every change of a kind that can be made."""
    one, _, after = bench(subject)
    with one.context:
        module = ir.Module.parse(after)
        return list(KINDS[kind](kernel_operations(module)))


def _removed(name: str) -> Callable[[list[ir.Operation]], Iterator[Change]]:
    def found(ops: list[ir.Operation]) -> Iterator[Change]:
        for number, op in enumerate(ops):
            if op.name == name:
                counters = tuple(one for one in COUNTERS if one in op.attributes)
                yield Change(number, lambda copy: copy.erase(), counters)

    return found


def _weakened(ops: list[ir.Operation]) -> Iterator[Change]:
    """One access, or one copy, more may be outstanding."""
    for number, op in enumerate(ops):
        for counter in COUNTERS:
            if op.name == "ck.wait" and counter in op.attributes:

                def edit(wait: ir.Operation, counter: str = counter) -> None:
                    wait.attributes[counter] = integer(integer_of(wait, counter) + 1)

                yield Change(number, edit, (counter,))


COUNTERS = ("copies", "lds")
KINDS = {"barrier removed": _removed("ck.barrier"), "wait removed": _removed("ck.wait"), "wait weakened": _weakened}


def seen_running(
    subject: Subject, kernel: CompiledKernel, steps: Sequence[int], checks: Sequence[str] = WATCHING
) -> str:
    """The first checker of runs that finds something, or "numbers" for a wrong result; empty for nothing."""
    operator, target = find_operator(subject.operator), get_target(subject.arch)
    for count in steps:
        problem = operator.problem(**subject.keys(count))
        arrays = operator.inputs(problem, target, seed=3)
        device = SimulatorDevice(target, seed=count, checks=checks)
        try:
            result = run_operator(operator, problem, arrays, target, device, compiled=kernel)
        except FindingsFault as fault:
            return fault.findings[0].checker
        if not all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, target)):
            return "numbers"
    return ""


def seen_reading(kernel: CompiledKernel) -> bool:
    """Whether the static check of waits finds something in the machine code."""
    return bool(check_waits(kernel.code_object))


def barriers_in_need(kernel: CompiledKernel) -> int:
    """Barriers at which LDS accesses that matter could be in flight if the machine code waited for none of them."""
    code_object = kernel.code_object
    data, found = code_object.data, code_object.kernel()
    start = data.index(code_object.code(found)) - found.address
    for wait in disassemble(code_object, found.name):
        if wait.mnemonic == "s_waitcnt":
            place = start + wait.address
            data = data[:place] + (wait.words[0] | ALL_LGKM).to_bytes(4, "little") + data[place + 4 :]
    changed = CodeObject.parse(data)
    flow = unfold(control_flow(changed, changed.kernel()))
    addresses = LdsAddresses(flow, changed.kernel())
    late = (one for one in WaitAnalysis(flow).missing() if one.barrier is not None)
    return len({one.barrier.address for one in late if one.barrier and addresses.may_conflict(one.access, one.use)})
