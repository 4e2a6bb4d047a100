"""Operators compiled once and run under checkers, with their machine code changed where a test wants a fault."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from msgspec.structs import replace

from ckmlir.codeobject import CodeObject
from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.runtime import FindingsFault, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.sim import Finding
from ckmlir.sim.decode import Instruction
from ckmlir.sim.decode.decoder import decode_all
from ckmlir.targets import get_target

WATCHING = ("memory", "initialisation", "race", "barrier")
Keys = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Compiled:
    """An operator's kernel for one problem and chip; `code_at` is where its code starts in the code object."""

    name: str
    keys: Keys
    arch: str
    kernel: CompiledKernel
    instructions: tuple[Instruction, ...]
    code_at: int

    def patched(self, instruction: Instruction, *words: int) -> bytes:
        """The code object with an instruction replaced; `words` take as many dwords as it does."""
        assert len(words) == len(instruction.words)
        offset = self.code_at + instruction.address
        data, new = self.kernel.hsaco, b"".join(word.to_bytes(4, "little") for word in words)
        assert data[offset : offset + 4] == instruction.words[0].to_bytes(4, "little")
        return data[:offset] + new + data[offset + len(new) :]

    def has_line(self, address: int) -> bool:
        """Whether the line table knows where the instruction at an offset from the kernel's start comes from.

        LLVM takes the line from instructions that it moves to another block.
        """
        code_object = self.kernel.code_object
        return code_object.line_table.lookup(code_object.kernel(self.kernel.kernel_name).address + address) is not None


@cache
def compiled(name: str, keys: Keys, arch: str) -> Compiled:
    operator, target = find_operator(name), get_target(arch)
    kernel = compile_kernel(operator, operator.spec(operator.problem(**dict(keys)), target), target)
    code_object = CodeObject.parse(kernel.hsaco)
    found = code_object.kernel(kernel.kernel_name)
    code = code_object.image.contents[found.address : found.address + found.size]
    assert kernel.hsaco.count(code) == 1
    return Compiled(name, keys, arch, kernel, tuple(decode_all(code, 0, arch)), kernel.hsaco.index(code))


def findings(
    one: Compiled, hsaco: bytes | None = None, checks: Iterable[str] = WATCHING, seed: int = 1, **other_keys: Any
) -> tuple[Finding, ...]:
    """What checkers find in a run, of a changed code object or on another problem where they are given."""
    operator, target = find_operator(one.name), get_target(one.arch)
    problem = operator.problem(**(dict(one.keys) | other_keys))
    kernel = one.kernel if hsaco is None else replace(one.kernel, hsaco=hsaco)
    device = SimulatorDevice(target, seed=seed, checks=checks)
    try:
        run_operator(operator, problem, operator.inputs(problem, target), target, device, compiled=kernel)
    except FindingsFault as fault:
        return fault.findings
    return ()


def usual_way(loop: Sequence[Instruction]) -> list[Instruction]:
    """What a wave comes by in a turn of a steady loop where it branches around all that it may, such as rescaling."""
    found: list[Instruction] = []
    beyond = 0
    for one in loop:
        if one.address < beyond:
            continue
        found.append(one)
        if one.mnemonic == "s_cbranch_vccz":
            assert one.branch_target is not None
            if one.branch_target <= one.address:
                break
            beyond = one.branch_target
    return found
