"""The scheduled program followed path by path, its values named after what the unscheduled one computes.

`Simulation` finds what holds at the beginning of every block whichever way led there, and then goes through the blocks
once more to say what is wrong. It is right for every trip count: iterations are counted from the one at which a block
stands, and branches say which of them exist.
"""

from collections.abc import Iterable

from ckmlir.dialect.build import integer_of
from ckmlir.mlir import ir
from ckmlir.passes.proof import explain
from ckmlir.passes.proof.contents import choices_of, overlaid, readings
from ckmlir.passes.proof.crossings import Crossings
from ckmlir.passes.proof.effort import Effort
from ckmlir.passes.proof.finding import Finding
from ckmlir.passes.proof.flow import Graph, terminator
from ckmlir.passes.proof.footprints import bytes_of, changes, elements_of, finds, tensor_of, value_operands
from ckmlir.passes.proof.frames import Arm, Fact, Frame
from ckmlir.passes.proof.polynomial import Polynomial, symbol
from ckmlir.passes.proof.source_program import SourceProgram, copied, meets, scalar
from ckmlir.passes.proof.state import Progress, State, Value
from ckmlir.passes.proof.structure import Region
from ckmlir.passes.proof.terms import (
    EFFECTS,
    NO_VALUE,
    NOTHING,
    READS,
    Name,
    Names,
    Part,
    Signature,
    Table,
    memory_root,
    sees_effects,
    signature_of,
)  # fmt: skip

INTEGERS = (ir.IntegerType, ir.IndexType)
LESS_THAN = 2  # predicate slt of arith.cmpi
COMPARISONS = {"arith.cmpi": "less", "arith.minsi": "smaller"}


class Simulation:
    """Follows a scheduled kernel beside its unscheduled form."""

    def __init__(self, program: SourceProgram, function: ir.Operation, effort: Effort) -> None:
        self.program = program
        self.function = function
        self.effort = effort
        self.blocks = list(function.regions[0])
        self.findings: list[Finding] | None = None  # while states are still looked for nothing is reported
        self.crossings = Crossings(program, Graph(function), self.report, self._unfinished)
        self._signatures: dict[ir.Operation, Signature] = {}
        self._places: dict[ir.Operation, tuple[int, int]] = {}

    def run(self) -> list[Finding]:
        """The findings of the kinds `dependence` and `order`."""
        start = State(self.program)
        arguments = zip(self.blocks[0].arguments, self.program.arguments, strict=True)
        start.values = {argument: _named(Name(*name)) for argument, name in arguments}
        start.memory = {number: effect.progress(0, 0) for number, effect in enumerate(self.program.effects)}
        start.descend()
        entering = {self.blocks[0]: start}
        pending = [self.blocks[0]]
        while pending:
            block = pending.pop(0)
            for to, state in self._leave(block, entering[block]):
                joined = entering[to].join(state) if to in entering else state
                if joined is not None and (to not in entering or not joined.same(entering[to])):
                    entering[to] = joined
                    if to not in pending:
                        pending.append(to)
        self.findings = []
        for block in self.blocks:
            if block in entering:
                for to, state in self._leave(block, entering[block]):
                    if entering[to].join(state) is None:
                        self.report(explain.elsewhere(entering[to], state, terminator(block)))
        return self.findings

    def _leave(self, block: ir.Block, entering: State) -> Iterable[tuple[ir.Block, State]]:
        state = self._block(block, entering)
        end = terminator(block)
        if end.successors:
            return self.crossings.leave(state, end)
        self._returned(self.crossings.close(state, end), end)
        return ()

    def report(self, finding: Finding) -> None:
        """Add a finding, once the states are known."""
        if self.findings is not None and str(finding) not in map(str, self.findings):
            self.findings.append(finding)

    # -- operations

    def _block(self, block: ir.Block, entering: State) -> State:
        state = entering.copy()
        for argument in block.arguments:
            self._known_integer(state, argument)
        for op in (view.operation for view in block):
            if op.name == "ck.lds_alloc":
                state.lds[op] = ()
            elif op.name not in NO_VALUE:
                self._step(state, op)
        return state

    def _step(self, state: State, op: ir.Operation) -> None:
        fact = self._fact(state, op)
        polynomial = scalar(op, lambda value: state.values.get(value, Value()).polynomial)
        choices: list[list[object]] = [list(state.names_of(one)) for one in value_operands(op)]
        parts, held = self._held(state, op)
        effects = self._met(state, op, choices)
        memory, signature = self._memory(state, effects), self._signature(op)
        names = NOTHING.union(*(self._found(signature, [*choices, *one], memory) for one in held))
        operands = [state.values.get(operand, Value()) for operand in op.operands]
        spoilt = any(one.spoilt for one in operands) or any(not found for found, _ in parts)
        arithmetic = op.name.startswith("arith.") and all(isinstance(one.type, INTEGERS) for one in op.results)
        lost = not names and polynomial is None and fact is None and not arithmetic
        if lost and not spoilt:
            depths = range(len(state.frames), -1, -1)
            seen = [[one for depth in depths if (one := self._seen(state, number, depth))] for number in effects]
            self.report(explain.unknown(self.program, state, op, signature, [*choices, *held[0], *seen], parts))
        inside = self._inside(state, names, polynomial, fact, operands)
        if op.name in READS and names:
            if not inside:
                self.report(explain.outside(self.program, op, names))
            elif not self._entered(state, names):
                self.report(explain.not_entered(self.program, op, names))
        if op.name in EFFECTS:
            if names:
                self._effect(state, op, names)
            else:
                self._pass_over(state, op)
        elif changes(op):
            self._write(state, op, names)
        for result in op.results:
            state.values[result] = Value(names, polynomial, inside, fact, spoilt=lost or (spoilt and not names))
            self._known_integer(state, result)

    @staticmethod
    def _inside(
        state: State, names: Names, polynomial: Polynomial | None, fact: Fact | None, operands: list[Value]
    ) -> bool:
        """Whether a value belongs to an iteration that exists, or to the last one instead."""
        if state.exists(names) or any(frame.clamped(fact) is not None for frame in state.frames):
            return True
        for frame in reversed(state.frames):
            shift = frame.shift_of(polynomial)
            if shift is not None:
                return shift < frame.left.least
        return all(one.inside for one in operands)

    def _entered(self, state: State, names: Names) -> bool:
        """Whether the unscheduled program comes to one of the places where it does what has these names: all loops and
        parts of branches around have been entered.
        """
        return any(
            all(_stands_in(state, self.program.table, name, region) for region in home.path)
            for name in names
            for home in self.program.homes.get(name.number, ())
        )

    def _signature(self, op: ir.Operation) -> Signature:
        if op not in self._signatures:
            self._signatures[op] = copied(op) or signature_of(op)
        return self._signatures[op]

    def _found(self, signature: Signature, choices: list[list[object]], memory: list[tuple[Name, ...]]) -> Names:
        """The names of an operation whose operands may be taken for these, and which sees memory so."""
        table = self.program.table
        self.effort.spend(1 + table.tries(signature, choices) * len(memory))
        return table.find(signature, choices, memory)

    @staticmethod
    def _held(state: State, op: ir.Operation) -> tuple[list[Part], list[list[list[object]]]]:
        """What an LDS read finds; and the ways to say it as operands, of which there is one, without any, for what
        reads no LDS.
        """
        if not finds(op):
            return [], [[]]
        needed = elements_of(op)
        parts = [(names, mask & needed) for names, mask in state.contents(tensor_of(op)) if mask & needed]
        if sum(mask for _, mask in parts) != needed:
            return parts, [[[]]]
        return parts, [choices_of(reading) for reading in readings(parts)]

    def _met(self, state: State, op: ir.Operation, choices: list[list[object]]) -> list[int]:
        """The effects that may have changed memory that an operation reads or changes."""
        if not sees_effects(op):
            return []
        root, own = memory_root(op, self.function), self._own_effects(state, op, choices)
        return [one for one, effect in enumerate(self.program.effects) if meets(root, effect) and one not in own]

    def _own_effects(self, state: State, op: ir.Operation, choices: list[list[object]]) -> list[int]:
        """The effect of the unscheduled program that this operation may be, which does not depend on itself; of several
        alike that which has happened for the fewest iterations.
        """
        if op.name not in EFFECTS:
            return []
        alike = self.program.effects_alike.get(self._signature(op), ())
        same = [number for number in alike if self._same_operands(number, choices)]
        pending = [(now, number) for number in same if (now := self._now(state, number)) is not None]
        return [min(pending)[1]] if pending else same[:1]

    def _same_operands(self, number: int, choices: list[list[object]]) -> bool:
        op = self.program.effects[number].op
        for known, operands in self.program.table.alike.get(signature_of(op), ()):
            if known == op:
                numbers = [one.number for one in operands[: len(choices)] if isinstance(one, Name)]
                return all(
                    any(isinstance(one, Name) and one.number == wanted for one in choice)
                    for wanted, choice in zip(numbers, choices, strict=True)
                )
        return False

    def _memory(self, state: State, effects: list[int]) -> list[tuple[Name, ...]]:
        """What effects have done, as names of memory seen at each depth; none, where that is not known of one."""
        found: dict[tuple[Name, ...], None] = {}
        for depth in range(len(state.frames), -1, -1):
            seen = [self._seen(state, number, depth) for number in effects]
            if None not in seen:
                found[tuple(one for one in seen if one is not None)] = None
        return list(found)

    def _seen(self, state: State, number: int, depth: int) -> Progress:
        """What an effect has done, seen at a depth, or as near as the loops that have begun let see."""
        progress = state.memory[number]
        while progress is not None and self.program.table.depths[progress.number] > depth:
            further = state.outside(number, progress)
            if further is None:
                break
            progress = further
        return progress

    # -- effects

    def _pass_over(self, state: State, op: ir.Operation) -> None:
        """An effect of wrong values, which have been reported: what comes next is not to blame for it."""
        for number in self.program.effects_alike.get(signature_of(op), ())[:1]:
            self._count(state, number)

    def _effect(self, state: State, op: ir.Operation, names: Names) -> None:
        for name in names:
            for number in self.program.effect_names.get(name.number, ()):
                depth, now = self.program.effects[number].home.depth, self._now(state, number)
                inner = depth == self.program.table.depths[name.number]
                if now is None or name.shift not in ((None, now) if inner else (None, 0)):
                    continue
                if depth and now >= state.frames[depth - 1].left.least:
                    self.report(explain.outside(self.program, op, names))
                elif not self._entered(state, frozenset({name})):
                    self.report(explain.not_entered(self.program, op, names))
                self._count(state, number)
                return
        self.report(explain.out_of_order(self.program, state, op, names))

    def _now(self, state: State, number: int) -> int | None:
        """For which iteration of the loop around an effect is to happen next; None: for none, or it is not known."""
        effect, progress = self.program.effects[number], state.memory[number]
        depth = effect.home.depth
        if progress is None or (
            progress.number not in effect.during[depth - 1 :] if depth else progress.number != effect.before
        ):
            return None
        return progress.shift or 0

    def _count(self, state: State, number: int) -> None:
        """An effect happens."""
        now, effect = self._now(state, number), self.program.effects[number]
        if now is not None:
            state.memory[number] = effect.progress(effect.home.depth, now + 1)

    def _write(self, state: State, op: ir.Operation, names: Names) -> None:
        tensor = tensor_of(op)
        state.lds[tensor] = tuple(overlaid(state.contents(tensor), names, elements_of(op)))
        low, high = self._bytes(tensor)
        for other in state.lds:
            start, end = self._bytes(other)
            if other != tensor and start < high and low < end:
                state.lds[other] = ()

    def _bytes(self, alloc: ir.Operation) -> tuple[int, int]:
        if alloc not in self._places:
            self._places[alloc] = bytes_of(alloc)
        return self._places[alloc]

    # -- index arithmetic

    def _known_integer(self, state: State, value: ir.Value) -> None:
        """An integer of which no polynomial is known is an unknown of its own, by its name."""
        known = state.values.get(value)
        if known is None or known.polynomial is not None or known.fact is not None or not known.names:
            return
        if isinstance(value.type, INTEGERS):
            bounds = self.program.bounds
            name = min(known.names, key=lambda name: (name.number not in bounds, name.number, name.shift or 0))
            state.values[value] = known._replace(polynomial=symbol(name))

    def _fact(self, state: State, op: ir.Operation) -> Fact | None:
        """What an operation on scalars says about the end of a loop."""
        kind = COMPARISONS.get(op.name)
        if kind is None or not state.frames or (kind == "less" and integer_of(op, "predicate") != LESS_THAN):
            return None
        left, right = (state.values.get(operand, Value()).polynomial for operand in op.operands)
        if left is None or right is None:
            return None
        fact = Fact(kind, left, right)
        ends = any((frame.more if kind == "less" else frame.clamped)(fact) is not None for frame in state.frames)
        return fact if kind == "less" or ends else None

    def _returned(self, state: State, branch: ir.Operation) -> None:
        for operand, wanted in zip(branch.operands, self.program.returned, strict=True):
            known = state.values.get(operand, Value())
            if wanted not in state.closure(known) and not known.spoilt:
                self.report(explain.wrong_result(self.program, branch, wanted, known))
        for number, effect in enumerate(self.program.effects):
            if state.memory[number] != effect.progress(0, 1):
                self._unfinished(effect.op, branch)

    def _unfinished(self, effect: ir.Operation, branch: ir.Operation) -> None:
        if not self.findings:  # else it may be one that has been reported, and so was not counted
            self.report(explain.unfinished(effect, branch))


def _stands_in(state: State, table: Table, name: Name, region: Region) -> bool:
    """Whether a point is in a part of a loop or branch, in the iteration of what has that name."""
    for one in state.stack:
        if isinstance(one, Arm) and one.branch == region.item:
            inner = table.depths[name.number] == one.branch.home.depth
            return one.part == region.part and name.shift in ((None, one.shift) if inner else (None, name.shift))
        if isinstance(one, Frame) and one.loop == region.item:
            if one.loop.index is None:
                return one.part >= region.part
            return one.loop.depth == table.depths[name.number] or one.left.least >= 1
    return False


def _named(name: Name) -> Value:
    return Value(frozenset({name}))
