"""The families of instructions, in the order in which they are asked."""

from ckmlir.sim.alu_families import AluFamily, ControlFamily, CrossLaneFamily, MatrixFamily
from ckmlir.sim.memory_families import BufferFamily, FlatFamily, LdsFamily, ScalarMemoryFamily

Family = (
    AluFamily
    | ControlFamily
    | CrossLaneFamily
    | MatrixFamily
    | ScalarMemoryFamily
    | LdsFamily
    | FlatFamily
    | BufferFamily
)
FAMILIES: tuple[Family, ...] = (
    AluFamily(),
    ControlFamily(),
    CrossLaneFamily(),
    MatrixFamily(),
    ScalarMemoryFamily(),
    LdsFamily(),
    FlatFamily(),
    BufferFamily(),
)
