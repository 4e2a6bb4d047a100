"""The two static checkers: findings from the analyses of a kernel's waits and wait states."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from msgspec.structs import replace

from ckmlir.codeobject import CodeObject, Kernel
from ckmlir.sim.analysis.blocks import ControlFlow
from ckmlir.sim.analysis.control_flow import control_flow
from ckmlir.sim.analysis.flags import unfold
from ckmlir.sim.analysis.hazards import Hazard, HazardAnalysis
from ckmlir.sim.analysis.lds_addresses import LdsAddresses
from ckmlir.sim.analysis.registers import SCALAR_REGISTERS, VECTOR_REGISTERS, names
from ckmlir.sim.analysis.waits import MissingWait, WaitAnalysis
from ckmlir.sim.checks import Finding
from ckmlir.sim.checks.wait_findings import SLOTS
from ckmlir.sim.decode import Instruction


def check_waits(code_object: CodeObject, kernel: str | None = None) -> list[Finding]:
    """Registers and LDS that a kernel uses before the counter that guards them is low enough, on any path.

    Args:
        code_object: For gfx90a, gfx942 or gfx950.
        kernel: The kernel's name; may be left out when there is only one.

    Returns:
        Findings in order of address; none means proven, under the assumptions in `waits.py`. Where control flow cannot
        be followed, a finding says that nothing is proven there.

    Raises:
        CodeObjectError: There is no such kernel.
        ValueError: The code object is for another chip.
    """
    subject = _Subject(code_object, code_object.kernel(kernel), "wait")
    return subject.unproven() + _wait_findings(subject, _missing(subject))


def check_copy_order(code_object: CodeObject, kernel: str | None = None) -> list[Finding]:
    """What `check_waits` would find besides if copies from memory to LDS landed in any order, so that only vmcnt(0)
    waited for one. Nothing is found in kernels that wait for all of them, or copy nothing.

    Arguments and errors as for `check_waits`; the findings are of the checker "copy_order".
    """
    subject = _Subject(code_object, code_object.kernel(kernel), "copy_order")
    every = (effects.lds for block in subject.flow.blocks.values() for effects in block.effects)
    if not any(lds is not None and lds.direct for lds in every):
        return []
    known = {(item.use.address, item.access.address) for item in _missing(subject)}
    strict = [one._replace(is_told=True) for one in _missing(subject, ordered_copies=False)]
    return _wait_findings(subject, [one for one in strict if (one.use.address, one.access.address) not in known])


def _missing(subject: _Subject, *, ordered_copies: bool = True) -> list[MissingWait]:
    """Uses that come too early; those of LDS whose addresses are known to be apart are left out."""
    flow = unfold(subject.flow)
    missing = list(WaitAnalysis(flow, ordered_copies=ordered_copies).missing())
    if any(not item.registers for item in missing):
        addresses = LdsAddresses(flow, subject.kernel)
        missing = [
            item._replace(is_told=bool(item.registers) or addresses.tell(*item.sites))
            for item in missing
            if item.registers or addresses.may_conflict(*item.sites)
        ]
    return missing


def check_hazards(code_object: CodeObject, kernel: str | None = None) -> list[Finding]:
    """Pairs of instructions with fewer wait states between them than the chip asks for, on any path. Those that only
    advisory rules concern are of grade "advisory".

    Arguments, result and errors as for `check_waits`.
    """
    subject = _Subject(code_object, code_object.kernel(kernel), "hazard")
    seconds: dict[int, list[Hazard]] = {}
    for hazard in HazardAnalysis(subject.flow).hazards():
        seconds.setdefault(hazard.second.address, []).append(hazard)
    found = []
    for _, hazards in sorted(seconds.items()):
        worst = max(hazards, key=lambda item: (not item.rule.advisory, item.needed - item.present))
        registers = names(worst.registers & (VECTOR_REGISTERS | SCALAR_REGISTERS))
        about = f" ({registers})" if registers else ""
        message = (
            f"{worst.rule.name}{about}: {worst.needed} wait states needed after {subject.place(worst.first)}, "
            f"{worst.present} there; put s_nop {worst.needed - worst.present - 1} before it"
        )
        if worst.rule.advisory:
            message += f"; advice only: {worst.rule.advisory}"
        grade = "advisory" if worst.rule.advisory else "required"
        found.append(replace(subject.finding(worst.second, message), grade=grade))
    return subject.unproven() + found


def missing_states(code_object: CodeObject, kernel: str | None = None) -> int:
    """The most wait states that are missing between two instructions, 0 where none are; advice does not count.

    Arguments and errors as for `check_waits`.
    """
    flow = _Subject(code_object, code_object.kernel(kernel), "hazard").flow
    found = (one.needed - one.present for one in HazardAnalysis(flow).hazards() if not one.rule.advisory)
    return max(found, default=0)


class _Subject:
    """The kernel a check is about."""

    def __init__(self, code_object: CodeObject, kernel: Kernel, checker: str) -> None:
        self.code_object, self.kernel, self.checker = code_object, kernel, checker
        self.flow = _flow(code_object, kernel.name)

    def finding(
        self, instruction: Instruction, message: str, earlier: Iterable[Instruction] = (), allocation: str | None = None
    ) -> Finding:
        """A finding at an instruction; `earlier` are the accesses that it does not wait for."""
        return Finding(
            self.checker,
            message,
            self.kernel.name,
            instruction.address - self.kernel.address,
            instruction.text,
            self.code_object.line_of(instruction.address),
            allocation=allocation,
            earlier=tuple(dict.fromkeys(one.address - self.kernel.address for one in earlier)),
        )

    def unproven(self) -> list[Finding]:
        """What keeps the check from being a proof."""
        return [
            Finding(self.checker, f"not proven: {reason}", self.kernel.name, address - self.kernel.address, "")
            for address, reason in sorted(self.flow.unresolved.items())
        ]

    def place(self, instruction: Instruction) -> str:
        """An instruction's text and place in a message."""
        return f"{instruction.text} at {instruction.address - self.kernel.address:#x}"


@lru_cache(maxsize=8)
def _flow_of(key: _Key) -> ControlFlow:
    return control_flow(key.code_object, key.code_object.kernel(key.kernel))


class _Key:
    """A code object and a kernel's name, compared by the file's bytes and the chip."""

    def __init__(self, code_object: CodeObject, kernel: str) -> None:
        self.code_object, self.kernel = code_object, kernel
        self._identity = (code_object.data, code_object.target, kernel)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


def _flow(code_object: CodeObject, kernel: str) -> ControlFlow:
    """The control flow of a kernel; both checks share it."""
    return _flow_of(_Key(code_object, kernel))


def _wait_findings(subject: _Subject, missing: Iterable[MissingWait]) -> list[Finding]:
    """A finding for each instruction that uses registers too early, and one for LDS; each access is reported at its
    first use. Where the code does not tell the places in LDS it is advice."""
    uses: dict[tuple[int, bool, bool], list[MissingWait]] = {}
    reported: set[tuple[int, bool, bool]] = set()
    for item in sorted(missing, key=lambda item: (item.use.address, item.access.address)):
        kind = (item.registers != 0, item.is_told)
        if (item.access.address, *kind) not in reported:
            uses.setdefault((item.use.address, *kind), []).append(item)
        reported.add((item.access.address, *kind))
    found = []
    for (_, of_registers, is_told), items in uses.items():
        message, accesses = _wait_message(subject, items), [item.access for item in items]
        one = subject.finding(items[0].use, message, accesses, None if of_registers else "LDS")
        found.append(one if is_told else replace(one, message=message + SLOTS, grade="advisory"))
    return found


def _wait_message(subject: _Subject, items: list[MissingWait]) -> str:
    worst = min(items, key=lambda item: item.needed)
    needed = f"s_waitcnt {worst.counter.value}({worst.needed})"
    others = f" (and {len(items) - 1} more)" if len(items) > 1 else ""
    access = subject.place(worst.access) + others
    if worst.registers:
        return f"{names(worst.registers)} may still be in flight from {access}; {needed} or less is needed before"
    if worst.barrier is None:
        return f"LDS may not have arrived yet from {access}; {needed} or less is needed before"
    return (
        f"LDS that {access} may not be done with: it can be in flight at {subject.place(worst.barrier)}; "
        f"{needed} or less is needed before that barrier"
    )
