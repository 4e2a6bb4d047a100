"""Take every operand from memory to registers on the path that the schedule of its loop gives it.

A tile program loads a tile, puts it into LDS and reads it from there: the path `through` registers. On the path
`direct` a copy from memory to LDS takes the place of the load and the write, in the load's stage; on the path
`straight` every reader loads its own part from memory, also in the load's stage, and LDS is not used.
"""

from dataclasses import dataclass
from typing import ClassVar

from ckmlir.dialect import build, memory
from ckmlir.dialect.build import producer, text_of
from ckmlir.dialect.control import LOOPS
from ckmlir.dialect.loop import LOOP, STAGE, schedule_of
from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.types import tile_of
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass, fail
from ckmlir.passes.walk import functions, operations


@dataclass(frozen=True)
class ChoosePaths(Pass):
    """Take operands from memory to registers on the paths that schedules give them."""

    name: ClassVar[str] = "ck-choose-paths"

    def apply(self, module: ir.Module) -> None:
        for function in functions(module):
            for loop in [op for op in operations(function) if op.name == LOOP]:
                _choose(loop)


def _choose(loop: ir.Operation) -> None:
    try:
        schedule = schedule_of(loop, check_stages=False)  # a path may leave a stage empty
    except ValueError as problem:
        fail(loop, str(problem))
    staged = [op for op in operations(loop, without=LOOPS) if op.name == "ck.to_lds"]
    names = {_name(op) for op in staged}
    for tensor, _ in schedule.paths:
        if tensor not in names:
            have = ", ".join(sorted(filter(None, names))) or "none with a name"
            fail(loop, f"schedule '{schedule.name}' gives '{tensor}' a path; the loop puts into LDS: {have}")
    for op in staged:
        path = schedule.path_of(_name(op))
        loaded = producer(op.operands[0])
        if path == "through" or (loaded is not None and loaded.name != "ck.load" and path == schedule.path):
            continue  # what the loop computed itself has one path only, and is not meant by a path for all
        REWRITES[path](op, _load_of(op, path, schedule))


def _name(op: ir.Operation) -> str:
    return text_of(op, "name") if "name" in op.attributes else ""


def _load_of(op: ir.Operation, path: str, schedule: Schedule) -> ir.Operation:
    """The load whose tile an operation puts into LDS, and that nothing else uses."""
    load = producer(op.operands[0])
    which = f"schedule '{schedule.name}' takes '{_name(op)}' {path}"
    if load is None or load.name != "ck.load":
        made = "the loop's carried value" if load is None else f"'{load.name}'"
        fail(op, f"{which}, but it is made by {made}; only what is loaded and not changed has another path")
    if len(list(load.results[0].uses)) != 1:
        users = [use.owner.operation for use in load.results[0].uses]
        other = next(user for user in users if user != op)
        fail(op, f"{which}, but its tile is also used otherwise", [("the other use is here", other)])
    return load


def _direct(op: ir.Operation, load: ir.Operation) -> None:
    """A copy in the place of the load."""
    with ir.InsertionPoint(load), load.location, build.default_attributes(_stage_of(load)):
        lds = memory.copy_to_lds(load.operands[0], _name(op))
    op.results[0].replace_all_uses_with(lds)
    op.erase()
    load.erase()


def _straight(op: ir.Operation, load: ir.Operation) -> None:
    """A load for every reader, as it wants its tile to lie."""
    for read in [use.owner.operation for use in op.results[0].uses]:
        if tile_of(read.results[0]).distribution is None:
            fail(read, f"'{_name(op)}' goes straight to registers, so its reader has to say how its tile lies")
        with ir.InsertionPoint(load), load.location, build.default_attributes(_stage_of(load)):
            tile = memory.load(load.operands[0], tile_of(read.results[0]))
        read.results[0].replace_all_uses_with(tile)
        read.erase()
    op.erase()
    load.erase()


REWRITES = {"direct": _direct, "straight": _straight}


def _stage_of(op: ir.Operation) -> dict[str, ir.Attribute]:
    return {STAGE: op.attributes[STAGE]} if STAGE in op.attributes else {}
