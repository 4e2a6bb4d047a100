"""Branches, loops with a condition and early exits while tracing: what they become, and what is refused."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.loop import empty_stages_of, schedule_of
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Kernel,
    Scalar,
    TracingError,
    exit_unless,
    f32,
    i32,
    kernel,
    loop,
    ptr,
    reduce,
    stage,
    store,
    uniform,
    view,
    when,
    while_loop,
    zeros,
)
from ckmlir.mlir import ir
from ckmlir.targets import get_target

LANES = Distribution.parse("d0: 64@lane")
TWO = Distribution.parse("d0: 64@lane 2@y0")


def trace(body: Callable[..., None]) -> Kernel:
    """A kernel of one wave whose body gets an i32, an f32 and a pointer."""

    @kernel("traced", target=get_target("gfx942"), waves=1, arguments={"n": i32, "x": f32, "p": ptr("f32")})
    def traced(given: Any) -> None:
        body(given.n, given.x, given.p)

    with traced.module.context:
        assert traced.module.operation.verify()
    return traced


def blocks_of(traced: Kernel) -> list[ir.Operation]:
    function = traced.module.body.operations[0].operation.regions[0].blocks[0].operations[0].operation
    return [op.operation for op in function.regions[0].blocks[0]]


# -- what they become


def test_an_early_exit_is_a_branch_that_holds_the_rest() -> None:
    def body(n: Any, x: Any, p: Any) -> None:
        exit_unless(n > 0)
        window = view(p, (64,), (1,)).window((64,), (0,))
        exit_unless(n < 9)
        with loop(0, n, 1), stage("out"):
            store(zeros((64,), "f32", LANES), window)

    traced = trace(body)
    *_, first, end = blocks_of(traced)
    assert [first.name, end.name] == ["scf.if", "func.return"]
    *_, second, last = (op.operation for op in first.regions[0].blocks[0])
    assert [second.name, last.name] == ["scf.if", "scf.yield"]
    assert [op.name for op in second.regions[0].blocks[0]][-2:] == ["scf.for", "scf.yield"]


def test_what_a_branch_gives_has_the_types_of_its_arms() -> None:
    def body(n: Any, x: Any, p: Any) -> None:
        with when(n > 0) as some:
            some.give(x, p.offset(4), zeros((64,), "f32", LANES))
        with some.otherwise():
            some.give(1, p.offset(1), zeros((64,), "f32", LANES) + 1.0)
        scalar, pointer, tile = some.results
        assert str(scalar.type) == "f32"
        assert pointer.alignment == 4
        assert tile.lengths == (64,)

    assert [op.name for op in blocks_of(trace(body))][-2:] == ["scf.if", "func.return"]


def test_a_branch_in_a_stage_belongs_to_it() -> None:
    def body(n: Any, x: Any, p: Any) -> None:
        with loop(0, n, 1) as step, stage("out"), when(step.index > 1):
            store(zeros((64,), "f32", LANES), view(p, (64,), (1,)).window((64,), (0,)))

    traced = trace(body)
    *_, branch, _ = (op.operation for op in blocks_of(traced)[-2].regions[0].blocks[0])
    assert branch.name == "scf.if" and str(branch.attributes["ck.stage"]) == '"out"'


def test_stages_without_operations_are_kept_for_schedules() -> None:
    def body(n: Any, x: Any, p: Any) -> None:
        with loop(0, n, 1, schedule=Schedule.parse("schedule s 1; ahead prepare 1; step prepare, out")) as step:
            for _ in range(2):
                with stage("prepare"):
                    pass
            with stage("out"):
                step.index + 1

    traced = trace(body)
    (found,) = [op for op in blocks_of(traced) if op.name == "scf.for"]
    assert empty_stages_of(found) == ("prepare",) and schedule_of(found).stages == ("prepare", "out")


def test_operations_know_the_line_of_their_condition() -> None:
    def body(n: Any, x: Any, p: Any) -> None:
        with when(n > 0, otherwise=[n]) as some:
            some.give(n + 1)

    traced = trace(body)
    branch = blocks_of(traced)[-2]
    line = inspect.getsourcelines(body)[1] + 1
    assert f"test_control_tracing.py:{line}" in str(branch.location).replace('"', "")


def test_a_loop_hands_on_a_pointer_that_is_as_aligned() -> None:
    def body(n: Any, x: Any, p: Any) -> None:
        with while_loop(lambda at, odd, k: k < 3, carry=[p, p.aligned(4), n]) as step:
            at, odd, k = step.carried
            assert (at.alignment, odd.alignment) == (16, 4)
            step.carry(at.offset(4), odd.offset(1), k + 1)
        assert [one.alignment for one in step.results[:2]] == [16, 4]

    trace(body)


# -- what is refused


def gives_once(n: Any, x: Any, p: Any) -> None:
    with when(n > 0) as some:
        some.give(n)
    discard(some.results)


def gives_nothing(n: Any, x: Any, p: Any) -> None:
    with when(n > 0) as some:
        pass
    discard(some.results)


def gives_twice(n: Any, x: Any, p: Any) -> None:
    with when(n > 0) as some:
        some.give(n)
        some.give(n)


def gives_outside(n: Any, x: Any, p: Any) -> None:
    with when(n > 0) as some:
        some.give(n)
    some.give(n)


def gives_more(n: Any, x: Any, p: Any) -> None:
    with when(n > 0) as some:
        some.give(n)
    with some.otherwise():
        some.give(n, x)


def gives_in_one_arm(n: Any, x: Any, p: Any) -> None:
    with when(n > 0) as some:
        pass
    with some.otherwise():
        some.give(n)


def gives_less_than_default(n: Any, x: Any, p: Any) -> None:
    with when(n > 0, otherwise=[n, x]) as some:
        some.give(n)


def forgets_the_default(n: Any, x: Any, p: Any) -> None:
    with when(n > 0, otherwise=[n]):
        pass


def gives_another_type(n: Any, x: Any, p: Any) -> None:
    with when(n > 0) as some:
        some.give(n, n)
    with some.otherwise():
        some.give(n, x)


def gives_another_distribution(n: Any, x: Any, p: Any) -> None:
    with when(n > 0, otherwise=[zeros((128,), "f32", TWO)]) as some:
        some.give(zeros((128,), "f32", Distribution.parse("d0: 2@y0 64@lane")))


def gives_another_element(n: Any, x: Any, p: Any) -> None:
    with when(n > 0, otherwise=[zeros((128,), "f32", TWO)]) as some:
        some.give(zeros((128,), "f16", TWO))


def gives_a_window(n: Any, x: Any, p: Any) -> None:
    with when(n > 0) as some:
        some.give(view(p, (64,), (1,)).window((64,), (0,)))


def otherwise_twice(n: Any, x: Any, p: Any) -> None:
    with when(n > 0) as some:
        pass
    with some.otherwise():
        pass
    with some.otherwise():
        pass


def otherwise_with_default(n: Any, x: Any, p: Any) -> None:
    with when(n > 0, otherwise=[n]) as some:
        some.give(n + 1)
    with some.otherwise():
        pass


def otherwise_first(n: Any, x: Any, p: Any) -> None:
    with when(n > 0).otherwise():
        pass


def entered_twice(n: Any, x: Any, p: Any) -> None:
    some = when(n > 0)
    with some:
        pass
    with some:
        pass


def exit_in_loop(n: Any, x: Any, p: Any) -> None:
    with loop(0, n, 1) as step:
        exit_unless(step.index > 0)


def exit_in_branch(n: Any, x: Any, p: Any) -> None:
    with when(n > 0):
        exit_unless(n < 3)


def stage_in_branch(n: Any, x: Any, p: Any) -> None:
    with loop(0, n, 1), when(n > 0), stage("load"):
        pass


def in_a_combiner(n: Any, x: Any, p: Any) -> None:
    def combine(left: list[Scalar], right: list[Scalar]) -> list[Scalar]:
        with when(left[0] > right[0], otherwise=right) as larger:
            larger.give(*left)
        return larger.results

    reduce([zeros((4, 64), "f32")], 0, combine)


def while_number(n: Any, x: Any, p: Any) -> None:
    with while_loop(lambda k: k, carry=[n]):
        pass


def while_other_type(n: Any, x: Any, p: Any) -> None:
    with while_loop(lambda k: k < 3, carry=[n]) as step:
        step.carry(x)


def while_less_aligned(n: Any, x: Any, p: Any) -> None:
    with while_loop(lambda at, k: k < 3, carry=[p, n]) as step:
        at, k = step.carried
        step.carry(at.offset(1), k + 1)


def discard(value: Any) -> None:
    """What a body computes is of no use but for having been traced."""


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (gives_once, TracingError, "this when gives values where its condition holds, and none otherwise"),
        (gives_nothing, TracingError, "this when gives no values"),
        (gives_twice, TracingError, "this arm has given its values already"),
        (gives_outside, TracingError, "give stands inside an arm of the when that it belongs to"),
        (gives_more, TracingError, "the other arm gives 1 value, 2 are handed on"),
        (gives_in_one_arm, TracingError, "the other arm gives 0 values, 1 is handed on"),
        (gives_less_than_default, TracingError, "otherwise this when gives 2 values, 1 is handed on"),
        (forgets_the_default, TracingError, "otherwise this when gives 1 value, 0 are handed on"),
        (gives_another_type, TypeError, "the other arm gives i32 as value 2, f32 is handed on; convert it with .to(…)"),
        (gives_another_distribution, TypeError, "redistribute one of them"),
        (gives_another_element, TypeError, "cast one of them"),
        (gives_a_window, TypeError, "scalars, pointers and tiles are handed on, not a window"),
        (otherwise_twice, TracingError, "this when says already what holds otherwise"),
        (otherwise_with_default, TracingError, "this when says already what holds otherwise"),
        (otherwise_first, TracingError, "otherwise follows the arm of its when"),
        (entered_twice, TracingError, "a when is entered once; its other arm is `with ….otherwise():`"),
        (exit_in_loop, TracingError, "exit_unless leaves the kernel, so it stands outside loops and `when`"),
        (exit_in_branch, TracingError, "exit_unless leaves the kernel, so it stands outside loops and `when`"),
        (stage_in_branch, TracingError, "stage 'load' stands inside a `when`, but stages are the parts of a loop's"),
        (in_a_combiner, TracingError, "when stands in a function of single elements, which all take one way"),
        (while_number, TypeError, "while_loop takes a condition, such as a < b; it is given a scalar of i32"),
        (while_other_type, TypeError, "the loop carries i32, f32 is handed on"),
        (while_less_aligned, TracingError, "start with .aligned(4), or promise .aligned(16)"),
        (lambda n, x, p: while_loop(lambda: n < 3, carry=[]), TracingError, "a condition that nothing changes"),
        (lambda n, x, p: when(n), TypeError, "when takes a condition, such as a < b; it is given a scalar of i32"),
        (lambda n, x, p: when(True), TypeError, "when decides at run time; True is known now: use Python's if"),
        (lambda n, x, p: exit_unless(None), TypeError, "exit_unless takes a condition, such as a < b; it is given"),
        (lambda n, x, p: when(zeros((64,), "f32", LANES) > 0), TypeError, "a tile has a condition for every element"),
        (lambda n, x, p: uniform(zeros((64,), "f32")), ValueError, "uniform takes a tile of one element, not [64]"),
        (lambda n, x, p: uniform(zeros((1,), "f16")), TypeError, "scalars are i1, i32, i64, f32; the tile holds f16"),
        (lambda n, x, p: p.pointer(0, "f16"), TypeError, "addresses are kept as i64; the pointer is to f32"),
    ],
)  # fmt: skip
def test_refused_while_tracing(body: Callable[..., Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        trace(body)


def test_a_branch_that_fails_leaves_tracing_in_order() -> None:
    def body(n: Any, x: Any, p: Any) -> None:
        exit_unless(n > 0)
        with when(n > 1), while_loop(lambda k: k < 3, carry=[n]):
            discard(1 // 0)

    with pytest.raises(ZeroDivisionError):
        trace(body)
    with pytest.raises(TracingError, match="belong inside a @kernel function"):
        zeros((64,), "f32")
    assert [op.name for op in blocks_of(trace(lambda n, x, p: discard(n + 1)))][:2] == ["arith.constant", "arith.addi"]
