"""Functions that users call, with an argument that is something else: an error of the package says so."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec import Struct

from ckmlir.compiler import compile_kernel, compile_scheduled
from ckmlir.dispatch import (
    Dispatcher,
    Identifier,
    Kernel,
    Library,
    MissLog,
    Query,
    Registry,
    SizeBuckets,
    Space,
    Table,
    expand,
    read_misses,
    read_records,
    read_spaces,
    request_of,
    space,
    tuned_registry,
    tuned_table,
)
from ckmlir.errors import CkmlirError, as_annotated, check_fields
from ckmlir.nn import Session
from ckmlir.ops import OPERATORS, find_operator
from ckmlir.ops.operator import ASKED
from ckmlir.ops.request import RequestError
from ckmlir.runtime import download, empty, open_device, run_operator, upload
from ckmlir.runtime.executable import Executable
from ckmlir.targets import get_target

if TYPE_CHECKING:
    from decimal import Decimal

GEMM, GFX942 = find_operator("gemm"), get_target("gfx942")
KEYS = {"m": 64, "n": 64, "k": 64}
PROBLEM = GEMM.problem(**KEYS)
SPEC = GEMM.spec(PROBLEM, GFX942)
KERNEL = Kernel(GEMM, SPEC, GFX942)
REGISTRY = Registry([KERNEL])
DEVICE = open_device("sim", GFX942)
NONE = Path("there", "is", "none")
FITTING = {"operator": GEMM, "problem": PROBLEM, "target": GFX942}

WRONG = (
    None, 3, -1, "gemm\n", [], [1], [None], float("nan"), 1e300, 10**40, object(), {}, {"a": 1}, b"x", np.ones(3), int,
    np.zeros((2, 2)),
)  # fmt: skip

FUNCTIONS: dict[str, tuple[Callable[..., object], Mapping[str, object]]] = {
    "find_operator": (find_operator, {"name": "gemm"}),
    "get_target": (get_target, {"name": "gfx942"}),
    "problem": (GEMM.problem, {**KEYS, "dtype": "f16", "block": (64, 64, 64), "schedule": "compv3"}),
    "Kernel": (Kernel, {"operator": GEMM, "spec": SPEC, "target": GFX942}),
    "Kernel.against": (KERNEL.against, {"problem": PROBLEM}),
    "Kernel.from_dict": (Kernel.from_dict, {"values": KERNEL.to_dict(), "older": False}),
    "Identifier": (Identifier, {"operator": "gemm", "target": "gfx942", "name": "x", "digest": "0"}),
    "Identifier.parse": (Identifier.parse, {"text": KERNEL.identifier}),
    "Registry": (Registry, {"kernels": [KERNEL], "name": "a", "priority": 0}),
    "Registry.add": (REGISTRY.add, {"kernel": KERNEL, "priority": 0}),
    "Registry.merge": (REGISTRY.merge, {"other": Registry(), "priority": 1}),
    "Registry.filter": (REGISTRY.filter, {"operator": "gemm", "target": "gfx942", "where": callable, "name": "z"}),
    "Registry.get": (REGISTRY.get, {"identifier": KERNEL.identifier}),
    "Registry.entries": (REGISTRY.entries, {"in_order_of_addition": True}),
    "Registry.fitting": (REGISTRY.fitting, FITTING),
    "Registry.search": (lambda **given: list(REGISTRY.search(**given)), FITTING),
    "Registry.explain": (REGISTRY.explain, FITTING),
    "Registry.uncovered": (REGISTRY.uncovered, {"operator": GEMM, "problems": [PROBLEM], "target": GFX942}),
    "Registry.from_dict": (Registry.from_dict, {"values": REGISTRY.to_dict(), "partial": False}),
    "Space": (
        lambda **given: Space(**given).expand(),
        {"operator": GEMM, "targets": (GFX942,), "keys": {"m": (64,)}, "algorithm": {"block": ((64, 64, 64),)}},
    ),
    "Space.from_dict": (Space.from_dict, {"values": {"schema": 1, "op": "gemm", "arch": "gfx942"}}),
    "space": (space, {"operator": GEMM, "problem": KEYS, "target": GFX942}),
    "expand": (expand, {"spaces": [Space(GEMM, (GFX942,), {"m": (64,)}, {"block": ((64, 64, 64),)})]}),
    "read_spaces": (read_spaces, {"path": NONE}),
    "read_misses": (read_misses, {"path": NONE}),
    "read_records": (read_records, {"path": NONE}),
    "Library.load": (Library.load, {"path": NONE}),
    "MissLog": (MissLog, {"path": NONE}),
    "MissLog.note": (MissLog(NONE).note, {"operator": GEMM, "keys": KEYS, "target": GFX942}),
    "tuned_table": (tuned_table, {"records": []}),
    "tuned_registry": (tuned_registry, {"records": []}),
    "request_of": (request_of, {"operator": GEMM, "keys": KEYS, "target": GFX942}),
    "Query": (lambda **given: Query(**given).value("m"), {**FITTING, "keys": KEYS}),
    "Query.value": (Query(GEMM, PROBLEM, GFX942, KEYS).value, {"name": "m"}),
    "SizeBuckets": (
        lambda **given: Dispatcher(REGISTRY, GFX942, SizeBuckets(**given)).select("gemm", **KEYS),
        {"key": "m", "field": "block", "place": 0, "operator": "gemm", "name": "buckets"},
    ),
    "Table": (Table, {"rows": {request_of(GEMM, KEYS, GFX942): KERNEL.identifier}}),
    "Dispatcher": (Dispatcher, {"registry": REGISTRY, "target": GFX942, "policy": (), "strict": False}),
    "Dispatcher.select": (lambda one: Dispatcher(REGISTRY, GFX942).select(one, **KEYS), {"one": "gemm"}),
    "Dispatcher.choose": (Dispatcher(REGISTRY, GFX942).choose, {"query": Query(GEMM, PROBLEM, GFX942, KEYS)}),
    "Selection.plan": (Dispatcher(REGISTRY, GFX942).select("gemm", **KEYS).plan, {"compute_units": 304}),
    "open_device": (open_device, {"kind": "sim", "target": GFX942, "checks": "memory"}),
    "Session": (Session, {"target": "gfx942", "device": DEVICE, "dispatcher": Dispatcher(REGISTRY, GFX942)}),
    "empty": (empty, {"device": DEVICE, "shape": (4,), "dtype": "float32"}),
    "upload": (upload, {"device": DEVICE, "array": np.ones(4)}),
    "download": (download, {"device": DEVICE, "array": empty(DEVICE, (4,), "float32")}),
    "Executable": (Executable, {"device": DEVICE, **FITTING, "spec": SPEC}),
    "run_operator": (
        run_operator, {**FITTING, "arrays": GEMM.inputs(PROBLEM, GFX942), "device": DEVICE, "spec": SPEC},
    ),
    "compile_kernel": (
        compile_kernel,
        {"operator": GEMM, "spec": SPEC, "target": GFX942, "keep": ("all",), "print_after": ("none",)},
    ),
    "compile_scheduled": (
        compile_scheduled,
        {"operator": GEMM, "spec": SPEC, "target": GFX942, "added": {"there": ()}},
    ),
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_argument_of_another_kind_is_refused_or_does(name: str) -> None:
    function, right = FUNCTIONS[name]
    for what in right:
        for wrong in (one for one in WRONG if not (callable(one) and what == "where")):
            try:
                function(**{**right, what: wrong})
            except CkmlirError as error:
                assert str(error) and len(str(error)) < 700
            except Exception as error:
                raise AssertionError(f"{name}({what}={wrong!r}): {error!r}") from error


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_say_what_they_were_given_wrong(name: str) -> None:
    operator = find_operator(name)
    problem = operator.problem()
    target = get_target("gfx950")
    right = {"problem": problem, "spec": operator.spec(problem, target), "target": target}
    refused = set()
    for method in sorted(ASKED - {"inputs"}):
        function = getattr(operator, method)
        needed = [one.name for one in inspect.signature(function).parameters.values() if one.default is one.empty]
        for what in needed if right.keys() >= set(needed) else ():
            for wrong in (None, "gfx942", GEMM):
                try:
                    list(function(**{one: wrong if one == what else right[one] for one in needed}) or ())
                except CkmlirError:
                    refused.add(what)
                except TypeError as error:  # its result is not a list
                    assert "object is not iterable" in str(error), (method, what, error)
    assert "problem" in refused


def test_a_method_that_takes_no_operator_is_left_as_it_is() -> None:
    class Free(type(GEMM)):  # type: ignore[misc]
        @staticmethod
        def flops(problem: Any) -> int:
            return int(problem.m)

    assert Free().flops(PROBLEM) == Free.flops(PROBLEM) == PROBLEM.m


@pytest.mark.parametrize(("m", "words"), [([1], r"m=\[1\]: exp"), ([], r"m=\[\]: exp"), (True, "m=True: exp")])
def test_a_list_of_one_is_not_shown_as_a_number(m: object, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        GEMM.problem(m=m)


def test_what_an_operator_gets_wrong_itself_stays_as_it_is() -> None:
    with pytest.raises(TypeError, match="missing 1 required"):
        GEMM.spec(PROBLEM)
    with pytest.raises(RequestError, match=r"gemm: a chip is what get_target\('gfx942'\) gives, got 'gfx942'"):
        GEMM.spec(PROBLEM, "gfx942")


@pytest.mark.parametrize(("call", "words"), [
    (lambda f: f(1.5), "f takes a whole number as n, not 1.5"),
    (lambda f: f(True), "f takes a whole number as n, not True"),
    (lambda f: f(n="3"), "f takes a whole number as n, not '3'"),
    (lambda f: f(1, names="ab"), None),
    (lambda f: f(1, names=["a", 3]), "f takes several strs as names, not 3"),
    (lambda f: f(1, names=3), "f takes several strs as names, not 3"),
    (lambda f: f(1, sizes={"a": 2.5}), "f takes a mapping to a whole number as sizes, not a dict"),
    (lambda f: f(1, sizes=[2]), "f takes a mapping to a whole number as sizes, not a list"),
    (lambda f: f(1, path=b"x"), "f takes a path as path, not a bytes"),
    (lambda f: f(1, call=3), "f takes a function as call, not 3"),
    (lambda f: f(1, unknown=object()), None),
    (lambda f: f(1, pair=(1,)), None),
    (lambda f: f(1, many=(1, None)), "f takes a sequence of whole numbers as many, not None"),
])  # fmt: skip
def test_annotations_are_the_rule(call: Callable[[Any], object], words: str | None) -> None:
    @as_annotated(CkmlirError)
    def f(
        n: int, names: Iterable[str] = (), sizes: Mapping[str, int] | None = None, path: Path = NONE,
        call: Callable[[], int] | None = None, unknown: Decimal | None = None, pair: tuple[int, int] = (1, 2),
        many: Sequence[int] = (), some: Collection[object] = (),
    ) -> Path:  # fmt: skip
        return path

    f.__wrapped__.__qualname__ = "f"  # type: ignore[attr-defined]
    assert f(1, path="a") == Path("a") and f(np.int64(1), iter("a"), many=np.arange(2)) == NONE  # type: ignore
    if words is None:
        call(f)
        return
    with pytest.raises(CkmlirError) as raised:
        call(f)
    assert str(raised.value) == words


def test_threads_may_call_a_function_first() -> None:
    """What its annotations ask for is read once or several times, never half."""
    def call(function: Callable[[int, str, Sequence[int]], int], start: Barrier) -> int:
        start.wait()
        return function(1, "a", (1,))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(300):

                @as_annotated(CkmlirError)
                def f(n: int, text: str, many: Sequence[int]) -> int:
                    return n

                start = Barrier(4)
                assert [one.result() for one in [pool.submit(call, f, start) for _ in range(4)]] == [1] * 4
    finally:
        sys.setswitchinterval(before)


def test_a_record_checks_its_fields() -> None:
    class Pair(Struct, frozen=True):
        left: int
        right: str | None = None

        def __post_init__(self) -> None:
            check_fields(self, RequestError)

    globals()["Pair"] = Pair
    assert Pair(1).left == 1 and Pair(1, "a").right == "a"
    with pytest.raises(RequestError, match=r"^Pair takes text as right, not 3$"):
        Pair(1, 3)  # type: ignore[arg-type]
