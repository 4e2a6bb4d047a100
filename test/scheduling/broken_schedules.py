"""Kernels broken after scheduling, one change at a time, and what each checker says of them.

The schedule checker reads the changed fragments: whether the waits and barriers that a schedule has are enough. The
simulator's checkers read and run the machine code that LLVM makes of the same fragments, into which it has put waits of
its own, each before a value from memory or LDS is used. Some of them happen to stand where the schedule lacks one. So
that both judge the same waits, the simulator also gets the machine code with those of the schedule alone. Lines tell
them apart: every wait of the fragments gets a line of its own, LLVM's have the line of what uses the value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from msgspec.structs import replace

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.dialect.build import integer, integer_of
from ckmlir.dialect.synchronization import COUNTERS
from ckmlir.lowering.codeobject import emit_code_object
from ckmlir.mlir import ir
from ckmlir.ops import find_operator
from ckmlir.ops.schedules import ATTENTION, GEMM
from ckmlir.passes.check_schedule import check_module
from ckmlir.passes.pipeline import LOWERING, SCHEDULING, run_pipeline
from ckmlir.passes.walk import functions, operations
from ckmlir.runtime import FindingsFault, check_outputs, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling import Workbench
from ckmlir.sim.checks import Finding
from ckmlir.sim.checks.finding import parse_checks
from ckmlir.sim.decode import disassemble
from ckmlir.targets import get_target

WATCHING = parse_checks("all")
CHIPS = ("gfx90a", "gfx942", "gfx950")
OTHER_NAMES = ("single_buffer", "prefetch")
"""Schedules of which another name is in the list."""
COPY_BOTH = ("qr_async_trload", "qr_async_trload_ping_pong", "qr_woven_async", "qr_woven_async_far")
"""Schedules for chips whose reads of LDS transpose."""
STEPS = range(1, 8)
"""Numbers of steps that go through prologue, steady loop and every remainder."""
OWN_WAITS = "waits of the schedule"
ORDERED = ("ds_", "buffer_", "global_", "s_barrier")
"""How instructions begin that waits count, and that meet other waves."""
NOT_TO_WAIT = 0xCF0F  # vmcnt 63, lgkmcnt 15 of s_waitcnt (CDNA3 ISA, SOPP S_WAITCNT)


@dataclass(frozen=True)
class Change:
    """A change to one operation of a kernel's scheduled fragments."""

    number: int
    edit: Callable[[ir.Operation], None]

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

    @property
    def name(self) -> str:
        """Operator and schedule."""
        return f"{self.operator} {self.schedule}"

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


def subjects() -> list[Subject]:
    """Every named schedule of GEMM and attention, with changing chips."""
    found: list[Subject] = []
    for operator, schedules in (("gemm", GEMM), ("fmha_fwd", ATTENTION)):
        for number, name in enumerate(one for one in schedules if one not in OTHER_NAMES):
            chip = "gfx950" if name in COPY_BOTH else CHIPS[number % 3]
            deep = name.startswith("ping_pong") or name == "preshuffle"
            found.append((DeepGemm if deep else Subject)(operator, chip, name))
    return found


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
        messages: those findings.
        kernel: the machine code.
    """

    refusals: tuple[str, ...]
    messages: tuple[str, ...]
    kernel: CompiledKernel

    @cached_property
    def order(self) -> list[str]:
        """What a schedule orders, as it stands in the machine code: the names of instructions."""
        code_object = self.kernel.code_object
        every = (item.mnemonic for item in disassemble(code_object, code_object.kernel().name))
        return [name for name in every if name.startswith(("v_mfma", *ORDERED))]

    @cached_property
    def own_waits(self) -> CompiledKernel:
        """The machine code without the waits that LLVM has added.

        One after which only arithmetic comes before a wait of the schedule's is part of that: where LLVM needs a
        counter a little earlier, it takes it out of the schedule's wait.
        """
        code_object = self.kernel.code_object
        data, kernel = code_object.data, code_object.kernel()
        start = data.index(code_object.code(kernel)) - kernel.address
        is_own = False
        for item in reversed(list(disassemble(code_object, kernel.name))):
            if item.mnemonic.startswith((*ORDERED, "s_cbranch", "s_branch")):
                is_own = False
            if item.mnemonic != "s_waitcnt":
                continue
            line = code_object.line_table.lookup(item.address)
            is_own = is_own or (line is not None and line.file == OWN_WAITS)
            if not is_own:
                place = start + item.address
                data = data[:place] + (item.words[0] | NOT_TO_WAIT).to_bytes(4, "little") + data[place + 4 :]
        return replace(self.kernel, hsaco=data)


def broken(subject: Subject, change: Callable[[list[ir.Operation]], None] | None) -> Broken:
    """The kernel with a change to the operations of its scheduled fragments; without one, as it should be."""
    one, before, after = bench(subject)
    with one.context:
        reference, module = ir.Module.parse(before), ir.Module.parse(after)
        if change is not None:
            change(kernel_operations(module))
            assert module.operation.verify()
        found = check_module(module, reference)
        refusals, messages = tuple(sorted({one.check for one in found})), tuple(map(str, found))
        for number, op in enumerate(kernel_operations(module)):
            if op.name == "ck.wait":
                op.location = ir.Location.file(OWN_WAITS, number, 1)
        run_pipeline(module, LOWERING, dump_on_failure=False)
        made = emit_code_object(module, one.target.name)
    return Broken(refusals, messages, CompiledKernel(made.hsaco, one.name, one.target.name))


def kernel_operations(module: ir.Module) -> list[ir.Operation]:
    """The operations of the only kernel."""
    return list(operations(next(functions(module))))


Changes = Callable[[Subject, list[ir.Operation]], Iterator[Change]]


def changes(subject: Subject, kind: str) -> list[Change]:
    """Every change of a kind that can be made."""
    one, _, after = bench(subject)
    with one.context:
        module = ir.Module.parse(after)
        return list(KINDS[kind](subject, kernel_operations(module)))


def _removed(name: str) -> Changes:
    def found(_: Subject, ops: list[ir.Operation]) -> Iterator[Change]:
        for number, op in enumerate(ops):
            if op.name == name:
                yield Change(number, lambda copy: copy.erase())

    return found


def _weakened(subject: Subject, ops: list[ir.Operation]) -> Iterator[Change]:
    """One access, or one copy, more may be outstanding than is right."""
    for number, op in enumerate(ops):
        for counter in ("copies", "lds"):
            if op.name == "ck.wait" and counter in op.attributes:

                def edit(wait: ir.Operation, counter: str = counter, number: int = number) -> None:
                    copies = counter == "copies"
                    enough = integer_of(wait, counter) if copies else outstanding_without_harm(subject, number)
                    wait.attributes[counter] = integer(enough + 1)

                yield Change(number, edit)


def outstanding_without_harm(subject: Subject, number: int) -> int:
    """How many accesses to LDS may be outstanding at a wait in the machine code that LLVM has made. It may be more than
    none, since what is issued last need not be what others rely on; 0 where no count does harm.
    """
    for count in range(1, COUNTERS["lds"] + 1):
        made = broken(subject, lambda ops, count=count: ops[number].attributes.__setitem__("lds", integer(count)))
        if seen_in_lds(subject, made):
            return count - 1
    return 0


def _a_phase_earlier(*names: str) -> Changes:
    """Accesses of the loop before the barrier behind which they stand, and its wait."""

    def found(_: Subject, ops: list[ir.Operation]) -> Iterator[Change]:
        for number, op in enumerate(ops):
            barrier = _barrier_before(op) if op.name in names and "ck.stage" in op.attributes else None
            if barrier is not None and not _depends_on_what_is_between(op, barrier):
                yield Change(number, lambda copy: copy.move_before(_barrier_before(copy)))

    return found


def _barrier_before(op: ir.Operation) -> ir.Operation | None:
    """The last barrier before an operation in its block, or the wait right before that."""
    before = [one.operation for one in op.block]
    before = before[: before.index(op)]
    places = [number for number, one in enumerate(before) if one.name == "ck.barrier"]
    if not places:
        return None
    wait = before[places[-1] - 1] if places[-1] else None
    return wait if wait is not None and wait.name == "ck.wait" else before[places[-1]]


def _depends_on_what_is_between(op: ir.Operation, barrier: ir.Operation) -> bool:
    every = [one.operation for one in op.block]
    between = every[every.index(barrier) : every.index(op)]
    return any(not isinstance(one.owner, ir.Block) and one.owner in between for one in op.operands)


KINDS: dict[str, Changes] = {
    "barrier removed": _removed("ck.barrier"),
    "arrival of one group removed": _removed("ck.group_barrier"),
    "wait removed": _removed("ck.wait"),
    "wait weakened": _weakened,
    "fence removed": _removed("ck.sched_barrier"),
    "read a phase earlier": _a_phase_earlier("ck.lds_read"),
    "write a phase earlier": _a_phase_earlier("ck.lds_write", "ck.copy_fragment"),
}


def findings_running(
    subject: Subject, kernel: CompiledKernel, steps: Sequence[int], checks: Collection[str] = WATCHING
) -> Iterator[Finding | str]:
    """For every number of steps what the simulator's checkers find, or "numbers" for a wrong result."""
    operator, target = find_operator(subject.operator), get_target(subject.arch)
    for count in steps:
        problem = operator.problem(**subject.keys(count))
        arrays = operator.inputs(problem, target, seed=3)
        device = SimulatorDevice(target, seed=count, checks=checks)
        try:
            result = run_operator(operator, problem, arrays, target, device, compiled=kernel)
        except FindingsFault as fault:
            yield from fault.findings
            continue
        if not all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, target)):
            yield "numbers"


def seen_running(subject: Subject, kernel: CompiledKernel, steps: Sequence[int] = STEPS) -> str:
    """The first checker of the simulator that finds something, or "numbers" for a wrong result; empty for nothing."""
    found = next(findings_running(subject, kernel, steps), "")
    return found.checker if isinstance(found, Finding) else found


def seen_in_lds(subject: Subject, made: Broken, steps: Sequence[int] = STEPS) -> bool:
    """Whether accesses to LDS are in flight where others rely on them, if only the schedule's own waits are there."""
    found = findings_running(subject, made.own_waits, steps, ("wait",))
    return any(isinstance(one, Finding) and one.allocation == "LDS" for one in found)


def verdict(subject: Subject, made: Broken, clean: Broken) -> str:
    """How the checkers' verdicts of a broken kernel fit together.

    Fences keep an order, not a result: the schedule checker refuses where one is missing, the simulator must see
    nothing. Where a missing one has let LLVM change the order, it must have been refused.

    Raises:
        AssertionError: the verdicts differ.
    """
    refused = set(made.refusals) - {"fence"}
    seen = seen_running(subject, made.kernel)
    if not refused:
        assert seen == "", f"accepted, and {seen} is seen"
        assert not seen_in_lds(subject, made), "accepted, and not all that meets in LDS is waited for"
        if "fence" in made.refusals:
            return ORDER_LOST if made.order != clean.order else ORDER_KEPT
        return ACCEPTED
    if seen:
        return REFUSED
    assert seen_in_lds(subject, made), f"{made.messages[0]}\nand the simulator sees nothing"
    return MADE_UP_FOR


ACCEPTED, REFUSED, MADE_UP_FOR = "both accept", "both refuse", "both refuse, as compiled LLVM waits"
ORDER_LOST, ORDER_KEPT = "an order refused, which LLVM changes", "an order refused, which LLVM keeps"


def tally(subject: Subject, kind: str, most: int | None = None) -> Counter[str]:
    """The verdicts of all changes of a kind, or of so many.

    Raises:
        AssertionError: the verdicts of a change, or of the kernel as it should be, differ.
    """
    clean = broken(subject, None)
    assert verdict(subject, clean, clean) == ACCEPTED
    every = changes(subject, kind)
    found: Counter[str] = Counter()
    for change in every[:: max(1, len(every) // most) if most else 1]:
        made = broken(subject, change.apply)
        result = verdict(subject, made, clean)
        if kind == "fence removed" and result == ACCEPTED:
            assert made.order == clean.order, f"fence {change.number}: the order is another one, and nothing refuses"
        found[result] += 1
    return found
