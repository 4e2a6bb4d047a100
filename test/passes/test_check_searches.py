"""Loops that decide each time whether to go on, inside loops that count, are proved wherever they stand, and refused
once broken.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from ckmlir.dialect.context import shared_context
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import Scalar, Window, i32, kernel, load, loop, ptr, store, view, when, while_loop
from ckmlir.mlir import ir
from ckmlir.passes.check_schedule import check_module
from ckmlir.passes.pipeline import PIPELINE, run_pipeline
from ckmlir.targets import get_target

SCHEDULED = PIPELINE[: [str(step.run) for step in PIPELINE].index("ck-lower-fragments")]
LIES = coalesced((1, 64), 1, 1, 1)


def row(pointer: Any, number: Any) -> Window:
    return view(pointer, (64, 64), (64, 1)).window((1, 64), (number, 0))


def search(given: Any, end: Any, start: Any = 0) -> Scalar:
    """The first place from `start` on whose entry is not below `end`."""
    with while_loop(lambda place: given.ends.scalar(place) < end, carry=[start]) as step:
        step.carry(step.carried[0] + 1)
    found: Scalar = step.results[0]
    return found


def alone(given: Any) -> None:
    with loop(0, given.n, 1) as step:
        store(load(row(given.x, search(given, step.index)), LIES), row(given.y, step.index))


def from_the_index(given: Any) -> None:
    with loop(3, given.n, 2) as step:
        store(load(row(given.x, search(given, step.index, step.index)), LIES), row(given.y, step.index))


def one_behind_the_other(given: Any) -> None:
    with loop(0, given.n, 1) as step:
        first = search(given, step.index)
        store(load(row(given.x, search(given, step.index + 1, first)), LIES), row(given.y, first))


def goes_on_where_it_was(given: Any) -> None:
    with loop(0, given.n, 1, carry=[0, load(row(given.x, 0), LIES)]) as step:
        place, total = step.carried
        place = search(given, step.index, place)
        step.carry(place, total + load(row(given.x, place), LIES))
    store(step.results[1], row(given.y, search(given, step.results[0])))


def before_a_loop(given: Any) -> None:
    nothing = load(row(given.x, 0), LIES)
    with loop(0, given.n, 1) as outer:
        place = search(given, outer.index)
        with loop(place, given.n, 1, carry=[nothing]) as inner:
            inner.carry(inner.carried[0] + load(row(given.x, inner.index), LIES))
        store(inner.results[0], row(given.y, place))


def in_two_loops(given: Any) -> None:
    with loop(0, given.n, 1, carry=[load(row(given.x, 0), LIES)]) as outer:
        with loop(0, given.n, 1, carry=[outer.carried[0]]) as inner:
            place = search(given, inner.index + outer.index)
            inner.carry(inner.carried[0] + load(row(given.x, place), LIES))
        outer.carry(inner.results[0])
    store(outer.results[0], row(given.y, 0))


def around_a_loop(given: Any) -> None:
    nothing = load(row(given.x, 0), LIES)
    with loop(0, given.n, 1) as outer:
        with while_loop(lambda place, total: given.ends.scalar(place) < outer.index, carry=[0, nothing]) as step:
            place, total = step.carried
            with loop(0, place, 1, carry=[total]) as inner:
                inner.carry(inner.carried[0] + load(row(given.x, inner.index), LIES))
            step.carry(place + 1, inner.results[0])
        store(step.results[1], row(given.y, outer.index))


def in_another(given: Any) -> None:
    with loop(0, given.n, 1) as outer:
        end = outer.index + 1
        with while_loop(lambda place: given.ends.scalar(place) < end, carry=[0]) as step:
            (place,) = step.carried
            store(load(row(given.x, search(given, place)), LIES), row(given.y, place))
            step.carry(place + 1)


def in_a_branch(given: Any) -> None:
    with loop(0, given.n, 1) as step, when(step.index > 2):
        store(load(row(given.x, search(given, step.index)), LIES), row(given.y, step.index))


FORMS: list[Callable[[Any], None]] = [
    alone, from_the_index, one_behind_the_other, goes_on_where_it_was, before_a_loop, in_two_loops, around_a_loop,
    in_another, in_a_branch,
]  # fmt: skip


@cache
def texts(form: Callable[[Any], None]) -> tuple[str, str]:
    """A kernel's fragments, and what the scheduling passes make of them."""
    names = {"x": ptr("f32"), "ends": ptr("i32"), "y": ptr("f32"), "n": i32}
    made = kernel(form.__name__, target=get_target("gfx942"), waves=1, arguments=names)(form)
    with made.module.context:
        run = run_pipeline(made.module, SCHEDULED, keep=("fragments", "scheduled"), dump_on_failure=False)
    return run.artifacts["fragments"], run.artifacts["scheduled"]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_searches_in_loops_are_proved(form: Callable[[Any], None]) -> None:
    with shared_context():
        before, after = map(ir.Module.parse, texts(form))
        assert [str(finding) for finding in check_module(after, before)] == []


BROKEN = {
    "goes on with an entry that is equal": (r"(llvm\.load [^\n]*\n[^\n]*arith\.cmpi )slt", r"\1sle"),
    "steps by two": (r"(\^bb4\([^\n]*\n[^\n]*arith\.constant )1 : i32", r"\g<1>2 : i32"),
    "ends where it goes on": (r"(cf\.cond_br %\w+, )(\^bb4\([^)]*\)), (\^bb5\([^)]*\))", r"\1\3, \2"),
    "its result is not taken": (r"(\"ck\.make_window\"\(%\w+, )%14(, %\w+\))", r"\g<1>%6\2"),
    "starts elsewhere": (r"(\^bb2\([^\n]*\n[^\n]*arith\.constant )0 : i32", r"\g<1>1 : i32"),
}


@pytest.mark.parametrize("change", BROKEN)
def test_broken_searches_are_refused(change: str) -> None:
    pattern, instead = BROKEN[change]
    before, after = texts(alone)
    broken, changes = re.subn(pattern, instead, after, count=1)
    assert changes == 1
    with shared_context():
        module = ir.Module.parse(broken)
        assert module.operation.verify()
        assert check_module(module, ir.Module.parse(before))
