"""A schedule: when and how the stages of a loop run, as data apart from what they compute.

Text form, one statement a line or separated by `;`, `#` starts a comment:

```
schedule compv4 1                # name, version of this format
ahead    load 2, load.b 1        # iterations that a stage runs ahead of the loop index, all or for one LDS tensor
path     through, b straight     # of the operands: through registers to LDS, direct to LDS, straight to registers
buffers  2, v 3                  # LDS buffers of each tensor, and of some by name; they rotate
step     load, math, to_lds      # order inside the steady step, see `schedule_items`
order    interleave              # who finds the step's order: source | interleave | chunks | interwave | ping_pong
reads    1                       # phases (steps along K) that LDS reads run before their matrix instructions: 0 | 1
fences   memory                  # sched_barriers: none | memory (around every memory fragment) | clusters
mix      mfma 1, ds_read 2       # a round of sched_group_barriers, or hot_loop: computed from cycles
priority math 1                  # of the wave while a stage runs
groups   2                       # of waves, each a phase (from barrier to barrier of the step) behind the one before
unroll   2                       # steps of the steady loop, beyond what rotating buffers ask for
apart    k, v                    # what is read from these LDS tensors takes different registers
```

Statements that are left out have the values of `Schedule`'s defaults. docs/schedules.md explains each.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from ckmlir.dialect.schedule_items import MOST_AHEAD, RESERVED, Fragments, Item, parse_item
from ckmlir.errors import CkmlirError

VERSION = 1
ORDERS = ("source", "interleave", "chunks", "interwave", "ping_pong")
FENCES = ("none", "memory", "clusters")
PATHS = ("through", "direct", "straight")
MIX_KINDS = ("mfma", "ds_read", "ds_write", "vmem_read", "vmem_write", "valu", "salu", "transcendental", "ldsdma")
MOST_GROUPS = 4
"""Groups of waves: more would leave none of the four SIMDs of a compute unit a wave of each."""
HOT_LOOP = "hot_loop"
"""The mix that is computed from how long instructions take."""

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
            `interwave` also has waves meet before these; `ping_pong` has turns of both with barriers between.
        fences: where sched_barriers pin that order.
        path, paths: how operands get from memory to registers, all and some by the name of their LDS tensor.
        tensor_buffers: buffers of single tensors by name, sorted.
        reads: phases that LDS reads of an interleaved step run before the matrix instructions that use them.
        mix: (kind of instruction, count) pairs of one round of sched_group_barriers, or `(("hot_loop", 0),)`.
        priority: (stage, level) pairs, sorted.
        groups: groups of waves; each is a phase of the step, from barrier to barrier, behind the one before.
        unroll: the steady loop holds a multiple of so many steps.
        apart: LDS tensors, sorted; what is read of one takes other registers than what is read of another.
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
    mix: Pairs = ()
    priority: Pairs = ()
    groups: int = 1
    unroll: int = 1
    apart: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for statement, message in _problems(self):
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

    def path_of(self, tensor: str) -> str:
        """How a tensor gets from memory to registers, one of PATHS."""
        return dict(self.paths).get(tensor, self.path)

    @staticmethod
    @lru_cache(maxsize=1024)
    def parse(text: str) -> "Schedule":
        """Read the text form. ScheduleError names the line, the statement that is wrong and what would be right."""
        return _parse(text)

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


# -- what makes no sense, whatever the loop


def _problems(s: Schedule) -> Iterator[tuple[str, str]]:
    """(statement, what is wrong with it) pairs."""
    if not s.name.isidentifier():
        yield "schedule", f"its name is not an identifier: '{s.name}'"
    for statement, pairs, what in (
        ("ahead", s.ahead, "stages"), ("priority", s.priority, "stages"),
        ("buffers", s.tensor_buffers, "tensors"), ("path", s.paths, "tensors"),
    ):  # fmt: skip
        names = [name for name, _ in pairs]
        if names != sorted(set(names)):
            yield statement, f"{what} must be sorted and named once: {', '.join(names)}"
    if len(s.apart) == 1 or list(s.apart) != sorted(set(s.apart)):
        yield "apart", f"takes two or more tensors, sorted and named once: {', '.join(s.apart)}"
    for stage, iterations in s.ahead:
        if not all(word.isidentifier() for word in stage.split(".", 1)):
            yield "ahead", f"'{stage}' is neither STAGE nor STAGE.TENSOR"
        if not 0 <= iterations <= MOST_AHEAD:
            yield "ahead", f"stage '{stage}' runs {iterations} iterations ahead; 0 to {MOST_AHEAD} make sense"
    for buffers in (s.buffers, *(count for _, count in s.tensor_buffers)):
        if not 1 <= buffers <= 8:
            yield "buffers", f"{buffers} LDS buffers; 1 to 8 make sense"
    for field, choices in (("order", ORDERS), ("fences", FENCES), ("path", PATHS)):
        if getattr(s, field) not in choices:
            yield field, f"{field} '{getattr(s, field)}' is not one of {', '.join(choices)}"
    for tensor, path in s.paths:
        if path not in PATHS:
            yield "path", f"path '{path}' of '{tensor}' is not one of {', '.join(PATHS)}"
    for stage, level in s.priority:
        if not 1 <= level <= 3:
            yield "priority", f"priority {level} of stage '{stage}'; 1 to 3 make sense, 0 is that of all others"
    for field, most in (("reads", 1), ("groups", MOST_GROUPS), ("unroll", 8)):
        least = 0 if field == "reads" else 1
        if not least <= getattr(s, field) <= most:
            yield field, f"{field} {getattr(s, field)}; {least} to {most} make sense"
    yield from _step_problems(s)
    yield from _mix_problems(s)


def _step_problems(s: Schedule) -> Iterator[tuple[str, str]]:
    seen: set[str | tuple[str, int]] = set()
    for item in s.step:
        if not isinstance(item, Fragments):
            continue
        if item.stage in RESERVED or not item.stage.isidentifier():
            yield "step", f"a stage cannot be called '{item.stage}'"
        if item.ahead is not None and not 0 <= item.ahead <= MOST_AHEAD:
            yield "step", f"'{item}' runs {item.ahead} iterations ahead; 0 to {MOST_AHEAD} make sense"
        named: list[str | tuple[str, int]] = [item.stage]
        if item.first is not None and item.last is not None:
            named = [(item.stage, number) for number in range(item.first, item.last + 1)]
        for one in named:
            if one in seen:
                which = one if isinstance(one, str) else f"{one[0]}.{one[1]}"
                yield "step", f"a stage or fragment stands twice in the step: {which}"
            seen.add(one)
    if s.step and s.order != "source":
        yield "order", f"order '{s.order}' finds the step's order itself; leave 'step' out"


def _mix_problems(s: Schedule) -> Iterator[tuple[str, str]]:
    for kind, count in s.mix:
        if kind != HOT_LOOP and kind not in MIX_KINDS:
            yield "mix", f"'{kind}' is no kind of instruction; there are {', '.join(MIX_KINDS)}"
        if kind != HOT_LOOP and not 1 <= count <= 64:
            yield "mix", f"{count} instructions '{kind}'; 1 to 64 make sense"
    kinds = [kind for kind, _ in s.mix]
    if HOT_LOOP in kinds and len(kinds) > 1:
        yield "mix", f"'{HOT_LOOP}' stands alone"
    if kinds and HOT_LOOP not in kinds and "mfma" not in kinds:
        yield "mix", "a round holds at least one mfma; rounds repeat until the step's matrix instructions are used up"
    if s.mix and s.fences != "none":
        yield "mix", f"fences '{s.fences}' leave the backend nothing to mix; leave one of the two out"


# -- text: one row a statement


@dataclass(frozen=True, slots=True)
class _Field:
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
    "reads": _plain("reads", 1, _number),
    "fences": _plain("fences", "none"),
    "mix": _Field(_read_mix, lambda s: HOT_LOOP if (HOT_LOOP, 0) in s.mix else _words(s.mix)),
    "priority": _Field(
        lambda text: {"priority": _sorted_pairs(text, "STAGE LEVEL", _number)}, lambda s: _words(s.priority)
    ),
    "groups": _plain("groups", 1, _number),
    "unroll": _plain("unroll", 1, _number),
    "apart": _Field(lambda text: {"apart": tuple(sorted(_items(text)))}, lambda s: ", ".join(s.apart)),
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
