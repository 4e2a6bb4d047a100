"""What instructions compute. Importing this package fills `ckmlir.sim.operation.OPERATIONS`."""

from ckmlir.sim.semantics import compare, conversion, floating, integer, packed, scalar, transcendental

__all__ = ["compare", "conversion", "floating", "integer", "packed", "scalar", "transcendental"]
