"""Any .hsaco on NumPy arrays, without a GPU: here a kernel that clang made of OpenCL C (saxpy.cl).

    python examples/simulate_code_object.py

The simulator is a library of its own: it reads the code object's metadata for arguments and sizes, and imports
nothing of MLIR.
"""

import sys
from pathlib import Path

import numpy as np

from ckmlir.codeobject import CodeObject
from ckmlir.sim import SimulationError, Simulator

code_object = CodeObject.parse(Path(__file__).with_name("saxpy_gfx942.hsaco"))
simulator = Simulator()

x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
x_memory, y_memory = simulator.upload(x), simulator.upload(y)
statistics = simulator.launch(
    code_object, "saxpy", grid=(4, 1, 1), block=(256, 1, 1), arguments=[x_memory, y_memory, np.float32(0.5), len(x)]
)
result = y_memory.read(np.float32)
np.testing.assert_array_equal(result, y + np.float32(0.5) * x)
print(f"{code_object.target_id}: {statistics.wave_instructions} wave-instructions, result agrees with NumPy")
print("by kind:", ", ".join(f"{count} {kind}" for kind, count in sorted(statistics.categories.items())))

# A wrong size is found at the instruction that uses it, with its lane and the allocation that it misses.
try:
    simulator.launch(
        code_object, "saxpy", grid=(5, 1, 1), block=(256, 1, 1), arguments=[x_memory, y_memory, np.float32(0.5), 1100]
    )
except SimulationError as error:
    print("found:", error)

assert not any(name.startswith(("mlir", "flydsl", "ckmlir.mlir")) for name in sys.modules)
