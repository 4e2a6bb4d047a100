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

from ckmlir.dialect.build import integer_of, producer, registers_of
from ckmlir.dialect.control import STRUCTURED, same_values
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.packed_checks import dimensions_of, packing_of
from ckmlir.dialect.packed_tiles import bytes_over, elements_over, repacked
from ckmlir.dialect.regions import sources_of
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import TileType, WindowType, describe, is_tile, tile_of
from ckmlir.mlir import ir
from ckmlir.passes.copy_plans import copy_plan
from ckmlir.passes.framework import Pass, fail
from ckmlir.passes.reader_wishes import wanted_by_readers
from ckmlir.passes.transposed_reads import VECTOR, has_transposed_read
from ckmlir.passes.walk import functions, named_target, operations, target_of, waves_of
from ckmlir.passes.window_vectors import Lengths, vector_lengths

ACCESS_BYTES = 16
MOST_REGISTERS = 4096
"""Eight times what a thread has: a tile that is used piece by piece need not be there as a whole."""
LOADS = ("ck.load", "ck.gather")
STORES = {"ck.store": ACCESS_BYTES, "ck.scatter": ACCESS_BYTES, "ck.atomic_update": 4, "ck.atomic_scatter": 4}
"""What takes a tile to memory, and bytes that a lane may take there at once."""
BY_ROWS = ("ck.rescale", "ck.cut")
"""What takes a tile's rows and an element for each."""
COPY = "ck.copy_to_lds"
INDEXED = {
    "ck.gather": 1, "ck.scatter": 2, "ck.atomic_scatter": 2, "ck.lds_gather": 1, "ck.lds_update": 2, COPY: 1,
}  # fmt: skip
"""Operations whose coordinate along an axis comes from a tile, and which operand that is."""


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
        if op.name == "ck.map":
            self._merge(op, [*op.results, *sources_of(op)])
        elif op.name in ("ck.cast", *BY_ROWS):
            self._merge(op, [op.operands[0], op.results[0]])
        elif op.name == "ck.mma":
            self._merge(op, [op.operands[2], op.results[0]])
        elif op.name == "ck.dequantize":
            self._merge(op, [*list(op.operands)[1:], op.results[0]])
        elif op.name in ("ck.atomic_update", "ck.atomic_scatter"):
            self._merge(op, [op.operands[0], *op.results])
        elif op.name in ("ck.lds_gather", "ck.lds_update"):
            if op.name == "ck.lds_update":
                self._merge(op, [op.operands[0], *op.results])
            data = op.results[0] if len(op.results) else op.operands[0]
            if len(tile_of(data).lengths) == 1:  # each element has an index of its own
                self._merge(op, [data, op.operands[INDEXED[op.name]]])
        elif op.name == "ck.insert":
            self._merge(op, [op.operands[1], op.results[0]])
        elif op.name == "ck.scan":
            self._merge(op, [*op.operands, *op.results])
        elif op.name == "ck.reduce":
            self._merge(op, list(op.operands))
            self._merge(op, list(op.results))
        elif op.name in STRUCTURED:
            for names in same_values(op):
                if is_tile(names[0].type):
                    self._merge(op, names)

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
        if op.name == "ck.reduce":
            source, result = self.group_of[op.operands[0]], self.group_of[op.results[0]]
            if source.distribution is not None and result.distribution is None:
                return self._set(result, source.distribution.reduce(integer_of(op, "axis")), op)
        elif op.name == "ck.broadcast":
            source, result = self.group_of[op.operands[0]], self.group_of[op.results[0]]
            if result.distribution is not None and source.distribution is None:
                return self._set(source, result.distribution.reduce(integer_of(op, "axis")), op)
        elif op.name in BY_ROWS:
            source, own = self.group_of[op.operands[0]], self.group_of[op.operands[1]]
            if source.distribution is not None and own.distribution is None:
                return self._set(own, source.distribution.reduce(1), op)
        elif op.name == "ck.join_axes":
            source, result = self.group_of[op.operands[0]], self.group_of[op.results[0]]
            if source.distribution is not None and result.distribution is None:
                return self._set(result, source.distribution.join(integer_of(op, "axis")), op)
            if source.distribution is None and result.distribution is not None:
                axis = integer_of(op, "axis")
                try:
                    lies = result.distribution.split(axis, tile_of(op.operands[0]).lengths[axis + 1])
                except ValueError as problem:
                    fail(op, str(problem))
                return self._set(source, lies, op)
        elif op.name == "ck.permute_axes":
            return self._derive_permuted(op)
        elif op.name in ("ck.unpack", "ck.dequantize", "ck.pack"):
            return self._derive_packed(op)
        elif op.name == "ck.repack":
            return self._derive_repacked(op)
        elif op.name == "ck.slice":
            return self._derive_part(op, op.operands[0], op.results[0])
        elif op.name == "ck.insert":
            return self._derive_part(op, op.results[0], op.operands[0])
        elif op.name == COPY:
            for own in [self.group_of[one] for one in list(op.operands)[1:]]:
                if own.distribution is None:
                    plan = copy_plan(op, self.vector_length, waves_of(self.function), target_of(self.function))
                    return self._set(own, plan.distribution.along(integer_of(op, "axis")), op)
        elif op.name in INDEXED:
            data, indices = self._data_and_indices(op)
            if data.distribution is not None and indices.distribution is None:
                return self._set(indices, data.distribution.along(integer_of(op, "axis")), op)
        return False

    def _data_and_indices(self, op: ir.Operation) -> tuple[_Group, _Group]:
        data = op.results[0] if len(op.results) else op.operands[0]
        return self.group_of[data], self.group_of[op.operands[INDEXED[op.name]]]

    def _derive_permuted(self, op: ir.Operation) -> bool:
        """Either side from the other: a permutation loses nothing."""
        source, result = self.group_of[op.operands[0]], self.group_of[op.results[0]]
        order = registers_of(op, "order")
        if source.distribution is not None and result.distribution is None:
            return self._set(result, source.distribution.permute(order), op)
        if source.distribution is None and result.distribution is not None:
            return self._set(source, result.distribution.permute([order.index(dim) for dim in range(len(order))]), op)
        return False

    def _derive_packed(self, op: ir.Operation) -> bool:
        """Bytes from the elements in them, or those from the bytes."""
        source, result, packing = self.group_of[op.operands[0]], self.group_of[op.results[0]], packing_of(op)
        forth, back = (bytes_over, elements_over) if op.name == "ck.pack" else (elements_over, bytes_over)
        try:
            if source.distribution is not None and result.distribution is None:
                return self._set(result, forth(source.distribution, packing), op)
            if source.distribution is None and result.distribution is not None:
                return self._set(source, back(result.distribution, packing), op)
        except ValueError as problem:
            fail(op, str(problem))
        return False

    def _derive_repacked(self, op: ir.Operation) -> bool:
        """Either side from the other: elements stay in their threads."""
        source, result, dims = self.group_of[op.operands[0]], self.group_of[op.results[0]], dimensions_of(op)
        try:
            if source.distribution is not None and result.distribution is None:
                return self._set(result, repacked(source.distribution, packing_of(op), *dims), op)
            if source.distribution is None and result.distribution is not None:
                return self._set(source, repacked(result.distribution, packing_of(op), *dims[::-1]), op)
        except ValueError as problem:
            fail(op, str(problem))
        return False

    def _derive_part(self, op: ir.Operation, whole: ir.Value, part: ir.Value) -> bool:
        known, wanted = self.group_of[whole].distribution, self.group_of[part]
        if known is None or wanted.distribution is not None:
            return False
        axis = integer_of(op, "axis")
        try:
            found = known.slice(axis, integer_of(op, "start"), tile_of(part).lengths[axis])[0]
        except ValueError as problem:
            fail(op, str(problem))
        return self._set(wanted, found, op)

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
        transposing = has_transposed_read(named_target(self.function), bits(window.element))
        served = contiguous if transposing and lengths[contiguous] >= VECTOR else None
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
