"""What an iteration leaves in LDS for the next one is proved, and refused once it is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from schedule_mutations import EXPECTED, MUTATIONS, Change, erase

from ckmlir.dialect.context import shared_context
from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import (
    Kernel,
    Window,
    atomic_add,
    coordinates,
    i32,
    kernel,
    load,
    loop,
    ptr,
    splat_like,
    store,
    to_lds,
    view,
    when,
    while_loop,
    zeros,
)
from ckmlir.mlir import ir
from ckmlir.passes.check_schedule import check_module
from ckmlir.passes.pipeline import PIPELINE, run_pipeline
from ckmlir.passes.walk import functions, operations
from ckmlir.targets import get_target

SCHEDULED = PIPELINE[: [str(step.run) for step in PIPELINE].index("ck-lower-fragments")]
LIES = Distribution.parse("d0: 4@wave 64@lane")


def window(pointer: Any, begin: Any, count: Any) -> Window:
    return view(pointer, (count,), (1,)).pad(256).window((256,), (begin,))


def counts(x: Any, y: Any, n: Any) -> None:
    """Of every other 256 entries how many there are of each number, in a branch."""
    held = to_lds(zeros((256,), "i32", LIES))
    with loop(0, n, 256) as step:
        numbers = load(window(x, step.index, n), LIES)
        with when(step.index % 512 == 0):
            held.scatter_add(splat_like(numbers, 1, "i32"), numbers)
    store(held.read(LIES), window(y, 0, 256))


def turned(x: Any, y: Any, n: Any) -> None:
    """Entries with those of the iteration before, back to front, in a loop in a loop."""
    kept = to_lds(zeros((256,), "i32", LIES))
    with loop(0, 3, 1), loop(0, n, 256) as step:
        numbers = load(window(x, step.index, n), LIES)
        before = kept.gather(255 - coordinates(numbers, 0))
        kept.scatter(numbers, coordinates(numbers, 0))
        atomic_add(numbers + before, window(y, step.index, n))


def places(x: Any, y: Any, n: Any) -> None:
    """How many of its kind come before each entry, in a loop that decides each time."""
    held = to_lds(zeros((256,), "i32", LIES))
    with while_loop(lambda i: i < n, carry=[n * 0]) as turn:
        (first,) = turn.carried
        numbers = load(window(x, first, n), LIES)
        store(held.fetch_add(splat_like(numbers, 1, "i32"), numbers), window(y, first, n))
        turn.carry(first + 256)


KERNELS: dict[str, Callable[..., None]] = {one.__name__: one for one in (counts, turned, places)}


@cache
def texts(name: str) -> tuple[str, str]:
    """A kernel's fragments, and what the scheduling passes make of them."""

    @kernel(name, target=get_target("gfx942"), waves=4, arguments={"x": ptr("i32"), "y": ptr("i32"), "n": i32})
    def traced(x: Any, y: Any, n: Any) -> None:
        KERNELS[name](x, y, n)

    made: Kernel = traced
    with made.module.context:
        run = run_pipeline(made.module, SCHEDULED, keep=("fragments", "scheduled"), dump_on_failure=False)
    return run.artifacts["fragments"], run.artifacts["scheduled"]


def inside(module: ir.Module) -> list[ir.Operation]:
    return list(operations(next(functions(module))))


def update_removed(ops: list[ir.Operation]) -> Iterator[Change]:
    named = list(erase("ck.lds_update_fragment")(ops))
    updates = [op for op in ops if op.name == "ck.lds_update_fragment"]
    yield from (change for change, op in zip(named, updates, strict=True) if not len(op.results))


def read_later(ops: list[ir.Operation]) -> Iterator[Change]:
    """Reads at indices behind the update that follows them."""
    for number, op in enumerate(ops):
        after = next((place for place in range(number, len(ops)) if ops[place].name == "ck.lds_update_fragment"), None)
        if op.name == "ck.lds_gather_fragment" and after is not None and ops[after].block == op.block:

            def change(copy: list[ir.Operation], number: int = number, after: int = after) -> None:
                copy[number].move_after(copy[after])

            yield change


BROKEN = {**MUTATIONS, "update removed": update_removed, "read later": read_later}


@pytest.mark.parametrize("name", KERNELS)
def test_what_iterations_leave_is_proved(name: str) -> None:
    with shared_context():
        before, after = map(ir.Module.parse, texts(name))
        assert [str(finding) for finding in check_module(after, before)] == []


CASES = [("counts", "update removed"), ("turned", "read later"), ("turned", "update removed")]
CASES += [(name, "barrier removed") for name in KERNELS]
CASES += [("counts", "write to LDS removed"), ("turned", "loop runs once more"), ("places", "wait removed")]


@pytest.mark.parametrize(("name", "mutation"), CASES)
def test_broken_kernels_are_refused(name: str, mutation: str) -> None:
    with shared_context():
        before, after = map(ir.Module.parse, texts(name))
        changes = list(BROKEN[mutation](inside(after)))
        assert changes
        for change in changes:
            broken = ir.Module.parse(texts(name)[1])
            change(inside(broken))
            assert broken.operation.verify()
            found = {finding.check for finding in check_module(broken, before)}
            assert found, "a broken kernel was accepted"
            assert EXPECTED.get(mutation, found) & found
