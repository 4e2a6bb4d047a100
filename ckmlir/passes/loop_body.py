"""The body of a loop of stages: what its operations are to a schedule, and how values travel between iterations."""

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from msgspec import Struct

from ckmlir.dialect.build import producer
from ckmlir.dialect.control import LOOPS, WHILE, end_of
from ckmlir.dialect.loop import LOOP, STAGE
from ckmlir.dialect.schedule_items import Barrier, Fence, Priority, Wait
from ckmlir.mlir import ir
from ckmlir.passes.arithmetic import is_arithmetic
from ckmlir.passes.walk import nested

MEMORY = frozenset({
    "ck.load_fragment", "ck.store_fragment", "ck.gather_fragment", "ck.scatter_fragment", "ck.atomic_fragment",
    "ck.atomic_scatter_fragment", "ck.lds_gather_fragment", "ck.lds_update_fragment",
    "ck.lds_read", "ck.lds_write", "ck.copy_fragment", "ck.lds_alloc",
    "ck.barrier", "ck.wait", "ck.sched_barrier", "ck.sched_group_barrier", "ck.priority",
    "ck.release", "ck.set_flag", "ck.await_flag", LOOP, WHILE,
})  # fmt: skip
"""Operations with an effect of their own: they never move with their users. See `has_effect`."""

REPEATABLE = frozenset({
    "ck.load_fragment", "ck.gather_fragment", "ck.lds_read", "ck.lds_write", "ck.copy_fragment", "ck.lds_alloc",
    "ck.lds_gather_fragment",
})  # fmt: skip
"""Memory operations that may run for an iteration a second time."""

LOAD = "ck.load_fragment"
LOADS = frozenset({LOAD, "ck.gather_fragment"})
"""Operations that fill registers from memory."""
COPY = "ck.copy_fragment"
FILLS = frozenset({"ck.lds_write", COPY})
"""Operations that fill LDS."""
STORES = frozenset({"ck.store_fragment", "ck.scatter_fragment", "ck.atomic_fragment", "ck.atomic_scatter_fragment"})
"""Operations that put registers into memory."""
READ, GATHER = "ck.lds_read", "ck.lds_gather_fragment"
MATRIX = "ck.mfma"
FRAGMENTS = frozenset({
    "ck.load_fragment", "ck.store_fragment", "ck.gather_fragment", "ck.scatter_fragment", "ck.atomic_fragment",
    "ck.atomic_scatter_fragment", "ck.lds_gather_fragment", "ck.lds_update_fragment",
    READ, "ck.lds_write", "ck.copy_fragment", MATRIX,
})  # fmt: skip
"""Operations that a schedule can name one by one: memory accesses and matrix instructions."""

DESCRIPTIONS = frozenset({"ck.make_view", "ck.make_window", "ck.move_window", "ck.with_digits"})
"""Operations that compute nothing: they say where the memory operations that use them go."""


class Group(Struct, frozen=True):
    """The next `count` machine instructions of a kind in the order that the backend is asked for."""

    kind: str
    count: int


Marker = Fence | Priority | Barrier | Wait | Group


class Placed(Struct, frozen=True):
    """An operation of the body: so many iterations ahead, at this place of the step (list order).

    `cluster` numbers the parts of the step that fences and priorities keep apart; `before` stands in front of it.
    """

    op: ir.Operation
    ahead: int
    cluster: int = 0
    before: tuple[Marker, ...] = ()


class Step(Struct, frozen=True):
    """The steady step: its operations in their order, and what stands behind the last."""

    placed: list[Placed]
    after: tuple[Marker, ...] = ()


class _Read(threading.local):
    """What was asked of a body; None outside `read_once`."""

    operands: dict[ir.Operation, list[ir.Value]] | None = None
    makers: dict[ir.Value, ir.Operation | None] | None = None
    handed: list[tuple[ir.Block, list[ir.Value]]] | None = None


_read = _Read()


@contextmanager
def read_once() -> Iterator[None]:
    """Inside, the bindings are asked once what each operation uses, what makes each value, and what a body hands on
    (`operands_of`, `maker_of`, `handed_on`): an answer takes 1 to 3 µs, and a schedule asks ten times. Nothing may
    change the answers there.
    """
    outer = _read.operands, _read.makers, _read.handed
    _read.operands, _read.makers, _read.handed = {}, {}, []
    try:
        yield
    finally:
        _read.operands, _read.makers, _read.handed = outer


def holds_loop(loop: ir.Operation) -> bool:
    """Whether another loop is inside, at any depth."""
    return any(op.name in LOOPS for op in nested(loop))


def stage_of(op: ir.Operation) -> str | None:
    """The stage that an operation belongs to."""
    return str(op.attributes[STAGE].value) if STAGE in op.attributes else None


def stage_named(op: ir.Operation) -> str:
    """The same for messages."""
    stage = stage_of(op)
    return "what is of no stage" if stage is None else f"stage '{stage}'"


Stages = dict[str | None, list[ir.Operation]]
"""The operations of a body by stage, in program order; None: those of no stage."""


def by_stage(body: list[ir.Operation]) -> Stages:
    """A body's operations by stage: looked up once, since bindings take a microsecond for an attribute."""
    stages: Stages = {}
    for op in body:
        stages.setdefault(stage_of(op), []).append(op)
    return stages


def fragments_of(stages: Stages, stage: str | None, *, arithmetic: bool = False) -> list[ir.Operation]:
    """The fragments of a stage in program order: what `stage.0`, `stage.1`, … name in the text of a schedule.

    With `arithmetic` those of a stage that has none of FRAGMENTS are its pieces of arithmetic.
    """
    staged = stages.get(stage, [])
    found = [op for op in staged if op.name in FRAGMENTS]
    return found if found or not arithmetic or stage is None else [op for op in staged if is_arithmetic(op)]


def within(op: ir.Operation) -> list[ir.Operation]:
    """An operation and those inside it."""
    return [op, *nested(op)] if len(op.regions) else [op]


def has_effect(op: ir.Operation) -> bool:
    """Whether an operation has an effect of its own, or a branch holds one that has."""
    return any(one.name in MEMORY for one in within(op))


def operands_of(op: ir.Operation) -> list[ir.Value]:
    """What an operation and those inside it use; a list that is not to be changed."""
    known = _read.operands
    found = None if known is None else known.get(op)
    if found is None:
        found = [operand for one in within(op) for operand in one.operands] if len(op.regions) else list(op.operands)
        if known is not None:
            known[op] = found
    return found


def maker_of(value: ir.Value) -> ir.Operation | None:
    """The operation whose result a value is, `producer`, asked once where a body is read once."""
    known = _read.makers
    if known is None:
        return producer(value)
    if value in known:
        return known[value]
    known[value] = found = producer(value)
    return found


def handed_on(block: ir.Block) -> list[ir.Value]:
    """What a loop body hands to the next iteration; a list that is not to be changed."""
    known = _read.handed
    if known is None:
        return list(end_of(block).operands)
    found = next((values for home, values in known if home == block), None)
    if found is None:
        found = list(end_of(block).operands)
        known.append((block, found))
    return found


def source_of(operand: ir.Value, block: ir.Block, handed: list[ir.Value]) -> tuple[ir.Value, int]:
    """The value that an operand in a loop body is, and how many iterations before it was computed.

    A carried argument is what the body hands on (`handed`); where that is another carried argument, what that one is.
    """
    iterations = 0
    while _is_carried(operand, block) and iterations <= len(handed):  # carried values may only change places
        operand = handed[operand.arg_number - 1]
        iterations += 1
    return operand, iterations


def _is_carried(operand: ir.Value, block: ir.Block) -> bool:
    return isinstance(operand, ir.BlockArgument) and operand.owner == block and operand.arg_number > 0


def fed_by(op: ir.Operation, block: ir.Block) -> dict[ir.Operation, int]:
    """The loads that the first operand of an operation in a loop body comes from, and how many iterations before."""
    handed, found = handed_on(block), dict[ir.Operation, int]()
    pending = [(operands_of(op)[0], 0)]
    seen: set[ir.Value] = set()
    while pending:
        value, before = pending.pop()
        source, iterations = source_of(value, block, handed)
        owner = maker_of(source)
        if owner is None or source in seen:
            continue
        seen.add(source)
        if owner.name in LOADS:
            found[owner] = before + iterations
        elif owner.name not in MEMORY and owner.name != MATRIX:
            pending += [(operand, before + iterations) for operand in operands_of(owner)]
    return found


def sources_of(
    op: ir.Operation, kinds: frozenset[str], operands: int | None = None, beyond: Collection[ir.Operation] = ()
) -> frozenset[ir.Operation]:
    """The operations of some kinds that an operation's values come from, through operations without effects.

    `operands`: only the first so many operands count. `beyond`: what these use does not count.
    """
    found: set[ir.Operation] = set()
    pending = operands_of(op)[:operands]
    seen: set[ir.Value] = set()  # without it, sums of shared terms take a time exponential in their depth
    while pending:
        value = pending.pop()
        owner = maker_of(value)
        if owner is None or value in seen:
            continue
        seen.add(value)
        if owner.name in kinds:
            found.add(owner)
        elif owner.name not in MEMORY and owner.name != MATRIX and owner not in beyond:
            pending.extend(operands_of(owner))
    return frozenset(found)


def first_copies(placed: list[Placed]) -> list[Placed]:
    """Of the operations of a step its copies to LDS, with what these need of it; none where no load is among the rest
    in front of the last copy.
    """
    owners = {one.op for one in placed}
    needed = {one.op for one in placed if one.op.name == COPY}
    pending = list(needed)
    while pending:
        for operand in operands_of(pending.pop()):
            owner = maker_of(operand)
            if owner in owners and owner not in needed:
                needed.add(owner)
                pending.append(owner)
    last = max((number for number, one in enumerate(placed) if one.op.name == COPY), default=0)
    if not any(one.op.name in LOADS and one.op not in needed for one in placed[:last]):
        return []
    return [one for one in placed if one.op in needed]
