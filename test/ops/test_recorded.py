"""Functions of problems as code that was recorded: right for other problems, or silent."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

from ckmlir.ops import OPERATORS, find_operator
from ckmlir.ops.operator import Operator
from ckmlir.ops.plan import Plan, make_plan
from ckmlir.ops.recorded import MOST_TREES, MOST_WAYS, Recorded
from ckmlir.ops.request import Integer, Key, PowerOfTwo, RequestError
from ckmlir.ops.scalars import f32, gcd, i32, index
from ckmlir.ops.spec import Spec
from ckmlir.ops.symbolic import Recorder
from ckmlir.ops.tensors.keys import ShapeKey
from ckmlir.records import replace
from ckmlir.runtime.bound_plan import values_of
from ckmlir.targets import get_target

GFX942 = get_target("gfx942")


@dataclass(frozen=True)
class Part:
    size: int


@dataclass(frozen=True)
class Toy:
    m: int = 8
    n: int = 3
    scale: float = 0.5
    name: str | None = "row"
    lengths: tuple[int, ...] = ()
    part: Part = Part(4)
    sizes: dict[str, int] = field(default_factory=lambda: {"k": 7}, hash=False)


def known(function: Callable[[Any], Any], *problems: Toy) -> Recorded:
    """The ways of these problems, each of which is another one."""
    recorded = Recorded()
    for number, problem in enumerate(problems):
        assert recorded.add(function, problem, lambda found: found) == number
    return recorded


@pytest.mark.parametrize(
    "function",
    [
        lambda p: (p.m + 1, 1 + p.m, p.m - p.n, 2 - p.m, p.m * p.n, -p.m, +p.m, ~p.m, abs(-p.m)),
        lambda p: (p.m // p.n, 100 // p.m, p.m % p.n, 100 % p.m, p.m / p.n, 1 / p.m, p.m**2, 2**p.n, pow(p.m, 2, 7)),
        lambda p: (*divmod(p.m, p.n), *divmod(100, p.m), p.m << 2, 1 << p.n, p.m >> 1, p.m & 3, p.m | 3, p.m ^ 3),
        lambda p: (gcd(16, p.m, p.n), math.prod((p.m, p.n)), sum((p.m, p.n)), -(-p.m // 4), (p.m - 1).bit_length()),
        lambda p: (i32(p.m), f32(p.scale), f32(1) / f32(p.n), p.scale * math.log2(math.e), p.part.size, p.sizes["k"]),
        lambda p: (index(p.m), index(p.m + p.n), index(p.part.size)),
        lambda p: (1 * (p.m - 1) + 1, 3 + p.m - 5, 0 * p.m, p.m // 1, 1 // p.m, 1 - (p.m + 1), 7 - p.m + p.n - 7),
        lambda p: (1 * p.scale, p.scale + 0, 0 * p.scale, p.scale // 1, -0.0 * p.m, 1.0 * p.m, p.m + True),
    ],
)  # fmt: skip
def test_arithmetic_holds_for_other_numbers(function: Callable[[Any], Any]) -> None:
    """One recording gives the values of all, of the same types."""
    recorded = known(function, Toy())
    for m, n in ((8, 3), (9, 4), (2**30, 5), (1000, 11)):
        problem = Toy(m, n, scale=n / 7, part=Part(m), sizes={"k": n})
        assert repr(recorded(problem)) == repr((0, function(problem)))


def test_sizes_that_are_a_number_again_take_no_code() -> None:
    """Extents of rows that follow each other, say."""
    recorder = Recorder()
    shadow = recorder.shadow(Toy(), "problem")
    assert shadow.m * 1 // 1 + 0 is shadow.m and 1 * (shadow.m - 1) + 1 is shadow.m
    assert type(shadow.m * 0) is int
    before = len(recorder.lines)
    assert (shadow.m + 3) - 5 is shadow.m - 2
    assert len(recorder.lines) == before + 2  # m + 3 and m - 2


def test_other_ways_are_not_taken_for_one_that_is_known() -> None:
    def function(p: Any) -> tuple[int, ...]:
        return (p.m, min(p.n, 5)) if p.m % 4 == 0 else (p.n,)

    recorded = known(function, Toy(8, 3))
    assert recorded(Toy(12, 4)) == (0, (12, 4))
    assert recorded(Toy(12, 9)) is None and recorded(Toy(9, 3)) is None
    assert recorded.add(function, Toy(9, 3), lambda found: found) == 1
    assert recorded.add(function, Toy(12, 9), lambda found: found) == 2
    assert [recorded(Toy(m, n)) for m, n in ((7, 2), (4, 9), (4, 1))] == [(1, (2,)), (2, (4, 5)), (0, (4, 1))]


def test_the_tree_that_was_right_is_tried_first() -> None:
    """Sizes that come behind each other mostly take ways of one tree, of several that there are."""
    count = 2 * MOST_WAYS + 1
    recorded = known(lambda p: p.m if p.n == 100 else next(p.m + n for n in range(count) if p.n == n),
                     *(Toy(n=n) for n in range(count)))  # fmt: skip
    tried: list[int] = []

    def counted(number: int, tree: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda problem: (tried.append(number), tree(problem))[1]

    recorded._trees = tuple(counted(number, tree) for number, tree in enumerate(recorded._trees))
    assert len(recorded._trees) == 3
    for n in (count - 1, count - 1, 1, 1, count - 1):
        assert recorded(Toy(m=70, n=n)) == (n, 70 + n)
    assert tried == [0, 1, 2, 2, 2, 0, 0, 0, 1, 2]


def test_what_problems_agree_in_is_a_condition() -> None:
    """Until a problem has another number there; what was recorded before stays as long as there is room."""

    def function(p: Any) -> tuple[int, ...]:
        asked.append(p.n)
        return (p.m * p.n, p.m % 2) if p.m % 2 else (p.m * p.n,)

    asked: list[Any] = []
    recorded = Recorded(Toy(8, 3))
    assert recorded.learn(Toy(9, 3)) and recorded.add(function, Toy(9, 3), lambda found: found) == 0
    assert type(asked[0]) is int and recorded(Toy(11, 3)) == (0, (33, 1))
    assert recorded(Toy(11, 4)) is None and recorded(replace(Toy(11, 3), scale=-0.5)) is None
    assert recorded(Toy(12, 3)) is None and not recorded.learn(Toy(12, 3))
    assert recorded.learn(Toy(12, 4)) and recorded.add(function, Toy(12, 4), lambda found: found) == 1
    assert [recorded(Toy(m, n)) for m, n in ((14, 5), (13, 3), (13, 4))] == [(1, (70,)), (0, (39, 1)), None]
    assert not recorded.learn(Toy(13, 4)) and recorded.add(function, Toy(13, 4), lambda found: found) == 2
    assert recorded(Toy(13, 4)) == (2, (52, 1))


def test_problems_are_hashed_by_the_numbers_in_which_they_differ() -> None:
    recorded = Recorded(Toy(8, 3, lengths=(1, 2)))
    assert recorded.learn(Toy(9, 3, lengths=(1, 4)))
    assert recorded.hash(Toy(5, 3, lengths=(1, 6))) == recorded.hash(Toy(5, 7, name="x", lengths=(2, 6)))
    assert len({recorded.hash(Toy(m, 3, lengths=(1, n))) for m in range(4) for n in range(5)}) == 20
    assert recorded.hash(Toy(5)) == hash(Toy(5, part=Part(4))) and recorded.hash("other") == hash("other")


def test_ways_that_serve_fewer_problems_make_room() -> None:
    """Of as many ways as there may be, those from before a number was learned to differ go."""
    function, most = lambda p: next(p.m + n for n in range(1000) if p.n == n), MOST_TREES * MOST_WAYS
    recorded = Recorded(Toy(8, 0))
    recorded.learn(Toy(8, 1))
    for n in range(most):
        assert recorded.add(function, Toy(n=n), lambda found: found) == n
    assert recorded.add(function, Toy(n=most), lambda found: found) is None
    assert recorded.learn(Toy(9, 1)) and recorded(Toy(9, 1)) is None
    assert recorded.add(function, Toy(9, 1), lambda found: found) == most
    assert recorded(Toy(10, 1)) == (most, 11) and recorded(Toy(8, 2)) is None


def test_what_is_no_number_is_a_condition() -> None:
    recorded = known(lambda p: (p.m,), Toy(), Toy(lengths=(1, 2)), Toy(name=None))
    assert recorded(Toy(9, lengths=(5, 6))) == (1, (9,)) and recorded(Toy(9, name=None)) == (2, (9,))
    for other in (Toy(name="x"), Toy(lengths=(1,)), Toy(sizes={"m": 1}), replace(Toy(), m=np.int64(8)), Toy(m=True)):
        assert recorded(other) is None


@pytest.mark.parametrize(
    "function",
    [
        lambda p: (len(range(p.m)),),
        lambda p: ("x" * 20)[p.m :] and (p.m,),
        lambda p: (len(f"{p.m}"),),
        lambda p: (math.gcd(p.m, 16),),
        lambda p: (np.int32(p.m),),
        lambda p: (p.m.real,),
        lambda p: ({8: 1, 9: 2}.get(p.m, 3),),
        lambda p: (len({p.m, 9}),),
        lambda p: (math.floor(p.m), int(p.m), round(p.m)),
    ],
)
def test_a_value_that_was_asked_for_is_a_condition(function: Callable[[Any], Any]) -> None:
    """Nobody knows what comes of it; other numbers stay free."""
    recorded = known(function, Toy(8))
    assert repr(recorded(Toy(8, n=99))) == repr((0, function(Toy(8, n=99))))
    assert recorded(Toy(9)) is None


def test_signs_of_zeros_and_what_is_no_number() -> None:
    recorded = known(lambda p: (float(p.scale),), Toy(scale=0.0), Toy(scale=-0.0), Toy(scale=math.nan))
    found = [recorded(Toy(scale=scale))[0] for scale in (0.0, -0.0, math.nan)]
    assert found == [0, 1, 2] and recorded(Toy(scale=1.0)) is None


def test_what_cannot_be_recorded() -> None:
    def refuses(p: Any) -> Any:
        raise RequestError("no")

    for function, problem in ((refuses, Toy()), (lambda p: (p.m,), Toy(lengths=tuple(range(500)))), (str, object())):
        assert Recorded().add(function, problem, lambda found: found) is None


def test_symbols_stand_where_integers_do() -> None:
    """As `isinstance` sees them; and once recording has ended, one that was kept is a plain number."""
    kept: list[Any] = []

    def function(p: Any) -> tuple[Any]:
        assert isinstance(p.m, int) and not isinstance(p.m, float) and isinstance(p.scale, float)
        kept.append(p.m)
        return (p.m + 1,)

    known(function, Toy())
    assert type(kept[0] + 1) is int and kept[0] + 1 == 9 and hash(kept[0]) == hash(8)


def test_sizes_that_other_operators_are_asked_with_are_not_fixed() -> None:
    """The steps of a layer are problems of other operators, whose keys read sizes of the layer's. Sizes that were met
    say the ways of all others: sorting chooses one kernel or several, and the sum its rows."""
    operator, recorded, ways = find_operator("fused_moe"), Recorded(), 0
    spec = operator.spec(operator.problem(t=1000), GFX942)
    problems = [operator.problem(t=tokens) for tokens in Random(1).sample(range(1, 4000), 200)]
    covered = [problem for problem in problems if not operator.mismatches(problem, spec, GFX942)]
    for problem in covered[:100]:
        if recorded(problem) is None:
            outputs = partial(values_of, example=plan_of(operator, spec, problem))
            ways += recorded.add(partial(plan_of, operator, spec), problem, outputs) is not None
    assert 1 <= ways <= 8
    assert len(covered) > 150 and all(recorded(problem) is not None for problem in covered[100:])


def sized(operator: Operator[Any, Any], random: Random) -> dict[str, object]:
    """A request that gives sizes only, so that the kernel of the default problem has a chance."""
    request: dict[str, object] = {key.name: key.default for key in operator.keys}
    given: dict[str, object] = {}
    for key in operator.keys:
        if _is_size(key) and random.random() < (0.6 if key.default is not None else 0.1):
            given[key.name] = key.sample(random, request)
            request[key.name] = key.read(given[key.name])
    return given


def _is_size(key: Key) -> bool:
    return isinstance(key, (Integer, ShapeKey)) and not isinstance(key, PowerOfTwo)


def plan_of(operator: Operator[Any, Any], spec: Spec, problem: Any) -> Plan:
    reasons = operator.mismatches(problem, spec, GFX942)
    if reasons:
        raise RequestError(str(reasons[0]))
    return make_plan(operator, problem, GFX942, spec)


def agree(name: str, problems: int) -> None:
    """Plans of drawn problems by the operator and by recordings are the same, and recordings are found."""
    operator, random, examples = find_operator(name), Random(1), {}
    spec, recorded, left, hits = operator.spec(operator.problem(), GFX942), Recorded(), problems, 0
    for _ in range(20 * problems):
        try:
            problem = operator.problem(**sized(operator, random))
            plan = plan_of(operator, spec, problem)
        except RequestError:
            continue
        found = recorded(problem)
        if found is None:
            way = recorded.add(partial(plan_of, operator, spec), problem, partial(values_of, example=plan))
            if way is not None:
                examples[way] = plan
                found = recorded(problem)
                assert found is not None and found[0] == way
        else:
            hits += 1
        if found is not None:
            assert repr(found[1]) == repr(values_of(plan, examples[found[0]])), problem
        left -= 1
        if not left:
            break
    assert examples and (hits or problems < 8), "no problem takes a way that another took"


def test_means_of_nothing_are_bound_without_a_warning() -> None:
    """What a recording makes of an operator's arithmetic runs outside of its `np.errstate`."""
    operator, recorded, plans = find_operator("reduce"), Recorded(), {}
    keys = {"dims": 0, "ops": "mean", "align": 1}
    spec = operator.spec(operator.problem(shape=(0, 1 << 15), **keys), GFX942)
    for width in (1 << 15, 1 << 16, 1 << 17, 1 << 18):
        problem = operator.problem(shape=(0, width), **keys)
        plan = plan_of(operator, spec, problem)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = recorded(problem)
        if found is None:
            way = recorded.add(partial(plan_of, operator, spec), problem, partial(values_of, example=plan))
            plans[way] = plan
        else:
            assert repr(found[1]) == repr(values_of(plan, plans[found[0]])), width
    assert len(plans) < 4, "no problem takes a way that another took"


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", list(OPERATORS))
def test_plans_of_other_sizes(name: str) -> None:
    if not find_operator(name).validate(find_operator(name).spec(find_operator(name).problem(), GFX942), GFX942):
        agree(name, 3)


@pytest.mark.full
@pytest.mark.parametrize("name", list(OPERATORS))
def test_plans_of_many_sizes(name: str) -> None:
    if not find_operator(name).validate(find_operator(name).spec(find_operator(name).problem(), GFX942), GFX942):
        agree(name, 60)
