"""Every matrix instruction of every chip multiplies right where the tables say how its operands lie.

One kernel an instruction, written in LLVM's dialect, with operands packed by the host as the layouts in
`ckmlir.targets.mfma` have them; the code object runs on the simulator. All values are small multiples of 1/2 (whole
numbers for i8), so that products and sums are exact.
"""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from ckmlir.codeobject import CodeObject
from ckmlir.dialect.context import ck_context
from ckmlir.dialect.distribution import Distribution
from ckmlir.lowering.codeobject import emit_code_object
from ckmlir.mlir import ir
from ckmlir.sim.simulator import Simulator
from ckmlir.targets import TARGETS, get_target
from ckmlir.targets.mfma import INSTRUCTIONS, LANES, ROCDL_FORMATS, MfmaInstruction

FNUZ = {"fp8": ml_dtypes.float8_e4m3fnuz, "bf8": ml_dtypes.float8_e5m2fnuz}
TYPES: dict[str, Any] = {
    "f64": np.float64, "f32": np.float32, "xf32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "i8": np.int8, "i32": np.int32, "fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2,
    "fp6": ml_dtypes.float6_e2m3fn, "bf6": ml_dtypes.float6_e3m2fn, "fp4": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
BITS = {"fp6": 6, "bf6": 6, "fp4": 4}


def kernel(number: int, instruction: MfmaInstruction) -> str:
    a, b, c = instruction.a_type, instruction.b_type, instruction.acc_type
    if instruction.scaled:
        formats = f"{ROCDL_FORMATS[instruction.a]}, {ROCDL_FORMATS[instruction.b]}"
        call = f"{instruction.op} %a, %b, %c, {formats}, 0, %zero, 0, %zero : ({a}, {b}, {c}, i32, i32) -> {c}"
    elif instruction.sparse:
        call = f"{instruction.op} %a, %b, %c, %index, 0, 0 : ({a}, {b}, {c}, i32) -> {c}"
    else:
        call = f"{instruction.op} %a, %b, %c, 0, 0, none : ({a}, {b}, {c}) -> {c}"
    pointers = ", ".join(f"%p{name}: !llvm.ptr<1>" for name in "abci")
    places = "\n".join(
        f"%at_{name} = llvm.getelementptr %p{name}[%lane] : "
        f"(!llvm.ptr<1>, i32) -> !llvm.ptr<1>, !llvm.array<{size} x i8>"
        for name, size in (("a", nbytes(a)), ("b", nbytes(b)), ("c", nbytes(c)), ("i", 4))
    )
    return f"""
      llvm.func @k{number}({pointers}) attributes {{gpu.kernel, rocdl.kernel}} {{
        %zero = llvm.mlir.constant(0 : i32) : i32
        %lane = rocdl.workitem.id.x : i32
        {places}
        %a = llvm.load %at_a {{alignment = 4}} : !llvm.ptr<1> -> {a}
        %b = llvm.load %at_b {{alignment = 4}} : !llvm.ptr<1> -> {b}
        %c = llvm.load %at_c {{alignment = 4}} : !llvm.ptr<1> -> {c}
        %index = llvm.load %at_i : !llvm.ptr<1> -> i32
        %r = {call}
        llvm.store %r, %at_c {{alignment = 4}} : {c}, !llvm.ptr<1>
        llvm.return
      }}"""


def nbytes(type_: str) -> int:
    length, _, element = type_.removeprefix("vector<").removesuffix(">").rpartition("x")
    return int(length or 1) * int("".join(filter(str.isdigit, element.replace("bf", "")))) // 8


def lanes_hold(layout: str, matrix: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """[lane, register] of a matrix (or several) under a layout."""
    found: npt.NDArray[Any] = matrix[tuple(Distribution.parse(layout).coordinates()[:, 0])]
    return found


def packed(values: npt.NDArray[Any], dtype: str) -> npt.NDArray[np.uint8]:
    """Each lane's elements one behind the other, the narrow ones bit by bit."""
    if dtype not in BITS:
        return np.ascontiguousarray(values).view(np.uint8)
    bits = np.unpackbits(values.view(np.uint8)[..., None], axis=-1, bitorder="little")[..., : BITS[dtype]]
    return np.packbits(bits.reshape(LANES, -1), axis=1, bitorder="little")


def numbers(random: np.random.Generator, shape: tuple[int, ...], dtype: str, chip: str) -> npt.NDArray[Any]:
    values = random.integers(-4, 5, shape) / (1 if dtype.startswith("i") else 2)
    type_ = FNUZ.get(dtype, TYPES[dtype]) if chip == "gfx942" else TYPES[dtype]
    return values.astype(type_)


def check(chip: str, number: int, instruction: MfmaInstruction, code: CodeObject) -> str | None:
    """What is wrong, in words."""
    random = np.random.default_rng(number)
    blocks = (instruction.blocks,) if instruction.blocks > 1 else ()
    a = numbers(random, (*blocks, instruction.m, instruction.k), instruction.a, chip)
    b = numbers(random, (*blocks, instruction.n, instruction.k), instruction.b, chip)
    held_of_a, index = a, np.zeros(LANES, np.uint32)
    if instruction.sparse:
        two = np.sort(np.argsort(random.random((instruction.m, instruction.k // 4, 4)), axis=2)[..., :2], axis=2)
        places = two.reshape(instruction.m, instruction.k // 2)
        columns = np.arange(instruction.k // 2) // 2 * 4 + places
        held_of_a = np.take_along_axis(a, columns, axis=1)
        a = np.zeros_like(a)
        np.put_along_axis(a, columns, held_of_a, axis=1)
        of_lanes = lanes_hold(instruction.a_layout, places)
        index = (of_lanes.astype(np.uint64) << np.arange(0, 2 * of_lanes.shape[1], 2).astype(np.uint64)).sum(axis=1)
        index = index.astype(np.uint32)
    c = numbers(random, (*blocks, instruction.m, instruction.n), instruction.acc, chip)
    simulator = Simulator(chip)
    held = lanes_hold(instruction.c_layout, c)
    memory = [
        simulator.upload(packed(lanes_hold(instruction.a_layout, held_of_a), instruction.a)),
        simulator.upload(packed(lanes_hold(instruction.b_layout, b), instruction.b)),
        simulator.upload(np.ascontiguousarray(held)),
        simulator.upload(index),
    ]
    simulator.launch(code, f"k{number}", (1, 1, 1), (LANES, 1, 1), memory)
    product = a.astype(np.float64) @ np.swapaxes(b.astype(np.float64), -1, -2) + c
    expected = lanes_hold(instruction.c_layout, product)
    found = memory[2].read(c.dtype, held.shape)
    return None if np.array_equal(found, expected) else f"{instruction.name} is wrong by {abs(found - expected).max()}"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", TARGETS)
def test_every_instruction_multiplies(chip: str) -> None:
    instructions = [INSTRUCTIONS[name] for name in get_target(chip).mfma_cycles]
    kernels = "".join(kernel(number, one) for number, one in enumerate(instructions))
    with ck_context():
        module = ir.Module.parse(f"module {{ gpu.module @m {{ {kernels} }} }}")
        code = CodeObject.parse(emit_code_object(module, chip).hsaco)
    wrong = [check(chip, number, one, code) for number, one in enumerate(instructions)]
    assert [text for text in wrong if text] == []
