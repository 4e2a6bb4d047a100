"""What is known at a point of the scheduled program.

The point is one of the unscheduled program too (`stack`, see `frames`): in some loops and parts of branches, and in
front of the loop that comes next, whose first iteration may have begun.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from ckmlir.mlir import ir
from ckmlir.passes.proof.contents import whole_of
from ckmlir.passes.proof.frames import Arm, Fact, Frame, Stack, opened
from ckmlir.passes.proof.polynomial import Polynomial, add, constant, multiply, substitute, symbol, symbols_of
from ckmlir.passes.proof.source_program import SourceProgram
from ckmlir.passes.proof.structure import FURTHEST, Item, Loop
from ckmlir.passes.proof.terms import NOTHING, Name, Names, Part, Table


class Value(NamedTuple):
    """What is known of a value.

    Attributes:
        names: all true; none: it is nothing that the unscheduled program computes, as far as is known.
        polynomial: for integers, over names and the indices of loops.
        inside: whether it was computed from indices of iterations that exist.
        fact: see `Fact`.
        clash: the names on two paths that meet here without one in common.
        spoilt: an operand of what computes it had no name: that has been reported.
    """

    names: Names = NOTHING
    polynomial: Polynomial | None = None
    inside: bool = True
    fact: Fact | None = None
    clash: tuple[Names, Names] | None = None
    spoilt: bool = False


Progress = Name | None
"""Of an effect: a name of memory, see `Effect.progress`; None: not the same on all paths."""


class State(Struct):
    """What is known at a point; the module's text says how it is to be read.

    `done` is how often loops and branches have run: in the iterations of the loop around before t + done.
    """

    program: SourceProgram
    stack: Stack = ()
    values: dict[ir.Value, Value] = field(default_factory=dict)
    lds: dict[ir.Operation, tuple[Part, ...]] = field(default_factory=dict)
    memory: dict[int, Progress] = field(default_factory=dict)
    done: dict[Item, int] = field(default_factory=dict)
    frames: tuple[Frame, ...] = ()
    """Of the stack."""

    def __post_init__(self) -> None:
        self.frames = tuple(one for one in self.stack if isinstance(one, Frame))

    @property
    def table(self) -> Table:
        """The unscheduled program's."""
        return self.program.table

    def copy(self) -> "State":
        """A state to change."""
        return State(
            self.program, self.stack, dict(self.values), dict(self.lds), dict(self.memory), dict(self.done)
        )  # fmt: skip

    def restack(self, *stack: Frame | Arm) -> None:
        """Stand elsewhere in the unscheduled program."""
        self.stack = stack
        self.frames = tuple(one for one in stack if isinstance(one, Frame))

    def reframe(self, depth: int, frame: Frame) -> None:
        """Know something else of the loop at a depth."""
        self.restack(*(frame if one is self.frames[depth - 1] else one for one in self.stack))

    # -- names

    def names_of(self, value: ir.Value) -> Names:
        """All names of a value: those known, and those that follow."""
        known = self.values.get(value, Value())
        return self.closure(known)

    def closure(self, known: Value) -> Names:
        """The names of a value and those that follow: as carried arguments, and as an index."""
        found = known.names
        for frame in self.frames:
            found = self._following(frame, known, found)
        return found

    def contents(self, tensor: ir.Operation) -> tuple[Part, ...]:
        """What an LDS tensor holds, by all names: those of its parts, and those that the whole has."""
        parts = [(self.closure(Value(names)), mask) for names, mask in self.lds[tensor]]
        whole = self.closure(Value(whole_of(self.table, tensor, parts)))
        return tuple((names | whole, mask) for names, mask in parts)

    def _following(self, frame: Frame, known: Value, found: Names) -> Names:
        more, loop = set(found), frame.loop
        index = frame.shift_of(known.polynomial)
        if index is None:
            index = frame.clamped(known.fact)
        if index is not None and loop.index is not None:
            more.add(Name(loop.index, index))
        waiting = list(more)
        while waiting:  # what a carried argument is may be handed on as another one
            news = set(_as_arguments(frame, waiting.pop())) - more
            more |= news
            waiting += news
        return frozenset(more)

    def exists(self, names: Names) -> bool:
        """Whether what has these names belongs to an iteration that exists for certain."""
        depths = self.table.depths
        return any(name.shift is None or name.shift < self.frames[depths[name.number] - 1].left.least for name in names)

    # -- moving on

    def moved(self, iterations: int, depth: int) -> "State":
        """The same, seen from so many iterations later of the loop at a depth; the loops in that one begin anew."""
        state = self.without(depth + 1)
        if iterations == 0:
            state.descend()
            return state
        frame, table = state.frames[depth - 1], self.table
        at = None if frame.at is None else frame.at + iterations
        new = replace(frame, at=at, left=frame.left.moved(iterations), part=0)
        state.restack(*state.stack[: state.stack.index(frame)], new)
        later = _later(frame, new, iterations, table)
        state.values = {key: _moved(value, iterations, depth, later, table) for key, value in state.values.items()}
        state.lds = {
            alloc: tuple((table.moved(names, iterations, depth), mask) for names, mask in parts)
            for alloc, parts in state.lds.items()
        }
        state.memory = {
            effect: progress and table.earlier(progress, iterations, depth) for effect, progress in state.memory.items()
        }
        counts = ((item, count - iterations * (item.home.depth == depth)) for item, count in state.done.items())
        state.done = {item: count for item, count in counts if count > 0}
        state.descend()
        return state

    def at_any(self, depth: int, arguments: Iterable[ir.Value]) -> "State":
        """The same in whichever iteration of the loop at a depth, given what its body takes: what follows holds in
        all of them.
        """
        state, frame = self.copy(), self.frames[depth - 1]
        general = replace(frame, at=None)
        state.restack(*self.stack[: self.stack.index(frame)], general, *self.stack[self.stack.index(frame) + 1 :])
        carried = {Name(number, 0) for number in frame.loop.arguments}
        for argument in arguments:
            known = self.values[argument]
            shift = frame.shift_of(known.polynomial)
            if shift is not None:
                state.values[argument] = known._replace(polynomial=general.index(shift))
            elif known.names & carried:
                state.values[argument] = known._replace(names=known.names & carried, polynomial=None)
        inner = state.without(depth + 1)
        inner.descend()
        return inner

    def without(self, depth: int) -> "State":
        """The same outside the loop at a depth: what only means something in it is forgotten."""
        state = self.copy()
        if len(self.frames) < depth:
            return state
        state.restack(*self.stack[: self.stack.index(self.frames[depth - 1])])
        table = self.table
        state.values = {
            key: settled(value, table.settled(value.names, depth), depth, table) for key, value in self.values.items()
        }
        state.hold({
            tensor: [(table.settled(names, depth), mask) for names, mask in parts] for tensor, parts in self.lds.items()
        })
        state.memory = {effect: self._progress_outside(effect, depth) for effect in self.memory}
        state.done = {item: count for item, count in self.done.items() if item.home.depth < depth}
        return state

    def hold(self, contents: Mapping[ir.Operation, Sequence[Part]]) -> None:
        """LDS tensors hold this, as far as it has names."""
        self.lds = {tensor: tuple(part for part in parts if part[0]) for tensor, parts in contents.items()}

    def _progress_outside(self, effect: int, depth: int) -> Progress:
        """How far an effect has got, seen from outside a loop that has not begun; None if it has."""
        progress = self.memory[effect]
        while progress is not None and self.table.depths[progress.number] >= depth:
            progress = self.outside(effect, progress)
        return progress

    def outside(self, effect: int, progress: Name) -> Progress:
        """The progress of an effect in a loop, seen from outside: none yet, as long as the loop has not begun."""
        depth = self.table.depths[progress.number]
        frame = self.frames[depth - 1] if depth else None
        if frame is None or frame.at is None or progress.shift != -frame.at:
            return None
        return self.program.effects[effect].progress(depth - 1, 0)

    def descend(self) -> None:
        """Stand in front of the next loop, and of the next one in that."""
        while True:
            region = self.stack[-1].region if self.stack else self.program.body
            items = (item for item in region.items if isinstance(item, Loop) and not self.done.get(item))
            loop = next(items, None)
            if loop is None:
                return
            for number, effect in enumerate(self.program.effects):
                if effect.home.is_in(loop) and self.memory[number] == effect.progress(loop.depth - 1, 0):
                    self.memory[number] = effect.progress(loop.depth, 0)
            self.restack(*self.stack, opened(loop, self.frames))

    # -- where paths meet

    def join(self, other: "State") -> "State | None":
        """What holds whichever of two paths led here; None: they led to different places of the unscheduled program."""
        stack = _joined_stack(self.stack, other.stack)
        if stack is None or self.done != other.done:
            return None
        joined = State(self.program, stack, done=dict(self.done))
        for key, value in self.values.items():
            if key in other.values:
                joined.values[key] = _join(self, value, other, other.values[key], joined)
        for alloc, parts in self.lds.items():
            if alloc in other.lds:
                joined.lds[alloc] = _common(parts, other.lds[alloc])
        for effect, progress in self.memory.items():
            joined.memory[effect] = progress if progress == other.memory.get(effect) else None
        return joined

    def same(self, other: "State") -> bool:
        """Whether two states know the same."""
        return (self.stack, self.values, self.lds, self.memory, self.done) == (
            other.stack, other.values, other.lds, other.memory, other.done,
        )  # fmt: skip


def _as_arguments(frame: Frame, name: Name) -> Iterator[Name]:
    """The carried arguments of a loop that a value is, up to so many iterations to come."""
    loop, at = frame.loop, frame.at
    for argument, shift in loop.arguments_handed(name):
        if shift <= FURTHEST:
            yield Name(argument, shift)
    if at is not None:
        yield from (Name(argument, -at) for argument in loop.starting_with(name))
    for argument in loop.always_handing(name):
        first = 1 if at is None else max(1 - at, 1 - FURTHEST)
        yield from (Name(argument, shift) for shift in range(first, FURTHEST + 1))


def _later(frame: Frame, new: Frame, iterations: int, table: Table) -> Callable[[Hashable], Polynomial | None]:
    """What the unknowns of polynomials are so many iterations later; None: what they were."""
    depth = frame.loop.depth

    def later(one: Hashable) -> Polynomial | None:
        if not isinstance(one, Name) or one.shift is None or table.depths[one.number] != depth:
            return None
        if one.number == frame.loop.index:
            return add(new.base, multiply(frame.stride, constant(one.shift - iterations)))
        return symbol(one._replace(shift=one.shift - iterations))

    return later


def _moved(
    value: Value, iterations: int, depth: int, later: Callable[[Hashable], Polynomial | None], table: Table
) -> Value:
    names = table.moved(value.names, iterations, depth)
    polynomial, fact = value.polynomial, value.fact
    if polynomial is not None and _deepest(polynomial, table) >= depth:
        polynomial = substitute(polynomial, later)
    if fact is not None:
        fact = Fact(fact.kind, substitute(fact.left, later), substitute(fact.right, later))
    return value._replace(names=names, polynomial=polynomial, fact=fact)


def settled(value: Value, names: Names, depth: int, table: Table) -> Value:
    """A value, outside the loop at a depth, by its names there: what only means something in the loop is forgotten."""
    polynomial = value.polynomial
    if polynomial is not None and _deepest(polynomial, table) >= depth:
        polynomial = None
    clash = value.clash
    if value.names and not names and polynomial is None:
        clash = clash or (value.names, NOTHING)
    return Value(names, polynomial, True, None, clash, value.spoilt)


def _deepest(polynomial: Polynomial, table: Table) -> int:
    """The depth of the innermost loop with which a polynomial changes."""
    found = (one for one in symbols_of(polynomial) if isinstance(one, Name) and one.shift is not None)
    return max((table.depths[one.number] for one in found), default=0)


def _joined_stack(left: Stack, right: Stack) -> Stack | None:
    if len(left) != len(right):
        return None
    stack: list[Frame | Arm] = []
    for mine, theirs in zip(left, right, strict=True):
        if isinstance(mine, Frame) and isinstance(theirs, Frame):
            if mine.loop != theirs.loop or mine.part != theirs.part:
                return None
            stack.append(_joined_frame(mine, theirs, stack))
        elif mine != theirs:
            return None
        else:
            stack.append(mine)
    return tuple(stack)


def _joined_frame(mine: Frame, theirs: Frame, around: Sequence[Frame | Arm]) -> Frame:
    at = mine.at if mine.at == theirs.at else None
    left, some = mine.left.join(theirs.left), mine.some and theirs.some
    bounds = [(one.lower, one.upper, one.stride) for one in (mine, theirs)]
    frame = mine if bounds[0] == bounds[1] else opened(mine.loop, [one for one in around if isinstance(one, Frame)])
    return replace(frame, at=at, left=left, some=some, part=mine.part)


def _join(one: State, left: Value, two: State, right: Value, joined: State) -> Value:
    if left == right:
        return left
    mine, theirs = one.closure(left), two.closure(right)
    if left.spoilt != right.spoilt:  # reported where it was computed; go on as if it had been right
        mine = theirs = theirs if left.spoilt else mine
    names = mine & theirs
    polynomial = left.polynomial if left.polynomial == right.polynomial else None
    for place, frame in enumerate(joined.frames):
        shift = one.frames[place].shift_of(left.polynomial) if polynomial is None else None
        if shift is not None and shift == two.frames[place].shift_of(right.polynomial):
            polynomial = frame.index(shift)
    clash = left.clash or right.clash
    if not names and clash is None and (mine or theirs):
        clash = mine, theirs
    return Value(
        names, polynomial, left.inside and right.inside, left.fact if left.fact == right.fact else None,
        None if names else clash, left.spoilt and right.spoilt,
    )  # fmt: skip


def _common(left: tuple[Part, ...], right: tuple[Part, ...]) -> tuple[Part, ...]:
    """The elements that were written alike on both paths."""
    if left == right:
        return left
    parts = []
    for names, mask in left:
        for also, other in right:
            same = names & also if names and also else names | also  # what has no name has been reported
            if mask & other and (same or not (names or also)):
                parts.append((same, mask & other))
    return tuple(parts)
