"""Loops made of stages: what an iteration computes, apart from when.

A loop is an `scf.for` over i32 with uniform bounds. Its attribute `ck.schedule` is the text of a `Schedule` (absent:
unpipelined), and the operations of its body carry the stage that they belong to as `ck.stage`. Stages without an
operation are listed in `ck.empty_stages`.
"""

from collections.abc import Sequence

from ckmlir.dialect.build import create, string
from ckmlir.dialect.schedule import UNPIPELINED, Schedule
from ckmlir.mlir import ir

LOOP = "scf.for"
STAGE = "ck.stage"
"""Attribute of an operation in a loop body: the stage that it belongs to."""
SCHEDULE = "ck.schedule"
"""Attribute of a loop: how it is to be pipelined."""
EMPTY_STAGES = "ck.empty_stages"
"""Attribute of a loop, an array of strings: stages that the program has and that do nothing here, so that a schedule
for several programs may name them."""
ADVANCES = "ck.advances"
"""Attribute of a branch of an expanded loop, `array<i32: …>`: its successors, by number, whose arguments change with
every step of a loop that holds no other. Addresses are split by it: what depends on these arguments advances in the
step, all else is found before it.
"""


def append_loop(
    lower: ir.Value, upper: ir.Value, step: ir.Value, initial: Sequence[ir.Value], schedule: Schedule = UNPIPELINED
) -> ir.Operation:
    """Append an empty loop; its body block takes the index and the carried values and still needs operations
    and an end.
    """
    carried = [value.type for value in initial]
    operation = create(LOOP, carried, [lower, upper, step, *initial], {SCHEDULE: string(str(schedule))}, regions=1)
    operation.regions[0].blocks.append(lower.type, *carried, arg_locs=[operation.location] * (1 + len(carried)))
    return operation


def end_loop(values: Sequence[ir.Value]) -> None:
    """End a loop body, handing values to the next iteration."""
    create("scf.yield", [], values)


def add_empty_stage(loop_op: ir.Operation, stage: str) -> None:
    """Note that a loop has a stage without operations."""
    stages = dict.fromkeys((*empty_stages_of(loop_op), stage))
    loop_op.attributes[EMPTY_STAGES] = ir.ArrayAttr.get([string(one) for one in stages])


def empty_stages_of(loop_op: ir.Operation) -> tuple[str, ...]:
    """The stages of a loop that have no operation.

    Raises:
        ValueError: the attribute is not an array of strings.
    """
    if EMPTY_STAGES not in loop_op.attributes:
        return ()
    attribute = loop_op.attributes[EMPTY_STAGES]
    if not isinstance(attribute, ir.ArrayAttr) or not all(isinstance(one, ir.StringAttr) for one in attribute):
        raise ValueError(f"{EMPTY_STAGES} is an array of names, not {attribute}")
    return tuple(str(one.value) for one in attribute)


def stage_of(op: ir.Operation) -> dict[str, ir.Attribute]:
    """The attribute that puts an operation into a stage, for others that belong beside it; none outside of stages."""
    return {STAGE: op.attributes[STAGE]} if STAGE in op.attributes else {}


def schedule_of(loop_op: ir.Operation, *, check_stages: bool = True) -> Schedule:
    """A loop's schedule; without `check_stages` also where it names stages that the loop lacks.

    Raises:
        ValueError: the attribute is not a string, or the text no schedule, or it names a stage that the loop lacks.
    """
    if SCHEDULE not in loop_op.attributes:
        return UNPIPELINED
    attribute = loop_op.attributes[SCHEDULE]
    if not isinstance(attribute, ir.StringAttr):
        raise ValueError(f"{SCHEDULE} is the text of a schedule, not {attribute}")
    schedule = Schedule.parse(str(attribute.value))
    if not check_stages:
        return schedule
    wanted, stages = schedule.stages, set(empty_stages_of(loop_op))
    for view in loop_op.regions[0].blocks[0]:
        if stages.issuperset(wanted):
            break
        attributes = view.operation.attributes
        if STAGE in attributes:
            stages.add(str(attributes[STAGE].value))
    for stage in wanted:
        if stage not in stages:
            have = ", ".join(sorted(stages)) or "no stages"
            raise ValueError(f"schedule '{schedule.name}' speaks of stage '{stage}'; the loop has {have}")
    return schedule
