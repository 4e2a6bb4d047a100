"""From one block to the next: what a branch of the scheduled program says about the loops and branches of the
unscheduled one, and where the next block then stands in it.

The condition of a branch is a comparison with the end of a loop, or a scalar that decides a branch, or whether a loop
without an index goes on. A loop is left where the other way would go on with an iteration that does not exist; a part
of a branch ends where its ways meet again.
"""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from ckmlir.mlir import ir
from ckmlir.passes.proof import explain
from ckmlir.passes.proof.finding import Finding
from ckmlir.passes.proof.flow import Graph, handed
from ckmlir.passes.proof.frames import Arm, Frame, Left
from ckmlir.passes.proof.polynomial import symbol
from ckmlir.passes.proof.source_program import SourceProgram
from ckmlir.passes.proof.state import State, Value, settled
from ckmlir.passes.proof.structure import Branch, Loop
from ckmlir.passes.proof.terms import NOTHING, Name, Names, Table


class Crossings:
    """Follows the ways out of blocks; `report` takes what is wrong with them."""

    def __init__(
        self, program: SourceProgram, graph: Graph, report: Callable[[Finding], None], missing: Callable[..., None]
    ) -> None:
        self.program = program
        self.graph = graph
        self.report = report
        self.unfinished = missing

    def leave(self, state: State, branch: ir.Operation) -> Iterator[tuple[ir.Block, State]]:
        """Where a branch may go, and what is known there."""
        if branch.name != "cf.cond_br":
            to = branch.successors[0]
            yield to, self._enter(state, branch, 0, self._last_handed_on(state, list(branch.operands)))
            return
        state, decided, more = self._read(state, branch)
        if decided is None and not more:
            self.report(explain.branch(branch))
        for number, to in enumerate(branch.successors):
            refined = _refined(state, more, taken=number == 0)
            if refined is None:
                continue
            left = None
            if isinstance(decided, Branch):
                refined = self._take(refined, decided, number, self.graph.joins(branch.block))
            elif isinstance(decided, Loop):
                left = self._go_on(refined, decided) if number == 0 else decided.depth
            else:
                left = self._ended(refined, branch, more)
            yield to, self._enter(refined, branch, number, left)

    # -- what a condition says

    def _read(self, state: State, branch: ir.Operation) -> tuple[State, Branch | Loop | None, dict[int, int]]:
        """The branch or loop that a condition decides; and for the loops (by depth) whose end it is a comparison with,
        which iteration exists if it holds. The state is one from which this is seen.
        """
        decided, more = self._decided(state, branch), self._more(state, branch)
        top = state.stack[-1] if state.stack else None
        if decided is None and not more and isinstance(top, Frame) and _holds_loops(top):
            later = state.moved(1, top.loop.depth)  # the next iteration of the loop around may have begun
            decided, more = self._decided(later, branch), self._more(later, branch)
            if decided is not None or more:
                return later, decided, more
        return state, decided, more

    @staticmethod
    def _more(state: State, branch: ir.Operation) -> dict[int, int]:
        fact = state.values.get(branch.operands[0], Value()).fact
        shifts = ((frame.loop.depth, frame.more(fact)) for frame in state.frames)
        return {depth: shift for depth, shift in shifts if shift is not None}

    def _decided(self, state: State, branch: ir.Operation) -> Branch | Loop | None:
        condition = state.values.get(branch.operands[0], Value())
        found: list[Branch] = []
        for place in range(len(state.stack) + 1):
            region = state.stack[place - 1].region if place else self.program.body
            if any(isinstance(one, Arm) or one.at != 0 for one in state.stack[place:]):
                continue  # what stands before a branch or loop that is running is over
            for item in region.items:
                if isinstance(item, Loop) and not state.done.get(item):
                    break  # what comes behind has not begun
                if isinstance(item, Branch) and self._decides(state, item, condition):
                    found.append(item)
        if found:  # of several on one condition that which has run for the fewest iterations
            return min(found, key=lambda item: _count(state, item))
        top = state.stack[-1] if state.stack else None
        if isinstance(top, Frame) and top.loop.index is None and top.part == 0:
            loop = top.loop
            return loop if _is(loop.condition, 0, condition, self.program.table, loop.depth) else None
        return None

    def _decides(self, state: State, item: Branch, condition: Value) -> bool:
        """Whether a scalar decides a branch the next time that it runs, and that time there is."""
        count = _count(state, item)
        if isinstance(item.home.item, Branch) and state.done.get(item):
            return False
        if item.home.depth and not condition.inside and count >= state.frames[item.home.depth - 1].left.least:
            return False
        return (count == 0 or item.home.depth > 0) and _is(
            item.condition, count, condition, self.program.table, item.home.depth
        )

    # -- branches

    def _take(self, state: State, item: Branch, part: int, end: ir.Block | None) -> State:
        """Stand in a part of a branch."""
        depth, count = item.home.depth, _count(state, item)
        if depth and count and any(isinstance(one, Loop) for region in item.regions for one in region.items):
            state, count = state.moved(count, depth), 0
        else:
            state = state.without(depth + 1)
        state.restack(*state.stack, Arm(item, part, count, end))
        state.descend()
        return state

    def _ends_part(self, state: State, branch: ir.Operation, given: list[Value]) -> tuple[State, list[Value]]:
        """Stand behind the branch whose part ends: what it gives are results, and its effects have happened."""
        arm = next(one for one in reversed(state.stack) if isinstance(one, Arm))
        item, depth = arm.branch, arm.branch.home.depth
        table = self.program.table
        given = [value._replace(names=state.closure(value)) for value in given]
        wanted = [table.earlier(name, -arm.shift, depth) if depth else name for name in item.handed[arm.part]]
        results = [item.result(number) for number in item.results]
        if depth:
            results = [table.earlier(name, -arm.shift, depth) for name in results]

        def names(known: Names) -> Names:
            ended = (result for name, result in zip(wanted, results, strict=True) if name in known)
            return table.settled(known, depth + 1).union(ended)

        given = [settled(value, names(value.names), depth + 1, table) for value in given]
        held = {tensor: [(names(known), mask) for known, mask in parts] for tensor, parts in state.lds.items()}
        state = state.without(depth + 1)
        state.hold(held)
        for number, effect in enumerate(self.program.effects):
            if effect.home.is_in(item):
                happened = effect.progress(depth, arm.shift + 1)
                if effect.home.is_in_part(item, arm.part) and state.memory[number] != happened:
                    self.unfinished(effect.op, branch)
                state.memory[number] = happened
        state.restack(*state.stack[: state.stack.index(arm)])
        state.done = {one: count for one, count in state.done.items() if not one.home.is_in(item)}
        state.done[item] = state.done.get(item, 0) + 1
        state.descend()
        return state, given

    # -- loops

    @staticmethod
    def _go_on(state: State, loop: Loop) -> None:
        """A loop without an index goes on: its body runs, and it decides once more."""
        frame = state.frames[loop.depth - 1]
        state.reframe(loop.depth, replace(frame, part=1, left=Left(2)))
        state.descend()

    def _ended(self, state: State, branch: ir.Operation, more: dict[int, int]) -> int | None:
        """The depth of the loop that a conditional branch leaves: there is no iteration that the other way could go on
        with.
        """
        operands = handed(branch, 0)
        for depth, shift in more.items():
            frame = state.frames[depth - 1]
            if frame.left.most == shift == (_next(state, frame, operands) or 0):
                return depth
        return None

    def _last_handed_on(self, state: State, operands: list[ir.Value]) -> int | None:
        """The depth of the loop whose results a branch hands on, those of an iteration known to be the last."""
        top = state.stack[-1] if state.stack else None
        if not isinstance(top, Frame) or top.left.exact is None or len(operands) != len(top.loop.op.results):
            return None
        final, loop = top.left.exact, top.loop
        inside = [number for number, effect in enumerate(self.program.effects) if effect.home.is_in(loop)]
        if any(state.memory[number] != self.program.effects[number].progress(loop.depth, final) for number in inside):
            return None
        changed = [operands[place] for place in loop.changing]
        names = [state.closure(state.values.get(operand, Value())) for operand in changed]
        own = loop.arguments[: len(names)]  # behind them stands what LDS tensors hold, which no branch hands on
        every = all(Name(argument, final) in found for argument, found in zip(own, names, strict=True))
        return loop.depth if every else None

    def _finish(self, state: State, branch: ir.Operation, given: list[Value], depth: int) -> tuple[State, list[Value]]:
        """A loop is left: what was carried is its result, and its effects have all happened."""
        frame = state.frames[depth - 1]
        loop, home = frame.loop, frame.loop.home
        final = frame.left.exact if loop.index is not None else 0
        if final is None:
            self.report(explain.left_early(frame, branch))
        table = self.program.table
        outside = state.without(depth)
        inner = state.without(depth + 1)

        def names(known: Names) -> Names:
            return table.settled(known, depth) | self._results(frame, known)

        results = [settled(value, names(value.names), depth, table) for value in given]
        outside.hold({tensor: [(names(known), mask) for known, mask in parts] for tensor, parts in state.lds.items()})
        for number, effect in enumerate(self.program.effects):
            if effect.home.is_in(loop):
                decides = loop.index is None and effect.home.is_in_part(loop, 0)
                if final is None or inner.memory[number] != effect.progress(depth, final + decides):
                    self.unfinished(effect.op, branch)
                outside.memory[number] = effect.progress(home.depth, 1)
        outside.done[loop] = 1
        outside.descend()
        return outside, results

    def _results(self, frame: Frame, known: Names) -> Names:
        """The results of a loop that a value is, if no iteration is left."""
        loop, earlier = frame.loop, self.program.table.earlier
        final = frame.left.exact if loop.index is not None else 0
        if final is None:
            return NOTHING
        last = ((number, earlier(name, -final, loop.depth)) for number, name in loop.last_values())
        return frozenset(loop.result(number) for number, name in last if name in known)

    def _foreseen(self, state: State, value: Value) -> Value:
        """A value with the names of the results that it is of loops whose last iteration is known, though these are not
        left yet: what takes them may come before the rest of that iteration.
        """
        frames = (frame for frame in state.frames if frame.loop.index is not None and frame.left.exact is not None)
        return value._replace(names=value.names.union(*(self._results(frame, value.names) for frame in frames)))

    # -- the next block

    def _enter(self, state: State, branch: ir.Operation, number: int, left: int | None) -> State:
        """What is known in a block, `left` being the depth of the loop that is left on the way there."""
        to = branch.successors[number]
        operands = handed(branch, number)
        given = [state.values.get(operand, Value()) for operand in operands]
        given = [value._replace(names=state.closure(value)) for value in given]
        state = state.copy()
        state.lds = {tensor: state.contents(tensor) for tensor in state.lds}
        stays = left is None
        if left is not None:
            state, given = self._finish(state, branch, given, left)
        else:
            given = [self._foreseen(state, value) for value in given]
        while any(isinstance(one, Arm) and one.end == to for one in state.stack):
            state, given = self._ends_part(state, branch, given)
            stays = False
        state.values.update(zip(to.arguments, given, strict=True))
        if stays:
            state = self._go_round(state, branch, operands, to)
        _forget_starts(state, to)
        return state

    def _go_round(self, state: State, branch: ir.Operation, operands: list[ir.Value], to: ir.Block) -> State:
        """Go on with the iteration whose index is handed on. Where several loops begin with that one, the outermost of
        those that have not begun comes first: also where the next one inside has no index, and any block to which one
        comes back may be its first.
        """
        begins: Frame | None = None
        for frame in reversed(state.frames):
            if frame.loop.index is None:
                if frame.part == 1 and self.graph.goes_back(branch.block, to):
                    return state.moved(1, frame.loop.depth)
                if frame == state.stack[-1] and frame.part == 0 and self.graph.comes_back(to):
                    begins = frame
            else:
                shift = _next(state, frame, operands)
                if begins is not None and (shift != 0 or (begins.loop.index is None and frame.at != 0)):
                    break
                if shift:
                    state = state.moved(shift, frame.loop.depth)
                    return state.at_any(frame.loop.depth, to.arguments) if _holds_loops(frame) else state
                if shift == 0 and _holds_loops(frame):
                    begins = frame
            if frame.at != 0:
                break
        return state if begins is None else state.at_any(begins.loop.depth, to.arguments)

    def close(self, state: State, end: ir.Operation) -> State:
        """The kernel ends, and with it all branches that it stands in."""
        while any(isinstance(one, Arm) for one in state.stack):
            state, _ = self._ends_part(state, end, [])
        return state


def _forget_starts(state: State, to: ir.Block) -> None:
    """Where a loop without an index decides, what it carries is an unknown, in the first iteration as in all others:
    what the bounds of loops in it are said in.
    """
    deciding = [frame.loop for frame in state.frames if frame.loop.index is None and frame.part == 0]
    carried = [Name(argument, 0) for loop in deciding for argument in loop.arguments]
    for argument in to.arguments if carried else ():
        known = state.values[argument]
        name = next((one for one in carried if one in known.names), None)
        if name is not None and known.polynomial is not None:
            state.values[argument] = known._replace(polynomial=symbol(name))


def _holds_loops(frame: Frame) -> bool:
    return frame.loop.index is not None and any(isinstance(item, Loop) for item in frame.region.items)


def _count(state: State, item: Branch) -> int:
    """How often a branch has run, seen from the iteration of the loop around."""
    arms = (one.shift for one in state.stack if isinstance(one, Arm) and one.branch == item.home.item)
    return next(arms, 0) + state.done.get(item, 0)


def _is(wanted: Name | None, count: int, known: Value, table: Table, depth: int) -> bool:
    """Whether a value is the one named, in the iteration so many later of the loop at a depth."""
    if wanted is None:
        return False
    return (table.earlier(wanted, -count, depth) if depth else wanted) in known.names


def _next(state: State, frame: Frame, operands: list[ir.Value]) -> int | None:
    """The iteration that a branch goes on with, by the first index among what it hands on."""
    shifts = (frame.shift_of(state.values.get(operand, Value()).polynomial) for operand in operands)
    return next((one for one in shifts if one is not None), None)


def _refined(state: State, more: dict[int, int], *, taken: bool) -> State | None:
    """What is known beyond a branch; None: it is never taken."""
    refined = state.copy()
    for depth, shift in more.items():
        frame = refined.frames[depth - 1]
        left, some = frame.left, frame.some
        if taken:
            left = left._replace(least=max(left.least, shift + 1))
            some = some or (frame.at or 0) + shift >= 0
        else:
            left = left._replace(most=shift if left.most is None else min(left.most, shift))
        if left.most is not None and left.most < left.least:
            return None
        refined.reframe(depth, replace(frame, left=left, some=some))
    return refined
