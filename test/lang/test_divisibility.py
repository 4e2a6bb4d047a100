"""What divides scalars: found through arithmetic, loops and memory, promised by authors, and tested in checked runs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runner import CHIPS, Compiled, compile_traced

from ckmlir.lang import Kernel, Scalar, TracingError, i32, i64, kernel, load, loop, ptr, store, view, when, workgroup_id
from ckmlir.lang.values import as_scalar
from ckmlir.sim.errors import CheckFailure
from ckmlir.targets import get_target

WIDTHS = {"buffer_load_dwordx4": 16, "buffer_load_dwordx3": 12, "buffer_load_dwordx2": 8, "buffer_load_dword": 4}
ROW = 256


def load_widths(compiled: Compiled) -> list[int]:
    """Bytes that each load of a kernel moves for a lane."""
    return [WIDTHS[name] for name in re.findall(r"\b(buffer_load_dword\w*)", compiled.assembly)]


def copies(chip: str, where: Callable[[Any], Any]) -> Kernel:
    """y[g] = the 256 elements of x from where(…) on."""

    @kernel("copies", target=get_target(chip), waves=1, arguments={
        "x": ptr("f32"), "y": ptr("f32"), "table": ptr("i32"), "n": i32, "wide": i64})  # fmt: skip
    def traced(given: Any) -> None:
        row = load(view(given.x.offset(where(given)), (ROW,), (1,)).window((ROW,), (0,)))
        out = view(given.y.offset(workgroup_id(0) * ROW), (ROW,), (1,))
        store(row, out.window((ROW,), (0,)))

    return traced


def _rounded_down(number: Scalar, by: int) -> Scalar:
    return number - number % by


PLACES: dict[str, tuple[Callable[[Any], Any], Callable[[int], int]]] = {
    "product": (lambda k: workgroup_id(0) * 256, lambda g: 256 * g),
    "shift": (lambda k: (workgroup_id(0) << 3) * 4, lambda g: 32 * g),
    "wide": (lambda k: workgroup_id(0).to("i64") * (k.wide * 8) + 64, lambda g: 8 * g + 64),
    "narrowed": (lambda k: (k.wide * 16).to("i32") - workgroup_id(0) * 4, lambda g: 16 - 4 * g),
    "limits": (lambda k: (workgroup_id(0) * 8).minimum(12).maximum(4), lambda g: max(4, min(8 * g, 12))),
    "choice": (lambda k: (k.n < 3).select(k.n * 12, workgroup_id(0) * 20), lambda g: 20 * g),
    "quotient": (lambda k: (workgroup_id(0) * 96) // 12, lambda g: 8 * g),
    "rest": (lambda k: (workgroup_id(0) * 12) % 32, lambda g: 12 * g % 32),
    "rounded down": (lambda k: _rounded_down(workgroup_id(0) + k.n, 12), lambda g: (g + 3) // 12 * 12),
    "masked": (lambda k: (workgroup_id(0) + k.n) & -4, lambda g: (g + 3) & -4),
    "back": (lambda k: ((workgroup_id(0) * 64) >> 3), lambda g: 8 * g),
    "memory": (lambda k: k.table.scalar(workgroup_id(0)) * 4, lambda g: 4 * (5, 3)[g]),
    "promised": (lambda k: k.table.scalar(1).multiple_of(3) * workgroup_id(0) * 4, lambda g: 12 * g),
}
"""Where a row begins, as the kernel computes it, and as it is for a workgroup."""


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("chip", CHIPS)
def test_what_follows_from_arithmetic_makes_accesses_wide(chip: str, name: str) -> None:
    """No promise is needed for what multiplications, limits, choices and shifts give: one load of 16 bytes a lane."""
    where, place = PLACES[name]
    compiled = compile_traced(copies(chip, where))
    assert load_widths(compiled) == [16]
    x = np.arange(1024, dtype=np.float32)
    table = np.array([5, 3], np.int32)
    _, y, _ = compiled.run(x, np.zeros((2, ROW), np.float32), table, 3, 1, grid=(2, 1, 1), checks="all")
    np.testing.assert_array_equal(y, [x[place(group) : place(group) + ROW] for group in range(2)])


@pytest.mark.parametrize("chip", CHIPS)
def test_the_rest_of_another_number_makes_no_multiple(chip: str) -> None:
    """Nor does a quotient: n - m % 12 and n - n // 12 are multiples of 1."""
    for where in (
        lambda k: workgroup_id(0) + k.n - workgroup_id(0) * 5 % 12,
        lambda k: (workgroup_id(0) + k.n) - (workgroup_id(0) + k.n) // 12,
    ):
        assert load_widths(compile_traced(copies(chip, where))) == [4] * 4


def carried_kernel(chip: str, by: int) -> Kernel:
    """y[i] = the tile of x at 0, by, 2 * by, …, at a place that the loop carries."""

    @kernel("carried", target=get_target(chip), waves=1, arguments={"x": ptr("f32"), "y": ptr("f32"), "n": i32})
    def traced(given: Any) -> None:
        with loop(0, given.n, 1, carry=[given.n * 0]) as step:
            (place,) = step.carried
            tile = load(view(given.x.offset(place), (ROW,), (1,)).window((ROW,), (0,)))
            store(tile, view(given.y, (given.n, ROW), (ROW, 1)).freeze(0, step.index).window((ROW,), (0,)))
            step.carry(place + by)

    return traced


@pytest.mark.parametrize(("by", "width"), [(ROW, 16), (6, 8), (1, 4)])
@pytest.mark.parametrize("chip", CHIPS)
def test_what_goes_round_a_loop_is_known_at_its_end(chip: str, by: int, width: int) -> None:
    """A place that is carried is a multiple of what it starts with and what is added to it."""
    compiled = compile_traced(carried_kernel(chip, by))
    assert set(load_widths(compiled)) == {width}
    x = np.arange(2048, dtype=np.float32)
    _, y = compiled.run(x, np.zeros((3, ROW), np.float32), 3, checks="all")
    np.testing.assert_array_equal(y, [x[number * by : number * by + ROW] for number in range(3)])


# -- promises


def promises(chip: str) -> Kernel:
    """Promises of an argument, of what memory holds, in a loop, and in a branch."""

    @kernel("promises", target=get_target(chip), waves=1, arguments={"y": ptr("f32"), "table": ptr("i32"), "n": i32})
    def traced(given: Any) -> None:
        group = workgroup_id(0)
        pitch = given.n.multiple_of(4)  # an argument
        held = given.table.scalar(group).multiple_of(2)  # memory
        out = view(given.y, (1, 64), (pitch, 1))
        with loop(0, held, 1, carry=[held]) as step:
            place = (step.carried[0] + step.index).multiple_of(3)  # a loop
            with when(step.index.equals(1)):
                first = place.multiple_of(5) * 0  # a branch
                store(load(out.window((1, 64), (0, 0))), out.window((1, 64), (first, 0)))
            step.carry(place * 2)

    return traced


LINES, FIRST = inspect.getsourcelines(promises)
LINE_OF = {line.rpartition("# ")[2].strip(): FIRST + number for number, line in enumerate(LINES) if "  # " in line}


def findings(compiled: Compiled, n: int, table: list[int]) -> list[Any]:
    try:
        compiled.run(np.zeros(64, np.float32), np.array(table, np.int32), n, grid=(2, 1, 1), checks="promise")
    except CheckFailure as failure:
        return list(failure.findings)
    return []


@pytest.mark.parametrize("chip", CHIPS)
def test_promises_that_are_not_kept_are_found(chip: str) -> None:
    """Each at its own line, with the value, and the workgroup where there are several."""
    compiled = compile_traced(promises(chip))
    assert findings(compiled, 64, [0, 0]) == []
    (found,) = findings(compiled, 66, [0, 0])
    assert found.message == "66 was promised to be a multiple of 4" and found.checker == "promise"
    assert found.source == (__file__, LINE_OF["an argument"])
    (found,) = findings(compiled, 64, [0, 1])[:1]
    assert found.message.startswith("1 ") and found.source == (__file__, LINE_OF["memory"])
    assert found.workgroup == (1, 0, 0)
    found = findings(compiled, 64, [2, 0])  # 2 + 0, then 4 + 1
    assert [(one.message, one.source[1]) for one in found] == [
        ("2 was promised to be a multiple of 3", LINE_OF["a loop"]),
    ]
    found = findings(compiled, 64, [6, 0])  # 6, 12 + 1: not a multiple of 3 nor, where index is 1, of 5
    assert [one.source[1] for one in found] == [LINE_OF["a loop"], LINE_OF["a branch"]]


@pytest.mark.parametrize("chip", CHIPS)
def test_promises_of_addresses(chip: str) -> None:
    """A pointer that is said to be aligned, and is held, and one that memory holds."""

    @kernel("addresses", target=get_target(chip), waves=1, arguments={
        "x": ptr("f32", 4), "y": ptr("f32"), "table": ptr("i64"), "n": i32})  # fmt: skip
    def traced(given: Any) -> None:
        own = given.x.offset(given.n).aligned(16).held()
        held = given.table.pointer(0, "f32", alignment=8)
        for number, source in enumerate((own, held)):
            row = load(view(source, (ROW,), (1,)).window((ROW,), (0,)))
            store(row, view(given.y, (2, ROW), (ROW, 1)).freeze(0, number).window((ROW,), (0,)))

    compiled = compile_traced(traced)
    assert load_widths(compiled) == [16, 8, 8]
    x, z = np.arange(512, dtype=np.float32), np.arange(512, 0, -1, dtype=np.float32)
    _, y, _ = compiled.run(x, np.zeros((2, ROW), np.float32), [z], 4, checks="all")
    np.testing.assert_array_equal(y, [x[4 : 4 + ROW], z[:ROW]])
    with pytest.raises(CheckFailure, match=r"promise: 0x[0-9a-f]+ was promised to be a multiple of 16"):
        compiled.run(x, np.zeros((2, ROW), np.float32), [z], 3, checks="promise")


def test_promises_cost_nothing() -> None:
    """The code is that of a kernel whose divisors follow from arithmetic."""

    def size(compiled: Compiled) -> int:
        return len(re.findall(r"^\t[sv]_|^\tbuffer_", compiled.assembly, re.MULTILINE))

    promised = compile_traced(copies("gfx942", lambda k: k.n.multiple_of(64)))
    unknown = compile_traced(copies("gfx942", lambda k: k.n))
    assert load_widths(promised) == [16] and load_widths(unknown) == [4] * 4
    assert size(promised) < size(unknown)


def test_what_is_known_needs_no_promise() -> None:
    """A promise of what follows anyway leaves nothing to test, and one that cannot be is refused where it is made."""

    @kernel("known", target=get_target("gfx942"), waves=1, arguments={"n": i32, "wide": i64})
    def known(n: Scalar, wide: Scalar) -> None:
        assert (n * 8).multiple == 8 and (n * 8).multiple_of(4).multiple == 8
        assert n.multiple_of(6).multiple_of(4).multiple == 12
        assert (wide * 6 + 9).multiple == 3 and (n * 0).multiple == 0
        with pytest.raises(TracingError, match="a divisor is at least 1"):
            n.multiple_of(0)
        with pytest.raises(TracingError, match="7 is not a multiple of 2"):
            as_scalar(7, n.type).multiple_of(2)
        with pytest.raises(TracingError, match="i32 and i64, not of f32"):
            n.to("f32").multiple_of(2)

    assert str(known.module).count("ck.promise") == 2


# -- a law

OPERATORS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[int, int], int]]] = {
    "+": (lambda a, b: a + b, lambda a, b: a + b),
    "-": (lambda a, b: a - b, lambda a, b: a - b),
    "*": (lambda a, b: a * b, lambda a, b: a * b),
    "minimum": (lambda a, b: a.minimum(b), min),
    "maximum": (lambda a, b: a.maximum(b), max),
    "&": (lambda a, b: a & b, lambda a, b: a & b),
    "|": (lambda a, b: a | b, lambda a, b: a | b),
    "^": (lambda a, b: a ^ b, lambda a, b: a ^ b),
    "select": (lambda a, b: (a < b).select(b, a), lambda a, b: b if a < b else a),
}
BY_NUMBER: dict[str, tuple[Callable[[Any, int], Any], Callable[[int, int], int]]] = {
    "*": (lambda a, n: a * n, lambda a, n: a * n),
    "<<": (lambda a, n: a << (n % 5), lambda a, n: a << (n % 5)),
    ">>": (lambda a, n: a >> (n % 5), lambda a, n: a >> (n % 5)),
    "//": (lambda a, n: a // n, lambda a, n: abs(a) // n * (1 if a >= 0 else -1)),
    "%": (lambda a, n: a % n, lambda a, n: abs(a) % n * (1 if a >= 0 else -1)),
    "+": (lambda a, n: a + n, lambda a, n: a + n),
    "wide": (lambda a, n: (a.to("i64") * n).to("i32"), lambda a, n: a * n),
}
Expression = tuple[Callable[[list[Any]], Any], Callable[[list[int]], int]]
PRIME = (1 << 31) - 1


@st.composite
def expressions(draw: st.DrawFn, depth: int = 4) -> Expression:
    """Arithmetic on three arguments, as a kernel and as Python compute it."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        which, factor = draw(st.integers(0, 2)), draw(st.sampled_from([1, 1, 4, 6, 64]))
        return lambda k: k[which] * factor, lambda k: k[which] * factor
    left = draw(expressions(depth - 1))
    if draw(st.booleans()):
        by, number = BY_NUMBER[draw(st.sampled_from(sorted(BY_NUMBER)))], draw(st.integers(1, 48))
        return lambda k: by[0](left[0](k), number), lambda k: by[1](left[1](k), number)
    both, right = OPERATORS[draw(st.sampled_from(sorted(OPERATORS)))], draw(expressions(depth - 1))
    return lambda k: both[0](left[0](k), right[0](k)), lambda k: both[1](left[1](k), right[1](k))


@settings(max_examples=40)
@given(expressions(), st.lists(st.integers(0, 60), min_size=3, max_size=3))
def test_divisors_divide_and_checked_runs_compute(expression: Expression, values: list[int]) -> None:
    """What is found to divide an expression does, and what evaluates a promise arrives at the expression's value."""
    found: list[int] = []

    @kernel("law", target=get_target("gfx942"), waves=1, arguments=dict.fromkeys("abc", i32))
    def law(a: Scalar, b: Scalar, c: Scalar) -> None:
        result = expression[0]([a, b, c])
        found.append(result.multiple)
        result.multiple_of(PRIME)

    value = expression[1](values)
    if not -(1 << 31) <= value < 1 << 31:
        return
    assert value == 0 if found[0] == 0 else value % found[0] == 0
    compiled = compile_traced(law)
    if value % PRIME:
        with pytest.raises(CheckFailure, match=rf"promise: (\w+ = )?{value} was promised to be a multiple of {PRIME}"):
            compiled.run(*values, checks="promise")
    else:
        compiled.run(*values, checks="promise")
