"""Take every operand from memory to registers on the path that the schedule of its loop gives it.

A tile program loads a tile, puts it into LDS and reads it from there: the path `through` registers. On the path
`direct` a copy from memory to LDS takes the place of the load and the write, in the load's stage, also of a gather,
unless it may reach further than a buffer: lanes without an element would leave LDS as it is; on the path
`straight` every reader loads its own part from memory, also in the load's stage, and LDS is not used. There a tile may
be converted on its way, element by element: each reader does that for its own part, in its own stage, so that registers
hold what memory has until then.
"""

from dataclasses import dataclass
from typing import ClassVar

from ckmlir.dialect import build, memory
from ckmlir.dialect.build import integer_of, producer, text_of
from ckmlir.dialect.control import LOOPS
from ckmlir.dialect.loop import LOOP, schedule_of, stage_of
from ckmlir.dialect.reach import FAR, reach_of
from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.types import TileType, tile_of
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass, fail
from ckmlir.passes.walk import functions, nested, operations

CONVERSIONS = ("ck.cast", "ck.unpack", "ck.dequantize", "ck.broadcast", "ck.join_axes", "ck.map")
"""Operations whose result tells how their operands lie, and that memory's own elements have between a load and LDS."""
COMPUTED = ("ck.coordinates", "ck.splat")
"""What maps take beside them, that anyone may use."""


@dataclass(frozen=True)
class ChoosePaths(Pass):
    """Take operands from memory to registers on the paths that schedules give them."""

    name: ClassVar[str] = "ck-choose-paths"
    of_control: ClassVar[bool] = True

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
        if path == "through" or (path == schedule.path and _is_computed(op.operands[0], path)):
            continue  # what the loop computed itself has one path only, and is not meant by a path for all
        if path == "direct":
            _direct(op, _load_of(op, path, schedule))
        else:
            _check_source(op, path, schedule)
            _straight(op)


def _name(op: ir.Operation) -> str:
    return text_of(op, "name") if "name" in op.attributes else ""


def _is_computed(tile: ir.Value, path: str) -> bool:
    """Whether an operation makes it that is neither a load nor one of those that a path allows, of what loads gave."""
    made = producer(tile)
    if made is None or _is_loaded(made, path):
        return False
    return path != "straight" or made.name not in CONVERSIONS or any(
        _is_computed(use.operands[place], path)
        for use, place in _reads(made)
        if not _is_beside(made, producer(use.operands[place]))
    )


def _is_loaded(made: ir.Operation, path: str) -> bool:
    """Whether a path may take the place of an operation: that of a load; of a gather only copies do."""
    near = made.name == "ck.gather" and reach_of(made, made.operands[0]) != FAR
    return made.name == "ck.load" or (path == "direct" and near)


def _reads(made: ir.Operation) -> list[tuple[ir.Operation, int]]:
    """Where an operation reads tiles: operations and the numbers of their operands."""
    if made.name != "ck.map":
        return [(made, place) for place in range(len(made.operands))]
    return [(op, 0) for op in nested(made) if op.name == "ck.element"]


def _is_beside(user: ir.Operation, made: ir.Operation | None) -> bool:
    """Whether a map takes it beside what is loaded."""
    return user.name == "ck.map" and made is not None and made.name in COMPUTED


def _load_of(op: ir.Operation, path: str, schedule: Schedule) -> ir.Operation:
    """The load whose tile an operation puts into LDS, and that nothing else uses."""
    load = producer(op.operands[0])
    which = f"schedule '{schedule.name}' takes '{_name(op)}' {path}"
    if load is None or not _is_loaded(load, path):
        far = load is not None and load.name == "ck.gather"
        made = "the loop's carried value" if load is None else f"'{load.name}'"
        made += " of a view that may end beyond 2 GiB" if far else ""
        fail(op, f"{which}, but it is made by {made}; only what is loaded and not changed has another path")
    _check_unshared(op, load, which)
    return load


def _check_source(op: ir.Operation, path: str, schedule: Schedule) -> None:
    """Fail unless what an operation puts into LDS is loaded, and converted at most, for nothing else."""
    which = f"schedule '{schedule.name}' takes '{_name(op)}' {path}"
    reached = [op]
    for user in reached:  # grows
        for use, place in _reads(user):
            made = producer(use.operands[place])
            if _is_beside(user, made):
                continue
            if made is None or made.name not in ("ck.load", *CONVERSIONS):
                by = "the loop's carried value" if made is None else f"'{made.name}'"
                fail(op, f"{which}, but it is made by {by}; only what is loaded, and converted at most, has this path")
            _check_unshared(user, made, which)
            if made.name != "ck.load":
                reached.append(made)


def _check_unshared(user: ir.Operation, made: ir.Operation, which: str) -> None:
    own = [user, *(op for op, _ in _reads(user))]
    others = [use.owner.operation for use in made.results[0].uses if use.owner.operation not in own]
    if others:
        fail(user, f"{which}, but its tile is also used otherwise", [("the other use is here", others[0])])


def _direct(op: ir.Operation, load: ir.Operation) -> None:
    """A copy in the place of the load, or gather."""
    window, *indices = load.operands
    where = (indices[0], integer_of(load, "axis")) if indices else ()
    with ir.InsertionPoint(load), load.location, build.default_attributes(stage_of(load)):
        lds = memory.copy_to_lds(window, _name(op), *where)
    op.results[0].replace_all_uses_with(lds)
    op.erase()
    load.erase()


def _straight(op: ir.Operation) -> None:
    """A load for every reader, as it wants its tile to lie; conversions tell it where there are some."""
    for read in [use.owner.operation for use in op.results[0].uses]:
        wanted = tile_of(read.results[0])
        if wanted.distribution is None:
            fail(read, f"'{_name(op)}' goes straight to registers, so its reader has to say how its tile lies")
        read.results[0].replace_all_uses_with(_made_for(op.operands[0], wanted, read))
        read.erase()
    source = op.operands[0]
    op.erase()
    _erase(source)


def _made_for(tile: ir.Value, wanted: TileType, read: ir.Operation) -> ir.Value:
    """A tile for one reader: loaded where it was, converted where it is read."""
    made = producer(tile)
    assert made is not None
    if made.name == "ck.load":
        with ir.InsertionPoint(made), made.location, build.default_attributes(stage_of(made)):
            return memory.load(made.operands[0], wanted)
    own: dict[ir.Value, ir.Value] = {}
    for use, place in [] if made.name in COMPUTED else _reads(made):
        operand = use.operands[place]
        if operand not in own:
            type_ = tile_of(operand)
            own[operand] = _made_for(operand, TileType(type_.lengths, type_.element, None), read)
    with ir.InsertionPoint(read), made.location:
        found = made.clone()
    for use, place in [] if made.name in COMPUTED else _reads(found):
        use.operands[place] = own[use.operands[place]]
    found.results[0].set_type(wanted.mlir())
    for name, one in stage_of(read).items():
        found.attributes[name] = one
    return found.results[0]


def _erase(tile: ir.Value) -> None:
    """What made a tile that nothing uses any more."""
    made = producer(tile)
    if made is None or made.name not in ("ck.load", *CONVERSIONS, *COMPUTED) or list(tile.uses):
        return
    operands = [use.operands[place] for use, place in _reads(made)] if made.name != "ck.load" else []
    made.erase()
    for operand in operands:
        _erase(operand)
