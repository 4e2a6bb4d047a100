"""Turn packed elements while LDS is read, where the chip does that, and not on their way there.

Elements that share bytes across the rows that readers want are turned in registers (`ck.repack`) before they go to LDS.
Where a transposing read gives every reader what it wants, LDS holds them as memory does, and the reads turn them: what
is loaded goes to LDS as it is, in vectors along memory, or past registers.
"""

from dataclasses import dataclass
from typing import ClassVar

from ckmlir.dialect import memory
from ckmlir.dialect.build import default_attributes, producer, text_of
from ckmlir.dialect.control import STRUCTURED, same_values
from ckmlir.dialect.loop import stage_of
from ckmlir.dialect.packed_checks import dimensions_of, packing_of
from ckmlir.dialect.packing import PACKED, turns_packed
from ckmlir.dialect.types import TileType, tile_of
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass
from ckmlir.passes.transposed_reads import packed_reading
from ckmlir.passes.walk import functions, named_target, operations
from ckmlir.targets import Target

TURN = ("format", "before", "after")
"""Attributes of a `ck.repack`, and of a `ck.from_lds` in its place."""


@dataclass(frozen=True)
class TurnReads(Pass):
    """Read packed elements turned, and do not turn them on their way to LDS."""

    name: ClassVar[str] = "ck-turn-reads"

    def apply(self, module: ir.Module) -> None:
        for function in functions(module):
            target = named_target(function)
            if not any(turns_packed(target, packing) for packing in PACKED.values()):
                continue
            for op in [one for one in operations(function) if one.name == "ck.to_lds"]:
                turn = producer(op.operands[0])
                if turn is not None and turn.name == "ck.repack" and _can_read(op, turn, target):
                    _read_turned(function, op, turn)


def _can_read(op: ir.Operation, turn: ir.Operation, target: Target | None) -> bool:
    """Whether nothing but LDS takes what is turned, and every reader can turn it."""
    packing, dims = packing_of(turn), dimensions_of(turn)
    if not turns_packed(target, packing) or len(list(turn.results[0].uses)) > 1:
        return False
    readers = [use.owner.operation for use in op.results[0].uses]
    if any(reader.name != "ck.from_lds" for reader in readers):
        return False
    tiles = [tile_of(reader.results[0]).distribution for reader in readers]
    return all(one is not None and packed_reading(one, packing, *dims) is not None for one in tiles)


def _read_turned(function: ir.Operation, op: ir.Operation, turn: ir.Operation) -> None:
    source, attributes = turn.operands[0], {name: turn.attributes[name] for name in TURN}
    alike = _carried_with(source, function)
    if {made.name for made in map(producer, alike) if made is not None} <= {"ck.load", *STRUCTURED}:
        for tile in alike:
            described = tile_of(tile)
            tile.set_type(TileType(described.lengths, described.element, None).mlir())  # memory says now how it lies
    with ir.InsertionPoint(op), op.location, default_attributes(stage_of(op)):
        lds = memory.to_lds(source, text_of(op, "name") if "name" in op.attributes else "")
    for read in [use.owner.operation for use in op.results[0].uses]:
        with ir.InsertionPoint(read), read.location, default_attributes(stage_of(read)):
            tile = memory.from_lds(lds, tile_of(read.results[0]), attributes)
        read.results[0].replace_all_uses_with(tile)
        read.erase()
    op.erase()
    turn.erase()


def _carried_with(tile: ir.Value, function: ir.Operation) -> list[ir.Value]:
    """A tile, and those that loops and branches hand on as it."""
    found = {tile}
    groups = [set(names) for op in operations(function) if op.name in STRUCTURED for names in same_values(op)]
    while more := [names for names in groups if names & found and names - found]:
        found.update(*more)
    return list(found)
