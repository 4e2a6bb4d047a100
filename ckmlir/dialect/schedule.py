"""A schedule: when and how the stages of a loop run, as data apart from what they compute.

Text form, one statement a line or separated by `;`, `#` starts a comment:

```
schedule compv4 1                # name, version of this format
ahead    load 2, load.b 1        # iterations that a stage runs ahead of the loop index, all or for one LDS tensor
path     through, b straight     # of the operands: through registers to LDS, direct to LDS, straight to registers
buffers  2, v 3                  # LDS buffers of each tensor, and of some by name; they rotate
step     load, math, to_lds      # order inside the steady step, see `schedule_items`
order    interleave              # who finds the order: source | interleave | chunks | interwave | ping_pong | weave
lead     4                       # of a woven step: matrix instructions that LDS reads stand before their users
spacing  3                       # of a woven step: matrix instructions between the loads of a stage
reads    1                       # phases (steps along K) that LDS reads run before their matrix instructions: 0 | 1
fences   memory                  # sched_barriers: none | memory (around every memory fragment) | clusters | products
elements 2                       # of a piece of arithmetic; pieces are fragments where a stage has no others
mix      mfma 1, ds_read 2       # a round of sched_group_barriers, or hot_loop: computed from cycles
priority math 1                  # of the wave while a stage runs
groups   2                       # of waves, each a phase (from barrier to barrier of the step) behind the one before
unroll   2                       # steps of the steady loop, beyond what rotating buffers ask for
slots    carried                 # which of its LDS buffers a step takes: unrolled (constants) | carried (handed on)
last     4                       # parts of the last step, each followed by what becomes of its results; 0: as others
apart    k, v                    # what is read from these LDS tensors takes different registers
waits    drain                   # for copies to LDS: counted (younger ones stay in flight) | drain (for all)
occupancy 2                      # waves a SIMD for which registers are left
```

Statements that are left out have the values of `Schedule`'s defaults. docs/schedules.md explains each.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from msgspec import Struct

from ckmlir.dialect.schedule_items import Fragments, Item, parse_item
from ckmlir.dialect.schedule_problems import HOT_LOOP, LEAD, problems
from ckmlir.errors import CkmlirError

VERSION = 1
Pairs = tuple[tuple[str, int], ...]
T = TypeVar("T")


class ScheduleError(CkmlirError, ValueError):
    """A schedule that makes no sense, or text that is none; `statement` is what is wrong with it."""

    def __init__(self, message: str, statement: str = "schedule") -> None:
        super().__init__(message)
        self.statement = statement


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a loop of stages is pipelined.

    Attributes:
        name: for people and reports.
        ahead: (stage, iterations) pairs, sorted; a stage that is not named runs with the loop index. `stage.tensor` is
            what the stage does for one LDS tensor: its accesses, and the loads that feed its writes.
        buffers: rotating LDS buffers of every tensor that the loop writes.
        step: fragments in their order inside the steady step, with what stands between them; what is not named comes
            where the program has it.
        order: `source` keeps the program's order inside a step; `interleave` spreads memory fragments between the
            matrix instructions; `chunks` lets the reads of each phase stand before its matrix instructions;
            `interwave` also has waves meet before these; `ping_pong` has turns of both with barriers between; `weave`
            spreads the stages that follow a product in `step`, arithmetic too, between its matrix instructions.
        fences: where sched_barriers pin that order.
        path, paths: how operands get from memory to registers, all and some by the name of their LDS tensor.
        tensor_buffers: buffers of single tensors by name, sorted.
        lead: matrix instructions that LDS reads of a woven step stand before the first that uses them.
        spacing: matrix instructions from one load or copy of a woven stage to the next; 0: all those over the stage,
            shared out evenly.
        elements: registers of a lane that a piece of arithmetic is, 0: as they lie. Pieces have numbers and places as
            memory accesses have, in stages that have none of these and no matrix instructions.
        reads: phases that LDS reads of an interleaved step run before the matrix instructions that use them.
        mix: (kind of instruction, count) pairs of one round of sched_group_barriers, or `(("hot_loop", 0),)`.
        priority: (stage, level) pairs, sorted.
        groups: groups of waves; each is a phase of the step, from barrier to barrier, behind the one before.
        unroll: the steady loop holds a multiple of so many steps.
        slots: how an iteration finds its LDS buffers: `unrolled`: they are constants, as the steady loop holds as many
            steps; `carried`: the loop hands them on, and need not hold more than one.
        last: parts of the last step, which then is not one of the loop's: what follows the loop, up to the first
            access to LDS or branch, stands behind the part whose results it takes. 0: it is a step like others.
        apart: LDS tensors, sorted; what is read of one takes other registers than what is read of another.
        waits: for copies to LDS; `counted` leaves in flight those that were issued later, and so takes it that copies
            land in the order of their issue; `drain` leaves none.
        occupancy: waves that a SIMD shall have registers for; 0: as many as the kernel's own leave room for.
    """

    name: str
    ahead: Pairs = ()
    buffers: int = 1
    step: tuple[Item, ...] = ()
    order: str = "source"
    fences: str = "none"
    path: str = "through"
    paths: tuple[tuple[str, str], ...] = ()
    tensor_buffers: Pairs = ()
    reads: int = 1
    lead: int = LEAD
    spacing: int = 0
    elements: int = 0
    mix: Pairs = ()
    priority: Pairs = ()
    groups: int = 1
    unroll: int = 1
    slots: str = "unrolled"
    last: int = 0
    apart: tuple[str, ...] = ()
    waits: str = "counted"
    occupancy: int = 0

    def __post_init__(self) -> None:
        for statement, message in problems(self):
            raise ScheduleError(f"schedule '{self.name}': {message}", statement)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that the schedule speaks of."""
        stepped = [item.stage for item in self.step if isinstance(item, Fragments)]
        named = [name.partition(".")[0] for name, _ in (*self.ahead, *self.priority)]
        return tuple(dict.fromkeys((*named, *stepped)))

    @property
    def tensors(self) -> tuple[str, ...]:
        """The LDS tensors that the schedule names."""
        ahead = (name.partition(".")[2] for name, _ in self.ahead)
        others = (name for name, _ in (*self.tensor_buffers, *self.paths))
        return tuple(dict.fromkeys((*filter(None, ahead), *others, *self.apart)))

    def ahead_of(self, stage: str, tensor: str = "") -> int:
        """Iterations that a stage runs ahead, or what it does for an LDS tensor."""
        named = dict(self.ahead)
        return named.get(f"{stage}.{tensor}", named.get(stage, 0))

    def buffers_of(self, tensor: str) -> int:
        """Rotating LDS buffers of a tensor."""
        return dict(self.tensor_buffers).get(tensor, self.buffers)

    def turn_of(self, tensor: str) -> int:
        """Steps of the steady loop that a tensor's buffers need."""
        return self.buffers_of(tensor) if self.slots == "unrolled" else 1

    def path_of(self, tensor: str) -> str:
        """How a tensor gets from memory to registers, one of PATHS."""
        return dict(self.paths).get(tensor, self.path)

    @staticmethod
    @lru_cache(maxsize=1024)
    def parse(text: str) -> "Schedule":
        """Read the text form. ScheduleError names the line, the statement that is wrong and what would be right."""
        return _parse(text)

    def changed(self, statements: str) -> "Schedule":
        """With other statements in place of its own, as text; its name says so. ScheduleError as `parse`."""
        given = {one.split(None, 1)[0] for one in statements.split(";") if one.strip()}
        _, *own = self._statements()
        kept = [one for one in own if one.split(None, 1)[0] not in given]
        return Schedule.parse("; ".join([f"schedule {self.name}_changed {VERSION}", *kept, statements]))

    def __str__(self) -> str:
        return "; ".join(self._statements())

    @property
    def pretty(self) -> str:
        """The text form with one statement a line, as for a file."""
        return "".join(f"{word:<8} {rest}\n" for word, _, rest in (line.partition(" ") for line in self._statements()))

    def _statements(self) -> Iterator[str]:
        yield f"schedule {self.name} {VERSION}"
        for statement, field in _FIELDS.items():
            text = field.write(self)
            if text:
                yield f"{statement} {text}"


# -- text: one row a statement


class _Field(Struct, frozen=True):
    """How a statement is read (into constructor arguments) and written (empty: the default, left out)."""

    read: Callable[[str], dict[str, Any]]
    write: Callable[[Schedule], str]


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"takes a number, not '{text}'")
    return int(text)


def _items(text: str) -> list[str]:
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise ValueError("has nothing between two commas, or before or after one")
    return items


def _pairs(text: str, form: str, read: Callable[[str], T]) -> tuple[tuple[str, T], ...]:
    """`NAME VALUE, NAME VALUE, …`."""
    found = []
    for item in _items(text):
        words = item.split()
        if len(words) != 2:
            raise ValueError(f"takes '{form}, …', not '{item}'")
        found.append((words[0], read(words[1])))
    return tuple(found)


def _sorted_pairs(text: str, form: str, read: Callable[[str], T]) -> tuple[tuple[str, T], ...]:
    return tuple(sorted(_pairs(text, form, read), key=lambda pair: pair[0]))


def _all_and_some(name: str, some: str, form: str, read: Callable[[str], Any]) -> Callable[[str], dict[str, Any]]:
    """`VALUE, NAME VALUE, …`: of all, and of some by name; either may be left out."""

    def parse(text: str) -> dict[str, Any]:
        first, *others = _items(text)
        found = {}
        if len(first.split()) == 1:
            found[name] = read(first)
        else:
            others.insert(0, first)
        if others:
            found[some] = _sorted_pairs(", ".join(others), form, read)
        return found

    return parse


def _words(pairs: tuple[tuple[str, object], ...]) -> str:
    return ", ".join(f"{name} {value}" for name, value in pairs)


def _write_all_and_some(name: str, some: str, default: object) -> Callable[[Schedule], str]:
    def write(schedule: Schedule) -> str:
        value, pairs = getattr(schedule, name), _words(getattr(schedule, some))
        return ", ".join(part for part in ("" if value == default else str(value), pairs) if part)

    return write


def _plain(name: str, default: object, read: Callable[[str], Any] = str) -> _Field:
    """A statement with one value."""

    def write(schedule: Schedule) -> str:
        value = getattr(schedule, name)
        return "" if value == default else str(value)

    return _Field(lambda text: {name: read(text)}, write)


def _read_mix(text: str) -> dict[str, Any]:
    return {"mix": ((HOT_LOOP, 0),) if text == HOT_LOOP else _pairs(text, "KIND COUNT", _number)}


_FIELDS: dict[str, _Field] = {
    "ahead": _Field(
        lambda text: {"ahead": _sorted_pairs(text, "STAGE ITERATIONS", _number)}, lambda s: _words(s.ahead)
    ),
    "path": _Field(_all_and_some("path", "paths", "TENSOR PATH", str), _write_all_and_some("path", "paths", "through")),
    "buffers": _Field(
        _all_and_some("buffers", "tensor_buffers", "TENSOR NUMBER", _number),
        _write_all_and_some("buffers", "tensor_buffers", 1),
    ),
    "step": _Field(
        lambda text: {"step": tuple(parse_item(item) for item in _items(text))}, lambda s: ", ".join(map(str, s.step))
    ),
    "order": _plain("order", "source"),
    "lead": _plain("lead", LEAD, _number),
    "spacing": _plain("spacing", 0, _number),
    "elements": _plain("elements", 0, _number),
    "reads": _plain("reads", 1, _number),
    "fences": _plain("fences", "none"),
    "mix": _Field(_read_mix, lambda s: HOT_LOOP if (HOT_LOOP, 0) in s.mix else _words(s.mix)),
    "priority": _Field(
        lambda text: {"priority": _sorted_pairs(text, "STAGE LEVEL", _number)}, lambda s: _words(s.priority)
    ),
    "groups": _plain("groups", 1, _number),
    "unroll": _plain("unroll", 1, _number),
    "slots": _plain("slots", "unrolled"),
    "last": _plain("last", 0, _number),
    "apart": _Field(lambda text: {"apart": tuple(sorted(_items(text)))}, lambda s: ", ".join(s.apart)),
    "waits": _plain("waits", "counted"),
    "occupancy": _plain("occupancy", 0, _number),
}
STATEMENTS = ("schedule", *_FIELDS)


def _parse(text: str) -> Schedule:
    lines: dict[str, int] = {}
    found: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        for statement in line.partition("#")[0].split(";"):
            words = statement.split(None, 1)
            if words:
                _check_statement(words, number, lines)
                lines[words[0]] = number
                found.update(_read_statement(words[0], words[1].strip(), number))
    if not lines:
        raise ScheduleError(f"schedule, line 1: a schedule begins with 'schedule NAME {VERSION}'; the text is empty")
    try:
        return Schedule(**found)
    except ScheduleError as problem:
        line_number = lines.get(problem.statement, next(iter(lines.values())))
        raise ScheduleError(f"line {line_number} of {problem}", problem.statement) from None


def _check_statement(words: list[str], number: int, lines: dict[str, int]) -> None:
    """A known statement with a value, given once; the first is `schedule`."""
    place = f"schedule, line {number}:"
    if words[0] not in STATEMENTS:
        raise ScheduleError(f"{place} unknown statement '{words[0]}'; there are {', '.join(STATEMENTS)}", words[0])
    if words[0] in lines:
        raise ScheduleError(f"{place} '{words[0]}' is given twice, first in line {lines[words[0]]}", words[0])
    if not lines and words[0] != "schedule":
        raise ScheduleError(f"{place} a schedule begins with 'schedule NAME {VERSION}', not '{words[0]}'")
    if len(words) == 1:
        raise ScheduleError(f"{place} '{words[0]}' needs a value", words[0])


def _read_statement(word: str, text: str, number: int) -> dict[str, Any]:
    place = f"schedule, line {number}:"
    if word == "schedule":
        head = text.split()
        if len(head) != 2 or head[1] != str(VERSION):
            which = "this format has one version" if len(head) == 2 else "a name and a version, without spaces"
            raise ScheduleError(
                f"{place} a schedule begins with 'schedule NAME {VERSION}', not 'schedule {text}' ({which})"
            )
        return {"name": head[0]}
    try:
        return _FIELDS[word].read(text)
    except ValueError as problem:
        raise ScheduleError(f"{place} {word} {problem}", word) from None


UNPIPELINED = Schedule("unpipelined")
"""Stages one after another, one LDS buffer."""
