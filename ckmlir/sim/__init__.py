"""A simulator of gfx9 code objects: runs the machine code of gfx90a, gfx942 and gfx950 kernels on NumPy arrays.

    from ckmlir.codeobject import CodeObject
    from ckmlir.sim import Simulator
    simulator = Simulator()
    x, y = simulator.upload(array), simulator.allocate(array.nbytes)
    simulator.launch(CodeObject.parse("kernel.hsaco"), grid=(4, 1, 1), block=(256, 1, 1), arguments=[x, y, len(array)])
    result = y.read(array.dtype, array.shape)

`Simulator(checks=parse_checks("all"))` has every launch watched by checkers; one that they find something wrong with
raises CheckFailure with `findings`, each with its instruction, source line, wave, lanes and memory.

Knows nothing of MLIR. `operation.py` and `semantics/` say what instructions compute; `selection.py` finds an
instruction's handler; `library.py` compiles handlers; `program.py`, `launch.py` and `scheduler.py` run kernels.
"""

from typing import TYPE_CHECKING

from ckmlir.deferred import deferred

if TYPE_CHECKING:
    from ckmlir.sim.checks import Finding, parse_checks
    from ckmlir.sim.errors import CheckFailure, LaunchError, MissingInstruction, SimulationError, UnsupportedInstruction
    from ckmlir.sim.memory import DeviceMemory
    from ckmlir.sim.simulator import Simulator
    from ckmlir.sim.statistics import RunStatistics

__all__ = [
    "CheckFailure",
    "DeviceMemory",
    "Finding",
    "LaunchError",
    "MissingInstruction",
    "RunStatistics",
    "SimulationError",
    "Simulator",
    "UnsupportedInstruction",
    "parse_checks",
]

# Decoding and static checks need no LLVM.
__getattr__ = deferred(
    __name__,
    {
        "checks": "Finding parse_checks",
        "errors": "CheckFailure LaunchError MissingInstruction SimulationError UnsupportedInstruction",
        "memory": "DeviceMemory",
        "simulator": "Simulator",
        "statistics": "RunStatistics",
    },
)
