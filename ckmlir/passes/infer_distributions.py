"""Find the distribution of every tile, and check that those given agree.

Element-wise operations and loops need one distribution for all their tiles; reductions, broadcasts and slices derive
one from another. What follows from the distributions given is filled in. A tile that nothing constrains is one that is
only loaded to be put into LDS or stored again, or made to be stored: it gets the distribution whose memory accesses are
widest. One that is stretched from another, and meets none, repeats in registers.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from msgspec import Struct, field

from ckmlir.dialect.build import integer_of, producer
from ckmlir.dialect.control import STRUCTURED
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import TileType, WindowType, describe, is_tile, tile_of
from ckmlir.mlir import ir
from ckmlir.passes.copy_plans import copy_plan
from ckmlir.passes.distribution_rules import COPY, INDEXED, lie_alike, links_of
from ckmlir.passes.framework import Pass, fail
from ckmlir.passes.reader_wishes import wanted_by_readers
from ckmlir.passes.transposed_reads import transposed_elements
from ckmlir.passes.walk import functions, named_target, operations, target_of, waves_of
from ckmlir.passes.window_vectors import Lengths, vector_lengths
from ckmlir.targets.cdna import ACCESS_BYTES

MOST_REGISTERS = 4096
"""Eight times what a thread has: a tile that is used piece by piece need not be there as a whole."""
LOADS = ("ck.load", "ck.gather")
STORES = {"ck.store": ACCESS_BYTES, "ck.scatter": ACCESS_BYTES, "ck.atomic_update": 4, "ck.atomic_scatter": 4}
"""What takes a tile to memory, and bytes that a lane may take there at once."""


@dataclass(frozen=True)
class InferDistributions(Pass):
    """Give every tile a distribution, from those given and from what its accesses want."""

    name: ClassVar[str] = "ck-infer-distributions"

    def apply(self, module: ir.Module) -> None:
        for function in functions(module):
            _Inference(function).run()


class _Group(Struct):
    """Tiles that share one distribution."""

    members: list[ir.Value]
    distribution: Distribution | None = None
    reason: Any = None  # the operation that determined it


class _Inference(Struct, dict=True):
    function: Any
    group_of: dict[ir.Value, _Group] = field(default_factory=dict)

    @cached_property
    def vector_length(self) -> Lengths:
        """How long vectors may be."""
        return vector_lengths(self.function)

    def run(self) -> None:
        body = list(operations(self.function))
        tiles = [value for op in body for value in _tiles_of(op)]
        if all(tile_of(value).distribution is not None for value in tiles):
            self._check_sizes(tiles)
            return
        for value in tiles:
            group = self.group_of[value] = _Group([value], tile_of(value).distribution)
            group.reason = producer(value)
        for op in body:
            self._unify(op)
        by_memory = self._choose_for_store, self._choose_for_index
        choices = self._choose_for_load, self._expand, self._choose_for_places, *by_memory
        while any(step(body) for step in (self._propagate, *choices)):
            pass
        for value, group in self.group_of.items():
            tile = tile_of(value)
            if group.distribution is None:
                fail(
                    _definer(value, self.function),
                    f"nothing determines the distribution of this {list(tile.lengths)} tile; give one",
                )
            if tile.distribution is None:
                value.set_type(TileType(tile.lengths, tile.element, group.distribution).mlir())
        self._check_sizes(tiles)

    def _check_sizes(self, tiles: list[ir.Value]) -> None:
        """Refuse tiles that no wave could hold, before they become as many operations."""
        for value in tiles:
            tile = tile_of(value)
            registers = tile.placed.registers * bits(tile.element) // 32
            if registers > MOST_REGISTERS:
                fail(
                    _definer(value, self.function),
                    f"this tile takes {registers} registers of every thread, and a thread has 512; smaller tiles, more "
                    "waves, or a loop over parts of it take fewer",
                )

    # -- tiles with one distribution

    def _unify(self, op: ir.Operation) -> None:
        for values in lie_alike(op):
            self._merge(op, values)

    def _merge(self, op: ir.Operation, values: list[ir.Value]) -> None:
        first = self.group_of[values[0]]
        for value in values[1:]:
            other = self.group_of[value]
            if other is first:
                continue
            if other.distribution is not None and first.distribution is None:
                first.distribution, first.reason = other.distribution, other.reason
            elif other.distribution is not None:
                self._set(first, other.distribution, op, other.reason)
            first.members.extend(other.members)
            for member in other.members:
                self.group_of[member] = first

    def _set(self, group: _Group, distribution: Distribution, op: ir.Operation, reason: Any = None) -> bool:
        if group.distribution is None:
            group.distribution, group.reason = distribution, op
            return True
        if group.distribution != distribution:
            fail(
                op,
                f"its tiles need one distribution, but one lies as '{group.distribution}', "
                f"another as '{distribution}'; redistribute one of them",
                [
                    (f"the {which} is determined here", place)
                    for which, place in (("first", group.reason), ("other", reason))
                    if place is not None
                ],
            )
        return False

    # -- tiles derived from others

    def _propagate(self, body: list[ir.Operation]) -> bool:
        changed = [self._derive(op) for op in body]
        return any(changed)

    def _derive(self, op: ir.Operation) -> bool:
        if op.name == COPY:
            return self._derive_copied(op)
        for known, found, rule in links_of(op):
            source, result = self.group_of[known].distribution, self.group_of[found]
            if source is not None and result.distribution is None:
                try:
                    return self._set(result, rule(source), op)
                except ValueError as problem:
                    fail(op, str(problem))
        return False

    def _derive_copied(self, op: ir.Operation) -> bool:
        """The indices and conditions of a copy to LDS, which has no tile: each in the thread that copies its row."""
        for own in [self.group_of[one] for one in list(op.operands)[1:]]:
            if own.distribution is None:
                plan = copy_plan(op, self.vector_length, waves_of(self.function), target_of(self.function))
                return self._set(own, plan.distribution.along(integer_of(op, "axis")), op)
        return False

    def _expand(self, body: list[ir.Operation]) -> bool:
        """A tile that is stretched, and meets nothing that says how, repeats in the registers of each thread."""
        for op in body:
            if op.name == "ck.broadcast":
                source, result = self.group_of[op.operands[0]].distribution, self.group_of[op.results[0]]
                if source is not None and result.distribution is None:
                    axis = integer_of(op, "axis")
                    return self._set(result, source.expand(axis, tile_of(op.results[0]).lengths[axis]), op)
        return False

    # -- tiles that only memory constrains

    def _choose_for_load(self, body: list[ir.Operation]) -> bool:
        loads = (op for op in body if op.name in LOADS and not self._is_index(op))
        return any(self._choose(op, op.results[0], op.operands[0]) for op in loads)

    def _choose_for_index(self, body: list[ir.Operation]) -> bool:
        return any(self._choose(op, op.results[0], op.operands[0]) for op in body if op.name in LOADS)

    def _choose_for_store(self, body: list[ir.Operation]) -> bool:
        return any(self._choose(op, op.operands[0], op.operands[1]) for op in body if op.name in STORES)

    def _choose(self, op: ir.Operation, tile: ir.Value, accessed: ir.Value) -> bool:
        group = self.group_of[tile]
        return group.distribution is None and self._set(group, self._for_access(op, accessed, group), op)

    def _choose_for_places(self, body: list[ir.Operation]) -> bool:
        """Coordinates that are reduced, and meet no tile that memory constrains, lie in any way: lanes along the last
        dimension.
        """
        for op in body:
            group = self.group_of[op.results[0]] if op.name == "ck.coordinates" else None
            if group is not None and group.distribution is None and self._is_reduced(group):
                lengths = tile_of(op.results[0]).lengths
                return self._set(group, coalesced(lengths, waves_of(self.function), len(lengths) - 1, 1), op)
        return False

    @staticmethod
    def _is_reduced(group: _Group) -> bool:
        return any(use.owner.operation.name == "ck.reduce" for one in group.members for use in one.uses)

    def _is_index(self, op: ir.Operation) -> bool:
        """Whether what is loaded becomes the indices of a gather or scatter."""
        uses = (use for member in self.group_of[op.results[0]].members for use in member.uses)
        return any(use.operand_number == INDEXED.get(use.owner.operation.name) for use in uses)

    def _for_access(self, op: ir.Operation, accessed: ir.Value, group: _Group) -> Distribution:
        """Vectors as wide as the window allows, where it allows none lanes along neighbours in memory; where LDS
        readers want the other dimension contiguous, also blocks of it.
        """
        window = describe(accessed.type)
        assert isinstance(window, WindowType)
        widest = max((STORES.get(op.name, ACCESS_BYTES) * 8) // bits(window.element), 1)
        rank = len(window.lengths)
        lengths = [self.vector_length(accessed, dim, min(widest, window.lengths[dim])) for dim in range(rank)]
        if op.name in INDEXED:
            lengths[integer_of(op, "axis")] = 1
        near = [window.descriptor.begins_contiguous(dim) for dim in range(rank)]
        contiguous = max(range(rank), key=lambda dim: (lengths[dim], near[dim], dim))
        waves = waves_of(self.function)
        count = transposed_elements(named_target(self.function), bits(window.element))
        served = (contiguous, count) if lengths[contiguous] >= count > 0 else None
        wanted = wanted_by_readers(group.members, widest, served)
        block = 1
        others = [dim for dim in range(rank) if dim != contiguous]
        if wanted is not None and others and wanted[0] == others[-1]:  # the dimension that a block can take
            block = wanted[1]
        try:
            return coalesced(window.lengths, waves, contiguous, lengths[contiguous], transposed_block=block)
        except ValueError as problem:
            fail(op, f"no distribution for accessing {list(window.lengths)} by {waves} waves: {problem}")


def _tiles_of(op: ir.Operation) -> list[ir.Value]:
    tiles = [value for value in op.results if is_tile(value.type)]
    if op.name in STRUCTURED:
        blocks = (block for region in op.regions for block in region)
        tiles.extend(value for block in blocks for value in block.arguments if is_tile(value.type))
    return tiles


def _definer(value: ir.Value, function: Any) -> Any:
    return producer(value) or function
