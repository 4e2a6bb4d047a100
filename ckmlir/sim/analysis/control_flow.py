"""The control-flow graph of a kernel's machine code: basic blocks, and the edges between them.

Branches name their targets. Indirect jumps, which compilers use for calls and for branches that are too far, go where
`code_addresses.py` finds that they go. An unknown s_setpc_b64 in code that is only reached by calls is a return to all
the callers. Any other jump stays unresolved: `ControlFlow.unresolved` names it, and nothing may be called proven about
such a kernel.
"""

from __future__ import annotations

from typing import Final

from ckmlir.codeobject import CodeObject, Kernel
from ckmlir.sim.analysis.blocks import Block, ControlFlow
from ckmlir.sim.analysis.code_addresses import jump_targets
from ckmlir.sim.analysis.effects import Effects, effects_of
from ckmlir.sim.decode import Instruction, UnknownInstruction
from ckmlir.sim.decode.decoder import decode

_ENDS: Final = frozenset(("s_endpgm", "s_endpgm_saved", "s_endpgm_ordered_ps_done"))
_CALLS: Final = frozenset(("s_swappc_b64", "s_call_b64"))
_TRAP_HANDLER_ONLY: Final = frozenset(("s_rfe_b64", "s_rfe_restore_b64"))


def control_flow(code_object: CodeObject, kernel: Kernel) -> ControlFlow:
    """The control-flow graph of a kernel, functions it calls included.

    Raises:
        ValueError: There is no opcode table for the code object's target.
    """
    skip = 256 if kernel.descriptor.kernarg_preload_length else 0  # see Program.first_address
    return control_flow_of_code(code_object.image.load(0), kernel.address + skip, code_object.target)


def control_flow_of_code(memory: bytes, entry: int, target: str) -> ControlFlow:
    """The control-flow graph of the code at an address of a memory image that starts at address 0."""
    known: dict[int, int] = {}
    decoded: dict[int, Instruction] = {}
    while True:  # each round may reach code with more jumps, or find their targets
        explorer = _Explorer(memory, target, known, decoded)
        explorer.explore(entry)
        flow = explorer.graph(entry)
        found = jump_targets(flow, explorer.indirect, explorer.call_sites) if explorer.indirect else {}
        if found.items() <= known.items():
            return flow
        known = {**known, **found}


class _Explorer:
    """Follows control from an entry and records, for each instruction, where it may go next."""

    def __init__(self, memory: bytes, target: str, known: dict[int, int], decoded: dict[int, Instruction]) -> None:
        """`known`: targets of indirect jumps; `decoded`: instructions seen before."""
        self.memory, self.target, self.known, self.decoded = memory, target, known, decoded
        self.instructions: dict[int, Instruction] = {}
        self.next: dict[int, list[int]] = {}
        self.leaders: set[int] = set()
        self.unresolved: dict[int, str] = {}
        self.calls: dict[int, set[int]] = {}  # entry of a function: addresses its calls return to
        self.indirect: set[int] = set()  # indirect jumps
        self.returns: list[int] = []  # those of s_setpc_b64 whose target is not known

    @property
    def call_sites(self) -> set[int]:
        """Addresses of calls whose target is known."""
        return {address for address, one in self.instructions.items() if one.mnemonic in _CALLS and self.next[address]}

    def explore(self, entry: int) -> None:
        pending = [entry]
        self.leaders.add(entry)
        while pending:
            pending += self._straight_line(pending.pop())
        self._connect_returns(entry)

    def _straight_line(self, address: int) -> list[int]:
        """Decode from a leader to the end of its straight line; returns leaders found there."""
        while address not in self.instructions:
            if not 0 <= address < len(self.memory):
                self.unresolved[address] = "control runs out of the code object"
                break
            try:
                instruction = self.decoded.get(address) or decode(
                    self.memory[address : address + 16], address, self.target
                )
            except UnknownInstruction as error:
                self.unresolved[address] = str(error)
                break
            self.instructions[address] = self.decoded[address] = instruction
            following = address + instruction.size
            targets, falls_through = self._targets(instruction)
            self.next[address] = targets + [following] * falls_through
            if targets or not falls_through:
                self.leaders.update(self.next[address])
                return self.next[address] + sorted(self.calls_back(instruction))
            address = following
        else:
            self.leaders.add(address)
        return []

    def calls_back(self, instruction: Instruction) -> set[int]:
        """Where a call returns to: reached through the function, so also a leader of its own."""
        if instruction.mnemonic not in _CALLS:
            return set()
        back = {instruction.address + instruction.size}
        self.leaders |= back
        return back

    def _targets(self, instruction: Instruction) -> tuple[list[int], bool]:
        """Addresses an instruction may jump to, and whether it may also go on to the next."""
        name, address = instruction.mnemonic, instruction.address
        if name in _ENDS:
            return [], False
        if name in _TRAP_HANDLER_ONLY:
            self.unresolved[address] = f"{name} returns from a trap handler"
            return [], False
        if name in ("s_setpc_b64", "s_swappc_b64"):
            self.indirect.add(address)
            target = self.known.get(address, -1)
            if target < 0 and name == "s_setpc_b64":
                self.returns.append(address)
                return [], False
            if target < 0:
                self.unresolved[address] = f"{instruction.text} calls an address that is not known here"
                return [], False
        elif instruction.branch_target is not None:
            target = instruction.branch_target
        else:
            return [], True
        if name in _CALLS:
            self.calls.setdefault(target, set()).add(address + instruction.size)
            return [target], False
        return [target], name not in ("s_branch", "s_setpc_b64")

    def _connect_returns(self, entry: int) -> None:
        """Every unknown s_setpc_b64 reached from a called function, and not from the kernel itself, is its return."""
        bodies = {function: self._body(function) for function in self.calls}
        own = self._body(entry)
        for address in self.returns:
            callers = set().union(*(back for function, back in self.calls.items() if address in bodies[function]))
            if address in own or not callers:
                self.unresolved[address] = f"{self.instructions[address].text} jumps to an address that is not known"
            self.next[address] = sorted(callers)

    def _body(self, start: int) -> set[int]:
        """Instructions of a function: those reached without following its calls into other functions."""
        found: set[int] = set()
        pending = [start]
        while pending:
            address = pending.pop()
            if address in found or address not in self.instructions:
                continue
            found.add(address)
            instruction = self.instructions[address]
            is_call = instruction.mnemonic in _CALLS
            pending += [address + instruction.size] if is_call else self.next.get(address, [])
        return found

    def graph(self, entry: int) -> ControlFlow:
        """Blocks of what was explored."""
        blocks: dict[int, Block] = {}
        for start in sorted(self.leaders & self.instructions.keys()):
            block = Block(start, [])
            address = start
            while True:
                block.instructions.append(self.instructions[address])
                successors = self.next[address]
                if len(successors) != 1 or successors[0] in self.leaders or successors[0] not in self.instructions:
                    break
                address = successors[0]
            block.successors = [item for item in dict.fromkeys(successors) if item in self.instructions]
            block.effects = [_effects(item) for item in block.instructions]
            blocks[start] = block
        order = _reverse_postorder(entry, blocks)
        ordered = {start: blocks[start] for start in order}
        for block in ordered.values():
            for successor in block.successors:
                ordered[successor].predecessors.append(block.start)
        return ControlFlow(entry, ordered, self.unresolved)


_known_effects: dict[tuple[str, tuple[int, ...]], Effects] = {}


def _effects(instruction: Instruction) -> Effects:
    """Effects depend on the words alone, and kernels repeat words."""
    if instruction.branch_target is not None:
        return effects_of(instruction)
    key = instruction.target, instruction.words
    found = _known_effects.get(key)
    if found is None:
        if len(_known_effects) > 100_000:
            _known_effects.clear()
        found = _known_effects[key] = effects_of(instruction)
    return found


def _reverse_postorder(entry: int, blocks: dict[int, Block]) -> list[int]:
    done: list[int] = []
    seen = {entry}
    stack = [(entry, iter(blocks[entry].successors))] if entry in blocks else []
    while stack:
        start, successors = stack[-1]
        for successor in successors:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(blocks[successor].successors)))
                break
        else:
            done.append(start)
            stack.pop()
    return done[::-1]
