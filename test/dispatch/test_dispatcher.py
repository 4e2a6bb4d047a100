"""Dispatchers: which kernel a request gets, who decided, and what is refused."""

from __future__ import annotations

import sys
import timeit
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from drawn import NAMES, problems

from ckmlir.dispatch import (
    JUST_IN_TIME,
    Dispatcher,
    FastestByModel,
    Kernel,
    NoKernel,
    OperatorsChoice,
    Query,
    Registry,
    SizeBuckets,
    Space,
    Table,
    request_of,
)
from ckmlir.ops import find_operator
from ckmlir.ops.operator import Operator
from ckmlir.ops.plan import described, make_plan
from ckmlir.ops.request import RequestError
from ckmlir.records import replace
from ckmlir.runtime import check_outputs, open_device
from ckmlir.targets import get_target

GFX942, GFX950 = get_target("gfx942"), get_target("gfx950")
GEMM = find_operator("gemm")
BLOCKS = ((32, 64, 64), (64, 64, 64), (128, 128, 64))
REQUEST: dict[str, Any] = {"m": 100, "n": 70, "k": 72}


def some_registry() -> Registry:
    keys: dict[str, Any] = {"m": (100,), "n": (70,), "k": (72,)}
    algorithm: dict[str, Any] = {
        "block": BLOCKS, "mfma": ((16, 16, 16),), "waves": ((2, 2),), "schedule": ("compv3",), "pad": ("mnk",),
        "align": ((2, 2, 2),),
    }  # fmt: skip
    return Registry(Space(GEMM, (GFX942,), keys, algorithm).expand().kernels, name="blocks")


def block(kernel: Kernel) -> int:
    return int(kernel.spec.block[0])  # type: ignore[attr-defined]


def test_the_first_kernel_that_fits() -> None:
    registry = some_registry()
    found = Dispatcher(registry, GFX942).select("gemm", **REQUEST)
    assert (found.kernel, found.rule, found.fitting, found.passed) == (next(iter(registry)), "first fit", 3, ())
    registry.add(list(registry)[2], priority=1)
    assert block(Dispatcher(registry, GFX942).select(GEMM, **REQUEST).kernel) == 128


def test_what_the_operator_would_choose_of_what_is_there() -> None:
    registry = some_registry()
    considered = GEMM.candidates(GEMM.problem(**REQUEST), GFX942)
    dispatcher = Dispatcher(registry, GFX942, OperatorsChoice())
    assert dispatcher.select("gemm", **REQUEST).rule == "first fit"  # it considers none of these
    for spec in considered[1::-1]:  # the second best, then the best
        registry.add(Kernel(GEMM, spec, GFX942))
        found = dispatcher.select("gemm", **REQUEST)
        assert (found.kernel.spec, found.rule) == (spec, "the operator's choice")


@pytest.mark.parametrize(("m", "expected"), [(0, 32), (1, 32), (32, 32), (33, 64), (64, 64), (65, 128), (900, 128)])
def test_size_buckets_take_the_smallest_tile_that_is_enough(m: int, expected: int) -> None:
    dispatcher = Dispatcher(some_registry(), GFX942, SizeBuckets("m"))
    found = dispatcher.select("gemm", **{**REQUEST, "m": m})
    assert (block(found.kernel), found.rule) == (expected, "size buckets")


def test_size_buckets_of_what_is_no_size_pass() -> None:
    dispatcher = Dispatcher(some_registry(), GFX942, [SizeBuckets("dtype"), SizeBuckets("m", field="tile")])
    found = dispatcher.select("gemm", **REQUEST)
    assert found.rule == "first fit"
    assert found.passed == ("size buckets", "size buckets")
    with pytest.raises(RequestError, match="gemm has no key rows; "):
        Dispatcher(some_registry(), GFX942, SizeBuckets("rows")).select("gemm", **REQUEST)


def test_size_buckets_for_one_operator_leave_others_to_the_next() -> None:
    registry, softmax = some_registry(), find_operator("softmax")
    registry.add(Kernel(softmax, softmax.spec(softmax.problem(m=8, n=64), GFX942), GFX942))
    rows = SizeBuckets("n", field="tile", name="rows", operator="softmax")
    dispatcher = Dispatcher(registry, GFX942, [rows, SizeBuckets("k", operator="gemm")])
    assert dispatcher.select("gemm", **REQUEST).passed == ("rows",)
    assert dispatcher.select("softmax", m=8, n=64).kernel.operator is softmax
    with pytest.raises(RequestError, match="softmax has no key k; "):
        Dispatcher(registry, GFX942, SizeBuckets("k")).select("softmax", m=8, n=64)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (SizeBuckets("m", place=3), r"has no place 3 of block \(.*\); expected a place from 0 to 2"),
        (SizeBuckets("m", place=-1), "has no place -1 of block"),
        (SizeBuckets("m", field="schedule"), r"schedule of gemm/.* is '.*', expected a size"),
    ],
)
def test_size_buckets_of_no_tile_are_refused(policy: SizeBuckets, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        Dispatcher(some_registry(), GFX942, policy).select("gemm", **REQUEST)


def test_a_table_knows_requests_in_any_words() -> None:
    registry = some_registry()
    kernel = list(registry)[1]
    table = Table({request_of(GEMM, {**REQUEST, "dtype": "f16"}, GFX942): kernel.identifier})
    dispatcher = Dispatcher(registry, GFX942, [table, SizeBuckets("m")])
    for keys in (REQUEST, {"k": "72", "n": np.int32(70), "m": 100, "layout": "RCR", "lda": None, "block": "auto"}):
        found = dispatcher.select("gemm", **keys)
        assert (found.kernel, found.rule) == (kernel, "tuned table")
    other = dispatcher.select("gemm", **{**REQUEST, "m": 30})
    assert (other.rule, other.passed) == ("size buckets", ("tuned table",))


def test_any_callable_is_a_policy() -> None:
    registry = some_registry()
    seen = []

    def largest(query: Query, fitting: Sequence[Kernel]) -> Kernel:
        seen.append((query.operator.name, query.value("m"), query.value("dtype"), query.target.name))
        return max(fitting, key=block)

    dispatcher = Dispatcher(registry, GFX942, largest)
    found = dispatcher.select("gemm", **REQUEST)
    assert (block(found.kernel), found.rule) == (128, "largest")
    assert dispatcher.select("gemm", **REQUEST) is found
    assert seen == [("gemm", 100, "f16", "gfx942")]
    by_name = Dispatcher(registry, GFX942, lambda query, fitting: [one.identifier for one in fitting][::-1])
    assert block(by_name.select("gemm", **REQUEST).kernel) == 128
    empty = Dispatcher(registry, GFX942, lambda query, fitting: [])
    assert empty.select("gemm", **REQUEST).passed == ("<lambda>",)


def test_a_policy_that_names_a_kernel_which_does_not_fit_is_mistaken() -> None:
    registry = some_registry()
    bf16 = Kernel(GEMM, GEMM.spec(GEMM.problem(**REQUEST, dtype="bf16"), GFX942), GFX942)
    registry.add(bf16)
    softmax = find_operator("softmax")
    foreign = Kernel(softmax, softmax.spec(softmax.problem(), GFX942), GFX942)
    elsewhere = Kernel(GEMM, next(iter(registry)).spec, GFX950)
    for answer, words in (
        (bf16, "dtype=bf16: the kernel is another one; expected f16"),
        (bf16.identifier, "dtype=bf16: the kernel is another one; expected f16"),
        (foreign, "it is not among the kernels of the registry that do"),
        (elsewhere, "it is not among the kernels of the registry that do"),
    ):
        with pytest.raises(RequestError, match="policy <lambda> chose") as caught:
            Dispatcher(registry, GFX942, lambda query, fitting, answer=answer: answer).select("gemm", **REQUEST)  # type: ignore[misc]
        assert words in str(caught.value)


def test_what_the_registry_lacks_is_compiled_just_in_time_and_noted() -> None:
    dispatcher = Dispatcher(some_registry(), GFX942)
    found = dispatcher.select("gemm", **REQUEST, dtype="bf16")
    assert found.kernel.spec == GEMM.spec(GEMM.problem(**REQUEST, dtype="bf16"), GFX942)
    assert (found.rule, found.fitting) == (JUST_IN_TIME, 0)
    dispatcher.select("gemm", **REQUEST, dtype="bf16")
    assert dispatcher.misses == {request_of(GEMM, {**REQUEST, "dtype": "bf16"}, GFX942): 1}


@pytest.mark.parametrize(("make", "words"), [
    (lambda: Dispatcher(None, GFX942), "Dispatcher takes a Registry as registry, not None"),
    (lambda: Dispatcher(some_registry(), "gfx942"), r"takes a Target as target, not 'gfx942'; get_target\(name\)"),
    (lambda: Dispatcher(some_registry(), GFX942, None), "Dispatcher takes .* as policy, not None"),
    (lambda: Dispatcher(some_registry(), GFX942, "first"), "Dispatcher takes .* as policy, not 'first'"),
    (lambda: Dispatcher(some_registry(), GFX942, lambda query, fitting: 42).select("gemm", **REQUEST),
     "policy <lambda> answers 42; expected a kernel, an identifier, several of them, or None"),
    (lambda: Dispatcher(some_registry(), GFX942).select(None, **REQUEST), "None"),
    (lambda: Registry(["gemm"]), "Registry takes several kernels as kernels, not 'gemm'"),
    (lambda: Registry().add(next(iter(some_registry())), priority="high"), "priority=high: expected a whole number"),
])  # fmt: skip
def test_what_is_no_dispatcher_and_no_registry(make: Any, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        make()


def test_strict_dispatchers_refuse_what_is_not_there() -> None:
    dispatcher = Dispatcher(some_registry(), GFX942, strict=True)
    assert dispatcher.select("gemm", **REQUEST).strict
    with pytest.raises(NoKernel) as caught:
        dispatcher.select("gemm", **REQUEST, dtype="bf16")
    text = str(caught.value)
    assert text.startswith("no kernel of registry blocks computes this gemm on gfx942, and a strict dispatcher ")
    assert "the nearest is gemm_f16" in text
    assert "\n" not in text
    assert len(dispatcher.misses) == 1


def test_strict_dispatchers_need_the_kernels_of_all_steps() -> None:
    request = {"m": 64, "n": 64, "k": 512, "split_k": 4}
    problem = GEMM.problem(**request)
    own = Kernel(GEMM, GEMM.spec(problem, GFX942), GFX942)
    registry = Registry([own])
    steps = Dispatcher(registry, GFX942).select("gemm", **request).plan().kernels
    assert [step.operator.name for step in steps] == ["gemm", "sum_parts"]
    with pytest.raises(NoKernel, match="gemm also takes sum_parts/gfx942/sum_parts_f32_f16"):
        Dispatcher(registry, GFX942, strict=True).select("gemm", **request)
    registry.add(Kernel(steps[1].operator, steps[1].spec, GFX942))
    assert Dispatcher(registry, GFX942, strict=True).select("gemm", **request).kernel == own


def test_strict_selections_run_only_what_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from ckmlir.runtime import compile_cache

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CKMLIR_CACHE", "on")
    compile_cache.forget()
    softmax = find_operator("softmax")
    kernel = Kernel(softmax, softmax.spec(softmax.problem(m=3, n=8), GFX942), GFX942)
    found = Dispatcher(Registry([kernel]), GFX942, strict=True).select("softmax", m=3, n=8)
    with closing(open_device("sim", GFX942)) as device:
        with pytest.raises(NoKernel, match=r"softmax_f16_.* for gfx942 is not compiled, and may not be: strict"):
            found.executable(device)
        compile_cache.compile_cached(softmax, kernel.spec, GFX942)
        found.executable(device).close()


def test_selections_are_remembered_until_kernels_come() -> None:
    registry = some_registry()
    dispatcher = Dispatcher(registry.filter(where=lambda one: block(one) == 32), GFX942, SizeBuckets("m"))
    first = dispatcher.select("gemm", **REQUEST)
    assert dispatcher.select("gemm", **REQUEST) is first
    assert block(first.kernel) == 32
    dispatcher.registry.merge(registry)
    assert block(dispatcher.select("gemm", **REQUEST).kernel) == 128


def test_kernels_that_come_while_one_is_chosen_are_not_forgotten() -> None:
    """As another thread adds one, and selects something: what was chosen without it is not remembered."""
    registry = some_registry()
    late = list(registry)[2]
    early = registry.filter(where=lambda one: one is not late)

    def slow(query: Query, fitting: Sequence[Kernel]) -> Kernel:
        if query.value("m") == 100 and late not in early:
            early.add(late, priority=1)
            dispatcher.select("gemm", **{**REQUEST, "m": 10})
        return fitting[0]

    dispatcher = Dispatcher(early, GFX942, slow)
    assert dispatcher.select("gemm", **REQUEST).kernel is not late
    assert dispatcher.select("gemm", **REQUEST).kernel is late


def test_among_ten_thousand_kernels() -> None:
    """A kernel by its identifier, and for a request that came before, within 50 µs."""
    known, registry = GEMM.spec(GEMM.problem(**REQUEST, dtype="bf16"), GFX942), some_registry()
    for number in range(10_000 - len(registry)):
        registry.add(Kernel(GEMM, replace(known, waves=(1 + number, 1)), GFX942))
    dispatcher, last = Dispatcher(registry, GFX942, SizeBuckets("m")), registry.entries()[-1].kernel
    assert len(registry) == 10_000
    assert registry.get(last.identifier) is last
    assert block(dispatcher.select("gemm", **REQUEST).kernel) == 128
    for once in (lambda: registry.get(last.identifier), lambda: dispatcher.select("gemm", **REQUEST)):
        assert min(timeit.repeat(once, number=100, repeat=10)) / 100 < 50e-6


def test_values_that_are_equal_but_mean_something_else_are_read_anew() -> None:
    dispatcher = Dispatcher(some_registry(), GFX942)
    dispatcher.select("gemm", m=1, n=70, k=72)
    with pytest.raises(RequestError, match="m=True: expected a whole number"):
        dispatcher.select("gemm", m=True, n=70, k=72)
    with pytest.raises(RequestError, match=r"m=1.0: expected a whole number"):
        dispatcher.select("gemm", m=1.0, n=70, k=72)


def test_lists_and_arrays_among_the_keys() -> None:
    dispatcher = Dispatcher(Registry(), GFX942)
    first = dispatcher.select("reduce", shape=[4, 70], dims=(1,))
    assert dispatcher.select("reduce", shape=[4, 70], dims=(1,)) is first
    assert dispatcher.select("reduce", shape=np.array([4, 71]), dims=[1]) is not first
    with pytest.raises(RequestError, match="shape"):
        dispatcher.select("reduce", shape=[4, -1])


def has_plan(operator: Operator[Any, Any], problem: Any) -> bool:
    """Whether its steps take what is left to them; sums by memory of an odd number of elements of 16 bits, for one, do
    not."""
    try:
        make_plan(operator, problem, GFX942)
    except RequestError:
        return False
    return True


@pytest.mark.parametrize("name", NAMES)
def test_every_operator_is_dispatched(name: str) -> None:
    """Requests with few keys, by a registry of what they choose, strictly."""
    operator = find_operator(name)
    for problem in problems(operator, 3):
        spec = operator.spec(problem, GFX942)
        if operator.validate(spec, GFX942) or not has_plan(operator, problem):
            continue
        dispatcher = Dispatcher(Registry([Kernel(operator, spec, GFX942)]), GFX942)
        found = dispatcher.choose(Query(operator, problem, GFX942, {}))
        assert (found.kernel.spec, found.rule) == (spec, "first fit")
        own = [step for step in map(described, found.plan().steps) if step.get("own")]
        assert all(step["spec"] == spec.to_dict() for step in own)


def test_the_chosen_kernel_runs_and_is_right() -> None:
    dispatcher = Dispatcher(some_registry(), GFX942, SizeBuckets("m"))
    for m in (20, 100):
        chosen = dispatcher.select("gemm", **{**REQUEST, "m": m})
        problem = chosen.query.problem
        arrays = GEMM.inputs(problem, GFX942, seed=2)
        c = np.empty((m, 70), np.float16)
        with closing(open_device("sim", GFX942, checks="all")) as device, closing(chosen.executable(device)) as run:
            assert run.spec == chosen.kernel.spec
            run(**arrays, c=c)
        assert all(one.ok for one in check_outputs(GEMM, problem, arrays, {"c": c}, GFX942))


def test_the_model_of_time_chooses_the_fastest() -> None:
    registry = some_registry()
    policy = FastestByModel(most=2)
    found = Dispatcher(registry, GFX942, policy).select("gemm", m=64, n=64, k=64)
    assert found.rule == "model of time"
    (first, fast), (second, slow) = sorted(policy.microseconds.items(), key=lambda one: one[1])
    assert {first[0], second[0]} == set(list(registry)[:2])
    assert found.kernel == first[0]
    assert 0 < fast < slow
    nothing = Dispatcher(registry, GFX942, policy).select("gemm", m=0, n=64, k=64)
    assert (nothing.rule, nothing.passed) == ("first fit", ("model of time",))
