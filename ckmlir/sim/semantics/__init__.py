"""What instructions compute. Importing this package fills `ckmlir.sim.operation.OPERATIONS`."""

from ckmlir.sim.semantics import (
    block_conversion,
    compare,
    conversion,
    cube_map,
    floating,
    integer,
    packed,
    scalar,
    transcendental,
    trigonometric_reduction,
)

__all__ = [
    "block_conversion",
    "compare",
    "conversion",
    "cube_map",
    "floating",
    "integer",
    "packed",
    "scalar",
    "transcendental",
    "trigonometric_reduction",
]
