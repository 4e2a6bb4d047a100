"""What ck-split-tiles knows while it works: the registers of every tile split so far, and the LDS tensors."""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct, field

from ckmlir.dialect import build
from ckmlir.dialect.loop import LOOP, STAGE, schedule_of
from ckmlir.dialect.synchronization import TOGETHER
from ckmlir.dialect.types import tile_of
from ckmlir.errors import counted
from ckmlir.mlir import ir
from ckmlir.passes.framework import fail
from ckmlir.passes.registers import Registers
from ckmlir.passes.walk import named_target, target_of
from ckmlir.passes.window_vectors import Lengths
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

CARRIED_CHUNK = 16
"""Largest vector for values that no instruction asks in a particular size."""


class SplitState(Struct):
    """Registers by tile, allocations by LDS tensor, and the operations that have been replaced."""

    function: ir.Operation
    waves: int
    vector_length: Lengths
    tiles: dict[ir.Value, Registers] = field(default_factory=dict)
    buffers: dict[ir.Value, ir.Value] = field(default_factory=dict)
    finished: list[ir.Operation] = field(default_factory=list)

    @property
    def target(self) -> Target:
        """The chip; PassFailure when none is named."""
        return target_of(self.function)

    @property
    def named_target(self) -> Target | None:
        """The chip, for what is only better where it is known."""
        return named_target(self.function)

    @staticmethod
    def piece(op: ir.Operation) -> int:
        """Registers that a piece of an operation's arithmetic is, as the schedule of its loop says; 0: as they lie."""
        home = op.parent.operation
        while home.name != "func.func":
            if home.name == LOOP:
                return schedule_of(home, check_stages=False).elements  # ck-pipeline-loops checks them
            home = home.parent.operation
        return 0

    def of(self, tile: ir.Value) -> Registers:
        """The registers of a tile that has been split."""
        if tile not in self.tiles:
            fail(tile.owner, f"{tile.type} comes from an operation that is not split; only ck operations make tiles")
        return self.tiles[tile]

    def bind(self, tile: ir.Value, registers: Registers) -> None:
        """Record a tile's registers; their number must be its distribution's, and that spread over the workgroup."""
        placed = tile_of(tile).placed
        if (placed.waves, placed.lanes) != (self.waves, WAVE_SIZE):
            lies = f"'{placed}' lies over {counted(placed.waves, 'wave')} of {counted(placed.lanes, 'lane')}"
            fail(registers.chunks[0].owner, f"{lies}, the workgroup has {self.waves} of {WAVE_SIZE}")
        if registers.count != placed.registers:
            raise AssertionError(f"{tile.type} has {placed.registers} registers, got {registers.count}")
        self.tiles[tile] = registers

    def buffer_of(self, lds: ir.Value) -> ir.Value:
        """The allocation that an LDS tensor has become."""
        if lds not in self.buffers:
            makers = "only ck.to_lds and ck.copy_to_lds make LDS tensors"
            fail(lds.owner, f"{lds.type} comes from an operation that is not split; {makers}")
        return self.buffers[lds]

    @contextmanager
    def stage(self, op: ir.Operation) -> Iterator[None]:
        """Operations created inside belong to the stage of `op`, and come together with what it does."""
        kept = {name: op.attributes[name] for name in (STAGE, TOGETHER) if name in op.attributes}
        if not kept:
            yield
            return
        with build.default_attributes(kept):
            yield
