"""LLVM's hazard recognizer as a second opinion: its code has no hazard, and every s_nop it puts after a matrix
instruction is needed, to the last wait state."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from llvm_kernels import compile_kernel

from ckmlir.sim.analysis.blocks import Block, ControlFlow
from ckmlir.sim.analysis.control_flow import control_flow
from ckmlir.sim.analysis.hazards import HazardAnalysis
from ckmlir.sim.decode import Instruction
from ckmlir.targets import get_target
from ckmlir.targets.mfma import INSTRUCTIONS

CHIPS = ("gfx90a", "gfx942", "gfx950")
FORMATS = {"fp8": 0, "bf8": 1, "fp6": 2, "bf6": 3, "fp4": 4}
_ELEMENTS = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}


def llvm_type(text: str) -> str:
    """An MLIR type as LLVM IR writes it."""
    if not text.startswith("vector<"):
        return _ELEMENTS.get(text, text)
    count, _, element = text[7:-1].partition("x")
    return f"<{count} x {_ELEMENTS.get(element, element)}>"


def first_element(type: str) -> str:
    return type.split(" x ")[-1].rstrip(">")


def kernels_of(chip: str) -> Iterator[str]:
    """For each matrix instruction: its result stored, added to, used as a factor, and its operand C overwritten."""
    for name in get_target(chip).mfma_cycles:
        one = INSTRUCTIONS[name]
        a, b, c = (llvm_type(type) for type in (one.a_type, one.b_type, one.acc_type))
        formats = [f"i32 {FORMATS[format]}" for format in (one.a, one.b)] if one.scaled else ["i32 0", "i32 0"]
        if one.sparse:
            formats = ["i32 %s", "i32 0"]
        rest = ", ".join([*formats, *(["i32 0, i32 %s, i32 0, i32 %s"] if one.scaled else ["i32 0"])])
        types = "i32, i32, i32, i32, i32, i32" if one.scaled else "i32, i32, i32"
        overload = "".join(f".v{type[1]}i32" for type in (a, b)) if one.scaled else ""
        call = f"call {c} @{one.intrinsic}{overload}({a} %a, {b} %b, {c} %c, {rest})"
        element = first_element(c)
        number = "i32" if element == "i32" else element
        add = ("add" if number == "i32" else "fadd") + f" {c} %r, %d"
        for use in ("store", "add"):
            value = "%r" if use == "store" else "%t"
            yield f"""
declare {c} @{one.intrinsic}{overload}({a}, {b}, {c}, {types})
define amdgpu_kernel void @k(ptr addrspace(1) %p, i32 %s) "target-features"="-xnack" {{
  %tid = call i32 @llvm.amdgcn.workitem.id.x()
  %q = getelementptr <32 x i32>, ptr addrspace(1) %p, i32 %tid
  %a = load {a}, ptr addrspace(1) %q
  %qb = getelementptr i8, ptr addrspace(1) %q, i32 65536
  %b = load {b}, ptr addrspace(1) %qb
  %qc = getelementptr i8, ptr addrspace(1) %q, i32 131072
  %c = load {c}, ptr addrspace(1) %qc
  %qd = getelementptr i8, ptr addrspace(1) %q, i32 196608
  %d = load {c}, ptr addrspace(1) %qd
  %r = {call}
  {"%t = " + add if use == "add" else ""}
  store {c} {value}, ptr addrspace(1) %q
  ret void
}}"""


def without(flow: ControlFlow, dropped: Instruction) -> ControlFlow:
    """The graph without one instruction."""
    blocks = {}
    for start, block in flow.blocks.items():
        pairs = [pair for pair in zip(block.instructions, block.effects) if pair[0].address != dropped.address]
        blocks[start] = Block(start, [one for one, _ in pairs], [two for _, two in pairs], block.successors)
    return ControlFlow(flow.entry, blocks, flow.unresolved)


def shortened(flow: ControlFlow, nop: Instruction) -> ControlFlow:
    """The graph with one wait state less in an s_nop."""
    states = nop.modifiers["simm16"]
    if states == 0:
        return without(flow, nop)
    for block in flow.blocks.values():
        if nop in block.instructions:
            less = nop._replace(modifiers={**nop.modifiers, "simm16": states - 1})
            changed = [less if one.address == nop.address else one for one in block.instructions]
            other = Block(block.start, changed, block.effects, block.successors)
            return ControlFlow(flow.entry, {**flow.blocks, block.start: other}, flow.unresolved)
    raise AssertionError(nop)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_llvm_agrees_about_every_matrix_instruction(chip: str) -> None:
    nops = 0
    for text in kernels_of(chip):
        code_object = compile_kernel(text, chip)
        flow = control_flow(code_object, code_object.kernel())
        assert list(HazardAnalysis(flow).hazards()) == [], text
        for instruction in [one for block in flow.blocks.values() for one in block.instructions]:
            if instruction.mnemonic == "s_nop":
                nops += 1
                assert list(HazardAnalysis(shortened(flow, instruction)).hazards()), (text, instruction.text)
    assert nops > 2 * len(get_target(chip).mfma_cycles) - 8
