"""Compiles small traced kernels and runs them on the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ckmlir.codeobject import CodeObject
from ckmlir.lang import Kernel
from ckmlir.lowering.codeobject import emit_code_object
from ckmlir.mlir import ir
from ckmlir.passes.check_schedule import check_module
from ckmlir.passes.pipeline import PIPELINE, run_pipeline
from ckmlir.sim.checks.finding import parse_checks
from ckmlir.sim.simulator import Simulator

CHIPS = ("gfx90a", "gfx942", "gfx950")
DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "i32": np.int32, "i64": np.int64, "i8": np.int8,
}  # fmt: skip


@dataclass
class Compiled:
    """A kernel's code object, and the IR and assembly on the way to it."""

    kernel: Kernel
    hsaco: bytes
    scheduled: str
    rocdl: str
    assembly: str

    def run(self, *arguments: Any, grid: Sequence[int] = (1, 1, 1), seed: int = 5, checks: str = "") -> list[Any]:
        """Launch with arrays (uploaded) and numbers; the arrays' contents afterwards.

        A list of arrays is uploaded as an array of their addresses, 0 for None; the contents of each follow in a list.
        `checks`: the simulator's checkers, which raise what they find.
        """
        watching = parse_checks(checks) if checks else ()
        simulator = Simulator(target=self.kernel.target.name, seed=seed, checks=watching)
        memories = [_uploaded(simulator, one) for one in arguments]
        tables = [
            np.array([each.address if each else 0 for each in one], np.int64)
            for one in memories
            if isinstance(one, list)
        ]
        addresses = iter([simulator.upload(one) for one in tables])
        given = [
            next(addresses) if isinstance(memory, list) else one if memory is None else memory
            for one, memory in zip(arguments, memories, strict=True)
        ]
        code = CodeObject.parse(self.hsaco)
        simulator.launch(code, self.kernel.name, tuple(grid), (64 * self.kernel.waves, 1, 1), given)
        return [_contents(memory, one) for memory, one in zip(memories, arguments, strict=True) if memory is not None]

    @property
    def spills(self) -> int:
        """Registers of either kind that LLVM keeps in memory."""
        metadata = CodeObject.parse(self.hsaco).kernel(self.kernel.name).metadata
        return metadata.vgpr_spill_count + metadata.sgpr_spill_count


def _uploaded(simulator: Simulator, argument: Any) -> Any:
    if isinstance(argument, list):
        return [None if one is None else simulator.upload(one) for one in argument]
    return simulator.upload(argument) if isinstance(argument, np.ndarray) else None


def _contents(memory: Any, argument: Any) -> Any:
    if isinstance(memory, list):
        return [one and one.read(array.dtype, array.shape) for one, array in zip(memory, argument, strict=True)]
    return memory.read(argument.dtype, argument.shape)


def prove(fragments: str, scheduled: str, *, large: bool = False) -> None:
    """The scheduled kernel is free of races and computes what its fragments do; a `large` one may need more registers
    than there are.
    """
    before, after = ir.Module.parse(fragments), ir.Module.parse(scheduled)
    findings = [one for one in check_module(after, before) if not (large and one.check == "registers")]
    assert not findings, "\n".join(map(str, findings))


def compile_traced(kernel: Kernel, *, proved: bool = True, large: bool = False) -> Compiled:
    """The whole chain, verified after every pass, and its schedule proved."""
    with kernel.module.context:
        keep = ("fragments", "scheduled", "rocdl")
        stages = run_pipeline(kernel.module, PIPELINE, verify_each=True, keep=keep, dump_on_failure=False)
        made = emit_code_object(kernel.module, kernel.target.name, keep={"asm"})
        texts = stages.artifacts
        if proved:
            prove(texts["fragments"], texts["scheduled"], large=large)
    return Compiled(kernel, made.hsaco, texts["scheduled"], texts["rocdl"], str(made.artifacts["asm"]))
