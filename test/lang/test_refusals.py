"""Every name of the language, given what makes no sense: each ends in an error at the user's line that says what is
wrong; nothing is compiled to something else, and nothing ends the process.

Expressions and what is said of them are in refused.txt; what takes statements is here.
"""

import inspect
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from misuse import BACK, FRONT, LANES, NAMES, ROWS, TARGET, TURNED, line_of, outcome, plane, put, tile, traced, window

import ckmlir.lang
from ckmlir.compiler import compile_traced
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import rows
from ckmlir.dialect.schedule import Schedule
from ckmlir.errors import CkmlirError
from ckmlir.lang import (
    TracingError,
    exit_unless,
    insert_tile,
    join_axes,
    kernel,
    load,
    loop,
    ptr,
    reduce,
    reduce_sum,
    slice_tile,
    stage,
    store,
    to_lds,
    view,
    when,
    while_loop,
    zeros,
)

REFUSED = [
    tuple(pair)
    for pair in re.findall(r"^(\S.*)\n    (.+)$", (Path(__file__).parent / "refused.txt").read_text(), re.MULTILINE)
]
ACCEPTED = """
zeros((np.int64(64),), "f32", LANES)
put(full((64,), np.float32(2), "f32", LANES), p)
put(reduce_sum(stretch(tile(), 1, 4), 1), p)
put(np.float32(2) * tile() + np.int64(2), p)
np.int32(3) * n
n.to("f64").to("f32") + x.to("f64").to("f32")
where(n < 3, tile(), 0.0)
where((tile() < 1.0)[:, None], zeros((64, 4), "f32", D("d0: 64@lane, d1: 4@y0")), 0.0)
put(cast(cast(tile(), "i1"), "f32"), p)
put(load(view(p, (np.int32(64),), (np.int64(1),)).window((64,), (0,))), p)
reduce([zeros((4, 64), "f32", ROWS)], 0, lambda a, b: [1.0])
maximum(n, 3)
{n: 1}[n]
""".strip().splitlines()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("expression", "said"), REFUSED, ids=[pair[0] for pair in REFUSED])
def test_an_expression_is_refused(expression: str, said: str) -> None:
    assert outcome(expression) == said


@pytest.mark.parametrize("expression", ACCEPTED)
def test_what_has_a_meaning_is_not_refused(expression: str) -> None:
    assert outcome(expression) == ""


def test_every_function_of_the_language_is_tried() -> None:
    tried = "\n".join(expression for expression, _ in REFUSED)
    functions = {name for name in ckmlir.lang.__all__ if inspect.isfunction(getattr(ckmlir.lang, name))} - {"current"}
    untried = {name for name in functions if not re.search(rf"\b{name}\(", tried)}
    assert not untried, "add what they refuse to refused.txt"


# -- what takes statements


def body_value_after(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    with loop(0, n, 1):
        inside = tile() + 1.0  # made
    store(inside, window(p))  # here


def index_after(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    with loop(0, n, 1) as step:
        pass
    store(tile(), view(p, (64,), (1,)).window((64,), (step.index,)))  # here


def carried_after(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    with loop(0, n, 1, carry=[tile()]) as step:
        step.carry(step.carried[0] + 1.0)
    store(step.carried[0], window(p))  # here


def window_after(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    with loop(0, n, 1):
        inside = window(p)
    store(tile(), inside)  # here


def lds_after(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    with loop(0, n, 1):
        inside = to_lds(tile())
    put(inside.read(LANES), p)  # here


def branch_value_after(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    with when(n < 3):
        inside = tile() + 1.0
    store(inside, window(p))  # here


def condition_value_after(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    asked = []
    with while_loop(lambda i: (asked.append(i + 1), i < n)[1], carry=[0]) as step:
        step.carry(step.carried[0] + 1)
    store(tile() * asked[0].to("f32"), window(p))  # here


OUTSIDE = "a value is used where it does not exist: it was made inside a loop, a branch or the function of a reduction"


def results_inside(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    with loop(0, n, 1, carry=[tile()]) as step:
        step.carry(step.results[0] + 1.0)  # here


def never_entered(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    loop(0, n, 1)  # here
    store(tile(), window(p))


def when_never_entered(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    when(n < 3)  # here
    store(tile(), window(p))


def entered_twice(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    step = loop(0, n, 1)
    with step:
        pass
    with step:  # here
        pass


def exception_caught(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    try:
        with loop(0, n, 1):  # here
            raise KeyError
    except KeyError:
        pass


def carry_outside(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    step = loop(0, n, 1, carry=[tile()])
    step.carry(tile())  # here


def carry_of_the_outer_loop(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    with loop(0, n, 1, carry=[n]) as outer, loop(0, n, 1):
        outer.carry(n)  # here


def carry_missing(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    with loop(0, n, 1, carry=[tile()]):  # here
        pass


def carry_lies_otherwise(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    with loop(0, n, 1, carry=[tile()]) as step:
        step.carry(tile(64, TURNED))  # here


def stage_that_the_loop_lacks(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    with loop(0, n, 1, schedule=Schedule("s", (("load", 1),))), stage("other"):  # here
        put(tile(), p)


def tile_in_the_function_of_a_reduction(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    def combine(left: Any, right: Any) -> Any:
        store(tile(), window(p))
        return [left[0] + right[0]]

    reduce([zeros((4, 64), "f32", ROWS)], 0, combine)  # here


def inner_kernel(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    @kernel("inner", target=TARGET, waves=1)
    def inner(q: ptr("f32")) -> None:
        store(tile() * x, window(q))  # here


def exit_inside(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    with loop(0, n, 1):
        exit_unless(n < 3)  # here


def lie_otherwise(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    one = load(window(p))
    store(one + tile(64, LANES), window(p))
    store(one + tile(64, TURNED), window(p))  # here


def joined_lies_otherwise(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    whole = zeros((4, 64), "f32")
    joined = join_axes(whole, 0)  # here
    store(whole + zeros((4, 64), "f32", ROWS), plane(p))
    put(joined + zeros((256,), "f32", Distribution.parse("d0: 64@lane 4@y0")), p)


def reduced_lies_otherwise(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    whole = load(plane(p))
    reduced = reduce_sum(whole, 1)  # here
    other = load(window(p, 4), Distribution.parse("r: 16@lane.0, d0: 4@lane.1"))
    store(whole + zeros((4, 64), "f32", ROWS), plane(p))
    put(reduced + other, p)


def part_lies_otherwise(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    whole = zeros((128,), "f32")
    part = slice_tile(whole, 0, 0, 64)  # here
    put(whole + tile(128, FRONT), p)
    put(part + tile(64, TURNED), p)


def inserted_lies_otherwise(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    part = zeros((64,), "f32")
    whole = insert_tile(zeros((128,), "f32"), part, 0, 0)  # here
    put(whole + tile(128, FRONT), p)
    put(part + tile(64, TURNED), p)


def rows_that_waves_do_not_take(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
    zeros((3, 64), "f32", rows(3, 64, waves=2, vector=1))  # here


@pytest.mark.parametrize(
    ("body", "said"),
    [
        *((body, OUTSIDE) for body in (
            body_value_after, index_after, carried_after, window_after, lds_after, branch_value_after,
            condition_value_after,
        )),
        (results_inside, "the results of a loop or branch are there behind it; inside, use what it carries"),
        (never_entered, "what begins here has no end: it was not entered by `with`"),
        (when_never_entered, "what begins here has no end: it was not entered by `with`"),
        (entered_twice, "a loop is entered once"),
        (exception_caught, "what begins here has no end: it was not entered by `with`, or an exception"),
        (carry_outside, "carry stands in the body of its own loop, at its end"),
        (carry_of_the_outer_loop, "carry stands in the body of its own loop, at its end"),
        (carry_missing, "the loop carries 1 value, 0 are handed on"),
        (carry_lies_otherwise, "redistribute one of them"),
        (stage_that_the_loop_lacks, "schedule 's' speaks of stage 'load'; the loop has other"),
        (tile_in_the_function_of_a_reduction, "the function of a reduction computes with elements only"),
        (inner_kernel, "a scalar of kernel 'probe' is used in kernel 'inner'"),
        (exit_inside, "exit_unless leaves the kernel, so it stands outside loops and `when`"),
        (lie_otherwise, "its tiles need one distribution"),
        (joined_lies_otherwise, "joined, 'd0: 4@y0, d1: 64@lane' lies as 'd0: 4@y0 64@lane', not as"),
        (reduced_lies_otherwise, "reducing axis 1 of 'd0: 4@y0, d1: 64@lane' gives 'r: 64@lane, d0: 4@y0', not"),
        (part_lies_otherwise, "this part lies as 'd0: 64@lane', it is declared as 'd0: 32@lane.1 2@lane.0'"),
        (rows_that_waves_do_not_take, "3 rows are not a multiple of the 2 that 2 waves take at once"),
        (inserted_lies_otherwise, "this part lies as 'd0: 64@lane', it is declared as 'd0: 32@lane.1 2@lane.0'"),
    ],
)  # fmt: skip
def test_a_body_is_refused_at_its_line(body: Callable[..., None], said: str) -> None:
    with pytest.raises(CkmlirError) as caught:
        compile_traced(traced(body))
    first = str(caught.value).partition("\n")[0]
    assert said in first
    assert first.startswith(f"{__file__}:{line_of(body, '# here')}:0: error: ")


def test_a_value_that_is_used_too_late_is_named_where_it_was_made() -> None:
    with pytest.raises(TracingError) as caught:
        traced(body_value_after)
    assert str(caught.value).endswith(f"{__file__}:{line_of(body_value_after, '# made')}:0: note: it was made here")


def test_tiles_that_lie_otherwise_are_named_where_they_were_made() -> None:
    def body(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
        first = zeros((128,), "f32", FRONT)  # first
        other = zeros((128,), "f32", BACK)  # other
        first + other  # here

    with pytest.raises(TracingError) as caught:
        traced(body)
    places = [
        f"{__file__}:{line_of(body, '# here')}:0: error: tiles that lie as 'd0: 2@y0 64@lane' and as 'd0: 64@",
        f"{__file__}:{line_of(body, '# first')}:0: note: the first one is made here",
        f"{__file__}:{line_of(body, '# other')}:0: note: the other one is made here",
    ]
    for line, place in zip(str(caught.value).splitlines(), places, strict=True):
        assert line.startswith(place)


def test_what_was_refused_leaves_nothing_behind() -> None:
    def body(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
        for mistake in (
            lambda: tile() + tile(64, LANES, "f16"),
            lambda: tile() / "a",
            lambda: reduce([zeros((4, 64), "f32", ROWS)], 0, lambda a, b: [1 / 0]),
        ):
            with pytest.raises((TracingError, ZeroDivisionError)):
                mistake()
        store(tile(), window(p))

    assert "ck.reduce" not in str(traced(body).module)


def test_a_value_of_another_thread_is_refused() -> None:
    said: list[str] = []

    def use(x: Any) -> None:
        try:
            traced(lambda n, own, wide, p, h: store(tile() * x, window(p)))
        except TracingError as error:
            said.append(str(error))

    def body(n: Any, x: Any, wide: Any, p: Any, h: Any) -> None:
        thread = threading.Thread(target=use, args=(x,))
        thread.start()
        thread.join()

    traced(body)
    assert len(said) == 1 and "a scalar of kernel 'probe' is used in kernel 'probe'" in said[0]


def test_an_error_of_the_users_own_function_is_left_alone() -> None:
    def combine(left: Any, right: Any) -> Any:
        return [left[0].nothing]

    with pytest.raises(AttributeError, match="nothing"):
        traced(lambda n, x, wide, p, h: reduce([zeros((4, 64), "f32", ROWS)], 0, combine))
    with pytest.raises(ValueError, match=r"^invalid literal for int"):
        traced(lambda n, x, wide, p, h: zeros((int("four"), 64), "f32", ROWS))


def test_the_names_of_the_language_are_there_to_be_tried() -> None:
    assert set(ckmlir.lang.__all__) <= set(NAMES)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (lambda x: load(view(x, (64,), (1,)).window((64,), (0,))), "a tile"),
        (lambda x: (yield x), "a generator"),
        (lambda x: 0, "0"),
    ],
)
def test_a_kernel_that_returns_something(body: Callable[..., Any], what: str) -> None:
    """What it computes would be dropped, and a generator would not have run at all."""
    with pytest.raises(TracingError, match=f"kernel 'k' returns {what}; a kernel has no result: store what it"):
        kernel("k", target=TARGET, waves=1, arguments={"x": ptr("f32")})(body)
