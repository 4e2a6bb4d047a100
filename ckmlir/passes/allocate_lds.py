"""Give every LDS tensor a layout and a byte offset.

Layouts come first, by the accesses that a tensor sees (`lds_layouts`); rows are padded only where LDS has room for it.
Then tensors that are never live together (`lds_liveness`) share bytes (`lds_placement`); those of one innermost loop
only where they do not fit otherwise, since waves then meet more often in every step. `lds_report` shows the outcome.

A kernel in which all that has been decided is left as it is, whoever did it: a layout or offset that somebody changed
in the IR counts, and is refused by the lowering where it cannot be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ckmlir.dialect.build import integer, registers_of, string, text_of
from ckmlir.dialect.fragment_lds import room_bytes, rooms_of, tensor_bytes
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import LdsType, describe
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass, fail
from ckmlir.passes.lds_layouts import access_of, choose_layout, is_indexed, is_known
from ckmlir.passes.lds_liveness import Together, interferences
from ckmlir.passes.lds_placement import Buffer, aligned, extent, place, remedy, without_padding
from ckmlir.passes.slots import users_of, visits_of
from ckmlir.passes.walk import Blocks, expanded_functions, target_of, workgroups_a_unit
from ckmlir.targets import Target

LDS_BYTES = "ck.lds_bytes"
"""Attribute of a kernel: bytes of LDS that its workgroup needs."""
CONFLICTS = "conflict_cycles"
"""Attribute of an lds_alloc: predicted cycles lost to bank conflicts, all its accesses once."""


@dataclass(frozen=True)
class AllocateLds(Pass):
    """Give every LDS tensor a conflict-free layout and a byte offset; tensors never live together share bytes."""

    name: ClassVar[str] = "ck-allocate-lds"
    keeps_lists: ClassVar[bool] = True
    padding: bool = True

    def apply(self, module: ir.Module) -> None:
        for function, blocks in expanded_functions(module, self.name):
            allocations = [op for block in blocks for op in block if op.name == "ck.lds_alloc"]
            if LDS_BYTES in function.attributes and all("offset" in op.attributes for op in allocations):
                continue
            target = target_of(function)
            plain = {op: LdsLayout.parse(text_of(op, "layout")) for op in allocations}
            users = _users(function, blocks, allocations)
            buffers = _laid_out(plain, users, target, padding=self.padding)
            live = interferences(function, blocks, buffers)
            room = _room(function, target)
            if not _fits(buffers, live, room) and _fits(without_padding(buffers), live, room):
                buffers = _laid_out(plain, users, target, padding=False)
            _place(function, allocations, buffers, live, target)


Users = Mapping[ir.Value, list[ir.Operation]]
"""Of every tensor what accesses it."""


def _users(function: ir.Operation, blocks: Blocks, allocations: Sequence[ir.Operation]) -> Users:
    visits = visits_of(function, blocks)
    return {op.results[0]: users_of(op.results[0], visits) for op in allocations}


def _laid_out(
    allocations: Mapping[ir.Operation, LdsLayout], all_users: Users, target: Target, *, padding: bool
) -> dict[ir.Value, Buffer]:
    """What tensors take under the best layouts found for them, which they get; each has its plain one here."""
    for op, plain in allocations.items():
        lds = describe(op.results[0].type)
        assert isinstance(lds, LdsType)
        users = all_users[op.results[0]]
        copies = [user for user in users if user.name == "ck.copy_fragment"]
        accesses = tuple(dict.fromkeys(access_of(user) for user in users if is_known(user)))
        cell = max((len(registers_of(user)) for user in copies), default=0)
        widest = max((len(registers_of(user)) for user in users if is_indexed(user)), default=1)
        choice = choose_layout(plain, accesses, bits(lds.element) // 8, target, padding, cell, widest)
        op.attributes["layout"] = string(str(choice.layout))
        op.attributes[CONFLICTS] = integer(choice.conflicts)
    return {op.results[0]: _buffer(op) for op in allocations}


def _room(function: ir.Operation, target: Target) -> int:
    """Bytes of LDS for a workgroup: as many of them as the kernel says share a compute unit's."""
    return target.lds_bytes // workgroups_a_unit(function) // target.lds_granule * target.lds_granule


def _fits(buffers: Mapping[ir.Value, Buffer], live: tuple[Together, Together], room: int) -> bool:
    return extent(buffers, place(buffers, live[0])) <= room


def _place(
    function: ir.Operation, allocations: Sequence[ir.Operation], buffers: Mapping[ir.Value, Buffer],
    live: tuple[Together, Together], target: Target,
) -> None:  # fmt: skip
    """Give every allocation an offset. PassFailure where LDS has no room."""
    together, apart = live
    placed, room = place(buffers, apart), _room(function, target)
    if extent(buffers, placed) > room:
        placed = place(buffers, together)
    for op in allocations:
        op.attributes["offset"] = integer(placed[op.results[0]])
    total = extent(buffers, placed)
    function.attributes[LDS_BYTES] = integer(total)
    if total > room:
        notes = [
            (f"{name_of(op)} takes {one.bytes} bytes at {placed[op.results[0]]}{_copies(op)}", op)
            for op, one in zip(allocations, buffers.values(), strict=True)
        ]
        count = workgroups_a_unit(function)
        each = f"{room} for each of {count} workgroups of a compute unit" if count > 1 else room
        fail(
            function,
            f"needs {total} bytes of LDS, {target.name} has {each}; {remedy(buffers, together, room)}",
            notes,
        )


def name_of(op: ir.Operation) -> str:
    """What reports call the tensor of an allocation."""
    return f"'{text_of(op, 'name')}'" if "name" in op.attributes else "a tensor without a name"


def _copies(op: ir.Operation) -> str:
    rooms = rooms_of(op)
    return f", {rooms} copies of {room_bytes(op)}: so many waves hold and write the same" if rooms > 1 else ""


def _buffer(op: ir.Operation) -> Buffer:
    layout = LdsLayout.parse(text_of(op, "layout"))
    unpadded = room_bytes(op) * layout.row_length * layout.rows // layout.elements * rooms_of(op)
    return Buffer(text_of(op, "name") if "name" in op.attributes else "", aligned(tensor_bytes(op)), aligned(unpadded))
