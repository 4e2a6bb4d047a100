"""What makes no sense in a schedule, whatever the loop. `Schedule` asks when it is made, so this comes before it."""

from collections.abc import Iterator
from typing import Any

from ckmlir.dialect.schedule_items import MOST_AHEAD, RESERVED, Fragments

Schedule = Any
"""`ckmlir.dialect.schedule.Schedule`, which imports this module."""
ORDERS = ("source", "interleave", "chunks", "interwave", "ping_pong", "weave")
FENCES = ("none", "memory", "clusters", "products")
WAITS = ("counted", "drain")
MOST_WAVES_OF_A_SIMD = 8
PATHS = ("through", "direct", "straight")
SLOTS = ("unrolled", "carried")
MIX_KINDS = ("mfma", "ds_read", "ds_write", "vmem_read", "vmem_write", "valu", "salu", "transcendental", "ldsdma")
MOST_GROUPS = 4
"""Groups of waves: more would leave none of the four SIMDs of a compute unit a wave of each."""
NUMBERS = {
    "reads": (0, 1), "groups": (1, MOST_GROUPS), "unroll": (1, 8), "occupancy": (0, MOST_WAVES_OF_A_SIMD),
    "last": (0, 16),
}  # fmt: skip
"""The least and the most of what a statement takes."""
MOST_BUFFERS = 8
HOT_LOOP = "hot_loop"
"""The mix that is computed from how long instructions take."""
ELEMENTS = (0, 1, 2, 4, 8, 16)
"""Registers of a lane that a piece of arithmetic may be; 0: as they lie."""
LEAD, MOST_LEAD, MOST_SPACING = 4, 32, 32
"""Matrix instructions that LDS reads of a woven step stand before those that use them: as a default, and at most."""


def problems(s: Schedule) -> Iterator[tuple[str, str]]:
    """(statement, what is wrong with it) pairs."""
    if not s.name.isidentifier():
        yield "schedule", f"its name is not an identifier: '{s.name}'"
    yield from _list_problems(s)
    yield from _stage_problems(s)
    yield from _word_problems(s)
    yield from _number_problems(s)
    yield from _last_problems(s)
    yield from _step_problems(s)
    yield from _order_problems(s)
    yield from _mix_problems(s)


def _list_problems(s: Schedule) -> Iterator[tuple[str, str]]:
    for statement, pairs, what in (
        ("ahead", s.ahead, "stages"), ("priority", s.priority, "stages"),
        ("buffers", s.tensor_buffers, "tensors"), ("path", s.paths, "tensors"),
    ):  # fmt: skip
        names = [name for name, _ in pairs]
        if names != sorted(set(names)):
            yield statement, f"{what} must be sorted and named once: {', '.join(names)}"
    if len(s.apart) == 1 or list(s.apart) != sorted(set(s.apart)):
        yield "apart", f"takes two or more tensors, sorted and named once: {', '.join(s.apart)}"


def _stage_problems(s: Schedule) -> Iterator[tuple[str, str]]:
    for stage, iterations in s.ahead:
        if not all(word.isidentifier() for word in stage.split(".", 1)):
            yield "ahead", f"'{stage}' is neither STAGE nor STAGE.TENSOR"
        if not 0 <= iterations <= MOST_AHEAD:
            yield "ahead", f"stage '{stage}' runs {iterations} iterations ahead; 0 to {MOST_AHEAD} make sense"
    for stage, level in s.priority:
        if not 1 <= level <= 3:
            yield "priority", f"priority {level} of stage '{stage}'; 1 to 3 make sense, 0 is that of all others"


def _word_problems(s: Schedule) -> Iterator[tuple[str, str]]:
    for field, choices in (
        ("order", ORDERS), ("fences", FENCES), ("path", PATHS), ("slots", SLOTS), ("waits", WAITS),
    ):  # fmt: skip
        if getattr(s, field) not in choices:
            yield field, f"{field} '{getattr(s, field)}' is not one of {', '.join(choices)}"
    for tensor, path in s.paths:
        if path not in PATHS:
            yield "path", f"path '{path}' of '{tensor}' is not one of {', '.join(PATHS)}"


def _number_problems(s: Schedule) -> Iterator[tuple[str, str]]:
    for buffers in (s.buffers, *(count for _, count in s.tensor_buffers)):
        if not 1 <= buffers <= MOST_BUFFERS:
            yield "buffers", f"{buffers} LDS buffers; 1 to {MOST_BUFFERS} make sense"
    if s.elements not in ELEMENTS:
        yield "elements", f"elements {s.elements}; {', '.join(map(str, ELEMENTS))} make sense"
    for field, (least, most) in NUMBERS.items():
        if not least <= getattr(s, field) <= most:
            yield field, f"{field} {getattr(s, field)}; {least} to {most} make sense"


def _last_problems(s: Schedule) -> Iterator[tuple[str, str]]:
    """Any step of the steady loop may come before the last one, so that no constant tells its slot."""
    if s.last and s.slots != "carried":
        yield "last", f"a last step that is apart takes its slots as numbers: slots carried, not '{s.slots}'"
    if s.last and s.groups > 1:
        yield "last", f"{s.groups} groups of waves do not come to the last step together; leave one of the two out"


def _step_problems(s: Schedule) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for item in s.step:
        if not isinstance(item, Fragments):
            continue
        if item.stage in RESERVED or not item.stage.isidentifier():
            yield "step", f"a stage cannot be called '{item.stage}'"
        if item.ahead is not None and not 0 <= item.ahead <= MOST_AHEAD:
            yield "step", f"'{item}' runs {item.ahead} iterations ahead; 0 to {MOST_AHEAD} make sense"
        for one in _fragments_of(item):
            if one in seen:
                yield "step", f"a stage or fragment stands twice in the step: {one}"
            seen.add(one)


def _fragments_of(item: Fragments) -> list[str]:
    """What an item of a step names: STAGE, or each STAGE.NUMBER."""
    if item.first is None or item.last is None:
        return [item.stage]
    return [f"{item.stage}.{number}" for number in range(item.first, item.last + 1)]


def _order_problems(s: Schedule) -> Iterator[tuple[str, str]]:
    if s.order == "weave":
        yield from _weave_problems(s)
    elif s.lead != LEAD and s.order != "interleave":
        yield "lead", f"order '{s.order}' has no lead; it is for orders 'weave' and 'interleave'"
    if s.spacing and s.order != "weave":
        yield "spacing", f"order '{s.order}' has no spacing; it is for order 'weave'"
    if s.step and s.order not in ("source", "weave"):
        yield "order", f"order '{s.order}' finds the step's order itself; leave 'step' out"


def _weave_problems(s: Schedule) -> Iterator[tuple[str, str]]:
    if not s.step:
        yield "order", "order 'weave' needs a step: each product, followed by the stages that lie under it"
    for item in s.step:
        if not isinstance(item, Fragments) or item.first is not None or item.ahead is not None:
            yield "step", f"order 'weave' places fragments itself; its step lists whole stages, not '{item}'"
    if not s.elements:
        yield "order", "order 'weave' takes arithmetic apart; say how many elements a piece has: elements 2"
    if not 1 <= s.lead <= MOST_LEAD:
        yield "lead", f"lead {s.lead}; 1 to {MOST_LEAD} make sense"
    if s.spacing > MOST_SPACING:
        yield "spacing", f"spacing {s.spacing}; 1 to {MOST_SPACING} make sense, and 0 for even distances"


def _mix_problems(s: Schedule) -> Iterator[tuple[str, str]]:
    for kind, count in s.mix:
        if kind != HOT_LOOP and kind not in MIX_KINDS:
            yield "mix", f"'{kind}' is not a kind of instruction; there are {', '.join(MIX_KINDS)}"
        if kind != HOT_LOOP and not 1 <= count <= 64:
            yield "mix", f"{count} instructions '{kind}'; 1 to 64 make sense"
    kinds = [kind for kind, _ in s.mix]
    if HOT_LOOP in kinds and len(kinds) > 1:
        yield "mix", f"'{HOT_LOOP}' stands alone"
    if kinds and HOT_LOOP not in kinds and "mfma" not in kinds:
        yield "mix", "a round holds at least one mfma; rounds repeat until the step's matrix instructions are used up"
    if s.mix and s.fences != "none":
        yield "mix", f"fences '{s.fences}' leave the backend nothing to mix; leave one of the two out"
