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
from ckmlir.passes.pipeline import PIPELINE, run_pipeline
from ckmlir.sim.simulator import Simulator

CHIPS = ("gfx90a", "gfx942", "gfx950")
DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "i32": np.int32, "i8": np.int8,
}  # fmt: skip


@dataclass
class Compiled:
    """A kernel's code object, and the IR and assembly on the way to it."""

    kernel: Kernel
    hsaco: bytes
    scheduled: str
    rocdl: str
    assembly: str

    def run(self, *arguments: Any, grid: Sequence[int] = (1, 1, 1), seed: int = 5) -> list[np.ndarray]:
        """Launch with arrays (uploaded) and numbers; the arrays' contents afterwards."""
        simulator = Simulator(target=self.kernel.target.name, seed=seed)
        memories = [simulator.upload(one) if isinstance(one, np.ndarray) else None for one in arguments]
        given = [one if memory is None else memory for one, memory in zip(arguments, memories, strict=True)]
        code = CodeObject.parse(self.hsaco)
        simulator.launch(code, self.kernel.name, tuple(grid), (64 * self.kernel.waves, 1, 1), given)
        return [
            memory.read(one.dtype, one.shape)
            for one, memory in zip(arguments, memories, strict=True)
            if memory is not None
        ]


def compile_traced(kernel: Kernel) -> Compiled:
    """The whole chain, verified after every pass."""
    with kernel.module.context:
        keep = ("scheduled", "rocdl")
        stages = run_pipeline(kernel.module, PIPELINE, verify_each=True, keep=keep, dump_on_failure=False)
        made = emit_code_object(kernel.module, kernel.target.name, keep={"asm"})
    texts = stages.artifacts
    return Compiled(kernel, made.hsaco, texts["scheduled"], texts["rocdl"], str(made.artifacts["asm"]))
