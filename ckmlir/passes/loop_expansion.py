"""A scheduled loop as a control-flow graph: prologue, steady loop, remainder.

In step t an operation that runs a iterations ahead computes iteration t + a. The prologue holds the operations of the
steps before step 0 whose iteration exists. Values that one step hands to a later one travel as block arguments.

LDS buffers rotate without copies: iteration i uses slot i modulo the number of slots, and the steady loop is unrolled
so often that slots are constants in it. With `slots carried` blocks take a tensor's slots as arguments instead, that of
their first iteration first, and branches hand them on in turn. Registers rotate by unrolling: where several iterations'
loads are in flight, the loop is unrolled until each finds its registers where it left them: a turn. What is left of a
trip count behind the last whole turn follows the loop, one step a block, each with an exit. So the steady loop begins
at slot 0 and has one exit, which is what the backend keeps free of register moves. With `last` the loop has all steps
but the last one, which follows in a block of its own, and is taken apart where something is sure to run (`take_apart`).

In the first step of a prologue copies to LDS stand in front of loads that do not feed them, with a fence behind: what
the loads wait for, such as a kernel's last arguments, nobody waits for who copies.

Groups of waves (`wave_groups`) part at the end of a prologue and meet again where the loop is left.

Branches say which blocks are steps of a loop that holds no other (`ADVANCES`), so that nobody has to find out later
which values change with every step.

Where there may be no later iteration, operations that run ahead compute the last one once more: loads stay inside the
tensor, and nobody reads what they write to LDS.
"""

from collections.abc import Collection
from typing import NamedTuple

from ckmlir.dialect import arith
from ckmlir.dialect.build import constant_integer, string, value
from ckmlir.dialect.control import surely_runs
from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import Barrier, Fence
from ckmlir.mlir import ir
from ckmlir.passes.branch_expansion import branch, cond_branch, mark_advancing
from ckmlir.passes.last_step import take_apart
from ckmlir.passes.loop_body import Marker, Placed, Step, first_copies
from ckmlir.passes.loop_values import Key, LoopValues, Taken
from ckmlir.passes.step_markers import create_marker
from ckmlir.passes.walk import move_rest, nested
from ckmlir.passes.wave_groups import meet, part

PINNED = "ck.pinned"
"""Set on memory fragments of a steady loop whose place a sched_barrier on both sides must keep."""

FENCES = "ck.fences"
"""Set on an operation of a step before which its schedule asks for fences: these, and the barriers among them, in the
words of the schedule. So a checker notices a fence that was removed.
"""

PINNABLE = frozenset({
    "ck.load_fragment", "ck.store_fragment", "ck.gather_fragment", "ck.scatter_fragment", "ck.lds_read", "ck.lds_write",
    "ck.copy_fragment",
})  # fmt: skip


class _Filled(NamedTuple):
    """What a block of steps leaves: the loop variable of the next step, with all that is handed on to that, and the
    loop's results if there is none.
    """

    base: ir.Value
    carried: list[ir.Value]
    results: list[ir.Value]


class Expansion:
    """Builds the control-flow graph of one loop, in place.

    Args:
        loop: the loop; erased by `run`.
        step: its body in the order of the steady step, and what stands between.
        schedule: whose fences pin memory fragments.
        slots: for every LDS tensor of the body, its rotating allocations outside the loop.
        unroll: steps of the steady loop, a multiple of every number of slots.
        innermost: whether it holds no other loop.
    """

    def __init__(
        self,
        loop: ir.Operation,
        step: Step,
        schedule: Schedule,
        slots: dict[ir.Value, list[ir.Value]],
        unroll: int,
        *,
        innermost: bool,
    ) -> None:
        self.loop = loop
        self.after = step.after
        self.schedule = schedule
        self.turning = [(tensor, copies) for tensor, copies in slots.items() if len(copies) > 1]
        if schedule.slots == "unrolled":
            self.turning = []
        self.now: dict[ir.Value, list[ir.Value]] = {}
        self.unroll = unroll
        self.innermost = innermost
        self.lower, self.upper, self.stride = list(loop.operands)[:3]
        self.values = LoopValues(loop, step.placed, slots)
        self.furthest = max((placed.ahead for placed in step.placed), default=0)
        self.ready: dict[Key, ir.Value] = {}
        self.indices: dict[tuple[ir.Value, int], ir.Value] = {}
        self.marked: list[Marker] = []
        self.last_block: ir.Block | None = None

    def run(self) -> None:
        """Replace the loop."""
        with self.loop.location:
            results = [result.type for result in self.loop.results]
            exit_block = self.loop.block.create_after(*results, arg_locs=[self.loop.location] * len(results))
            move_rest(self.loop, exit_block)
            start = exit_block.create_before()
            runs = surely_runs(self.lower, self.upper)
            with ir.InsertionPoint(self.loop):
                if runs:
                    branch(start, [])
                else:
                    some = arith.cmpi(arith.CmpIPredicate.slt, self.lower, self.upper)
                    cond_branch(some, start, [], exit_block, self.values.initial)
            self._build(start, self._leaving(exit_block))
            for result, argument in zip(self.loop.results, exit_block.arguments, strict=True):
                result.replace_all_uses_with(argument)
            if runs and self.last_block is not None:
                take_apart(self.last_block, exit_block, self.schedule.last)
            self.loop.erase()

    def _leaving(self, exit_block: ir.Block) -> ir.Block:
        """Where the loop is left: groups of waves that are out of phase meet again on the way to the exit."""
        if self.schedule.groups == 1:
            return exit_block
        types = [argument.type for argument in exit_block.arguments]
        block = exit_block.create_before(*types, arg_locs=[self.loop.location] * len(types))
        with ir.InsertionPoint(block):
            meet(self.schedule.groups)
            branch(exit_block, list(block.arguments))
        return block

    def _build(self, start: ir.Block, exit_block: ir.Block) -> None:
        """The blocks between `start` and `exit_block`, and their branches."""
        steady = self._carrying_block(exit_block)
        rest = [self._carrying_block(exit_block) for _ in range(1, self.unroll)]
        apart = self.last_block = self._carrying_block(exit_block) if self.schedule.last else None
        first = rest[0] if rest else steady
        if apart is not None:  # there may be no other step
            first = self._carrying_block(rest[0]) if rest else apart
        with ir.InsertionPoint(start):
            self._find_ends()
            self._prologue()
            carried = [self.lower, *(self._entry(key) for key in self.values.needed), *self._slots_after(0)]
            if first == steady:
                branch(steady, carried)
            else:
                cond_branch(self._exists(self.lower, self.unroll - 1), steady, carried, first, carried)
        turn = self._fill(steady, 0, steps=self.unroll)
        blocks = [start, steady, *self._build_rest(steady, turn, rest, first, exit_block)]
        if apart is not None:
            last = self._fill(apart, 0, steps=1, last=True)
            with ir.InsertionPoint(apart):
                branch(exit_block, last.results)
        if self.innermost:
            mark_advancing(blocks, {steady, *rest, *((apart,) if apart else ())})

    def _build_rest(
        self, steady: ir.Block, turn: _Filled, rest: list[ir.Block], first: ir.Block, exit_block: ir.Block
    ) -> list[ir.Block]:
        """Where the steady loop is left: the steps behind its last whole turn. The blocks that branch to them.

        Args:
            turn: what the steady loop holds.
            first: where a loop begins that has no whole turn.
        """

        def out(filled: _Filled) -> tuple[ir.Block, list[ir.Value]]:
            return (exit_block, filled.results) if self.last_block is None else (self.last_block, filled.carried)

        asking, taken = first, list[ir.Value]()  # which block asks for a step more, and what it takes
        if not rest:
            asking, taken = out(turn)
        elif first == rest[0]:
            asking = first.create_before()
        else:
            taken = turn.carried
        with ir.InsertionPoint(steady):
            cond_branch(self._exists(turn.base, self.unroll - 1), steady, turn.carried, asking, taken)
        if rest and taken:
            turn = _Filled(first.arguments[0], list(first.arguments), [])
        blocks = []
        for number, block in enumerate(rest):
            with ir.InsertionPoint(asking):
                cond_branch(self._exists(turn.base, 0), block, turn.carried, *out(turn))
            turn = self._fill(block, number, steps=1, last=self.last_block is None and block == rest[-1])
            blocks.append(asking)
            asking = block
        if rest:
            with ir.InsertionPoint(asking):
                branch(*out(turn))
        return [*blocks, *rest[-1:]]

    # -- iterations

    def _find_ends(self) -> None:
        """The index of the last iteration, and the end of those at which a whole turn may begin. At least one iteration
        is known to run.
        """
        one = _constant(self.lower, 1)
        last = arith.divui(arith.subi(arith.subi(self.upper, self.lower), one), self.stride)
        self.last = arith.addi(self.lower, arith.muli(last, self.stride))
        self.end = arith.subi(self.upper, self.stride) if self.schedule.last else self.upper
        self.last_turn = self.end
        if self.unroll > 1:
            distance = arith.muli(_constant(self.lower, self.unroll - 1), self.stride)
            self.last_turn = arith.subi(self.end, distance)

    def _exists(self, base: ir.Value, iterations: int) -> ir.Value:
        """Whether there is an iteration so many (none, or all but one of a turn) after the one with index `base`."""
        return arith.cmpi(arith.CmpIPredicate.slt, base, self.last_turn if iterations else self.end)

    def _index(self, base: ir.Value, iterations: int, known: int) -> ir.Value:
        """The loop variable so many iterations after `base`, but never after the last; so many are `known` to run."""
        if iterations == 0:
            return base
        key = (base, iterations)
        if key not in self.indices:
            ahead = arith.addi(base, arith.muli(_constant(base, iterations), self.stride))
            self.indices[key] = ahead if iterations < known else arith.minsi(ahead, self.last)
        return self.indices[key]

    # -- blocks

    def _carrying_block(self, before: ir.Block) -> ir.Block:
        """A block that takes the loop variable and the values that earlier steps hand on."""
        types = [self.lower.type, *(self.values.type_of(what) for what, _ in self.values.needed)]
        types += [slot.type for _, copies in self.turning for slot in copies]
        return before.create_before(*types, arg_locs=[self.loop.location] * len(types))

    def _prologue(self) -> None:
        self._begin_block({}, [slot for _, copies in self.turning for slot in copies])
        begun = first_copies([one.placed for one in self.values.taken if one.placed.ahead == self.furthest])
        for taken in self.values.taken:
            if taken.placed in begun:
                self._emit(taken, -self.furthest, self.lower, 0)
        if begun:
            create_marker(Fence())
        for step in range(-self.furthest, 0):
            self._emit_step(step, self.lower, 0, 1, done=begun if step == -self.furthest else ())
        part(self.schedule.groups)

    def _fill(self, block: ir.Block, first_slot: int, *, steps: int, last: bool = False) -> _Filled:
        """Steps 0, 1, … of a block that begins at slot `first_slot`. In the `last` step nothing runs ahead."""
        arguments = list(block.arguments)
        with ir.InsertionPoint(block):
            slots_at = 1 + len(self.values.needed)
            self._begin_block(dict(zip(self.values.needed, arguments[1:slots_at], strict=True)), arguments[slots_at:])
            base = arguments[0]
            for step in range(steps):
                self._emit_step(step, base, first_slot, steps - step, last)
                self._finish_step(step, base)
                base = arith.addi(base, self.stride)
        carried = []
        if not last:
            later = (self._value_at((what, at + steps)) for what, at in self.values.needed)
            carried = [base, *later, *self._slots_after(steps)]
        results = [
            self._yielded(number, steps - 1 - self.values.producer_ahead(number))
            for number in range(len(self.values.yielded))
        ]
        return _Filled(base, carried, results)

    def _begin_block(self, ready: dict[Key, ir.Value], slots: list[ir.Value]) -> None:
        """Begin with what earlier steps handed on, and the slots of what turns."""
        remaining = iter(slots)
        self.now = {tensor: [next(remaining) for _ in copies] for tensor, copies in self.turning}
        self.ready = ready
        self.indices = {}
        self.marked = []

    # -- steps

    def _emit_step(
        self, step: int, base: ir.Value, first_slot: int, known: int, last: bool = False, done: Collection[Placed] = ()
    ) -> None:
        """The operations of a step but those that are `done`; `base` is the loop variable of step 0 in a prologue, of
        this step otherwise. From there so many iterations are `known` to run; if it is the `last` one, no more.
        """
        alone = last and bool(self.schedule.last)
        for taken in self.values.taken:
            placed = taken.placed
            iteration = step + placed.ahead
            if iteration < 0 or (last and placed.ahead) or placed in done:
                continue
            index = self._index(base, iteration if step < 0 else placed.ahead, known)
            if step >= 0 and not alone:
                self._mark(placed.before)
            self._emit(taken, step, index, first_slot)
        if step >= 0 and not alone:
            self._mark(self.after)

    def _mark(self, markers: tuple[Marker, ...]) -> None:
        """What stands between fragments, as operations; `marked` is what stands before the next one."""
        self.marked += markers
        for marker in markers:
            create_marker(marker)

    def _emit(self, taken: Taken, step: int, index: ir.Value, first_slot: int) -> None:
        copy = taken.placed.op.clone()
        inside = list(nested(copy)) if taken.inside else []
        ahead = taken.placed.ahead
        self._replace(copy, taken.operands, step, ahead, index, first_slot)
        for inner in inside:
            self._replace(inner, list(inner.operands), step, ahead, index, first_slot)
        if step >= 0 and self.schedule.fences == "memory":
            for one, name in ((copy, taken.name), *((inner, inner.name) for inner in inside)):
                if name in PINNABLE:
                    one.attributes[PINNED] = ir.UnitAttr.get()
        if self.marked:
            self._note_fences(copy)
        if taken.results:
            for old, new in zip(taken.results, copy.results, strict=True):
                self.ready[old, step] = new

    def _note_fences(self, copy: ir.Operation) -> None:
        """Say of the first operation behind fences which they are."""
        if any(isinstance(marker, Fence) for marker in self.marked):
            asked = [str(marker) for marker in self.marked if isinstance(marker, Fence | Barrier)]
            copy.attributes[FENCES] = string(", ".join(asked))
        self.marked = []

    def _replace(
        self, copy: ir.Operation, operands: list[ir.Value], step: int, ahead: int, index: ir.Value, first_slot: int
    ) -> None:
        """Give a copy of an operation, whose operands are those of the body, what they are in a step."""
        own = copy.operands
        for number, operand in enumerate(operands):
            now = self._operand(operand, step, ahead, index, first_slot)
            if now is not operand:
                own[number] = now

    def _operand(self, operand: ir.Value, step: int, ahead: int, index: ir.Value, first_slot: int) -> ir.Value:
        if self.now and operand in self.now:
            return self.now[operand][(step + ahead) % len(self.now[operand])]
        slots, number, made = self.values.origin(operand)
        if slots is not None:
            return slots[(step + ahead + first_slot) % len(slots)]
        if number is not None:
            return index if number < 0 else self._yielded(number, step + ahead - 1 - self.values.producer_ahead(number))
        return operand if made is None else self.ready[operand, step + ahead - made]

    def _slots_after(self, steps: int) -> list[ir.Value]:
        """The slots of what turns, so many steps later."""
        return [slots[(number + steps) % len(slots)] for slots in self.now.values() for number in range(len(slots))]

    # -- values carried from step to step

    def _yielded(self, number: int, step: int) -> ir.Value:
        """What the body hands on in the iteration that its producer computes in `step`."""
        if (number, step) in self.ready:
            return self.ready[number, step]
        if (self.values.yielded[number], step) in self.ready:
            return self.ready[self.values.yielded[number], step]
        if step + self.values.producer_ahead(number) == -1:
            return self.values.initial[number]
        item = self.values.yielded[number]
        source = self.values.origin(item).argument
        if source is not None:  # handed on as it came, an iteration before
            return self._yielded(source, step - 1 - self.values.producer_ahead(source))
        assert self.values.yielded_ahead[number] is None, "what runs before its operands passed the check"
        return item

    def _finish_step(self, step: int, index: ir.Value) -> None:
        """Record what the body hands on although no operation of it computes it."""
        for number, item in enumerate(self.values.yielded):
            if self.values.yielded_ahead[number] is None:
                self.ready[number, step] = self._operand(item, step, 0, index, 0)

    def _value_at(self, key: Key) -> ir.Value:
        what, step = key
        return self._yielded(what, step) if isinstance(what, int) else self.ready[key]

    def _entry(self, key: Key) -> ir.Value:
        """A carried value on entry: from the prologue, or the loop's initial value; poison before the first
        iteration.
        """
        what, step = key
        if isinstance(what, int) and step + self.values.producer_ahead(what) >= -1:
            return self._yielded(what, step)
        if key in self.ready:
            return self.ready[key]
        return value("ub.poison", self.values.type_of(what), [], {"value": ir.Attribute.parse("#ub.poison")})


def _constant(like: ir.Value, number: int) -> ir.Value:
    return constant_integer(number, like.type)
