"""Every matrix instruction of every chip, as the tables spell it, goes through the chip's code generator.

The backend aborts the process on an instruction that the chip lacks, so each chip is compiled in a process of its own.
"""

import subprocess
import sys

import pytest

from ckmlir.targets import TARGETS, get_target
from ckmlir.targets.mfma import INSTRUCTIONS, ROCDL_FORMATS

COMPILE = """
import sys
from ckmlir.dialect.context import ck_context
from ckmlir.mlir import PassManager, ir
with ck_context():
    module = ir.Module.parse(sys.stdin.read())
    PassManager.parse("builtin.module(gpu-module-to-binary{format=isa})").run(module.operation)
    print(module)
"""


def kernel(number: int, name: str) -> str:
    instruction = INSTRUCTIONS[name]
    a, b, c = instruction.a_type, instruction.b_type, instruction.acc_type
    if instruction.scaled:
        formats = f"{ROCDL_FORMATS[instruction.a]}, {ROCDL_FORMATS[instruction.b]}"
        call = f"{instruction.op} %a, %b, %c, {formats}, 0, %scale, 0, %scale : ({a}, {b}, {c}, i32, i32) -> {c}"
    elif instruction.sparse:
        call = f"{instruction.op} %a, %b, %c, %scale, 0, 0 : ({a}, {b}, {c}, i32) -> {c}"
    else:
        call = f"{instruction.op} %a, %b, %c, 0, 0, none : ({a}, {b}, {c}) -> {c}"
    return f"""
      llvm.func @k{number}(%pointer: !llvm.ptr<1>) attributes {{gpu.kernel, rocdl.kernel}} {{
        %scale = llvm.mlir.constant(127 : i32) : i32
        %a = llvm.load %pointer : !llvm.ptr<1> -> {a}
        %b = llvm.load %pointer : !llvm.ptr<1> -> {b}
        %c = llvm.load %pointer : !llvm.ptr<1> -> {c}
        %r = {call}
        llvm.store %r, %pointer : {c}, !llvm.ptr<1>
        llvm.return
      }}"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", TARGETS)
def test_the_chip_has_its_instructions(chip):
    names = list(get_target(chip).mfma_cycles)
    kernels = "".join(kernel(number, name) for number, name in enumerate(names))
    module = f'module {{ gpu.module @m [#rocdl.target<O = 3, chip = "{chip}">] {{ {kernels} }} }}'
    done = subprocess.run([sys.executable, "-c", COMPILE], input=module, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("v_mfma_") + done.stdout.count("v_smfmac_") >= len(names)
