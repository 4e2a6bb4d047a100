"""Refusals of the proof about values, in words."""

from collections.abc import Sequence

from ckmlir.dialect.build import producer
from ckmlir.mlir import ir
from ckmlir.passes.proof.finding import Finding, tensor_name, words_for
from ckmlir.passes.proof.footprints import changes, finds, tensor_of
from ckmlir.passes.proof.frames import Frame
from ckmlir.passes.proof.source_program import SourceProgram
from ckmlir.passes.proof.state import State, Value
from ckmlir.passes.proof.terms import Name, Names, Operands, Part, Signature


def iteration(shift: int | None) -> str:
    """`iteration i+2`."""
    if shift is None:
        return "every iteration"
    return f"iteration i{shift:+d}" if shift else "iteration i"


def when(program: SourceProgram, name: Name | None) -> str:
    """`iteration i+2 of the outer loop`: in which iteration a value has its name."""
    depth = 0 if name is None else program.table.depths[name.number]
    loop = "" if not depth or depth == program.deepest else " of the outer loop"
    return iteration(None if name is None else name.shift) + loop


def unknown(
    program: SourceProgram,
    state: State,
    op: ir.Operation,
    signature: Signature,
    choices: Sequence[Sequence[object]],
    parts: Sequence[Part],
) -> Finding:
    """An operation that the unscheduled program does not have, or not with these operands."""
    if finds(op) and not choices[-1]:
        return _unwritten(program, op, parts)
    alike = program.table.alike.get(signature, [])
    if not alike:
        return Finding("dependence", op, f"{words_for(op)} does what no operation of the unscheduled program does")
    clash = _clash(program, state, op)
    if clash is not None:
        return clash
    known, operands = max(alike, key=lambda one: _agreement(op, one, choices))
    memory = _memory(program, op, operands, choices)
    if memory is not None:
        return memory
    shifts = _shifts(operands, choices)
    depths = [program.table.depths[_name_of(wanted).number] for wanted in operands]
    inner = {place: shift for place, shift in shifts.items() if depths[place] == max(depths)}
    innermost = _iteration_of(program, operands, inner) if inner else 0
    for place, (wanted, given) in enumerate(zip(operands, choices, strict=False)):
        name, usual = _name_of(wanted), innermost if place in inner else 0
        origin = program.table.origin[name.number]
        if name.shift is not None and place in shifts and shifts[place] != usual:
            return _other_iteration(program, op, name, origin, shifts[place] + name.shift - usual)
        if shifts and name.shift is not None and place not in shifts:
            found = next((program.table.origin[_name_of(one).number] for one in given), None)
            message = f"{words_for(op)} does not take the result of {words_for(origin)} that it needs"
            taken = (("this is taken", found),) if found is not None else ()
            return Finding("dependence", op, message, (("this is needed", origin), *taken))
    held = _other_contents(program, op, operands, choices)
    if held is not None:
        return held
    message = f"{words_for(op)} takes operands that the unscheduled program gives to no operation of this kind"
    return Finding("dependence", op, message, (("the operation most like it", known),))


def _iteration_of(program: SourceProgram, operands: Operands, shifts: dict[int, int]) -> int:
    """The iteration that an operation belongs to: that of what it carries on, else that of most of its operands."""
    carried = {number for loop in program.loops for number in loop.arguments}
    for place, shift in shifts.items():
        if _name_of(operands[place]).number in carried:
            return shift
    memory = {number for effect in program.effects for number in effect.during}
    found = [shift for place, shift in shifts.items() if _name_of(operands[place]).number not in memory]
    found = found or list(shifts.values())
    return max(set(found), key=lambda shift: (found.count(shift), -abs(shift)))


def _memory(
    program: SourceProgram, op: ir.Operation, operands: Operands, choices: Sequence[Sequence[object]]
) -> Finding | None:
    """Memory that another operation has not changed yet, or has changed already."""
    for wanted, given in zip(operands, choices, strict=False):
        name = _name_of(wanted)
        numbers = {_name_of(one).number for one in given}
        effect = next((one for one in program.effects if name.number in (one.before, *one.during, one.after)), None)
        if (
            effect is not None
            and name not in given
            and (name.number not in effect.during or not numbers & {name.number})
        ):
            when = "after" if name.number == effect.after or name.shift else "before"
            message = f"{words_for(op)} is to happen {when} {words_for(effect.op)}: they may touch the same memory"
            return Finding("order", op, message, ((f"{words_for(effect.op)} is here", effect.op),))
    return None


def _other_contents(
    program: SourceProgram, op: ir.Operation, operands: Operands, choices: Sequence[Sequence[object]]
) -> Finding | None:
    """A part of an LDS tensor that something else has left there."""
    for wanted, given in zip(operands, choices, strict=False):
        if not isinstance(wanted, Name) and wanted not in given:
            needed, taken = (program.table.origin[_name_of(one).number] for one in (wanted, min(given, key=_name_of)))
            message = (
                f"{words_for(op)} finds in LDS tensor '{tensor_name(tensor_of(op))}' what {words_for(taken)} has left, "
                f"where the unscheduled program finds what {words_for(needed)} has"
            )
            return Finding("dependence", op, message, (("this is needed", needed), ("this is taken", taken)))
    return None


def _other_iteration(program: SourceProgram, op: ir.Operation, name: Name, origin: ir.Operation, got: int) -> Finding:
    memory = next((one for one in program.effects if name.number in one.during), None)
    if memory is not None:
        which = "has not happened yet" if got < (name.shift or 0) else "has happened already"
        message = (
            f"{words_for(op)} of iteration i may touch the memory of {words_for(origin)}, which {which} as it has in "
            "the unscheduled program; run neither of them ahead of the other, or show that the pointers are different "
            "(llvm.noalias)"
        )
        return Finding("order", op, message, ((f"{words_for(origin)} is here", origin),))
    origin = _telling(origin)
    message = (
        f"{words_for(op)} of iteration i takes the result of {words_for(origin)} of "
        f"{when(program, name._replace(shift=got))}, where that of {when(program, name)} is needed"
    )
    notes = [("the result is computed here", origin)]
    if finds(origin):
        users = (use.owner.operation for use in tensor_of(origin).results[0].uses)
        notes += [("what it finds in LDS is written here", one) for one in users if changes(one) and one != origin][:1]
    return Finding("dependence", op, message, tuple(notes))


def _telling(op: ir.Operation) -> ir.Operation:
    """What a value comes from, behind operations that only take registers apart or join them."""
    source = producer(op.operands[0]) if op.name.startswith("vector.") and len(op.operands) else None
    return op if source is None else _telling(source)


def _agreement(
    op: ir.Operation, one: tuple[ir.Operation, Operands], choices: Sequence[Sequence[object]]
) -> tuple[int, int, bool]:
    known, operands = one
    shifts = list(_shifts(operands, choices).values())
    most = max((shifts.count(shift) for shift in set(shifts)), default=0)
    fixed = sum(
        any(_name_of(wanted) == _name_of(name) for name in given)
        for wanted, given in zip(operands, choices, strict=False)
    )
    return len(shifts) + fixed, most, known.location == op.location


def _shifts(operands: Operands, choices: Sequence[Sequence[object]]) -> dict[int, int]:
    """For every operand that has the right origin: in which iteration the operation would have to be for it."""
    found = {}
    for place, (wanted, given) in enumerate(zip(operands, choices, strict=False)):
        name = _name_of(wanted)
        for one in map(_name_of, given):
            if one.number == name.number and one.shift is not None and name.shift is not None:
                found[place] = one.shift - name.shift
    return found


def _name_of(one: object) -> Name:
    """A name, or that of a part of an LDS tensor."""
    assert isinstance(one, tuple)
    return one if isinstance(one, Name) else one[0]


def _unwritten(program: SourceProgram, op: ir.Operation, parts: Sequence[Part]) -> Finding:
    tensor = tensor_name(tensor_of(op))
    message = (
        f"{words_for(op)} reads elements of LDS tensor '{tensor}' that nothing has written on some path, or that "
        "something else has overwritten since"
    )
    notes = tuple(
        ("other elements come from here", program.table.origin[name.number])
        for names, _ in parts
        for name in list(names)[:1]
    )
    return Finding("dependence", op, message, notes[:1])


def _clash(program: SourceProgram, state: State, op: ir.Operation) -> Finding | None:
    for operand in op.operands:
        clash = state.values.get(operand, Value()).clash
        if clash is not None:
            left, right = (_describe(program, names) for names in clash)
            message = f"{words_for(op)} takes a value that depends on the way here: {left} or {right}"
            return Finding("dependence", op, message)
    return None


def _describe(program: SourceProgram, names: Names) -> str:
    if not names:
        return "nothing that the unscheduled program computes"
    name = min(names, key=lambda one: (one.shift is None, one))
    return f"the result of {words_for(program.table.origin[name.number])} of {when(program, name)}"


def outside(program: SourceProgram, op: ir.Operation, names: Names) -> Finding:
    """An access to memory for an iteration that may not exist."""
    ahead = min((name for name in names if name.shift is not None), key=lambda name: name.shift or 0, default=None)
    message = (
        f"{words_for(op)} runs for {when(program, ahead)}, which there may not be: limit the index to the last "
        "iteration's"
    )
    return Finding("order", op, message)


def not_entered(program: SourceProgram, op: ir.Operation, names: Names) -> Finding:
    """An access to memory where the unscheduled program may not come to it."""
    home = next(home for name in names for home in program.homes.get(name.number, ()))
    around = [region.item.op for region in home.path if region.item is not None]
    message = (
        f"{words_for(op)} runs although the unscheduled program may not come to it: what it stands in is not entered"
    )
    return Finding("order", op, message, tuple((f"{words_for(one)} is here", one) for one in around[-1:]))


def elsewhere(there: State, here: State, branch: ir.Operation) -> Finding:
    """Two ways to a block on which different parts of the unscheduled program have run."""
    message = (
        f"here {_standing(here)}, on another way to the same block {_standing(there)} of the unscheduled program: what "
        "comes next is not the same"
    )
    return Finding("dependence", branch, message)


def _standing(state: State) -> str:
    done = sorted(place for place, one in enumerate(state.program.loops, 1) if state.done.get(one))
    frames = [state.program.loops.index(frame.loop) + 1 for frame in state.frames]
    loop = f"loop {frames[-1]} runs or comes next" if frames else "no loop comes any more"
    return loop + (f" and {', '.join(map(str, done))} is over" if done else "")


def out_of_order(program: SourceProgram, state: State, op: ir.Operation, names: Names) -> Finding:
    """An effect that has happened already, or not yet for the iteration before."""
    shift = min((name.shift for name in names if name.shift is not None), default=None)
    numbers = [number for name in names for number in program.effect_names.get(name.number, ())]
    progress = [state.memory[number] for number in numbers]
    after = [program.effects[number].progress(0, 1) for number in numbers]
    further = any(
        one is not None and one.shift is not None and shift is not None and one.shift > shift for one in progress
    )
    if further or any(one in after for one in progress):
        what = "happens a second time"
    elif None in progress:
        what = "has happened on one way here and not on another"
    else:
        what = f"happens for {iteration(shift)} before it has for the one before"
    return Finding("order", op, f"{words_for(op)} {what}")


def unfinished(effect: ir.Operation, end: ir.Operation) -> Finding:
    """An effect that does not happen for all iterations."""
    message = f"at this point {words_for(effect)} has not happened exactly once for every time that it is to"
    return Finding("order", end, message, (("this is to happen", effect),))


def left_early(frame: Frame, branch: ir.Operation) -> Finding:
    """The loop is left without proof that no iteration is left."""
    left = frame.left
    most = "any number" if left.most is None else str(left.most)
    message = f"the loop is left here while between {max(0, left.least)} and {most} of its iterations may not have run"
    return Finding("dependence", branch, message)


def branch(op: ir.Operation) -> Finding:
    """A branch whose condition says nothing about a loop."""
    message = (
        "the condition of this branch is not a comparison of a loop's index or trip count, and decides no branch of "
        "the unscheduled program; nothing is known beyond it"
    )
    return Finding("dependence", op, message)


def wrong_result(program: SourceProgram, op: ir.Operation, wanted: Name, known: Value) -> Finding:
    """The function returns something else."""
    origin = program.table.origin[wanted.number]
    got = _describe(program, known.names)
    return Finding("dependence", op, f"returns {got}, where the result of {words_for(origin)} is needed")
