"""Runs damaged code objects: truncated, with flipped bits, random. Each must end in an error of the project or within
its budget.

A program of its own, so that a crash of the interpreter is seen as such: damaged_code_objects.py FIRST COUNT
prints how many ended how; on anything else than an error of the project, the number of the case and a trace.
"""

from __future__ import annotations

import faulthandler
import sys
import time
from collections import Counter

import numpy as np

from ckmlir.codeobject import CodeObject, CodeObjectError
from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.sim import Simulator
from ckmlir.sim.errors import LaunchError, SimulationError, UnsupportedInstruction
from ckmlir.targets import get_target

REQUESTS = (
    ("gemm", "gfx90a", {"m": 64, "n": 64, "k": 64}),
    ("gemm", "gfx942", {"m": 64, "n": 64, "k": 64}),
    ("gemm", "gfx950", {"m": 64, "n": 64, "k": 64}),
    ("layernorm2d", "gfx942", {"m": 8, "n": 256}),
    ("fmha_fwd", "gfx950", {"sq": 64, "d": 64}),
)
SLOWEST = 5.0  # processor seconds a case may take: the budget of branches ends what does not end by itself


def intact() -> list[bytes]:
    """Code objects of operators."""
    made = []
    for name, chip, keys in REQUESTS:
        operator, target = find_operator(name), get_target(chip)
        made.append(compile_kernel(operator, operator.spec(operator.problem(**keys), target), target).hsaco)
    return made


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """One of: cut off, bits flipped anywhere or in the machine code, random behind the ELF header, all random."""
    kind = rng.integers(0, 5)
    if kind == 0:
        return data[: rng.integers(0, len(data))]
    if kind == 3:
        return data[:64] + rng.bytes(len(data) - 64)
    if kind == 4:
        return rng.bytes(int(rng.integers(0, 2000)))
    first, size = 0, len(data)
    if kind == 2:
        code_object = CodeObject.parse(data)
        code = code_object.code(code_object.kernel())
        first, size = data.find(code), len(code)
    changed = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        changed[first + int(rng.integers(0, size))] ^= 1 << int(rng.integers(0, 8))
    return bytes(changed)


def run(data: bytes, rng: np.random.Generator) -> str:
    """Launch the first kernel with arguments that a careless caller would give; says how that ended."""
    try:
        code_object = CodeObject.parse(data)
        if not code_object.kernels:
            return "no kernel"
        kernel = next(iter(code_object.kernels.values()))
        simulator = Simulator(branch_budget=2000)
        memory = simulator.upload(rng.integers(0, 256, 1 << 16, np.uint8))
        explicit = [item for item in kernel.arguments if not item.is_hidden]
        arguments = [memory if item.value_kind == "global_buffer" else 64 for item in explicit]
        most = kernel.metadata.max_flat_workgroup_size or 64
        block = kernel.metadata.required_workgroup_size or (min(most, 256), 1, 1)
        simulator.launch(code_object, kernel.name, (2, 1, 1), block, arguments)
        return "ran"
    except (CodeObjectError, LaunchError, UnsupportedInstruction, SimulationError) as error:
        return type(error).__name__


def main(first: int, count: int) -> None:
    faulthandler.enable()
    whole = intact()
    ends: Counter[str] = Counter()
    for number in range(first, first + count):
        rng = np.random.default_rng(number)
        start = time.process_time()
        try:
            ends[run(damaged(whole[number % len(whole)], rng), rng)] += 1
        except BaseException:
            print("case", number, file=sys.stderr)
            raise
        took = time.process_time() - start
        assert took < SLOWEST, f"case {number} took {took:.1f} s"
    print(dict(ends))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
