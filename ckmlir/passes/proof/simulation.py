"""The scheduled program followed path by path, its values named after what the unscheduled one computes.

`Simulation` finds what holds at the beginning of every block whichever way led there, and then goes through the blocks
once more to say what is wrong. It is right for every trip count: iterations are counted from the one at which a block
stands, and branches say which of them exist.
"""

from collections.abc import Iterable

from ckmlir.dialect.build import integer_of
from ckmlir.mlir import ir
from ckmlir.passes.proof import explain
from ckmlir.passes.proof.finding import Finding
from ckmlir.passes.proof.flow import handed, terminator
from ckmlir.passes.proof.footprints import bytes_of, elements_of, is_access, tensor_of, value_operands
from ckmlir.passes.proof.polynomial import Polynomial, add, constant, symbol
from ckmlir.passes.proof.source_program import COPY, SourceProgram, meets, scalar
from ckmlir.passes.proof.state import FINAL, NOTHING_KNOWN, Fact, State, Value
from ckmlir.passes.proof.terms import (
    EFFECTS,
    NO_VALUE,
    NOTHING,
    READS,
    Name,
    Names,
    Part,
    Signature,
    memory_root,
    signature_of,
)  # fmt: skip

LESS_THAN = 2  # predicate slt of arith.cmpi


class Simulation:
    """Follows a scheduled kernel beside its unscheduled form."""

    def __init__(self, program: SourceProgram, function: ir.Operation) -> None:
        self.program = program
        self.function = function
        self.blocks = list(function.regions[0])
        self.findings: list[Finding] | None = None  # while states are still looked for nothing is reported
        self._signatures: dict[ir.Operation, Signature] = {}
        self._places: dict[ir.Operation, tuple[int, int]] = {}

    def run(self) -> list[Finding]:
        """The findings of the kinds `dependence` and `order`."""
        start = State(self.program)
        arguments = zip(self.blocks[0].arguments, self.program.arguments, strict=True)
        start.values = {argument: _named(Name(*name)) for argument, name in arguments}
        start.memory = {
            number: 0 if effect.loop == 0 else "before" for number, effect in enumerate(self.program.effects)
        }
        entering = {self.blocks[0]: start}
        pending = [self.blocks[0]]
        while pending:
            block = pending.pop(0)
            for to, state in self._leave(self._block(block, entering[block])):
                joined = entering[to].join(state, set(to.arguments)) if to in entering else state
                if to not in entering or not joined.same(entering[to]):
                    entering[to] = joined
                    if to not in pending:
                        pending.append(to)
        self.findings = []
        for block in self.blocks:
            if block in entering:
                for _ in self._leave(self._block(block, entering[block])):
                    pass
        return self.findings

    def report(self, finding: Finding) -> None:
        """Add a finding, once the states are known."""
        if self.findings is not None and str(finding) not in map(str, self.findings):
            self.findings.append(finding)

    # -- operations

    def _block(self, block: ir.Block, entering: State) -> tuple[State, ir.Operation]:
        state = entering.copy()
        for op in (view.operation for view in block):
            if op.name == "ck.lds_alloc":
                state.lds[op] = ()
            elif op.name not in NO_VALUE:
                self._step(state, op)
        return state, terminator(block)

    def _step(self, state: State, op: ir.Operation) -> None:
        fact = self._fact(state, op)
        polynomial = scalar(op, lambda value: self._polynomial(state, value))
        if polynomial is None and fact is not None and fact[0] == "last":
            polynomial, fact = symbol(FINAL), None
        choices, parts = self._choices(state, op)
        names = self.program.table.find(self._signature(op), choices) if all(choices) else NOTHING
        operands = [state.values.get(operand, Value()) for operand in op.operands]
        spoilt = any(one.spoilt for one in operands) or any(not found for found, _ in parts)
        arithmetic = op.name.startswith("arith.") and all(
            isinstance(one.type, (ir.IntegerType, ir.IndexType)) for one in op.results
        )
        lost = not names and polynomial is None and fact is None and not arithmetic
        if lost and not spoilt:
            self.report(explain.unknown(self.program, state, op, self._signature(op), choices, parts))
        inside = self._inside(state, names, polynomial, fact, operands)
        if op.name in READS and names and not inside:
            self.report(explain.outside(op, names))
        if op.name in EFFECTS:
            if names:
                self._effect(state, op, names)
            else:
                self._pass_over(state, op)
        elif is_access(op) and not op.results:
            self._write(state, op, names)
        for result in op.results:
            state.values[result] = Value(names, polynomial, inside, fact, spoilt=lost or (spoilt and not names))

    @staticmethod
    def _inside(
        state: State, names: Names, polynomial: Polynomial | None, fact: Fact | None, operands: list[Value]
    ) -> bool:
        """Whether a value belongs to an iteration that exists, or to the last one instead."""
        if state.exists(names) or (fact is not None and fact[0] == "clamped"):
            return True
        shift = state.shift_of(polynomial)
        return shift < state.left.least if shift is not None else all(one.inside for one in operands)

    def _signature(self, op: ir.Operation) -> Signature:
        if op not in self._signatures:
            self._signatures[op] = COPY if op.name == "ck.copy_fragment" else signature_of(op)
        return self._signatures[op]

    def _choices(self, state: State, op: ir.Operation) -> tuple[list[list[object]], list[Part]]:
        """The names that each operand may be taken for, memory and LDS included, and what an LDS read finds."""
        if op.name == "ck.lds_read":
            needed = elements_of(op)
            parts = [(names, mask & needed) for names, mask in state.lds[tensor_of(op)] if mask & needed]
            if sum(mask for _, mask in parts) != needed:
                return [[]], parts
            return [[(name, mask) for name in names] for names, mask in _merged(parts)], parts
        choices: list[list[object]] = [list(state.names_of(one)) for one in value_operands(op)]
        if op.name in READS or op.name in EFFECTS:
            root = memory_root(op, self.function)
            own = self._own_effects(op, choices)
            for number, effect in enumerate(self.program.effects):
                if meets(root, effect) and number not in own:
                    choices.append(self._memory(state, number))
        return choices, []

    def _own_effects(self, op: ir.Operation, choices: list[list[object]]) -> list[int]:
        """The effects of the unscheduled program that this operation may be: they do not depend on themselves."""
        if op.name not in EFFECTS:
            return []
        wanted = self._signature(op)
        alike = [number for number, one in enumerate(self.program.effects) if signature_of(one.op) == wanted]
        return [number for number in alike if self._same_operands(number, choices)][:1]

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

    def _memory(self, state: State, number: int) -> list[object]:
        effect, progress = self.program.effects[number], state.memory[number]
        if progress is None:
            return []
        if not isinstance(progress, int):
            return [Name(effect.before if progress == "before" else effect.after, None)]
        found: list[object] = [Name(effect.during, progress)]
        return [*found, Name(effect.before, None)] if state.at is not None and progress + state.at == 0 else found

    # -- effects

    def _pass_over(self, state: State, op: ir.Operation) -> None:
        """An effect of wrong values, which have been reported: what comes next is not to blame for it."""
        for number, effect in enumerate(self.program.effects):
            if signature_of(effect.op) == signature_of(op):
                progress = state.memory[number]
                state.memory[number] = progress + 1 if isinstance(progress, int) else progress and "after"
                return

    def _effect(self, state: State, op: ir.Operation, names: Names) -> None:
        for name in names:
            for number in self.program.effect_names.get(name.number, ()):
                progress = state.memory[number]
                if self.program.effects[number].loop is None:
                    if progress == "before":
                        state.memory[number] = "after"
                        return
                elif isinstance(progress, int) and name.shift in (None, progress):
                    if progress >= state.left.least:
                        self.report(explain.outside(op, names))
                    state.memory[number] = progress + 1
                    return
        self.report(explain.out_of_order(self.program, state, op, names))

    def _write(self, state: State, op: ir.Operation, names: Names) -> None:
        tensor, elements = tensor_of(op), elements_of(op)
        kept = tuple((other, mask & ~elements) for other, mask in state.lds[tensor] if mask & ~elements)
        state.lds[tensor] = (*kept, (names, elements))
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

    def _polynomial(self, state: State, value: ir.Value) -> Polynomial | None:
        known = state.values.get(value, Value())
        if known.polynomial is not None:
            return known.polynomial
        if known.fact is not None:
            return None
        fixed = sorted(name for name in known.names if name.shift is None)
        return symbol(fixed[0]) if fixed else None

    def _fact(self, state: State, op: ir.Operation) -> Fact | None:
        """What an operation on scalars says about the loop that is running or comes next."""
        loop = state.loop
        if loop is None or op.name not in ("arith.divui", "arith.minsi", "arith.cmpi"):
            return None
        left, right = (self._polynomial(state, operand) for operand in op.operands)
        if left is None or right is None:
            return None
        last = state.last_index
        if op.name == "arith.divui":
            distance = add(add(loop.upper, loop.lower, -1), constant(-1))
            return ("last", 0) if left == distance and right == loop.stride and state.left.least > 0 else None
        if op.name == "arith.minsi":
            if right != last:
                left, right = right, left
            shift = state.shift_of(left)
            return ("clamped", shift) if right == last and shift is not None else None
        shift = state.shift_of(add(left, add(loop.upper, right, -1)))
        return ("more", shift) if integer_of(op, "predicate") == LESS_THAN and shift is not None else None

    # -- branches

    def _leave(self, done: tuple[State, ir.Operation]) -> Iterable[tuple[ir.Block, State]]:
        state, branch = done
        if branch.name == "func.return":
            self._returned(state, branch)
            return
        fact = state.values.get(branch.operands[0], Value()).fact if branch.name == "cf.cond_br" else None
        if branch.name == "cf.cond_br" and (fact is None or fact[0] != "more"):
            self.report(explain.branch(branch))
        for number, to in enumerate(branch.successors):
            refined = state.copy() if fact is None else _refined(state, fact, taken=number == 0)
            if refined is not None:
                operands = handed(branch, number)
                yield to, self._enter(refined, branch, operands, to, self._ends(refined, branch, fact, operands))

    def _ends(self, state: State, branch: ir.Operation, fact: Fact | None, operands: list[ir.Value]) -> bool:
        """Whether a branch leaves the loop: there is no iteration that the other way could go on with, or it hands on
        the results of the last.
        """
        if fact is not None:
            return state.left.most == fact[1] == _next(state, handed(branch, 0))
        loop, final = state.loop, state.left.exact
        if loop is None or final is None or len(operands) != len(loop.results):
            return False
        names = [state.closure(state.values.get(operand, Value())) for operand in operands]
        return all(Name(argument, final) in found for argument, found in zip(loop.arguments, names, strict=True))

    def _enter(self, state: State, branch: ir.Operation, operands: list[ir.Value], to: ir.Block, ended: bool) -> State:
        given = [state.values.get(operand, Value()) for operand in operands]
        given = [value._replace(names=state.closure(value)) for value in given]
        if ended:
            given = self._finish(state, branch, given)
            for value, argument in zip(given, to.arguments, strict=True):
                state.values[argument] = value
            return state
        shift = _next(state, operands)
        for value, argument in zip(given, to.arguments, strict=True):
            state.values[argument] = value
        return state.moved(shift)

    def _finish(self, state: State, branch: ir.Operation, given: list[Value]) -> list[Value]:
        """The loop is left: what was carried is its result, and its effects have all happened."""
        loop, final = state.loop, state.left.exact
        assert loop is not None
        if final is None:
            self.report(explain.left_early(state, branch))
        results = []
        for value in given:
            names = {name for name in value.names if name.shift is None}
            names.update(
                Name(result, None)
                for argument, result in zip(loop.arguments, loop.results, strict=True)
                if final is not None and Name(argument, final) in value.names
            )
            results.append(_settled(value, frozenset(names)))
        for number, effect in enumerate(self.program.effects):
            if effect.loop == state.number:
                if state.memory[number] != final or final is None:
                    self._unfinished(effect.op, branch)
                state.memory[number] = "after"
            elif effect.loop == state.number + 1:
                state.memory[number] = 0
        state.values = {
            key: _settled(value, frozenset(name for name in value.names if name.shift is None))
            for key, value in state.values.items()
        }
        state.lds = {
            alloc: tuple((names, mask) for names, mask in parts if all(name.shift is None for name in names))
            for alloc, parts in state.lds.items()
        }
        state.number, state.at, state.left = state.number + 1, 0, NOTHING_KNOWN
        return results

    def _returned(self, state: State, branch: ir.Operation) -> None:
        for operand, wanted in zip(branch.operands, self.program.returned, strict=True):
            known = state.values.get(operand, Value())
            if wanted not in state.closure(known) and not known.spoilt:
                self.report(explain.wrong_result(self.program, branch, wanted, known))
        for number, effect in enumerate(self.program.effects):
            if state.memory[number] != "after":
                self._unfinished(effect.op, branch)

    def _unfinished(self, effect: ir.Operation, branch: ir.Operation) -> None:
        if not self.findings:  # else it may be one that has been reported, and so was not counted
            self.report(explain.unfinished(effect, branch))


def _next(state: State, operands: list[ir.Value]) -> int:
    """The iteration that a branch goes on with, by the first index among what it hands on."""
    shifts = (state.shift_of(state.values.get(operand, Value()).polynomial) for operand in operands)
    return next((one for one in shifts if one is not None), 0)


def _settled(value: Value, names: Names) -> Value:
    """A value after the loop: what only means something inside it is forgotten."""
    polynomial = value.polynomial
    if polynomial is not None and any(isinstance(one, str) for monomial in polynomial for one in monomial):
        polynomial = None
    clash = value.clash
    if value.names and not names and polynomial is None:
        clash = clash or (value.names, NOTHING)
    return Value(names, polynomial, True, None, clash, value.spoilt)


def _named(name: Name) -> Value:
    return Value(frozenset({name}))


def _refined(state: State, fact: Fact, *, taken: bool) -> State | None:
    """What is known beyond a branch; None: it is never taken."""
    left, (_, shift) = state.left, fact
    if taken:
        left = left._replace(least=max(left.least, shift + 1))
    else:
        left = left._replace(most=shift if left.most is None else min(left.most, shift))
    if left.most is not None and left.most < left.least:
        return None
    refined = state.copy()
    refined.left = left
    return refined


def _merged(parts: list[Part]) -> list[Part]:
    """Parts in the order of their elements, those with the same names together."""
    found: dict[Names, int] = {}
    for names, mask in parts:
        found[names] = found.get(names, 0) | mask
    return sorted(found.items(), key=lambda part: part[1] & -part[1])
