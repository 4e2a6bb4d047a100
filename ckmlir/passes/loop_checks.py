"""What a schedule must not ask of a loop: PassFailure, at the line of the operation that it would harm."""

from ckmlir.dialect.build import text_of
from ckmlir.dialect.control import BRANCH
from ckmlir.dialect.lds_indexed import ATOMIC, FOLLOWS
from ckmlir.dialect.schedule import Schedule
from ckmlir.mlir import ir
from ckmlir.passes.framework import fail
from ckmlir.passes.lds_traffic import tensor_name, traffic_of
from ckmlir.passes.loop_body import (
    FILLS,
    FRAGMENTS,
    LOAD,
    LOADS,
    MEMORY,
    READ,
    REPEATABLE,
    STORES,
    Placed,
    handed_on,
    has_effect,
    maker_of,
    operands_of,
    source_of,
    sources_of,
    stage_named,
    stage_of,
    within,
)
from ckmlir.passes.step_policies import POLICIES
from ckmlir.passes.walk import nested

ADDRESSING = frozenset({"ck.make_view", "llvm.load"})
"""Operations that trust the addresses that they are given: nothing compares them with a length."""


def check_branches(body: list[ir.Operation], schedule: Schedule) -> None:
    """What places fragments one by one, or counts barriers between them, knows of none inside a branch."""
    what = f"order {schedule.order}" if schedule.order in POLICIES else "a mix" if schedule.mix else ""
    single = FRAGMENTS if what else frozenset()
    apart = frozenset({READ, *FILLS}) if schedule.groups > 1 else frozenset()
    for op in (op for op in body if op.name == BRANCH):
        placed = single
        if schedule.order == "weave" and not len(op.results):
            placed = single - STORES  # nothing in the step waits for it, and it stands at the end
        for inside in within(op):
            if inside.name not in placed | apart:
                continue
            asked = f"{what}, which places memory accesses and matrix instructions one by one"
            if inside.name not in placed:
                asked = f"{schedule.groups} groups of waves, whose accesses to LDS lie barriers apart"
            fail(
                op,
                f"schedule '{schedule.name}' asks for {asked}, and this branch holds '{inside.name}'; list the stages "
                "in a step without groups, or keep such operations out of the branch",
                [("it holds this", inside)],
            )


def check_tensors(loop: ir.Operation, body: list[ir.Operation], schedule: Schedule, *, innermost: bool) -> None:
    """Tensors that the schedule names exist, and those that it wants copied directly are: of a path for all those that
    hold what is loaded, as it is (ck-choose-paths).
    """
    named = {text_of(op, "name"): op for op in body if op.name == "ck.lds_alloc" and "name" in op.attributes}
    for tensor in (*(name for name, _ in schedule.tensor_buffers), *schedule.apart):
        if tensor not in named:
            have = ", ".join(sorted(named)) or "none with a name"
            fail(loop, f"schedule '{schedule.name}' speaks of LDS tensor '{tensor}'; the loop has {have}")
    inside = [one for op in body for one in within(op)] if innermost else []
    for op in inside or body:
        if op.name == "ck.lds_write" and sources_of(op, LOADS, operands=1):
            name = tensor_name(op)
            path = schedule.path_of(name)
            if path != "through" and (path != schedule.path or _is_loaded(op.operands[0])):
                fail(
                    op,
                    f"schedule '{schedule.name}' takes '{name}' {path}, but it comes through registers; "
                    "ck-choose-paths has to run on the tiles",
                )


def _is_loaded(vector: ir.Value) -> bool:
    """Whether loads give all of a vector, as it is or in parts."""
    pending, seen = [vector], {vector}
    while pending:
        owner = maker_of(pending.pop())
        if owner is None or not (owner.name == LOAD or owner.name.startswith("vector.")):
            return False
        found = set(owner.operands) - seen if owner.name != LOAD else set()
        pending += found
        seen |= found
    return True


def check_values(steps: list[Placed], schedule: Schedule) -> None:
    """Every value is produced before it is used, and nothing that must happen once happens twice."""
    position = {placed.op: number for number, placed in enumerate(steps)}
    ahead = {placed.op: placed.ahead for placed in steps}
    if not steps:
        return
    block = steps[0].op.block
    handed = handed_on(block)
    for placed in steps:
        op = placed.op
        for one in within(op) if placed.ahead else ():
            if one.name in MEMORY and one.name not in REPEATABLE:
                fail(one, f"'{one.name}' in {stage_named(op)} cannot run ahead: its effect would happen twice")
        for operand in operands_of(op):
            value, iterations = source_of(operand, block, handed)
            source = maker_of(value)
            if source is not None and source.name == "ck.lds_alloc":
                continue  # allocations leave the loop
            if source is not None and source in position:
                early = ahead[source] + iterations - placed.ahead
                if early < 0 or (early == 0 and position[source] > position[op]):
                    cause = _cause(op, ahead, schedule)
                    fail(
                        cause,
                        f"schedule '{schedule.name}' runs this before what it uses "
                        f"({stage_named(cause)} {placed.ahead} ahead, {stage_named(source)} {ahead[source]} ahead)",
                        [("the value is computed here", source)],
                    )
            elif iterations and value == block.arguments[0] and placed.ahead >= iterations:
                fail(
                    op,
                    f"schedule '{schedule.name}' runs this {placed.ahead} ahead, "
                    "before the loop hands on the index that it uses; compute that from the loop's own index",
                )


def _cause(op: ir.Operation, ahead: dict[ir.Operation, int], schedule: Schedule) -> ir.Operation:
    """The operation for whose sake a computation runs further ahead than its stage."""
    while not has_effect(op) and ahead[op] > schedule.ahead_of(stage_of(op) or ""):
        users = (use.owner.operation for result in op.results for use in result.uses)
        later = next((user for user in users if ahead.get(user) == ahead[op]), None)
        if later is None:
            break
        op = later
    return op


def check_addresses(steps: list[Placed], schedule: Schedule) -> None:
    """What runs ahead runs once more for the last iteration, by its index. An address that the loop carries, or the
    lengths that say where a view ends, would be those of an iteration that does not exist.
    """
    for placed in steps:
        for op in within(placed.op) if placed.ahead else ():
            if op.name in ADDRESSING and _carries(op, placed.op.block):
                fail(
                    op,
                    f"schedule '{schedule.name}' runs this {placed.ahead} ahead, also behind the last iteration, with "
                    "an address or length that the loop carries; compute it from the loop's index, which stays inside",
                )


def _carries(op: ir.Operation, block: ir.Block) -> bool:
    """Whether an operation uses what a loop body takes from the iteration before."""
    waiting, seen = list(op.operands), set(op.operands)
    while waiting:
        item = waiting.pop()
        owner = maker_of(item)
        if owner is None:
            argument = ir.BlockArgument(item)
            if argument.owner == block and argument.arg_number > 0:
                return True
        elif _is_inside(owner, block):
            more = [operand for operand in operands_of(owner) if operand not in seen]
            seen.update(more)
            waiting += more
    return False


def _is_inside(op: ir.Operation, block: ir.Block) -> bool:
    """Whether an operation stands in a block, at any depth."""
    home = op
    while home.name != "func.func":
        if home.block == block:
            return True
        home = home.parent.operation
    return False


def check_kept(body: list[ir.Operation], steps: list[Placed], schedule: Schedule) -> None:
    """LDS tensors from outside the loop have one buffer: the order of their accesses stays, over iterations too."""
    every = [one for op in body for one in (op, *(nested(op) if len(op.regions) else ()))]
    inside = set(every)
    tensors = [traffic.tensor for op in every if (traffic := traffic_of(op)) is not None]
    outside = [tensor for tensor in dict.fromkeys(tensors) if maker_of(tensor) not in inside]
    now = {placed.op: (-placed.ahead, number) for number, placed in enumerate(steps)}
    for tensor in outside:
        writes, reads = lds_accesses(tensor, body)
        for write in writes:
            for other in (*writes, *reads):
                if write == other:
                    continue
                kept = (body.index(write) < body.index(other)) == (now[write] < now[other])
                if not kept or now[write][0] != now[other][0]:
                    fail(
                        write,
                        f"schedule '{schedule.name}' moves this past another access to the same LDS tensor, which is "
                        "allocated outside the loop and so has one buffer; allocate it inside",
                        [("the other access is here", other)],
                    )


def check_order(
    alloc: ir.Operation, writes: list[ir.Operation], reads: list[ir.Operation], steps: list[Placed], schedule: Schedule
) -> None:
    """Of an iteration's accesses to an LDS tensor each follows those that it depends on: reads follow the writes before
    them, and updates all accesses before them.
    """
    place = {op: number for number, op in enumerate(view.operation for view in alloc.block)}
    now = {placed.op: (-placed.ahead, number) for number, placed in enumerate(steps)}
    for write in dict.fromkeys(writes):
        for other in dict.fromkeys((*writes, *reads)):
            early, late = sorted((write, other), key=place.__getitem__)
            if now[early] > now[late] and not _independent(early, late):
                what, where = "runs this before another access to the same LDS tensor", "the other access is here"
                if late not in writes:
                    what, where = "reads an LDS tensor before it is written", "the write is here"
                fail(late, f"schedule '{schedule.name}' {what}", [(where, early)])


def depends_on_contents(op: ir.Operation) -> bool:
    """Whether an access to LDS takes what is there."""
    traffic = traffic_of(op)
    return traffic is not None and traffic.reads


def _independent(one: ir.Operation, other: ir.Operation) -> bool:
    """Whether two accesses, one of which writes, may change places: both fill parts of a tensor, or are updates that
    commute and tell nobody what they found.
    """
    kinds = {found.kind if (found := traffic_of(op)) is not None else "" for op in (one, other)}
    if kinds == {"update"}:
        alike = text_of(one, "kind") == text_of(other, "kind") and not len(one.results) + len(other.results)
        return alike and (text_of(one, "kind") in ATOMIC or FOLLOWS in other.attributes)
    return kinds <= {"write", "copy"}


def lds_accesses(tensor: ir.Value, body: list[ir.Operation]) -> tuple[list[ir.Operation], list[ir.Operation]]:
    """The operations of a loop body that write an LDS tensor, and that read it, themselves or in a loop inside."""
    writes: list[ir.Operation] = []
    reads: list[ir.Operation] = []
    for use in tensor.uses:
        op = home = use.owner.operation
        while home.block != body[0].block and home.parent is not None and home.parent.name != "func.func":
            home = home.parent.operation
        traffic = traffic_of(op)
        if home.block == body[0].block and traffic is not None:
            (writes if traffic.writes else reads).append(home)
    return writes, reads
